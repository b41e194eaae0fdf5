"""The binary search of tests as its users see it: forms of counts and reports, steps, traces, plots, and what is refused."""

from __future__ import annotations

import math
import sys
import threading
from importlib.util import find_spec

import numpy as np
import pytest

from dpcore.errors import DataError, DpcoreError, ParameterError, ParameterTypeError
from dpcore.local import BinaryChannel, BoundedMean, FiniteChannel, KaryResponse
from dpcore.minimax import BinarySearchEstimator, Model, exact_risk, losses, modulus_hellinger, optimal_channel, worst_distribution
from dpcore.minimax.search import count_tests
from dpcore.testing import KeyedRandom

GRID = np.linspace(-3.0, 3.0, 25)
MODEL = Model.moment(GRID, kappa=2.0, C=1.0)
cones = pytest.mark.skipif(find_spec("clarabel") is None, reason="needs the extra `minimax`")
MODEL_ROW = GRID[None] ** 2
CHANNEL = BinaryChannel(1.0, np.clip(GRID, -1.5, 1.5))


@pytest.fixture(scope="module")
def binary() -> BinarySearchEstimator:
    return BinarySearchEstimator(MODEL, CHANNEL, n=403, step=0.3)


@pytest.fixture(scope="module")
def kary() -> BinarySearchEstimator:
    pytest.importorskip("clarabel")
    return BinarySearchEstimator(Model(np.arange(4.0)), KaryResponse(2.0, k=4), n=403, step=0.4)


# Forms of counts and reports


def test_counts_in_every_form(binary):
    plus = np.arange(404)
    expected = binary.values[np.searchsorted(binary.thresholds, plus, side="right")]
    assert binary.estimate(plus).tolist() == expected.tolist()
    assert binary.estimate(plus.astype(np.uint16)).tolist() == expected.tolist()
    assert binary.estimate(np.stack([403 - plus, plus], axis=1)).tolist() == expected.tolist()
    assert binary.estimate(plus.tolist()).tolist() == expected.tolist()
    assert binary.estimate(200) == expected[200]
    assert isinstance(binary.estimate(np.int64(200)), float)
    assert binary.estimate(plus[:0]).shape == (0,)
    assert binary.estimate(np.zeros((0, 2), np.int64)).shape == (0,)
    assert binary.estimate(plus, threads=3).tolist() == expected.tolist()


def test_a_vector_is_many_counts_for_two_outcomes_and_one_data_set_for_more(binary, kary):
    assert binary.estimate([100, 303]).shape == (2,)
    assert isinstance(kary.estimate([100, 100, 100, 103]), float)
    assert kary.estimate([[100, 100, 100, 103]]).shape == (1,)


def test_reports_in_every_form(binary):
    z = np.random.default_rng(1).random((7, 403)) < np.linspace(0.2, 0.8, 7)[:, None]
    expected = binary.estimate(z.sum(axis=1)).tolist()
    packed = np.packbits(z, axis=1, bitorder="little")
    assert len(set(expected)) >= 3
    assert binary.estimate_reports(z).tolist() == expected
    assert binary.estimate_reports(z.tolist()).tolist() == expected
    assert binary.estimate_reports(packed, packed=True).tolist() == expected
    assert binary.estimate_reports(packed | np.array([0] * 50 + [248], np.uint8), packed=True).tolist() == expected  # padding is ignored
    for dtype in ("int8", "uint8", "int32", "int64"):
        assert binary.estimate_reports(z.astype(dtype)).tolist() == expected
    for row, packed_row, value in zip(z, packed, expected, strict=True):
        assert binary.estimate_reports(row) == binary.estimate_reports(packed_row, packed=True) == binary.estimate_reports(row * 1) == value
    strided = np.asfortranarray(z)
    assert binary.estimate_reports(strided).tolist() == expected
    assert binary.estimate_reports(np.repeat(packed, 2, axis=1)[:, ::2], packed=True).tolist() == expected
    assert binary.estimate_reports(z, threads=2).tolist() == expected
    assert binary.estimate_reports(z[:0]).shape == (0,)


