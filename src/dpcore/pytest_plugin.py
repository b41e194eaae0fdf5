"""A plugin of pytest: `assert_private` audits a mechanism in a test. docs/interop/pytest.md.

pytest loads this module at every start, so it imports `dpcore.audit`, and NumPy with it, only when a test calls `assert_private`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, overload

import pytest

from dpcore._dataclasses import dataclass

if TYPE_CHECKING:
    from dpcore.audit import AuditResult
    from dpcore.privacy import Privacy
    from dpcore.rng import Stream

__all__ = ["assert_private"]

RUNS, ERROR_RATE = 100_000, 1e-6
"""Defaults: runs on each input, and the probability that a call refutes a true claim."""
LEAST_ERROR_RATE, MOST_RUNS = 1e-12, 10**12
"""Limits: 1 − error rate is a float, and more runs than these are made by nobody."""
PROPERTY = "dpcore_error_rate"
"""Under this name a test reports the error rate of each of its audits, for the summary and for JUnit files."""


@dataclass
class Running:
    """A test that runs in this process, and how often it has made a key for `assert_private`."""

    item: pytest.Item
    calls: int = 0


_running: list[Running] = []
"""The test that runs in this process; several where a test of a plugin runs another session."""


@overload
def assert_private(
    mechanism: Any, x0: Any, x1: Any, privacy: Privacy | None = None, *, runs: int = RUNS, batch: int | None = None,
    error_rate: float = ERROR_RATE, events: Sequence[Any] | None = None, seed: int | str | None = None, threads: int | None = None,
) -> AuditResult: ...  # fmt: skip
@overload
def assert_private(
    mechanism: Any, x0: Any, x1: Any, privacy: Sequence[Privacy], *, runs: int = RUNS, batch: int | None = None,
    error_rate: float = ERROR_RATE, events: Sequence[Any] | None = None, seed: int | str | None = None, threads: int | None = None,
) -> tuple[AuditResult, ...]: ...  # fmt: skip
def assert_private(
    mechanism: Any,
    x0: Any,
    x1: Any,
    privacy: Privacy | Sequence[Privacy] | None = None,
    *,
    runs: int = RUNS,
    batch: int | None = None,
    error_rate: float = ERROR_RATE,
    events: Sequence[Any] | None = None,
    seed: int | str | None = None,
    threads: int | None = None,
) -> AuditResult | tuple[AuditResult, ...]:
    r"""Fail if runs of a mechanism on two neighbouring inputs refute its guarantee.

    Parameters
    ----------
    mechanism : object or callable
        What `dpcore.audit.audit` takes: an object of `dpcore.mechanisms` or `dpcore.local`; a function of x alone that makes one run and
        draws its own randomness; a function `run(x, size, rng)` that makes `size` runs with dpcore's randomness. With `batch`, a function
        `run(x, size)` that makes `size` independent runs and draws its own randomness.
    x0, x1 : object
        Two neighbouring inputs: those that are hardest to hide.
    privacy : Privacy or sequence of Privacy, optional
        The claim; by default `mechanism.privacy`. Of several claims each must hold, as points (ε, δ(ε)) of one curve do: see the page for
        zCDP and Gaussian mechanisms.
    runs : int, default 100,000
        Number of runs on each input, for each claim. Half of them choose events, half count them.
    batch : int, optional
        The mechanism is a function of an input and a number of runs, which is at most `batch`; it returns one output for each run.
    error_rate : float, default 10^-6
        Probability with which this call fails for a mechanism that keeps all claims, in [10^-12, 0.5].
    events : sequence, optional
        Where to search, as in `dpcore.audit.audit`: "values", "low_bits", and functions of the outputs.
    seed : int or str, optional
        Makes the call repeatable, if the mechanism draws from dpcore's randomness. By default the option --dpcore-seed, or `dpcore_seed` of
        the configuration file, together with the name of the test and the number of the call in it; without them the randomness is secure.
    threads : int, optional
        Number of threads. By default functions run on one.

    Returns
    -------
    AuditResult or tuple of AuditResult
        One for each claim, with the bound that the runs prove.

    Raises
    ------
    AssertionError
        If a claim is refuted. The message has the event, its frequencies, the lower bound of ε and the error rate.
    ParameterError, ParameterTypeError
        If an argument does not fit; if there is no claim, or one that no outcome of so many runs could refute.
    DpcoreError
        Any error of the mechanism.

    Notes
    -----
    Guarantee: if the mechanism keeps every claim on these inputs and its runs are independent, the call fails with probability at most
    `error_rate`, over all claims, events and places that the audit tries. m calls together fail with probability at most m times that; the
    summary of the session states the sum. A call that does not fail proves nothing.

    With a seed the probability is over the choice of the seed: the result is the same in every session. Outputs are not private.

    Cost: that of 2·runs runs for each claim, and about 0.1 µs a run.

    Examples
    --------
    >>> from dpcore import Privacy, mechanisms
    >>> from dpcore.pytest_plugin import assert_private
    >>> assert_private(mechanisms.Laplace(epsilon=1.0, sensitivity=1.0), 0.0, 1.0).refuted
    False
    >>> half = mechanisms.Laplace(epsilon=1.0, sensitivity=0.5)
    >>> assert_private(half, 0.0, 1.0, Privacy(1.0), seed=7)
    Traceback (most recent call last):
    ...
    AssertionError: The claim ε = 1, δ = 0 is refuted, with confidence 0.999999.
    ...
    """
    __tracebackhide__ = True
    from dpcore._validation import check_integer, check_real
    from dpcore.audit import audit

    runs = check_integer("runs", runs, low=64)
    error_rate = check_real("error_rate", error_rate, low=LEAST_ERROR_RATE, high=0.5)
    claims = _claims(mechanism, privacy)
    for claim in claims:
        _check_power(claim, runs, error_rate / len(claims))
    run = _single(mechanism) if batch is None else _batched(mechanism, check_integer("batch", batch, low=1))
    keys = _keys(seed, own_randomness=batch is not None or _draws_alone(mechanism))
    confidence = 1 - error_rate / len(claims)
    stated = claims if privacy is not None else [None]
    options: dict[str, Any] = {"runs": runs, "confidence": confidence, "events": events, "threads": threads}
    results = tuple(audit(run, x0, x1, privacy=each, rng=_stream(keys, i), **options) for i, each in enumerate(stated))
    _record(error_rate)
    if any(result.refuted for result in results):
        raise AssertionError(_message(results, error_rate, seeded=keys is not None))
    return results[0] if privacy is None or not isinstance(privacy, Sequence) else results


# Claims


def _claims(mechanism: Any, privacy: object) -> Sequence[Privacy]:
    """Return the claims, at least one, each of a type and size that can be refuted."""
    from dpcore.errors import ParameterError, ParameterTypeError
    from dpcore.privacy import Privacy

    given = getattr(mechanism, "privacy", None) if privacy is None else privacy
    claims: list[Privacy] = []
    for claim in given if isinstance(given, Sequence) and not isinstance(given, str) else [given]:
        if not isinstance(claim, Privacy):
            own = " and the mechanism states none of its own" if privacy is None else ""
            raise ParameterTypeError(f"privacy must be a dpcore.Privacy or a sequence of them, got {type(claim).__name__}{own}")
        claims.append(claim)
    if not claims:
        raise ParameterError("privacy must have at least one claim, got an empty sequence")
    return claims


def _check_power(claim: Privacy, runs: int, error_rate: float) -> None:
    """Raise if the claim would stand whatever the runs show: an event on all runs of one input and on none of the other."""
    from dpcore.errors import ParameterError

    if _refutable(claim, runs, error_rate):
        return
    least = 1 << runs.bit_length()
    while least <= MOST_RUNS and not _refutable(claim, least, error_rate):
        least *= 2
    needed = f"{least:,} are enough" if least <= MOST_RUNS else f"{MOST_RUNS:,} would not do either, so state a smaller ε"
    raise ParameterError(
        f"runs must be large enough to refute ε = {claim.epsilon:g}, δ = {claim.delta:g} at error rate {error_rate:g}: no outcome of "
        f"{runs:,} runs does; {needed}"
    )


def _refutable(claim: Privacy, runs: int, error_rate: float) -> bool:
    from dpcore.audit.lower_bound import KEPT, loss_bound

    counted = runs - runs // 2
    return loss_bound(counted, 0, counted, claim.delta, error_rate / (2 * KEPT)) > claim.epsilon


# Runs and their randomness


def _single(mechanism: Any) -> Any:
    """The mechanism, unless it is a function of two arguments, which may mean two things."""
    from dpcore.audit._runs import takes
    from dpcore.errors import ParameterTypeError

    if _draws_alone(mechanism) and not takes(mechanism, 1) and takes(mechanism, 2):
        got = getattr(mechanism, "__name__", type(mechanism).__name__)
        raise ParameterTypeError(
            f"mechanism must be f(x), f(x, size, rng) or an object of dpcore, got {got} of two arguments; if the second is a number of "
            "runs, give batch=10_000; if it is a stream of dpcore, give dpcore.audit.repeat(f)"
        )
    return mechanism


def _batched(mechanism: Any, batch: int) -> Callable[[Any, int, Stream], Any]:
    """Return a function for the audit that asks `mechanism(x, size)` for at most `batch` runs at a time."""
    from dpcore.audit._runs import plain_outputs, takes
    from dpcore.errors import ParameterError, ParameterTypeError

    if not callable(mechanism) or not takes(mechanism, 2):
        got = getattr(mechanism, "__name__", type(mechanism).__name__)
        raise ParameterTypeError(f"mechanism must be a function of an input and a number of runs if batch is given, got {got}")

    def run(x: Any, size: int, _: Stream) -> Any:
        import numpy as np

        parts = []
        for start in range(0, size, batch):
            wanted = min(batch, size - start)
            part = plain_outputs(mechanism(x, wanted))
            if part.ndim == 0 or len(part) != wanted:
                raise ParameterError(f"mechanism must return one output for each of {wanted} runs, got shape {part.shape}")
            parts.append(part)
        return np.concatenate(parts)

    return run


def _draws_alone(mechanism: Any) -> bool:
    """Whether a mechanism is a function of x alone, which dpcore's randomness does not reach."""
    from dpcore.audit._runs import takes

    ours = any(callable(getattr(mechanism, name, None)) for name in ("privatize", "release"))
    return not ours and callable(mechanism) and not takes(mechanism, 3)


