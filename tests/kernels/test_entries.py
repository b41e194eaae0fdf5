"""Every function that Python modules may call sets the floating-point environment: the caller's changes no bit, and comes back."""

from __future__ import annotations

import ctypes
import math
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dpcore import _backend, local, testing
from dpcore._backend import Testing, available_levels
from dpcore._kernels import _constant, _counts, _dispatch, _hash, _memory, _noise, _release, _response, _search, _selection, _sums
from support.environments import HOSTILE, current_control, environment, on_x86_linux
from support.kernels import KEY, at_level

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "src" / "_kernels"
SOURCE = np.random.default_rng(7)

# What computes nothing: it is called as it is.
OTHERS = {
    "dpk_usable_level": "copies the table of a level",
    "dpk_usable_without_vaes": "copies the table of a level",
    "dpk_level_now": "reads one pointer",
    "dpk_level_use": "writes one pointer",
    "dpk_has_aes": "looks into the table",
    "dpk_has_vaes": "looks into the table",
    "dpk_compiler": "a text",
    "dpk_build_flags": "a text",
    "dpk_stream_init": "the key schedule: integers, once a call",
    "dpk_chacha20_block": "integers; only tests call it",
    "dpk_view_coalesce": "integers: shapes and strides",
    "dpk_watch_forks": "maps a page",
    "dpk_numpy_bits_are_unset": "compares pointers",
    "dpk_secure_bits_start": "two key schedules: integers",
    "dpk_secure_bits_serve": "writes pointers",
    "dpk_keyed_bits_start": "a keystream: integers",
    "dpk_keyed_bits_seek": "a keystream: integers",
    "dpk_keyed_bits_used": "integers",
    "dpk_keyed_bits_serve": "writes pointers",
    "dpk_subset_words": "an integer quotient",
    "dpk_vector_words": "integers",
    "dpk_line_sums": "integer sums",
    "dpk_field_table": "integers of a finite field",
    "dpk_sums_room": "an integer product",
    "dpk_wipe": "writes zeros",
    "dpk_wipe_stack": "writes zeros",
    "dpk_wipe_frames": "writes zeros",
}


def entries() -> list[str]:
    """The functions that core/entries.c makes ways into."""
    return re.findall(r"DPK_ENTRY(?:_VOID)?\((?:\w+, )?\s*(\w+),", (KERNELS / "include" / "dpk_entries.inc").read_text())


@pytest.mark.source_tree
def test_modules_can_call_nothing_but_entries() -> None:
    """In the only declarations that they share, every function is an entry, or computes nothing; there are no pointers to functions."""
    text = re.sub(r"#.*", "", (KERNELS / "include" / "dpk.pxd").read_text())
    declared = re.findall(r"\b(dpk_\w+)(?: \"(\w+)\")?\(", text)
    assert len(declared) > 30
    assert {name: into for name, into in declared if into} == {f"dpk_{name}": f"dpk_entry_{name}" for name in entries()}
    assert {name for name, into in declared if not into} <= set(OTHERS)
    assert "(*" not in text
    for module in [*KERNELS.glob("*.pyx"), *KERNELS.rglob("*.pxi")]:
        text = module.read_text()
        # Python's own allocator of objects, once, which calls no kernel
        of_python = re.findall(r"cdef extern from \"Python.h\":\n(?:    #.*\n)?    object PyType_GenericAlloc\(.*\)\n\n", text)
        assert text.count("cdef extern") == len(of_python) <= (module.name == "_memory.pyx"), module


@pytest.mark.source_tree
def test_the_environment_is_set_in_one_place() -> None:
    found = [
        path.name
        for path in KERNELS.rglob("*.[ch]")
        if path.parent != KERNELS and re.search(r"\b(?:fesetenv|_mm_setcsr)\b", path.read_text())
    ]
    assert found == ["entries.c"]


def floats(n: int) -> np.ndarray:
    """Numbers of every size, subnormal ones among them."""
    values = np.ldexp(SOURCE.standard_normal(n), SOURCE.integers(-40, 40, n))
    values[: min(n, 3)] = [5e-324, -1e-310, 0.1][: min(n, 3)]
    return values


def words(n: int) -> np.ndarray:
    """Random words."""
    return SOURCE.integers(0, 2**64, n, np.uint64)


