"""Experiments of the mechanisms of dpcore."""

from __future__ import annotations

import inspect
import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore import local, mechanisms, selection
from dpcore._validation import (
    INTEGER_DTYPES,
    REAL_DTYPES,
    check_array,
    check_choice,
    check_integer,
    check_positive,
    check_real,
    check_sensitivity,
)
from dpcore.blackwell import _laws
from dpcore.blackwell._checks import check_entries, check_real_matrix, scaled_rows
from dpcore.blackwell._sequential import sequential_rows
from dpcore.blackwell.experiment import Experiment
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.selection._plan import Request, argmax_scale, check_given_scale, make_plan, spread

if TYPE_CHECKING:
    import numpy.typing as npt

INTEGER_NOISE = {
    mechanisms.DiscreteLaplace: "discrete_laplace",
    mechanisms.DiscreteGaussian: "discrete_gaussian",
    local.LocalDiscreteLaplace: "discrete_laplace",
    local.LocalDiscreteGaussian: "discrete_gaussian",
}
ARGMAX_NOISE = {
    selection.exponential_mechanism: "gumbel",
    selection.permute_and_flip: "exponential",
    selection.noisy_argmax: "laplace",
}
LARGEST = 2**62
MAX_SEQUENCES = 2**16


def from_mechanism(mechanism: Any, inputs: Any = None, **parameters: Any) -> Experiment:
    r"""Return a mechanism with finitely many outcomes as an experiment, from its exact probabilities.

    Parameters
    ----------
    mechanism : object or function
        One of the following:

        - a mechanism of `dpcore.local` with a channel matrix, or any object whose method `channel` returns a row-stochastic matrix;
        - a mechanism that adds integer noise: `DiscreteLaplace`, `DiscreteGaussian` and their local forms. The output is clamped to
          `outputs`; this is post-processing, so the guarantee stays;
        - `selection.exponential_mechanism`, `permute_and_flip` or `noisy_argmax`; or `top_s` with the method "gumbel" or "peeling" and
          without values, whose outcomes are sequences of indices;
        - a `SequentialChannel` whose choices report bits or codes. The states are sequences of records, the outcomes sequences of reports.
    inputs : array_like, optional
        The states. For the channel matrix of a table: codes, by default all. For `BoundedMean` and a `BinaryChannel` of a callable: points,
        by default the bounds of the former. For integer noise: integers, by default lower … upper of a local form. For a selection: scores
        of shape (n, d), one row for each state. For a `SequentialChannel`: the values that a record can have.
    **parameters
        `seed` for `LocalHashing`: the hash function of the reports.
        `n` for a `SequentialChannel`: the number of records.
        `outputs=(low, high)` for integer noise: by default the least and the largest input.
        `epsilon`, `sensitivity` and optionally `relation`, `monotone`, `noise` for a selection, as in its call; for `top_s` also `s`,
        `delta`, `method`, `scale`.

    Returns
    -------
    Experiment
        Each entry is within a few roundings of the exact probability, relative. States and outcomes have labels.

    Raises
    ------
    ParameterError, ParameterTypeError
        If the mechanism is none of these (noise on real numbers has no matrix), or a parameter does not fit.

    Notes
    -----
    `epsilon()` of the experiment is the ε of the mechanism wherever two states attain it: for every channel matrix, and for discrete
    Laplace noise with inputs as far apart as the sensitivity. Clamped discrete Gaussian noise has a finite ε above the one of its (ε, δ).
    Selections are integrated by Gauss-Legendre quadrature, which is exact for the polynomial of permute-and-flip.

    Cost: proportional to the entries of the matrix, at most 2^26; for Laplace selections about 50 µs for each unit between two scores.

    Examples
    --------
    >>> from dpcore import local, mechanisms, selection
    >>> round(from_mechanism(local.BinaryResponse(1.0)).epsilon(), 12)
    1.0
    >>> geometric = from_mechanism(mechanisms.DiscreteLaplace(epsilon=0.5, sensitivity=1), range(11))
    >>> geometric, round(geometric.epsilon(neighbours=[(x, x + 1) for x in range(10)]), 12)
    (Experiment(11 states, 11 outcomes), 0.5)
    >>> scores = [[0, 0, 3], [1, 1, 2], [1, 0, 2]]
    >>> round(from_mechanism(selection.permute_and_flip, scores, epsilon=1.0, sensitivity=1.0).epsilon(), 4)
    0.9465
    """
    if any(mechanism is function for function in ARGMAX_NOISE):
        return _from_selection(mechanism, inputs, parameters)
    if mechanism is selection.top_s:
        return _from_top_s(inputs, parameters)
    if isinstance(mechanism, local.SequentialChannel):
        return _from_protocol(mechanism, inputs, parameters)
    kind = next((name for each, name in INTEGER_NOISE.items() if isinstance(mechanism, each)), None)
    if kind is not None:
        return _from_integer_noise(mechanism, kind, inputs, parameters)
    return _from_channel(mechanism, inputs, parameters)


