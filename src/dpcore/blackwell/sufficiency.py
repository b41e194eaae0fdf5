"""Blackwell's order of experiments, with a proof of either answer."""

from __future__ import annotations

from dataclasses import field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore._dataclasses import dataclass
from dpcore._html import matrix_table
from dpcore.blackwell._deficiency import TOLERANCE, answers, distance
from dpcore.blackwell.experiment import Experiment
from dpcore.errors import DpcoreError, ParameterError, ParameterTypeError

if TYPE_CHECKING:
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float64]

MAX_VARIABLES = 10**6
NEAR_LEAST = 1e-10
"""Relative: sums of up to 10^5 non-negative products, in float64, separate decisions that differ by more."""
GUARD_BITS = 200


@dataclass(frozen=True, slots=True, eq=False)
class DecisionProblem:
    """A decision from an outcome: state i has probability prior[i], and decision a costs loss[i, a] there.

    Attributes
    ----------
    loss : ndarray of float64, shape (n, decisions)
        Losses in [0, 1].
    prior : ndarray of float64, shape (n,)
        Probabilities of the states.
    risk_P, risk_Q : float
        Least expected losses with the outcome of P and with the outcome of Q.
    """

    loss: Matrix = field(repr=False)
    prior: Matrix = field(repr=False)
    risk_P: float  # noqa: N815 - P and Q are the experiments
    risk_Q: float  # noqa: N815

    def _repr_html_(self) -> str:
        table = np.column_stack([self.prior, self.loss])
        caption = f"Decision problem with risk {self.risk_P:.4g} for P and {self.risk_Q:.4g} for Q"
        columns = ["prior", *(f"loss of decision {a}" for a in range(self.loss.shape[1]))]
        return matrix_table(caption, table, range(len(table)), columns)


@dataclass(frozen=True, slots=True, eq=False)
class Sufficiency:
    """Whether P ≺ Q, with the proof.

    Attributes
    ----------
    holds : bool
        Whether P is sufficient for Q.
    T : ndarray of float64, shape (m1, m2), or None
        If P is sufficient: a row-stochastic matrix for which no entry of PT − Q exceeds 1e-9.
    problem : DecisionProblem or None
        If P is not sufficient: a decision that has strictly less risk with Q than with P.
    deficiency : float
        Le Cam's deficiency of P for Q: min over T of max over states of the total variation between rows of PT and Q.
    """

    holds: bool
    T: Matrix | None = field(repr=False)
    problem: DecisionProblem | None
    deficiency: float


def is_sufficient(P: Experiment, Q: Experiment) -> Sufficiency:
    r"""Return whether P is sufficient for Q (P ≺ Q): whether Q is P passed through a channel.

    Parameters
    ----------
    P, Q : Experiment
        Experiments on the same n states, with m1 and m2 outcomes.

    Returns
    -------
    Sufficiency
        A channel T with PT = Q, or a decision problem in which Q has strictly less risk.

    Raises
    ------
    ParameterError, ParameterTypeError
        If P and Q are not experiments on the same number of states, or m1·m2 + n·m2 exceeds 10^6.
    DpcoreError
        If no linear program was solved accurately enough for either proof.

    Notes
    -----
    By Blackwell's theorem exactly one of the two exists. The T that minimises max_i TV((PT)_i, Q_i) is the solution of a linear program
    (HiGHS). The dual solution is the decision problem with losses in [0, 1] whose risks differ most, by that same minimum. Its decisions
    are the outcomes of Q. The inequality risk_P > risk_Q is checked in integer arithmetic for the matrices as stored, with rows scaled to
    sums of exactly 1. If PT = Q holds within 1e-9, the answer is yes; smaller differences do not count.

    Cost: about half a second for n = m1 = m2 = 60 where a T exists, otherwise 1 to 8 seconds.

    Source: Mechanisms as experiments (2014), Definition 3 and Theorem 1; Blackwell (1953); Le Cam (1964), for the deficiency.

    Examples
    --------
    >>> fine = Experiment([[0.75, 0.25], [0.25, 0.75]])
    >>> coarse = fine.garble([[0.9, 0.1], [0.1, 0.9]])
    >>> is_sufficient(fine, coarse).T.round(6)
    array([[0.9, 0.1],
           [0.1, 0.9]])
    >>> answer = is_sufficient(coarse, fine)
    >>> answer.holds, round(answer.problem.risk_P, 6), round(answer.problem.risk_Q, 6)
    (False, 0.3, 0.25)
    """
    p, q = _check(P, Q)
    seen_p, seen_q = p.max(axis=0) > 0, q.max(axis=0) > 0
    left, right = p[:, seen_p], q[:, seen_q]
    for answer in answers(left, right):
        if answer.channel is None:
            continue
        entry, deficiency = distance(left, right, answer.channel)
        if entry <= TOLERANCE:
            channel = _completed(answer.channel, seen_p, seen_q)
            return Sufficiency(holds=True, T=channel, problem=None, deficiency=deficiency)
        if answer.weights is not None and answer.weights.any():
            # an outcome that Q never shows becomes the worst decision; otherwise it would cost nothing
            weights = np.broadcast_to(answer.weights.max(axis=1, keepdims=True), q.shape).copy()
            weights[:, seen_q] = answer.weights
            problem = separating_problem(p, q, weights)
            if problem is not None:
                return Sufficiency(holds=False, T=None, problem=problem, deficiency=deficiency)
    raise DpcoreError(
        "found neither a channel from P to Q nor a decision that separates them: the solver did not reach the accuracy for a proof; "
        "try fewer outcomes, or merge outcomes with proportional columns"
    )


