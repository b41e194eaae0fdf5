"""What an input domain and an input metric of OpenDP say: the form and the type of the data, and what a distance means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from dpcore._dataclasses import dataclass
from dpcore.errors import ParameterError, ParameterTypeError

if TYPE_CHECKING:
    from opendp.mod import Domain, Metric

Form = Literal["number", "list", "array"]
Metrics = Mapping[Form, tuple[str, ...]]
"""For each form of the data that a measurement takes, the metrics that it has a privacy map for."""

DTYPES: Mapping[str, type[np.generic]] = {
    "f64": np.float64,
    "f32": np.float32,
    "i64": np.int64,
    "i32": np.int32,
    "u64": np.uint64,
    "u32": np.uint32,
    "usize": np.uintp,
    "bool": np.bool_,
}
FLOATS, INTEGERS = ("f64", "f32"), ("i64", "i32", "u64", "u32", "usize")
_BITS = {"i64": 64, "i32": 32, "u64": 64, "u32": 32, "usize": 8 * np.dtype(np.uintp).itemsize}
INTEGER_RANGES: Mapping[str, tuple[int, int]] = {
    atom: (0, 2**bits - 1) if atom.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for atom, bits in _BITS.items()
}
"""Least and largest integer of each type."""
TEXT = "String"
_CONSTRUCTORS: Mapping[Form, str] = {"number": "atom_domain", "list": "vector_domain", "array": "numpy.arrayd_domain"}


@dataclass(frozen=True, slots=True)
class Space:
    """An input domain and an input metric, read.

    Attributes
    ----------
    domain, metric : Domain, Metric
        Of OpenDP.
    form : {"number", "list", "array"}
        What a data set is.
    atom : str
        OpenDP's name of the type of its elements.
    distance : str
        OpenDP's name of the metric.
    size : int or None
        Number of elements, if the domain tells it.
    shape : tuple of int or None
        Of an array.
    """

    domain: Domain
    metric: Metric
    form: Form
    atom: str
    distance: str
    size: int | None
    shape: tuple[int, ...] | None

    def released(self, atom: str, *, as_array: bool) -> str:
        """OpenDP's name of the type of an answer with one element for each of the data."""
        if self.form == "number":
            return atom
        return "ExtrinsicObject" if self.form == "array" or as_array else f"Vec<{atom}>"

    def elements(self, data: Any) -> npt.NDArray[Any]:
        """A list or an array that OpenDP hands over, as an array of the domain's type."""
        dtype = DTYPES[self.atom]
        if self.form == "list":
            return np.array(data, dtype)
        if type(data) is not np.ndarray or data.dtype != dtype:
            found = f"an array of {data.dtype}" if isinstance(data, np.ndarray) else type(data).__name__
            raise ParameterTypeError(f"data of {self.domain} must be a numpy array of {np.dtype(dtype)}, got {found}")
        if data.shape != self.shape:
            raise ParameterError(f"data of {self.domain} must have the shape {self.shape}, got {data.shape}")
        return data


def read_space(domain: Domain, metric: Metric, metrics: Metrics, atoms: tuple[str, ...]) -> Space:
    """Read a domain and a metric, or say which ones the measurement takes."""
    from opendp.mod import Domain as AnyDomain
    from opendp.mod import Metric as AnyMetric

    if not isinstance(domain, AnyDomain):
        raise ParameterTypeError(f"input_domain must be a domain of OpenDP, got {type(domain).__name__}")
    if not isinstance(metric, AnyMetric):
        raise ParameterTypeError(f"input_metric must be a metric of OpenDP, got {type(metric).__name__}")
    form, atom, nan, size, shape = _parts(domain)
    if form is None or form not in metrics or atom not in atoms:
        wanted = ", ".join(f"{_CONSTRUCTORS[known]}(…)" for known in metrics)
        raise ParameterError(f"input_domain must be one of {wanted} of {', '.join(atoms)}, got {domain}{_advice(domain, metrics)}")
    if nan:
        raise ParameterError(f"input_domain must leave out NaN, as atom_domain(T=…, nan=False) does, got {domain}")
    distance = _name(metric.type)
    if distance not in metrics[form]:
        raise ParameterError(f"input_metric must be {' or '.join(metrics[form])} with {domain}, got {metric}")
    return Space(domain, metric, form, atom, distance, size, shape)


def distance_type(metric: Metric) -> str:
    """OpenDP's name of the type of the distances of a metric with such a parameter."""
    return _atom(metric)


def _parts(domain: Domain) -> tuple[Form | None, str, bool, int | None, tuple[int, ...] | None]:
    """Form, type of the elements, whether NaN may be among them, number of elements, and shape."""
    from opendp.extras.numpy import NPArrayDDomain
    from opendp.mod import AtomDomain, ExtrinsicDomain, VectorDomain

    if isinstance(domain, AtomDomain):
        return "number", _atom(domain), bool(domain.nan), None, None
    if isinstance(domain, VectorDomain) and isinstance(domain.element_domain, AtomDomain):
        return "list", _atom(domain.element_domain), bool(domain.element_domain.nan), domain.size, None
    described = domain.descriptor if isinstance(domain, ExtrinsicDomain) else None
    if isinstance(described, NPArrayDDomain):
        return "array", str(described.T), False, int(np.prod(described.shape)), described.shape
    return None, "", False, None, None


def _atom(described: Any) -> str:
    """The parameter of a domain or metric: OpenDP's name of a type."""
    return str(described.type).partition("<")[2].removesuffix(">").rpartition("::")[2]


def _name(descriptor: Any) -> str:
    """Name of a metric or measure, without its module and its parameters."""
    name, _, parameters = str(descriptor).partition("<")
    name = name.rpartition("::")[2]
    return f"L{parameters[0]}Distance" if name == "LpDistance" else name


def _advice(domain: Domain, metrics: Metrics) -> str:
    name = _name(domain.type)
    if name in ("LazyFrameDomain", "SeriesDomain", "WildExprDomain"):
        return ": OpenDP compiles frames from its own expressions only, so their noise stays its own"
    if name == "ExtrinsicDomain" and "array" in metrics:
        return ": of user domains, dpcore knows dp.numpy.arrayd_domain(shape=…, T=…)"
    return ""
