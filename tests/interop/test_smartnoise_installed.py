"""`dpcore.interop.smartnoise`: seeds, installation, pickles, processes, threads, and the page."""

from __future__ import annotations

import multiprocessing
import pickle
import random
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from dpcore._extras import BELOW, install
from dpcore.bench.benchmark import Plan
from dpcore.bench.interop import smartnoise as rows
from dpcore.errors import ForeignPatchError, ParameterError, ParameterTypeError, UntestedVersionWarning
from dpcore.interop import smartnoise
from support import laws
from support.smartnoise import (
    BY_EDUCATION,
    KINDS,
    ONE_LINE,
    Gaussian,
    Laplace,
    Mechanism,
    Mechanisms,
    Privacy,
    attributes,
    columns,
    connection,
    fit,
    noise_of,
    ours,
    people,
    served,
)


@pytest.fixture
def installed():
    with smartnoise.install() as found:
        yield found


# Seeds


def test_a_reload_keeps_the_stream_of_a_seed_and_the_classes_that_whole_columns_need():
    program = (
        "import importlib\n"
        "from dpcore.interop import smartnoise\n"
        "smartnoise.install(random_state=7)\n"
        "stream, first = smartnoise._stream(), smartnoise.Laplace\n"
        "assert not stream.secure\n"
        "importlib.reload(smartnoise)\n"
        "assert smartnoise._stream() is stream\n"
        "assert first is not smartnoise.Laplace\n"
        "assert issubclass(smartnoise.Laplace, smartnoise.ExactNoise)\n"
        "smartnoise.install(random_state=7)\n"
        "smartnoise.uninstall()\n"
        "assert smartnoise._stream() is None\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("seed", [lambda: 7, lambda: np.random.RandomState(7), lambda: np.random.default_rng(7), lambda: random.Random(7)])
def test_seeds_repeat_answers(seed):
    answers = []
    for _ in range(2):
        with smartnoise.install(random_state=seed()):
            answers.append([connection().execute(BY_EDUCATION) for _ in range(2)])
    assert answers[0] == answers[1]
    assert answers[0][0] != answers[0][1]
    with smartnoise.install():
        assert connection().execute(BY_EDUCATION) != answers[0][0]


def answer() -> list:
    return connection().execute(ONE_LINE)


def test_a_forked_process_repeats_a_seed():
    with smartnoise.install(random_state=3), multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(answer) == answer()


def test_other_seeds_are_refused():
    with pytest.raises(ParameterTypeError, match="random_state"):
        smartnoise.install(random_state=1.5)
    with smartnoise.install(random_state=1), pytest.raises(ParameterError, match="random_state=1"):
        smartnoise.install(random_state=2)
    assert not smartnoise._INSTALLATION.active


# Installation


REPLACED = {
    "Mechanisms.get_mechanism",
    "PrivateReader._get_reader",
    "PrivateReader._check_pre_aggregated_columns",
    "Mechanisms.__dpcore_stream__",
}


def test_every_attribute_is_restored_by_identity():
    before = dict(attributes())
    with smartnoise.install(random_state=3):
        assert served()
        assert {name for name, value in attributes() if before.get(name) != value} == REPLACED
    assert dict(attributes()) == before
    smartnoise.uninstall()
    assert dict(attributes()) == before
    assert not served()


def test_connections_opened_before_are_served_and_native_after():
    reader = connection()
    with smartnoise.install():
        assert type(columns(reader, ONE_LINE)["count_star"]) is smartnoise.Laplace
        inside = connection()
    assert type(columns(reader, ONE_LINE)["count_star"]) is Laplace
    assert type(columns(inside, ONE_LINE)["count_star"]) is Laplace


def test_classes_of_the_user_and_unbounded_columns_are_left_alone(installed):
    class Own(Laplace):
        pass

    privacy = Privacy(epsilon=1.0)
    privacy.mechanisms.classes[Mechanism.discrete_laplace] = Own
    assert type(columns(connection(privacy), ONE_LINE)["count_star"]) is Own
    unbounded = connection(age={"type": "int"})
    with pytest.raises(ValueError, match="unbounded"):
        unbounded.execute("SELECT SUM(age) AS years FROM PUMS.PUMS")


def test_one_connection_without_a_replacement():
    privacy = Privacy(epsilon=0.5, mechanisms=smartnoise.mechanisms())
    assert set(privacy.mechanisms.classes.values()) == {smartnoise.Laplace, smartnoise.Gaussian}
    assert not served()
    found = noise_of(connection(privacy), 30_000)["count_star"]
    assert fit("laplace", 2.0, found) > laws.ERROR_RATE
    with smartnoise.install():
        assert type(columns(connection(privacy), ONE_LINE)["count_star"]) is smartnoise.Laplace


def test_twice_from_two_threads_and_in_turn():
    before = dict(attributes())
    barrier = threading.Barrier(2)

    def work(_: int) -> bool:
        barrier.wait()
        with smartnoise.install():
            return served()

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(work, range(2))) == [True, True]
    with smartnoise.install(), smartnoise.install():
        pass
    assert dict(attributes()) == before


