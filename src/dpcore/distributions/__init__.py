"""Releases of whole distributions under pure differential privacy: histograms, orthogonal series, and exponential mechanisms.

Records lie in declared bounds; neighbouring data sets differ by the value of one record. The mechanisms are those of Wasserman & Zhou
(2010), with corrected constants. docs/distributions.md has a guide.
"""

from dpcore.distributions._base import Release
from dpcore.distributions._boxes import Box
from dpcore.distributions._cells import Cells
from dpcore.distributions._results import DrawsRelease, HistogramRelease
from dpcore.distributions.balls import ks_accuracy_bound, small_ball_probability
from dpcore.distributions.bands import CdfBand, DensityBand
from dpcore.distributions.convergence import Consistency, Informative, consistency
from dpcore.distributions.dirichlet import dirichlet_histogram, least_prior
from dpcore.distributions.distances import kl_divergence, ks_distance, squared_l2_distance
from dpcore.distributions.exponential import SeriesDrawsRelease, exponential_density, l2_exponential
from dpcore.distributions.ks import ks_exponential
from dpcore.distributions.mean import MeanRelease, exponential_mean
from dpcore.distributions.perturbed import perturbed_histogram, perturbed_masses
from dpcore.distributions.series import SeriesRelease, orthogonal_series
from dpcore.distributions.series_balls import l2_accuracy_bound, l2_small_ball_probability, series_covariance
from dpcore.distributions.smoothed import least_smoothing, smoothed_histogram
from dpcore.distributions.tuning import (
    Rate,
    Tuning,
    ks_exponential_draws,
    l2_exponential_draws,
    orthogonal_series_terms,
    perturbed_histogram_bins,
    rate,
    smoothed_histogram_ks,
    smoothed_histogram_l2,
)

__all__ = [
    "Box",
    "CdfBand",
    "Cells",
    "Consistency",
    "DensityBand",
    "DrawsRelease",
    "HistogramRelease",
    "Informative",
    "MeanRelease",
    "Rate",
    "Release",
    "SeriesDrawsRelease",
    "SeriesRelease",
    "Tuning",
    "consistency",
    "dirichlet_histogram",
    "exponential_density",
    "exponential_mean",
    "kl_divergence",
    "ks_accuracy_bound",
    "ks_distance",
    "ks_exponential",
    "ks_exponential_draws",
    "l2_accuracy_bound",
    "l2_exponential",
    "l2_exponential_draws",
    "l2_small_ball_probability",
    "least_prior",
    "least_smoothing",
    "orthogonal_series",
    "orthogonal_series_terms",
    "perturbed_histogram",
    "perturbed_histogram_bins",
    "perturbed_masses",
    "rate",
    "series_covariance",
    "small_ball_probability",
    "smoothed_histogram",
    "smoothed_histogram_ks",
    "smoothed_histogram_l2",
    "squared_l2_distance",
]


def __dir__() -> list[str]:
    return __all__
