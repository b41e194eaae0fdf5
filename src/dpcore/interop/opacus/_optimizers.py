"""Methods that replace those of Opacus' optimizers."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from dpcore import noise
from dpcore._dataclasses import dataclass
from dpcore._validation import check_positive
from dpcore.errors import DataError, ParameterError
from dpcore.interop._seeds import stream_of
from dpcore.interop.opacus._bounds import inflation, root_up, samples_limit
from dpcore.interop.opacus._clipping import (
    Step,
    add_clipped,
    block_norms,
    check_parameters,
    check_precision,
    check_radius,
    factors,
    joined,
    rows_of,
)
from dpcore.rng import Stream

Optimizer: TypeAlias = Any
"""A DPOptimizer; Opacus publishes no types."""
Method: TypeAlias = Callable[..., Any]
SMALL = 4096
"""Numbers of a parameter that gets its noise together with others."""


@dataclass(frozen=True, slots=True)
class Options:
    """How sums are made and how much noise they get.

    Attributes
    ----------
    sensitivity : {"proved", "nominal"}
        Whether dpcore clips, and adds noise for the proved bound, or Opacus clips, and its clipping bound is believed.
    max_samples : int or None
        Largest number of samples of a step; None derives it from the expected batch size.
    """

    sensitivity: Literal["proved", "nominal"]
    max_samples: int | None


def ours(native: Method, new: Method) -> Method:
    """Mark a method as one of dpcore, and keep the method that it replaces."""
    new.native = native  # type: ignore[attr-defined]
    new.__name__ = native.__name__
    new.__qualname__ = native.__qualname__
    new.__doc__ = native.__doc__
    return new


def native_of(method: Method) -> Method:
    """The method of Opacus, whether it is replaced or not."""
    return getattr(method, "native", method)


def replaced(options: Options) -> Iterator[tuple[type, str, Method]]:
    """Every method that is replaced: its class, its name, and what takes its place."""
    from opacus import optimizers
    from opacus.optimizers.ddp_perlayeroptimizer import DistributedPerLayerOptimizer

    flat, per_layer, adaptive = optimizers.DPOptimizer, optimizers.DPPerLayerOptimizer, optimizers.AdaClipDPOptimizer
    ghost, sharded = optimizers.DPOptimizerFastGradientClipping, optimizers.FSDPOptimizerFastGradientClipping
    for owner in (flat, ghost):
        yield owner, "pre_step", checked(options, native_of(owner.pre_step))
    for owner in (flat, per_layer, adaptive):
        yield owner, "clip_and_accumulate", clipping(options, native_of(owner.clip_and_accumulate))
    for owner in (flat, adaptive, ghost):
        yield owner, "add_noise", noising(options, native_of(owner.add_noise))
    for owner in (optimizers.DistributedDPOptimizer, optimizers.DistributedDPOptimizerFastGradientClipping, sharded):
        yield owner, "add_noise", refusing(native_of(owner.add_noise))
    yield DistributedPerLayerOptimizer, "_add_noise_parameter", refusing(native_of(DistributedPerLayerOptimizer._add_noise_parameter))


# What is served


def refusing(native: Method) -> Method:
    """Refuse: other machines' gradients would be added to the noisy sum in float32, or the class draws from a source of its own."""

    def add_noise(self: Optimizer, *args: Any) -> Any:
        if self.noise_multiplier == 0:
            return native(self, *args)
        raise _refusal(self)

    refused = ours(native, add_noise)
    refused.refuses = True  # type: ignore[attr-defined]
    return refused


def _refusal(optimizer: Optimizer) -> ParameterError:
    return ParameterError(
        f"{type(optimizer).__name__} is not served by dpcore: it adds gradients of other processes to noisy ones in float32; "
        "docs/interop/opacus.md lists what is served"
    )


def check_served(optimizer: Optimizer, options: Options) -> None:
    """Raise unless sum and noise of this optimizer are those of dpcore."""
    kind = type(optimizer)
    if optimizer.noise_multiplier == 0:
        return
    wanted = ("add_noise",) if options.sensitivity == "nominal" else ("clip_and_accumulate", "add_noise")
    for name in wanted:
        method = getattr(optimizer, name)
        if getattr(method, "refuses", False):
            raise _refusal(optimizer)
        if hasattr(method, "native"):
            continue
        if kind.__name__ == "DPOptimizerFastGradientClipping":
            raise ParameterError(
                "DPOptimizerFastGradientClipping clips inside the backward pass, where no bound on rounding is proved; use "
                "grad_sample_mode='hooks', or sensitivity='nominal' to believe its clipping bound"
            )
        raise ParameterError(f"{kind.__name__}.{name} is not Opacus' own, and dpcore cannot serve it; use one of Opacus' optimizers")
    if "_adjusted_noise_multiplier" in vars(optimizer):
        raise ParameterError(
            "adaptive clipping inside the backward pass is not served: its count of unclipped gradients gets noise of torch.normal; use "
            "clipping='adaptive' with grad_sample_mode='hooks'"
        )