def test_codes_of_more_outcomes(kary):
    codes = np.random.default_rng(2).choice(4, p=[0.1, 0.2, 0.3, 0.4], size=(5, 403))
    counts = np.stack([np.bincount(row, minlength=4) for row in codes])
    expected = kary.estimate(counts).tolist()
    assert kary.estimate_reports(codes).tolist() == expected
    assert kary.estimate_reports(codes.astype(np.uint8), threads=2).tolist() == expected
    assert [kary.estimate_reports(row) for row in codes] == expected
    assert [kary.estimate(row) for row in counts] == expected


def test_reports_of_the_mechanisms_themselves():
    estimator = BinarySearchEstimator(MODEL, CHANNEL, n=20_000, step=0.1)
    codes = np.full(20_000, 16)  # θ = 1
    reports = CHANNEL.privatize(codes, rng=KeyedRandom(bytes(32)))
    assert estimator.estimate_reports(reports) == pytest.approx(GRID[16], abs=0.3)
    packed = CHANNEL.privatize_packed(codes, rng=KeyedRandom(bytes(32)))
    assert estimator.estimate_reports(packed, packed=True) == estimator.estimate_reports(reports)


@cones
def test_reports_of_finite_channels():
    for rows in ([[1, 2], [3, 1], [1, 1]], [[4, 1, 1], [1, 4, 1], [1, 1, 4]]):
        model = Model([0.0, 1.0, 3.0])
        channel = FiniteChannel(np.array(rows) * (12 // np.sum(rows, axis=1))[:, None])
        estimator = BinarySearchEstimator(model, channel, n=3000, step=0.5)
        assert estimator.matrix == pytest.approx(channel.channel(), rel=1e-15)
        reports = channel.privatize(np.random.default_rng(0).integers(0, 3, (4, 3000)), rng=KeyedRandom(bytes(32)))
        assert reports.dtype == np.uint8
        counts = np.stack([channel.aggregate(row).counts for row in reports])
        assert estimator.estimate_reports(reports, threads=2).tolist() == estimator.estimate(counts).tolist()
        assert estimator.estimate_reports(reports[0]) == estimator.estimate(counts[:1])[0]


# What a channel may be


@pytest.mark.long
def test_channels_of_every_kind():
    matrix = CHANNEL.channel()
    function = BinaryChannel(1.0, lambda x: np.clip(x, -1.5, 1.5), bound=1.5)
    expected = BinarySearchEstimator(MODEL, matrix, n=100, step=0.3).thresholds.tolist()
    for channel in (CHANNEL, function, matrix.tolist()):
        assert BinarySearchEstimator(MODEL, channel, n=100, step=0.3).thresholds.tolist() == expected
    scaled = BoundedMean(1.0, -3.0, 3.0)
    assert BinarySearchEstimator(MODEL, scaled, n=100, step=0.3).matrix.tolist() == scaled.channel(GRID).tolist()


def test_an_optimal_channel_is_one():
    optimal = optimal_channel(MODEL, 1.0, n=1000)
    estimator = BinarySearchEstimator(MODEL, optimal, n=1000, step=0.2)
    assert estimator.thresholds.tolist() == BinarySearchEstimator(MODEL, optimal.channel, n=1000, step=0.2).thresholds.tolist()
    assert estimator.channel is optimal


@pytest.mark.long
def test_a_channel_that_falls_is_read_backwards():
    turned = BinaryChannel(1.0, -np.clip(GRID, -1.5, 1.5))
    one, other = (BinarySearchEstimator(MODEL, channel, n=101, step=0.3) for channel in (CHANNEL, turned))
    plus = np.arange(102)
    assert one.estimate(plus) == pytest.approx(other.estimate(101 - plus))
    assert [one.error_bound(i) for i in range(5)] == pytest.approx([other.error_bound(i) for i in range(5)], rel=1e-6)
    assert one.risk_bound() == pytest.approx(other.risk_bound(), rel=1e-2)
    assert (np.diff(other.estimate(plus)) <= 0).all()
    assert (np.diff(other.thresholds) >= 0).all()


# Steps


@pytest.mark.some(1)
@cones
@pytest.mark.parametrize("loss", ["squared", "absolute", losses.huber(0.5)])
def test_the_step_of_the_theory(loss):
    estimator = BinarySearchEstimator(MODEL, CHANNEL, n=10_000, step="theory", loss=loss)
    a = losses.as_loss(loss).constant
    omega = modulus_hellinger(MODEL, 0.01, channel=CHANNEL.channel()).value
    assert estimator.step == pytest.approx((math.sqrt(2 * math.log(2 * a)) + 1) ** 2 * omega, rel=1e-6)
    assert estimator.step > (math.sqrt(2 * math.log(2 * a)) + 1) ** 2 * omega
    assert estimator.loss == losses.as_loss(loss)


@pytest.mark.long
@pytest.mark.parametrize("n", [1, 50, 2000])
def test_the_tuned_step_is_about_the_best(n):
    tuned = BinarySearchEstimator(MODEL, CHANNEL, n=n, step="tuned")
    others = [BinarySearchEstimator(MODEL, CHANNEL, n=n, step=step) for step in (2.5, 1.1, 0.6, 0.4, 0.3, 0.2, 0.15, 0.1, 0.07)]
    assert tuned.risk_bound() <= 1.03 * min(other.risk_bound() for other in others)


@pytest.mark.long
@pytest.mark.parametrize("rate", ["root", "one"])
def test_the_tuned_step_of_many_reports(rate, monkeypatch):
    """At n = 10⁷, where N is in the hundreds and thousands, no step costs N², and the best one is found with tails that are near."""
    monkeypatch.setattr(count_tests, "_by_levels", None)
    grid = np.linspace(-4.0, 4.0, 100)
    model = Model.moment(grid, kappa=2.0, C=1.0) if rate == "root" else Model(grid)
    channel = BinaryChannel(1.0, np.clip(grid, -4.0, 4.0))
    tuned = BinarySearchEstimator(model, channel, n=10**7)
    least = 100 if rate == "root" else 3000
    assert least < tuned.N
    for factor in (0.6, 1.6):
        other = BinarySearchEstimator(model, channel, n=10**7, step=factor * tuned.step)
        assert tuned.risk_bound() <= 1.03 * other.risk_bound()


@cones
def test_the_tuned_step_of_more_outcomes():
    tuned, *others = (
        BinarySearchEstimator(Model(np.arange(4.0)), KaryResponse(3.0, k=4), n=400, step=step) for step in ("tuned", 3.5, 1.0, 0.3, 0.1)
    )
    assert tuned.risk_bound() <= 1.05 * min(other.risk_bound() for other in others)


@pytest.mark.long
def test_tuning_minds_the_loss():
    absolute = BinarySearchEstimator(MODEL, CHANNEL, n=500, step="tuned", loss="absolute")
    squared = BinarySearchEstimator(MODEL, CHANNEL, n=500, step="tuned")
    assert absolute.risk_bound() <= 1.02 * squared.risk_bound("absolute")
    assert squared.risk_bound() <= 1.02 * absolute.risk_bound("squared")


@pytest.mark.some(2)
@pytest.mark.parametrize("matrix", [CHANNEL.channel(), np.random.default_rng(0).dirichlet(np.ones(3), 25)])
@pytest.mark.parametrize("step", [1.2, 5.0])
def test_coarse_steps_give_the_middle(matrix, step):
    estimator = BinarySearchEstimator(MODEL, matrix, n=10, step=step)
    middle = sum(MODEL.theta_range) / 2
    assert estimator.N <= 2
    assert estimator.values == pytest.approx([middle], abs=1e-9)
    counts = np.array([[10] + [0] * (matrix.shape[1] - 1), [0] * (matrix.shape[1] - 1) + [10]])
    assert estimator.estimate(counts) == pytest.approx([middle] * 2, abs=1e-9)
    assert estimator.error_bound(0) == 0.0
    assert estimator.risk_bound() == pytest.approx(1.0)
    assert estimator.trace(counts[0]).intervals == ()
    assert estimator.trace(counts[0]).estimate == estimator.values[0]


@pytest.mark.parametrize("matrix", [np.array([[0.3, 0.7], [0.6, 0.4]]), np.array([[0.3, 0.5, 0.2], [0.6, 0.2, 0.2]])])
@pytest.mark.parametrize("step", ["theory", "tuned", 0.1])
def test_a_constant_functional_needs_no_search(matrix, step):
    estimator = BinarySearchEstimator(Model([2.0, 2.0]), matrix, n=50, step=step)
    assert estimator.estimate(np.eye(matrix.shape[1], dtype=np.int64)[:1] * 50) == pytest.approx([2.0])
    assert estimator.risk_bound() < 1e-9


def test_attributes(binary, kary):
    assert binary.n == 403
    assert binary.step == 0.3
    assert binary.theta_range == pytest.approx(MODEL.theta_range, abs=1e-9)
    # those of the model are a solver's, to its tolerance
    assert binary.theta_range[0] <= MODEL.theta_range[0] + 1e-9 < MODEL.theta_range[1] - 1e-9 <= binary.theta_range[1]
    assert (binary.N - 1) * 0.3 <= 2.0 < binary.N * 0.3
    assert binary.values == pytest.approx(binary.theta_range[0] + 0.3 * np.arange(1, binary.N))
    assert len(binary.thresholds) == binary.N - 2 == len(binary.values) - 1
    assert kary.values == pytest.approx(0.4 * np.arange(1, kary.N), abs=1e-9)
    assert repr(binary).startswith("BinarySearchEstimator(Model(25 points")


@pytest.mark.long
@pytest.mark.parametrize("epsilon", [1e-5, 5.0, 40.0])
@pytest.mark.parametrize("n", [1, 1000, 2**40])
def test_extremes(epsilon, n):
    estimator = BinarySearchEstimator(MODEL, BinaryChannel(epsilon, np.clip(GRID, -1.5, 1.5)), n=n, step="tuned")
    estimates = estimator.estimate([0, n // 2, n])
    assert (np.diff(estimates) >= 0).all()
    assert np.abs(estimates).max() <= 1.0 + 1e-9
    assert 0.01 < estimator.risk_bound() <= 1.0 + 1e-9  # the clamped values leave a bias
    assert estimator.error_bound(estimator.N) == 0.0


@cones
def test_channels_that_keep_the_data():
    exact = BinarySearchEstimator(Model(np.arange(4.0)), np.eye(4), n=20, step=0.4)
    assert exact.estimate(20 * np.eye(4, dtype=np.int64)) == pytest.approx(np.arange(4.0), abs=0.4 + 1e-9)
    coin = BinarySearchEstimator(Model([0.0, 1.0]), np.eye(2), n=20, step=0.1)
    assert coin.estimate(np.arange(21)) == pytest.approx(np.arange(21) / 20, abs=0.11)
    assert coin.risk_bound() < 1.1 * 0.25 / 20


@pytest.mark.long
@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_units_do_not_matter(unit):
    plain, scaled = (BinarySearchEstimator(Model(u * GRID, MODEL_ROW, [1.0]), CHANNEL, n=500, step=0.1 * u) for u in (1.0, unit))
    assert scaled.thresholds.tolist() == plain.thresholds.tolist()
    assert scaled.risk_bound() == pytest.approx(plain.risk_bound() * unit**2, rel=5e-3)


# Traces


@pytest.mark.parametrize("which", ["binary", "kary"])
def test_traces_follow_the_lemma(which, request):
    estimator = request.getfixturevalue(which)
    rng = np.random.default_rng(5)
    for share in rng.dirichlet(np.ones(estimator.matrix.shape[1]), 6):
        counts = rng.multinomial(403, share)
        trace = estimator.trace(counts)
        assert trace.estimate == estimator.estimate(counts[None])[0]
        assert len(trace.intervals) == estimator.N - 2
        lower, upper = estimator.theta_range[0], estimator.theta_range[0] + estimator.N * estimator.step
        for visited in trace.intervals:
            assert (visited.lower, visited.upper) == pytest.approx((lower, upper))
            assert (visited.a - visited.lower, visited.upper - visited.b) == pytest.approx((estimator.step,) * 2)
            lower, upper = (visited.a, visited.upper) if visited.outcome else (visited.lower, visited.b)
        assert trace.estimate == pytest.approx((lower + upper) / 2)
        assert upper - lower == pytest.approx(2 * estimator.step)


def test_a_trace_takes_the_count_of_plus(binary):
    assert binary.trace(150) == binary.trace([253, 150])


@pytest.mark.long
@pytest.mark.parametrize("ending", ["svg", "png"])
def test_plots_are_written(binary, kary, tmp_path, ending):
    pytest.importorskip("matplotlib")
    for number, (estimator, counts) in enumerate([(binary, 250), (kary, [100, 100, 100, 103])]):
        path = tmp_path / f"trace{number}.{ending}"
        assert estimator.plot_trace(counts, path) == path
        assert path.stat().st_size > 1000
        assert estimator.plot_trace(counts, str(path)) == path


def test_plots_show_what_the_trace_tells(binary):
    figure = pytest.importorskip("matplotlib.figure").Figure()
    axes = figure.add_subplot()
    assert binary.plot_trace(250, axes) is axes
    trace = binary.trace(250)
    drawn = {tuple(np.round(line.get_xdata(), 9)) for line in axes.lines}
    for visited in trace.intervals:
        kept = (visited.a, visited.upper) if visited.outcome else (visited.lower, visited.b)
        removed = (visited.lower, visited.a) if visited.outcome else (visited.b, visited.upper)
        assert {tuple(np.round(part, 9)) for part in (kept, removed)} <= drawn
    assert (round(trace.estimate, 9),) in drawn
    assert len(axes.lines) == (binary.N - 1) + 3 * (binary.N - 2) + 2


def test_plots_of_constant_estimators(tmp_path):
    pytest.importorskip("matplotlib")
    path = BinarySearchEstimator(MODEL, CHANNEL, n=10, step=5.0).plot_trace(3, tmp_path / "one.svg")
    assert path.exists()


# Many threads share one table of tests


@cones
def test_threads_may_share_an_estimator():
    estimator = BinarySearchEstimator(Model(np.arange(4.0)), KaryResponse(2.0, k=4), n=300, step=0.3)
    counts = np.random.default_rng(0).multinomial(300, [0.1, 0.2, 0.3, 0.4], 50)
    found = [None] * 4

    def work(i):
        found[i] = estimator.estimate(counts).tolist()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    fresh = BinarySearchEstimator(Model(np.arange(4.0)), KaryResponse(2.0, k=4), n=300, step=0.3)
    assert found == [fresh.estimate(counts).tolist()] * 4


# Refusals


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"model": GRID}, ParameterTypeError, "model must be a Model, got ndarray"),
        ({"n": 0}, ParameterError, r"n must be in \[1, "),
        ({"n": 2**41}, ParameterError, "n must be in"),
        ({"n": 1.5}, ParameterTypeError, "n must be an integer"),
        ({"step": "fine"}, ParameterError, "step must be one of 'theory', 'tuned', got 'fine'"),
        ({"step": 0.0}, ParameterError, "step must be positive"),
        ({"step": -1.0}, ParameterError, "step must be positive"),
        ({"step": math.nan}, ParameterError, "step must be positive"),
        ({"step": 1e-6}, ParameterError, "step must be at least 0.000122.*, which is the range of θ divided by"),
        ({"step": None}, ParameterTypeError, "step must be a real number"),
        ({"loss": "cubed"}, ParameterError, "loss must be one of"),
        ({"loss": 2}, ParameterTypeError, "loss must be"),
        ({"channel": np.full((24, 2), 0.5)}, ParameterError, "channel must have 25 rows"),
        ({"channel": np.full(25, 0.5)}, ParameterError, "channel must"),
        ({"channel": np.full((25, 2), 0.4)}, ParameterError, "channel must have masses that sum to 1"),
        ({"channel": np.tile([1.5, -0.5], (25, 1))}, ParameterError, "channel must have masses ≥ 0"),
        ({"channel": KaryResponse(1.0, k=4)}, ParameterError, "channel must have 25 rows"),
        (
            {"channel": np.random.default_rng(0).dirichlet(np.ones(3000), 25), "step": 0.003},
            ParameterError,
            r"step must be larger: 0\.003\d* gives \d+ tests",
        ),
    ],
)
def test_bad_parameters(change, error, message):
    arguments = {"model": MODEL, "channel": CHANNEL, "n": 10, "step": 0.5} | change
    model, channel, n = (arguments.pop(name) for name in ("model", "channel", "n"))
    with pytest.raises(error, match=message):
        BinarySearchEstimator(model, channel, n=n, **arguments)


