"""dpcore.interop.opacus: what is served and what is refused, installing and restoring, seeds, and input that does not fit."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys
import threading
import warnings
from fractions import Fraction

import pytest

pytest.importorskip("opacus", reason="make test-interop PEER=opacus")

import opacus as peer
import torch
from opacus import optimizers
from opacus.optimizers.ddp_perlayeroptimizer import DistributedPerLayerOptimizer
from opacus.utils.adaptive_clipping.adaptive_clipping_utils import PrivacyEngineAdaptiveClipping
from opacus.utils.batch_memory_manager import BatchMemoryManager

from dpcore._extras import BELOW, install
from dpcore.errors import ForeignPatchError, ParameterError, ParameterTypeError, UntestedVersionWarning
from dpcore.interop import opacus
from support.opacus_steps import KINDS, engine, optimizer_with, private, step

pytestmark = [pytest.mark.filterwarnings("ignore:Full backward hook"), pytest.mark.filterwarnings("ignore:Secure RNG turned off")]
ONES = (torch.ones(8, 3),)
REPLACED = [
    (optimizers.DPOptimizer, "pre_step"), (optimizers.DPOptimizer, "clip_and_accumulate"), (optimizers.DPOptimizer, "add_noise"),
    (optimizers.DPPerLayerOptimizer, "clip_and_accumulate"), (optimizers.AdaClipDPOptimizer, "clip_and_accumulate"),
    (optimizers.AdaClipDPOptimizer, "add_noise"), (optimizers.DPOptimizerFastGradientClipping, "pre_step"),
    (optimizers.DPOptimizerFastGradientClipping, "add_noise"), (optimizers.DistributedDPOptimizer, "add_noise"),
    (optimizers.DistributedDPOptimizerFastGradientClipping, "add_noise"), (optimizers.FSDPOptimizerFastGradientClipping, "add_noise"),
    (DistributedPerLayerOptimizer, "_add_noise_parameter"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def restored():
    """Opacus as it was after every test."""
    before = [vars(owner)[name] for owner, name in REPLACED]
    yield
    opacus.uninstall()
    assert all(vars(owner)[name] is method for (owner, name), method in zip(REPLACED, before, strict=True))


@pytest.fixture
def one_process():
    """A group of one process, for the classes that ask for their rank."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def linear():
    return torch.nn.Linear(3, 2)


# Installing


def test_install_replaces_every_method_that_draws_and_uninstall_restores_it():
    before = {(owner, name): vars(owner)[name] for owner, name in REPLACED}
    drawing = {owner for owner in vars(optimizers).values() if isinstance(owner, type) and "add_noise" in vars(owner)}
    assert drawing <= {owner for owner, name in REPLACED if name == "add_noise"}, "a class of Opacus draws and is not known"
    with opacus.install():
        assert all(vars(owner)[name] is not method for (owner, name), method in before.items())
        assert optimizers.DPOptimizer.add_noise.__doc__ == before[optimizers.DPOptimizer, "add_noise"].__doc__
    assert all(vars(owner)[name] is method for (owner, name), method in before.items())


def test_twice_with_the_same_options_and_with_others():
    opacus.install(max_samples=64)
    opacus.install(max_samples=64)
    with pytest.raises(ParameterError, match="call uninstall"):
        opacus.install(max_samples=65)
    opacus.uninstall()
    opacus.uninstall()


def test_two_threads_install_once():
    barrier, errors = threading.Barrier(2), []

    def work():
        try:
            barrier.wait()
            for _ in range(50):
                opacus.install()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


@pytest.mark.parametrize("first", ["import opacus", "import torch", "pass"])
def test_installing_inside_the_import_of_another_library(first, tmp_path):
    (tmp_path / "library.py").write_text("from dpcore.interop import opacus\nopacus.install()\n")
    code = f"""
{first}
import library
from opacus.optimizers import DPOptimizer
print(hasattr(DPOptimizer.add_noise, "native"))"""
    found = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert found.stdout == "True\n"


def test_installing_inside_the_import_of_opacus_is_refused(tmp_path):
    code = """
import sys, importlib.abc
class Hook(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "opacus.privacy_engine":
            from dpcore.interop import opacus
            opacus.install()
sys.meta_path.insert(0, Hook())
import opacus"""
    found = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    assert "ParameterError: opacus is still being imported" in found.stderr


