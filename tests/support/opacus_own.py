"""A plugin of pytest that runs Opacus' own tests on dpcore: it installs the noise, and stands in for torchvision, which has no CPU build.

DPCORE_OPACUS says how: "native" for Opacus alone, "proved" or "nominal" for the options of `install`.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import types
import unittest

import torch


class Compose:
    """Functions, one after the other."""

    def __init__(self, steps):
        self.steps = steps

    def __call__(self, value):
        for step in self.steps:
            value = step(value)
        return value


class ToTensor:
    """Images of `FakeData` are tensors already."""

    def __call__(self, image):
        return image


class Normalize:
    """Subtract a mean and divide by a standard deviation."""

    def __init__(self, mean, std):
        self.mean, self.std = (torch.tensor(numbers).view(-1, 1, 1) for numbers in (mean, std))

    def __call__(self, image):
        return (image - self.mean) / self.std


class FakeData(torch.utils.data.Dataset):
    """Random images and labels that depend on the index alone."""

    def __init__(self, size, image_size, num_classes, transform=None):
        self.size, self.image_size, self.num_classes, self.transform = size, image_size, num_classes, transform

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        if index >= self.size:
            raise IndexError(index)
        generator = torch.Generator().manual_seed(index)
        image = torch.rand(self.image_size, generator=generator)
        label = int(torch.randint(0, self.num_classes, (1,), generator=generator))
        return (self.transform(image) if self.transform else image), label


def absent_network(name):
    """In place of one of torchvision's networks: whoever makes it is skipped."""
    if name.startswith("__"):
        raise AttributeError(name)

    def make(*_args, **_kwargs):
        raise unittest.SkipTest(f"needs torchvision's {name}")

    return make


def stand_in_for_torchvision():
    """What Opacus' tests need of it, but for its networks."""
    torchvision = types.ModuleType("torchvision")
    torchvision.transforms = types.ModuleType("torchvision.transforms")
    torchvision.datasets = types.ModuleType("torchvision.datasets")
    torchvision.models = types.ModuleType("torchvision.models")
    torchvision.models.__getattr__ = absent_network
    for part in (Compose, ToTensor, Normalize):
        setattr(torchvision.transforms, part.__name__, part)
    torchvision.datasets.FakeData = FakeData
    sys.modules["torchvision"] = torchvision
    for name in ("transforms", "datasets", "models"):
        sys.modules[f"torchvision.{name}"] = getattr(torchvision, name)


def pytest_configure(config):
    """Before anything of Opacus' tests is imported."""
    if importlib.util.find_spec("torchvision") is None:
        stand_in_for_torchvision()
    how = os.environ["DPCORE_OPACUS"]
    if how != "native":
        from dpcore.interop import opacus

        opacus.install(sensitivity=how, max_samples=1024)


def pytest_collection_finish(session):
    """Expect the refusal where a test trains on with noise of 10^20, which Opacus answers with NaN in all parameters."""
    from dpcore.errors import DataError

    for module in {item.module for item in session.items if item.module.__name__.endswith("privacy_engine_test")}:
        compared = module.BasePrivacyEngineTest._compare_to_vanilla

        def compare(self, *, do_noise, do_clip, max_steps=1, compared=compared, **options):
            try:
                compared(self, do_noise=do_noise, do_clip=do_clip, max_steps=max_steps, **options)
            except DataError:
                assert (do_noise, do_clip, max_steps > 1) == (True, False, True), "a finite gradient was refused"

        module.BasePrivacyEngineTest._compare_to_vanilla = compare
