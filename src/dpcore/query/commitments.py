r"""Releases that can be replayed: a key that is committed to, the noise that follows from it, and what is published about both.

The key of a release and a second secret, the blinder, come from the operating system and are for one run. What is published is

    HMAC-SHA-256(blinder, tag ‖ key ‖ what the key is for),

each part behind its length. What the key is for is a line of JSON: the id of the run, the job, the digests of the files that it names, and
those of the code. The noise is drawn under a key that is derived from the committed one, the id of the run and public randomness, if there
is some. It does not reveal the committed key, and no stream is drawn under the committed key itself.

The order of a release is: the key file is on the disk; so are the digests of the input and the public randomness, which the file takes
once; the ledger is charged, and has the commitment; the rows are read; the answers are published. A run that dies in between is run again
with the same file, hence the same key, the same input and the same answers: no run has two noises, and no noise two inputs.

`docs/verify.md` says what this shows, and what it does not.
"""

from __future__ import annotations

import binascii
import hmac
import json
import re
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np

from dpcore._backend import wiped_empty
from dpcore._version import __version__, code_digest
from dpcore.errors import JobError, ParameterError, ParameterTypeError, StorageError, reason
from dpcore.pages.numbers import json_text
from dpcore.query.job_documents import as_json, from_json
from dpcore.query.noise import At
from dpcore.query.request import checked_job
from dpcore.rng import STREAM_VERSION, CarriedKey, StreamPosition, framed
from dpcore.tables.output.key_file import COMMIT, Contents, KeyFile, Secret
from dpcore.tables.run_ids import canonical, digests_of_files, run_ids
from dpcore.tables.sections import JobSource
from dpcore.tables.sources import check_same, digest_of_file, place_of, version_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from dpcore._backend import Key
    from dpcore.query.request import ReleaseJob
    from dpcore.tables.inputs import Inputs
    from dpcore.tables.progress import Progress

FORMAT = 1
TAG = b"dpcore release commitment 1"
WHAT = "the key of one release of dpcore: as secret as the data"
KEYS = {"run", "job", "source", "files", "folder", "deposited", "code", "libraries"}
NOISE, SEAL = "noise of a committed release", "seal of a committed release"
"""What keys are derived for."""
RANDOMNESS = "--public-randomness"
LEAST, MOST = 16, 1024
"""Bytes of public randomness."""
HEX = re.compile(r"(?:[0-9a-fA-F]{2})*")
LIBRARIES = ("numpy", "pyarrow", "duckdb")
"""What computes beside dpcore: their versions are noted, and are not compared."""


def commitment_of(secret: Secret, line: bytes) -> str:
    """The commitment to a key and to what it is for, as 64 hexadecimal digits."""
    parts = [*framed([TAG, memoryview(secret.key), line])]
    message = wiped_empty(sum(map(len, parts)), np.uint8)
    place = 0
    for part in parts:
        message[place : place + len(part)] = np.frombuffer(part, np.uint8)
        place += len(part)
    return hmac.digest(secret.blinder, message, "sha256").hex()  # type: ignore[arg-type]  # any buffer will do


def code() -> dict[str, Any]:
    """Which code draws: what a replay must have, too."""
    return {"version": __version__, "stream_version": STREAM_VERSION, "sha256": code_digest()}


def code_in_words(said: Any) -> str:
    """The code of a document or a key file, for messages."""
    if not isinstance(said, dict):
        return "unknown code"
    return f"dpcore {said.get('version')} (stream {said.get('stream_version')}, code {str(said.get('sha256'))[:12]})"


class CommittedNoise:
    """The noise of a release, under a derived key. Every draw has a number.

    Its streams do not call themselves secure, which is what decides the cipher: they are those of ChaCha20 on every processor, so that
    another machine can replay them. What is published says where the key comes from.

    Parameters
    ----------
    key : Key
        The derived key.
    """

    def __init__(self, key: Key) -> None:
        self._key = key

    def at(self, nonce: int) -> At:
        """The stream of a draw."""
        return At(StreamPosition(self._key, nonce))


