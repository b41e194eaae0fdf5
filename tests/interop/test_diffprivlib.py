"""dpcore beneath diffprivlib, as its users meet it: install and uninstall, random states, processes, pickles, tools and models."""

from __future__ import annotations

import copy
import importlib
import inspect
import math
import multiprocessing
import os
import pickle
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

import diffprivlib
import diffprivlib.mechanisms as peer
import numpy as np
import pytest
from diffprivlib import models, tools
from diffprivlib.accountant import BudgetAccountant
from diffprivlib.mechanisms import base
from diffprivlib.tools import histograms, quantiles, utils

from dpcore.errors import ForeignPatchError, ParameterError, ParameterTypeError, UntestedVersionWarning
from dpcore.interop import diffprivlib as backend
from support.diffprivlib_plugin import is_served

OWNERS = [
    *(value for value in vars(peer).values() if isinstance(value, type)), base.DPMechanism, base.TruncationAndFoldingMixin,
    tools, histograms, utils, quantiles,
]  # fmt: skip
PAIRS = [("a", "b", 1.0), ("a", "c", 3.0), ("b", "c", 2.0)]
MAKE: dict[str, Any] = {
    "Laplace": lambda **o: (peer.Laplace(epsilon=1, sensitivity=1, **o), 0.5),
    "LaplaceTruncated": lambda **o: (peer.LaplaceTruncated(epsilon=1, sensitivity=1, lower=-9, upper=9, **o), 0.5),
    "LaplaceFolded": lambda **o: (peer.LaplaceFolded(epsilon=1, sensitivity=1, lower=-9, upper=9, **o), 0.5),
    "LaplaceBoundedDomain": lambda **o: (peer.LaplaceBoundedDomain(epsilon=1, sensitivity=1, lower=-9, upper=9, **o), 0.5),
    "LaplaceBoundedNoise": lambda **o: (peer.LaplaceBoundedNoise(epsilon=1, delta=0.1, sensitivity=1, **o), 0.5),
    "Geometric": lambda **o: (peer.Geometric(epsilon=0.01, **o), 5),
    "GeometricTruncated": lambda **o: (peer.GeometricTruncated(epsilon=0.01, lower=-900, upper=900, **o), 5),
    "GeometricFolded": lambda **o: (peer.GeometricFolded(epsilon=0.01, lower=-900, upper=900, **o), 5),
    "Gaussian": lambda **o: (peer.Gaussian(epsilon=1, delta=0.1, sensitivity=1, **o), 0.5),
    "GaussianAnalytic": lambda **o: (peer.GaussianAnalytic(epsilon=1, delta=0.1, sensitivity=1, **o), 0.5),
    "GaussianDiscrete": lambda **o: (peer.GaussianDiscrete(epsilon=0.01, delta=0.1, **o), 5),
    "Binary": lambda **o: (peer.Binary(epsilon=0.1, value0="a", value1="b", **o), "a"),
    "Exponential": lambda **o: (peer.Exponential(epsilon=1, sensitivity=1, utility=[0.0] * 40, measure=[1.0] * 40, **o), None),
    "PermuteAndFlip": lambda **o: (peer.PermuteAndFlip(epsilon=1, sensitivity=1, utility=[0.0] * 40, **o), None),
    "ExponentialCategorical": lambda **o: (peer.ExponentialCategorical(epsilon=0.1, utility_list=PAIRS, **o), "a"),
    "ExponentialHierarchical": lambda **o: (peer.ExponentialHierarchical(epsilon=0.1, hierarchy=[["a", "b"], ["c", "d"]], **o), "a"),
}
each = pytest.mark.parametrize("name", MAKE)
ADDITIVE = [name for name, make in MAKE.items() if isinstance(make()[1], int | float)]
each_additive = pytest.mark.parametrize("name", ADDITIVE)


@pytest.fixture
def served() -> Iterator[None]:
    """dpcore beneath diffprivlib, arrays included."""
    with backend.install(vectorise=True):
        yield


def attributes() -> dict[tuple[str, str], Any]:
    """Everything that the peer's classes and modules have, as it is stored."""
    return {(repr(owner), name): value for owner in OWNERS for name, value in vars(owner).items()}


def draws(mechanism: Any, value: Any, n: int = 30) -> list[Any]:
    return [mechanism.randomise(value) for _ in range(n)]


