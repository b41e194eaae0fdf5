"""Experiments: privacy profiles, regions, risks and what is made of them, against slow twins and known answers; refusals."""

from __future__ import annotations

import dataclasses
import itertools
import math
import pickle
import subprocess
import sys

import numpy as np
import pytest
from scipy.spatial import ConvexHull

from dpcore import blackwell
from dpcore.blackwell import Experiment, Region, max_power
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.local import KaryResponse
from support.experiments import error_points, geometric_rows, random_rows, rule_risks, slow_delta

RNG = np.random.default_rng(5)
RESPONSE = Experiment([[0.75, 0.25], [0.25, 0.75]])
EPSILONS = [0.0, 0.3, 1.0, 2.5, 30.0]


def optimal_mechanism(epsilon, delta):
    """The (ε, δ)-private mechanism that every other one is a garbling of: two outcomes tell all, two as much as ε allows."""
    p = (1 - delta) * math.exp(epsilon) / (1 + math.exp(epsilon))
    q = (1 - delta) / (1 + math.exp(epsilon))
    return Experiment([[delta, p, q, 0.0], [0.0, q, p, delta]])


# The matrix


def test_an_experiment_is_immutable_and_keeps_a_copy():
    rows = np.array([[0.5, 0.5], [1.0, 0.0]])
    experiment = Experiment(rows, states=["a", "b"], outcomes=iter("xy"))
    rows[0] = 7
    assert experiment.matrix.tolist() == [[0.5, 0.5], [1.0, 0.0]]
    assert (experiment.states, experiment.outcomes) == (("a", "b"), ("x", "y"))
    with pytest.raises(ValueError, match="read-only"):
        experiment.matrix[0, 0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        experiment.matrix = rows
    assert repr(experiment) == "Experiment(2 states, 2 outcomes)"
    assert np.array_equal(pickle.loads(pickle.dumps(experiment)).matrix, experiment.matrix)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0.5, 0.4]], "row 0 sums to 0.9"),
        ([[0.5, 0.5], [0.5, 0.5 + 2e-12]], "row 1 sums to"),
        ([[1.5, -0.5]], r"non-negative entries, got -0.5 in row 0, column 1"),
        ([[math.nan, 1.0]], "finite entries, got nan in row 0, column 0"),
        ([0.5, 0.5], r"matrix of shape \(rows, columns\), got shape \(2,\)"),
        (np.empty((0, 2)), "got shape"),
        (np.empty((2, 0)), "got shape"),
    ],
)
def test_a_matrix_that_is_not_stochastic_is_refused(matrix, message):
    with pytest.raises(ParameterError, match=message):
        Experiment(matrix)


def test_sums_within_the_tolerance_are_accepted():
    assert Experiment([[0.5, 0.5 + 5e-13]]).delta(0.0) == 0
    rows = random_rows(RNG, 2, 4096, 0.01)
    assert Experiment(rows).matrix.shape == (2, 4096)


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        ({"states": ["a"]}, ParameterError, "states must have 2 labels, got 1"),
        ({"outcomes": 3}, ParameterTypeError, "outcomes must be"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels, error, message):
    with pytest.raises(error, match=message):
        Experiment([[0.5, 0.5], [1.0, 0.0]], **labels)


@pytest.mark.parametrize("matrix", [[["a", "b"]], np.ma.masked_array([[0.5, 0.5]]), np.array([[True, False]])])
def test_a_matrix_of_another_type_is_refused(matrix):
    with pytest.raises(ParameterTypeError, match="matrix"):
        Experiment(matrix)


# The privacy profile


@pytest.mark.some(4)
@pytest.mark.parametrize(("n", "m"), [(1, 3), (2, 2), (5, 7), (33, 4), (70, 11)])
@pytest.mark.parametrize("concentration", [0.05, 1.0])
def test_delta_is_the_sum_by_definition(n, m, concentration):
    matrix = random_rows(np.random.default_rng(n * m), n, m, concentration)
    experiment = Experiment(matrix)
    for epsilon in EPSILONS:
        expected = slow_delta(matrix, epsilon)
        assert experiment.delta(epsilon) == pytest.approx(expected, rel=1e-12, abs=1e-15)
        assert experiment.delta(epsilon, threads=1) == experiment.delta(epsilon, threads=3)