class Commitment:
    """The committed key of one release. As a context manager it makes or takes the key file, and in the end forgets the key.

    Parameters
    ----------
    file : KeyFile
        Where the key is, or will be.
    contents : Contents
        What the file holds, or will hold.
    randomness : bytes or None
        What the public announced after the commitment was deposited; None if it was not deposited.
    is_new : bool
        Whether the file is still to be made.

    Attributes
    ----------
    digest : str
        The commitment.
    run : str
        The run that the key is for.
    """

    def __init__(self, file: KeyFile, contents: Contents, randomness: bytes | None, *, is_new: bool) -> None:
        self._file, self._randomness, self._is_new = file, randomness, is_new
        self._contents: Contents | None = contents
        about = contents.about
        self.digest, self.run, self._deposited = commitment_of(contents.secret, contents.line), str(about["run"]), bool(about["deposited"])
        carried, run = CarriedKey(contents.secret.key, secure=True), self.run.encode()
        self._noise: CommittedNoise | None = CommittedNoise(carried.derived(NOISE, [run, randomness or b""]))
        self._seal: Key | None = carried.derived(SEAL, [run])

    @property
    def file(self) -> KeyFile:
        """Where the key is."""
        return self._file

    @property
    def noise(self) -> CommittedNoise:
        """The source of all noise of the release."""
        if self._noise is None:
            raise ParameterError("the key of this release has been wiped; make another plan, which reads the key file again")
        return self._noise

    def document(self) -> dict[str, Any]:
        """What is published, without the seal."""
        return {
            "format": FORMAT,
            "hmac_sha256": self.digest,
            "deposited": self._deposited,
            "public_randomness": None if self._randomness is None else self._randomness.hex(),
            "code": code(),
        }

    def begin(self, tables: Sequence[Inputs], progress: Progress) -> None:
        """Note the input and the public randomness in the key file, which has them once.

        Raises
        ------
        StorageError
            If the input cannot be read, changes meanwhile, or is not the one that the key was used for.
        """
        begun = {"inputs": digests_of(tables, progress), "public_randomness": self.document()["public_randomness"]}
        known = None if self._contents is None else self._contents.begun
        if known is None:
            self._file.note(begun)
        elif known != begun:
            what = "the input" if known.get("inputs") != begun["inputs"] else RANDOMNESS
            raise StorageError(
                f"{what} is not what {self._file} was used with by a run that ended early: the same key must not make noise for two "
                "inputs, nor one run two noises. Nothing was read, and nothing is spent. Restore it, or name another output and "
                "a new key file"
            )

    def sealed(self, document: dict[str, Any]) -> dict[str, Any]:
        """The document with a seal, which shows later that nothing in it was changed, by anybody who does not have the key."""
        return document | {"commitment": document["commitment"] | {"seal": self.seal_of(document)}}

    def seal_of(self, document: Mapping[str, Any]) -> str:
        """The seal of a document, whatever seal it has."""
        if self._seal is None:
            raise ParameterError("the key of this release has been wiped")
        said = json.loads(json_text(dict(document)))
        said["commitment"].pop("seal", None)
        return hmac.digest(self._seal, json.dumps(said, sort_keys=True).encode(), "sha256").hex()  # type: ignore[arg-type]

    def __enter__(self) -> Self:
        if self._contents is None:
            raise ParameterError("the key of this release has been wiped")
        if self._is_new:
            self._file.make(self._contents.secret, self._contents.line)
            self._is_new = False
        else:
            self._file.take(self._contents)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.forget()

    def forget(self) -> None:
        """Let other runs have the file, and wipe the keys, with the last reference to each."""
        self._file.close()
        self._contents = self._noise = self._seal = None

    def __reduce__(self) -> NoReturn:
        raise ParameterTypeError("the key of a release is not copied or pickled, so that no other process gets it by accident")

    def __repr__(self) -> str:
        return f"Commitment({self.digest!r})"


# Making one


def committed(job: ReleaseJob, path: str | Path, public_randomness: str | None = None) -> Commitment:
    """The commitment of a release that is planned: of a new key, or of the key file that a deposit or a killed run of this job has left.

    Parameters
    ----------
    job : ReleaseJob
        The job.
    path : str or Path
        The key file.
    public_randomness : str, optional
        Hexadecimal digits, for a key file whose commitment was deposited.

    Raises
    ------
    JobError
        If the job cannot be replayed, the file is something else or of another run, or public randomness is missing or too much.
    StorageError
        If a file cannot be read.
    """
    check_job(job)
    file, randomness = KeyFile(path), _randomness(public_randomness)
    known = file.read()
    if known is None:
        if randomness is not None:
            raise JobError(
                f"{RANDOMNESS} is for a commitment that was deposited before: there is no key file {str(path)!r}. Make it with "
                "--commit-only, deposit the commitment, and wait for the announcement"
            )
        return Commitment(file, _fresh(job, deposited=False), None, is_new=True)
    about = known.about
    check_format(file, about)
    if any(about[key] != value for key, value in _said_of(job).items()):
        raise JobError(
            f"{file} is the key of another run: another job file, other settings or another output. A key is for one run; name a new file"
        )
    if about["code"] != code():
        raise JobError(
            f"{file} was made by {code_in_words(about['code'])}, and this is {code_in_words(code())}: the same key could give other "
            "answers. Run the same code, or name another output and a new key file"
        )
    if about["deposited"] and randomness is None:
        raise JobError(f"{RANDOMNESS} is required: the commitment of {file} was made to be deposited, and the noise follows from both")
    if not about["deposited"] and randomness is not None:
        raise JobError(f"{RANDOMNESS} is for a key file that --commit-only has made, and {file} was made by a run")
    return Commitment(file, known, randomness, is_new=False)


