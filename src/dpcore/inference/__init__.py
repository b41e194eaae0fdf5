"""Private inference: means, sparse means and linear regression of a table, and answers to adaptively chosen queries.

The number of records is public: neighbouring data sets differ by the value of one record. Sums are exact (`dpcore.sums`), so that the
sensitivities hold in the arithmetic that is used. docs/inference.md.
"""

from dpcore.inference.adaptive import AdaptiveQueries
from dpcore.inference.means import MeanEstimate, SparseMeanEstimate, mean, sparse_mean
from dpcore.inference.regression import RegressionEstimate, linear_regression

__all__ = ["AdaptiveQueries", "MeanEstimate", "RegressionEstimate", "SparseMeanEstimate", "linear_regression", "mean", "sparse_mean"]
