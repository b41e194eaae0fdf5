"""`dpcore.pytest_plugin`: what passes, fails and is refused; seeds, summaries and workers of xdist; what a start of pytest loads."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys

import numpy as np
import pytest

from dpcore import ParameterError, ParameterTypeError, Privacy, accounting, local, mechanisms, noise, pytest_plugin
from dpcore.audit import AuditResult, repeat
from dpcore.pytest_plugin import assert_private

pytest_plugins = ("pytester",)

HALF = mechanisms.Laplace(epsilon=1.0, sensitivity=0.5)
FULL = mechanisms.Laplace(epsilon=1.0, sensitivity=1.0)
SECRET = 918273.25
"""An input that no message may show."""


def numpys_coin(x: int, size: int) -> np.ndarray:
    """Randomised response at ε = ln 3, drawn by NumPy, as a peer's mechanism is."""
    return np.where(np.random.default_rng().random(size) < 0.75, x, 1 - x)


@pytest.fixture
def uncounted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that may fail are part of this test: their error rates are not those of the session."""
    monkeypatch.setattr(pytest_plugin, "_running", [])


# The function


def test_a_private_mechanism_passes_and_the_bound_is_returned():
    found = assert_private(FULL, 0.0, 1.0)
    assert isinstance(found, AuditResult)
    assert 0.9 < found.epsilon_lower <= 1.0
    assert found.confidence == pytest.approx(1 - 1e-6, abs=1e-12)


def test_half_the_noise_fails_with_the_event_the_bound_and_the_error_rate():
    with pytest.raises(AssertionError) as caught:
        assert_private(HALF, SECRET, SECRET + 1, Privacy(1.0))
    message = str(caught.value)
    assert re.search(r"^The claim ε = 1, δ = 0 is refuted, with confidence 0\.999999\.$", message, re.MULTILINE)
    assert re.search(r"^Event in the values: the output .+\.$", message, re.MULTILINE)
    assert re.search(r"occurred in [\d,]+ \([\d.]+%\) of 50,000 runs on x0", message)
    assert float(re.search(r"is at least (\d\.\d+), with", message)[1]) > 1.7
    assert "fail with probability at most 1e-06." in message
    assert "x0" in message


def test_functions_of_every_kind():
    assert_private(lambda x: noise.laplace(x, 1.0), 0.0, 1.0, Privacy(1.0), runs=2_000)
    assert_private(lambda x, size, rng: noise.laplace(np.full(size, x), 1.0, rng=rng), 0.0, 1.0, Privacy(1.0), runs=20_000)
    assert_private(repeat(lambda x, rng: noise.laplace(x, 1.0, rng=rng)), 0.0, 1.0, Privacy(1.0), runs=2_000)
    assert_private(local.KaryResponse(1.0, k=3), 0, 2)
    with pytest.raises(AssertionError, match="refuted"):
        assert_private(lambda x: noise.laplace(x, 0.4), 0.0, 1.0, Privacy(1.0), runs=2_000)


def test_a_rare_event_fails_in_nearly_every_session(uncounted):
    """An answer of probability 10^-3 that the other input never gives, at 10^5 runs; the default error rate needs one of 3·10^-3."""

    def rare(x: int, size: int, probability: float) -> np.ndarray:
        return np.where((x == 0) & (np.random.default_rng().random(size) < probability), 2, numpys_coin(x, size))

    claim = Privacy(np.log(3.0) + 1e-3)
    for probability, options in ((1e-3, {"error_rate": 0.05}), (3e-3, {})):
        failures = 0
        for _ in range(10):
            try:
                assert_private(lambda x, size, p=probability: rare(x, size, p), 0, 1, claim, batch=50_000, **options)
            except AssertionError:
                failures += 1
        assert failures >= 4  # each fails with a probability above 0.97: fewer are less probable than 10^-6


def test_a_batch_bounds_what_is_asked_for_at_once():
    sizes = []

    def coin(x: int, size: int) -> np.ndarray:
        sizes.append(size)
        return numpys_coin(x, size)

    assert_private(coin, 0, 1, Privacy(np.log(3.0) + 1e-9), runs=20_000, batch=3_000)
    assert max(sizes) <= 3_000
    assert sum(sizes) == 2 * 512 + 2 * 20_000
    with pytest.raises(AssertionError, match=r"ε = 0\.8, δ = 0 is refuted"):
        assert_private(coin, 0, 1, Privacy(0.8), runs=20_000, batch=10_000)


def test_every_point_of_a_curve_is_claimed():
    scale, rho = 2.0, 1 / 8

    def gaussian(x, size, rng, scale=scale):
        return noise.gaussian(np.full(size, x), scale, rng=rng)

    curve = [Privacy(accounting.zcdp_epsilon(rho, delta), delta) for delta in (1e-1, 1e-2, 1e-3)]
    found = assert_private(gaussian, 0.0, 1.0, curve)
    assert [each.delta for each in found] == [1e-1, 1e-2, 1e-3]
    assert {each.confidence for each in found} == {1 - 1e-6 / 3}
    with pytest.raises(AssertionError) as caught:
        assert_private(lambda x, size, rng: gaussian(x, size, rng, 0.7), 0.0, 1.0, curve)
    assert "δ = 0.1 is refuted" in str(caught.value)
    own = mechanisms.Gaussian(1.0, 1e-3, sensitivity=1.0)
    assert assert_private(own, 0.0, 1.0).delta == 1e-3
    with pytest.raises(AssertionError):
        assert_private(mechanisms.Gaussian(1.0, 1e-3, sensitivity=0.4), 0.0, 1.0, own.privacy)


def test_a_seed_repeats_the_result():
    first, second, third = (assert_private(FULL, 0.0, 1.0, seed=seed, runs=4_000) for seed in (7, 7, "other"))
    assert first.counts == second.counts != third.counts
    assert assert_private(FULL, 0.0, 1.0, runs=4_000).counts != first.counts
    with pytest.raises(AssertionError, match="over the choice of the seed"):
        assert_private(HALF, 0.0, 1.0, Privacy(1.0), seed=7)


@pytest.mark.parametrize(
    ("error", "options", "words"),
    [
        (ParameterTypeError, {"privacy": 1.0}, "privacy must be a dpcore.Privacy or a sequence of them, got float"),
        (ParameterTypeError, {"privacy": "1.0"}, "privacy must be .* got str"),
        (ParameterTypeError, {"privacy": [Privacy(1.0), 1.0]}, "privacy must be .* got float"),
        (ParameterError, {"privacy": []}, "privacy must have at least one claim"),
        (ParameterTypeError, {"mechanism": abs}, "got NoneType and the mechanism states none of its own"),
        (ParameterTypeError, {"mechanism": 3, "privacy": Privacy(1.0)}, "mechanism must be an object of"),
        (ParameterTypeError, {"mechanism": mechanisms.Laplace, "privacy": Privacy(1.0)}, "got the class Laplace"),
        (ParameterError, {"runs": 10}, "runs must be"),
        (ParameterError, {"runs": 64, "privacy": Privacy(2.0)}, r"runs must be large enough .* of 64 runs does; 256 are enough"),
        (ParameterError, {"privacy": Privacy(float("inf"))}, "1,000,000,000,000 would not do either"),
        (ParameterError, {"privacy": Privacy(50.0)}, "would not do either, so state a smaller ε"),
        (ParameterError, {"error_rate": 0.0}, "error_rate must be"),
        (ParameterError, {"error_rate": 0.7}, "error_rate must be"),
        (ParameterTypeError, {"seed": 1.5}, "seed must be an int, a str or None, got float"),
        (ParameterTypeError, {"seed": True}, "seed must be an int, a str or None, got bool"),
        (ParameterError, {"mechanism": abs, "privacy": Privacy(1.0), "seed": 3}, "draws its own randomness"),
        (ParameterError, {"mechanism": numpys_coin, "privacy": Privacy(2.0), "batch": 9, "seed": 3}, "draws its own randomness"),
        (
            ParameterTypeError,
            {"privacy": Privacy(1.0), "batch": 9},
            "function of an input and a number of runs if batch is given, got Laplace",
        ),
        (TypeError, {"mechanism": lambda x, n: np.ma.masked_all(n), "privacy": Privacy(1.0), "batch": 9}, "masked array"),
        (ParameterError, {"mechanism": lambda x, n: np.zeros(1), "privacy": Privacy(1.0), "batch": 9}, "one output for each of 9 runs"),
        (ParameterError, {"mechanism": numpys_coin, "privacy": Privacy(1.0), "batch": 0}, "batch must be"),
        (
            ParameterTypeError,
            {"mechanism": lambda x, n: np.full(n, x), "privacy": Privacy(1.0)},
            r"number of runs, give batch=10_000; if it",
        ),
    ],
)
def test_what_is_refused(error, options, words):
    with pytest.raises(error, match=words):
        assert_private(**{"mechanism": FULL, "x0": 0.0, "x1": 1.0, **options})


def test_inputs_beyond_the_sensitivity_need_a_claim():
    with pytest.raises(ParameterError, match="within the mechanism's sensitivity"):
        assert_private(FULL, 0.0, 2.0)
    assert_private(FULL, 0.0, 2.0, Privacy(2.0), runs=4_000)


def test_true_claims_stay_within_the_error_rate(uncounted):
    """At an error rate of 1/2 split in two claims, at most that share of calls fails, up to 10^-6."""
    failures = 0
    for _ in range(60):
        try:
            assert_private(FULL, 0.0, 1.0, [Privacy(1.0), Privacy(1.0)], runs=256, error_rate=0.5)
        except AssertionError:
            failures += 1
    assert failures <= 48  # P(Binomial(60, 1/2) > 48) < 10^-6


# In a session of pytest

TESTS = """
from dpcore import Privacy, mechanisms
from dpcore.pytest_plugin import assert_private as function