@pytest.mark.long
@pytest.mark.parametrize("n", [40, 97])
def test_pruning_loses_no_pair_where_near_states_have_near_rows(n):
    matrix = geometric_rows(0.3, n)
    for epsilon in (0.0, 0.31, 2.0, 8.0):
        assert Experiment(matrix).delta(epsilon) == pytest.approx(slow_delta(matrix, epsilon), rel=1e-12)


def test_delta_of_listed_pairs():
    matrix = random_rows(RNG, 12, 5)
    pairs = [(0, 1), (3, 2), (11, 4)]
    for epsilon in EPSILONS:
        assert Experiment(matrix).delta(epsilon, neighbours=pairs) == pytest.approx(
            slow_delta(matrix, epsilon, pairs), rel=1e-12, abs=1e-15
        )
        every = list(itertools.combinations(range(12), 2))
        assert Experiment(matrix).delta(epsilon, neighbours=every) == Experiment(matrix).delta(epsilon)
    assert Experiment(matrix).delta(0.0, neighbours=[(3, 3)]) == 0


def test_delta_takes_any_shape_and_falls():
    losses = np.linspace(0, 4, 24).reshape(2, 3, 4)
    profile = Experiment(random_rows(RNG, 6, 9)).delta(losses)
    assert profile.shape == losses.shape
    assert (np.diff(profile.ravel()) <= 0).all()
    assert isinstance(RESPONSE.delta(0.5), float)


def test_delta_is_rounded_once():
    # ¾ − e^ε/4 where e^ε is 2 in the last bit but one: naive sums would lose what is left
    assert RESPONSE.delta(math.log(3)) < 1e-16
    matrix = np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]])
    assert Experiment(matrix).delta(0.0) == float.fromhex(math.fsum([0.4, -0.1, 0.3, -0.2]).hex())


def test_delta_at_the_ends():
    certain = Experiment([[0.0, 1.0], [0.25, 0.75]])
    assert certain.delta(math.inf) == 0.25
    assert certain.delta(709.9) == certain.delta(1e300) == 0.25
    tiny = Experiment([[5e-324, 1.0], [1.0, 0.0]])
    assert tiny.delta(744.0) == 1.0
    assert Experiment([[1.0], [1.0]]).delta(0.0) == 0.0


def test_the_profile_of_the_optimal_mechanism_is_its_guarantee():
    for epsilon, delta in [(0.5, 0.1), (1.0, 0.0), (2.0, 0.5), (0.0, 0.2)]:
        assert optimal_mechanism(epsilon, delta).delta(epsilon) == pytest.approx(delta, abs=1e-15)


@pytest.mark.parametrize("n", [2, 5, 40])
@pytest.mark.parametrize("delta", [1e-9, 0.01, 0.2, 0.6])
def test_epsilon_is_the_inverse_of_delta(n, delta):
    experiment = Experiment(random_rows(np.random.default_rng(n), n, 6, 0.4))
    epsilon = experiment.epsilon(delta)
    if epsilon > 0:
        assert experiment.delta(epsilon + 1e-12) <= delta <= experiment.delta(max(0.0, epsilon - 1e-12))
    else:
        assert experiment.delta(0.0) <= delta
    pairs = [(0, 1), (1, n - 1)]
    listed = experiment.epsilon(delta, neighbours=pairs)
    assert listed <= epsilon
    assert experiment.delta(listed + 1e-12, neighbours=pairs) <= delta


def test_epsilon_at_the_ends():
    certain = Experiment([[0.0, 1.0], [0.25, 0.75]])
    assert certain.epsilon() == math.inf
    assert certain.epsilon(0.2) == math.inf
    assert certain.epsilon(0.25) == 0.0
    assert Experiment([[0.0, 0.0, 1.0], [0.25, 0.25, 0.5]]).epsilon(0.5) == pytest.approx(0.0, abs=1e-15)
    assert Experiment([[0.0, 0.75, 0.25], [0.25, 0.25, 0.5]]).epsilon(0.25) == pytest.approx(math.log(2))
    assert certain.epsilon(1.0) == 0.0
    assert Experiment([[0.5, 0.5, 0.0]] * 3).epsilon() == 0.0
    assert RESPONSE.epsilon() == pytest.approx(math.log(3), abs=1e-15)