def _keys(seed: object, *, own_randomness: bool) -> str | None:
    """Return what the keys of this call are made of, None for secure randomness."""
    from dpcore.errors import ParameterError, ParameterTypeError

    if seed is not None:
        if isinstance(seed, bool) or not isinstance(seed, int | str):
            raise ParameterTypeError(f"seed must be an int, a str or None, got {type(seed).__name__}")
        if own_randomness:
            raise ParameterError("seed must be None for a mechanism that draws its own randomness: seed that mechanism instead")
        return f"call {seed}"
    if own_randomness or not _running:
        return None
    test = _running[-1]
    given = test.item.config.getoption("dpcore_seed") or test.item.config.getini("dpcore_seed")
    if not given:
        return None
    test.calls += 1
    return f"session {given} {test.calls} {test.item.nodeid}"


def _stream(keys: str | None, number: int) -> Stream | None:
    if keys is None:
        return None
    from dpcore.testing import KeyedRandom

    return KeyedRandom(sha256(f"dpcore {number} {keys}".encode()).digest())


# What is said


def _message(results: Sequence[AuditResult], error_rate: float, *, seeded: bool) -> str:
    """The refuted claims in words. Of the outputs it names the event, and of the inputs nothing but x0 and x1."""
    refuted = [str(result) for result in results if result.refuted]
    last = f"If all claims of this call were true, it would fail with probability at most {error_rate:g}" + (
        " over the choice of the seed." if seeded else "."
    )
    return "\n".join([*refuted, last])


