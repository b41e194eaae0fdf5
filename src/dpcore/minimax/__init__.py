"""Estimation under local privacy with proven error bounds, for numbers such as a mean with heavy tails or a density at a point.

You state what you assume about the records (a `Model`). The module finds the best yes-or-no question to ask about each record
(`optimal_channel`), estimates from the private answers (`BinarySearchEstimator`, `LinearEstimator`), bounds the error for every
distribution of the model, and computes a risk that no private method can go below (`lower_bound`).

Source: Steinberger (2019), chapters 2 and 3; Rohde & Steinberger (2020).
"""

from dpcore.minimax import losses
from dpcore.minimax.adaptive.location import TwoStageEstimate, TwoStageMean
from dpcore.minimax.adaptive.several import SeveralEstimates, SeveralFunctionals
from dpcore.minimax.adaptive.smoothness import AdaptiveDensity, AdaptiveDensityEstimate
from dpcore.minimax.designs.advice import Advice, Option, advise
from dpcore.minimax.designs.best import BestLinear, LinearCertificate, best_linear
from dpcore.minimax.designs.channel_mean import ChannelMean, ChannelMeanOnModel
from dpcore.minimax.designs.clipped import clipped_response
from dpcore.minimax.designs.fixed import best_values
from dpcore.minimax.linear.estimator import LinearEstimator, LinearOnModel
from dpcore.minimax.linear.ready_made import covariance, density_at, event_probability, truncated_moment, uniform_scale
from dpcore.minimax.losses import Loss, loss_constant
from dpcore.minimax.risk.exact import exact_risk
from dpcore.minimax.risk.simulation import SimulatedRisk, draw_counts, simulate_risk
from dpcore.minimax.risk.worst import WorstDistribution, worst_distribution
from dpcore.minimax.search.estimator import BinarySearchEstimator
from dpcore.minimax.search.given_channel import (
    ChannelLowerBound,
    ChannelUpperBound,
    channel_lower_bound,
    channel_upper_bound,
    indistinguishable_difference,
    indistinguishable_radius,
    reports_testing_affinity,
)
from dpcore.minimax.spaces.bounds import UpperBound, upper_bound
from dpcore.minimax.spaces.channels import Certificate, OptimalChannel, optimal_channel
from dpcore.minimax.spaces.contraction import contraction_bound
from dpcore.minimax.spaces.densities import DensityLevel, channel_densities, density_level
from dpcore.minimax.spaces.distances import apply, dp_level, hellinger, hellinger_affinity, kl, testing_affinity, tv
from dpcore.minimax.spaces.hypotheses import MinimaxTest, ModelAffinity, affinity_of_models, minimax_test
from dpcore.minimax.spaces.lower_bounds import LowerBound, lower_bound
from dpcore.minimax.spaces.models import Model
from dpcore.minimax.spaces.moduli import Modulus, modulus_hellinger, modulus_tv
from dpcore.minimax.spaces.products import Bounds, kl_terms, tv_of_products

__all__ = [
    "AdaptiveDensity",
    "AdaptiveDensityEstimate",
    "Advice",
    "BestLinear",
    "BinarySearchEstimator",
    "Bounds",
    "Certificate",
    "ChannelLowerBound",
    "ChannelMean",
    "ChannelMeanOnModel",
    "ChannelUpperBound",
    "DensityLevel",
    "LinearCertificate",
    "LinearEstimator",
    "LinearOnModel",
    "Loss",
    "LowerBound",
    "MinimaxTest",
    "Model",
    "ModelAffinity",
    "Modulus",
    "OptimalChannel",
    "Option",
    "SeveralEstimates",
    "SeveralFunctionals",
    "SimulatedRisk",
    "TwoStageEstimate",
    "TwoStageMean",
    "UpperBound",
    "WorstDistribution",
    "advise",
    "affinity_of_models",
    "apply",
    "best_linear",
    "best_values",
    "channel_densities",
    "channel_lower_bound",
    "channel_upper_bound",
    "clipped_response",
    "contraction_bound",
    "covariance",
    "density_at",
    "density_level",
    "dp_level",
    "draw_counts",
    "event_probability",
    "exact_risk",
    "hellinger",
    "hellinger_affinity",
    "indistinguishable_difference",
    "indistinguishable_radius",
    "kl",
    "kl_terms",
    "loss_constant",
    "losses",
    "lower_bound",
    "minimax_test",
    "modulus_hellinger",
    "modulus_tv",
    "optimal_channel",
    "reports_testing_affinity",
    "simulate_risk",
    "testing_affinity",
    "truncated_moment",
    "tv",
    "tv_of_products",
    "uniform_scale",
    "upper_bound",
    "worst_distribution",
]


def __dir__() -> list[str]:
    return __all__
