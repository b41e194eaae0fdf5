"""The peers of the noise functions, each in the fastest form its users write. None of them is exact; only two use a CSPRNG."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
AddNoise = Callable[[Array, Array, float], object]
"""Adds noise of a scale to the first array, into the second."""

PCG64 = np.random.Generator(np.random.PCG64(1))
SFC64 = np.random.Generator(np.random.SFC64(1))


@dataclass(frozen=True)
class Peer:
    """A peer and what is asked of us beside it, by CPU level."""

    ours: str
    name: str
    add: AddNoise
    targets: dict[str, float]
    package: str = "numpy"
    required: bool = True

    @property
    def installed(self) -> bool:
        """Whether the peer's package is there."""
        return importlib.util.find_spec(self.package) is not None


def laplace(x: Array, out: Array, scale: float) -> None:
    np.add(x, PCG64.laplace(scale=scale, size=x.size), out=out)


def laplace_by_exponentials(x: Array, out: Array, scale: float) -> None:
    """NumPy's best route: the difference of two exponentials, made in place."""
    PCG64.standard_exponential(out=out)
    second = PCG64.standard_exponential(x.size)
    out -= second
    out *= scale
    out += x


def laplace_by_aes(x: Array, out: Array, scale: float) -> None:
    """The best CSPRNG route of today: AES-256-CTR blocks of `cryptography`, and a logarithm. 52 bits of resolution, not exact."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    encryptor = Cipher(algorithms.AES(os.urandom(32)), modes.CTR(os.urandom(16))).encryptor()
    words = np.empty(x.size + 2, np.uint64)
    encryptor.update_into(bytes(8 * x.size), words.view(np.uint8))
    words = words[: x.size]
    sign = (words & np.uint64(1)) << np.uint64(63)
    words >>= np.uint64(12)
    np.add(words, 0.5, out=out)
    out *= 2.0**-52
    np.log(out, out=out)
    out *= scale
    out.view(np.uint64)[:] ^= sign
    out += x


def normal(generator: np.random.Generator) -> AddNoise:
    def add(x: Array, out: Array, scale: float) -> None:
        generator.standard_normal(out=out)
        out *= scale
        out += x

    return add


def plain_normal(x: Array, out: Array, scale: float) -> None:
    np.add(x, scale * PCG64.standard_normal(x.size), out=out)


def geometric_difference(x: Array, out: Array, scale: float) -> None:
    p = -np.expm1(-1 / scale)
    np.subtract(PCG64.geometric(p, x.size), PCG64.geometric(p, x.size), out=out)
    out += x


def rounded_normal(x: Array, out: Array, scale: float) -> None:
    """Not even the same law."""
    noise = PCG64.standard_normal(x.size)
    noise *= scale
    np.rint(noise, out=noise)
    np.add(x, noise.astype(np.int64), out=out)


@lru_cache(maxsize=1)
def mkl_state() -> Any:
    """MKL's fastest generator; its "doubles" take 2^32 values."""
    import mkl_random

    return mkl_random.MKLRandomState(1, brng="SFMT19937")


def mkl(method: str) -> AddNoise:
    def add(x: Array, out: Array, scale: float) -> None:
        state = mkl_state()
        if method == "laplace":
            np.add(x, state.laplace(0.0, scale, x.size), out=out)
        elif method == "geometric":
            p = -np.expm1(-1 / scale)
            np.subtract(state.geometric(p, x.size), state.geometric(p, x.size), out=out)
            np.add(x, out, out=out)
        else:
            np.add(x, state.standard_normal(x.size, method=method) * scale, out=out)

    return add


def v4_v3(v4: float, v3: float | None = None) -> dict[str, float]:
    """Targets of the two x86 levels."""
    return {"x86_v4": v4} | ({} if v3 is None else {"x86_v3": v3})


PEERS = (
    Peer("laplace", "NumPy laplace (PCG64)", laplace, v4_v3(6, 3)),
    Peer("laplace", "NumPy, two exponentials", laplace_by_exponentials, v4_v3(2.5, 1.2)),
    Peer("laplace", "cryptography AES-CTR + np.log", laplace_by_aes, v4_v3(1.4), "cryptography"),
    Peer("laplace", "MKL laplace (SFMT)", mkl("laplace"), v4_v3(1.5), "mkl_random", required=False),
    Peer("gaussian", "NumPy normal (PCG64)", plain_normal, v4_v3(3.5, 2)),
    Peer("gaussian", "NumPy normal (SFC64), in place", normal(SFC64), v4_v3(2, 1.1)),
    Peer("gaussian", "MKL Box-Muller (SFMT)", mkl("BoxMuller"), v4_v3(2, 1.1), "mkl_random", required=False),
    Peer("gaussian", "MKL inversion (SFMT)", mkl("ICDF"), v4_v3(1), "mkl_random", required=False),
    Peer("discrete_laplace", "NumPy, two geometrics", geometric_difference, v4_v3(6, 3)),
    Peer("discrete_laplace", "MKL, two geometrics (SFMT)", mkl("geometric"), v4_v3(1.3), "mkl_random", required=False),
    *(Peer(f"discrete_gaussian σ={s:g}", "NumPy normals, rounded", rounded_normal, v4_v3(3, 1.8)) for s in (3.0, 10.0, 1000.0)),
)