# Install and uninstall


@pytest.mark.parametrize("vectorise", [False, True])
def test_every_attribute_comes_back(vectorise: bool) -> None:
    before = attributes()
    backend.install(vectorise=vectorise)
    during = attributes()
    changed = {owner for (owner, name), value in during.items() if value is not before.get((owner, name))}
    assert len(changed) == 20
    backend.uninstall()
    after = attributes()
    assert after.keys() == before.keys()
    assert all(after[place] is before[place] for place in before)


def test_a_block_ends_what_it_began_and_not_what_was_there() -> None:
    own = vars(peer.Laplace)["randomise"]
    with backend.install():
        assert vars(peer.Laplace)["randomise"] is not own
        with backend.install():
            pass
        assert vars(peer.Laplace)["randomise"] is not own
        with pytest.raises(ParameterError, match="vectorise"):
            backend.install(vectorise=True)
    assert vars(peer.Laplace)["randomise"] is own
    backend.uninstall()


def test_two_threads_install_once() -> None:
    before = attributes()
    ready = threading.Barrier(4)

    def install() -> Any:
        ready.wait()
        return backend.install(vectorise=True)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: install(), range(4)))
    backend.uninstall()
    assert all(value is before[place] for place, value in attributes().items())


def test_somebody_elses_patch_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def randomise(self: Any, value: Any) -> Any:
        return value

    with monkeypatch.context() as patch:
        patch.setattr(peer.Geometric, "randomise", randomise)
        with pytest.raises(ForeignPatchError, match=r"Geometric\.randomise"):
            backend.install()
        assert "dpcore" not in peer.Laplace.randomise.__globals__["__name__"]
    backend.install()
    with monkeypatch.context() as patch:
        patch.setattr(peer.Geometric, "randomise", randomise)
        with pytest.raises(ForeignPatchError, match=r"Geometric\.randomise"):
            backend.uninstall()
    backend.uninstall()


def test_an_untested_version_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda _: "0.7.0")
    with pytest.warns(UntestedVersionWarning, match=r"diffprivlib 0\.7\.0"), backend.install():
        pass


def test_an_absent_peer_is_named_with_its_pip_line() -> None:
    code = "import sys; sys.modules['diffprivlib'] = None\nfrom dpcore.interop import diffprivlib\ndiffprivlib.install()"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode != 0
    assert "ModuleNotFoundError" in found.stderr


