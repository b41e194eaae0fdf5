"""What every module of dpcore.interop relies on: finding its peer, replacing its attributes, restoring them, and seeds."""

from __future__ import annotations

import functools
import importlib
import multiprocessing
import os
import pickle
import random
import secrets
import sys
import threading
import types

import numpy as np
import pytest

from dpcore import noise
from dpcore.errors import ForeignPatchError, ParameterError, ParameterTypeError, UntestedVersionWarning
from dpcore.interop._installation import Installation, Replacement
from dpcore.interop._peers import Peer
from dpcore.interop._seeds import stream_of

SOURCE = """
class Base:
    def inherited(self): return "native"
class Mechanism(Base):
    kept = 1
    def randomise(self, value): return "native"
    @staticmethod
    def check(value): return "native"
def draw(): return "native"
CLASSES = {"laplace": Mechanism}
"""


@pytest.fixture
def peer(tmp_path, monkeypatch):
    """A package of its own, and its description."""
    name = f"peer_{secrets.token_hex(4)}"
    (tmp_path / f"{name}.py").write_text(SOURCE)
    info = tmp_path / f"{name}-1.2.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2.3\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield Peer(module=name, distribution=name, tested=("1.2",), extra="peer-name")
    sys.modules.pop(name, None)


def ours(*_: object) -> str:
    return "ours"


def replacements(peer):
    def make(**_options):
        module = importlib.import_module(peer.module)
        mechanism = module.Mechanism
        yield Replacement(mechanism, "randomise", ours)
        yield Replacement(mechanism, "check", staticmethod(ours))
        yield Replacement(mechanism, "inherited", ours)
        yield Replacement(module, "draw", ours)
        yield Replacement(module.CLASSES, "laplace", ours)

    return make


def state(peer):
    module = importlib.import_module(peer.module)
    entries = {**vars(module.Mechanism), **vars(module.Base), "draw": module.draw, **module.CLASSES}
    return {name: id(value) for name, value in entries.items()}


def served(peer):
    module = importlib.import_module(peer.module)
    mechanism = module.Mechanism()
    said = {mechanism.randomise(1), mechanism.check(1), mechanism.inherited(), module.draw()}
    assert len(said) == 1
    return said == {"ours"}


def test_uninstall_restores_every_attribute_by_identity(peer):
    before = state(peer)
    installation = Installation(peer, replacements(peer))
    installation.install()
    assert served(peer)
    assert installation.active
    installation.uninstall()
    assert state(peer) == before
    assert "inherited" not in vars(importlib.import_module(peer.module).Mechanism)
    installation.uninstall()
    assert not served(peer)


def test_the_last_context_restores(peer):
    installation = Installation(peer, replacements(peer))
    with installation.install():
        with installation.install():
            assert served(peer)
        assert served(peer)
    assert not served(peer)
    handle = installation.install()
    with handle, handle:
        assert served(peer)
    assert not served(peer)
    with handle:
        assert served(peer)
    assert not served(peer)


def test_an_installation_without_context_outlives_contexts(peer):
    installation = Installation(peer, replacements(peer))
    installation.install()
    with installation.install():
        assert served(peer)
    assert served(peer)
    installation.uninstall()
    with installation.install():
        installation.uninstall()
        installation.install()
    assert served(peer)
    installation.uninstall()


def test_an_error_inside_the_context_restores_too(peer):
    installation = Installation(peer, replacements(peer))
    with pytest.raises(KeyError), installation.install():
        raise KeyError
    assert not served(peer)


def test_other_options_are_refused_and_equal_ones_are_not(peer):
    installation = Installation(peer, replacements(peer))
    with installation.install(vectorise=True):
        installation.install(vectorise=True)
        with pytest.raises(ParameterError, match=r"vectorise=True; call uninstall\(\) before installing with vectorise=False"):
            installation.install(vectorise=False)
    installation.uninstall()


