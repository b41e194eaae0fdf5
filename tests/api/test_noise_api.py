"""Rule zero of the noise functions: a wrong parameter is named with its value and range, before data are read or anything is written."""

from __future__ import annotations

import fractions
import math
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dpcore
from dpcore import _backend, noise
from dpcore.errors import DataError, ParameterError, ParameterTypeError
from dpcore.testing import KeyedRandom
from support.ids import shown
from support.kernels import KEY, LEVELS, same_bits

FLOAT = (noise.laplace, noise.gaussian)
DISCRETE = (noise.discrete_laplace, noise.discrete_gaussian)
each = pytest.mark.parametrize("function", FLOAT + DISCRETE, ids=lambda f: f.__name__)
each_float = pytest.mark.parametrize("function", FLOAT, ids=lambda f: f.__name__)
each_discrete = pytest.mark.parametrize("function", DISCRETE, ids=lambda f: f.__name__)
NAN, INF = math.nan, math.inf
BLOCK = 512
"""Values that the kernels refuse or release together."""


def dtype_of(function: Callable) -> type:
    return np.int64 if function in DISCRETE else np.float64


def refused(function: Callable, values: Any, *args: Any, error: type, words: tuple[str, ...], **options: Any) -> None:
    """The call raises `error` with all the words in its message, writes nothing, and takes no nonce for wrong arguments of its own."""
    out = options.pop("out", None)
    if out is None and isinstance(values, np.ndarray) and values.dtype.kind in "iuf" and not np.ma.isMaskedArray(values):
        out = np.full(values.shape, 77, dtype_of(function))
    with pytest.raises(error) as caught:
        function(values, *args, out=out, **options)
    message = str(caught.value)
    for word in words:
        assert word in message, message
    if isinstance(out, np.ndarray) and out.size:
        assert np.all(out == 77)


def everywhere(function: Callable) -> list[Any]:
    """A scalar, an array and a list: the three ways into the function."""
    return [dtype_of(function)(1).item(), np.ones(5, dtype_of(function)), [1, 2, 3]]


# Scale

OUT_OF_RANGE = [NAN, INF, -INF, 0, 0.0, -1.0, -3, 5e-324, 2.0**-1022, 2.0**961, 10**400, np.float64(NAN), np.float32(0)]
WRONG_TYPES = [True, np.True_, "1", b"1", None, 1j, object(), [], (1.0, "x")]


@each
@pytest.mark.parametrize("scale", [*OUT_OF_RANGE, 2.0**-961], ids=repr)
def test_a_scale_out_of_range(function: Callable, scale: Any) -> None:
    for values in everywhere(function):
        refused(function, values, scale, error=ParameterError, words=("scale",))
        if type(scale) is not int:
            refused(function, values, scale, error=ParameterError, words=("scale", "[" if function in FLOAT else "(", repr(float(scale))))


@each
@pytest.mark.parametrize("scale", WRONG_TYPES, ids=lambda s: type(s).__name__)
def test_a_scale_of_the_wrong_type(function: Callable, scale: Any) -> None:
    for values in everywhere(function):
        if isinstance(scale, list):
            refused(function, values, [True], error=ParameterTypeError, words=("scale",))
        else:
            refused(function, values, scale, error=ParameterTypeError, words=("scale",))


@each_discrete
@pytest.mark.parametrize("scale", [2.0**-20, math.nextafter(2.0**40, INF)])
def test_the_ends_of_the_discrete_range(function: Callable, scale: float) -> None:
    refused(function, np.ones(3, np.int64), scale, error=ParameterError, words=("scale", f"({2.0**-20!r}, {2.0**40!r}]", repr(scale)))
    for inside in (math.nextafter(2.0**-20, 1.0), 2.0**40, 7, np.float32(0.5), fractions.Fraction(1, 3)):
        assert isinstance(function(1, inside), int)


@each_float
def test_the_ends_of_the_float_range(function: Callable) -> None:
    low, high = 2.0**-960, 2.0**960
    for scale in (math.nextafter(low, 0.0), math.nextafter(high, INF)):
        refused(function, np.ones(3), scale, error=ParameterError, words=("scale", f"[{low!r}, {high!r}]", repr(scale)))
    for inside in (low, high, 7, np.int8(3), np.float32(0.5), fractions.Fraction(1, 3), np.array(2.0)):
        assert isinstance(function(1.0, inside), float)