@pytest.mark.parametrize("epsilon", [2.0**-20, 0.1, 1.0, 20.0, 600.0])
def test_a_mechanism_satisfies_its_claim_and_no_less(epsilon):
    experiment = Experiment(KaryResponse(epsilon, k=5).channel())
    assert experiment.satisfies(epsilon)
    assert not experiment.satisfies(epsilon - 1e-11 * max(1.0, epsilon))
    assert experiment.satisfies(epsilon, 0.01)
    assert not experiment.satisfies(0.0)
    assert experiment.satisfies(0.0, experiment.delta(0.0))


def test_satisfies_without_tolerance_compares_what_is_stored():
    assert RESPONSE.satisfies(RESPONSE.epsilon(), tolerance=0.0)
    assert not RESPONSE.satisfies(1.0, RESPONSE.delta(1.0) * (1 - 1e-12), tolerance=0.0)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda e: e.delta(-0.1), ParameterError, r"epsilon must be in \[0.0, inf\], got -0.1"),
        (lambda e: e.delta([0.0, math.nan]), ParameterError, "epsilon"),
        (lambda e: e.delta("1"), ParameterTypeError, "epsilon"),
        (lambda e: e.delta(1.0, neighbours="none"), ParameterError, "neighbours must be 'all' or pairs"),
        (lambda e: e.delta(1.0, neighbours=[(0, 2)]), ParameterError, r"neighbours must be states in \[0, 1\], got \(0, 2\) in row 0"),
        (lambda e: e.delta(1.0, neighbours=[0, 1]), ParameterError, "neighbours"),
        (lambda e: e.delta(1.0, neighbours=np.empty((0, 2), int)), ParameterError, "neighbours"),
        (lambda e: e.delta(1.0, neighbours=[(0.0, 1.0)]), ParameterTypeError, "neighbours"),
        (lambda e: e.delta(1.0, threads=0), ParameterError, "threads"),
        (lambda e: e.epsilon(1.5), ParameterError, "delta"),
        (lambda e: e.epsilon(True), ParameterTypeError, "delta"),
        (lambda e: e.satisfies(-1.0), ParameterError, "epsilon"),
        (lambda e: e.satisfies(1.0, tolerance=2.0), ParameterError, "tolerance"),
        (lambda e: e.power_region(0, 2), ParameterError, r"j must be in \[0, 1\], got 2"),
        (lambda e: e.power_region(0.0, 1), ParameterTypeError, "i must be an integer"),
        (lambda e: e.garble([[0.5, 0.5]]), ParameterError, r"channel must be a matrix of shape \(2, columns\), got shape \(1, 2\)"),
        (lambda e: e.garble([[0.5, 0.6], [1, 0]]), ParameterError, "row 0 sums to"),
        (lambda e: e.under([[1.0]]), ParameterError, "distributions"),
        (lambda e: e.product(0), ParameterError, "uses must be in"),
        (lambda e: e.product(27), ParameterError, "entries"),
        (lambda e: e.product(2, ordered=1), ParameterTypeError, "ordered"),
        (lambda e: e.product(10**12, ordered=False), ParameterError, "uses must be in"),
        (lambda e: e.bayes_risk([[0, 1]], [0.5, 0.5]), ParameterError, "loss"),
        (lambda e: e.bayes_risk(np.eye(2), [0.5, 0.6]), ParameterError, "prior"),
        (lambda e: e.bayes_risk(np.eye(2), [1.0]), ParameterError, r"prior must have shape \(2,\)"),
        (lambda e: e.risk_region([[1, 0, 0]]), ParameterError, "actions"),
        (lambda e: e.plot_region(math.inf, 0.0, target="x.svg"), ParameterError, "epsilon"),
        (lambda e: e.power_region(0, 1).support([1.0]), ParameterError, "direction"),
        (lambda e: e.power_region(0, 1).contains([1.0]), ParameterError, "points"),
    ],
)
def test_wrong_parameters_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(RESPONSE)


# Regions


def turning(corners):
    edges = np.roll(corners, -1, axis=0) - corners
    after = np.roll(edges, -1, axis=0)
    return edges[:, 0] * after[:, 1] - edges[:, 1] * after[:, 0]