@pytest.mark.parametrize(
    ("counts", "error", "message"),
    [
        ([1, 404], DataError, r"counts must be in \[0, 403\]; the one at index 1 is not"),
        ([-1], DataError, "index 0"),
        (404, DataError, "index 0"),
        ([[3, 400], [4, 400]], DataError, "sum to 403; row 1 does not"),
        ([[-1, 404]], DataError, "row 0 does not"),
        ([[2**62, -(2**62) + 403]], DataError, "row 0"),
        ([[1, 2, 400]], ParameterError, r"counts must have shape \(B, 2\) or \(B,\), got \(1, 3\)"),
        (np.zeros((2, 2, 2), int), ParameterError, "shape"),
        ([0.5], ParameterTypeError, "counts must hold integers, got float64"),
        ([True], ParameterTypeError, "counts must have one of the dtypes"),
        (np.ma.masked_array([1], [True]), ParameterTypeError, "masked"),
    ],
)
def test_bad_counts(binary, counts, error, message):
    with pytest.raises(error, match=message):
        binary.estimate(counts)


def test_bad_counts_of_more_outcomes(kary):
    with pytest.raises(ParameterError, match=r"shape \(B, 4\) or \(4,\), got \(3,\)"):
        kary.estimate([1, 2, 3])
    with pytest.raises(DataError, match="row 1"):
        kary.estimate([[403, 0, 0, 0], [402, 0, 0, 0]])
    with pytest.raises(ParameterError, match="single data set"):
        kary.trace([[403, 0, 0, 0]])
    with pytest.raises(ParameterError, match="thresholds exist for channels with 2 outcomes only"):
        _ = kary.thresholds


