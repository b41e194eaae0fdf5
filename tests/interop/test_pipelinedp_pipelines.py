"""`dpcore.interop.pipelinedp` in whole pipelines; its installation, processes, threads and pickles."""

from __future__ import annotations

import multiprocessing
import pickle
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pipeline_dp", reason="make test-interop PEER=pipelinedp")

import dill
import pipeline_dp
from pipeline_dp import dp_computations, report_generator

from dpcore._extras import BELOW, install
from dpcore.errors import ForeignPatchError, UntestedVersionWarning
from dpcore.interop import pipelinedp
from support import laws
from support.pipelinedp import ACCOUNTANTS, EPSILON, KINDS, attributes, fit, mechanism, noised, parameters, served

PAGE = Path(__file__).resolve().parents[2] / "docs" / "interop" / "pipelinedp.md"
DAYS, HOURS = 7, 24
VISITS = [(f"visitor {i}", i % DAYS, (i * 7) % HOURS, float(i % 60)) for i in range(7000)]
"""Of a restaurant: who, on which day, at what hour, for how much money. Every visitor comes once."""


@pytest.fixture
def installed():
    with pipelinedp.install() as found:
        yield found


# Pipelines


def curves() -> list[tuple[int, np.ndarray]]:
    """Visits by hour, for each day."""
    found = np.zeros((DAYS, HOURS), np.int64)
    for _, day, hour, _ in VISITS:
        found[day, hour] += 1
    return list(enumerate(found))


@pytest.mark.parametrize("public", [True, False], ids=["public", "private"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_pipeline_of_an_aggregation_and_of_noise_on_arrays(installed, kind, public):
    budget = pipeline_dp.NaiveBudgetAccountant(total_epsilon=20, total_delta=1e-6)
    engine = pipeline_dp.DPEngine(budget, pipeline_dp.LocalBackend())
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0], partition_extractor=lambda row: row[1], value_extractor=lambda row: row[3]
    )
    wanted = pipeline_dp.AggregateParams(
        noise_kind=pipeline_dp.NoiseKind[kind], metrics=[pipeline_dp.Metrics.COUNT, pipeline_dp.Metrics.SUM],
        max_partitions_contributed=1, max_contributions_per_partition=1, min_value=0, max_value=60,
    )  # fmt: skip
    totals = engine.aggregate(VISITS, wanted, extractors, public_partitions=list(range(DAYS)) if public else None)
    report = report_generator.ExplainComputationReport()
    params = pipeline_dp.AddDPNoiseParams(noise_kind=pipeline_dp.NoiseKind[kind], l0_sensitivity=1, linf_sensitivity=1)
    hours = engine.add_dp_noise(curves(), params, out_explain_computation_report=report)
    budget.compute_budgets()
    assert f"Adding NoiseKind.{kind} noise with parameter" in report.text()
    totals, hours = dict(totals), dict(hours)
    assert sorted(totals) == sorted(hours) == list(range(DAYS))
    for day, curve in curves():
        assert abs(totals[day].count - curve.sum()) < 30
        assert hours[day].shape == (HOURS,)
        assert np.abs(hours[day] - curve).max() < 30
        assert not np.array_equal(hours[day], np.rint(hours[day]))


def test_a_collection_that_is_read_twice_shows_the_same_noise(installed):
    budget = pipeline_dp.NaiveBudgetAccountant(total_epsilon=EPSILON, total_delta=0)
    engine = pipeline_dp.DPEngine(budget, pipeline_dp.LocalBackend())
    lazy = engine.add_dp_noise(curves(), parameters("LAPLACE"))
    budget.compute_budgets()
    first, second = dict(lazy), dict(lazy)
    pipelinedp.uninstall()
    for day, curve in dict(lazy).items():
        assert curve.tobytes() == first[day].tobytes() == second[day].tobytes()


def test_what_is_read_after_the_end_has_noise_of_pipelinedp(monkeypatch):
    with pipelinedp.install():
        budget = pipeline_dp.NaiveBudgetAccountant(total_epsilon=EPSILON, total_delta=0)
        engine = pipeline_dp.DPEngine(budget, pipeline_dp.LocalBackend())
        lazy = engine.add_dp_noise(curves(), parameters("LAPLACE"))
        budget.compute_budgets()
    monkeypatch.setattr(pipelinedp, "_entering", None)
    assert all(curve.shape == (HOURS,) for _, curve in lazy)


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_deviations_are_reported_beside_the_noise(installed, accountant):
    for kind in KINDS:
        (answer,) = noised(kind, np.zeros(100_000), accountant=accountant, output_noise_stddev=True)
        assert np.std(answer.noised_value) == pytest.approx(answer.noise_stddev, rel=0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_that_are_put_into_one_array_get_the_same_noise(installed, kind):
    """The recipe of the page: sensitivities are those of all numbers together, in both forms."""
    values, params = np.zeros(20_000), {"l0_sensitivity": 3, "linf_sensitivity": 2, "output_noise_stddev": True}
    params |= {"l1_sensitivity": None, "l2_sensitivity": None}
    numbers, (array,) = noised(kind, *values.tolist(), **params), noised(kind, values, **params)
    assert {number.noise_stddev for number in numbers} == {array.noise_stddev}
    scale = array.noise_stddev / (np.sqrt(2) if kind == "LAPLACE" else 1)
    assert fit(kind, scale, array.noised_value) > laws.ERROR_RATE
    assert fit(kind, scale, np.array([number.noised_value for number in numbers])) > laws.ERROR_RATE


# Installation


def test_every_attribute_is_restored_by_identity():
    before = dict(attributes())
    with pipelinedp.install():
        assert served()
        assert {name for name, value in attributes() if before.get(name) != value} == {"AdditiveMechanism.add_noise"}
    assert dict(attributes()) == before
    assert repr(pipelinedp.install()) == "<Installed in pipeline_dp: 1 attribute replaced>"
    pipelinedp.uninstall()
    pipelinedp.uninstall()
    assert dict(attributes()) == before


def test_twice_from_two_threads_and_in_turn():
    before, barrier = dict(attributes()), threading.Barrier(2)

    def work(_: int) -> bool:
        barrier.wait()
        with pipelinedp.install():
            return served()

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(work, range(2))) == [True, True]
    with pipelinedp.install(), pipelinedp.install():
        pass
    assert dict(attributes()) == before