Run = Callable[[], object]
DIGITS = _constant.Digits([((5, 0, 0), [2**60, 2**61], [-3, 7], True), ((1, 0, 0), [2**62], [0], False)])


def constant_noise(values: np.ndarray, **more: float) -> Callable[[np.ndarray], object]:
    """Noise of constant work, of two digits."""
    return lambda out: _constant.Noise(DIGITS, values, out, KEY, 0, 0, 0, **more).run(0, values.size)


def run_noise(make: Callable[[np.ndarray], tuple[_noise.Law, int]], n: int = 700) -> Run:
    """A call over values of every size."""
    values = floats(n)

    def run() -> object:
        law, kind = make(values)
        out = np.zeros(n)
        call = _noise.Call(kind, (law,), values, out, KEY, 0, 0, 0)
        reached, pending = 0, []
        while reached < n:
            _, reached, some = call.run(reached, n)
            pending += some
        return out, pending

    return run


def run_table() -> Run:
    """A table of three entries, for which the law makes a guide."""
    entries = [2**29, 2**30, 2**31 - 2**20]

    def run() -> object:
        law, out = _noise.Law(_noise.GAUSSIAN_TABLE, 1.0, short=entries, long=[e << 96 for e in entries]), np.zeros(500, np.int64)
        return _noise.Call(_noise.GAUSSIAN_TABLE, (law,), np.arange(500), out, KEY, 0, 0, 0).run(0, 500), out

    return run


