"""Releases on a machine whose mathematical functions have other last bits: `python -m support.last_bits SEED`, run in `tests`.

Exponentials, logarithms and their kin are rounded differently by C libraries, by NumPy's code for each CPU level and by SciPy; only
+, −, ×, ÷ and the square root are the same everywhere. With a seed other than 0 each result of the former that is no whole number becomes
one of its neighbours, at random. Printed are documents of keyed jobs, without what describes errors and not what was released.
"""

from __future__ import annotations

import contextlib
import json
import math
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

OF_MATH = ("exp", "log", "log1p", "expm1", "log2", "log10", "sinh", "cosh", "tanh", "sin", "cos", "tan", "asin", "acos", "atan", "atan2")
OF_MATH = (*OF_MATH, "hypot", "erf", "erfc", "gamma", "lgamma", "pow", "exp2", "cbrt")
OF_NUMPY = ("exp", "log", "log1p", "expm1", "log2", "log10", "sin", "cos", "hypot", "power", "cbrt", "arctan2", "sinc", "logaddexp")
OF_SCIPY = ("ndtri", "ndtr", "log_ndtr", "erfcx", "erfc", "erf", "erfinv", "erfcinv", "gammaln", "betainc", "betaincinv", "xlogy")
OF_SCIPY = (*OF_SCIPY, "logsumexp", "gammainc", "gammaincinv")
ERRORS = ("interval", "rank_error")
"""Keys of answers that are computed by such functions."""
CASES = (
    "gaussian of row",
    "zcdp of person",
    "example daily",
    "running total of numbers",
    "private rows, later",
)


def perturb(seed: int) -> None:
    """Replace the functions, before anything of dpcore is imported."""
    rng = random.Random(seed)

    def moved(value: float) -> float:
        sign = rng.choice((-1, 0, 1))
        return value if not sign or not math.isfinite(value) or value == int(value) else math.nextafter(value, sign * math.inf)

    def replace(module: Any, name: str) -> None:
        exact = getattr(module, name)

        def other(*arguments: Any, **options: Any) -> Any:
            found = exact(*arguments, **options)
            if isinstance(found, np.ndarray):
                return np.reshape([moved(each) for each in found.ravel().tolist()], found.shape)
            return type(found)(moved(float(found)))

        setattr(module, name, other)

    for module, names in ((math, OF_MATH), (np, OF_NUMPY), (special, OF_SCIPY)):
        for name in names:
            if hasattr(module, name):
                replace(module, name)


def kept(value: Any) -> Any:
    """What was released, and what it was released with."""
    if isinstance(value, dict):
        return {key: kept(each) for key, each in value.items() if key not in ERRORS}
    return [kept(each) for each in value] if isinstance(value, list) else value


def totals_of_nested_groups() -> Any:
    """A table of discrete noise, whose numbers are made to add up by the variances of its levels."""
    from dpcore import PrivateTable
    from dpcore.testing import KeyedRandom

    people = {"region": [place % 3 for place in range(600)], "kind": [place * place % 7 for place in range(600)]}
    table = PrivateTable(pd.DataFrame(people), relation="add_remove", rng=KeyedRandom(bytes(range(32))))
    groups = {"region": [0, 1, 2], "kind": [0, 1, 2, 4]}
    levels = {"total": 0.2, "region": 0.3, "kind": 0.5}
    return table.group_by("region", "kind", groups=groups, consistent={"levels": levels}).count(epsilon=1.3).document


def direct_calls() -> dict[str, Any]:
    """Scales and numbers of mechanisms, selections, distributions and local randomisers."""
    from dpcore import _backend, distributions, inference, local, mechanisms, selection
    from dpcore.distributions._series_distance import SeriesDistance
    from dpcore.distributions._tilted_draws import tilt_of
    from dpcore.selection._measure import logarithms
    from dpcore.testing import KeyedRandom

    key, rng = KeyedRandom(bytes(range(32))), np.random.default_rng(3)
    records, vectors, counts = rng.random(500), rng.random((200, 5)) / 2, rng.integers(0, 99, 40)
    found: dict[str, Any] = {}
    for epsilon, delta in ((0.37, 1e-6), (0.19, 1e-9)):
        noise = [
            mechanisms.Laplace(epsilon, 1.3),
            mechanisms.Gaussian(epsilon, delta, 1.3),
            mechanisms.Gaussian(epsilon, delta, 1.3, method="classical"),
            mechanisms.DiscreteLaplace(epsilon, 2),
            mechanisms.DiscreteGaussian(epsilon, delta, 2),
            mechanisms.DiscreteGaussian(epsilon, delta, 1, method="exact"),
        ]
        numbers = [
            *(each.scale for each in noise),
            *(each.release(counts if "Discrete" in type(each).__name__ else records, rng=key) for each in noise[:5]),
            selection.top_s(records, epsilon, 0.1, s=3, delta=delta, method="peeling", values=True, rng=key).values,
            selection.top_s(records, epsilon / 2, 0.1, s=3, delta=delta, method="oneshot_laplace", rng=key).scale,
            distributions.perturbed_histogram(records, epsilon, (0, 1), bins=9, rng=key).masses,
            distributions.smoothed_histogram(records, epsilon, (0, 1), bins=9, draws=20, rng=key).draws,
            distributions.dirichlet_histogram(records, epsilon, (0, 1), bins=9, draws=20, rng=key).draws,
            distributions.orthogonal_series(records, epsilon, (0, 1), terms=4, draws=20, rng=key).draws,
            inference.mean(vectors, epsilon, delta, 2.0, rng=key).value,
            inference.mean(vectors, epsilon, delta, "sqrt_log_n", sigma=0.3, rng=key).radius,
            inference.AdaptiveQueries(records, epsilon, delta, uses=20, rng=key).scale,
            inference.covariance(vectors, epsilon, delta, 2.0, rng=key).value,
            local.LocalGaussian(epsilon, delta, lower=0, upper=1).privatize(records, rng=key),
            local.LocalDiscreteGaussian(epsilon, delta, lower=0, upper=99).privatize(counts, rng=key),
            local.SubsetSelection(epsilon, k=7).privatize(counts % 7, rng=key),
            local.HadamardResponse(epsilon, k=7).privatize(counts % 7, rng=key),
        ]
        found[str(epsilon)] = [np.asarray(each).tolist() for each in numbers]
    # what is chosen depends on the last bits of these numbers once in 2^45 draws, so they are looked at themselves
    found["weights"] = logarithms(records).tolist()
    totals = tuple(_backend.cosine_sums(records, 3, threads=1))
    found["top"] = str(tilt_of(SeriesDistance(totals, len(records), 20, 3, 1.0)).top)
    return found


def main(seed: int) -> None:
    """Print the documents."""
    if seed:
        perturb(seed)
    from support import corpus

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("examples").mkdir()
        found = {name: corpus.documents(name) for name in CASES}
    found |= {"totals": totals_of_nested_groups(), "calls": direct_calls()}
    print(json.dumps({name: kept(document) for name, document in found.items()}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
