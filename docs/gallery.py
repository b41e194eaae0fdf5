"""Run the programs of gallery.md and keep the pages and pictures that they write: Sphinx does so before it reads the pages."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from pictures import for_page, run  # noqa: E402  beside this file

FOLDER = "gallery"
"""Where the programs write what the page shows; the site has a folder of the same name."""


def make(target: Path) -> list[Path]:
    """Write the files of the gallery into a folder, which is emptied first; gives their paths in it."""
    shutil.rmtree(target, ignore_errors=True)
    made: list[Path] = []
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        try:
            with Path(os.devnull).open("w", encoding="utf-8") as quiet, contextlib.redirect_stderr(quiet):
                run(HERE / "gallery.md")
        finally:
            os.chdir(here)
        for file in sorted((Path(work) / FOLDER).rglob("*")):
            if file.suffix not in {".html", ".json", ".svg"}:
                continue
            path = target / file.relative_to(Path(work) / FOLDER)
            path.parent.mkdir(parents=True, exist_ok=True)
            text = file.read_text(encoding="utf-8")
            path.write_text(for_page(text) if file.suffix == ".svg" else text, encoding="utf-8")
            made.append(path)
    return made


if __name__ == "__main__":
    for written in make(Path(sys.argv[1])):
        sys.stdout.write(f"{written}\n")
