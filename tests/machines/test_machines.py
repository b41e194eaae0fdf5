"""Tests on other machines: what is chosen exists, what is missing is named, and programs can start the interpreter of the environment."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from machines import building
from machines.chosen import CHOSEN

pytestmark = pytest.mark.source_tree

ROOT = Path(__file__).resolve().parents[2]
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
EMULATOR = """#!{python}
import os, sys
name, program, *arguments = sys.argv[sys.argv.index("-0") + 1:]
os.execv(program, [name, *arguments])
"""
ASKED = """
import subprocess, sys
child = [sys.executable, "-c", "import sys; print(sys.executable, sys.prefix)"]
print(sys.executable, sys.prefix, sys.base_prefix, *subprocess.check_output(child, text=True).split())
"""


def test_chosen_tests_exist_and_hold_what_must_not_depend_on_the_machine() -> None:
    for parts in CHOSEN.values():
        tests = [test for part in parts for test in part.tests]
        assert {"tests/kernels", "tests/golden"} <= set(tests)
        assert [test for test in tests if not (ROOT / test).is_file() and not any((ROOT / test).rglob("test_*.py"))] == []
        assert len(tests) == len(set(tests))


def said(capsys: pytest.CaptureFixture[str], code: object) -> str:
    """What a refusal says."""
    assert code == 2
    return capsys.readouterr().err


def test_missing_tools_are_named_with_their_packages(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(building.shutil, "which", lambda name: None)
    with pytest.raises(SystemExit) as refused:
        building.emulated(tmp_path)
    assert "apt-get install gcc-aarch64-linux-gnu qemu-user" in said(capsys, refused.value.code)
    with pytest.raises(SystemExit) as refused:
        building.on_musl("no-such-python")
    assert "MUSL_PYTHON=no-such-python is no program" in said(capsys, refused.value.code)


def test_a_folder_that_is_no_system_is_refused_with_what_it_lacks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(building.shutil, "which", lambda name: f"/usr/bin/{name}")
    with pytest.raises(SystemExit) as refused:
        building.emulated(tmp_path)
    message = said(capsys, refused.value.code)
    assert f"it lacks its Python ({tmp_path}/usr/bin/python{VERSION}), the headers" in message
    lacking = message.partition("it lacks ")[2]
    for path in re.findall(r"\(([^)]+)\)", lacking):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    machine = building.emulated(tmp_path)
    assert machine.runner == ("/usr/bin/qemu-aarch64", "-L", str(tmp_path))
    assert "manylinux_2_28_aarch64" in machine.tags


def test_a_python_on_glibc_is_not_taken_for_one_on_musl(capsys: pytest.CaptureFixture[str]) -> None:
    if "CS_GNU_LIBC_VERSION" not in getattr(os, "confstr_names", {}) or not os.confstr("CS_GNU_LIBC_VERSION"):
        pytest.skip("this Python does not run on glibc")
    with pytest.raises(SystemExit) as refused:
        building.on_musl(sys.executable)
    assert "runs on glibc" in said(capsys, refused.value.code)


def test_extras_name_packages_and_not_themselves() -> None:
    found = building.requirements("batch", "test")
    assert {re.split(r"[>=\[]", each)[0] for each in found} >= {"numpy", "scipy", "pyarrow", "pytest", "matplotlib", "mpmath"}
    assert [each for each in found if each.startswith("dpcore")] == []


def test_what_has_no_wheel_does_not_come_as_an_older_release(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed: list[str] = []

    def pip(machine: building.Machine, *arguments: str, check: bool = True) -> int:
        bounds = Path(arguments[arguments.index("--constraint") + 1]).read_text(encoding="utf-8").split("\n")
        assert "duckdb>=2.0" in bounds
        assert not any("[" in each for each in bounds)  # pip takes no extras there
        if check:
            installed.extend(arguments)
        return int(any("duckdb" in each for each in arguments))

    monkeypatch.setattr(building, "pip", pip)
    machine = building.Machine("other", VERSION, ("emulator",), Path(sys.executable), ("linux_other",), tmp_path)
    machine.environment.mkdir()
    assert building.filled(machine) == [each for each in building.requirements(*building.WELCOME) if "duckdb" in each]
    assert {"numpy", "pytest", "pyarrow"} <= {re.split(r"[>=\[]", each)[0] for each in installed}
    assert not any("duckdb" in each for each in installed)


@pytest.mark.skipif(os.name != "posix", reason="the interpreter is a script")
def test_programs_start_the_interpreter_by_its_name(tmp_path: Path) -> None:
    emulator, base = tmp_path / "emulator", Path(sys.base_prefix, "bin", f"python{VERSION}")
    emulator.write_text(EMULATOR.format(python=sys.executable), encoding="utf-8")
    emulator.chmod(0o755)
    machine = building.Machine("other", VERSION, (str(emulator), "-L", str(tmp_path)), base, ("linux_other",), tmp_path)
    building.made(machine)
    assert machine.packages.is_dir()
    done = subprocess.run([str(machine.interpreter), "-c", ASKED], capture_output=True, text=True, check=True, env=building.variables())
    here = [str(machine.interpreter), str(machine.environment)]
    assert done.stdout.split() == [*here, sys.base_prefix, *here]