def deposited(job: ReleaseJob, path: str | Path) -> Commitment:
    """The commitment of a new key for a job, to be deposited; raises `JobError` if the file exists or the job cannot be replayed."""
    check_job(job)
    file = KeyFile(path)
    if file.read() is not None:
        raise JobError(f"{file} exists: a key is for one release, and is never replaced. Name a new file")
    return Commitment(file, _fresh(job, deposited=True), None, is_new=True)


def check_job(job: ReleaseJob) -> None:
    """Raise `JobError` for a job whose release cannot be replayed."""
    if job.testing is not None:
        raise JobError(f"{COMMIT} draws the key of a release from the system's generator, and [testing] gives one; remove one of them")
    if job.is_paid_once:
        raise JobError(
            f"{COMMIT} is for releases that follow from their input, and a running_total goes on from the noise of the steps before it, "
            "which is wiped; leave it out"
        )


def _document_of(job: ReleaseJob) -> dict[str, Any]:
    """What a job was made of, from which the same job can be made again."""
    if job.document is None:
        raise JobError(f"{COMMIT} is for jobs of load_release_job and parse_release_job")
    found = as_json(job.document)
    if canonical(checked_job(from_json(found))) != canonical(job):
        raise JobError(f"{COMMIT} is for a job as it was read, and this one was changed afterwards; make it of a document that says so")
    return found


def _fresh(job: ReleaseJob, *, deposited: bool) -> Contents:
    """A new key for a job; raises `JobError` if the job cannot be written down."""
    about = {
        "what": WHAT,
        "format": FORMAT,
        **_said_of(job),
        "folder": str(Path.cwd()),
        "deposited": deposited,
        "code": code(),
        "libraries": libraries(),
    }
    return Contents(Secret.fresh(), json.dumps(about, sort_keys=True).encode(), None)


def _said_of(job: ReleaseJob) -> dict[str, Any]:
    """What a key is for."""
    source, files = job.source, digests_of_files(job)
    return {
        "run": run_ids(job, files=files)[0],
        "job": _document_of(job),
        "source": None if source is None else {"path": source.path, "sha256": source.sha256, "settings": list(source.settings)},
        "files": files,
    }


def check_format(file: KeyFile, about: Mapping[str, Any]) -> None:
    """Raise `JobError` for a key file of another program or version."""
    if about.get("what") != WHAT or about.get("format") != FORMAT or not about.keys() >= KEYS:
        raise JobError(f"{file} is of a format that this version of dpcore does not know; name another file")


def libraries() -> dict[str, str]:
    """The versions of what computes beside dpcore."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def job_of(about: Mapping[str, Any]) -> ReleaseJob:
    """The job of a key file."""
    job, source = checked_job(from_json(about["job"])), about["source"]
    return job if source is None else job.named(JobSource(source["path"], source["sha256"], tuple(source["settings"])))


def _randomness(given: str | None) -> bytes | None:
    if given is None:
        return None
    if not isinstance(given, str):
        raise ParameterTypeError(f"public_randomness must be a str of hexadecimal digits, got {type(given).__name__}")
    if not HEX.fullmatch(given) or not LEAST <= len(given) // 2 <= MOST:
        shown = given if len(given) <= 80 else f"{given[:80]}…"
        raise JobError(f"{RANDOMNESS} {shown!r} must have {2 * LEAST} to {2 * MOST} hexadecimal digits, an even number")
    return binascii.unhexlify(given)


# The input


def digests_of(tables: Sequence[Inputs], progress: Progress) -> dict[str, Any]:
    """SHA-256 of all files of an input, and of tables that are joined to it; the order of files does not matter.

    Raises
    ------
    StorageError
        If one cannot be read, or is not the one that was planned.
    """
    total = sum(sum(table.sizes) for table in tables) or 1
    progress.begin("noting the input")
    done, found = 0, []
    for table in tables:
        digests = []
        for path in table.paths:
            digests.append(_digest_of(table, path))
            done += table.found[path].size
            progress.update(0, done / total)
        found.append(sorted(digests))
    return {"input": found[0], "joined": found[1:]}


def _digest_of(table: Inputs, path: Any) -> str:
    check_same(path, version_of(path), table.found[path])
    try:
        found = digest_of_file(place_of(path))
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"{path}: cannot be read{reason(error)}") from None
    check_same(path, version_of(path), table.found[path])
    return found
