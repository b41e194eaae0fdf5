"""Check which optional packages are installed, and whether they are new enough; advise how to install them."""

from __future__ import annotations

import importlib.util
import os
import re

PACKAGES = {
    "batch": ("click", "pyarrow", "pydantic", "rich"),
    "expressions": ("duckdb",),
}
"""The packages of an extra that must be there before its modules are imported; `expressions` is a part of `batch`."""
LOWEST = {
    "clarabel": "0.7",
    "click": "8.1",
    "dp_accounting": "0.5",
    "duckdb": "2.0",
    "jinja2": "3.1",
    "matplotlib": "3.8",
    "numpy": "1.26",
    "pandas": "2.2",
    "polars": "1.20",
    "pyarrow": "18",
    "pydantic": "2.11.10",
    "rich": "13",
    "scipy": "1.13",
}
"""The oldest version of each package, as it is imported, that dpcore works with: those of pyproject.toml, which a test compares."""
BELOW = "\n    "
"""Before a command that has a line of its own."""
LOWEST_DUCKDB = "1.0"
"""The oldest DuckDB whose relations are read; expressions need the newer one above."""
UNKNOWN = (2**31,)
"""A version that is no number, of a build of one's own: it counts as new."""


def lacking(extra: str) -> list[str]:
    """List which packages of an extra are not installed, and which are too old; nothing if the extra is complete."""
    absent = _absent(extra)
    old = outdated(*(name for name in PACKAGES[extra] if name not in absent))
    return [*([f"not installed: {', '.join(absent)}"] if absent else []), *old.values()]


def _absent(extra: str) -> list[str]:
    return [name for name in PACKAGES[extra] if importlib.util.find_spec(name) is None]


def outdated(*names: str, bounds: dict[str, str] = LOWEST) -> dict[str, str]:
    """Find the installed packages that are older than dpcore needs, each with words that say so.

    A package whose version cannot be found counts as new enough.
    """
    beside: dict[str, dict[str, str]] = {}
    found = {}
    for name in names:
        spec = importlib.util.find_spec(name)
        if spec is None or not spec.origin:
            continue
        folder = os.path.dirname(os.path.dirname(spec.origin))  # noqa: PTH120  # pathlib takes longer to load than this takes
        if folder not in beside:
            beside[folder] = _versions(folder)
        version = beside[folder].get(name)
        if version is not None and release(version) < release(bounds[name]):
            found[name] = f"{name} {version} is too old, it must be {bounds[name]} or later"
    return found


def _versions(folder: str) -> dict[str, str]:
    """The versions of the packages in a folder, from the names of what pip writes beside them: its metadata take far longer to read."""
    found: dict[str, str] = {}
    for entry in os.listdir(folder):  # noqa: PTH208
        stem = entry.removesuffix(".dist-info")
        if stem == entry:
            continue
        name, _, version = stem.rpartition("-")
        name = re.sub("[-_.]+", "_", name).lower()
        # An installation that was interrupted may have left a second one.
        if name not in found or release(found[name]) < release(version):
            found[name] = version
    return found


def release(version: str) -> tuple[int, ...]:
    """The numbers by which releases are compared; 1.20 and 1.20.0 are one."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple([*map(int, found[0].split(".")), 0, 0, 0][:4]) if found else UNKNOWN


def install(extra: str, *, gap: str = " ") -> str:
    """Return what to run to install an extra; `gap` stands before the command, which may have a line of its own.

    No package index has dpcore. On the day one has it, this line is the only one that changes.
    """
    return f"in the folder of the clone, run{gap}pip install '.[{extra}]'"


def needs(what: str, extra: str) -> str:
    """Return a line that says which extra something needs, and how to install it."""
    return f"{what} the extra `{extra}`: {install(extra)}"


def advice(what: str, extra: str, missing: list[str]) -> str:
    """Return two lines that say what is missing of an extra, and how to install it."""
    installer = "batch" if extra == "expressions" else extra
    return f"{what} needs the extra `{installer}` ({'; '.join(missing)}); {install(installer, gap=BELOW)}"


def require(what: str, extra: str) -> None:
    """Raise `ModuleNotFoundError` with the pip line if a package of the extra is not installed, `ImportError` if one is too old."""
    missing = lacking(extra)
    if missing:
        message, absent = advice(what, extra, missing), _absent(extra)
        raise ModuleNotFoundError(message, name=absent[0]) if absent else ImportError(message)


def words_of_old(*names: str, bounds: dict[str, str] = LOWEST) -> str:
    """Return a sentence with the pip line if one of these packages is too old, and nothing otherwise."""
    for name, words in outdated(*names, bounds=bounds).items():
        return f"{words}: pip install '{name.replace('_', '-')}>={bounds[name]}'"
    return ""


def refuse_old(*names: str) -> None:
    """Raise `ImportError` with that sentence."""
    words = words_of_old(*names)
    if words:
        raise ImportError(words)
