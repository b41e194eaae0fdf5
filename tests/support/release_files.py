"""That a folder has the files of one release and no others: an sdist, and a wheel for each interpreter and platform, small enough."""

from __future__ import annotations

import re
import sys
from pathlib import Path

INTERPRETERS = ("cp311-cp311", "cp312-cp312", "cp313-cp313", "cp314-cp314", "cp314-cp314t")
PLATFORMS = (
    r"manylinux_2_\d+_x86_64(\.manylinux_2_28_x86_64)?",
    r"manylinux_2_\d+_aarch64(\.manylinux_2_28_aarch64)?",
    "musllinux_1_2_x86_64",
    "musllinux_1_2_aarch64",
    r"macosx_\d+_\d+_x86_64",
    r"macosx_\d+_\d+_arm64",
    "win_amd64",
)
MOST_BYTES = 3_000_000


def mistakes(folder: Path, tag: str | None) -> list[str]:
    """What is wrong with the files of a release, in words; with a tag `v1.2.3`, they have that version."""
    names = sorted(path.name for path in folder.iterdir())
    versions = {found[1] for found in (re.match(r"dpcore-([^-]+?)(?:\.tar\.gz|-)", name) for name in names) if found}
    if len(versions) != 1:
        return [f"files of one version are expected, not of {sorted(versions)}"]
    (version,) = versions
    found = []
    if tag is not None and tag != f"v{version}":
        found.append(f"the tag {tag} is not that of version {version}")
    expected = [rf"dpcore-{re.escape(version)}\.tar\.gz"]
    expected += [rf"dpcore-{re.escape(version)}-{interpreter}-{platform}\.whl" for interpreter in INTERPRETERS for platform in PLATFORMS]
    for pattern in expected:
        matching = [name for name in names if re.fullmatch(pattern, name)]
        if len(matching) != 1:
            found.append(f"{len(matching)} files are like {pattern}")
    found += [f"{name} is not a file of a release" for name in names if not any(re.fullmatch(pattern, name) for pattern in expected)]
    wheels = [path for path in folder.glob("*.whl") if path.stat().st_size > MOST_BYTES]
    return [*found, *(f"{path.name} has more than {MOST_BYTES:,} bytes" for path in wheels)]


if __name__ == "__main__":
    where, kind, name = sys.argv[1:]
    sys.exit("\n".join(mistakes(Path(where), name if kind == "tag" else None)) or 0)
