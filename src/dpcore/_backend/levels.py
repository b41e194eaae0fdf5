"""CPU level and ciphers in use."""

from __future__ import annotations

import os
import platform
from functools import lru_cache

import numpy as np

from dpcore._backend.threads import default_threads
from dpcore._kernels import _dispatch
from dpcore.errors import ParameterError

CHACHA20, AES256 = 0, 1
_ISA_VARIABLE, _VAES_VARIABLE, _CIPHER_VARIABLE = "DPCORE_ISA", "DPCORE_VAES", "DPCORE_CIPHER"


def select_level(name: str, *, vaes: bool | None = None) -> None:
    """Use the kernels of one CPU level, with VAES or as if there were none; `ParameterError` if this machine cannot run the level.

    By default there is VAES unless the environment forbids it.
    """
    if not _dispatch.select(name, _allows_vaes() if vaes is None else vaes):
        raise ParameterError(f"{_ISA_VARIABLE} must be one of {', '.join(_dispatch.available())} on this machine, got {name!r}")


def available_levels() -> tuple[str, ...]:
    """Names of the CPU levels this machine can run, least first."""
    return tuple(_dispatch.available())


def selected_level() -> str:
    """Name of the CPU level in use."""
    return str(_dispatch.selected())


@lru_cache(maxsize=1)
def _allows_vaes() -> bool:
    text = os.environ.get(_VAES_VARIABLE) or "1"
    if text not in {"0", "1"}:
        raise ParameterError(f"{_VAES_VARIABLE} must be '0' or '1', got {text!r}")
    return text == "1"


def _read_environment() -> str | None:
    select_level(os.environ.get(_ISA_VARIABLE) or selected_level())
    cipher = os.environ.get(_CIPHER_VARIABLE) or None
    if cipher not in {None, "chacha20", "aes256"}:
        raise ParameterError(f"{_CIPHER_VARIABLE} must be 'chacha20' or 'aes256', got {cipher!r}")
    if cipher == "aes256" and not _dispatch.has_aes():
        raise ParameterError(f"{_CIPHER_VARIABLE}='aes256' needs AES instructions (VAES at level x86_v4); this level has none")
    return cipher


_forced_cipher = _read_environment()


def secure_cipher() -> str:
    """Cipher that expands the secure source's keys: AES-256 where the level has it, else ChaCha20."""
    return _forced_cipher or ("aes256" if _dispatch.has_aes() else "chacha20")


def cipher_code(*, secure: bool) -> int:
    """The keyed source is always ChaCha20: its results must not depend on the machine."""
    return AES256 if secure and secure_cipher() == "aes256" else CHACHA20


def make_keystream(n_words: int, cipher: str = "chacha20") -> None:
    """Make the keystream of `n_words` 64-bit words in a buffer that stays in L1, as a bound for benchmarks."""
    _dispatch.keystream_in_cache(bytes(32), AES256 if cipher == "aes256" else CHACHA20, n_words)


def info() -> dict[str, object]:
    """Return the level, ciphers, threads and platform of this machine."""
    compiler, flags = _dispatch.build()
    return {
        "cpu_level": selected_level(),
        "cpu_levels_available": list(available_levels()),
        "secure_cipher": secure_cipher(),
        "vaes": _dispatch.has_vaes(),
        "keyed_cipher": "chacha20",
        "threads": default_threads(),
        "compiler": compiler,
        "build_flags": flags,
        "machine": platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