def checked(options: Options, native: Method) -> Method:
    """The step, after a look at whose methods it will call."""

    def pre_step(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        check_served(self, options)
        return native(self, *args, **kwargs)

    return ours(native, pre_step)


# Clipping


def clipping(options: Options, native: Method) -> Method:
    """Clip and add in a way whose rounding errors are bounded."""

    def clip_and_accumulate(self: Optimizer) -> None:
        if options.sensitivity == "nominal" or self.noise_multiplier == 0:
            native(self)
        else:
            _clip(self, options)

    return ours(native, clip_and_accumulate)


def _clip(optimizer: Optimizer, options: Options) -> None:
    import torch
    from opacus.optimizers.optimizer import _check_processed_flag, _mark_as_processed

    parameters = optimizer.params
    count = check_parameters(parameters)
    check_precision()
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        radii, factor, finite = _factors(optimizer, parameters)
        _note(optimizer, parameters, Step(factor[0].shape[0], radii, count, finite), options)
        for p, own in zip(parameters, factor, strict=True):
            _check_processed_flag(p.grad_sample)
            p.summed_grad = add_clipped(p.summed_grad, own, rows_of(optimizer._get_flat_grad_sample(p)), p.shape)
            _mark_as_processed(p.grad_sample)


def _factors(optimizer: Optimizer, parameters: list[Any]) -> tuple[tuple[float, ...], list[Any], bool]:
    """The clipping bounds, what each parameter's gradients are multiplied with, and whether all gradients are known to be finite."""
    parts = [block_norms(rows_of(optimizer._get_flat_grad_sample(p))) for p in parameters]
    if (given := getattr(optimizer, "max_grad_norms", None)) is not None:
        radii = tuple(check_radius(radius) for radius in given)
        each = [joined(own) for own in parts]
        finite = all(math.isfinite(float(norm.sum())) for norm in each)
        return radii, [factors(norm, radius) for norm, radius in zip(each, radii, strict=True)], finite
    radius = check_radius(optimizer.max_grad_norm)
    norm = joined([part for own in parts for part in own])
    common = factors(norm, radius)
    if hasattr(optimizer, "unclipped_num"):  # of adaptive clipping
        optimizer.sample_size += common.shape[0]
        optimizer.unclipped_num += (common >= 1).sum()
    return (radius,), [common] * len(parts), math.isfinite(float(norm.sum()))


def _note(optimizer: Optimizer, parameters: list[Any], batch: Step, options: Options) -> None:
    """Add a batch to what is known of the step. A batch that is too large is refused before it is added."""
    before = getattr(optimizer, "_dpcore_step", None)
    if before is not None and parameters[0].summed_grad is not None:
        radii = tuple(map(max, batch.radii, before.radii))  # a scheduler may change them in the middle of a step
        batch = Step(before.samples + batch.samples, radii, batch.parameters, batch.finite and before.finite)
    limit = _limit(optimizer, options)
    if batch.samples > limit:
        raise ParameterError(f"the step has more samples than the {limit} that its noise was made for; pass max_samples= to dpcore")
    optimizer._dpcore_step = batch


def _limit(optimizer: Optimizer, options: Options) -> int:
    if options.max_samples is not None:
        return options.max_samples
    if optimizer.expected_batch_size is None:
        raise ParameterError("an optimizer without expected_batch_size needs max_samples=, the largest number of samples of a step")
    return samples_limit(float(optimizer.expected_batch_size), optimizer.accumulated_iterations)


# Noise


def noising(options: Options, native: Method) -> Method:
    """Add exact Gaussian noise to the sums."""

    def add_noise(self: Optimizer) -> None:
        if self.noise_multiplier == 0:  # without noise, the sums are those of Opacus
            native(self)
            return
        check_served(self, options)
        _add_noise(self, options)

    return ours(native, add_noise)


def _add_noise(optimizer: Optimizer, options: Options) -> None:
    from opacus.optimizers.optimizer import _check_processed_flag, _mark_as_processed

    parameters = optimizer.params
    scale = noise_scale(optimizer, options)
    for p in parameters:
        _check_processed_flag(p.summed_grad)
    step = getattr(optimizer, "_dpcore_step", None)
    if step is None or not step.finite:
        _check_finite(parameters)
    rng = _stream(optimizer)
    for values in _arrays(parameters):
        noise.gaussian(values, scale, rng=rng, out=values)
    for p in parameters:
        p.grad = p.summed_grad.view_as(p)
        _mark_as_processed(p.summed_grad)
    optimizer._dpcore_step = None
    if hasattr(optimizer, "unclipped_num"):
        _count_with_noise(optimizer, rng)


def _arrays(parameters: list[Any]) -> Iterator[Any]:
    """Arrays over the memory of the sums: one for each that is large, and one for the others, as a call takes longer than their noise.

    Noise takes the place of the sums: they are not needed again, and new memory would cost as much time as the noise.
    """
    import torch

    small = [p for p in parameters if p.numel() <= SMALL]
    if small:
        joint = torch.cat([p.summed_grad.detach().flatten() for p in small])
        for p, part in zip(small, joint.split([p.numel() for p in small]), strict=True):
            p.summed_grad = part.view(p.shape)
        yield joint.numpy()
    for p in parameters:
        if p.numel() > SMALL:
            p.summed_grad = p.summed_grad.detach().contiguous()
            yield p.summed_grad.numpy()


def noise_scale(optimizer: Optimizer, options: Options) -> float:
    """The standard deviation: multiplier × clipping bound × inflation, rounded up."""
    multiplier = check_positive("noise_multiplier", optimizer.noise_multiplier)
    count = check_positive("unclipped_num_std", optimizer.unclipped_num_std) if hasattr(optimizer, "unclipped_num") else None
    if options.sensitivity == "nominal":
        check_parameters(optimizer.params)
        radii = getattr(optimizer, "max_grad_norms", None) or [optimizer.max_grad_norm]
        return _scale(multiplier, count, tuple(map(check_radius, radii)), None)
    step = getattr(optimizer, "_dpcore_step", None)
    if step is None:
        raise ParameterError("these gradients were not clipped by dpcore; install before the first backward pass of a step")
    return _scale(multiplier, count, step.radii, (step.parameters, _limit(optimizer, options)))


@lru_cache(maxsize=256)
def _scale(multiplier: float, count: float | None, radii: tuple[float, ...], sizes: tuple[int, int] | None) -> float:
    """Where a count with noise σ_u is released as well, 1/(σ^-2 − (2σ_u)^-2) takes the place of σ² (Andrew et al., 2021, Theorem 1)."""
    square = Fraction(multiplier) ** 2
    if count is not None:
        square = 1 / (1 / square - 1 / (2 * Fraction(count)) ** 2)
    factor = 1 if sizes is None else inflation(*sizes)
    return root_up(square * factor**2 * sum(Fraction(radius) ** 2 for radius in radii))


def _check_finite(parameters: list[Any]) -> None:
    """Raise if a sum has a number that is not finite, before any noise is drawn."""
    for i, p in enumerate(parameters):
        # a finite sum shows that all numbers are; a sum may overflow, though, where no number is infinite
        if not bool(p.summed_grad.sum().isfinite()) and not bool(p.summed_grad.isfinite().all()):
            raise DataError(
                f"the gradient of parameter {i} of {len(parameters)}, shape {tuple(p.shape)}, has NaN or infinity; no noise was drawn, and "
                "no parameter has changed"
            )


def _stream(optimizer: Optimizer) -> Stream | None:
    """The operating system's randomness, or a stream under a key that the optimizer's generator gives."""
    generator = optimizer.generator
    if generator is None or optimizer.secure_mode:  # torchcsprng's generator is replaced by the system's
        return None
    import torch

    warnings.warn("noise of a torch.Generator is reproducible and not private: do not use it in production", UserWarning, stacklevel=2)
    drawn = torch.randint(0, 256, (32,), dtype=torch.uint8, generator=generator, device=generator.device)
    return stream_of(bytes(drawn.tolist()))


def _count_with_noise(optimizer: Optimizer, rng: Stream | None) -> None:
    import torch

    std = check_positive("unclipped_num_std", optimizer.unclipped_num_std)
    optimizer.unclipped_num = torch.tensor(noise.gaussian(int(optimizer.unclipped_num), std, rng=rng), dtype=torch.float32)