def test_an_install_inside_the_import_of_the_peer_is_refused(tmp_path: Any) -> None:
    (tmp_path / "sklearn_user.py").write_text("", encoding="utf-8")
    code = (
        "import sys, importlib.abc\n"
        "class Inside(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'diffprivlib.accountant':\n"
        "            from dpcore.interop import diffprivlib\n"
        "            try: diffprivlib.install()\n"
        "            except Exception as error: print(type(error).__name__)\n"
        "sys.meta_path.insert(0, Inside())\n"
        "import diffprivlib\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["ParameterError"]


def reload_adapter() -> None:
    importlib.reload(backend)


def reload_all_of_interop() -> None:
    for name in sorted(name for name in sys.modules if name.startswith("dpcore.interop.")):
        importlib.reload(sys.modules[name])
    importlib.reload(backend)


def reload_the_peers_modules() -> None:
    importlib.reload(histograms)
    importlib.reload(utils)
    importlib.reload(diffprivlib)


@pytest.mark.parametrize("again", [reload_adapter, reload_all_of_interop, reload_the_peers_modules])
def test_replacements_survive_a_reload(again: Any) -> None:
    program = (
        "import importlib, sys, diffprivlib\n"
        "from diffprivlib.tools import histograms, utils\n"
        "from diffprivlib.mechanisms import Laplace\n"
        "from dpcore.interop import diffprivlib as backend\n"
        "own = vars(Laplace)['randomise']\n"
        "backend.install(vectorise=True)\n"
        "ours = vars(Laplace)['randomise']\n"
        f"{inspect.getsource(again).replace(' -> None', '')}\n"
        f"{again.__name__}()\n"
        "backend.install(vectorise=True)\n"
        "homes = {f.__globals__['__name__'].partition('.')[0] for f in (utils._mean, utils._wrap_axis, histograms.histogram)}\n"
        "assert homes == {'dpcore'}, homes\n"
        "assert vars(Laplace)['randomise'] is not own\n"
        "backend.uninstall()\n"
        "assert vars(Laplace)['randomise'] is own\n"
        "homes = {f.__globals__['__name__'].partition('.')[0] for f in (utils._mean, utils._wrap_axis, histograms.histogram)}\n"
        "assert homes == {'diffprivlib'}, homes\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("vectorise", [1, None, "yes"])
def test_vectorise_is_a_bool(vectorise: Any) -> None:
    with pytest.raises(ParameterTypeError, match="vectorise must be a bool"):
        backend.install(vectorise=vectorise)


# What stays as it is


@each
def test_classes_names_and_representations_stay(name: str) -> None:
    with backend.install():
        mechanism, _ = MAKE[name](random_state=3)
        kind = type(mechanism)
        assert kind is getattr(peer, name)
        assert issubclass(kind, base.DPMechanism)
        assert kind.randomise.__name__ == "randomise"
        assert kind.randomise.__doc__
        shown = repr(mechanism)
    assert repr(mechanism) == shown == repr(MAKE[name](random_state=3)[0])


@each
def test_pickles_are_diffprivlibs_own(name: str) -> None:
    with backend.install():
        mechanism, value = MAKE[name](random_state=5)
        mechanism.randomise(value)
        stored = pickle.dumps(mechanism)
        assert b"dpcore" not in stored
        assert draws(pickle.loads(stored), value) == draws(mechanism, value)
        method = pickle.loads(pickle.dumps(type(mechanism).randomise))
        assert method is type(mechanism).randomise
    code = f"import pickle, sys; m = pickle.loads({stored!r}); m.randomise({value!r}); assert 'dpcore' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert pickle.loads(stored).randomise(value) is not None  # after uninstall


@each
def test_no_noise_is_what_diffprivlib_makes_of_it(name: str, served: None) -> None:
    mechanism, value = MAKE[name]()
    if name not in ("Gaussian", "Exponential", "PermuteAndFlip", "ExponentialCategorical", "ExponentialHierarchical"):
        mechanism.epsilon = math.inf
        native = {"GaussianAnalytic", "GaussianDiscrete", "Geometric", "GeometricTruncated", "GeometricFolded"}
        if name in native:  # these fix their scale when they are made
            mechanism._scale = -math.inf if "Geometric" in name else 0.0
        assert mechanism.randomise(value) == value
    if hasattr(mechanism, "sensitivity") and name in ("Laplace", "LaplaceTruncated", "LaplaceFolded"):
        mechanism, value = MAKE[name]()
        mechanism.sensitivity = 0.0
        assert mechanism.randomise(value) == value


def test_choices_without_noise_take_the_largest(served: None) -> None:
    for kind in (peer.Exponential, peer.PermuteAndFlip):
        for parameters in ({"epsilon": math.inf, "sensitivity": 1}, {"epsilon": 1, "sensitivity": 0}):
            mechanism = kind(utility=[1, 3, 2, 3], **parameters)
            assert set(draws(mechanism, None, 60)) == {1, 3}
    assert peer.ExponentialCategorical(epsilon=math.inf, utility_list=PAIRS).randomise("b") == "b"
    assert peer.ExponentialCategorical(epsilon=1e250, utility_list=PAIRS).randomise("b") == "b"
    assert peer.ExponentialHierarchical(epsilon=math.inf, hierarchy=["a", "b"]).randomise("b") == "b"


@each
def test_changed_attributes_are_noticed(name: str, served: None) -> None:
    mechanism, value = MAKE[name](random_state=1)
    mechanism.randomise(value)
    if name in ADDITIVE:
        mechanism.epsilon, mechanism.sensitivity = (1.0, 10**6) if isinstance(value, int) else (0.5, 1e9)
        if hasattr(mechanism, "upper"):
            mechanism.lower, mechanism.upper = -(10**9), 10**9
        assert np.std(np.array(draws(mechanism, value, 200), float)) > 1e5
    elif name in ("Exponential", "PermuteAndFlip"):
        mechanism.utility[7] = 1e6
        assert set(draws(mechanism, value)) == {7}
    else:
        mechanism.epsilon = 1e-9
        assert len(set(draws(mechanism, value, 60))) > 1
        mechanism.epsilon = 690.0
        assert set(draws(mechanism, value, 60)) == {value}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Laplace", "1"),
        ("Laplace", 1j),
        ("Laplace", None),
        ("Geometric", 1.5),
        ("GaussianDiscrete", 0.5),
        ("Binary", 1),
        ("Gaussian", [1.0]),
    ],
)
def test_wrong_values_are_refused_as_before(name: str, value: Any, served: None) -> None:
    mechanism, _ = MAKE[name]()
    with pytest.raises(TypeError, match="must be"):
        mechanism.randomise(value)
    with pytest.raises(ValueError, match="not in the domain"):
        MAKE["Binary"]()[0].randomise("z")


