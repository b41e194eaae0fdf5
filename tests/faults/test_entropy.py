"""A random source that fails or runs short is an error before anything is written."""

from __future__ import annotations

import os
from typing import NoReturn

import numpy as np
import pytest

import dpcore
from dpcore import noise


def fails(_: int) -> NoReturn:
    raise OSError("no entropy today")


def not_there(_: int) -> NoReturn:
    raise NotImplementedError


@pytest.mark.parametrize("broken", [fails, not_there, lambda n: b"\0" * (n - 1), lambda _: b""])
def test_entropy_failure_writes_nothing(broken: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "urandom", broken)
    out = np.full(1000, 7.0)
    whole = np.full(1000, 7)
    for draw in (
        lambda: noise.laplace(np.zeros(1000), 1.0, out=out),
        lambda: noise.gaussian(out, 1.0, out=out),
        lambda: noise.discrete_gaussian(whole, 3.0, out=whole),
        lambda: noise.laplace(0.0, 1.0),
        lambda: noise.discrete_laplace(0, 1.0),
    ):
        with pytest.raises(dpcore.EntropyError, match="operating system"):
            draw()
    assert (out == 7.0).all()
    assert (whole == 7).all()


def test_entropy_error_is_an_os_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "urandom", fails)
    with pytest.raises(OSError, match="OSError"):
        dpcore.SecureRandom().position()
