"""Releases of whole distributions under pure differential privacy: histograms, orthogonal series, and exponential mechanisms.

Data are records in [0, 1]^r, or in declared bounds that are mapped to it; neighbouring data sets differ by the value of one record.
Wasserman & Zhou (2010), with the constants that hold. docs/distributions.md.
"""

from dpcore.distributions._cells import Box, Cells
from dpcore.distributions._results import DrawsRelease, HistogramRelease, Release
from dpcore.distributions.distances import (
    Consistency,
    consistency,
    ks_accuracy_bound,
    ks_distance,
    small_ball_probability,
    squared_l2_distance,
)
from dpcore.distributions.exponential import SeriesDrawsRelease, exponential_density, l2_exponential
from dpcore.distributions.histograms import (
    dirichlet_histogram,
    least_prior,
    least_smoothing,
    perturbed_histogram,
    perturbed_masses,
    smoothed_histogram,
)
from dpcore.distributions.ks import ks_exponential
from dpcore.distributions.series import SeriesRelease, orthogonal_series
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
    "Cells",
    "Consistency",
    "DrawsRelease",
    "HistogramRelease",
    "Rate",
    "Release",
    "SeriesDrawsRelease",
    "SeriesRelease",
    "Tuning",
    "consistency",
    "dirichlet_histogram",
    "exponential_density",
    "ks_accuracy_bound",
    "ks_distance",
    "ks_exponential",
    "ks_exponential_draws",
    "l2_exponential",
    "l2_exponential_draws",
    "least_prior",
    "least_smoothing",
    "orthogonal_series",
    "orthogonal_series_terms",
    "perturbed_histogram",
    "perturbed_histogram_bins",
    "perturbed_masses",
    "rate",
    "small_ball_probability",
    "smoothed_histogram",
    "smoothed_histogram_ks",
    "smoothed_histogram_l2",
    "squared_l2_distance",
]


def __dir__() -> list[str]:
    return __all__
