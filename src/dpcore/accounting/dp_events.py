"""Budgets of other tools in ours, and ours in theirs: the `DpEvent`s of Google's dp-accounting (the extra `accounting`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from dpcore._extras import needs, refuse_old
from dpcore._validation import check_choice, check_integer, check_real
from dpcore.accounting._checks import MOST_USES, check_noise_scale, check_open_delta
from dpcore.accounting.concentrated import rho_bounded_range, rho_gaussian, rho_pure
from dpcore.accounting.gaussian_privacy import GaussianPrivacy
from dpcore.accounting.scales import laplace_scale
from dpcore.accounting.uses import Uses
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.privacy import Privacy

if TYPE_CHECKING:
    from dpcore.privacy import Relation

Spend: TypeAlias = Privacy | Uses | GaussianPrivacy
COMPUTED = (
    "MixtureOfGaussiansDpEvent",
    "PoissonSampledDpEvent",
    "RepeatAndSelectDpEvent",
    "SampledWithReplacementDpEvent",
    "SampledWithoutReplacementDpEvent",
    "SingleEpochTreeAggregationDpEvent",
    "TruncatedSubsampledGaussianDpEvent",
)
"""Events that are no `Uses`: dp-accounting computes an (ε, δ) of all of them together, where it can."""


def to_dp_event(amount: Spend | Sequence[Spend], *, pure: Literal["zcdp", "response"] = "zcdp") -> Any:
    """Write what was spent as a `DpEvent`, for an accountant of dp-accounting.

    Parameters
    ----------
    amount : Privacy, Uses, GaussianPrivacy, or a sequence of these
        What is composed. A δ above 0 has no event.
    pure : {"zcdp", "response"}, default "zcdp"
        How ε-private releases are written. "zcdp": as `ZCDpEvent`, by ρ = ε·tanh(ε/2), which `RdpAccountant` knows. "response": as
        `RandomizedResponseDpEvent` of two answers, which is exact, and which accountants know for the relation REPLACE_ONE.

    Returns
    -------
    dp_accounting.DpEvent
        One event, of which a `ComposedDpEvent` has the parts.

    Raises
    ------
    ModuleNotFoundError
        If dp-accounting is not installed.
    ParameterError, ParameterTypeError
        If a part has a δ, or is none of these types.

    Notes
    -----
    "laplace" becomes a `LaplaceDpEvent` of 1/ε, "gaussian" and `GaussianPrivacy` a `GaussianDpEvent` of 1/√(2ρ) or 1/μ, "concentrated" a
    `ZCDpEvent`, "bounded_range" one of ρ = ε²/8; ε-private releases see `pure`. Each number is rounded so that the event protects no more
    than what it stands for.

    These noises are those of a query that moves by its sensitivity between neighbours: of dp-accounting's relations, ADD_OR_REMOVE_ONE and
    REPLACE_SPECIAL. Give the accountant one of these, and read its result for the neighbours that your sensitivities were computed for.
    With REPLACE_ONE, `PLDAccountant` takes twice the sensitivity for a `GaussianDpEvent`, which is safe and too much.

    Cost: some microseconds a part.

    Examples
    --------
    >>> to_dp_event([Uses("gaussian", uses=10, rho=0.5), Uses("laplace", epsilon=0.5)])  # doctest: +SKIP
    ComposedDpEvent(events=[SelfComposedDpEvent(event=GaussianDpEvent(noise_multiplier=0.99...), count=10), LaplaceDpEvent(...)])
    """
    check_choice("pure", pure, ("zcdp", "response"))
    parts = tuple(amount) if isinstance(amount, list | tuple) else (amount,)
    events = [
        _event(_library(), f"amount[{i}]" if isinstance(amount, list | tuple) else "amount", part, pure) for i, part in enumerate(parts)
    ]
    return events[0] if len(events) == 1 else _library().ComposedDpEvent(events)


def from_dp_event(event: Any, *, relation: Relation, delta: float | None = None) -> tuple[Uses, ...]:
    """Read a `DpEvent` of dp-accounting as uses, which `compose`, `pld` and ledgers take.

    Parameters
    ----------
    event : dp_accounting.DpEvent
        What another tool spent, for instance the `dp_event` of its accountant.
    relation : {"replace", "add_remove"}
        The neighbours that the uses are meant for. There is no default: noise of an event is given for the largest norm of one record's
        value, so that replacing a record moves a sum by twice of it.
    delta : float, optional
        Failure mass δ, in (0, 1), at which dp-accounting computes the ε of all events together that are no uses: samples, trees, mixtures
        and repetitions. They become one use of "approximate". By default they are refused.

    Returns
    -------
    tuple of Uses
        The parts in their order, what dp-accounting computed at the end; without entries for what costs nothing.

    Raises
    ------
    ModuleNotFoundError
        If dp-accounting is not installed.
    ParameterError, ParameterTypeError
        If an event has no guarantee, is not known here, or not for this relation. The message has the name of its class.

    Notes
    -----
    A `LaplaceDpEvent` of noise m has ε = C/m, a `GaussianDpEvent` ρ = C²/2m², and a `DiscreteLaplaceDpEvent` ε = C·a·sensitivity, where C
    is 1 for "add_remove" and 2 for "replace". A `RandomizedResponseDpEvent` has ε = ln(1 + k(1 − p)/p), for "replace" alone. A `ZCDpEvent`
    with ξ = 0 has its ρ. All are rounded up, by less than 2⁻⁵⁰ of the number. With `delta`, the rest is dp-accounting's pessimistic
    estimate, the least of its two accountants', for ADD_OR_REMOVE_ONE or REPLACE_ONE; its rounding errors in float64 are not included.
    `RdpAccountant` takes no twofold sensitivity for REPLACE_ONE by itself; here it gets events with half of their noise.

    Cost: some microseconds a part; with `delta` that of dp-accounting, up to seconds.

    Examples
    --------
    >>> import dp_accounting  # doctest: +SKIP
    >>> spent = dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(2.0), 10)  # doctest: +SKIP
    >>> from_dp_event(spent, relation="add_remove")  # doctest: +SKIP
    (Uses(mechanism='gaussian', uses=10, epsilon=0.0, delta=0.0, rho=0.125),)
    """
    check_choice("relation", relation, ("replace", "add_remove"))
    if delta is not None:
        delta = check_open_delta("delta", delta)
    library, reach = _library(), 2 if relation == "replace" else 1
    found: list[Uses] = []
    rest: list[Any] = []
    waiting: list[tuple[Any, int]] = [(event, 1)]
    while waiting:
        each, count = waiting.pop()
        name = _name(library, each)
        if name == "SelfComposedDpEvent":
            waiting.append((each.event, count * check_integer("count of a SelfComposedDpEvent", each.count, low=0, high=MOST_USES)))
        elif name == "ComposedDpEvent":
            waiting.extend((part, count) for part in reversed(each.events))
        elif not count:
            continue
        elif name in COMPUTED:
            rest.append(each if count == 1 else library.SelfComposedDpEvent(each, count))
        elif (use := _uses(name, each, count, relation, reach)) is not None:
            found.append(use)
    if rest:
        found.append(_computed(library, rest, relation, delta))
    return tuple(found)


def _library() -> Any:
    try:
        import dp_accounting
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(needs("DpEvents need", "accounting"), name=error.name) from error
    refuse_old("dp_accounting")
    return dp_accounting


def _event(library: Any, name: str, part: object, pure: str) -> Any:
    """The event of one part."""
    if isinstance(part, GaussianPrivacy):
        return library.GaussianDpEvent(_down(Fraction(1) / Fraction(part.mu))) if part.mu else library.NoOpDpEvent()
    if isinstance(part, Privacy):
        part = Uses("approximate" if part.delta else "pure", epsilon=part.epsilon, delta=part.delta)
    if not isinstance(part, Uses):
        raise ParameterTypeError(f"{name} must be a Privacy, Uses or GaussianPrivacy, got {part!r}")
    if part.delta:
        raise ParameterError(
            f"{name} must have delta 0, as dp-accounting has no event for an (epsilon, delta), got delta={part.delta!r}; read the other "
            "tool's events by from_dp_event, and compose here"
        )
    if not (part.rho or part.epsilon):
        return library.NoOpDpEvent()
    one = _one_event(library, part, pure)
    return one if part.uses == 1 else library.SelfComposedDpEvent(one, part.uses)


def _one_event(library: Any, use: Uses, pure: str) -> Any:
    if use.mechanism == "gaussian":
        return library.GaussianDpEvent(1 / math.sqrt(2 * (use.rho or 0.0)) * (1 - 2.0**-50))
    if use.mechanism == "laplace":
        return library.LaplaceDpEvent(_down(Fraction(1) / Fraction(use.epsilon)))
    if use.mechanism == "concentrated":
        return _made(library, "ZCDpEvent", use.rho)
    if use.mechanism == "bounded_range":
        return _made(library, "ZCDpEvent", rho_bounded_range(use.epsilon))
    if pure == "zcdp":
        return _made(library, "ZCDpEvent", rho_pure(use.epsilon))
    # with two answers the other one has the probability p/2 = 1/(1 + e^ε); from ε = 745 on it is 0, which protects nothing
    odds = math.exp(-use.epsilon)
    return _made(library, "RandomizedResponseDpEvent", math.nextafter(2 * odds / (1 + odds) * (1 - 2.0**-50), 0.0), 2)


def _made(library: Any, name: str, *values: Any) -> Any:
    """An event that older releases of dp-accounting may lack."""
    kind = getattr(library, name, None) or getattr(library.dp_event, name, None)
    if kind is None:
        raise ParameterError(f"this needs a dp-accounting with {name}: pip install 'dp-accounting>=0.6'")
    return kind(*values)


def _down(exact: Fraction) -> float:
    """The largest float64 that is at most a positive number; the largest finite one for what is beyond."""
    try:
        near = float(exact)
    except OverflowError:
        return math.nextafter(math.inf, 0.0)
    return near if Fraction(near) <= exact else math.nextafter(near, 0.0)


def _name(library: Any, event: object) -> str:
    """The name of a class of dp-accounting; that of a class derived from one is not known here."""
    kind = type(event)
    if not isinstance(event, library.DpEvent):
        raise ParameterTypeError(f"event must be a DpEvent of dp-accounting, got one of type {kind.__name__}")
    return kind.__name__ if kind is getattr(library, kind.__name__, None) or kind is getattr(library.dp_event, kind.__name__, None) else ""


def _uses(name: str, event: Any, count: int, relation: str, reach: int) -> Uses | None:
    """What an event costs; None if that is nothing."""
    if name == "NoOpDpEvent":
        return None
    if name == "GaussianDpEvent":
        return Uses("gaussian", uses=count, rho=rho_gaussian(_multiplier(event), float(reach)))
    if name == "LaplaceDpEvent":
        return Uses("laplace", uses=count, epsilon=laplace_scale(_multiplier(event), float(reach)))
    if name == "DiscreteLaplaceDpEvent":
        return Uses("pure", uses=count, epsilon=_discrete_laplace(event, reach))
    if name == "ZCDpEvent":
        if event.xi:
            raise ParameterError(f"a ZCDpEvent must have xi = 0, got {event.xi!r}: no uses of dpcore have another")
        return Uses("concentrated", uses=count, rho=event.rho) if event.rho else None
    if name == "RandomizedResponseDpEvent":
        epsilon = _response(event, relation)
        return Uses("pure", uses=count, epsilon=epsilon) if epsilon else None
    if name == "NonPrivateDpEvent":
        raise ParameterError("event must have a guarantee, got a NonPrivateDpEvent, which protects nothing")
    raise ParameterError(f"event must be one that dpcore can read, got a {type(event).__name__}")


def _multiplier(event: Any) -> float:
    try:
        return check_noise_scale(event.noise_multiplier)
    except (ParameterError, ParameterTypeError):
        raise ParameterError(
            f"the noise_multiplier of a {type(event).__name__} must be positive and finite, got {event.noise_multiplier!r}"
        ) from None


def _discrete_laplace(event: Any, reach: int) -> float:
    from dpcore._exact.intervals import fraction_up

    ratio = check_real("the noise_parameter of a DiscreteLaplaceDpEvent", event.noise_parameter, low=0.0, high=math.inf, include_high=False)
    moved = check_integer("the sensitivity of a DiscreteLaplaceDpEvent", event.sensitivity, low=0)
    return fraction_up(Fraction(ratio) * moved * reach)


def _response(event: Any, relation: str) -> float:
    """ln(1 + k(1 − p)/p), rounded up."""
    from dpcore._exact.intervals import Interval, log, round_up

    if relation != "replace":
        raise ParameterError(f"relation must be 'replace' for a RandomizedResponseDpEvent, got {relation!r}: an answer is there or not")
    p = check_real("the noise_parameter of a RandomizedResponseDpEvent", event.noise_parameter, low=0.0, high=1.0, include_low=False)
    k = check_integer("the num_buckets of a RandomizedResponseDpEvent", event.num_buckets, low=1)
    odds = 1 + k * (1 - Fraction(p)) / Fraction(p)
    return round_up(log(Interval.of(odds, 128)).high) if k > 1 and p < 1 else 0.0


def _computed(library: Any, events: list[Any], relation: str, delta: float | None) -> Uses:
    """All events that are no uses as one (ε, δ), by the accountants of dp-accounting."""
    names = sorted(
        {type(getattr(each, "event", each) if type(each).__name__ == "SelfComposedDpEvent" else each).__name__ for each in events}
    )
    if delta is None:
        raise ParameterError(
            f"event must consist of uses, got a {names[0]}: pass delta=, and dp-accounting computes its epsilon; or use pld, which knows "
            "sampling"
        )
    from dp_accounting import pld, rdp

    neighbours = getattr(library.NeighboringRelation, "REPLACE_ONE" if relation == "replace" else "ADD_OR_REMOVE_ONE")
    whole, found = library.ComposedDpEvent(events), []
    of_rdp = _with_half_the_noise(library, whole) if relation == "replace" else whole
    for make, given in ((pld.PLDAccountant, whole), (rdp.RdpAccountant, of_rdp)):
        accountant = make(neighboring_relation=neighbours)
        if accountant.supports(given):
            found.append(float(accountant.compose(given).get_epsilon(delta)))
    if not found:
        raise ParameterError(f"dp-accounting has no accountant of {' and '.join(names)} together for relation={relation!r}")
    if not math.isfinite(min(found)):
        raise ParameterError(f"dp-accounting finds no finite epsilon at delta={delta!r} for {' and '.join(names)}")
    return Uses("approximate", epsilon=max(min(found), 0.0), delta=delta)


def _with_half_the_noise(library: Any, event: Any) -> Any:
    """The event as `RdpAccountant` must see it for REPLACE_ONE, where it takes the same sensitivity as for the other relations.

    Replacing a record moves a sum by twice the norm that noise multipliers are of, which `PLDAccountant` takes into account by itself.
    """
    name = _name(library, event)
    if name in {"GaussianDpEvent", "LaplaceDpEvent"}:
        return type(event)(_multiplier(event) / 2)
    if name == "ComposedDpEvent":
        return library.ComposedDpEvent([_with_half_the_noise(library, each) for each in event.events])
    given = {field.name: getattr(event, field.name) for field in event.__attrs_attrs__}
    if name in {"SelfComposedDpEvent", "SampledWithoutReplacementDpEvent", "RepeatAndSelectDpEvent"}:
        return type(event)(**{**given, "event": _with_half_the_noise(library, event.event)})
    # What others stand for is not known here, so the other accountant has to answer.
    return event if name in {"NoOpDpEvent", "ZCDpEvent"} else library.UnsupportedDpEvent()