def test_passes(assert_private):
    assert assert_private is function
    assert_private(mechanisms.Laplace(1.0, 1.0), 0.0, 1.0, runs=2_000)

def test_fails(assert_private):
    secret = 918273.25
    assert_private(mechanisms.Laplace(1.0, 0.3), secret, secret + 1.0, Privacy(1.0), runs=4_000, error_rate=1e-5)

def test_prints_counts():
    for _ in range(2):
        print("counts", function(mechanisms.Laplace(1.0, 1.0), 0.0, 1.0, runs=2_000).counts)
"""


def counts(result: pytest.RunResult) -> list[str]:
    return re.findall(r"counts \(.*\)", str(result.stdout))


def session(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    """Run the tests above in this process; the plugin comes by its entry point."""
    pytester.makepyfile(TESTS)
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", *options)


def test_a_session_shows_the_event_and_the_sum_of_error_rates(pytester):
    result = session(pytester, "-l", "--junitxml=out.xml")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines([
        "*The claim ε = 1, δ = 0 is refuted, with confidence 0.99999.",
        "*Event in the *",
        "*dpcore: 4 audits; if all claims are true, at least one of them fails with probability at most 1.3e-05*",
    ])  # fmt: skip
    assert "dpcore/pytest_plugin.py" not in "".join(result.outlines[:-5])  # the traceback ends in the test
    assert 'name="dpcore_error_rate" value="1e-05"' in (pytester.path / "out.xml").read_text(encoding="utf-8")


def test_a_seed_of_the_session_gives_every_call_its_own_key(pytester):
    options = ("-s", "-k", "counts")
    seeds = (["--dpcore-seed=1"], ["--dpcore-seed=1"], ["--dpcore-seed=2"], [])
    first, second, other, none = (session(pytester, *options, *seed) for seed in seeds)
    assert counts(first) == counts(second)
    assert len({*counts(first), *counts(other), *counts(none)}) == 6
    pytester.makeini("[pytest]\ndpcore_seed = 1\n")
    assert counts(session(pytester, *options)) == counts(first)


@pytest.mark.long
def test_folders_with_a_conftest_of_their_own(pytester):
    """pytest sorts the plugins of such folders out by sets of plugins."""
    for name in ("one", "two"):
        folder = pytester.mkdir(name)
        (folder / "conftest.py").write_text("def pytest_runtest_logreport(report): pass")
        (folder / f"test_{name}.py").write_text("def test_passes(): pass")
    pytester.runpytest_subprocess().assert_outcomes(passed=2)


LOOSE = """
from dpcore import mechanisms