def test_somebody_elses_patch_is_kept(monkeypatch):
    def foreign(self, value):
        return value

    monkeypatch.setattr(dp_computations.AdditiveMechanism, "add_noise", foreign)
    with pytest.raises(ForeignPatchError, match=r"AdditiveMechanism\.add_noise"):
        pipelinedp.install()
    monkeypatch.undo()
    pipelinedp.install()
    monkeypatch.setattr(dp_computations.AdditiveMechanism, "add_noise", foreign)
    with pytest.raises(ForeignPatchError, match=r"AdditiveMechanism\.add_noise"):
        pipelinedp.uninstall()
    monkeypatch.undo()
    monkeypatch.setattr(dp_computations.LaplaceMechanism, "add_noise", foreign, raising=False)
    assert mechanism("LAPLACE").add_noise(np.ones(3)).tolist() == [1.0] * 3
    pipelinedp.uninstall()
    assert not served()


def child(code: str) -> str:
    return subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_the_import_changes_nothing_and_needs_no_pipelinedp():
    code = "import sys, dpcore.interop.pipelinedp as p; print({'pipeline_dp', 'pydp', 'scipy'} & set(sys.modules), p.PEER.tested)"
    assert child(code) == "set() ('0.3.1',)"


def test_an_absent_pipelinedp_an_untested_and_a_half_imported_one(monkeypatch):
    code = (
        "import dpcore.interop._peers as p, dpcore.interop.pipelinedp as t\n"
        "p.find_spec = lambda name: None\n"
        "try: t.install()\n"
        "except ModuleNotFoundError as error: print(error)"
    )
    assert install("peer-pipelinedp", gap=BELOW) in child(code)
    monkeypatch.setattr("importlib.metadata.version", lambda _: "0.99")
    with pytest.warns(UntestedVersionWarning, match=r"pipeline-dp 0\.99 was not tested"):
        pipelinedp.PEER.require()
    code = (
        "import sys, dpcore.interop.pipelinedp as t\n"
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'pipeline_dp.aggregate_params':\n"
        "            try: t.install()\n"
        "            except Exception as error: print(type(error).__name__, error)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "import pipeline_dp"
    )
    assert "ParameterError pipeline_dp is still being imported" in child(code)


# Pickles, processes, threads


def test_mechanisms_have_no_pickles_and_methods_are_pickled_by_name(installed):
    for kind in KINDS:
        with pytest.raises(TypeError, match="pickle"):
            pickle.dumps(mechanism(kind))
    text = pickle.dumps(dp_computations.LaplaceMechanism.add_noise)
    task = dill.dumps(lambda values: mechanism("LAPLACE").add_noise(values))
    pipelinedp.uninstall()
    assert pickle.loads(text) is dp_computations.AdditiveMechanism.add_noise
    assert not served()
    assert dill.loads(task)(np.zeros(3)).shape == (3,)


def first(kind: str) -> tuple[bool, bytes]:
    return served(), noised(kind, np.zeros(50))[0].tobytes()


@pytest.mark.parametrize(("method", "expected"), [("fork", True), ("spawn", False)])
def test_forked_processes_are_served_and_spawned_ones_install_for_themselves(installed, method, expected):
    with multiprocessing.get_context(method).Pool(2) as pool:
        found = pool.map(first, ["LAPLACE"] * 4, chunksize=1)
    assert [active for active, _ in found] == [expected] * 4
    assert len({draws for _, draws in [*found, first("LAPLACE")]}) == 5


def test_a_spawned_process_that_installs_is_served():
    with multiprocessing.get_context("spawn").Pool(1, initializer=pipelinedp.install) as pool:
        assert pool.map(first, KINDS) != []
        assert [active for active, _ in pool.map(first, KINDS)] == [True, True]


def test_threads_share_a_mechanism_and_draw_apart(installed):
    shared = mechanism("GAUSSIAN")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: shared.add_noise(np.zeros(1000)), range(64)))
    assert len({part.tobytes() for part in found}) == 64
    assert fit("GAUSSIAN", pipelinedp.gaussian_scale(shared), np.concatenate(found)) > laws.ERROR_RATE


# The page


def test_the_two_programs_of_the_page_run_and_differ_by_two_lines():
    before, after = re.findall(r"```py\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[:2]
    added = [line for line in after.splitlines() if line and line not in before.splitlines()]
    assert added == ["from dpcore.interop import pipelinedp", "pipelinedp.install()"]
    for program in (before, after):
        assert "array([" in child(program + "\nprint(repr(released['Monday']))")


def test_benchmarks_check_their_answers():
    from dpcore.bench import Plan
    from dpcore.bench.interop.pipelinedp import benchmarks

    for item in benchmarks(Plan(size=2000, largest=2000, cores=1, quick=True)):
        made = item.inputs()
        item.check(made, item.ours(made)())
        for side in item.sides:
            side.check(made, side.prepare(made)())
    assert not served()
