"""Object stores: addresses such as `s3://bucket/key`, and what jobs do with the objects that they name.

Everything goes through `pyarrow.fs`, which takes credentials, region and endpoint from the environment. An object is read as it was found:
its version is compared before and after. One that is written is visible when it is complete, and not before.
"""

from __future__ import annotations

import contextlib
import ctypes
import datetime as dt
import errno
import functools
import hashlib
import os
import re
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from dpcore._disk.addresses import Address, advice
from dpcore.errors import JobError, StorageError

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator
    from pathlib import Path

ATTEMPTS = 5
"""Requests of S3 that are made before one counts as failed; `AWS_MAX_ATTEMPTS` replaces it."""
RETRY_SECONDS = 60
"""Time after which a request of Google's store counts as failed."""
PART_BYTES = 8 << 20
MOST_PARTS = 9_000
"""Of an upload; stores take 10,000."""
_S3_CODES = re.compile(r"AWS Error ([A-Z_]{3,40}|UNKNOWN \(HTTP status \d{3}\)) during ([A-Za-z]{3,40}) operation")
_GS_CODES = re.compile(r"google::cloud::Status\(([A-Z_]{3,40}):")
CAUSES = {
    "ACCESS_DENIED": "access is denied",
    "PERMISSION_DENIED": "access is denied",
    "UNAUTHENTICATED": "the credentials are missing or wrong",
    "INVALID_ACCESS_KEY_ID": "the access key is unknown",
    "SIGNATURE_DOES_NOT_MATCH": "the secret key is wrong",
    "INVALID_CLIENT_TOKEN_ID": "the credentials are wrong",
    "EXPIRED_TOKEN": "the credentials have expired",
    "NO_SUCH_BUCKET": "there is no such bucket",
    "NO_SUCH_KEY": "there is no such object any more",
    "NO_SUCH_UPLOAD": "the upload was aborted",
    "NOT_FOUND": "there is no such object or bucket",
    "RESOURCE_NOT_FOUND": "there is no such object or bucket",
    "NETWORK_CONNECTION": "the connection failed or was lost",
    "REQUEST_TIMEOUT": "the store did not answer in time",
    "DEADLINE_EXCEEDED": "the store did not answer in time",
    "INTERNAL_FAILURE": "the store failed",
    "INTERNAL": "the store failed",
    "SERVICE_UNAVAILABLE": "the store is not available",
    "UNAVAILABLE": "the store is not available",
    "SLOW_DOWN": "the store takes fewer requests",
    "THROTTLING": "the store takes fewer requests",
    "RESOURCE_EXHAUSTED": "the store takes fewer requests",
    "FAILED_PRECONDITION": "the object was changed meanwhile",
    "INVALID_ARGUMENT": "the store refused the request",
}
"""What the codes of stores mean. No other word of a store's message is shown: it may hold anything."""


class StoreError(StorageError):
    """A store refused or failed.

    Attributes
    ----------
    why : str
        The cause in words, without any text of the store.
    place : Address or None
        What the request was about.
    """

    def __init__(self, message: str, why: str = "", place: Address | None = None) -> None:
        super().__init__(f"{message}{f': {why}' if why else ''}")
        self.why, self.place = why, place

    @property
    def is_absence(self) -> bool:
        """Whether the object is not there."""
        return self.why in {CAUSES["NO_SUCH_KEY"], CAUSES["NOT_FOUND"]}


class ObjectVersion(NamedTuple):
    """What an object was: another value for one that was replaced.

    `tag` is the store's name for the content (ETag, generation), and with the number of a version where the bucket keeps them.
    """

    address: str
    size: int
    time: str
    tag: str

    @property
    def identity(self) -> str:
        """Equal for all names of one object, which has one."""
        return self.address


# Requests


def cause(error: BaseException) -> str:
    """The cause of an error of pyarrow in words, as far as it is one of a store; else an empty text."""
    text = str(error)
    for pattern in (_S3_CODES, _GS_CODES):
        found = pattern.search(text)
        if found is not None:
            return CAUSES.get(found[1], "the store refused or failed")
    return ""


def with_cause(error: StorageError) -> StorageError:
    """The error with the cause of the store's failure that led to it, if one did."""
    if isinstance(error, StoreError):
        return error
    before: BaseException | None = error
    while before is not None:
        why = cause(before) if not isinstance(before, StorageError) else getattr(before, "why", "")
        if why:
            return StoreError(str(error), why)
        before = before.__context__
    return error


