"""Programs in the manner of diffprivlib's notebooks: with two lines above them they print what they print without.

They print what does not depend on noise: types, shapes, budgets, and whether an accuracy is as high as it must be at a generous ε.
"""

from __future__ import annotations

import pytest

pytest.importorskip("diffprivlib", reason="make test-interop PEER=diffprivlib")

from support.tutorials import said

LINES = ("from dpcore.interop import diffprivlib as backend", "backend.install(vectorise=True)")
PROGRAMS = {
    "flowers, a classifier and a loop over budgets": """
from diffprivlib.models import GaussianNB
from sklearn import datasets
from sklearn.model_selection import train_test_split

flowers = datasets.load_iris()
train, test, known, truth = train_test_split(flowers.data, flowers.target, test_size=0.2, random_state=3)
bounds = ([4.3, 2.0, 1.1, 0.1], [7.9, 4.4, 6.9, 2.5])
for epsilon in (0.01, 1.0, 1000.0):
    model = GaussianNB(bounds=bounds, epsilon=epsilon).fit(train, known)
    print(type(model.score(test, truth)), model.predict(test).dtype, model.theta_.shape, repr(model))
print(model.score(test, truth) > 0.8)
""",
    "a budget": """
import numpy as np
from diffprivlib import BudgetAccountant
from diffprivlib.tools import histogram, mean, sum, var
from diffprivlib.utils import BudgetError

ages = np.random.default_rng(1).integers(18, 90, 1000)
with BudgetAccountant(epsilon=3.0) as spent:
    found = [mean(ages, epsilon=1.0, bounds=(18, 90)), var(ages, epsilon=0.5, bounds=(18, 90))]
    found.append(sum(ages, epsilon=0.5, bounds=(18, 90), dtype=int))
    print([type(one) for one in found], spent.total(), len(spent))
    by_column = mean(ages.reshape(100, 10), epsilon=0.5, bounds=(18, 90), axis=0)
    print(by_column.shape, by_column.dtype, spent.total(), len(spent), spent.remaining())
    try:
        histogram(ages, epsilon=1.0, range=(18, 90))
    except BudgetError as error:
        print(error)
print(spent.total(), len(spent))
""",
    "plots of counts": """
import numpy as np
from diffprivlib import tools

rng = np.random.default_rng(1)
ages, incomes = rng.integers(18, 90, 5000), rng.lognormal(10, 1, 5000)
counts, edges = tools.histogram(ages, epsilon=1.0, bins=8, range=(18, 90))
print(counts.dtype, counts.shape, edges.tolist(), abs(int(counts.sum()) - 5000) < 400)
shares, _ = tools.histogram(ages, epsilon=1.0, bins=8, range=(18, 90), density=True)
print(shares.dtype, round(float((shares * np.diff(edges)).sum()), 9))
table, x, y = tools.histogram2d(ages, incomes, epsilon=1.0, bins=(4, 6), range=[(18, 90), (0, 100_000)])
print(table.dtype, table.shape, len(x), len(y))
print(tools.histogram(ages, epsilon=float("inf"), range=(18, 90))[0].tolist() == np.histogram(ages, range=(18, 90))[0].tolist())
print([type(tools.count_nonzero(ages > 40, epsilon=1.0)), tools.median(ages, epsilon=1.0, bounds=(18, 90)).dtype])
""",
    "a pipeline, a line, clusters and trees": """
import warnings

import numpy as np
from diffprivlib import models
from sklearn import datasets
from sklearn.base import clone
from sklearn.pipeline import Pipeline

warnings.simplefilter("ignore")  # of scikit-learn and SciPy, about each other
wine = datasets.load_wine()  # of its 13 columns, three: directions of PCA are drawn by rejection, which takes long for more
data = (wine.data - wine.data.min(axis=0))[:, [0, 6, 9]] / np.ptp(wine.data, axis=0)[[0, 6, 9]]
pipe = Pipeline([
    ("scaler", models.StandardScaler(bounds=(0, 1), epsilon=50.0)),
    ("pca", models.PCA(2, data_norm=2.0, centered=True, epsilon=5.0)),
    ("model", models.LogisticRegression(data_norm=2.0, epsilon=5.0)),
])
pipe.fit(data, wine.target)
pipe.set_params(scaler__epsilon=20.0, pca__epsilon=20.0, model__epsilon=20.0)
print(type(clone(pipe).fit(data, wine.target).score(data, wine.target)), pipe["pca"].components_.shape)
line = models.LinearRegression(epsilon=1000.0, bounds_X=(0, 1), bounds_y=(0, 2)).fit(data, wine.target)
print(line.coef_.shape, line.coef_.dtype, line.score(data, wine.target) > 0.2)
clusters = models.KMeans(3, epsilon=100.0, bounds=(0, 1)).fit(data)
print(clusters.cluster_centers_.shape, clusters.labels_.dtype)
forest = models.RandomForestClassifier(n_estimators=8, epsilon=100.0, bounds=(0, 1), classes=[0, 1, 2], n_jobs=2).fit(data, wine.target)
print(forest.score(data, wine.target) > 0.5, len(forest.estimators_))
""",
    "mechanisms": """
from diffprivlib import mechanisms

laplace = mechanisms.Laplace(epsilon=0.5, sensitivity=1.0)
print(laplace, type(laplace.randomise(3)), laplace.bias(0.0), laplace.variance(0.0))
try:
    laplace.randomise("3")
except TypeError as error:
    print(error)
geometric = mechanisms.GeometricTruncated(epsilon=0.5, lower=0, upper=10)
print({0 <= geometric.randomise(3) <= 10 for _ in range(100)}, type(geometric.randomise(3)))
coin = mechanisms.Binary(epsilon=1.0, value0="yes", value1="no")
print(sorted({coin.randomise("yes") for _ in range(200)}))
best = mechanisms.Exponential(epsilon=200.0, sensitivity=1.0, utility=[1.0, 9.0], candidates=["a", "b"])
print(best.randomise())
print(len({mechanisms.Laplace(epsilon=1.0, sensitivity=1.0, random_state=7).randomise(0.0) for _ in range(5)}))
""",
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_prints_the_same_with_two_lines_more(name: str) -> None:
    before, after = said(PROGRAMS[name]), said(PROGRAMS[name], *LINES)
    assert len(before) >= 4
    assert before == after


def test_a_cell_that_is_run_again_and_processes_of_joblib() -> None:
    """Processes of joblib have diffprivlib alone, unless they begin with `install`."""
    program = """
import joblib
from diffprivlib.models import GaussianNB
from joblib.externals.loky import get_reusable_executor
from sklearn import datasets
from sklearn.model_selection import cross_val_score
from support.diffprivlib_plugin import is_served

print(backend.install(vectorise=True))  # the cell is run again
data, labels = datasets.load_iris(return_X_y=True)
print(is_served(), joblib.Parallel(n_jobs=2)(joblib.delayed(is_served)() for _ in range(2)))
get_reusable_executor().shutdown()
with joblib.parallel_config(backend="loky", initializer=backend.install):
    print(joblib.Parallel(n_jobs=2)(joblib.delayed(is_served)() for _ in range(2)))
    model = GaussianNB(epsilon=1000.0, bounds=([4.3, 2.0, 1.1, 0.1], [7.9, 4.4, 6.9, 2.5]))
    print(cross_val_score(model, data, labels, n_jobs=2).mean() > 0.8)
backend.uninstall()
print(is_served())
"""
    where = f"import sys; sys.path[:0] = {[path for path in __import__('sys').path if path]!r}"
    first, *rest = said(program, where, *LINES)
    assert first.startswith("<Installed in diffprivlib, vectorise=True: ")
    assert rest == ["True [False, False]", "[True, True]", "True", "False"]
