"""Norms, clipping and sums of per-sample gradients, with an error that can be stated."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from dpcore._dataclasses import dataclass
from dpcore.errors import ParameterError
from dpcore.interop.opacus._bounds import COLUMNS, MAX_PARAMETERS, RADII, ROWS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch import Tensor


@dataclass(slots=True)
class Step:
    """What the sum of one optimizer step is made of so far.

    Attributes
    ----------
    samples : int
        Gradients in the sum. It is private with Poisson sampling.
    radii : tuple of float
        Clipping bounds, whose squares add up to that of a whole gradient; each is the largest that was used.
    parameters : int
        Numbers in the parameters.
    finite : bool
        Whether all gradients are known to be finite.
    """

    samples: int
    radii: tuple[float, ...]
    parameters: int
    finite: bool


def check_parameters(parameters: Sequence[Tensor]) -> int:
    """Return how many numbers the parameters have; raise if there is one for which no bound is proved."""
    import torch

    for i, p in enumerate(parameters):
        if p.is_cpu and p.dtype is torch.float32 and p.layout is torch.strided and type(p) in (torch.nn.Parameter, torch.Tensor):
            continue
        _check_parameter(p, f"parameter {i} of {len(parameters)}")
    count = sum(int(p.numel()) for p in parameters)
    if count > MAX_PARAMETERS:
        raise ParameterError(f"the optimizer must have at most {MAX_PARAMETERS} numbers in its parameters, got {count}")
    return count


def _check_parameter(p: Tensor, where: str) -> None:
    import torch
    from torch.distributed.tensor import DTensor

    if isinstance(p, DTensor):
        raise ParameterError(f"{where} is a DTensor; dpcore serves parameters that are whole on one machine")
    if p.device.type != "cpu":
        raise ParameterError(f"{where} is on {p.device}; dpcore serves the CPU, so move the model with .cpu() or leave this run to Opacus")
    if p.layout != torch.strided:
        raise ParameterError(f"{where} has the layout {p.layout}; dpcore serves dense parameters")
    if p.dtype != torch.float32:
        raise ParameterError(f"{where} has the dtype {p.dtype}; dpcore serves torch.float32, so convert the model with .float()")


def check_radius(radius: float) -> float:
    """Return a clipping bound, if it is one for which the bound on the error is proved."""
    radius = float(radius)
    if not RADII[0] <= radius <= RADII[1]:
        raise ParameterError(f"max_grad_norm must be in [2^-30, 2^100], got {radius!r}")
    return radius


def check_precision() -> None:
    """Raise if torch may multiply in fewer bits than float32 has."""
    import torch

    precision = torch.backends.mkldnn.matmul.fp32_precision
    for name in ("ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE"):
        if (mode := os.environ.get(name, "").lower()) not in ("", "strict"):
            raise ParameterError(
                f"{name}={mode} lets oneDNN multiply float32 matrices in fewer bits, for which no bound is proved; unset it "
                "before Python starts"
            )
    if precision not in ("none", "ieee"):
        raise ParameterError(
            f"torch multiplies float32 matrices in {precision}, for which no bound is proved; call "
            "torch.set_float32_matmul_precision('highest')"
        )


def rows_of(gradients: Tensor) -> Tensor:
    """The gradient of each sample as a contiguous row in float32. Gradients of half the width are widened, which is exact.

    torch adds the squares of a contiguous row in an order that depends on its length alone, so that no sample changes the rounding of
    another one's norm. In another layout the order depends on the number of rows.
    """
    return gradients.reshape(gradients.shape[0], gradients.shape[1:].numel()).float().contiguous()


def block_norms(rows: Tensor) -> list[Tensor]:
    """The ℓ2 norms of up to 4,096 numbers of each row at a time, in float32. Each has a shape (samples, blocks)."""
    import torch

    columns = rows.shape[1]
    whole = columns // COLUMNS * COLUMNS
    parts = [torch.linalg.vector_norm(rows[:, :whole].unflatten(1, (-1, COLUMNS)), dim=-1)] if whole else []
    if not parts or whole < columns:
        parts.append(torch.linalg.vector_norm(rows[:, whole:], dim=-1, keepdim=True))
    return parts


def joined(parts: list[Tensor]) -> Tensor:
    """The ℓ2 norm of each sample's gradient, in float64, from the norms of its blocks."""
    import torch

    return torch.linalg.vector_norm(torch.cat(parts, dim=1).double(), dim=-1)


def factors(norm: Tensor, radius: float) -> Tensor:
    """What each gradient is multiplied with, in float32: min(1, radius/(norm + 10^-6)), as in Opacus."""
    return (radius / (norm + 1e-6)).clamp_(max=1.0).float()


def add_clipped(before: Tensor | None, factor: Tensor, rows: Tensor, shape: torch.Size) -> Tensor:
    """The sum before plus Σ factor·row. Batches of one step are added in float64, which is kept beside the rounded sum."""
    batch = _pairwise(factor, rows).view(shape)
    if before is None:
        return batch
    kept: Any = getattr(before, "_dpcore_sum", None)
    total = (before.double() if kept is None else kept).add_(batch)
    rounded: Any = total.float()
    rounded._dpcore_sum = total
    return rounded


def _pairwise(factor: Tensor, rows: Tensor) -> Tensor:
    """Σ factor·row, 64 of them in any order, and such sums in pairs: no term goes through more than 64 + ⌈log2⌈n/64⌉⌉ roundings."""
    samples = rows.shape[0]
    if samples <= ROWS:
        return factor @ rows
    half = ROWS << ((samples - 1) // ROWS).bit_length() - 1
    return _pairwise(factor[:half], rows[:half]).add_(_pairwise(factor[half:], rows[half:]))