def test_values_that_are_not_finite_pass_as_before(served: None) -> None:
    for name in ("Laplace", "LaplaceTruncated", "Gaussian", "LaplaceBoundedDomain", "LaplaceBoundedNoise"):
        mechanism, _ = MAKE[name]()
        assert math.isnan(mechanism.randomise(math.nan))
        found = mechanism.randomise(np.array([math.nan, 0.0, math.nan]))
        assert np.isnan(found).tolist() == [True, False, True]
    assert MAKE["Laplace"]()[0].randomise(math.inf) == math.inf
    assert MAKE["LaplaceTruncated"]()[0].randomise(-math.inf) == -9


@each_additive
def test_kinds_of_numbers(name: str, served: None) -> None:
    mechanism, value = MAKE[name]()
    whole = isinstance(value, int)
    kinds = [int, np.int64, np.int8, bool] + ([] if whole else [float, np.float64, np.float32])
    for kind in kinds:
        found = mechanism.randomise(kind(value))
        assert isinstance(found, int if whole else float)
    large = mechanism.randomise(2**70)
    assert large >= 2**62 or hasattr(mechanism, "upper")


class _Clipped(peer.Laplace):
    """A user's own class."""

    def randomise(self, value: float) -> float:
        return float(super().randomise(min(value, 1.0)))


class _OwnScale(peer.Gaussian):
    """One with another way to its scale, which has to count."""

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        self._scale = 1e9


def test_classes_derived_from_served_ones(served: None) -> None:
    assert np.std(draws(_Clipped(epsilon=1e-9, sensitivity=1), 5.0, 200)) > 1e7
    assert np.std(draws(_OwnScale(epsilon=1, delta=0.1, sensitivity=1), 5.0, 200)) > 1e7
    noisy = _OwnScale(epsilon=1, delta=0.1, sensitivity=1).randomise(np.zeros(200))
    assert np.std(noisy) > 1e7


def test_folding_of_wide_noise_needs_no_recursion(served: None) -> None:
    mechanism = peer.LaplaceFolded(epsilon=1e-6, sensitivity=1, lower=0, upper=1e-3)
    found = np.array(draws(mechanism, 0.0, 200) + mechanism.randomise(np.zeros(200)).tolist())
    assert found.min() >= 0
    assert found.max() <= 1e-3
    assert len(np.unique(found)) > 300
    whole = peer.GeometricFolded(epsilon=1e-6, lower=-0.5, upper=3.5)
    assert set(draws(whole, 1, 200)) == set(whole.randomise(np.ones(200, int)).tolist()) == {0, 1, 2, 3}


@pytest.mark.parametrize("bound", [math.inf, 3.0])
def test_folding_at_one_infinite_bound(bound: float, served: None) -> None:
    found = peer.GeometricFolded(epsilon=0.1, lower=0, upper=bound).randomise(np.ones(300, int))
    assert found.min() == 0
    assert found.max() <= bound


def test_integers_between_infinite_bounds_keep_their_digits(served: None) -> None:
    values = np.full(2_000, 2**60 + 1)
    for bounds in ((-math.inf, math.inf), (0, math.inf), (-math.inf, 2**62)):
        mechanism = peer.GeometricTruncated(epsilon=1.0, lower=bounds[0], upper=bounds[1])
        found = mechanism.randomise(values)
        assert found.dtype == np.int64
        assert set((found - values).tolist()) >= {-2, -1, 0, 1, 2}
        assert abs(mechanism.randomise(2**60 + 1) - 2**60) < 60
    assert peer.GeometricTruncated(epsilon=1.0, lower=0, upper=10**30).randomise(values).max() < 2**61