def test_what_another_library_has_replaced_is_left_alone(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(optimizers.DPOptimizer, "add_noise", lambda _self: None)
        with pytest.raises(ForeignPatchError, match=r"DPOptimizer\.add_noise"):
            opacus.install()
        assert not hasattr(optimizers.DPOptimizer.clip_and_accumulate, "native")
    opacus.install()
    with monkeypatch.context() as patch:
        patch.setattr(optimizers.AdaClipDPOptimizer, "add_noise", lambda _self: None)
        with pytest.raises(ForeignPatchError, match=r"AdaClipDPOptimizer\.add_noise"):
            opacus.uninstall()


def test_an_untested_version_warns(monkeypatch):
    monkeypatch.setattr("importlib.metadata.version", lambda _name: "9.0.0")
    with pytest.warns(UntestedVersionWarning, match=r"opacus 9\.0\.0"):
        opacus.install()


def test_without_opacus_the_message_has_the_pip_line():
    code = "import sys; sys.modules['opacus'] = None\nfrom dpcore.interop import opacus\nopacus.install()"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ModuleNotFoundError" in found.stderr
    assert install("peer-opacus", gap=BELOW) in found.stderr


def test_importing_changes_nothing_and_imports_no_torch():
    code = "import sys; from dpcore.interop import opacus; opacus.sensitivity_factor(10, 10); sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("options", "error"),
    [({"sensitivity": "exact"}, ParameterError), ({"max_samples": 0}, ParameterError), ({"max_samples": 2.0}, ParameterTypeError),
     ({"max_samples": True}, ParameterTypeError), ({"max_samples": 2**24 + 1}, ParameterError)],
)  # fmt: skip
def test_options_out_of_range(options, error):
    with pytest.raises(error):
        opacus.install(**options)
    with pytest.raises(error):
        opacus.secure(engine(), **options)


# One engine


def test_secure_serves_the_optimizers_of_one_engine_alone():
    secured, other = opacus.secure(engine()), engine()
    assert opacus.secure(secured) is secured
    _, ours, _ = private(linear(), ONES, by=secured)
    _, native, _ = private(linear(), ONES, by=other)
    assert hasattr(ours.add_noise, "native")
    assert not hasattr(native.add_noise, "native")
    assert isinstance(ours, optimizers.DPOptimizer)
    with opacus.install(sensitivity="nominal"):  # does not change what the engine was told
        model, optimizer, loader = private(linear(), ONES, by=opacus.secure(engine()))
        step(model, optimizer, loader)
        assert optimizer._dpcore_step is None, "clipped by dpcore"


def test_secure_takes_engines_only():
    with pytest.raises(ParameterTypeError, match=r"opacus\.PrivacyEngine"):
        opacus.secure(object())
    secret = engine()
    secret.secure_mode = True
    with pytest.raises(ParameterError, match="secure_mode=False"):
        opacus.secure(secret)


def test_secure_refuses_at_make_private_what_is_not_served():
    ghost = {"grad_sample_mode": "ghost", "criterion": torch.nn.CrossEntropyLoss(reduction="sum")}
    with pytest.raises(ParameterError, match="inside the backward pass"):
        private(linear(), ONES, by=opacus.secure(engine()), **ghost)
    _, optimizer, *_ = private(linear(), ONES, by=opacus.secure(engine(), sensitivity="nominal"), **ghost)
    assert hasattr(optimizer.add_noise, "native")


# Optimizers


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_of_each_kind(kind):
    with opacus.install():
        optimizer, parameters = optimizer_with([torch.ones(8, 3, 2), torch.ones(8, 5)], kind=kind, expected=8)
        optimizer.step()
    for p in parameters:
        assert p.grad.shape == p.shape
        assert p.grad.isfinite().all()
        assert torch.equal(p.detach(), -p.grad)


@pytest.mark.parametrize("mode", ["hooks", "functorch", "ew"])
def test_each_way_to_make_gradients_of_samples(mode):
    with opacus.install():
        model, optimizer, loader = private(linear(), ONES, grad_sample_mode=mode)
        step(model, optimizer, loader)


def test_virtual_steps_have_one_noise():
    with opacus.install():
        model, optimizer, loader = private(linear(), (torch.ones(64, 3), torch.zeros(64)), batch=32, noise=1e-6, radius=1e-3)
        with BatchMemoryManager(data_loader=loader, max_physical_batch_size=5, optimizer=optimizer) as parts:
            sizes, sums = [], []
            for inputs, _ in parts:
                model(inputs).sum().backward()
                optimizer.step()
                sizes.append(len(inputs))
                sums.append(optimizer._dpcore_step)
                released = next(model.parameters()).grad.clone()
                optimizer.zero_grad()
    assert max(sizes) <= 5
    assert sizes[:7] == [5, 5, 5, 5, 4, 4, 4]
    assert [each.samples if each else None for each in sums[:8]] == [5, 10, 15, 20, 24, 28, None, 5]
    assert torch.allclose(released, torch.full((2, 3), 32e-3 / 8**0.5), atol=1e-5)  # the last step's, with noise


