"""Which tests run on machines that this one is not: what computes in C, what must not depend on the machine, and the calls above it."""

from __future__ import annotations

from dataclasses import dataclass

INSTALLED = "not long and not source_tree"
"""Tests of what is installed: compilers and archives of this repository are another machine's."""


@dataclass(frozen=True)
class Part:
    """Tests that run together, and the marks by which they are chosen.

    Attributes
    ----------
    what : str
        What they are about.
    tests : tuple of str
        Files and folders, from the root of the repository.
    marks : str
        An expression of pytest.
    """

    what: str
    tests: tuple[str, ...]
    marks: str = INSTALLED


KERNELS = Part("the kernels", ("tests/kernels",))
ARRAYS = Part(
    "noise, local randomisers, selection, sums and accounting",
    (
        "tests/api/test_noise_api.py",
        "tests/api/test_noise_short.py",
        "tests/api/test_noise_single.py",
        "tests/api/test_sums_api.py",
        "tests/api/test_constant_work.py",
        "tests/api/local",
        "tests/api/selection",
        "tests/api/mechanisms",
        "tests/api/accounting",
        "tests/interop/test_numpy.py",
        "tests/interop/test_numpy_secure.py",
    ),
)
GOLDEN = Part("what keyed jobs said on other machines", ("tests/golden",), "not long")
TABLES = Part(
    "questions about tables",
    (
        "tests/api/frames/test_private_table.py",
        "tests/api/frames/test_same_as_job.py",
        "tests/api/batch/release/test_every_example.py",
    ),
)
EVERY_CALL = Part("the public calls", ("tests/api", "tests/interop/test_numpy.py", "tests/interop/test_numpy_secure.py"))

CHOSEN = {
    # Under emulation these parts take half an hour of CPU.
    "aarch64": (GOLDEN, KERNELS, ARRAYS, TABLES),
    "musl": (KERNELS, EVERY_CALL, GOLDEN),
}