@pytest.mark.parametrize(
    ("z", "packed", "error", "message"),
    [
        (np.zeros(402, bool), False, ParameterError, r"reports must have shape \(403,\) or \(B, 403\) for n = 403, got \(402,\)"),
        (np.zeros(50, np.uint8), True, ParameterError, r"reports must have shape \(51,\)"),
        (np.zeros((1, 2, 403), bool), False, ParameterError, "reports must have shape"),
        (np.zeros(403), False, ParameterTypeError, "reports must have one of the dtypes"),
        (np.zeros(51, np.int64), True, ParameterTypeError, "reports must have one of the dtypes uint8"),
        (np.full(403, 2), False, DataError, "index 0"),
        (np.concatenate([np.zeros((1, 403), int), np.full((1, 403), -1)]), False, DataError, r"index \(1, 0\)"),
    ],
)
def test_bad_reports(binary, z, packed, error, message):
    with pytest.raises(error, match=message):
        binary.estimate_reports(z, packed=packed)


def test_bits_are_for_two_outcomes(kary):
    with pytest.raises(ParameterTypeError, match="reports must hold codes of outcomes, as the channel has 4 of them, got bools"):
        kary.estimate_reports(np.zeros(403, bool))
    with pytest.raises(ParameterTypeError, match="got packed bits"):
        kary.estimate_reports(np.zeros(51, np.uint8), packed=True)