@contextlib.contextmanager
def _refusals(address: Address, what: str) -> Iterator[None]:
    try:
        yield
    except StorageError:
        raise
    except (OSError, ValueError) as error:
        why = CAUSES["NOT_FOUND"] if isinstance(error, FileNotFoundError) else cause(error) or _system_words(error)
        if why in {CAUSES["ACCESS_DENIED"], CAUSES["UNAUTHENTICATED"]} and not _has_credentials(address.scheme):
            why = f"there are no credentials; {advice(address.scheme)}"
        raise StoreError(f"{address}: {what}", why, address) from None


def _system_words(error: BaseException) -> str:
    code = getattr(error, "errno", None)
    return os.strerror(code) if isinstance(code, int) and code > 0 else ""


def _has_credentials(scheme: str) -> bool:
    """Whether the environment names some credentials; those of a machine's role are not seen."""
    prefix = {"s3": "AWS_", "gs": "GOOGLE_"}.get(scheme, "AZURE_")
    words = (
        "ACCESS_KEY_ID",
        "PROFILE",
        "WEB_IDENTITY_TOKEN_FILE",
        "CONTAINER_CREDENTIALS",
        "APPLICATION_CREDENTIALS",
        "STORAGE",
        "CLIENT_ID",
    )
    return any(name.startswith(prefix) and any(word in name for word in words) for name in os.environ)


SETTINGS = (
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_PROFILE",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_SKIP_SIGNATURE",
    "AWS_MAX_ATTEMPTS",
    "AWS_CA_BUNDLE",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "STORAGE_EMULATOR_HOST",
)
"""Names in the environment that this module reads, or whose change asks for another connection."""


def _system(address: Address) -> Any:
    """The file system of pyarrow that has an object."""
    with _refusals(address, "the store cannot be used"):
        return _connected(address.scheme, address.bucket, tuple(os.environ.get(name) for name in SETTINGS))


@functools.lru_cache(maxsize=16)
def _connected(scheme: str, bucket: str, values: tuple[str | None, ...]) -> Any:
    from pyarrow import fs

    said = {name: value for name, value in zip(SETTINGS, values, strict=True) if value}
    if scheme == "s3":
        return fs.S3FileSystem(**_for_s3(bucket, said))
    if scheme == "gs":
        host = said.get("STORAGE_EMULATOR_HOST")
        limit = dt.timedelta(seconds=RETRY_SECONDS)
        if host is None:
            return fs.GcsFileSystem(retry_time_limit=limit)
        inner = host.rpartition("://")[2].rstrip("/")
        return fs.GcsFileSystem(anonymous=True, endpoint_override=inner, scheme=host.partition("://")[0] or "http", retry_time_limit=limit)
    if not hasattr(fs, "AzureFileSystem"):
        raise JobError(f"{scheme}://{bucket}: this build of pyarrow has no Azure store; install a newer one")
    return fs.FileSystem.from_uri(f"{scheme}://{bucket}/")[0]


def _for_s3(bucket: str, said: dict[str, str]) -> dict[str, Any]:
    from pyarrow import fs

    attempts = said.get("AWS_MAX_ATTEMPTS", "")
    strategy = fs.AwsStandardS3RetryStrategy(max_attempts=int(attempts) if attempts.isdigit() and int(attempts) else ATTEMPTS)
    chosen: dict[str, Any] = {"retry_strategy": strategy, "background_writes": False}
    endpoint = said.get("AWS_ENDPOINT_URL_S3") or said.get("AWS_ENDPOINT_URL")
    region = said.get("AWS_REGION") or said.get("AWS_DEFAULT_REGION")
    if endpoint is not None:
        chosen["endpoint_override"] = endpoint
    elif region is None:
        with contextlib.suppress(OSError):  # a bucket that does not tell; then pyarrow looks into the user's settings
            region = fs.resolve_s3_region(bucket)
    if region is not None:
        chosen["region"] = region
    if "AWS_CA_BUNDLE" in said:
        chosen["tls_ca_file_path"] = said["AWS_CA_BUNDLE"]
    if said.get("AWS_SKIP_SIGNATURE", "").lower() in {"1", "true"}:
        chosen["anonymous"] = True
    return chosen


# Reading


def opened_object(address: Address) -> tuple[Any, ObjectVersion]:
    """Open an object for reading, and return it with its version.

    Raises
    ------
    StorageError
        If there is none, or the store refuses or fails.
    """
    with _refusals(address, "cannot be read"):
        file = _system(address).open_input_file(address.inner)
        said = {key: value.decode(errors="replace") for key, value in (file.metadata() or {}).items()}
        tag = "/".join(said[key] for key in ("ETag", "etag", "generation", "VersionId") if key in said)
        time = said.get("Last-Modified") or said.get("updated") or said.get("timeUpdated") or ""
        return file, ObjectVersion(str(address), int(file.size()), time, tag)