@pytest.mark.parametrize("seed", range(8))
def test_the_testing_region_is_the_hull_of_all_tests(seed):
    rng = np.random.default_rng(seed)
    matrix = random_rows(rng, 3, 6, rng.choice([0.2, 1.0]))
    matrix[rng.random((3, 6)) < 0.2] = 0
    matrix /= matrix.sum(axis=1, keepdims=True)
    points = error_points(matrix, 2, 0)
    region = Experiment(matrix).power_region(2, 0)
    corners = points[ConvexHull(points).vertices]
    assert (turning(region.vertices) > 0).all()
    # each of one is near one of the other; Qhull keeps corners that are flat up to rounding
    distances = np.abs(region.vertices[:, None] - corners[None]).max(axis=2)
    assert distances.min(axis=1).max() < 1e-12
    assert region.contains(points).all()
    directions = rng.normal(size=(20, 2))
    assert region.support(directions) == pytest.approx((directions @ points.T).max(axis=1), abs=1e-13)
    assert region.support(directions) == pytest.approx((directions @ region.vertices.T).max(axis=1), abs=1e-13)


def test_testing_regions_with_edges_of_their_own():
    assert Experiment([[1.0], [1.0]]).power_region(0, 1).vertices.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    perfect = Experiment([[1.0, 0.0], [0.0, 1.0]]).power_region(0, 1)
    assert perfect.vertices.tolist() == [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]
    # outcomes with one likelihood ratio are one edge
    assert len(Experiment([[0.5, 0.25, 0.25], [0.2, 0.4, 0.4]]).power_region(0, 1).vertices) == 4
    assert Experiment([[1.0], [1.0]]).power_region(0, 1).contains([[0.5, 0.5], [0.4, 0.4]]).tolist() == [True, False]


@pytest.mark.parametrize("n", [2, 3, 4])
def test_the_risk_region_is_the_hull_of_all_rules(n):
    rng = np.random.default_rng(n)
    matrix, actions = random_rows(rng, n, 4), rng.normal(size=(4, n))
    points, region = rule_risks(matrix, actions), Experiment(matrix).risk_region(actions)
    corners = points[ConvexHull(points).vertices]
    ours = region.vertices
    assert len(ours) == len(corners)
    assert np.abs(ours[:, None] - corners[None]).max(axis=2).min(axis=1).max() < 1e-12
    directions = rng.normal(size=(10, n))
    assert region.support(directions) == pytest.approx((directions @ points.T).max(axis=1), abs=1e-12)
    assert isinstance(region.support(directions[0]), float)


