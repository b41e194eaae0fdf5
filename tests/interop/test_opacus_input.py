"""dpcore.interop.opacus with input that does not fit, which it refuses in words before any noise is drawn."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("opacus", reason="make test-interop PEER=opacus")

import torch
from opacus import optimizers

from dpcore.errors import DataError, ParameterError
from dpcore.interop import opacus
from support.opacus_steps import KINDS, optimizer_with


@pytest.fixture(autouse=True)
def restored():
    """Opacus without dpcore after every test."""
    yield
    opacus.uninstall()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_that_are_not_finite_are_named_by_their_parameter(bad, kind, monkeypatch):
    each = [torch.ones(8, 3, 2), torch.ones(8, 5)]
    each[1][2, 3] = bad
    monkeypatch.setattr("dpcore.noise.gaussian", lambda *_a, **_k: pytest.fail("noise was drawn"))
    with opacus.install():
        optimizer, parameters = optimizer_with(each, kind=kind)
        with pytest.raises(DataError, match="has NaN or infinity") as caught:
            optimizer.step()
    message = str(caught.value)
    assert "of 2, shape (" in message
    if kind == "per_layer":
        assert "parameter 1 of 2, shape (5,)" in message
    assert "inf" not in message.replace("infinity", "")
    assert all(p.grad is None for p in parameters)


def test_a_gradient_whose_square_overflows_is_left_out():
    each = torch.zeros(8, 4)
    each[0] = 3e38
    with opacus.install():
        optimizer, (p,) = optimizer_with([each], noise=1e-6)
        optimizer.step()
    assert float(p.grad.abs().max()) < 1e-3


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_other_dtypes_are_refused_in_words(dtype):
    p = torch.nn.Parameter(torch.zeros(3, dtype=dtype))
    p.grad_sample = torch.ones(8, 3, dtype=dtype)
    optimizer = optimizers.DPOptimizer(torch.optim.SGD([p], lr=1.0), noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=8)
    with opacus.install(), pytest.raises(ParameterError, match=rf"parameter 0 of 1 has the dtype {dtype}.*\.float\(\)"):
        optimizer.step()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gradients_of_half_the_width_are_widened(dtype):
    each = torch.full((8, 4), 0.25, dtype=dtype)
    with opacus.install():
        optimizer, (p,) = optimizer_with([each], noise=1e-6)
        optimizer.step()
    assert torch.allclose(p.grad, torch.full((4,), 2.0), atol=1e-3)


def test_other_devices_and_layouts_are_refused_in_words():
    elsewhere = torch.nn.Parameter(torch.zeros(3, device="meta"))  # stands for a GPU
    sparse = torch.nn.Parameter(torch.zeros(3).to_sparse())
    for p, words in ((elsewhere, "is on meta"), (sparse, "has the layout torch.sparse_coo")):
        optimizer, _ = optimizer_with([torch.ones(8, 3)])
        optimizer.original_optimizer.param_groups[0]["params"] = [p]
        p.grad_sample, p.summed_grad = torch.ones(8, 3), None
        with opacus.install(), pytest.raises(ParameterError, match=words):
            optimizer.step()


@pytest.mark.parametrize("options", [{"radius": 0.0}, {"radius": 2.0**-31}, {"radius": float("inf")}, {"radius": float("nan")},
                                     {"noise": -1.0}, {"noise": float("nan")}, {"noise": float("inf")}])  # fmt: skip
def test_bounds_and_multipliers_out_of_range(options):
    optimizer, (p,) = optimizer_with([torch.ones(8, 3)], **options)
    with opacus.install(), pytest.raises(ParameterError, match=r"max_grad_norm|noise_multiplier"):
        optimizer.step()
    assert p.grad is None


def test_larger_steps_than_declared_are_refused_without_their_size():
    with opacus.install(max_samples=8):
        optimizer, (p,) = optimizer_with([torch.ones(9, 3)])
        with pytest.raises(ParameterError, match="than the 8 that") as caught:
            optimizer.step()
    assert "9" not in str(caught.value)
    assert p.summed_grad is None
    with opacus.install():
        optimizer, _ = optimizer_with([torch.ones(200, 3)], expected=1)
        with pytest.raises(ParameterError, match="max_samples="):
            optimizer.step()


def test_an_optimizer_without_an_expected_size_needs_one():
    optimizer, _ = optimizer_with([torch.ones(8, 3)])
    optimizer.expected_batch_size = None
    with opacus.install(), pytest.raises(ParameterError, match="max_samples="):
        optimizer.step()
    with opacus.install(max_samples=8):
        optimizer.step()


def test_reduced_precision_is_refused():
    optimizer, _ = optimizer_with([torch.ones(8, 3)])
    torch.set_float32_matmul_precision("medium")
    try:
        with opacus.install(), pytest.raises(ParameterError, match="highest"):
            optimizer.step()
    finally:
        torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("name", ["ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE"])
def test_reduced_precision_of_the_environment_is_refused(name, monkeypatch):
    optimizer, _ = optimizer_with([torch.ones(8, 3)])
    monkeypatch.setenv(name, "BF16")
    with opacus.install(), pytest.raises(ParameterError, match=f"{name}=bf16.*unset it"):
        optimizer.step()
    monkeypatch.setenv(name, "STRICT")
    with opacus.install():
        optimizer.step()


@pytest.mark.parametrize("setting", ["torch.backends", "torch.backends.mkldnn", "torch.backends.mkldnn.matmul"])
def test_each_setting_that_reduces_precision_is_seen(setting):
    code = f"""
import torch; {setting}.fp32_precision = "tf32" if "{setting}" == "torch.backends" else "bf16"
from dpcore.interop.opacus import _clipping; _clipping.check_precision()"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "torch multiplies float32 matrices in" in found.stderr


def test_autocast_around_a_step_changes_nothing():
    with opacus.install():
        optimizer, (p,) = optimizer_with([torch.full((8, 3), 0.3)], noise=1e-6)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            optimizer.step()
    assert torch.allclose(p.grad, torch.full((3,), 2.4), atol=1e-4)


def test_gradients_in_another_order_of_memory():
    with opacus.install():
        optimizer, (p,) = optimizer_with([torch.randn(4, 3, 8).permute(2, 1, 0)], noise=1e-6)
        expected = p.grad_sample.sum(0) * 0
        norm = p.grad_sample.flatten(1).norm(dim=1)
        for factor, each in zip((1 / norm).clamp(max=1), p.grad_sample, strict=True):
            expected += factor * each
        optimizer.step()
    assert torch.allclose(p.grad, expected, atol=1e-4)
