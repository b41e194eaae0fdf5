"""Mechanisms of this library as experiments."""

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
    r"""Give a mechanism with finitely many outcomes as an experiment, from its exact probabilities.

    Parameters
    ----------
    mechanism : object or function
        - A mechanism of `dpcore.local` with a channel matrix, or any object whose method `channel` gives a row-stochastic matrix.
        - A mechanism that adds integer noise: `DiscreteLaplace`, `DiscreteGaussian` and their local forms. Its output is clamped to
          `outputs`, which is post-processing, so that the guarantee stays.
        - `selection.exponential_mechanism`, `permute_and_flip` or `noisy_argmax`; or `top_s` by "gumbel" or "peeling", without values:
          its outcomes are sequences of indices.
        - A `SequentialChannel` whose choices report bits or codes: its states are sequences of records, its outcomes sequences of reports.
    inputs : array_like, optional
        The states. For channel matrices of tables: which codes, by default all. For `BoundedMean` and a `BinaryChannel` of a callable: the
        points (by default the bounds of the former). For integer noise: the integers, by default lower … upper of a local form. For a
        selection: the scores, shape (n, d), a row for each state. For a `SequentialChannel`: the values that a record can have.
    **parameters
        `seed` for `LocalHashing`: the experiment of reports under this hash function.
        `records` for a `SequentialChannel`: their number.
        `outputs=(low, high)` for integer noise: by default the least and the largest input.
        `epsilon`, `sensitivity` and, if wanted, `relation`, `monotone`, `noise` for a selection, as in its call; for `top_s` also `s`,
        `delta`, `method`, `scale`.

    Returns
    -------
    Experiment
        Entries within a few roundings of the exact probability, relative; its states and outcomes are labelled.

    Raises
    ------
    ParameterError, ParameterTypeError
        If the mechanism is none of these (real-valued noise has no matrix), or a parameter does not fit.

    Notes
    -----
    `epsilon()` of the experiment is the mechanism's ε wherever two of its states attain it: for every channel matrix, and for discrete
    Laplace noise with inputs as far apart as the sensitivity. Discrete Gaussian noise that is clamped has a finite ε beyond its δ.
    Selections are integrated by Gauss-Legendre quadrature, which is exact for permute-and-flip's polynomial.

    Examples
    --------
    >>> from dpcore import local, mechanisms, selection
    >>> round(from_mechanism(local.KaryResponse(1.0, 4)).epsilon(), 12)
    1.0
    >>> geometric = from_mechanism(mechanisms.DiscreteLaplace(0.5, 1), range(11))
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
            raise ParameterTypeError(f"{name} is required for this mechanism")
    for name in parameters:
        if name not in allowed:
            words = ", ".join(allowed) or "none"
            raise ParameterTypeError(f"{name} is no parameter for this mechanism; those it has are: {words}")


def _from_channel(mechanism: Any, inputs: Any, parameters: dict[str, Any]) -> Experiment:
    channel = getattr(mechanism, "channel", None)
    if isinstance(channel, local.BinaryChannel):  # what has found a channel, and carries it
        return _from_channel(channel, inputs, parameters)
    if inspect.isclass(mechanism) or not callable(channel):
        name = mechanism.__name__ if inspect.isclass(mechanism) or inspect.isfunction(mechanism) else type(mechanism).__name__
        raise ParameterTypeError(f"mechanism must have finitely many outcomes and a channel matrix, got {name}")
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
    _only(parameters, ("records",), ("records",))
    records = check_integer("records", parameters["records"], low=1, high=64)
    values = check_array("inputs", inputs, REAL_DTYPES)
    if values.ndim != 1 or not len(values):
        raise ParameterError(f"inputs must be a vector of the values that a record can have, got shape {values.shape}")
    matrix, states, paths = sequential_rows(protocol, values.tolist(), records)
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
            raise ParameterTypeError("inputs are required for a mechanism without bounds")
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
        raise ParameterError(f"s must be such that there are at most 2**16 sequences of indices, got {s} of {d}")
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
