"""Adaptive queries: what is counted, what is reserved before what is drawn, and what is refused."""

from __future__ import annotations

import copy
import math
import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dpcore import BudgetError, EntropyError, ParameterError, ParameterTypeError, Privacy, accounting, selection
from dpcore.inference import AdaptiveQueries
from dpcore.rng import StreamPosition
from dpcore.sums import clamped_sum
from dpcore.testing import KeyedRandom

DATA = np.random.default_rng(3).standard_normal(1000)
EVERY = [lambda x: x > 0, lambda x: x > 1, np.abs]


def queries(k=3, data=DATA, **options):
    return AdaptiveQueries(data, 0.5, 1e-6, uses=k, **{"rng": KeyedRandom(bytes(32))} | options)


class Recorded:
    """A ledger and a stream that write down in which order they are used."""

    secure = True

    def __init__(self, refuse=()):
        self.events, self.refuse = [], refuse

    def spend(self, privacy, *, what, unit, secure):
        assert secure is True
        assert unit == "row"
        self.events.append(("spend", privacy, what))
        if len(self.events) in self.refuse:
            raise BudgetError("nothing left")
        return self

    state = "done"

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.events.append("done")

    def position(self):
        self.events.append("draw")
        return StreamPosition(bytes(32), len(self.events))


def test_an_answer_is_a_noisy_exact_mean():
    made = queries()
    gamma = 0.5 / math.sqrt(8 * 3 * math.log(1e6))
    assert made.gamma == pytest.approx(gamma, rel=1e-12)
    assert made.gamma < gamma * (1 + 1e-15)
    assert made.scale == pytest.approx(1 / (gamma * 1000), rel=1e-12)
    assert made.stderr == pytest.approx(math.sqrt(2) / (gamma * 1000), rel=1e-12)
    for nonce, query in enumerate(EVERY):
        total = clamped_sum(np.asarray(query(DATA), np.float64), 0, 1)
        expected = total.noisy("laplace", made.scale * 1000, rng=KeyedRandom(bytes(32)).at(nonce)) / 1000
        assert made.answer(query) == expected


def test_values_are_clamped_and_nan_is_zero():
    wild = np.array([np.inf, -np.inf, np.nan, 7.0, -7.0, 0.5, -np.nan, 1.0])
    tame = np.array([1.0, 0.0, 0.0, 1.0, 0.0, 0.5, 0.0, 1.0])
    assert queries(data=np.arange(8)).answer(lambda _: wild) == queries(data=np.arange(8)).answer(lambda _: tame)
    as_list, as_float = (queries(data=["a", "b"]).answer(query) for query in (lambda _: [1, 0], lambda _: [1.0, 0.0]))
    assert as_list == as_float
    for dtype in (np.bool_, np.uint8, np.int64, np.float16, np.float32):
        assert queries(data=tame).answer(lambda _, t=dtype: (tame == 1).astype(t)) == queries(data=tame).answer(lambda x: x == 1)


def test_query_k_plus_one_is_refused_and_not_called():
    made = queries(k=2)
    assert made.remaining == 2
    made.answer(EVERY[0])
    made.answer(EVERY[0])
    assert made.remaining == 0
    called = []
    with pytest.raises(BudgetError, match="uses = 2 queries were asked"):
        made.answer(called.append)
    assert called == []


def test_a_query_that_fails_counts():
    made = queries(k=2)
    with pytest.raises(ZeroDivisionError):
        made.answer(lambda _: 1 / 0)
    for result in (np.zeros(999), np.zeros((1000, 1)), 0.5):
        made = queries(k=1)
        with pytest.raises(ParameterError, match="one number for each of 1000 records"):
            made.answer(lambda _, r=result: r)
        assert made.remaining == 0
    for result in (np.full(1000, None), np.ma.array(DATA, mask=DATA > 0), np.zeros(1000, complex)):
        with pytest.raises(ParameterTypeError, match="the result of a query"):
            queries().answer(lambda _, r=result: r)


def test_threads_share_one_count():
    made = AdaptiveQueries(DATA, 0.5, 1e-6, uses=50)

    def ask(_):
        try:
            return made.answer(EVERY[0])
        except BudgetError:
            return None

    with ThreadPoolExecutor(8) as executor:
        answers = list(executor.map(ask, range(80)))
    assert sum(answer is not None for answer in answers) == 50
    assert len({answer for answer in answers if answer is not None}) > 40  # fresh noise each time


def test_privacy_grows_by_each_choice():
    made = queries()
    assert made.privacy == Privacy(0.5, 1e-6)
    made.best_of(EVERY, 0.25)
    made.answer(EVERY[0])
    made.best_of(EVERY, 0.125)
    assert made.privacy == Privacy(0.875, 1e-6) == accounting.basic([Privacy(0.5, 1e-6), Privacy(0.25), Privacy(0.125)])
    assert made.remaining == 2