@each
def test_arrays_of_scales(function: Callable) -> None:
    values = np.ones((4, 3), dtype_of(function))
    for bad in (NAN, 0.0, -1.0, INF, 5e-324):
        refused(function, values, np.array([1.0, 2.0, bad]), error=ParameterError, words=("scale", "index (2,)", repr(bad)))
    refused(function, values, np.ones(4), error=ParameterError, words=("scale", "(4, 3)", "(4,)"))
    refused(function, values, np.ones((2, 4, 3)), error=ParameterError, words=("scale", "(2, 4, 3)"))
    refused(function, 1, [1.0, 2.0], error=ParameterError, words=("scale", "broadcast"))
    for wrong in (np.array([True] * 3), np.ones(3, complex), np.array([1, 2, 3], object), np.array(["1"] * 3), np.ones(3, ">f8")):
        refused(function, values, wrong, error=ParameterTypeError, words=("scale",))
    refused(function, values, np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0]), error=ParameterTypeError, words=("scale", "masked"))
    refused(function, values, np.ma.array(1.0, mask=True), error=ParameterTypeError, words=("scale",))


# Grid


@each_float
@pytest.mark.parametrize("grid", [NAN, INF, 0, -1.0, 5e-324, 2.0**-1022, 3.0, 0.3, 2.0**-41, math.nextafter(1.0, 2.0), -(2.0**-3)])
def test_a_wrong_grid(function: Callable, grid: float) -> None:
    for values in everywhere(function):
        refused(function, values, 1.0, grid=grid, error=ParameterError, words=("grid", repr(float(grid))))


@each_float
def test_grid_and_scale_together(function: Callable) -> None:
    values = np.ones((2, 2))
    refused(function, values, 1.5, grid=2.0**-40, error=ParameterError, words=("grid", "scale·2^-40", repr(2.0**-40)))
    refused(function, values, np.array([1.0, 1.5]), grid=2.0**-40, error=ParameterError, words=("grid", "scale·2^-40"))
    for wrong in (True, "1", 1j, [1.0], np.ones(2)):
        refused(function, values, 1.0, grid=wrong, error=ParameterTypeError, words=("grid",))
    for right in (2.0**-40, 1, 2**20, np.float32(0.5)):
        result = function(values, 1.0, grid=right)
        assert np.array_equal(result / float(right), np.rint(result / float(right)))


@pytest.mark.parametrize("scale", [*OUT_OF_RANGE, 2.0**-961], ids=repr)
def test_default_grid_checks_its_scale(scale: Any) -> None:
    with pytest.raises(ParameterError, match="scale"):
        noise.default_grid(scale)
    for wrong in (True, "1", None):
        with pytest.raises(ParameterTypeError, match="scale"):
            noise.default_grid(wrong)


# Values

BAD_ARRAYS = {
    "masked": np.ma.array([1.0, 2.0], mask=[True, False]),
    "object": np.array([1, 2], object),
    "complex": np.ones(2, complex),
    "bool": np.array([True, False]),
    "strings": np.array(["1", "2"]),
    "datetime": np.array(["2020-01-01"], "datetime64[D]"),
    "record": np.zeros(2, [("a", "f8")]),
    "big-endian float": np.ones(2, ">f8"),
    "big-endian int": np.ones(2, ">i4"),
    "uint64": np.ones(2, np.uint64),
    "longdouble": np.ones(2, np.longdouble),
}


@each
@pytest.mark.parametrize("values", BAD_ARRAYS.values(), ids=BAD_ARRAYS)
def test_arrays_of_a_wrong_dtype(function: Callable, values: np.ndarray) -> None:
    out = np.full(values.shape, 77, dtype_of(function))
    refused(function, values, 1.0, out=out, error=ParameterTypeError, words=("values",))
    refused(function, values, 1.0, error=ParameterTypeError, words=("values",))


@each
@pytest.mark.parametrize(
    "values", [True, np.True_, "1", None, 1j, object(), [True], ["a"], [[1], [1, 2]], [1j], {1: 2}, 2**64, [2**64]], ids=shown
)
def test_what_is_no_number(function: Callable, values: Any) -> None:
    refused(function, values, 1.0, error=ParameterTypeError, words=("values",))


@each_discrete
@pytest.mark.parametrize("values", [1.0, np.float64(1), [1.5], np.ones(3), np.ones(3, np.float32), math.nan], ids=repr)
def test_discrete_noise_takes_integers_only(function: Callable, values: Any) -> None:
    refused(function, values, 1.0, error=ParameterTypeError, words=("values", "int64"))