def _record(error_rate: float) -> None:
    """Add an audit to what the running test reports."""
    if _running:
        _running[-1].item.user_properties.append((PROPERTY, error_rate))


@dataclass(eq=False)  # pytest keeps plugins in sets
class Summary:
    """A plugin of one session: adds up the error rates of finished tests, under xdist those of all workers."""

    spent: list[tuple[float, str]] = field(default_factory=list)
    """The error rate of each audit, and its test."""

    @property
    def total(self) -> float:
        """A bound of the probability that an audit of the session fails though all claims are true, if it is below 1."""
        return math.fsum(rate for rate, _ in self.spent)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the error rates of a finished test."""
        if report.when == "teardown":
            self.spent += [(float(str(value)), report.nodeid) for name, value in report.user_properties if name == PROPERTY]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """State how probably a session fails that audits nothing but private mechanisms."""
        if self.spent:
            terminalreporter.write_line(f"dpcore: {self.words}")

    @property
    def words(self) -> str:
        """What the session may say about its audits."""
        audits, total = "1 audit" if len(self.spent) == 1 else f"{len(self.spent):,} audits", self.total
        if total < 1.0:
            failing = "it fails" if len(self.spent) == 1 else "at least one of them fails"
            return f"{audits}; if all claims are true, {failing} with probability at most {total:.3g}"
        rate, test = max(self.spent)
        return (
            f"{audits} with error rates that add up to {total:.3g}, so even with true claims some may fail; the largest rate is {rate:g}, "
            f"in {test}; the default is {ERROR_RATE:g}"
        )


@pytest.fixture(name="assert_private")
def assert_private_fixture() -> Callable[..., Any]:
    """The function `dpcore.pytest_plugin.assert_private`, for tests that import nothing."""
    return assert_private


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --dpcore-seed and the key `dpcore_seed`."""
    words = "make assert_private repeatable for mechanisms that draw from dpcore's randomness; each call gets a key of its own"
    parser.getgroup("dpcore").addoption("--dpcore-seed", metavar="SEED", default=None, help=words)
    parser.addini("dpcore_seed", f"{words} (--dpcore-seed goes first)", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Let the session add up its error rates."""
    config.pluginmanager.register(Summary(), "dpcore-summary")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Remember which test runs, from its fixtures to its teardown."""
    _running.append(Running(item))
    yield
    _running.pop()