@pytest.mark.long
@pytest.mark.parametrize("power", [1.0, 2.0, 8.0])
@pytest.mark.parametrize("step", [0.1, 0.4])
def test_the_risk_bound_counts_rare_large_errors(power, step):
    """A steep loss is all in the tails: what the exact risk finds somewhere must be in the bound, and most of the bound somewhere."""
    model = Model.moment(np.linspace(-4.0, 4.0, 33), kappa=2.0, C=1.0)
    estimator = BinarySearchEstimator(model, optimal_channel(model, 0.7, n=400), n=400, step=step)
    loss = losses.power(power)
    p, worst = worst_distribution(estimator, model, loss=loss)
    assert exact_risk(estimator, p, loss=loss) == pytest.approx(worst)
    assert worst <= estimator.risk_bound(loss) <= 1.03 * worst


def test_far_errors_have_no_probability(binary):
    assert binary.error_bound(binary.N) == 0.0
    assert binary.error_bound(10**30) == 0.0


@pytest.mark.parametrize(("index", "error"), [(-1, ParameterError), (0.5, ParameterTypeError), (None, ParameterTypeError)])
def test_bad_errors(binary, index, error):
    with pytest.raises(error, match="l must be"):
        binary.error_bound(index)


@pytest.mark.parametrize("threads", [0, -1, 5000])
def test_bad_threads(binary, threads):
    with pytest.raises(ParameterError, match="threads"):
        binary.estimate([1], threads=threads)
    with pytest.raises(ParameterError, match="threads"):
        binary.estimate_reports(np.zeros(403, bool), threads=threads)


