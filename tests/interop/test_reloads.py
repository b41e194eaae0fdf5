"""Every adapter that replaces something of its tool, reloaded while it is installed: the tool is restored whole.

Nothing here knows what an adapter replaces, but for the list that it makes itself.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import dpcore.interop
from support.versions import only_tested

OPTIONS = {
    "diffprivlib": [{"vectorise": False}, {"vectorise": True}],
    "opacus": [{}],
    "opendp": [{}, {"generator": True}],
    "pipelinedp": [{}],
    "polars": [{}],
    "smartnoise": [{}, {"random_state": 7}],
    "tumult": [{}],
}
"""Adapters, with options of `install` that make each replacement."""
TOOLS = {"pipelinedp": "pipeline_dp", "smartnoise": "snsql", "tumult": "tmlt"}
CASES = [pytest.param(name, options, id=f"{name} {options}") for name, each in OPTIONS.items() for options in each]


def reload_adapter(importlib, sys, name):
    importlib.reload(sys.modules[name])


def reload_all_of_interop(importlib, sys, name):
    for each in sorted(each for each in sys.modules if each.startswith("dpcore.interop.") and each != name):
        importlib.reload(sys.modules[each])
    importlib.reload(sys.modules[name])


def import_again(importlib, sys, name):
    for each in [each for each in sys.modules if each == name or each.startswith(f"{name}.")]:
        del sys.modules[each]
    importlib.import_module(name)


PROGRAM = """
import importlib, sys, warnings
warnings.simplefilter("ignore")
{again}
name, options = {name!r}, {options!r}
adapter = importlib.import_module(name)
adapter.PEER.require()
full = {{key: value.default for key, value in __import__("inspect").signature(adapter.install).parameters.items()}} | options
installations = [each for module in list(sys.modules.values()) if getattr(module, "__name__", "").startswith("dpcore.interop.{short}")
                 for each in vars(module).values() if type(each).__name__ == "Installation"]
places = [(item, item.current()) for item in installations[0]._replacements(**full)]
{twin}
for item, _ in places:
    home = getattr(item.owner, "__module__", None) or getattr(item.owner, "__name__", "")
    assert not str(home).startswith("dpcore"), f"{{item}} goes with a reload"
adapter.install(**options)
assert all(item.current() is not own for item, own in places)
{call}(importlib, sys, name)
adapter = sys.modules[name]
adapter.install(**options)
adapter.uninstall()
assert all(item.current() is own for item, own in places), [str(item) for item, own in places if item.current() is not own]
with adapter.install(**options):
    assert all(item.current() is not own for item, own in places)
    {call}(importlib, sys, name)
assert all(item.current() is own for item, own in places), [str(item) for item, own in places if item.current() is not own]
"""


def ran(name, options, again, twin=""):
    program = PROGRAM.format(
        again=inspect.getsource(again), call=again.__name__, name=f"dpcore.interop.{name}", short=name, options=options, twin=twin
    )
    return subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)


def needs(name):
    tool = TOOLS.get(name, name)
    if importlib.util.find_spec(tool) is None:
        pytest.skip(f"{tool} is not here; make test-interop has an environment for it")
    if name == "polars":
        only_tested(importlib.import_module("dpcore.interop.polars").PEER)


@pytest.mark.some(10)
@pytest.mark.parametrize("again", [reload_adapter, reload_all_of_interop, import_again])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_a_tool_is_restored_whole_after_a_reload_of_its_adapter(name, options, again):
    needs(name)
    finished = ran(name, options, again)
    assert finished.returncode == 0, finished.stderr[-2000:]


@pytest.mark.parametrize("name", OPTIONS)
def test_an_adapter_that_replaces_a_name_of_its_own_is_rejected(name):
    """As SmartNoise's did with the stream of its seed: a reload of the adapter puts such a name back, and nothing could be restored."""
    needs(name)
    twin = (
        "from dpcore.interop._installation import Replacement\n"
        "own = installations[0]._replacements\n"
        "adapter._state = None\n"
        "installations[0]._replacements = lambda **given: [*own(**given), Replacement(adapter, '_state', object())]\n"
        "places = [(item, item.current()) for item in installations[0]._replacements(**full)]"
    )
    finished = ran(name, OPTIONS[name][-1], reload_adapter, twin)
    assert finished.returncode != 0
    assert f"dpcore.interop.{name}._state goes with a reload" in finished.stderr


def test_every_adapter_with_replacements_is_in_the_list():
    root = Path(dpcore.interop.__file__).parent
    with_replacements = {
        path.relative_to(root).parts[0].removesuffix(".py") for path in root.rglob("*.py") if "Replacement(" in path.read_text()
    }
    assert {name for name in with_replacements if not name.startswith("_")} == set(OPTIONS)