# Random states


@each
def test_random_states(name: str, served: None) -> None:
    same = [draws(*MAKE[name](random_state=42)) for _ in range(2)]
    assert same[0] == same[1]
    assert draws(*MAKE[name](random_state=43)) != same[0]
    assert draws(*MAKE[name](), n=60) != draws(*MAKE[name](), n=60)
    state = np.random.RandomState(42)
    first, second = (draws(*MAKE[name](random_state=state), n=60) for _ in range(2))
    assert first != second
    assert first[:30] == same[0]
    assert len({str(drawn) for drawn in first}) > 1


@each_additive
def test_arrays_are_reproducible_and_keep_their_shape(name: str, served: None) -> None:
    value = MAKE[name]()[1]
    values = np.full((3, 50, 2), value)
    found = [MAKE[name](random_state=1)[0].randomise(values) for _ in range(2)]
    assert np.array_equal(*found)
    assert found[0].shape == values.shape
    assert found[0].dtype == (np.int64 if isinstance(value, int) else np.float64)
    assert len(np.unique(found[0])) > 15
    assert np.all(values == value)
    mechanism = MAKE[name]()[0]
    assert not np.array_equal(mechanism.randomise(values), mechanism.randomise(values))
    assert mechanism.randomise(values[:0]).shape == (0, 50, 2)
    assert mechanism.randomise(values[::-1, ::7]).shape == (3, 8, 2)
    assert mechanism.randomise(values.astype(np.int32)).shape == values.shape


@pytest.mark.parametrize("values", [np.array(["1"]), np.array([1j]), np.array([None])], ids=str)
def test_arrays_of_other_things_are_refused(values: Any, served: None) -> None:
    with pytest.raises(TypeError, match="must be a number"):
        MAKE["Laplace"]()[0].randomise(values)
    with pytest.raises(TypeError, match="must be an integer"):
        MAKE["Geometric"]()[0].randomise(np.array([0.5]))


def test_arrays_are_refused_without_vectorise() -> None:
    with backend.install(), pytest.raises(TypeError, match="must be a number"):
        MAKE["Laplace"]()[0].randomise(np.zeros(3))


# Processes and threads


def test_a_fork_draws_its_own_noise(served: None) -> None:
    mechanism = peer.Laplace(epsilon=1, sensitivity=1)
    mechanism.randomise(0.0)
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writer, pickle.dumps(draws(mechanism, 0.0)))
        os._exit(0)
    os.waitpid(child, 0)
    assert not set(pickle.loads(os.read(reader, 1 << 16))) & set(draws(mechanism, 0.0))
    os.close(reader)
    os.close(writer)


def test_a_spawned_process_installs_for_itself(served: None) -> None:
    spawn = multiprocessing.get_context("spawn")
    for initializer, expected in ((None, False), (backend.install, True)):
        with ProcessPoolExecutor(1, mp_context=spawn, initializer=initializer) as pool:
            assert pool.submit(is_served).result(60) is expected


def test_threads_share_a_mechanism(served: None) -> None:
    mechanism = peer.Laplace(epsilon=1, sensitivity=1)
    with ThreadPoolExecutor(8) as pool:
        found = [x for drawn in pool.map(lambda _: draws(mechanism, 0.0, 200), range(16)) for x in drawn]
    assert len(set(found)) > 0.999 * len(found)


@each
def test_copies(name: str, served: None) -> None:
    mechanism, value = MAKE[name](random_state=1)
    deep = copy.deepcopy(mechanism)
    assert draws(deep, value) == draws(mechanism, value)
    shallow = mechanism.copy()
    assert draws(shallow, value, 60) != draws(mechanism, value, 60)  # they share their random state, as before


def test_peer_is_named() -> None:
    assert backend.PEER.module == diffprivlib.__name__
    assert models.GaussianNB
    assert BudgetAccountant


def test_the_programs_of_the_page_run() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "interop" / "diffprivlib.md"
    if not page.exists():
        pytest.skip("needs the repository")
    before, after, more = re.findall(r"```py\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert len(set(after.splitlines()) - set(before.splitlines())) == 2
    for program, lines in ((before, 2), (after + more, 3)):
        found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert len(re.findall(r"^[\d(\[]", found.stdout, re.MULTILINE)) >= lines
