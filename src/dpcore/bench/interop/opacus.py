"""A step of training with Opacus, and the noise of a step alone, with dpcore beneath and without."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from itertools import pairwise
from typing import Any

from dpcore.bench.benchmark import Benchmark, Plan, Side, Work
from dpcore.interop import opacus

LARGE = 3_162
"""Inputs and outputs of a layer with 10^7 weights."""
MODELS = {"784-128-10, batch of 64": (784, 128, 64), "784-1250-10, batch of 64": (784, 1_250, 64)}
MULTIPLIER = 1.0
STEP = "_dpcore_step"
"""Where dpcore keeps what belongs to a sum without noise; `add_noise` removes it."""


def training(layers: tuple[int, ...], batch: int, *, served: bool) -> tuple[Any, Any, Any, Any]:
    """A model, its private optimizer, and a batch of inputs and labels.

    Parameters
    ----------
    layers : tuple of int
        Numbers of inputs and outputs.
    batch : int
        Samples.
    served : bool
        Whether dpcore makes sums and noise.
    """
    torch, data = import_module("torch"), import_module("torch.utils.data")
    blocks: list[Any] = []
    for inputs, outputs in pairwise(layers):
        blocks += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    model = torch.nn.Sequential(*blocks[:-1])
    records = torch.rand(batch, layers[0]), torch.randint(0, layers[-1], (batch,))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that torchcsprng is not in use
        engine = import_module("opacus").PrivacyEngine()
    model, optimizer, _ = (opacus.secure(engine) if served else engine).make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), noise_multiplier=MULTIPLIER, max_grad_norm=1.0,
        data_loader=data.DataLoader(data.TensorDataset(*records), batch_size=batch), poisson_sampling=False,
    )  # fmt: skip
    return model, optimizer, *records


def _backward(made: tuple[Any, Any, Any, Any]) -> Any:
    model, optimizer, inputs, labels = made
    optimizer.zero_grad()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that inputs have no gradients
        import_module("torch").nn.functional.cross_entropy(model(inputs), labels).backward()
    return optimizer


def _steps(_inputs: object, *, layers: tuple[int, ...], batch: int, served: bool) -> Work:
    made = training(layers, batch, served=served)

    def step() -> Any:
        optimizer = _backward(made)
        optimizer.step()
        return optimizer

    return step


def _noise(_inputs: object, *, served: bool) -> Work:
    optimizer = _backward(training((LARGE, LARGE), 1, served=served))
    optimizer.clip_and_accumulate()
    clipped = getattr(optimizer, STEP, None)

    def add_noise() -> Any:
        setattr(optimizer, STEP, clipped)
        for p in optimizer.params:
            p.summed_grad = p.summed_grad.detach()  # without the mark that it has had its noise
        optimizer.add_noise()
        return optimizer

    return add_noise


def _check_noise(_inputs: object, optimizer: Any) -> None:
    spread = float(optimizer.params[0].grad.double().std())
    # dpcore adds to the sum that it was given, so that calls add up
    if not spread >= 0.9 * MULTIPLIER:
        raise AssertionError(f"the noise of Opacus has a standard deviation of {spread}")


def _check_step(_inputs: object, optimizer: Any) -> None:
    if not all(bool(p.isfinite().all()) and bool(p.grad.any()) for p in optimizer.params):
        raise AssertionError("a parameter is not finite, or has no gradient")


def _benchmark(name: str, size: int, unit: str, prepare: Callable[..., Work], check: Callable[[Any, Any], None]) -> Benchmark:
    native = Side(name="Opacus' own", prepare=partial(prepare, served=False), package="opacus", check=check)
    return Benchmark(
        group="interop", name=f"Opacus: {name}", size=size, unit=unit, inputs=dict, ours=partial(prepare, served=True), sides=(native,),
        check=check, package="opacus", character="whole" if unit == "step" else "memory",
    )  # fmt: skip


def benchmarks(_plan: Plan) -> Iterator[Benchmark]:
    """The noise of 10^7 parameters, and steps of two models.

    Parameters
    ----------
    _plan : Plan
        Not used.
    """
    yield _benchmark("noise of a step", LARGE * LARGE + LARGE, "value", _noise, _check_noise)
    for name, (inputs, hidden, batch) in MODELS.items():
        yield _benchmark(f"step of {name}", 1, "step", partial(_steps, layers=(inputs, hidden, 10), batch=batch), _check_step)