def test_gradients_accumulate_over_batches_without_poisson_sampling():
    with opacus.install():
        model, optimizer, _ = private(linear(), ONES, noise=1e-6)
        for _ in range(3):
            model(torch.ones(8, 3)).sum().backward()
        optimizer.step()
    # the gradient of weights and bias is (1, 1, 1, 1) for each of two outputs, and clipped to length 1
    assert torch.allclose(next(model.parameters()).grad, torch.full((2, 3), 24 / 8**0.5), atol=1e-3)


def test_without_noise_everything_is_opacus_own():
    each = [torch.randn(100, 5, 4)]
    native, (expected,) = optimizer_with([each[0].clone()], noise=0.0)
    native.step()
    with opacus.install():
        ours, (p,) = optimizer_with([each[0].clone()], noise=0.0)
        ours.step()
    assert torch.equal(p.grad, expected.grad)


def test_the_sum_without_noise_does_not_stay():
    with opacus.install():
        optimizer, (p,) = optimizer_with([torch.ones(200, 4)])
        optimizer.step()
    assert torch.equal(p.summed_grad, p.grad)
    assert not hasattr(p.summed_grad, "_dpcore_sum")
    with pytest.raises(ValueError, match="zero_grad"), opacus.install():
        optimizer.step()


def test_adaptive_clipping_moves_its_bound_by_a_noisy_count():
    with opacus.install():
        optimizer, _ = optimizer_with([torch.ones(8, 3)], kind="adaptive")
        optimizer.step()
        assert float(optimizer.max_grad_norm) != 1.0
        assert float(optimizer.unclipped_num) != 0.0
        assert optimizer.sample_size == 8


def test_ghost_clipping_needs_to_be_believed():
    records = torch.ones(8, 3), torch.zeros(8, dtype=torch.long)

    def train():
        criterion = torch.nn.CrossEntropyLoss(reduction="sum")
        model, optimizer, criterion, loader = private(linear(), records, grad_sample_mode="ghost", criterion=criterion)
        inputs, labels = next(iter(loader))
        criterion(model(inputs), labels).backward()
        optimizer.step()

    with opacus.install(), pytest.raises(ParameterError, match="sensitivity='nominal'"):
        train()
    with opacus.install(sensitivity="nominal"):
        train()


def test_adaptive_ghost_clipping_is_refused():
    large = torch.ones(64, 3), torch.zeros(64, dtype=torch.long)
    with opacus.install(sensitivity="nominal"):
        model, optimizer, criterion, loader = private(
            linear(), large, batch=64, by=PrivacyEngineAdaptiveClipping(), grad_sample_mode="ghost",
            criterion=torch.nn.CrossEntropyLoss(reduction="sum"),
        )  # fmt: skip
        inputs, labels = next(iter(loader))
        criterion(model(inputs), labels).backward()
        with pytest.raises(ParameterError, match=r"torch\.normal"):
            optimizer.step()


@pytest.mark.parametrize("kind", ["DistributedDPOptimizer", "SimpleDistributedPerLayerOptimizer"])
def test_what_is_spread_over_processes_is_refused(kind, one_process):
    _, parameters = optimizer_with([torch.ones(8, 3)])
    radius = [1.0] if "PerLayer" in kind else 1.0
    optimizer = getattr(optimizers, kind)(
        torch.optim.SGD(parameters, lr=1.0), noise_multiplier=1.0, max_grad_norm=radius, expected_batch_size=8
    )
    parameters[0].grad_sample = torch.ones(8, 3)
    with opacus.install(), pytest.raises(ParameterError, match=f"{kind} is not served"):
        optimizer.step()
    assert parameters[0].grad is None


def test_hooks_of_each_layer_are_refused(one_process):
    p = torch.nn.Parameter(torch.zeros(3))
    DistributedPerLayerOptimizer(torch.optim.SGD([p], lr=1.0), noise_multiplier=1.0, max_grad_norm=[1.0], expected_batch_size=8)
    p.grad_sample = torch.ones(8, 3)
    with opacus.install(), pytest.raises(ParameterError, match="DistributedPerLayerOptimizer is not served"):
        p.sum().backward()