def test_flat_risk_regions_have_vertices():
    matrix = random_rows(RNG, 3, 5)
    point = Experiment(matrix).risk_region([[1.0, 2.0, 3.0]])
    assert point.vertices == pytest.approx(np.array([[1.0, 2.0, 3.0]]))
    segment = Experiment([[1.0]] * 3).risk_region([[0, 0, 0], [1, 1, 1], [0.5, 0.5, 0.5]])
    assert sorted(segment.vertices.tolist()) == [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
    plane = Experiment([[1.0]] * 3).risk_region(np.eye(3))
    assert len(plane.vertices) == 3


def test_a_region_of_too_many_corners_is_refused_but_has_a_support():
    region = Experiment(random_rows(RNG, 8, 200)).risk_region(RNG.normal(size=(40, 8)))
    with pytest.raises(ParameterError, match="hull of at most 90 points"):
        _ = region.vertices
    assert region.support(np.ones(8)) > 0


def test_the_bayes_risk_is_what_the_risk_region_says():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        matrix, loss, prior = random_rows(rng, 4, 6), rng.normal(size=(4, 3)), random_rows(rng, 1, 4)[0]
        experiment = Experiment(matrix)
        risk = experiment.bayes_risk(loss, prior)
        assert risk == pytest.approx((rule_risks(matrix, loss.T) @ prior).min(), abs=1e-14)
        assert risk == pytest.approx(-experiment.risk_region(loss.T).support(-prior), abs=1e-14)


# What is made of experiments


def test_garbling_multiplies_and_keeps_what_it_can():
    experiment = Experiment(random_rows(RNG, 3, 4), states="abc", outcomes="wxyz")
    channel = random_rows(RNG, 4, 2)
    garbled = experiment.garble(channel, outcomes=["yes", "no"])
    assert garbled.matrix == pytest.approx(experiment.matrix @ channel, abs=1e-15)
    assert (garbled.states, garbled.outcomes) == (("a", "b", "c"), ("yes", "no"))
    mixed = experiment.under([[0.5, 0.5, 0.0]], states=["either"])
    assert mixed.matrix == pytest.approx(experiment.matrix[:2].mean(axis=0, keepdims=True), abs=1e-15)
    assert (mixed.states, mixed.outcomes) == (("either",), ("w", "x", "y", "z"))


def test_products_are_independent_runs():
    matrix = random_rows(RNG, 3, 3)
    experiment = Experiment(matrix, outcomes="abc")
    twice = experiment.product(2)
    assert twice.outcomes == tuple(itertools.product("abc", repeat=2))
    for y, (a, b) in enumerate(itertools.product(range(3), repeat=2)):
        assert twice.matrix[:, y] == pytest.approx(matrix[:, a] * matrix[:, b])
    assert experiment.product(1).matrix == pytest.approx(matrix)


@pytest.mark.parametrize(("m", "k"), [(1, 5), (2, 1), (2, 6), (3, 4), (4, 3)])
def test_counts_of_outcomes_are_sequences_put_together(m, k):
    matrix = random_rows(np.random.default_rng(k), 3, m)
    matrix[0, 0] = 0
    matrix = matrix / matrix.sum(axis=1, keepdims=True) if m > 1 else np.ones((3, 1))
    experiment = Experiment(matrix)
    sequences, counts = experiment.product(k), experiment.product(k, ordered=False)
    assert len(counts.outcomes) == math.comb(m + k - 1, k)
    for y, seen in enumerate(counts.outcomes):
        same = [s for s, sequence in enumerate(sequences.outcomes) if all(sequence.count(o) == c for o, c in enumerate(seen))]
        assert counts.matrix[:, y] == pytest.approx(sequences.matrix[:, same].sum(axis=1), rel=1e-12)
    for epsilon in (0.0, 0.7):
        assert counts.delta(epsilon) == pytest.approx(sequences.delta(epsilon), abs=1e-13)


def test_many_runs_by_counts():
    runs = Experiment(KaryResponse(0.1, k=2).channel()).product(400, ordered=False)
    assert runs.matrix.shape == (2, 401)
    assert runs.epsilon() == pytest.approx(40.0, abs=1e-9)
    assert runs.epsilon(1e-6) < 11  # strong composition, exactly


# The power of tests


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (0.1, 0.0), (1.0, 0.1), (3.0, 1e-6), (0.5, 0.7), (1.0, 1.0)])
def test_the_largest_power_is_attained(epsilon, delta):
    levels = np.linspace(0, 1, 41)
    corners = optimal_mechanism(epsilon, delta).power_region(0, 1).vertices
    lower = corners[np.lexsort((-corners[:, 0], corners[:, 1]))]
    # the least P_MD for each P_FA: the left border of the region
    left = [min(_crossings(corners, level)) for level in levels] if len(lower) > 2 else 1 - levels
    assert max_power(levels, epsilon, delta) == pytest.approx(1 - np.array(left), abs=1e-12)


def _crossings(corners, level):
    """First coordinates where the border of a polygon has this second coordinate."""
    for (x0, y0), (x1, y1) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        if min(y0, y1) - 1e-15 <= level <= max(y0, y1) + 1e-15:
            yield from (x0, x1) if y0 == y1 else [x0 + (x1 - x0) * (level - y0) / (y1 - y0)]


def test_the_printed_bound_on_the_power_is_not_attained():
    """γe^α is right, but exceeds what a test can have where γ is large.

    Wasserman & Zhou (2010), Theorem 2.4; Steinberger (2019), Aufgabe 2.2.
    """
    levels = np.linspace(0.01, 0.99, 50)
    printed = np.minimum(1, levels * math.e)
    sharp = max_power(levels, 1.0)
    assert (sharp <= printed).all()
    assert (sharp < printed - 0.01).any()
    assert sharp[levels <= 1 / (1 + math.e)] == pytest.approx(printed[levels <= 1 / (1 + math.e)])


def test_the_largest_power_at_the_ends():
    assert max_power(0.0, math.inf) == 0.0
    assert max_power(1e-300, math.inf) == 1.0
    assert max_power(0.3, 0.0) == pytest.approx(0.3)
    assert max_power(np.float32(0.25), 0.0) == 0.25
    assert max_power([[0.0], [1.0]], 1.0).tolist() == [[0.0], [1.0]]
    for level, message in ((1.5, "level must be in"), (math.nan, "level must be in")):
        with pytest.raises(ParameterError, match=message):
            max_power(level, 1.0)
    with pytest.raises(ParameterError, match="epsilon"):
        max_power(0.5, -1.0)
    with pytest.raises(ParameterError, match="delta"):
        max_power(0.5, 1.0, 1.1)


# Pictures


