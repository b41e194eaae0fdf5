"""The catalogue of planted faults: mistakes that a change of dpcore could make, and the tests that must notice each of them."""

from __future__ import annotations

import ast
import functools
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).resolve().parent / "faults"
KERNELS = "src/_kernels/"


@dataclass(frozen=True)
class Fault:
    """One planted fault.

    Attributes
    ----------
    name : str
        A short name of lower-case words.
    promise : str
        What dpcore promises and what the fault breaks.
    part : str
        The part of the specification that the promise belongs to, in words.
    file : str
        The source file, from the root of the repository.
    old, new : str
        Text that occurs once in the file, and what replaces it.
    tests : tuple of str
        Tests that must fail: files, or functions of files as `file::function`.
    environment : str
        The environment whose packages the tests need.
    long : bool
        Whether the tests are marked `long`.
    """

    name: str
    promise: str
    part: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    environment: str = field(default=".venv")
    long: bool = field(default=False)

    @property
    def is_compiled(self) -> bool:
        """Whether the kernels must be built again."""
        return self.file.startswith(KERNELS)

    @property
    def installed(self) -> Path:
        """The file in a folder of installed packages."""
        return Path(self.file).relative_to("src")

    def planted(self, text: str) -> str:
        """The text of the file with the fault; raises `ValueError` unless the old text occurs exactly once."""
        if (found := text.count(self.old)) != 1:
            raise ValueError(f"{self.name}: the old text occurs {found} times in {self.file}, not once")
        return text.replace(self.old, self.new)


def read(folder: Path = FOLDER) -> list[Fault]:
    """All faults of the files in a folder, in order."""
    found = []
    for path in sorted(folder.glob("*.toml")):
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["fault"]:
            # The line end before the closing quotes of a text belongs to the file of faults.
            texts = {key: value.removesuffix("\n") if key in {"old", "new"} else value for key, value in entry.items()}
            found.append(Fault(**texts | {"tests": tuple(entry["tests"])}))
    return found


@functools.cache
def functions_of(path: Path) -> frozenset[str]:
    """The test functions and classes of a file, read without importing it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef))


def mistakes(fault: Fault, root: Path = ROOT) -> list[str]:
    """What is wrong with an entry of the catalogue: nothing is run or collected."""
    found = []
    try:
        planted = fault.planted((root / fault.file).read_text(encoding="utf-8"))
        if fault.file.endswith(".py"):
            compile(planted, fault.file, "exec")
    except (OSError, ValueError, SyntaxError) as error:
        found.append(str(error))
    if fault.old == fault.new:
        found.append(f"{fault.name}: the new text is the old one")
    if not fault.tests:
        found.append(f"{fault.name}: no test is named")
    for test in fault.tests:
        file, _, function = test.partition("::")
        if not (root / file).is_file():
            found.append(f"{fault.name}: there is no file {file}")
        elif function and function.partition("[")[0] not in functions_of(root / file):
            found.append(f"{fault.name}: {file} has no test {function}")
    return found