def version(address: Address) -> ObjectVersion:
    """The version of an object that is there; raises like `opened_object`."""
    file, found = opened_object(address)
    file.close()
    return found


def kind(address: Address) -> str:
    """What an address names: "object", "folder" or "nothing"."""
    from pyarrow import fs

    with _refusals(address, "cannot be read"):
        found = _system(address).get_file_info([address.inner])[0].type
    return {fs.FileType.File: "object", fs.FileType.Directory: "folder"}.get(found, "nothing")


def listed(folder: Address, *, recursive: bool = True) -> list[Address]:
    """The objects below an address, sorted."""
    from pyarrow import fs

    with _refusals(folder, "cannot be listed"):
        found = _system(folder).get_file_info(fs.FileSelector(folder.inner, allow_not_found=True, recursive=recursive))
    start = len(folder.bucket.partition("@")[0]) + 1
    return sorted(Address(folder.scheme, folder.bucket, each.path[start:]) for each in found if each.type == fs.FileType.File)


def content(address: Address, most: int | None = None) -> bytes:
    """The whole of a small object."""
    file, found = opened_object(address)
    with file, _refusals(address, "cannot be read"):
        if most is not None and found.size > most:
            raise StoreError(f"{address}: more than {most} bytes")
        data: bytes = file.read()
        if len(data) != found.size:
            raise StoreError(f"{address}: cannot be read", CAUSES["NETWORK_CONNECTION"])
        return data


def digest(address: Address, stop: threading.Event | None = None) -> str:
    """SHA-256 of the content of an object, or of a part of it if `stop` is set meanwhile."""
    file, found = opened_object(address)
    said, size = hashlib.sha256(), 0
    with file, _refusals(address, "cannot be read"):
        while not (stop is not None and stop.is_set()) and (part := file.read(PART_BYTES)):
            said.update(part)
            size += len(part)
    if size != found.size and not (stop is not None and stop.is_set()):
        raise StoreError(f"{address}: cannot be read", CAUSES["NETWORK_CONNECTION"])
    return said.hexdigest()


# Writing


def has_bucket(address: Address) -> bool:
    """Whether there is the bucket of an address."""
    return kind(Address(address.scheme, address.bucket, "")) == "folder"


def identity(address: Address) -> str | None:
    """A text that differs for every later object with this name; None if there is none."""
    try:
        found = version(address)
    except StoreError as error:
        if error.is_absence:
            return None
        raise
    return f"{found.tag}:{found.size}:{found.time}"


def has_content(address: Address, sha256: str) -> bool:
    """Whether the object is there and has the content with this digest."""
    try:
        return digest(address) == sha256
    except StoreError as error:
        if error.is_absence:
            return False
        raise


def delete(address: Address) -> None:
    """Remove an object, if it is there."""
    with _refusals(address, "cannot be removed"):
        if kind(address) == "object":
            _system(address).delete_file(address.inner)


def upload(file: Path, address: Address, sha256: str, *, overwrite: bool) -> None:
    """Write a complete file as an object, which is visible when all of it has arrived, and not before.

    Stores have no such step through pyarrow as "only if nothing has the name": the name is looked at immediately before the upload.

    Parameters
    ----------
    file : Path
        The file.
    address : Address
        Of the object.
    sha256 : str
        Digest of the content.
    overwrite : bool
        Whether an object that has the name is replaced.

    Raises
    ------
    FileExistsError
        If another object has the name, and is not replaced.
    StorageError
        If the store refuses or fails; then no part of the content is visible.
    OSError
        If the file cannot be read.
    """
    if not overwrite and identity(address) is not None:
        if has_content(address, sha256):
            return
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(address))
    try:
        _send(file, address)
    except StoreError:
        # The answer may have been lost, and not the object.
        with contextlib.suppress(StoreError):
            if has_content(address, sha256):
                return
        raise


def _parts(content: IO[bytes], size: int, part: int) -> Iterator[bytes]:
    """A file in parts; raises OSError if it is not as long as it was."""
    done = 0
    while data := content.read(part):
        done += len(data)
        yield data
    if done != size:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def _send(file: Path, address: Address) -> None:
    size = file.stat().st_size
    part = max(PART_BYTES, -(-size // MOST_PARTS))
    with file.open("rb", buffering=0) as content, _refusals(address, "cannot be written"):
        stream = _system(address).open_output_stream(address.inner)
        try:
            for data in _parts(content, size, part):
                stream.write(data)
        except BaseException:
            # What pyarrow drops it closes, and what is closed is complete for the store: an upload that failed is never dropped.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(stream))
            raise
        stream.close()