def _only(parameters: dict[str, Any], allowed: tuple[str, ...], required: tuple[str, ...] = ()) -> None:
    for name in required:
        if name not in parameters:
            raise ParameterTypeError(f"{name} is required for this mechanism: from_mechanism(mechanism, inputs, {name}=...)")
    for name in parameters:
        if name not in allowed:
            words = ", ".join(allowed) or "none"
            raise ParameterTypeError(f"{name} is not a parameter of this mechanism; its parameters are: {words}")


def _from_channel(mechanism: Any, inputs: Any, parameters: dict[str, Any]) -> Experiment:
    channel = getattr(mechanism, "channel", None)
    if isinstance(channel, local.BinaryChannel):  # the result of a search for a channel
        return _from_channel(channel, inputs, parameters)
    if inspect.isclass(mechanism) or not callable(channel):
        name = mechanism.__name__ if inspect.isclass(mechanism) or inspect.isfunction(mechanism) else type(mechanism).__name__
        raise ParameterTypeError(
            f"mechanism must have finitely many outcomes and a method `channel` that returns their matrix, got {name}; "
            "dpcore.audit bounds the privacy loss of any other mechanism"
        )
    seed = ("seed",) if isinstance(mechanism, local.LocalHashing) else ()
    _only(parameters, seed, seed)
    listed = isinstance(mechanism, local.BinaryChannel) and not callable(mechanism.phi)
    if "points" in inspect.signature(channel).parameters and not listed:
        matrix = channel() if inputs is None else channel(inputs)
        states = None if inputs is None else tuple(np.asarray(inputs).reshape(-1).tolist())
        return Experiment(matrix, states=states)
    matrix = channel(**parameters)
    codes = np.arange(len(matrix)) if inputs is None else _integers("inputs", inputs, 0, len(matrix) - 1)
    return Experiment(matrix[codes], states=tuple(codes.tolist()))


def _from_protocol(protocol: local.SequentialChannel, inputs: Any, parameters: dict[str, Any]) -> Experiment:
    _only(parameters, ("n",), ("n",))
    n = check_integer("n", parameters["n"], low=1, high=64)
    values = check_array("inputs", inputs, REAL_DTYPES)
    if values.ndim != 1 or not len(values):
        raise ParameterError(f"inputs must be a vector of the values that a record can have, got shape {values.shape}")
    matrix, states, paths = sequential_rows(protocol, values.tolist(), n)
    return Experiment(scaled_rows(matrix), states=states, outcomes=paths)


def _integers(name: str, values: Any, low: int, high: int) -> npt.NDArray[np.int64]:
    given = np.asarray(values) if isinstance(values, range) else values
    array = check_array(name, given, INTEGER_DTYPES)
    if array.ndim != 1 or not len(array):
        raise ParameterError(f"{name} must be a vector of integers, got shape {array.shape}")
    outside = (array < low) | (array > high)
    if outside.any():
        raise ParameterError(f"{name} must be in [{low}, {high}], got {int(array[outside][0])}")
    return array.astype(np.int64)