@each_float
@pytest.mark.parametrize("bad", [NAN, INF, -INF])
@pytest.mark.parametrize("size", [1, 130, 2000, 300_000])
def test_data_that_are_not_finite_are_named_by_position_only(function: Callable, bad: float, size: int) -> None:
    released = function(np.full(size, 123456.75), 1.0, rng=KeyedRandom(KEY))
    for position in {0, size // 2, size - 1}:
        values, before = np.full(size, 123456.75), position // BLOCK * BLOCK if size > _backend.threads.SMALL else 0
        values[position] = bad
        for threads in (1, 4):
            out = np.full(size, 77.0)
            with pytest.raises(DataError) as caught:
                function(values, 1.0, out=out, threads=threads, rng=KeyedRandom(KEY))
            assert str(caught.value) == f"values must be finite; the number at index ({position},) is not"
            assert np.all((out == 77) | (out == released))
            assert np.all(out[before : before + BLOCK] == 77)
            assert threads > 1 or (same_bits(out[:before], released[:before]) and np.all(out[before:] == 77))
            with pytest.raises(DataError, match=rf"index \({position},\)"):
                function(values, 1.0, threads=threads)
        in_place = values.copy()
        with pytest.raises(DataError):
            function(in_place, 1.0, out=in_place)
        assert same_bits(in_place, values)


@each_float
def test_positions_have_the_shape_of_the_data(function: Callable) -> None:
    values = np.zeros((6, 5, 4), np.float32)
    values[3, 0, 2] = NAN
    for form in (values, np.asfortranarray(values), values.tolist(), values.astype(np.float16)):
        with pytest.raises(DataError, match=r"index \(3, 0, 2\)"):
            function(form, 1.0)
    for scalar in (NAN, INF, np.float64(NAN), np.float32(INF), np.array(NAN)):
        with pytest.raises(DataError, match="finite"):
            function(scalar, 1.0)


@each_float
def test_parameters_are_judged_before_data(function: Callable) -> None:
    values = np.array([NAN, 1.0])
    refused(function, values, -1.0, error=ParameterError, words=("scale",))
    refused(function, values, 1.0, grid=0.3, error=ParameterError, words=("grid",))
    refused(function, values, 1.0, rng=np.random.default_rng(), error=ParameterTypeError, words=("rng",))
    refused(function, values, 1.0, threads=0, error=ParameterError, words=("threads",))
    refused(function, values, 1.0, out=np.full(3, 77.0), error=ParameterError, words=("out",))
    with pytest.raises(ParameterTypeError, match="rng"):
        function(NAN, 1.0, rng=7)


# rng, threads, out


@each
@pytest.mark.parametrize(
    "rng",
    [np.random.default_rng(1), np.random.RandomState(1), np.random, 7, "secure", KEY, dpcore.SecureRandom, KeyedRandom, False, 0],
    ids=lambda r: type(r).__name__,
)
def test_a_wrong_source(function: Callable, rng: Any) -> None:
    for values in everywhere(function):
        refused(function, values, 1.0, rng=rng, error=ParameterTypeError, words=("rng", type(rng).__name__))


@each
@pytest.mark.parametrize("threads", [0, -1, 4097, 10**30])
def test_threads_out_of_range(function: Callable, threads: int) -> None:
    for values in everywhere(function):
        refused(function, values, 1.0, threads=threads, error=ParameterError, words=("threads", "[1, 4096]", str(threads)))


@each
@pytest.mark.parametrize("threads", [True, 1.0, "2", NAN, [2]])
def test_threads_of_the_wrong_type(function: Callable, threads: Any) -> None:
    for values in everywhere(function):
        refused(function, values, 1.0, threads=threads, error=ParameterTypeError, words=("threads",))


@each
def test_a_wrong_out(function: Callable) -> None:
    right = dtype_of(function)
    values = np.ones((4, 3), right)
    wrong = np.int64 if right is np.float64 else np.float64
    for dtype in (wrong, np.float16, np.int32, np.dtype(right).newbyteorder(">"), object, bool):
        refused(function, values, 1.0, out=np.full((4, 3), 77).astype(dtype) if dtype is not bool else np.zeros((0,), bool),
                error=ParameterTypeError, words=("out", np.dtype(right).name))  # fmt: skip
    for shape in ((3, 4), (12,), (4, 3, 1), (1, 4, 3), ()):
        refused(function, values, 1.0, out=np.full(shape, 77, right), error=ParameterError, words=("out", "(4, 3)", str(shape)))
    read_only = np.full((4, 3), 77, right)
    read_only.flags.writeable = False
    refused(function, values, 1.0, out=read_only, error=ParameterError, words=("out", "read-only"))
    one_row = np.lib.stride_tricks.as_strided(np.full(3, 77, right), (4, 3), (0, 8))
    refused(function, values, 1.0, out=one_row, error=ParameterError, words=("out", "broadcast"))
    for other in ([[77.0] * 3] * 4, np.ma.array(np.full((4, 3), 77.0)), 7, memoryview(bytearray(96))):
        refused(function, values, 1.0, out=other, error=ParameterTypeError, words=("out",))


@each
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_an_out_without_elements(function: Callable, shape: tuple[int, ...]) -> None:
    out = np.empty(shape, dtype_of(function))  # NumPy gives it strides of 0
    assert function(out, 1.0, out=out) is out


@each
def test_wrong_calls_take_no_nonce(function: Callable) -> None:
    rng = KeyedRandom(KEY)
    for options in ({"threads": 0}, {"out": np.zeros(9)}):
        with pytest.raises((ParameterError, ParameterTypeError)):
            function(np.ones(3, dtype_of(function)), 1.0, rng=rng, **options)
    with pytest.raises(ParameterError):
        function(1, -1.0, rng=rng)
    assert rng.position().nonce == 0


# Sources


@pytest.mark.parametrize("key", [bytes(31), bytes(33), b""])
def test_a_key_of_the_wrong_length(key: bytes) -> None:
    with pytest.raises(ParameterError, match=f"key must have 32 bytes, got {len(key)}"):
        KeyedRandom(key)


@pytest.mark.parametrize("key", ["0" * 32, bytearray(32), 7, None, [0] * 32, memoryview(bytes(32))], ids=lambda k: type(k).__name__)
def test_a_key_of_the_wrong_type(key: Any) -> None:
    with pytest.raises(ParameterTypeError, match="key must be bytes"):
        KeyedRandom(key)


@pytest.mark.parametrize(("nonce", "element"), [(-1, 0), (2**32, 0), (0, -1), (0, 2**63)])
def test_positions_out_of_range(nonce: int, element: int) -> None:
    with pytest.raises(ParameterError, match="element" if nonce == 0 else "nonce"):
        KeyedRandom(KEY).at(nonce, element)


def test_positions_of_the_wrong_type() -> None:
    for nonce, element in ((True, 0), (1.0, 0), (0, 2.0), (0, False), ("0", 0)):
        with pytest.raises(ParameterTypeError):
            KeyedRandom(KEY).at(nonce, element)  # type: ignore[arg-type]


def test_secure_random_takes_no_seed() -> None:
    with pytest.raises(TypeError):
        dpcore.SecureRandom(7)  # type: ignore[call-arg]
    assert dpcore.SecureRandom().secure
    assert not KeyedRandom(KEY).secure
    assert not KeyedRandom(KEY).at(0).secure


# Types in and out


@each
def test_python_scalars_come_back_as_python_scalars(function: Callable) -> None:
    expected = int if function in DISCRETE else float
    scalars = [3, np.int64(3), np.int8(3), np.uint32(3)]
    if function in FLOAT:
        scalars += [3.0, np.float64(3), np.float32(3), np.float16(3)]
    for scalar in scalars:
        assert type(function(scalar, 2.0)) is expected
        assert type(function(scalar, 2.0, threads=2)) is expected
        assert type(function(scalar, 2)) is expected


@each
def test_arrays_and_lists_come_back_as_arrays(function: Callable) -> None:
    dtype = dtype_of(function)
    for values, shape in (
        (np.array(3), ()),
        ([1, 2], (2,)),
        ([[1], [2]], (2, 1)),
        ((1, 2, 3), (3,)),
        (np.ones((2, 0), int), (2, 0)),
        (range(4), (4,)),
    ):
        result = function(values, 2.0)
        assert type(result) is np.ndarray
        assert result.dtype == dtype
        assert result.shape == shape
        assert result.flags.writeable


@each
def test_scalars_lists_and_arrays_agree(function: Callable) -> None:
    rng = KeyedRandom(KEY).at(4)
    from_array = function(np.array([5, 6, 7]), 2.0, rng=rng)
    assert same_bits(function([5, 6, 7], 2.0, rng=rng), from_array)
    assert function(5, 2.0, rng=rng) == function(np.int16(5), 2, rng=rng) == from_array[0]


@each_float
def test_empty_lists(function: Callable) -> None:
    assert function([], 1.0).shape == (0,)
    assert function([[], []], 1.0).shape == (2, 0)


@each
def test_the_input_is_never_written(function: Callable) -> None:
    values = np.arange(1000).astype(dtype_of(function))
    before = values.copy()
    function(values, 2.0)
    assert np.array_equal(values, before)
    values.flags.writeable = False
    assert function(values, 2.0).flags.writeable


# The environment, read when the kernels are loaded


def run_with(
    code: str = "from dpcore import _backend; print(_backend.selected_level())", **environment: str
) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("DPCORE_")}
    return subprocess.run([sys.executable, "-c", code], env=clean | environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.long
def test_the_level_can_be_forced() -> None:
    for level in LEVELS:
        assert run_with(DPCORE_ISA=level).stdout.strip() == level
    best = run_with(DPCORE_ISA="").stdout.strip()
    assert best == LEVELS[-1]


@pytest.mark.some(2)
@pytest.mark.parametrize("level", ["avx2", "X86_V3", "neon", " baseline"])
def test_an_unavailable_level_raises(level: str) -> None:
    result = run_with("import dpcore.noise", DPCORE_ISA=level)
    assert result.returncode != 0
    assert f"DPCORE_ISA must be one of {', '.join(LEVELS)} on this machine, got {level!r}" in result.stderr
    with pytest.raises(ParameterError, match="DPCORE_ISA"):
        _backend.select_level(level)


def test_a_level_that_this_cpu_lacks_raises() -> None:
    missing = {"baseline", "x86_v3", "x86_v4"} - set(LEVELS)
    for level in missing:
        assert "DPCORE_ISA must be one of" in run_with("import dpcore.noise", DPCORE_ISA=level).stderr


CIPHER = "from dpcore import _backend, noise; noise.laplace([1.0], 1.0); print(_backend.secure_cipher())"


@pytest.mark.long
def test_the_cipher_can_be_forced() -> None:
    assert run_with(CIPHER, DPCORE_CIPHER="chacha20").stdout.strip() == "chacha20"
    assert run_with(CIPHER, DPCORE_ISA="baseline").stdout.strip() == "chacha20"
    refused_aes = run_with(CIPHER, DPCORE_CIPHER="aes256", DPCORE_ISA="baseline")
    assert "DPCORE_CIPHER='aes256' needs AES instructions" in refused_aes.stderr
    assert refused_aes.returncode != 0
    if _backend.secure_cipher() == "aes256":
        assert run_with(CIPHER, DPCORE_CIPHER="aes256").stdout.strip() == "aes256"
    wrong = run_with(CIPHER, DPCORE_CIPHER="aes128")
    assert "DPCORE_CIPHER must be 'chacha20' or 'aes256', got 'aes128'" in wrong.stderr


@pytest.mark.long
def test_vaes_can_be_forbidden() -> None:
    code = "from dpcore import _backend; from dpcore._kernels import _dispatch; print(_dispatch.has_vaes(), _backend.secure_cipher())"
    has_aes = "x86_v3" in LEVELS and run_with(CIPHER, DPCORE_ISA="x86_v3").stdout.strip() == "aes256"
    for level in set(LEVELS) & {"x86_v3", "x86_v4"}:
        cipher = "aes256" if has_aes and level == "x86_v3" else "chacha20"
        assert run_with(code, DPCORE_ISA=level, DPCORE_VAES="0").stdout.split() == ["False", cipher]
    assert run_with(code, DPCORE_VAES="").stdout == run_with(code, DPCORE_VAES="1").stdout
    assert "DPCORE_VAES must be '0' or '1', got 'no'" in run_with("import dpcore.noise", DPCORE_VAES="no").stderr


THREADS = "from dpcore import _backend; print(_backend.default_threads())"


@pytest.mark.long
def test_the_number_of_threads_can_be_lowered() -> None:
    usual = int(run_with(THREADS).stdout)
    assert run_with(THREADS, DPCORE_NUM_THREADS="1").stdout.strip() == "1"
    assert int(run_with(THREADS, DPCORE_NUM_THREADS="100000").stdout) == usual
    for wrong in ("0", "-1", "two", "1.5", "²"):
        result = run_with(THREADS, DPCORE_NUM_THREADS=wrong)
        assert f"DPCORE_NUM_THREADS must be an integer ≥ 1, got {wrong!r}" in result.stderr
