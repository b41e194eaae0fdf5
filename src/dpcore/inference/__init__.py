"""Private inference: means, covariances, quantiles, regression, tests of distributions, and answers to adaptively chosen queries.

Neighbouring data sets differ by the value of one record; the number of records is public. Sums are exact (`dpcore.sums`), so the
sensitivities hold for the computed numbers. docs/inference.md has a guide.
"""

from dpcore.inference.adaptive import AdaptiveQueries
from dpcore.inference.covariances import CovarianceEstimate, covariance
from dpcore.inference.distribution_tests import (
    TestOutcome,
    identity_test,
    sample_size_needed,
    sample_size_order,
    sign_separation,
    uniformity_test,
)
from dpcore.inference.functional import FunctionalEstimate, functional_regression
from dpcore.inference.generalization import generalization_error
from dpcore.inference.lipschitz_test import lipschitz_uniformity_test
from dpcore.inference.lower_bounds import MeanLowerBound, mean_lower_bound
from dpcore.inference.means import MeanEstimate, SparseMeanEstimate, mean, sparse_mean
from dpcore.inference.order_statistics import QuantileEstimate, quantiles
from dpcore.inference.record_bounds import sample_size_lower_bound
from dpcore.inference.regression import RegressionEstimate, linear_regression

__all__ = [
    "AdaptiveQueries",
    "CovarianceEstimate",
    "FunctionalEstimate",
    "MeanEstimate",
    "MeanLowerBound",
    "QuantileEstimate",
    "RegressionEstimate",
    "SparseMeanEstimate",
    "TestOutcome",
    "covariance",
    "functional_regression",
    "generalization_error",
    "identity_test",
    "linear_regression",
    "lipschitz_uniformity_test",
    "mean",
    "mean_lower_bound",
    "quantiles",
    "sample_size_lower_bound",
    "sample_size_needed",
    "sample_size_order",
    "sign_separation",
    "sparse_mean",
    "uniformity_test",
]


def __dir__() -> list[str]:
    return __all__