def test_a_region_is_drawn_into_a_file_or_on_axes(tmp_path):
    figure = pytest.importorskip("matplotlib.figure").Figure()
    path = RESPONSE.plot_region(1.2, 0.05, target=tmp_path / "region.svg")
    assert path.read_text(encoding="utf-8").lstrip().startswith("<?xml")
    axes = figure.subplots()
    assert RESPONSE.plot_region(1.2, 0.05, target=axes, neighbours=[(0, 1)]) is axes
    assert len(axes.patches) == 3
    assert axes.get_xlabel() == "missed detection, P_MD"
    allowed, *drawn = (patch.get_xy()[:-1] for patch in axes.patches)
    p_md, p_fa = allowed.T
    border = np.minimum(p_fa + math.exp(1.2) * p_md, math.exp(1.2) * p_fa + p_md)
    assert border.min() == pytest.approx(0.95)
    assert drawn[0] == pytest.approx(RESPONSE.power_region(0, 1).vertices)


def test_targets_and_pairs_that_cannot_be_drawn_are_refused(tmp_path):
    pytest.importorskip("matplotlib")
    with pytest.raises(ParameterTypeError, match="target"):
        RESPONSE.plot_region(1.0, 0.0, target=3)
    with pytest.raises(ParameterError, match="at most 1000 pairs"):
        Experiment(np.ones((60, 1))).plot_region(1.0, 0.0, target=tmp_path / "many.svg")


def test_the_extra_is_named_where_it_is_missing(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install '\S*\[report\]'"):
        RESPONSE.plot_region(1.0, 0.0, target=tmp_path / "region.svg")


def test_the_package_is_there_without_being_imported():
    program = "import sys, dpcore; print('dpcore.blackwell' in sys.modules, dpcore.blackwell.Experiment.__name__)"
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert out.split() == ["False", "Experiment"]
    assert set(blackwell.__all__) >= {
        "Experiment",
        "Region",
        "is_sufficient",
        "from_mechanism",
        "max_power",
        "Sufficiency",
        "DecisionProblem",
    }
    assert isinstance(RESPONSE.power_region(0, 1), Region)


# Large experiments


def test_two_thousand_states_that_are_alike_are_quick():
    matrix = geometric_rows(0.05, 2000)
    experiment = Experiment(matrix)
    neighbours = [(i, i + 1) for i in range(1999)]
    up, down = (np.maximum(a - math.exp(0.05) * b, 0).sum(axis=1).max() for a, b in ((matrix[1:], matrix[:-1]), (matrix[:-1], matrix[1:])))
    assert experiment.delta(0.05, neighbours=neighbours) == pytest.approx(max(up, down), rel=1e-12)
    assert experiment.epsilon(neighbours=neighbours) == pytest.approx(np.abs(np.diff(np.log(matrix), axis=0)).max(), abs=1e-12)
    assert experiment.delta(3.0) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.long
def test_two_thousand_states_that_are_not_alike():
    matrix = random_rows(RNG, 2000, 2000)
    experiment = Experiment(matrix)
    largest = experiment.delta(1.0)
    rows = RNG.integers(0, 2000, size=(2000, 2))
    assert (np.maximum(matrix[rows[:, 0]] - math.e * matrix[rows[:, 1]], 0).sum(axis=1) <= largest).all()
    some, scaled = matrix[:500], math.e * matrix[:500]
    slow = max(float(np.maximum(row - scaled, 0).sum(axis=1).max()) for row in some)
    assert Experiment(some).delta(1.0) == pytest.approx(slow, rel=1e-12)
    epsilon = experiment.epsilon(0.2)
    assert experiment.delta(epsilon + 1e-12) <= 0.2 <= experiment.delta(epsilon - 1e-12)


# Notebooks


def test_a_notebook_shows_a_table_with_escaped_labels():
    shown = Experiment([[0.75, 0.25], [0.25, 0.75]], states=["<b>", "no"], outcomes=["y&n", "n"])._repr_html_()
    assert "<th>&lt;b&gt;</th><td>0.75</td><td>0.25</td>" in shown
    assert "y&amp;n" in shown
    assert "<b>" not in shown
    large = Experiment(np.full((30, 20), 0.05))._repr_html_()
    assert large.count("<tr>") == 1 + 12 + 1
    assert "…" in large


def test_the_package_shows_public_names_only():
    assert sorted(dir(blackwell)) == sorted(blackwell.__all__)
