"""dpcore.interop.opendp in a process: the peer, names in contexts, threads and forks, memory, and the programs of its page."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from dpcore.errors import ForeignPatchError, UntestedVersionWarning
from dpcore.interop import opendp as fast
from dpcore.interop._peers import Peer
from dpcore.interop.opendp import _measurements
from support.opendp import FEATURES, array_space, dp, features, list_space, number_space


@pytest.fixture(autouse=True)
def enabled():
    with features(*FEATURES):
        yield


def contexts():
    return importlib.import_module("opendp.context").constructors


# The peer


def test_an_untested_version_warns(monkeypatch):
    other = Peer(module="opendp.prelude", distribution="opendp", tested=("99.1",), extra="peer-opendp")
    _measurements.peer.cache_clear()
    monkeypatch.setattr(_measurements, "PEER", other)
    with pytest.warns(UntestedVersionWarning, match=r"opendp 0\.16\S* was not tested with dpcore"):
        fast.make_laplace(*number_space(), 1.0)
    _measurements.peer.cache_clear()


def test_an_absent_peer_is_named_with_the_pip_line():
    program = """
import sys
sys.modules["opendp"] = None
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "opendp":
            raise ModuleNotFoundError(name)
from dpcore._extras import BELOW, install
from dpcore.interop import opendp as fast
assert "opendp.prelude" not in sys.modules
import importlib.util
real = importlib.util.find_spec
import dpcore.interop._peers as peers
peers.find_spec = lambda name: None if name == "opendp" else real(name)
for call in (lambda: fast.make_laplace(None, None, 1.0), lambda: fast.then_laplace(1.0), fast.install):
    try:
        call()
    except ModuleNotFoundError as error:
        assert install("peer-opendp", gap=BELOW) in str(error), error
    else:
        raise AssertionError("nothing was raised")
fast.uninstall()
print("ok")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "ok"


def test_importing_the_module_imports_nothing_of_opendp():
    program = "import sys, dpcore.interop.opendp; print([m for m in sys.modules if m.partition('.')[0] == 'opendp'])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "[]"


# Names in contexts

NAMES = {
    *("dpcore_laplace", "dpcore_gaussian", "dpcore_noisy_max", "dpcore_noisy_top_k", "dpcore_randomized_response_bool"),
    *("dpcore_randomized_response", "dpcore_ks_exponential"),
}


def test_names_come_and_go_and_nothing_else_changes():
    before = dict(contexts())
    with fast.install():
        assert set(contexts()) - set(before) == NAMES
        fast.install()
        with fast.install():
            pass
        assert contexts().keys() >= NAMES
        assert all(contexts()[name] is value for name, value in before.items())
    fast.uninstall()
    assert contexts() == before
    assert all(contexts()[name] is value for name, value in before.items())
    fast.uninstall()


def test_two_threads_share_the_names():
    before, inside = dict(contexts()), threading.Barrier(4)

    def work():
        with fast.install():
            inside.wait()
            found = contexts().keys() >= NAMES
            inside.wait()
            return found

    with ThreadPoolExecutor(4) as pool:
        assert all(future.result() for future in [pool.submit(work) for _ in range(4)])
    assert contexts() == before


def test_names_of_others_are_left_alone():
    before = dict(contexts())
    contexts()["dpcore_gaussian"] = (lambda: None, False)
    try:
        with pytest.raises(ForeignPatchError, match="dpcore_gaussian is registered"):
            fast.install()
        assert set(contexts()) - set(before) == {"dpcore_gaussian"}
    finally:
        del contexts()["dpcore_gaussian"]
    fast.install()
    ours = contexts()["dpcore_laplace"]
    contexts()["dpcore_laplace"] = (lambda: None, False)
    with pytest.raises(ForeignPatchError, match="replaced again"):
        fast.uninstall()
    contexts()["dpcore_laplace"] = ours
    fast.uninstall()
    assert contexts() == before


def test_without_names_contexts_know_nothing_of_dpcore():
    session = dp.Context.compositor(
        data=[1, 2, 3], privacy_unit=dp.unit_of(contributions=1), privacy_loss=dp.loss_of(epsilon=1.0), split_evenly_over=1,
        domain=dp.vector_domain(dp.atom_domain(T=int)),
    )  # fmt: skip
    with pytest.raises(AttributeError, match="dpcore_laplace"):
        session.query().count().dpcore_laplace()


def test_frames_keep_opendp_s_own_noise():
    pl = pytest.importorskip("polars", reason="pip install 'opendp[polars]'")
    frame = pl.LazyFrame({"age": [20, 30, 40] * 50})
    session = dp.Context.compositor(
        data=frame, privacy_unit=dp.unit_of(contributions=1), privacy_loss=dp.loss_of(epsilon=1.0), split_evenly_over=2,
        margins=[dp.polars.Margin(max_length=200)],
    )  # fmt: skip
    with fast.install():
        assert session.query().select(dp.len(signed=True)).release().collect().shape == (1, 1)
        with pytest.raises(AttributeError):
            session.query().select(pl.len()).dpcore_laplace()


