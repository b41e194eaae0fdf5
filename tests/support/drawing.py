"""Everything that draws, as calls that give independent outputs: laws, and mixtures of parameters in one call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore import distributions, inference, local, mechanisms, minimax, noise, selection
from dpcore.distributions import _choices, _urn
from dpcore.local._answered import AnsweredMean, AnsweredNumbers
from dpcore.rng import Stream
from dpcore.sums import clamped_sum

Array = npt.NDArray[Any]
GROUP, HALF = 128, 64
TABLE_LIMIT = 8.0
Draw = Callable[[int, int, Stream], Array]
Owner = Callable[[int, int], Array]


def alone(n: int, element: int) -> Array:
    """Every output is an owner of its own."""
    return np.arange(element, element + n)


def by_pairs(n: int, element: int) -> Array:
    """Elements i and i + 64 of a group are the two members of a pair."""
    e = np.arange(element, element + n)
    return e - e % GROUP + e % HALF


@dataclass(frozen=True)
class Drawing:
    """A function and what it is given: `draw(n, element, rng)` gives n outputs, the first for element number `element` of its pattern."""

    name: str
    draw: Draw
    owner: Owner = alone
    numbers: Callable[[Array], Array] = np.asarray
    """The outputs as numbers, one for each, for what compares distributions."""
    places: bool = True
    """Whether a call can begin at any element of a stream."""
    is_local: bool = True
    """Whether outputs are functions of words of their own, and not only independent."""
    cost: int = 1
    """How many times less of it tests should take."""

    def __str__(self) -> str:
        return self.name


def rows_of(outputs: Array) -> Array:
    """Outputs as rows of bytes."""
    flat = np.ascontiguousarray(outputs).reshape(len(outputs), -1)
    return flat.view(np.uint8).reshape(len(outputs), -1)


# Noise

MIXTURES = {
    "small": [2.0],
    "large": [1000.0],
    "tables": [2.0, 7.5, 0.3],
    "pairs": [8.0, 1000.0, 2.0**40],
    "two of three small": [1.0, 1.0, 1000.0],
    "in turn": [2.0, 1000.0],
    "halves of a group": [2.0] * HALF + [1000.0] * HALF,
    "halves, the other way": [1000.0] * HALF + [2.0] * HALF,
    "both sides of the limit": [float(np.nextafter(TABLE_LIMIT, 0)), TABLE_LIMIT, TABLE_LIMIT, 20.0, 0.5],
}


def _pattern(mixture: list[float], n: int, element: int) -> Any:
    if len(mixture) == 1:
        return mixture[0]
    return np.array(mixture)[np.arange(element, element + n) % len(mixture)]


def _noise(kind: str, name: str, mixture: list[float], **options: Any) -> Drawing:
    dtype = np.int64 if kind.startswith("discrete") else np.float64

    def draw(n: int, element: int, rng: Stream) -> Array:
        return getattr(noise, kind)(np.zeros(n, dtype), _pattern(mixture, n, element), rng=rng, **options)  # type: ignore[no-any-return]

    def owner(n: int, element: int) -> Array:
        if kind == "gaussian":
            return by_pairs(n, element)
        small = np.broadcast_to(np.asarray(_pattern(mixture, n, element)) < TABLE_LIMIT, (n,))
        # Elements of a table count from −1 downwards, so that none is a pair's.
        return np.where(small, -1 - alone(n, element), by_pairs(n, element)) if kind == "discrete_gaussian" else alone(n, element)

    return Drawing(f"{kind}, {name}", draw, owner)


def _noises() -> list[Drawing]:
    kinds = ("laplace", "gaussian", "discrete_laplace", "discrete_gaussian")
    cases = [_noise(kind, name, mixture) for kind in kinds for name, mixture in MIXTURES.items()]
    return [*cases, _noise("laplace", "fine grid", [1.99], grid=2.0**-39), _noise("gaussian", "fine grid", [1.99], grid=2.0**-39)]


def _pairs_of_sums(kind: str, scales: list[float]) -> Drawing:
    def draw(n: int, element: int, rng: Stream) -> Array:
        total = clamped_sum(np.zeros((2, n)), -1.0, 1.0)
        return np.atleast_1d(total.noisy(kind, _pattern(scales, n, element), rng=rng))  # type: ignore[arg-type]

    return Drawing(f"sum, {kind}, {len(scales)} scales", draw, by_pairs if kind == "gaussian" else alone)


def _mechanisms() -> list[Drawing]:
    made: dict[str, tuple[Any, Owner, type]] = {
        "Laplace": (mechanisms.Laplace(epsilon=1.0, sensitivity=1.0), alone, np.float64),
        "Gaussian": (mechanisms.Gaussian(epsilon=1.0, delta=1e-6, sensitivity=1.0), by_pairs, np.float64),
        "DiscreteLaplace": (mechanisms.DiscreteLaplace(epsilon=1.0, sensitivity=1), alone, np.int64),
        "DiscreteGaussian small": (mechanisms.DiscreteGaussian(epsilon=2.0, delta=1e-6, sensitivity=1), alone, np.int64),
        "DiscreteGaussian large": (mechanisms.DiscreteGaussian(epsilon=0.1, delta=1e-6, sensitivity=1), by_pairs, np.int64),
    }
    return [
        Drawing(f"mechanism {name}", lambda n, element, rng, m=m, dtype=dtype: m.release(np.zeros(n, dtype), rng=rng), owner)  # type: ignore[misc]
        for name, (m, owner, dtype) in made.items()
    ]


# Local reports


def _local() -> list[Drawing]:
    k = 11
    codes: dict[str, tuple[Any, Callable[[Array], Array]]] = {
        "KaryResponse": (local.KaryResponse(1.0, k=k), np.asarray),
        "FiniteChannel": (local.FiniteChannel([[1 + (x + z) % 5 for z in range(5)] for x in range(k)]), np.asarray),
        "SubsetSelection": (local.SubsetSelection(1.0, k=k), lambda y: np.unpackbits(y, axis=1, bitorder="little") @ np.arange(16)),
        "LocalHashing": (local.LocalHashing(1.0, k=k), lambda y: (y["seed"] >> np.uint64(20)).astype(np.int64) ^ y["code"]),
        "HadamardResponse": (local.HadamardResponse(1.0, k=k), lambda y: 2 * y["row"].astype(np.int64) + y["bit"]),
        "ProjectiveGeometryResponse": (local.ProjectiveGeometryResponse(1.0, k=k), np.asarray),
        "BinaryChannel": (local.BinaryChannel(1.0, [1.0, 0.25, -0.5, -1.0] + [0.0] * (k - 4)), np.asarray),
    }
    additive = {
        "LocalLaplace": (local.LocalLaplace(1.0, lower=0, upper=1), alone),
        "LocalGaussian": (local.LocalGaussian(1.0, 1e-6, lower=0, upper=1), by_pairs),
        "LocalDiscreteLaplace": (local.LocalDiscreteLaplace(1.0, lower=0, upper=10), alone),
        "LocalDiscreteGaussian small": (local.LocalDiscreteGaussian(4.0, 1e-3, lower=0, upper=1), alone),
        "LocalDiscreteGaussian large": (local.LocalDiscreteGaussian(1.0, 1e-6, lower=0, upper=10), by_pairs),
    }
    cases = [
        Drawing(f"local {name}", lambda n, e, rng, m=m: m.privatize(np.arange(e, e + n) % 3, rng=rng), numbers=numbers)  # type: ignore[misc]
        for name, (m, numbers) in codes.items()
    ]
    cases += [
        Drawing(f"local {name}", lambda n, e, rng, m=m: m.privatize(np.arange(e, e + n) % 2, rng=rng), owner)  # type: ignore[misc]
        for name, (m, owner) in additive.items()
    ]
    binary, bounded, quantile = (
        local.BinaryResponse(1.0),
        local.BoundedMean(1.0, lower=0.0, upper=1.0),
        local.SequentialQuantile(1.0, 0, 1, q=0.5),
    )
    cases += [
        Drawing("local BinaryResponse", lambda n, e, rng: binary.privatize(np.arange(e, e + n) % 3 == 0, rng=rng)),
        Drawing("local BoundedMean", lambda n, e, rng: bounded.privatize(np.arange(e, e + n) % 5 / 4, rng=rng)),
        # Records beyond every bound: the answers do not depend on those before.
        Drawing("local SequentialQuantile", lambda n, e, rng: quantile.privatize(np.full(n, -9.0), rng=rng).reports),
    ]
    sample, signs = (local.VectorMean(1.0, lower=0.0, upper=1.0, d=3, method=method) for method in ("sample", "hypercube"))  # type: ignore[arg-type]
    records = lambda n, e: np.stack([np.arange(e + j, e + j + n) % 5 / 4 for j in range(3)], axis=1)  # noqa: E731
    cases += [
        Drawing(
            "local VectorMean", lambda n, e, rng: sample.privatize(records(n, e), rng=rng),
            numbers=lambda y: 2 * y["index"].astype(np.int64) + y["bit"],
        ),
        Drawing(
            "local VectorMean of signs", lambda n, e, rng: signs.privatize(records(n, e), rng=rng), numbers=lambda y: y[:, 0], places=False
        ),
    ]  # fmt: skip
    packed = np.zeros(1, np.uint8)
    cases.append(
        Drawing(
            "local BinaryResponse packed",
            lambda n, e, rng: np.unpackbits(binary.privatize_packed(np.resize(packed, -(-n // 8)), n=n, rng=rng), bitorder="little")[:n],
        )
    )
    return [*cases, *(_unary(variant) for variant in ("optimal", "symmetric")), *_answered()]


def _unary(variant: Any) -> Drawing:
    unary = local.UnaryEncoding(1.0, k=16, method=variant)

    def draw(n: int, element: int, rng: Stream) -> Array:
        records = -(-n // 16)
        return np.unpackbits(unary.privatize(np.arange(records) % 16, rng=rng), axis=1, bitorder="little").reshape(-1)[:n]

    return Drawing(f"local UnaryEncoding {variant}, bit by bit", draw, places=False)


def _answered() -> list[Drawing]:
    """Reports of records of which every third has no answer, as columns with `missing = "skip"` have them: two draws for each record."""
    rounded = AnsweredMean(1.0, 0.0, 1.0)
    noises: dict[str, tuple[Any, Owner]] = {
        "Laplace": (local.LocalLaplace(1.0, lower=0, upper=1), alone),
        "Gaussian": (local.LocalGaussian(1.0, 1e-6, lower=0, upper=1), by_pairs),
        "DiscreteLaplace": (local.LocalDiscreteLaplace(1.0, lower=0, upper=10), alone),
    }

    def records(n: int, element: int, dtype: Any = np.float64) -> tuple[Array, Array]:
        places = np.arange(element, element + n)
        return (places % 2).astype(dtype), places % 3 > 0

    def numbers(name: str, noise: Any, owner: Owner) -> Drawing:
        mechanism = AnsweredNumbers(noise)

        def draw(n: int, element: int, rng: Stream) -> Array:
            """Numbers and bits in turn."""
            reports = mechanism.privatize(records(-(-n // 2), element, mechanism.dtype["value"]), rng=rng)
            return np.stack([reports["value"], reports["answered"]], axis=1).astype(np.float64).ravel()[:n]

        def owners(n: int, element: int) -> Array:
            m = -(-n // 2)
            return np.stack([owner(m, element), -1 - alone(m, element)], axis=1).ravel()[:n]

        return Drawing(f"local, answered {name}", draw, owners)

    return [
        Drawing("local, answered BoundedMean", lambda n, e, rng: rounded.privatize(records(n, e), rng=rng)),
        *(numbers(name, *each) for name, each in noises.items()),
    ]


# Choices and counts


def _chosen() -> list[Drawing]:
    scores = np.array([0.0, 0.1, 0.2, 0.3, 0.0])
    weights = [3, 1, 4, 1, 5]
    winners, partitions = selection.exponential_mechanism, selection.select_partitions
    return [
        Drawing("select_partitions", lambda n, e, rng: partitions(np.arange(e, e + n) % 3 + 8, 1.0, 1e-3, rng=rng)),
        Drawing(
            "select_partitions, a threshold",
            lambda n, e, rng: partitions(np.arange(e, e + n) % 9 + 20, 1.0, 1e-3, max_partitions=8, method="gaussian", rng=rng),
            by_pairs,
        ),
        Drawing("exponential_mechanism, rounds", lambda n, e, rng: winners(scores, 1.0, 1.0, draws=n, rng=rng), places=False),  # type: ignore[return-value]
        Drawing(
            "exponential_mechanism, rounds with a measure",
            lambda n, e, rng: winners(scores, 1.0, 1.0, draws=n, measure=[1.0, 2.0, 1.0, 0.5, 1.0], rng=rng),  # type: ignore[return-value]
            places=False,
        ),
        Drawing("draw_codes", lambda n, e, rng: _choices.draw_codes(weights, n, rng=rng)),
        Drawing("uniform_integers", lambda n, e, rng: _urn.uniform_integers(10**6 + 3, n, rng=rng)),
        Drawing("unit_floats", lambda n, e, rng: _choices.unit_floats((n,), rng=rng)),
        Drawing(
            "draw_counts",
            lambda n, e, rng: minimax.draw_counts([0.2, 0.3, 0.5], n=1000, replicates=n, rng=rng),
            numbers=lambda y: y[:, 0] + 2 * y[:, 1],
            places=False,
        ),
        Drawing("perturbed_masses", lambda n, e, rng: distributions.perturbed_masses(np.full((1, n), 50), 1.0, rng=rng)[0][0]),
        Drawing(
            "perturbed_masses, discrete",
            lambda n, e, rng: distributions.perturbed_masses(np.full((1, n), 50), 1.0, noise="discrete_laplace", rng=rng)[0][0],
        ),
    ]


def _releases() -> list[Drawing]:
    """Outputs that are independent for fixed data, of calls that do more than add noise."""
    x, histogram = np.linspace(0.0, 1.0, 64), distributions.perturbed_histogram(np.linspace(0, 1, 64), 1.0, (0, 1), bins=7)
    series = distributions.orthogonal_series(x, 5.0, (0, 1), terms=3)
    same = local.SequentialChannel(1.0, lambda reports: local.BinaryResponse(1.0))

    def answers(n: int, element: int, rng: Stream) -> Array:
        queries = inference.AdaptiveQueries(x, 0.9, 0.1, uses=n, rng=rng)
        return np.array([queries.answer(lambda values: values * 0) for _ in range(n)])

    def values(n: int, element: int, rng: Stream) -> Array:
        found = selection.top_s(1e9 * np.arange(n, 0, -1), 1.0, 1.0, s=n, values=True, rng=rng)
        return np.asarray(found.values) - 1e9 * np.arange(n, 0, -1)

    calls: dict[str, Draw] = {
        "smoothed_histogram": lambda n, e, rng: distributions.smoothed_histogram(x, 1.0, (0, 1), draws=n, bins=7, rng=rng).draws,
        "sample of a histogram": lambda n, e, rng: histogram.sample(n, rng=rng),
        "sample of a series": lambda n, e, rng: series.sample(n, rng=rng),
        "orthogonal_series, coefficients": lambda n, e, rng: distributions.orthogonal_series(x, 1.0, (0, 1), terms=n, rng=rng).coefficients,
        "mean of vectors": lambda n, e, rng: np.asarray(inference.mean(np.zeros((3, n)), 1.0, 1e-6, 1.0, rng=rng).value),
        "SequentialChannel": lambda n, e, rng: np.array(same.privatize([True] * n, rng=rng)),
        "AdaptiveQueries": answers,
        "top_s, values": values,
    }
    owners, slow = {"mean of vectors": by_pairs}, {"SequentialChannel", "AdaptiveQueries"}
    return [
        Drawing(name, draw, owners.get(name, alone), places=False, is_local=name != "smoothed_histogram", cost=10 if name in slow else 1)
        for name, draw in calls.items()
    ]


def drawings() -> list[Drawing]:
    """All of them."""
    sums = [_pairs_of_sums(kind, scales) for kind in ("laplace", "gaussian") for scales in ([5.0], [5.0, 70.0, 0.1])]
    return [*_noises(), *sums, *_mechanisms(), *_local(), *_chosen(), *_releases()]


def calls_of_several_draws() -> dict[str, Callable[[Stream], object]]:
    """Public functions that take a stream and draw from it more than once, on small inputs."""
    x, signs = np.linspace(0, 1, 40), np.random.default_rng(1).random((400, 6)) < 0.5
    vectors = np.random.default_rng(2).normal(size=(50, 5)) / 5
    histogram = distributions.perturbed_histogram(x, 1.0, (0, 1), bins=5)
    scores = np.arange(30.0)

    def asked(rng: Stream) -> None:
        queries = inference.AdaptiveQueries(x, 0.5, 1e-6, uses=8, rng=rng)
        for j in range(1, 7):
            queries.answer(lambda values, j=j: values**j)  # type: ignore[misc]

    return {
        "top_s, gumbel": lambda rng: selection.top_s(scores, 1.0, 1.0, s=3, values=True, rng=rng),
        "top_s, peeling": lambda rng: selection.top_s(scores, 1.0, 1.0, s=3, method="peeling", values=True, rng=rng),
        "top_s, one shot": lambda rng: selection.top_s(scores, 0.1, 1.0, s=3, delta=1e-3, method="oneshot_laplace", values=True, rng=rng),
        "sparse_mean": lambda rng: inference.sparse_mean(vectors, 1.0, 1e-6, 1.0, s=2, rng=rng),
        "smoothed_histogram": lambda rng: distributions.smoothed_histogram(x, 1.0, (0, 1), draws=10, bins=5, rng=rng),
        "dirichlet_histogram": lambda rng: distributions.dirichlet_histogram(x, 1.0, (0, 1), draws=10, bins=5, rng=rng),
        "sample of a histogram": lambda rng: histogram.sample(20, rng=rng),
        "ks_exponential": lambda rng: distributions.ks_exponential(x, 1.0, (0, 1), draws=8, bins=6, rng=rng),
        "orthogonal_series": lambda rng: distributions.orthogonal_series(x, 1.0, (0, 1), terms=3, draws=5, rng=rng),
        "l2_exponential": lambda rng: distributions.l2_exponential(x[:9], 0.5, (0, 1), draws=3, terms=2, rng=rng),
        "exponential_density": lambda rng: distributions.exponential_density(
            lambda z: z[:, 0], 1.0, 1.0, bounds=([0, 0], [1, 1]), largest=1.0, rng=rng
        ),
        "small_ball_probability": lambda rng: distributions.small_ball_probability(0.02, draws=2**12, runs=300, rng=rng),
        "uniformity_test": lambda rng: inference.uniformity_test(signs, 1.0, 1e-3, alpha=1.0, rng=rng),
        "SequentialChannel": lambda rng: local.SequentialChannel(1.0, lambda reports: local.BinaryResponse(1.0)).privatize(
            [True] * 9, rng=rng
        ),
        "AdaptiveQueries": asked,
    }