def test_best_of_is_noisy_argmax_of_the_means():
    totals = np.array([float(clamped_sum(np.asarray(query(DATA), np.float64), 0, 1).high) for query in EVERY])
    made, stream = queries(), KeyedRandom(bytes(32))
    for _ in range(50):
        assert made.best_of(EVERY, 0.01) == selection.noisy_argmax(totals, 0.01, 1.0, rng=stream)
    assert queries().best_of(EVERY, 100.0) == 2
    assert queries().best_of(EVERY[:1], 0.1) == 0


def test_reserved_before_anything_is_drawn():
    log = Recorded()
    made = queries(ledger=log, rng=log)
    made.answer(EVERY[0])
    made.answer(EVERY[0])
    made.best_of(EVERY, 0.25)
    assert log.events == [
        ("spend", Privacy(0.5, 1e-6), "3 adaptive queries"), "draw", "done", "draw",
        ("spend", Privacy(0.25), "choice among 3 queries"), "draw", "done",
    ]  # fmt: skip


def test_nothing_is_drawn_when_the_ledger_refuses():
    log = Recorded(refuse=(1,))
    with pytest.raises(BudgetError, match="nothing left"):
        queries(ledger=log, rng=log)
    assert len(log.events) == 1
    log, called = Recorded(refuse=(2,)), []
    made = queries(ledger=log, rng=log)
    with pytest.raises(BudgetError, match="nothing left"):
        made.best_of([called.append], 0.25)
    assert len(log.events) == 2
    assert called == []
    assert made.privacy == Privacy(0.5, 1e-6)


def test_a_real_ledger(tmp_path):
    ledger = accounting.Ledger.create(tmp_path / "budget", epsilon=1.0, delta=1e-6)
    made = queries(ledger=ledger, rng=None)
    assert ledger.spent == accounting.Budget(0.5, 1e-6)
    assert [entry.state for entry in ledger.entries()] == ["reserved"]
    made.answer(EVERY[0])
    made.best_of(EVERY, 0.25)
    assert (ledger.spent.epsilon, ledger.spent.delta) == (made.privacy.epsilon, made.privacy.delta) == (0.75, 1e-6)
    assert [entry.state for entry in ledger.entries()] == ["done", "done"]
    with pytest.raises(BudgetError):
        made.best_of(EVERY, 0.5)
    with pytest.raises(BudgetError):
        queries(ledger=ledger, rng=None)


def test_a_ledger_of_persons_does_not_pay_for_rows(tmp_path):
    ledger = accounting.Ledger.create(tmp_path / "budget", epsilon=1.0, delta=1e-6, unit="person")
    with pytest.raises(ParameterError, match="unit"):
        queries(ledger=ledger, rng=None)
    assert not list(ledger.entries())
    queries(ledger=ledger, rng=None, unit="person").best_of(EVERY, 0.25)
    assert (ledger.spent.epsilon, ledger.spent.delta) == (0.75, 1e-6)


class Empty:
    """A source of randomness that has none: it raises, once the ledger has been charged."""

    secure = True

    def __init__(self, error):
        self.error, self.asked = error, 0

    def position(self):
        self.asked += 1
        raise self.error


@pytest.mark.parametrize(
    ("error", "reason"), [(EntropyError("none"), "entropy"), (KeyboardInterrupt(), "interrupted"), (RuntimeError("a secret"), "error")]
)
def test_a_draw_that_fails_has_spent(tmp_path, error, reason):
    ledger = accounting.Ledger.create(tmp_path / "budget", epsilon=1.0, delta=1e-6)
    rng = Empty(error)
    made = queries(ledger=ledger, rng=rng)
    with pytest.raises(type(error)):
        made.answer(EVERY[0])
    with pytest.raises(type(error)):
        made.best_of(EVERY, 0.25)
    assert rng.asked == 2
    assert [(entry.epsilon, entry.state, entry.reason) for entry in ledger.entries()] == [(0.5, "failed", reason), (0.25, "failed", reason)]
    called = []
    with pytest.raises(BudgetError, match="the first answer failed, and so did its spend"):
        made.answer(called.append)
    assert called == []
    assert b"a secret" not in ledger.path.read_bytes()


def test_a_query_that_fails_has_drawn_nothing_and_leaves_its_spend_reserved(tmp_path):
    ledger = accounting.Ledger.create(tmp_path / "budget", epsilon=1.0, delta=1e-6)
    made = queries(ledger=ledger, rng=None)
    with pytest.raises(ZeroDivisionError):
        made.answer(lambda _: 1 / 0)
    assert [entry.state for entry in ledger.entries()] == ["reserved"]
    made.answer(EVERY[0])
    assert [entry.state for entry in ledger.entries()] == ["done"]