def _check(P: Experiment, Q: Experiment) -> tuple[Matrix, Matrix]:
    for name, value in (("P", P), ("Q", Q)):
        given: object = value
        if not isinstance(given, Experiment):
            raise ParameterTypeError(f"{name} must be an Experiment, got {type(given).__name__}")
    p, q = P.matrix, Q.matrix
    if len(p) != len(q):
        raise ParameterError(f"P and Q must have the same number of states, got {len(p)} and {len(q)}")
    size = p.shape[1] * q.shape[1] + q.size
    if size > MAX_VARIABLES:
        raise ParameterError(f"P and Q must give a linear program of at most 10**6 variables, got {size}")
    return p, q


def _completed(channel: Matrix, seen_p: npt.NDArray[np.bool_], seen_q: npt.NDArray[np.bool_]) -> Matrix:
    """The channel on all outcomes: the rows of outcomes that P never shows are uniform on the outcomes that Q shows."""
    full: Matrix = np.where(seen_q, 1 / seen_q.sum(), 0.0) * np.ones((len(seen_p), 1))
    full[np.ix_(seen_p, seen_q)] = channel
    full.setflags(write=False)
    return full


def separating_problem(p: Matrix, q: Matrix, weights: Matrix) -> DecisionProblem | None:
    """Return the decision problem with losses times priors proportional to `weights`, if Q has certainly less risk than P."""
    prior = weights.max(axis=1)
    loss = np.divide(weights, prior[:, None], out=np.zeros_like(weights), where=prior[:, None] > 0)
    prior = prior / prior.sum()
    risk_p, _ = exact_risk(p, loss, prior)
    _, risk_q = exact_risk(q, loss, prior)
    if not float(risk_p) > float(risk_q):
        return None
    for array in (loss, prior):
        array.setflags(write=False)
    return DecisionProblem(loss, prior, float(risk_p), float(risk_q))


def exact_risk(matrix: Matrix, loss: Matrix, prior: Matrix) -> tuple[Fraction, Fraction]:
    """Return bounds of the Bayes risk of an experiment with rows scaled to sum to 1, in integer arithmetic; they differ by at most 2^−200.

    Decisions that are worse than the best one by more than the error of float64 are left out. Losses are not negative, so this error is
    relative.
    """
    (entries, _), (losses, loss_shift), (priors, prior_shift) = (_integers(each) for each in (matrix, loss, prior))
    sums = entries.sum(axis=1)
    bits = max(int(total).bit_length() for total in sums) + GUARD_BITS
    below = np.array([(int(w) << bits) // int(total) for w, total in zip(priors, sums, strict=True)], dtype=object)
    rough = (matrix * prior[:, None]).T @ loss
    least = rough.min(axis=1) * (1 + NEAR_LEAST) + 1e-290
    low = high = 0
    for y, choices in enumerate(rough <= least[:, None]):
        chosen = losses[:, choices]
        low += min((below * entries[:, y]) @ chosen)
        high += min(((below + 1) * entries[:, y]) @ chosen)
    unit = Fraction(2) ** (loss_shift + prior_shift - bits)
    return low * unit, high * unit


def _integers(values: Matrix) -> tuple[npt.NDArray[Any], int]:
    """Python integers and a power of two, whose product is exactly the values."""
    mantissas, exponents = np.frexp(values)
    least = int(exponents[values != 0].min(initial=1024)) if values.any() else 0
    shifts = np.where(values != 0, exponents - least, 0)
    whole = np.array([int(m) << int(s) for m, s in zip((mantissas * 2.0**53).ravel(), shifts.ravel(), strict=True)], dtype=object)
    return whole.reshape(values.shape), least - 53
