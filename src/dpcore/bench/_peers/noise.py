"""The peers of the noise functions. Most are not exact, and most use generators that an attacker can predict."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore.bench._peers.sources import PCG64, SFC64, chacha, mkl_state
from dpcore.bench.benchmark import Side, Work

Array = npt.NDArray[Any]
AddNoise = Callable[[Array, Array, float], object]
"""Adds noise of a scale to the first array, into the second."""


def laplace(x: Array, out: Array, scale: float) -> None:
    np.add(x, PCG64.laplace(scale=scale, size=x.size), out=out)


def laplace_by_chacha(x: Array, out: Array, scale: float) -> None:
    np.add(x, chacha().laplace(scale=scale, size=x.size), out=out)


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


# Packages whose noise is made for releases


def opendp(maker: str, distance: str, atom: str) -> Callable[[Array, float], Work]:
    """A measurement of OpenDP on a vector; it returns a list."""

    def prepare(x: Array, scale: float) -> Work:
        import opendp.prelude as dp

        dp.enable_features("contrib")
        domain = dp.atom_domain(T=atom, nan=False) if atom == "f64" else dp.atom_domain(T=atom)
        release = getattr(dp.m, maker)(dp.vector_domain(domain), getattr(dp, distance)(T=atom), scale=scale)
        return partial(release, x)

    return prepare


def pydp_laplace(x: Array, scale: float) -> Work:
    """PyDP's mechanism takes one value a call; its scale is sensitivity / epsilon. Of an integer it makes an integer, by rounding."""
    from pydp.algorithms.numerical_mechanisms import LaplaceMechanism

    add, values = LaplaceMechanism(epsilon=1.0, sensitivity=scale).add_noise, x.tolist()
    return lambda: [add(value) for value in values]


def pydp_gaussian(x: Array, scale: float) -> Work:
    """PyDP's mechanism of a given standard deviation, which PipelineDP uses; one value a call."""
    from pydp.algorithms.numerical_mechanisms import GaussianMechanism

    add, values = GaussianMechanism.create_from_standard_deviation(scale).add_noise, x.tolist()
    return lambda: [add(value) for value in values]


def diffprivlib(name: str) -> Callable[[Array, float], Work]:
    """diffprivlib takes one value a call."""

    def prepare(x: Array, scale: float) -> Work:
        from diffprivlib import mechanisms

        randomise, values = getattr(mechanisms, name)(epsilon=1.0, sensitivity=scale).randomise, x.tolist()
        return lambda: [randomise(value) for value in values]

    return prepare


ONE_BY_ONE = 1000
"""Values for a peer that takes one a call, or a list."""


def vectorised(name: str, add: AddNoise, scale: float, package: str = "numpy") -> Side:
    """A peer that adds noise to arrays; `inputs` are the values and a place for the result."""

    def prepare(inputs: tuple[Array, Array]) -> Work:
        values, out = inputs[0], np.ones_like(inputs[1])
        return partial(add, values, out, scale)

    return Side(name=name, prepare=prepare, package=package)


def slow(name: str, make: Callable[[Array, float], Work], scale: float, package: str, *, safe: bool) -> Side:
    """A peer that gets few values."""

    def prepare(inputs: tuple[Array, Array]) -> Work:
        return make(inputs[0][:ONE_BY_ONE], scale)

    return Side(name=name, prepare=prepare, package=package, safe=safe, size=ONE_BY_ONE)


def noise_peers(case: str, scale: float) -> tuple[Side, ...]:
    """The peers of one case of the noise functions.

    Parameters
    ----------
    case : str
        Its name.
    scale : float
        Its scale.
    """
    if case == "laplace":
        return (
            vectorised("NumPy laplace (PCG64)", laplace, scale),
            vectorised("NumPy, two exponentials", laplace_by_exponentials, scale),
            vectorised("randomgen ChaCha20, NumPy's laplace", laplace_by_chacha, scale, "randomgen"),
            vectorised("cryptography AES-CTR + np.log", laplace_by_aes, scale, "cryptography"),
            vectorised("MKL laplace (SFMT)", mkl("laplace"), scale, "mkl_random"),
            slow("OpenDP laplace", opendp("make_laplace", "l1_distance", "f64"), scale, "opendp", safe=True),
            slow("PyDP LaplaceMechanism", pydp_laplace, scale, "pydp", safe=True),
            slow("diffprivlib Laplace", diffprivlib("Laplace"), scale, "diffprivlib", safe=False),
        )
    if case == "gaussian":
        return (
            vectorised("NumPy normal (PCG64)", plain_normal, scale),
            vectorised("NumPy normal (SFC64), in place", normal(SFC64), scale),
            vectorised("MKL Box-Muller (SFMT)", mkl("BoxMuller"), scale, "mkl_random"),
            vectorised("MKL inversion (SFMT)", mkl("ICDF"), scale, "mkl_random"),
            slow("OpenDP gaussian", opendp("make_gaussian", "l2_distance", "f64"), scale, "opendp", safe=True),
            slow("PyDP GaussianMechanism", pydp_gaussian, scale, "pydp", safe=True),
        )
    if case == "discrete_laplace":
        return (
            vectorised("NumPy, two geometrics", geometric_difference, scale),
            vectorised("MKL, two geometrics (SFMT)", mkl("geometric"), scale, "mkl_random"),
            slow("OpenDP laplace of integers", opendp("make_laplace", "l1_distance", "i64"), scale, "opendp", safe=True),
            slow("PyDP LaplaceMechanism of integers", pydp_laplace, scale, "pydp", safe=True),
        )
    return (
        vectorised("NumPy normals, rounded", rounded_normal, scale),
        slow("OpenDP gaussian of integers", opendp("make_gaussian", "l2_distance", "i64"), scale, "opendp", safe=True),
        slow("PyDP GaussianMechanism of integers", pydp_gaussian, scale, "pydp", safe=True),
    )
