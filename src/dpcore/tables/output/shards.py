"""Tables in several files: the shards, and a manifest beside them that names each with its rows, its size and its digest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpcore._dataclasses import dataclass
from dpcore._disk import stores
from dpcore._disk.addresses import Address, Location
from dpcore.errors import DataError, StorageError, reason
from dpcore.tables.sections import MOST_SHARDS
from dpcore.tables.sources import Where, bytes_of, size_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


ENDING = ".shards.json"
FORMAT = 1
AUTO_ROWS, AUTO_MOST, AUTO_UNKNOWN = 1 << 22, 64, 8
"""What "auto" stands for: a shard for so many rows, at most so many; and how many where the number of rows is not known."""
MOST_BYTES = 16 << 20
ORDER = (
    "row groups (of Arrow files: record batches) are dealt out in turn: number g of the table is number g // k of shard g % k, of k shards"
)


@dataclass(frozen=True, slots=True)
class Shard:
    """A file of a table.

    Attributes
    ----------
    path : Path or Address
        Where it is.
    rows, size : int
        Its rows, and its bytes.
    sha256 : str
        Its digest.
    """

    path: Location
    rows: int
    size: int
    sha256: str


def automatic(rows: int | None) -> int:
    """How many shards "auto" stands for; None if the rows are not known before they are read."""
    return AUTO_UNKNOWN if rows is None else min(max(-(-rows // AUTO_ROWS), 1), AUTO_MOST)


def manifest_path(output: Where) -> Where:
    """The manifest of a table that is named like this."""
    return output.with_name(f"{output.stem}{ENDING}")


def shard_paths(output: Where, shards: int) -> tuple[Where, ...]:
    """The files of a table: out.parquet is in out-1-of-3.parquet and so on, in an order that sorts."""
    width = len(str(shards))
    return tuple(output.with_name(f"{output.stem}-{place:0{width}}-of-{shards}{output.suffix}") for place in range(1, shards + 1))


def is_manifest(path: str | Path) -> bool:
    """Whether a path has the ending of a manifest."""
    return str(path).endswith(ENDING)


def manifest_content(said: dict[str, Any], shards: Sequence[Shard]) -> bytes:
    """The text of a manifest; `said` is the privacy metadata of the table."""
    listed = [{"name": each.path.name, "rows": each.rows, "bytes": each.size, "sha256": each.sha256} for each in shards]
    document = {
        "format": FORMAT,
        "kind": "shards",
        "dpcore": said,
        "rows": sum(each.rows for each in shards),
        "order": ORDER,
        "shards": listed,
    }
    return (json.dumps(document, ensure_ascii=False, indent=2) + "\n").encode()


def read_manifest(path: Location) -> list[Shard]:
    """The shards that a manifest names, which lie beside it.

    Raises
    ------
    DataError
        If it is not what dpcore writes.
    StorageError
        If it cannot be read.
    """
    try:
        if (size_of(path) or 0) > MOST_BYTES:
            raise DataError(f"{path}: more than {MOST_BYTES} bytes, which no manifest has")
        document = json.loads(bytes_of(path))
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"{path}: cannot be read{reason(error)}") from None
    except (ValueError, RecursionError):
        raise DataError(f"{path}: not JSON, so the manifest is damaged") from None
    listed = document.get("shards") if isinstance(document, dict) and document.get("format") == FORMAT else None
    if not isinstance(listed, list) or not 1 <= len(listed) <= MOST_SHARDS:
        raise DataError(f"{path}: not the manifest that dpcore writes beside the shards of a table")
    found = [_shard(path, each) for each in listed]
    if len({each.path for each in found}) < len(found):
        raise DataError(f"{path}: the manifest names a shard twice")
    return found


def _shard(manifest: Location, said: object) -> Shard:
    wanted = {"name": str, "rows": int, "bytes": int, "sha256": str}
    if not isinstance(said, dict) or any(type(said.get(key)) is not kind for key, kind in wanted.items()):
        raise DataError(f"{manifest}: an entry of the manifest is damaged")
    name = said["name"]
    if not name or name != Path(name).name or name in {".", ".."} or "\\" in name or "\0" in name:
        raise DataError(f"{manifest}: a shard lies beside its manifest, and an entry names another place")
    return Shard(manifest.with_name(name), said["rows"], said["bytes"], said["sha256"])


def shards_of(manifest: Location) -> list[Shard]:
    """The shards of a table, all of them in their places.

    Raises
    ------
    DataError
        If one is missing or has another size.
    """
    found = read_manifest(manifest)
    for shard in found:
        try:
            size = size_of(shard.path)
        except StorageError:
            raise
        except OSError as error:
            raise StorageError(f"{shard.path}: cannot be read{reason(error)}") from None
        if size is None:
            raise DataError(f"{manifest}: the shard {shard.path.name} is missing: the table is not complete without it")
        if size != shard.size:
            raise DataError(
                f"{shard.path}: {size} bytes, and {manifest.name} says {shard.size}: the shard is of another run, or was changed"
            )
    return found


def named_shards(paths: Iterable[Location]) -> Iterator[tuple[Location, Shard]]:
    """The shards among some files, each with the manifest beside it that names it, after a check that the table is complete."""
    wanted = set(paths)
    for folder in sorted({path.parent for path in wanted}):
        for manifest in _manifests_in(folder):
            if any(shard.path in wanted for shard in _named(manifest)):
                yield from ((manifest, shard) for shard in shards_of(manifest) if shard.path in wanted)


def _manifests_in(folder: Location) -> list[Location]:
    """What has the ending of a manifest in a folder."""
    if isinstance(folder, Address):
        return [each for each in stores.listed(folder, recursive=False) if is_manifest(each.name)]
    return sorted(folder.glob(f"*{ENDING}"))


def _named(manifest: Location) -> list[Shard]:
    """What a file with the ending of a manifest names; nothing if it is something else, such as a file of another program."""
    try:
        return read_manifest(manifest)
    except DataError:
        return []