def test_somebody_elses_patch_is_kept(monkeypatch):
    def foreign(self, sensitivity, stat, t):
        return Laplace

    monkeypatch.setattr(Mechanisms, "get_mechanism", foreign)
    with pytest.raises(ForeignPatchError, match=r"Mechanisms\.get_mechanism"):
        smartnoise.install()
    monkeypatch.undo()
    with smartnoise.install():
        monkeypatch.setattr(Mechanisms, "get_mechanism", foreign)
        with pytest.raises(ForeignPatchError, match=r"Mechanisms\.get_mechanism"):
            smartnoise.uninstall()
        monkeypatch.undo()
    assert not served()


def child(code: str) -> str:
    return subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_the_import_changes_nothing_and_needs_no_smartnoise():
    code = (
        "import sys, dpcore.interop.smartnoise as s; print([m for m in ('snsql', 'opendp', 'pandas') if m in sys.modules], s.PEER.tested)"
    )
    assert child(code) == "[] ('1.0.10',)"
    with pytest.raises(AttributeError, match="no attribute 'Snapping'"):
        smartnoise.Snapping  # noqa: B018


def test_inside_the_import_of_smartnoise(tmp_path):
    (tmp_path / "snsql.py").write_text("from dpcore.interop import smartnoise\nsmartnoise.install()\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\ntry: import snsql\nexcept Exception as error: print(error)"
    assert "still being imported" in child(code)


def test_an_absent_smartnoise_and_an_untested_one(monkeypatch):
    code = (
        "import dpcore.interop._peers as p, dpcore.interop.smartnoise as s\n"
        "p.find_spec = lambda name: None\n"
        "for call in (s.install, s.mechanisms):\n"
        "    try: call()\n"
        "    except ModuleNotFoundError as error: print(error)"
    )
    assert child(code).count(install("peer-smartnoise", gap=BELOW)) == 2
    monkeypatch.setattr("importlib.metadata.version", lambda _: "2.0")
    with pytest.warns(UntestedVersionWarning, match=r"smartnoise-sql 2\.0 was not tested"):
        smartnoise.PEER.require()


# Pickles, processes, threads


@pytest.mark.parametrize("kind", KINDS)
def test_pickles_keep_dpcores_noise_after_uninstall(installed, kind):
    text = pickle.dumps([ours(kind), smartnoise.mechanisms()])
    smartnoise.uninstall()
    mechanism, property_bag = pickle.loads(text)
    assert type(mechanism) is type(ours(kind))
    assert fit(kind, mechanism.scale, np.array(mechanism.release([0.0] * 30_000))) > laws.ERROR_RATE
    assert smartnoise.Gaussian in property_bag.classes.values()
    assert not served()
    found = child(f"import pickle; print(type(pickle.loads({text!r})[0]).__module__)")
    assert found == "dpcore.interop.smartnoise"


def in_worker(mechanism) -> tuple[bool, list[float]]:
    return served(), mechanism.release([0] * 20)


@pytest.mark.parametrize(("method", "expected"), [("fork", True), ("spawn", False)])
def test_processes_draw_apart_and_spawned_ones_install_for_themselves(installed, method, expected):
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        found = pool.map(in_worker, [ours("laplace")] * 4, chunksize=1)
    assert [active for active, _ in found] == [expected] * 4
    draws = {tuple(values) for _, values in [*found, in_worker(ours("laplace"))]}
    assert len(draws) == 5


def test_threads_draw_apart_and_have_the_same_classes(installed):
    mechanism = ours("gaussian", 2.0)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: np.array(mechanism.release([0.0] * 1000)), range(64)))
    assert len({part.tobytes() for part in found}) == 64
    assert fit("gaussian", mechanism.scale, np.concatenate(found)) > laws.ERROR_RATE
    assert isinstance(mechanism, Gaussian)
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: smartnoise.__getattr__("Laplace"), range(64)))) == 1


# The benchmarks and the page


@pytest.mark.parametrize("item", list(rows.benchmarks(Plan(size=1, largest=1, cores=1, quick=True))), ids=lambda item: item.name)
def test_the_benchmarks_check_their_answers(item):
    made = item.inputs()
    for side, check in ((item.ours, item.check), (item.sides[0].prepare, item.sides[0].check)):
        answer = side(made)()
        check(made, answer)
        for wrong in (Laplace(1.0, sensitivity=10), [1000.0], [["n", "years"]]):
            with pytest.raises((AssertionError, AttributeError, TypeError)):
                check(made, wrong)
    assert not served()


def test_a_benchmark_of_groups_finds_an_answer_without_noise():
    exact = [["area", "n", "years"], *[[0, 5, 200]] * rows.FEW]
    with pytest.raises(AssertionError, match="standard deviation 0"):
        rows._check_answer(None, exact, rows=rows.FEW)


PAGE = Path(__file__).resolve().parents[2] / "docs" / "interop" / "smartnoise.md"


@pytest.mark.source_tree
def test_the_examples_of_the_page_run(tmp_path, monkeypatch, capsys):
    people().to_csv(tmp_path / "PUMS.csv", index=False)
    blocks = re.findall(r"```py\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) >= 3
    monkeypatch.chdir(tmp_path)
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), {})  # our own page
        smartnoise.uninstall()
    assert "income" in capsys.readouterr().out
    assert not served()