@pytest.mark.parametrize("name", ["add_noise", "clip_and_accumulate"])
@pytest.mark.parametrize("calls_ours", [False, True])
def test_a_subclass_with_methods_of_its_own_is_refused(name, calls_ours):
    def own(self):
        if calls_ours:
            getattr(optimizers.DPOptimizer, name)(self)

    kind = type("Own", (optimizers.DPOptimizer,), {name: own})
    _, parameters = optimizer_with([torch.ones(8, 3)])
    optimizer = kind(torch.optim.SGD(parameters, lr=1.0), noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=8)
    with opacus.install(), pytest.raises(ParameterError, match=f"Own.{name} is not Opacus' own"):
        optimizer.step()
    assert parameters[0].grad is None


def test_a_subclass_that_inherits_them_is_served():
    kind = type("Own", (optimizers.DPOptimizer,), {})
    _, parameters = optimizer_with([torch.ones(8, 3)])
    optimizer = kind(torch.optim.SGD(parameters, lr=1.0), noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=8)
    with opacus.install():
        optimizer.step()
    assert parameters[0].grad.isfinite().all()


def test_gradients_that_were_clipped_before_are_refused():
    optimizer, (p,) = optimizer_with([torch.ones(8, 3)])
    optimizer.clip_and_accumulate()
    with opacus.install(), pytest.raises(ParameterError, match="not clipped by dpcore"):
        optimizer.add_noise()
    assert p.grad is None


def test_a_bound_that_falls_in_the_middle_of_a_step_keeps_its_noise():
    from dpcore.interop.opacus import _optimizers

    with opacus.install():
        optimizer, (p,) = optimizer_with([torch.ones(8, 3)], radius=2.0)
        optimizer.clip_and_accumulate()
        optimizer.max_grad_norm = 0.5
        p.grad_sample = torch.ones(8, 3)
        optimizer.clip_and_accumulate()
        assert Fraction(_optimizers.noise_scale(optimizer, _optimizers.Options("proved", None))) >= 2


# Seeds


def gradient(seed=None, **options):
    with opacus.install(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        optimizer, (p,) = optimizer_with([torch.ones(8, 30)], **options)
        optimizer.generator = seed
        optimizer.step()
    return p.grad


def test_a_generator_makes_noise_reproducible_and_says_so():
    first, second = (gradient(torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, gradient(torch.Generator().manual_seed(4)))
    moving = torch.Generator().manual_seed(3)
    assert not torch.equal(gradient(moving), gradient(moving))
    optimizer, _ = optimizer_with([torch.ones(8, 3)], seed=3)
    with opacus.install(), pytest.warns(UserWarning, match="reproducible and not private"):
        optimizer.step()


def test_without_a_generator_no_seed_of_torch_matters():
    torch.manual_seed(0)
    first = gradient()
    torch.manual_seed(0)
    assert not torch.equal(first, gradient())


def test_what_secure_mode_asked_of_torchcsprng_comes_from_the_system():
    """The generator of torchcsprng is a torch.Generator like any other, and here it stands for one."""
    first, second = (gradient(torch.Generator().manual_seed(3), secure_mode=True) for _ in range(2))
    assert not torch.equal(first, second)


# Checkpoints


def test_checkpoints_know_nothing_of_dpcore(tmp_path):
    by = engine()
    with opacus.install():
        model, optimizer, loader = private(linear(), ONES, by=by)
        step(model, optimizer, loader)
        by.save_checkpoint(path=tmp_path / "saved.pt", module=model, optimizer=optimizer)
        states = pickle.dumps((model.state_dict(), optimizer.state_dict()))
    assert b"dpcore" not in states
    assert b"dpcore" not in (tmp_path / "saved.pt").read_bytes()
    fresh = engine()
    model, optimizer, loader = private(linear(), ONES, by=fresh)
    fresh.load_checkpoint(path=tmp_path / "saved.pt", module=model, optimizer=optimizer)
    step(model, optimizer, loader)  # after uninstall(), with Opacus' own noise
    with opacus.install():
        step(model, optimizer, loader)
    assert [steps for *_, steps in by.accountant.history] == [1]
    assert [steps for *_, steps in fresh.accountant.history] == [3]


def test_a_copy_of_a_trained_model_and_a_saved_one_load_without_dpcore(tmp_path):
    with opacus.install():
        model, optimizer, loader = private(linear(), ONES)
        step(model, optimizer, loader)
        saved = io.BytesIO()
        torch.save(model._module.state_dict(), saved)
        copy.deepcopy(next(model.parameters()).detach())
    saved.seek(0)
    assert b"dpcore" not in saved.getvalue()
    linear().load_state_dict(torch.load(saved))


def test_the_peer_is_the_tested_one():
    assert any(peer.__version__ == known or peer.__version__.startswith(f"{known}.") for known in opacus.PEER.tested)
