"""One answer everywhere: a C driver prints digests of all kernels, natively at every level and, where the tools are, as aarch64 and on
musl."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.toolchains import Toolchain, aarch64, digests, musl
from support.toolchains import native as native_toolchain

pytestmark = pytest.mark.source_tree

DRIVERS = (
    "digest.c", "digest_responses.c", "digest_selection.c", "digest_sums.c", "digest_search.c", "digest_release.c", "digest_constant.c",
)  # fmt: skip


@pytest.fixture(scope="module")
def toolchain(tmp_path_factory: pytest.TempPathFactory) -> Toolchain:
    return native_toolchain(tmp_path_factory.mktemp("kernels"))


@pytest.fixture(scope="module", params=DRIVERS)
def native(
    request: pytest.FixtureRequest, toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, dict[str, list[str]]]:
    return request.param, digests(toolchain.said(toolchain.build(tmp_path_factory.mktemp("native"), request.param)))


def without_tier(line: str) -> str:
    """A digest line with the name of its tier removed."""
    name, _, _, rest = line.split(" ", 3)
    return f"{name} {rest}"


@pytest.mark.some(2)
def test_levels_agree(native: tuple[str, dict[str, list[str]]]) -> None:
    levels = native[1]
    expected = {
        "digest.c": 12,
        "digest_responses.c": 19,
        "digest_selection.c": 11,
        "digest_sums.c": 12,
        "digest_search.c": 13,
        "digest_release.c": 7,
        "digest_constant.c": 5,
    }
    assert len(levels["baseline"]) == expected[native[0]]
    assert all(" status 0 " in line for line in levels["baseline"])
    assert all(lines == levels["baseline"] for lines in levels.values())


def test_tiers_agree(native: tuple[str, dict[str, list[str]]]) -> None:
    lines = native[1]["baseline"]
    if native[0] == "digest.c":
        assert len({line.split()[-1] for line in lines}) == 6
        assert [without_tier(line) for line in lines[::2]] == [without_tier(line) for line in lines[1::2]]
    elif native[0] == "digest_selection.c":
        assert all(lines[i] == lines[i + 1] for i in (0, 3, 6))  # pruned and unpruned
        assert len(set(lines)) == len(lines) - 3
    elif native[0] in {"digest_sums.c", "digest_release.c", "digest_constant.c"}:
        assert len({line.split()[-1] for line in lines}) == len(lines)
    elif native[0] == "digest_search.c":
        answers = [line.split()[-1] for line in lines]
        assert all(answers[i] == answers[i + 1] for i in (0, 2, 5))  # with and without the tests in float
        assert len(set(answers)) == len(lines) - 3
    else:
        bounded = [line for line in lines if line.startswith("bounded ")]
        assert len(bounded) == 2
        assert bounded[0] == bounded[1]
        channel = [line for line in lines if line.startswith("channel ")]
        assert len(channel) == 2
        assert channel[0] == channel[1]
        signs = [line for line in lines if line.startswith("hypercube ")]
        assert signs[0] == signs[1]
        assert len(set(lines)) == len(lines) - 3


def test_both_widths_of_aes_give_the_same_words(toolchain: Toolchain, tmp_path: Path) -> None:
    if "-DDPK_X86" not in toolchain.flags:
        pytest.skip("one width")
    said = toolchain.said(toolchain.build(tmp_path, "ciphers.c"), timeout=60)
    if said != "equal\n":
        pytest.skip("this CPU has one width")


@pytest.fixture(scope="module")
def on_aarch64(tmp_path_factory: pytest.TempPathFactory) -> Toolchain:
    return aarch64(tmp_path_factory.mktemp("aarch64"))


@pytest.fixture(scope="module")
def on_musl(tmp_path_factory: pytest.TempPathFactory) -> Toolchain:
    return musl(tmp_path_factory.mktemp("musl"))


@pytest.mark.long
def test_aarch64_gives_the_same_digests(native: tuple[str, dict[str, list[str]]], on_aarch64: Toolchain, tmp_path: Path) -> None:
    said = on_aarch64.said(on_aarch64.build(tmp_path, native[0]))
    assert digests(said) == {"baseline": native[1]["baseline"]}


@pytest.mark.long
def test_musl_gives_the_same_digests(native: tuple[str, dict[str, list[str]]], on_musl: Toolchain, tmp_path: Path) -> None:
    assert digests(on_musl.said(on_musl.build(tmp_path, native[0]))) == native[1]