# Processes and threads


def answers(size=4):
    """What a process draws; its own measurement, because none can be sent."""
    with features(*FEATURES):
        return fast.make_laplace(*list_space(), 1.0)([0.0] * size)


def send(pipe):
    pipe.send(answers())


def test_a_spawned_process_makes_its_own_measurement():
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    process = spawn.Process(target=send, args=(there,))
    process.start()
    drawn = here.recv()
    process.join(120)
    assert process.exitcode == 0
    assert not set(drawn) & set(answers())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_forks_use_a_measurement_of_their_parent_and_draw_other_noise():
    measurement = fast.make_laplace(*list_space(), 1.0)
    drawn = [measurement([0.0] * 4)]
    for _ in range(2):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:  # nothing of pytest may run here
            os.write(write, json.dumps(measurement([0.0] * 4)).encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as answer:
            drawn.append(json.load(answer))
        assert os.waitpid(child, 0)[1] == 0
    drawn.append(measurement([0.0] * 4))
    flat = [x for row in drawn for x in row]
    assert len(set(flat)) == len(flat)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_forks_after_large_arrays_have_threads_of_their_own():
    data = np.zeros((2000, 1000))
    measurement = fast.make_laplace(*array_space(data.shape), 1.0)
    here = float(measurement(data)[0, 0])
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, str(float(measurement(data)[0, 0])).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        assert float(answer.read()) != here
    assert os.waitpid(child, 0)[1] == 0


def test_threads_use_one_measurement():
    measurement = fast.make_gaussian(*array_space((100, 100), "gaussian"), 1.0)
    data = np.zeros((100, 100))
    with ThreadPoolExecutor(8) as pool:
        drawn = list(pool.map(lambda _: measurement(data), range(64)))
    assert len({row.tobytes() for row in drawn}) == 64
    assert all(abs(row.std() - 1) < 0.1 for row in drawn)


def test_measurements_outlive_what_they_were_made_of():
    import gc

    made = [number_space() >> fast.then_laplace(1.0) for _ in range(50)]
    gc.collect()
    assert all(isinstance(measurement(0.0), float) for measurement in made)
    assert {measurement.map(1.0) for measurement in made} == {1.0}


@pytest.mark.parametrize("make", ["laplace", "noisy_max"])
def test_large_arrays_do_not_pile_up(make):
    import gc
    import weakref

    shape = (1_000_000,)
    if make == "laplace":
        measurement = fast.make_laplace(*array_space(shape), 1.0)
    else:
        scores = dp.numpy.arrayd_domain(shape=shape, T=float), dp.linf_distance(T=float)
        measurement = fast.make_noisy_max(*scores, dp.max_divergence(), 1.0)
    alive = []
    gc.disable()  # Python collects by the number of objects, which are few here
    try:
        for _ in range(20):
            data = np.zeros(shape)
            answer = measurement(data)
            alive += [weakref.ref(data), *([weakref.ref(answer)] if make == "laplace" else [])]
            del data, answer
    finally:
        gc.enable()
    assert sum(reference() is not None for reference in alive) <= 6


PAGE = Path(__file__).resolve().parents[2] / "docs" / "interop" / "opendp.md"


@pytest.mark.source_tree
def test_programs_of_the_page_run():
    programs = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    said = [
        subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True, timeout=300).stdout
        for program in programs
    ]
    own, ours, counts, *contexts = said
    assert own == "5000 0.5\n"
    assert ours == own + "(200, 200) 0.5\n"
    assert "1e-07" in counts
    for answers in contexts:
        count, total = (int(line.split()[1]) for line in answers.splitlines())
        assert abs(count - 500) < 100
        assert abs(total - 22250) < 8000
    lines, more = programs[3].splitlines(), programs[4].replace("dpcore_", "").replace(', "honest-but-curious"', "").splitlines()
    assert [line for line in more if line and line not in lines] == ["from dpcore.interop import opendp", "opendp.install()"]
    lines, more = programs[0].splitlines(), programs[1].replace(', "honest-but-curious"', "").replace("opendp.make", "dp.m.make")
    assert [line for line in more.splitlines()[:7] if line not in lines] == ["import numpy as np", "from dpcore.interop import opendp"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_the_generator_of_opendp_is_replaced_on_request_and_does_not_repeat_after_a_fork():
    from opendp import _lib

    before = _lib._np_csprng
    with fast.install(generator=True):
        generator = _lib.get_np_csprng()
        generator.normal()
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(write, str(generator.normal()).encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as answer:
            assert float(answer.read()) != generator.normal()
        assert os.waitpid(child, 0)[1] == 0
    assert _lib._np_csprng is before