def test_keyed_noise_and_ledgers_exclude_each_other(tmp_path):
    ledger = accounting.Ledger.create(tmp_path / "budget", epsilon=1.0, delta=1e-6)
    with pytest.raises(ParameterError, match="secure must be True"):
        queries(ledger=ledger)
    assert list(ledger.entries()) == []


def test_accuracies():
    made = queries(k=7)
    assert made.empirical_accuracy(0.05) == pytest.approx(math.log(7 / 0.05) / (made.gamma * 1000))
    accuracy, failure = made.statistical_accuracy(0.05)
    assert accuracy == made.empirical_accuracy(0.05) + 10 * 0.5
    assert failure == pytest.approx(0.05 + 7 * 1e-6 / 0.5)
    needed = math.log(1e6) / 0.25
    assert made.statistical_accuracy(0.05, constant=999 / needed) == (accuracy, failure)
    with pytest.raises(ParameterError, match="got 1000"):
        made.statistical_accuracy(0.05, constant=1001 / needed)
    with pytest.raises(ParameterError, match="constant"):
        made.statistical_accuracy(0.05, constant=0)
    assert AdaptiveQueries(DATA, 0.5, 0.1, uses=100).statistical_accuracy(0.5)[1] == 1.0
    for beta in (0.0, 1.0, math.nan):
        with pytest.raises(ParameterError, match="beta"):
            made.empirical_accuracy(beta)
        with pytest.raises(ParameterError, match="beta"):
            made.statistical_accuracy(beta)


@pytest.mark.parametrize(
    ("epsilon", "delta", "k", "error", "name"),
    [
        (0.0, 1e-6, 1, ParameterError, "epsilon"),
        (1.0, 1e-6, 1, ParameterError, "epsilon"),
        (0.5, 0.0, 1, ParameterError, "delta"),
        (0.5, 1.0, 1, ParameterError, "delta"),
        (0.5, 0.9, 1, ParameterError, "epsilon must be at most"),
        (0.5, 1e-6, 0, ParameterError, "uses must be"),
        (0.5, 1e-6, 1.0, ParameterTypeError, "uses must be"),
    ],
)
def test_parameters_out_of_range(epsilon, delta, k, error, name):
    with pytest.raises(error, match=name):
        AdaptiveQueries(DATA, epsilon, delta, uses=k)


def test_other_arguments():
    with pytest.raises(ParameterError, match="at least one record"):
        AdaptiveQueries([], 0.5, 1e-6, uses=1)
    with pytest.raises(ParameterTypeError, match="must have a length"):
        AdaptiveQueries(5, 0.5, 1e-6, uses=1)
    with pytest.raises(ParameterTypeError, match="rng"):
        AdaptiveQueries(DATA, 0.5, 1e-6, uses=1, rng=np.random.default_rng())
    made = queries()
    with pytest.raises(ParameterTypeError, match="query must be a function"):
        made.answer(DATA)
    for wrong in (iter(EVERY), EVERY[0], [*EVERY, 3]):
        with pytest.raises(ParameterTypeError, match="queries must be a sequence"):
            made.best_of(wrong, 0.5)
    with pytest.raises(ParameterError, match="at least one query"):
        made.best_of([], 0.5)
    with pytest.raises(ParameterError, match="epsilon must be positive"):
        made.best_of(EVERY, 0.0)
    assert made.privacy == Privacy(0.5, 1e-6)
    assert made.remaining == 3
    assert repr(made) == "AdaptiveQueries(<1000 records>, epsilon=0.5, delta=1e-06, uses=3)"


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_copy_would_have_a_budget_of_its_own(copied):
    queries = AdaptiveQueries(np.zeros(10), 0.5, 1e-6, uses=3)
    with pytest.raises(ParameterTypeError, match="must not be copied or pickled"):
        copied(queries)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_child_of_fork_answers_nothing():
    asked = queries(k=2)

    def answers_of_child(ask):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            given = 0
            try:
                ask()
                given = 1
            except BudgetError as error:
                given = 2 if "process" in str(error) else 3
            finally:
                os.write(writing, bytes([given]))
                os._exit(0)
        os.close(writing)
        os.waitpid(child, 0)
        told = os.read(reading, 2)
        os.close(reading)
        return told

    assert answers_of_child(lambda: asked.answer(np.abs)) == b"\2"
    assert answers_of_child(lambda: asked.best_of(EVERY, 0.1)) == b"\2"
    asked.answer(np.abs)
    assert asked.remaining == 1