def run_selection(what: str) -> Run:
    """Scores that are subnormal, or far apart, or alike."""
    scores, scale = np.ldexp(SOURCE.standard_normal(3000), -1030), math.ldexp(0.3, -1030)
    largest = int(np.argmax(scores))

    def run() -> object:
        call = _selection.Call(_selection.GUMBEL, scores, scale, 1, 1, KEY, 0, 0, 0)
        bounds, out = np.zeros(call.stride // _selection.BLOCK + 1), np.zeros(5, np.int64)
        if what == "run":
            return call.run(0, 0, call.n_units, None, 0)
        if what in ("ranked", "peel"):
            keep, rounds = (3, 1) if what == "ranked" else (1, 3)
            position = (KEY, 0, 0, False)
            return _selection.short(_selection.GUMBEL, scores, scale, keep, rounds, 1, position, 3000, Testing, lambda: "chacha20")
        call.use_bounds(bounds)
        bad = call.find_bounds(0, call.stride // _selection.BLOCK)
        if what == "rebound":
            call.exclude(np.array([largest]), largest)
        if what == "winner":
            return call.winners(0, out, 0, 5), out
        return bad, bounds

    return run


def run_walk() -> Run:
    """A statistic whose sign is that of its rounding error."""
    weights = np.zeros((3, 8))
    weights[:, 0], weights[:, 1], weights[:, 2] = 1.0, 2.0**-60, -1.0
    counts = np.ones((9, 8))

    def run() -> object:
        levels, places = np.ones(9, np.int32), np.ones(9, np.int32)
        _search.walk(weights, np.zeros((0, 8), np.float32), np.zeros(8), (), counts, levels, places, 2)
        return levels, places

    return run


def run_band() -> Run:
    """Sums over paths of weights that are no powers of two."""
    lower, upper, offsets = np.zeros(4, np.int64), np.arange(20, 24), np.arange(5) * 30
    factors, powers = 1 + SOURCE.random(24) * 0.9, np.zeros(24)

    def run() -> object:
        mantissas, exponents = np.zeros(120), np.zeros(120)
        _release.band_rows((lower, upper, offsets), (factors, powers), mantissas, exponents, 0, 4)
        return mantissas, exponents

    return run


def run_quantile() -> Run:
    x, flips = floats(500), SOURCE.integers(0, 2, 500, np.uint8)

    def run() -> object:
        bits = np.zeros(500, np.uint8)
        return _response.sequential_quantile((0.3, -1.0, 1.0, 0.1, 0.7, 1.7, -0.7), x, flips, bits), bits

    return run


def run_bounded() -> Run:
    mechanism, x = local.BoundedMean(1.0, -0.1, 0.7), SOURCE.random(2000) * 0.8 - 0.1
    mechanism.privatize(x, rng=testing.KeyedRandom(KEY))
    return lambda: mechanism.privatize(x, rng=testing.KeyedRandom(KEY))


def run_vectors() -> Run:
    bounds = [-0.1, -(2.0**1019), 0.0], [0.7, 2.0**1019, 3 * 2.0**-960]
    mechanisms = [local.VectorMean(1.0, *bounds, d=3, method=method) for method in ("sample", "hypercube")]
    x = SOURCE.random((700, 3)) * bounds[1]

    def run() -> object:
        _backend.vectors._law.cache_clear()  # the box is made again
        return [mechanism.privatize(x, rng=testing.KeyedRandom(KEY)).tobytes() for mechanism in mechanisms]

    return run


def run_sums(what: str) -> Run:
    x = np.full((1000, 4), 2.0**1023) if what == "clamp" else floats(4000).reshape(-1, 4)
    grid = 2.0**1023 if what == "clamp" else 2.0**-30  # the inverse of the first is subnormal
    lower, upper = -grid / 2, grid
    low, high = words(50), SOURCE.integers(-(2**40), 2**40, 50)

    def run() -> object:
        if what == "pairs":
            nearest, rest = np.zeros(50), np.zeros(50)
            _sums.pairs(low, high, 2.0**-30, nearest, rest)
            return nearest, rest
        if what == "grouped":
            grouped = np.zeros((3, 3), np.int64)
            return _sums.grouped(x[:, 0].copy(), np.arange(1000, dtype=np.int32) % 3, lower, upper, grid, grouped), grouped
        sums = _sums.Sums(x, lower, upper, grid)
        totals = np.zeros(4, np.uint64), np.zeros(4, np.int64)
        return sums.add(0, 1000, 0, 4, *totals), *totals, sums.first_nan()

    return run


def run_moments() -> Run:
    """Reports around a centre, whose quotients by the grid are of every size."""
    x = np.round(SOURCE.standard_normal(3000) * 2.0**40) * 2.0**-985

    def run() -> object:
        totals = np.zeros(_sums.MOMENT_PARTS, np.uint64), np.zeros(_sums.MOMENT_PARTS, np.int64)
        return _sums.Moments(x, 2.0**49, 2.0**-985).add(0, 3000, *totals), *totals

    return run


def into(n: int, dtype: object, function: Callable[[np.ndarray], object]) -> Run:
    """A call that fills an array."""

    def run() -> object:
        out = np.zeros(n, dtype)
        return function(out), out

    return run


def runs() -> dict[str, Run]:
    """A call of each entry."""
    w, x = words(1024), SOURCE.random(2000)
    rows, codes, reports = SOURCE.integers(0, 256, (50, 64), np.uint8), SOURCE.integers(0, 9, (1, 500), np.uint8), np.zeros(20, "<u8, <u4")
    reports["f0"], reports["f1"] = 2**31 * 12345 + 678, 1
    reports = reports.astype(np.dtype([("seed", "<u8"), ("code", "<u4")]))
    thresholds, planes = np.sort(words(3)), words(32).reshape(4, 8)
    guide = np.append(np.searchsorted(thresholds, np.arange(4, dtype=np.uint64) << np.uint64(62)), 3).astype(np.uint32)
    call = _response.Call(_response.KARY, codes[0].astype(np.int64), np.zeros(500, np.int64), KEY, 0, 0, 0, k=9)
    float_call = _noise.Call(_noise.LAPLACE, (), floats(900), np.zeros(900), KEY, 0, 0, 0)
    values_call = _response.Call(_response.BOUNDED, floats(900), np.zeros(900, np.uint8), KEY, 0, 0, 0)
    ladder, subnormal = np.concatenate([[-np.inf], np.arange(100) * 2.0**-1040, [np.inf]]), x * 2.0**-1033
    assert call is not None
    return {
        "bulk_words": lambda: _dispatch.bulk_words(KEY, 1, 0, 0, 3, 5),
        "more_words": lambda: _dispatch.more_words(KEY, 1, 0, 2, 77, 0, 0),
        "keystream_into": into(1024, np.uint64, lambda out: _dispatch.keystream_into(KEY, 0, out)),
        "keystream_in_cache": lambda: _dispatch.keystream_in_cache(KEY, 0, 4096),
        "noise_run": run_noise(lambda _: (_noise.Law(_noise.GAUSSIAN, 1.7, 2.0**-39), _noise.GAUSSIAN)),
        "law_set_grid": run_noise(lambda _: (_noise.Law(_noise.LAPLACE, 2.0**1023, 2.0**1023), _noise.LAPLACE)),
        "law_parameters": run_noise(lambda _: (_noise.Law(_noise.LAPLACE, 3.0, 2.0**-20), _noise.LAPLACE)),
        "guide_set": run_table(),
        "number_distinct": into(2000, np.uint16, lambda out: _noise.number_distinct(np.floor(7 * x), out, -1.0, 8.0)),
        "first_outside": lambda: _response.first_outside(codes[0], 8, 0, 500),
        "first_nan": lambda: values_call.first_nan(0, 900),
        "first_nonfinite": lambda: float_call.first_nonfinite(0, 900),
        "response_run": run_bounded(),
        "bounded_set": run_bounded(),
        "box_set": run_vectors(),
        "sums_run": run_sums("run"),
        "sums_grouped": run_sums("grouped"),
        "sums_pairs": run_sums("pairs"),
        "clamp_set": run_sums("clamp"),
        "moments_run": run_moments(),
        "places_run": into(2000, np.uint8, lambda out: _search.find_places(subnormal, ladder, 0.0, False, out)),
        "sequential_quantile": run_quantile(),
        "selection_run": run_selection("run"),
        "selection_bounds": run_selection("bounds"),
        "selection_rebound": run_selection("rebound"),
        "selection_winner": run_selection("winner"),
        "selection_ranked": run_selection("ranked"),
        "selection_peel": run_selection("peel"),
        "aes256_block": lambda: _dispatch.aes256_block(KEY, bytes(16)) if _dispatch.has_aes() else b"",
        "exponential_raw": into(1024, np.float64, lambda out: _dispatch.exponential_raw(w, out)),
        "normal_raw": into(1024, np.float64, lambda out: _dispatch.normal_raw(w, out)),
        "hash": into(50, np.int64, lambda out: _counts.hash_codes(w[:50] | 1, np.arange(50), 7, out)),
        "support": into(30, np.int64, lambda out: _counts.count_support(reports, 4, out)),
        "count_columns": into(512, np.int64, lambda out: _counts.count_columns(rows, out)),
        "walsh_hadamard": into(64, np.int64, lambda out: (out.__setitem__(3, 5), _counts.walsh_hadamard(out))),
        "walk": run_walk(),
        "steps": into(100, np.float64, lambda out: _search.step_values(np.arange(100), np.array([9, 50, 51]), x[:4].copy(), out)),
        "nonzero": into(1, np.int64, lambda out: _counts.count_true(codes, out)),
        "count_bytes": into(9, np.int64, lambda out: _counts.count_codes(codes, out.reshape(1, 9))),
        "choose": into(1024, np.int64, lambda out: _release.choose(w, thresholds, guide, 62, out)),
        "below_brackets": into(1024, np.uint8, lambda out: _release.below_brackets(w.view(np.int64), w, thresholds, thresholds, 2, out)),
        "cosines": into(7, np.int64, lambda out: _release.cosines(x, out)),
        "band_rows": run_band(),
        "hash_rows": into(50, np.uint64, lambda out: _hash.add_rows(KEY[:16], rows, None, out)),
        "hash_texts": into(49, np.uint64, lambda out: _hash.add_texts(KEY[:16], np.arange(50) * 7, rows.ravel(), None, out)),
        "constant_real": into(300, np.float64, constant_noise(x[:300], fraction_bits=40, grid=0.125, least=2.0**-73, most=2.0**197)),
        "constant_int": into(300, np.int64, constant_noise(np.arange(300))),
        "constant_flip": into(300, np.uint8, lambda out: _constant.Bits(DIGITS, codes.ravel()[:300] & 1, out, KEY, 0, 0, 0).run(0, 300)),
        "constant_largest": lambda: _constant.Choice(
            DIGITS, x[:300], KEY, 0, 0, 0, grid=0.125, least=2.0**-5, most=2.0**99, largest=float(x[:300].max()), largest_low=0.0
        ).largest(300),
        "weigh_bits": into(50, np.int64, lambda out: _release.weigh_bits(rows, planes, out)),
    }


RUNS = runs()


@pytest.mark.source_tree
def test_every_entry_is_run() -> None:
    assert set(RUNS) == set(entries())


def bits(result: object) -> object:
    """A result whose equality is that of all its bits."""
    if isinstance(result, np.ndarray):
        return result.dtype.str, result.tobytes()
    if isinstance(result, tuple | list):
        return [bits(item) for item in result]
    if isinstance(result, _memory.Wiped):
        return bytes(result)
    return result.hex() if isinstance(result, float) else result


@on_x86_linux
@pytest.mark.parametrize("level", available_levels())
@pytest.mark.parametrize("name", RUNS)
def test_the_callers_environment_changes_nothing_and_comes_back(name: str, level: str) -> None:
    with at_level(level):
        expected = bits(RUNS[name]())
        for how, change in HOSTILE.items():
            with environment(change):
                before = current_control()
                result = RUNS[name]()
                after = current_control()
            assert after == before, how
            assert bits(result) == expected, how


# The same checks see entries that do not set the environment


def library(folder: Path, entries_c: str) -> ctypes.CDLL:
    """The core and one level, with these entries, as a shared library."""
    (folder / "entries.c").write_text(entries_c)
    sources = [path for path in sorted((KERNELS / "core").glob("*.c")) if path.name != "entries.c"]
    sources += [KERNELS / "isa" / "baseline.c", folder / "entries.c"]
    command = ["cc", "-O1", "-fPIC", "-shared", "-w", "-ffp-contract=off", f"-I{KERNELS / 'include'}", f"-I{KERNELS / 'core'}"]
    subprocess.run([*command, *map(str, sources), "-lm", "-o", str(folder / "core.so")], check=True, timeout=300)
    return ctypes.CDLL(str(folder / "core.so"))


def sums_in_every_environment(core: ctypes.CDLL) -> set[bytes]:
    """The pair of one total, as bytes, by the caller's environment."""
    low, high = (ctypes.c_uint64 * 1)(2**63 + 12345), (ctypes.c_int64 * 1)(-(2**39) - 3)
    results = set()
    for change in HOSTILE.values():
        pair = (ctypes.c_double * 2)()
        with environment(change):
            core.dpk_entry_sums_pairs(low, high, ctypes.c_size_t(1), ctypes.c_double(1.0), pair, ctypes.byref(pair, 8))
        results.add(bytes(pair))
    return results


@pytest.mark.long
@on_x86_linux
@pytest.mark.source_tree
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_entries_that_leave_the_environment_alone_are_found(tmp_path: Path) -> None:
    text = (KERNELS / "core" / "entries.c").read_text()
    broken = text.replace("fesetenv(FE_DFL_ENV);", "").replace("_mm_setcsr(0x1f80);", "")
    assert broken != text
    for name, source, differs in (("right", text, False), ("broken", broken, True)):
        (tmp_path / name).mkdir()
        assert (len(sums_in_every_environment(library(tmp_path / name, source))) > 1) == differs


def counting_registers(entries_c: str) -> str:
    """These entries, and a function that fills the upper vector registers, calls an entry, and counts those that are not 0 then."""
    wide = range(16, 32)
    fill = "".join(f"vpternlogd $255, %zmm{i}, %zmm{i}, %zmm{i}\\n" for i in wide)
    store = "".join(f"vmovdqu64 %%zmm{i}, {64 * (i - 16)}(%0)\\n" for i in wide)
    return f"""{entries_c}
__attribute__((noinline, target("avx512f"))) int registers_left(void) {{
    static uint64_t seen[16][8];
    uint64_t low = 3;
    int64_t high = 0;
    double pair[2];
    int left = 0;
    if (!__builtin_cpu_supports("avx512f")) return -1;
    __asm__ volatile("{fill}");
    dpk_entry_sums_pairs(&low, &high, 1, 1.0, pair, pair + 1);
    __asm__ volatile("{store}" : : "r"(seen) : "memory");
    for (int i = 0; i < 16; i++) left += seen[i][0] != 0 || seen[i][7] != 0;
    return left;
}}
"""


@pytest.mark.long
@on_x86_linux
@pytest.mark.source_tree
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_no_vector_register_keeps_what_a_call_left(tmp_path: Path) -> None:
    text = (KERNELS / "core" / "entries.c").read_text()
    broken = text.replace("    clear_registers();\n", "")
    assert broken != text
    left = []
    for name, source in (("right", text), ("broken", broken)):
        (tmp_path / name).mkdir()
        left.append(library(tmp_path / name, counting_registers(source)).registers_left())
    if left[0] < 0:
        pytest.skip("this CPU has no registers that vzeroupper leaves as they are")
    assert left == [0, 16]