def test_loose(assert_private):
    for _ in range(3):
        try:
            assert_private(mechanisms.Laplace(1.0, 1.0), 0.0, 1.0, runs=2_000, error_rate=0.5)
        except AssertionError:
            pass

def test_default(assert_private):
    assert_private(mechanisms.Laplace(1.0, 1.0), 0.0, 1.0, runs=2_000)
"""


def test_a_sum_that_bounds_nothing_is_not_called_a_probability(pytester):
    pytester.makepyfile(test_own=LOOSE)
    shown = str(pytester.runpytest_inprocess("-p", "no:cacheprovider").stdout)
    assert "with probability at most 1" not in shown
    assert "dpcore: 4 audits with error rates that add up to 1.5, so even with true claims some may fail" in shown
    assert "the largest rate is 0.5, in test_own.py::test_loose; the default is 1e-06" in shown
    one = str(pytester.runpytest_inprocess("-p", "no:cacheprovider", "-k", "default").stdout)
    assert "dpcore: 1 audit; if all claims are true, it fails with probability at most 1e-06" in one


def test_a_session_without_audits_says_nothing(pytester):
    pytester.makepyfile("def test_nothing(): pass")
    assert "dpcore" not in str(pytester.runpytest_inprocess("-q", "--no-header", "-p", "no:cacheprovider").stdout)


@pytest.mark.long
def test_workers_of_xdist_report_their_audits_and_draw_the_same(pytester):
    pytester.makepyfile(TESTS)
    options = ("-p", "no:cacheprovider", "--dpcore-seed=1", "--junitxml=out.xml", "-o", "junit_logging=all")
    files = []
    for more in ([], ["-n", "2"]):
        result = pytester.runpytest_subprocess(*options, *more)
        result.assert_outcomes(passed=2, failed=1)
        result.stdout.fnmatch_lines(["*dpcore: 4 audits; *at most 1.3e-05*"])
        files.append(re.findall(r"counts \(.*\)", (pytester.path / "out.xml").read_text(encoding="utf-8")))
    assert files[0] == files[1] != []


MADE_UP = """
import math, statistics, types
import numpy as np
from dpcore import noise
noisy_count = lambda count: noise.laplace(float(count), 1.0)
noisy_sums = lambda x, size: noise.gaussian(np.full(size, x), 2.0)
my_library = types.SimpleNamespace(laplace=lambda values, epsilon: noise.laplace(values.astype(float), 1 / epsilon))
"""


@pytest.mark.long
@pytest.mark.source_tree
def test_the_tests_on_the_page_pass(pytester, repository):
    page = (repository / "docs/interop/pytest.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    pytester.makepyfile(MADE_UP + "".join(blocks))
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=4)


def test_pytest_finds_the_plugin():
    (found,) = [point for point in importlib.metadata.entry_points(group="pytest11") if point.value.startswith("dpcore.")]
    assert found.name == found.value == "dpcore.pytest_plugin"  # one name: by entry point, with -p, in `pytest_plugins`


def test_a_start_of_pytest_loads_no_numpy():
    code = "import sys; before = set(sys.modules); import dpcore.pytest_plugin; print(*sorted(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", f"import pytest; {code}"], capture_output=True, text=True, check=True).stdout.split()
    ours = {name for name in loaded if name.partition(".")[0] in {"dpcore", "numpy", "scipy"}}
    assert ours == {"dpcore", "dpcore._dataclasses", "dpcore._version", "dpcore.errors", "dpcore.pytest_plugin"}
