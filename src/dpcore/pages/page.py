"""The parts that the HTML reports of all commands share: the frame, the origin, and the files that `--report DIR` writes."""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
from abc import ABC, abstractmethod
from dataclasses import field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from dpcore._dataclasses import dataclass
from dpcore._disk.files import AtomicFile, remove_stale
from dpcore._disk.signals import Deferred
from dpcore._extras import needs, words_of_old
from dpcore.errors import JobError, StorageError, reason
from dpcore.pages.moments import now
from dpcore.pages.numbers import counted, json_text, plain_number, rounded_up
from dpcore.pages.printable import breakable, printable_lines

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

DATE = re.compile(r"\b\d{4}-\d\d(?:-\d\d)?\b")


@dataclass(frozen=True, slots=True)
class Provenance:
    """The origin of the numbers of a page. The page shows it beside the version of dpcore.

    Attributes
    ----------
    input : str or None
        The path of the data, as the job or the command names it.
    files : int
        How many files that path stands for.
    job : str or None
        The path of the job file.
    output : str or None
        The path of what the job wrote.
    made : datetime
        When the page was made. Default: now.
    digest : str or None
        SHA-256 of the job file.
    settings : tuple of str
        What the command line set in the job.
    dataset : str or None
        The declared name of the data set.
    run : str or None
        The id of the run.
    entry : int or None
        The number of the run's entry in its ledger.
    """

    input: str | None = None
    files: int = 1
    job: str | None = None
    output: str | None = None
    made: datetime = field(default_factory=now)
    digest: str | None = None
    settings: tuple[str, ...] = ()
    dataset: str | None = None
    run: str | None = None
    entry: int | None = None

    @property
    def date(self) -> str:
        """The day and the minute."""
        return f"{self.made.astimezone(UTC):%Y-%m-%d %H:%M} UTC"

    @property
    def moment(self) -> str:
        """The second, as machines read it."""
        return self.made.astimezone(UTC).isoformat(timespec="seconds")


def report_paths(folder: Path, name: str, output: Path | None = None) -> tuple[Path, ...]:
    """The files of a report. One that the output is already is left out."""
    paths = (folder / f"{name}{ending}" for ending in (".json", ".html"))
    return tuple(path for path in paths if output is None or path.resolve() != output.resolve())


def free_name(folder: Path, name: str, document: Mapping[str, Any]) -> str:
    """The name, or with -2, -3, … behind it: the first under which no other document has its report. Answers were paid for."""
    for number in itertools.count(1):
        tried = name if number == 1 else f"{name}-{number}"
        written, page = report_paths(folder, tried)
        if not (written.exists() or page.exists()) or _holds(written, document):
            return tried
    raise AssertionError("numbers do not end")


def _holds(path: Path, document: Mapping[str, Any]) -> bool:
    try:
        return path.read_text(encoding="utf-8") == json_text(document) + "\n"
    except (OSError, ValueError):
        return False


class Pages(ABC):
    """A JSON file and an HTML page about one output. A subclass names the template and says what fills it.

    Make the object before the work starts: a folder that cannot be written, or a missing package, is then reported before anything is
    spent.

    Parameters
    ----------
    folder : Path
        Where the files go. It is made if it does not exist.
    name : str
        The name of both files, without their endings.
    output : Path, optional
        What the job writes. If that is the report's JSON file, it is not written again.
    provenance : Provenance, optional
        Where the numbers come from. Default: nothing but the date.

    Attributes
    ----------
    paths : tuple of Path
        The files that `write` writes.

    Raises
    ------
    JobError
        If jinja2 is not installed, or matplotlib where the page has plots.
    StorageError
        If the folder cannot be made.
    """

    template: ClassVar[str]
    """The file in `templates`, without its endings. It fills blocks of the frame."""
    has_plots: ClassVar[bool] = True

    def __init__(self, folder: Path, name: str, output: Path | None = None, *, provenance: Provenance | None = None) -> None:
        if words := words_of_old("jinja2", "matplotlib"):
            raise JobError(f"--report cannot be made: {words}")
        try:
            environment = _environment()
            if self.has_plots:
                from dpcore.pages import plots  # noqa: F401
        except ModuleNotFoundError:
            raise JobError(needs("--report needs", "report")) from None
        self.name = name
        self._provenance = Provenance() if provenance is None else provenance
        self._template = environment.get_template(f"{self.template}.html.j2")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"cannot make the folder {folder}{reason(error)}") from None
        self.paths = report_paths(folder, name, output)
        for path in self.paths:
            remove_stale(path)

    @abstractmethod
    def content(self, subject: Any) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Return the values for the template.

        Parameters
        ----------
        subject : object
            What `write` was given.

        Returns
        -------
        document : mapping
            The JSON file. The template knows it as `report`.
        shown : mapping
            What the template needs in addition.
        """

    def write(self, subject: Any) -> None:
        """Write both files. Those of an earlier run are replaced.

        Parameters
        ----------
        subject : object
            What the page is about.
        """
        document, shown = self.content(subject)
        ledger = document.get("ledger")
        entry = ledger.get("entry") if isinstance(ledger, dict) else None  # known when the job has been charged
        given = {"report": document, "provenance": replace(self._provenance, entry=entry), "json_file": f"{self.name}.json"}
        page = self._template.render(given | dict(shown))
        contents = {".json": json_text(document) + "\n", ".html": page + "\n"}
        for path in self.paths:
            with Deferred():
                file = AtomicFile(path)
                try:
                    file.write(contents[path.suffix].encode())
                    file.commit()
                finally:
                    file.abort()


def _environment() -> Any:
    """The templates, with the filters that they use."""
    from jinja2 import Environment, PackageLoader
    from markupsafe import Markup

    def with_breaks(text: object) -> Markup:
        """A name with places where a long one may wrap."""
        shown = Markup("<wbr>").join(_fit_to_show(piece) for piece in breakable(str(text)))
        return Markup(DATE.sub(r'<span class="whole">\g<0></span>', str(shown)))  # noqa: S704 - the text is escaped, and a date needs no escape

    environment = Environment(autoescape=True, loader=PackageLoader("dpcore.pages"), trim_blocks=True, lstrip_blocks=True, finalize=_shown)
    script = environment.loader.get_source(environment, "sort.js.j2")[0] if environment.loader else ""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # What a page lets run is this script alone, whatever the names on it hold.
    environment.globals |= {"sort_script": Markup(script), "sort_hash": f"sha256-{digest}"}  # noqa: S704 - it is a file of the package
    environment.filters |= {"plain": plain_number, "rounded_up": rounded_up, "name": with_breaks, "counted": counted}
    return environment


def _shown(value: object) -> object:
    """Text without characters that turn its direction; numbers stay on the line of their signs. Markup stays as it is."""
    return _fit_to_show(value) if type(value) is str else value


def _fit_to_show(text: str) -> str:
    return printable_lines(text).replace(" %", "\u00a0%").replace(" = ", "\u00a0=\u00a0").replace("n − 1", "n\u00a0−\u00a01")