def test_what_a_notebook_shows_names_the_peer_its_options_and_its_state(peer):
    installation = Installation(peer, replacements(peer))
    shown = installation.install(vectorise=True)
    again = installation.install(vectorise=True)  # a cell that is run again
    assert repr(shown) == repr(again) == f"<Installed in {peer.module}, vectorise=True: 5 attributes replaced>"
    installation.uninstall()
    assert repr(shown) == f"<Installed in {peer.module}, vectorise=True: restored>"


def test_threads_share_one_installation(peer):
    installation = Installation(peer, replacements(peer))
    inside, seen = threading.Barrier(8), []

    def work():
        with installation.install():
            inside.wait()
            seen.append(served(peer))
            inside.wait()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [True] * 8
    assert not served(peer)


def test_what_another_library_replaced_is_refused_and_nothing_changes(peer):
    module = importlib.import_module(peer.module)
    native = module.draw

    @functools.wraps(native)
    def foreign():
        return native()

    module.draw = foreign
    before = state(peer)
    installation = Installation(peer, replacements(peer))
    with pytest.raises(ForeignPatchError, match="draw is no longer"):
        installation.install()
    assert state(peer) == before
    assert not installation.active
    module.draw = native
    with installation.install():
        module.draw = foreign
        with pytest.raises(ForeignPatchError, match="draw was replaced again"):
            installation.uninstall()
        assert module.CLASSES["laplace"] is ours
        module.draw = ours
    assert not served(peer)


def test_two_installations_do_not_replace_the_same_attribute(peer):
    def others():
        yield from replacements(peer)()

    with Installation(peer, replacements(peer)).install(), pytest.raises(ForeignPatchError):
        Installation(peer, others).install()
    assert not served(peer)


def test_a_failure_half_way_restores(peer):
    class Stubborn(dict):
        def __setitem__(self, key, value):
            raise RuntimeError("stubborn")

    stubborn = Stubborn(laplace=None)

    def make():
        yield from replacements(peer)()
        yield Replacement(stubborn, "laplace", ours)

    before = state(peer)
    with pytest.raises(RuntimeError, match="stubborn"):
        Installation(peer, make).install()
    assert state(peer) == before


def test_an_absent_peer_is_named_with_its_pip_line():
    peer = Peer(module="no_such_peer", distribution="no-such-peer", tested=("1",), extra="peer-none")
    with pytest.raises(ModuleNotFoundError, match=r"pip install '\S*\[peer-none\]'"):
        Installation(peer, lambda: ()).install()


@pytest.mark.parametrize("tested", [("1.3",), ("1.2.30",), ("2",)])
def test_an_untested_version_warns(peer, tested):
    other = Peer(module=peer.module, distribution=peer.distribution, tested=tested, extra=peer.extra)
    with pytest.warns(UntestedVersionWarning, match=r"1\.2\.3 was not tested"):
        Installation(other, replacements(peer)).install().__exit__(None, None, None)


def test_an_untested_version_is_reported_at_the_line_that_installs(peer):
    other = Peer(module=peer.module, distribution=peer.distribution, tested=("2",), extra=peer.extra)
    program = "def install(call):\n    return call()\n"
    names = {"__name__": "dpcore.interop.some_peer"}
    exec(compile(program, "some_peer.py", "exec"), names)  # functions of dpcore's own stand between the user and the warning
    with pytest.warns(UntestedVersionWarning) as seen:
        names["install"](Installation(other, replacements(peer)).install).__exit__(None, None, None)
    assert [one.filename for one in seen] == [__file__]


def test_a_half_imported_peer_is_refused(tmp_path, monkeypatch):
    name = f"half_{secrets.token_hex(4)}"
    (tmp_path / f"{name}.py").write_text("import hook\nhook.call()\ndef draw(): return 'native'\n")
    monkeypatch.syspath_prepend(tmp_path)
    installation = Installation(Peer(module=name, distribution=name, tested=("1",), extra="peer-name"), lambda: ())
    monkeypatch.setitem(sys.modules, "hook", types.SimpleNamespace(call=installation.install))
    with pytest.raises(ParameterError, match="still being imported"):
        importlib.import_module(name)


