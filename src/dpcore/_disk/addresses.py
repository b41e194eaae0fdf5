"""Addresses of objects in stores, such as `s3://bucket/key`, beside paths of files on this machine."""

from __future__ import annotations

import re
from pathlib import Path

from dpcore._dataclasses import dataclass
from dpcore.errors import JobError

SCHEMES = ("s3", "gs", "abfs", "abfss")
"""Of the stores that pyarrow knows: Amazon's and those with its interface, Google's, and Azure's."""
_ADDRESS = re.compile(r"(?P<scheme>[a-z0-9]+)://(?P<bucket>[^/]*)(?:/(?P<key>.*))?", re.DOTALL)
NO_CREDENTIALS = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or run where a role is given (AWS_SKIP_SIGNATURE=true reads "
    "public objects without)",
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS, or run gcloud auth application-default login",
}


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """The name of an object, or of all that begin with it and a slash.

    It has the pure methods of a path, and none that would look for a file.

    Attributes
    ----------
    scheme, bucket, key : str
        `scheme://bucket/key`.
    """

    scheme: str
    bucket: str
    key: str

    @classmethod
    def of(cls, text: str, name: str = "path") -> Address:
        """Read an address; raises `JobError` for one that no store has."""
        found = _ADDRESS.fullmatch(text)
        if found is None or found["scheme"] not in SCHEMES:
            raise JobError(f"{name} = {text!r} must be an address like s3://bucket/key; stores are {', '.join(SCHEMES)}")
        scheme, bucket, key = found["scheme"], found["bucket"], (found["key"] or "").rstrip("/")
        if ":" in bucket or ("@" in bucket and not scheme.startswith("abfs")):
            # The address is printed, and recorded in ledgers.
            raise JobError(f"{name}: an address holds no keys; give them in the environment: {advice(scheme)}")
        if not bucket or any(part in {"", ".", ".."} for part in key.split("/") if key):
            raise JobError(f"{name} = {text!r} must name a bucket and, if more, parts between single slashes that are not . or ..")
        return cls(scheme, bucket, key)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.key}" if self.key else f"{self.scheme}://{self.bucket}"

    @property
    def inner(self) -> str:
        """The path that pyarrow takes."""
        bucket = self.bucket.partition("@")[0]
        return f"{bucket}/{self.key}" if self.key else bucket

    @property
    def name(self) -> str:
        """The last part."""
        return self.key.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """The ending of the name, with its dot."""
        stem, dot, ending = self.name.rpartition(".")
        return f".{ending}" if dot and stem and ending else ""

    @property
    def stem(self) -> str:
        """The name without its ending."""
        return self.name.removesuffix(self.suffix)

    @property
    def parent(self) -> Address:
        """What comes before the name."""
        return Address(self.scheme, self.bucket, self.key.rpartition("/")[0])

    @property
    def parents(self) -> tuple[Address, ...]:
        """All of those, the nearest first."""
        return (self.parent, *self.parent.parents) if self.key else ()

    def with_name(self, name: str) -> Address:
        """The address beside this one."""
        return self.parent.below(name)

    def below(self, name: str) -> Address:
        """The address of a name inside this one."""
        return Address(self.scheme, self.bucket, f"{self.key}/{name}" if self.key else name)

    def is_relative_to(self, other: Address) -> bool:
        """Whether it is this one, or below it."""
        return self == other or other in self.parents

    def absolute(self) -> Address:
        """The address itself."""
        return self


Location = Path | Address
"""Where a file is: on this machine, or in a store."""


def is_address(path: object) -> bool:
    """Whether a text names an object of a store."""
    return isinstance(path, str) and path.partition("://")[0] in SCHEMES and "://" in path


def location_of(text: str) -> Location:
    """The place that a text names."""
    return Address.of(text) if is_address(text) else Path(text)


def argument(path: object) -> str:
    """Write a path as an argument of a command line that a message proposes."""
    text = str(path)
    import shlex

    return shlex.quote(f"./{text}" if text.startswith("-") else text)


def advice(scheme: str) -> str:
    """What to do where credentials are missing."""
    return NO_CREDENTIALS.get(scheme, "set AZURE_STORAGE_ACCOUNT_KEY or another variable that Azure's identity library takes")
