"""What the HTML reports of all commands share: the style, the frame, and the pair of files that `--report DIR` asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore._files import AtomicFile, remove_stale
from dpcore._signals import Deferred
from dpcore.errors import JobError, StorageError, reason
from dpcore.pages.numbers import json_text, plain_number, rounded_up
from dpcore.pages.printable import printable_lines

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

EXTRA_MISSING = "--report needs the extra `report`: pip install 'dpcore[report]'"


def _shown(value: object) -> object:
    """What a page shows of a value: text without characters that turn its direction. Markup that a template made is no such text."""
    return printable_lines(value) if type(value) is str else value


def report_paths(folder: Path, name: str, output: Path | None = None) -> tuple[Path, ...]:
    """The files of a report, without the one that the output is already."""
    paths = (folder / f"{name}{ending}" for ending in (".json", ".html"))
    return tuple(path for path in paths if output is None or path.resolve() != output.resolve())


class Pages:
    """A JSON file and an HTML page about one output; made before the work starts, so that a wrong folder costs nothing.

    Parameters
    ----------
    folder : Path
        Made if absent.
    name : str
        Of both files, without their endings.
    template : str
        Which file of `templates` says what the page shows, without its endings; it fills blocks of the frame.
    output : Path, optional
        A file that holds the document already, and so is not written again.

    Raises
    ------
    JobError
        If jinja2 is not installed.
    StorageError
        If the folder cannot be written.
    """

    def __init__(self, folder: Path, name: str, template: str, output: Path | None = None) -> None:
        try:
            from jinja2 import Environment, PackageLoader
        except ModuleNotFoundError:
            raise JobError(EXTRA_MISSING) from None
        environment = Environment(
            autoescape=True, loader=PackageLoader("dpcore.pages"), trim_blocks=True, lstrip_blocks=True, finalize=_shown
        )
        environment.filters |= {"plain": plain_number, "rounded_up": rounded_up}
        self._template = environment.get_template(f"{template}.html.j2")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"cannot make the folder {folder}{reason(error)}") from None
        self.paths = report_paths(folder, name, output)
        for path in self.paths:
            remove_stale(path)

    def write(self, document: Mapping[str, Any], **shown: Any) -> None:
        """Write both files, replacing those of an earlier run.

        Parameters
        ----------
        document : mapping
            Content of the JSON file; `report` in the template.
        **shown
            What the template needs beyond it.
        """
        page = self._template.render(report=document, **shown)
        contents = {".json": json_text(document) + "\n", ".html": page + "\n"}
        for path in self.paths:
            with Deferred():
                file = AtomicFile(path)
                try:
                    file.write(contents[path.suffix].encode())
                    file.commit()
                finally:
                    file.abort()