def _from_integer_noise(mechanism: Any, kind: str, inputs: Any, parameters: dict[str, Any]) -> Experiment:
    _only(parameters, ("outputs",))
    lower, upper = getattr(mechanism, "lower", None), getattr(mechanism, "upper", None)
    if inputs is None:
        if lower is None or upper is None:
            raise ParameterTypeError("inputs are required for a mechanism without bounds: from_mechanism(mechanism, range(11))")
        check_entries("the experiment", upper - lower + 1, upper - lower + 1)
        inputs = range(lower, upper + 1)
    states = _integers("inputs", inputs, -LARGEST, LARGEST)
    values = states if lower is None else np.clip(states, lower, upper)
    low, high = parameters.get("outputs", (int(values.min()), int(values.max())))
    low = check_integer("outputs[0]", low, low=-LARGEST, high=LARGEST)
    high = check_integer("outputs[1]", high, low=low, high=LARGEST)
    check_entries("the experiment", len(values), high - low + 1)
    matrix = _laws.integer_rows(kind, mechanism.scale, values, low, high)
    return Experiment(scaled_rows(matrix), states=tuple(states.tolist()), outcomes=tuple(range(low, high + 1)))


def _from_selection(function: Any, inputs: Any, parameters: dict[str, Any]) -> Experiment:
    noise = ARGMAX_NOISE[function]
    extra = ("noise",) if function is selection.noisy_argmax else ()
    _only(parameters, ("epsilon", "sensitivity", "relation", "monotone", *extra), ("epsilon", "sensitivity"))
    if "noise" in parameters:
        noise = check_choice("noise", parameters["noise"], tuple(ARGMAX_NOISE.values()))
    scores = check_real_matrix("inputs", inputs)
    relation, monotone = parameters.get("relation", "replace"), parameters.get("monotone", False)
    scale = argmax_scale(parameters["epsilon"], parameters["sensitivity"], 1, relation, monotone=monotone)
    matrix = _laws.argmax_rows(noise, scores, scale)
    return Experiment(scaled_rows(matrix), states=tuple(map(tuple, scores.tolist())), outcomes=tuple(range(scores.shape[1])))


def _from_top_s(inputs: Any, parameters: dict[str, Any]) -> Experiment:
    given = {"delta": 0.0, "method": "gumbel", "scale": None, "relation": "replace", "monotone": False, **parameters}
    _only(given, ("s", "epsilon", "sensitivity", "delta", "method", "scale", "relation", "monotone"), ("s", "epsilon", "sensitivity"))
    scores = check_real_matrix("inputs", inputs)
    d = scores.shape[1]
    s = check_integer("s", given["s"], low=1, high=d)
    if math.perm(d, s) > MAX_SEQUENCES:
        raise ParameterError(f"s must give at most {MAX_SEQUENCES} sequences of indices, got {math.perm(d, s)} of {s} among {d}")
    check_choice("method", given["method"], ("gumbel", "peeling"))
    request = Request(
        s, check_positive("epsilon", given["epsilon"]), check_sensitivity(given["sensitivity"]),
        check_real("delta", given["delta"], low=0.0, high=1.0, include_high=False),
        spread(given["relation"], monotone=given["monotone"]), 0.5, has_values=False, relation=given["relation"],
    )  # fmt: skip
    scale = make_plan(given["method"], check_given_scale(given["scale"]), request, d).scale
    matrix = _laws.peeling_rows("gumbel" if given["method"] == "gumbel" else "laplace", scores, scale, s)
    outcomes = tuple(itertools.permutations(range(d), s))
    return Experiment(scaled_rows(matrix), states=tuple(map(tuple, scores.tolist())), outcomes=outcomes)