def test_pickles_pass_between_installed_and_restored(peer):
    module = importlib.import_module(peer.module)
    installation = Installation(peer, replacements(peer))
    with installation.install():
        pickled = pickle.dumps(module.Mechanism())
    assert pickle.loads(pickled).randomise(1) == "native"
    with installation.install():
        assert pickle.loads(pickled).randomise(1) == "ours"


ADAPTER = """
from dpcore.interop._installation import Installation, Replacement
from dpcore.interop._peers import Peer
import importlib
PEER = Peer(module={name!r}, distribution={name!r}, tested=("1.2",), extra="peer-name")
def ours(*_): return "ours"
def make(**_options):
    module = importlib.import_module({name!r})
    yield Replacement(module.Mechanism, "randomise", ours)
    yield Replacement(module.Mechanism, "check", staticmethod(ours))
    yield Replacement(module.Mechanism, "inherited", ours)
    yield Replacement(module, "draw", ours)
    yield Replacement(module.CLASSES, "laplace", ours)
INSTALLATION = Installation(PEER, make)
"""


@pytest.fixture
def adapter(peer, tmp_path):
    """A module that serves the peer, and can be reloaded."""
    name = f"adapter_{secrets.token_hex(4)}"
    (tmp_path / f"{name}.py").write_text(ADAPTER.format(name=peer.module))
    yield importlib.import_module(name)
    importlib.import_module(name).INSTALLATION.uninstall()
    del sys.modules[name]


def reload_adapter(adapter):
    importlib.reload(adapter)


def reload_everything(adapter):
    importlib.reload(sys.modules[Installation.__module__])
    importlib.reload(adapter)


def import_again(adapter):
    del sys.modules[adapter.__name__]
    vars(adapter).update(vars(importlib.import_module(adapter.__name__)))


RELOADS = pytest.mark.parametrize("again", [reload_adapter, reload_everything, import_again])


@RELOADS
def test_an_adapter_that_was_reloaded_restores_what_the_first_one_replaced(peer, adapter, again):
    before = state(peer)
    adapter.INSTALLATION.install(vectorise=True)
    during = state(peer)
    again(adapter)
    assert adapter.INSTALLATION.active
    with pytest.raises(ParameterError, match="vectorise=True"):
        adapter.INSTALLATION.install(vectorise=False)
    adapter.INSTALLATION.install(vectorise=True)
    assert state(peer) == during
    adapter.INSTALLATION.uninstall()
    assert state(peer) == before
    assert "inherited" not in vars(importlib.import_module(peer.module).Mechanism)
    assert not adapter.INSTALLATION.active


@RELOADS
def test_a_block_that_was_begun_before_a_reload_ends_what_it_began(peer, adapter, again):
    before = state(peer)
    with adapter.INSTALLATION.install():
        again(adapter)
        with adapter.INSTALLATION.install():
            assert served(peer)
        assert served(peer)
    assert state(peer) == before


def test_after_a_reload_of_the_peer_an_install_serves_what_it_made_anew(peer, adapter):
    module = importlib.import_module(peer.module)
    first = module.Mechanism
    native = vars(first)["randomise"]
    adapter.INSTALLATION.install()
    importlib.reload(module)
    assert module.Mechanism is not first
    assert module.draw() == "native"
    adapter.INSTALLATION.install()
    assert served(peer)
    assert vars(first)["randomise"] is native
    adapter.INSTALLATION.uninstall()
    assert not served(peer)


def test_after_a_reload_of_the_peer_uninstall_restores_the_rest(peer, adapter):
    module = importlib.import_module(peer.module)
    first, native = module.Mechanism, vars(module.Mechanism)["randomise"]
    adapter.INSTALLATION.install()
    importlib.reload(module)
    anew = module.draw
    adapter.INSTALLATION.uninstall()
    assert vars(first)["randomise"] is native
    assert module.draw is anew