@cones
def test_errors_of_the_solver_are_told(monkeypatch):
    estimator = BinarySearchEstimator(Model(np.arange(4.0)), KaryResponse(2.0, k=4), n=100, step=0.4)
    monkeypatch.setattr(estimator._search, "affinity", lambda steps: 0.5)
    estimator.error_bound(0)
    with pytest.raises(DpcoreError, match="exceeds the error bound that was returned for it, because the cone solver"):
        estimator.estimate([[25, 25, 25, 25]])


@cones
def test_bounds_that_nobody_asked_for_follow_the_tests():
    estimator = BinarySearchEstimator(Model(np.arange(4.0)), KaryResponse(2.0, k=4), n=100, step=0.4)
    distance = estimator.N - 2
    estimator._search._affinities[distance] = 0.5  # as if the solver had missed here
    estimator.estimate([[25, 25, 25, 25]])
    assert 0.5 < estimator._search.affinity(distance) < 1


@pytest.mark.long
def test_without_the_solver_binary_channels_need_only_a_step(monkeypatch):
    monkeypatch.setitem(sys.modules, "clarabel", None)
    assert BinarySearchEstimator(MODEL, CHANNEL, n=100, step="tuned").N > 2
    with pytest.raises(ModuleNotFoundError, match=r"pip install '\S*\[minimax\]'"):
        BinarySearchEstimator(MODEL, CHANNEL, n=100, step="theory")
    with pytest.raises(ModuleNotFoundError, match=r"pip install '\S*\[minimax\]'"):
        BinarySearchEstimator(Model(np.arange(4.0)), KaryResponse(2.0, k=4), n=100, step=0.4).estimate([25, 25, 25, 25])