def test_what_another_library_replaced_after_a_reload_is_still_refused(peer, adapter):
    module = importlib.import_module(peer.module)
    adapter.INSTALLATION.install()
    importlib.reload(module)
    native, module.draw = module.draw, lambda: "foreign"
    for call in (adapter.INSTALLATION.install, adapter.INSTALLATION.uninstall):
        with pytest.raises(ForeignPatchError, match="draw was replaced again"):
            call()
    module.draw = native


def test_what_another_library_replaced_on_the_class_of_a_reload_is_refused_each_time(peer, adapter):
    """The replacements are gone with the old class, so that no later call may say that they are in place."""
    module = importlib.import_module(peer.module)
    begun = adapter.INSTALLATION.install()
    importlib.reload(module)
    native, module.Mechanism.randomise = module.Mechanism.randomise, lambda _self, _value: "foreign"
    module.Mechanism.randomise.__module__ = "elsewhere"
    before = state(peer)
    for _ in range(3):
        with pytest.raises(ForeignPatchError, match="randomise is no longer"):
            adapter.INSTALLATION.install()
        assert not adapter.INSTALLATION.active
        assert state(peer) == before
    assert repr(begun).endswith("restored>")
    adapter.INSTALLATION.uninstall()
    module.Mechanism.randomise = native
    with adapter.INSTALLATION.install():
        assert served(peer)
        with begun:
            assert served(peer)
        assert served(peer)
    assert not served(peer)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_fork_during_an_installation_waits_for_it(peer):
    module = importlib.import_module(peer.module)
    begun, forked = threading.Event(), threading.Event()

    class Slow(dict):
        def __setitem__(self, key, value):
            super().__setitem__(key, value)
            begun.set()
            forked.wait(0.2)

    slow = Slow(first=None)
    installation = Installation(peer, lambda: (Replacement(slow, "first", ours), Replacement(module, "draw", ours)))
    thread = threading.Thread(target=installation.install)
    thread.start()
    begun.wait()
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=lambda: answers.put((slow["first"] is ours, module.draw(), installation.uninstall(), module.draw())))
    child.start()
    forked.set()
    assert answers.get() == (True, "ours", None, "native")
    child.join()
    thread.join()
    installation.uninstall()


def draw(random_state):
    return noise.laplace(np.zeros(4), 1.0, rng=stream_of(random_state)).tolist()


@pytest.mark.parametrize("seed", [7, np.int64(7), -1, 2**200, b"seed", b""])
def test_a_seed_gives_one_stream(seed):
    assert draw(seed) == draw(seed)
    assert not stream_of(seed).secure


def test_different_seeds_give_different_streams():
    seeds = [7, 8, -7, b"7", b"", 2**200]
    assert len({tuple(draw(seed)) for seed in seeds}) == len(seeds)


@pytest.mark.parametrize("make", [np.random.RandomState, np.random.default_rng, random.Random])
def test_a_generator_moves_on_and_repeats_from_its_seed(make):
    one, two = make(3), make(3)
    first, second = draw(one), draw(one)
    assert first != second
    assert [draw(two), draw(two)] == [first, second]


@pytest.mark.parametrize("source", [None, secrets.SystemRandom()])
def test_the_system_is_the_source_without_a_seed(source):
    assert stream_of(source) is None


@pytest.mark.parametrize("seed", [True, 1.5, "seven", [1, 2]])
def test_other_seeds_are_refused(seed):
    with pytest.raises(ParameterTypeError, match="random_state must be"):
        stream_of(seed)


def test_a_source_of_too_few_bytes_is_refused():
    with pytest.raises(ParameterError, match="32 bytes"):
        stream_of(types.SimpleNamespace(bytes=lambda length: b"short"))
