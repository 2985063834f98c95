"""`read_listing` and `plan_batch`: the files that match a glob, those of the next batch, and those that have changed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from platform_plugin.errors import InvalidValue
from platform_plugin.lake.files.sources import EVERYWHERE, Sources
from platform_plugin.lake.files.storage import explain_storage_errors, missing_file_system
from platform_plugin.relations.streams.feeds.sources import REFUSED, KnownFile, SourceFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fsspec import AbstractFileSystem

    from platform_plugin.relations.streams.feeds.sources import Marks

_THREADS = 8
_MOMENTS = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")
_TAGS = ("ETag", "etag", "e_tag", "md5Hash", "checksum")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBatch:
    """The files to read next, those that changed after they were read, and those for later: too many, too young, or empty.

    Files in `late` lie before a mark up to which everything was read: they may have been read, so they are not read.
    """

    files: tuple[SourceFile, ...] = ()
    changed: tuple[SourceFile, ...] = ()
    late: tuple[SourceFile, ...] = ()
    waiting: tuple[SourceFile, ...] = ()
    settling: tuple[SourceFile, ...] = ()
    empty: tuple[SourceFile, ...] = ()


def plan_batch(
    listing: Iterable[SourceFile],
    known: Mapping[str, KnownFile],
    *,
    max_files: int,
    max_bytes: int,
    now: float = 0.0,
    settle_seconds: float = 0.0,
    marks: Marks | None = None,
) -> FileBatch:
    """The next batch: the oldest files first, as many as the limits allow but at least one.

    >>> files = [SourceFile(uri=name, size_bytes=10, version="1", modified=1.0) for name in "abc"]
    >>> batch = plan_batch(files, {"a": KnownFile(version="0")}, max_files=1, max_bytes=100)
    >>> [[file.uri for file in part] for part in (batch.files, batch.changed, batch.waiting)]
    [['b'], ['a'], ['c']]
    """
    files: list[SourceFile] = []
    changed: list[SourceFile] = []
    waiting: list[SourceFile] = []
    settling: list[SourceFile] = []
    empty: list[SourceFile] = []
    late: list[SourceFile] = []
    size = 0
    for file in sorted(listing, key=lambda file: (file.modified or 0.0, file.uri)):
        before = known.get(file.uri)
        if before is not None and (before.state != REFUSED or file.version == before.version):
            if file.version not in (before.version, before.reported_version):
                changed.append(file)
        elif before is None and marks is not None and marks.covers(file):
            late.append(file)
        elif not file.size_bytes:
            empty.append(file)
        elif settle_seconds and file.modified is not None and now - file.modified < settle_seconds:
            settling.append(file)
        elif waiting or (files and (len(files) >= max_files or size + file.size_bytes > max_bytes)):
            waiting.append(file)
        else:
            files.append(file)
            size += file.size_bytes
    return FileBatch(
        files=tuple(files),
        changed=tuple(changed),
        late=tuple(late),
        waiting=tuple(waiting),
        settling=tuple(settling),
        empty=tuple(empty),
    )


def read_listing(glob: str, sources: Sources = EVERYWHERE) -> list[SourceFile]:
    """Every file that matches a glob now, without hidden ones, whose names start with a dot or an underscore.

    A glob, or a link among the files, that leads out of the permitted sources is an error.
    """
    sources.check(glob)
    system, path = open_system(glob)
    with explain_storage_errors(glob):
        system.invalidate_cache()
        try:
            found = system.glob(path, detail=True)
        except ValueError as error:
            raise InvalidValue(f'"{glob}" is not a glob', detail=str(error), hint="write ** as a whole part of a path only") from error
    listed = ((name, _followed(system, name, info)) for name, info in found.items() if not name.rsplit("/", 1)[-1].startswith((".", "_")))
    files = [source_file(system, name, info) for name, info in listed if info.get("type") == "file"]
    if sources.lists and "://" not in glob:
        for file in files:
            sources.check_file(file.uri)
    return files


def _followed(system: AbstractFileSystem, name: str, info: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a symbolic link leads to; a listing tells of the link itself."""
    if not info.get("islink"):
        return info
    try:
        return cast("Mapping[str, Any]", system.info(name))
    except FileNotFoundError:
        return {"type": "broken link"}


def read_changed(files: Sequence[SourceFile]) -> list[SourceFile]:
    """Those of the files that have changed since they were listed."""
    if not files:
        return []
    system, _ = open_system(files[0].uri)
    system.invalidate_cache()

    def has_changed(file: SourceFile) -> bool:
        try:
            info = system.info(path_in(system, file.uri))
        except OSError:
            return True
        return source_file(system, file.uri, info).version != file.version

    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        return [file for file, is_changed in zip(files, pool.map(has_changed, files), strict=True) if is_changed]


def open_system(uri: str) -> tuple[AbstractFileSystem, str]:
    """The file system of a URI or glob and the path in it; credentials come from the environment."""
    import fsspec

    try:
        system, path = fsspec.url_to_fs(uri)
    except (ImportError, ValueError) as error:
        raise missing_file_system(uri.partition("://")[0], error) from error
    return system, path


def path_in(system: AbstractFileSystem, uri: str) -> str:
    """The path of a listed file in its file system."""
    return str(system._strip_protocol(uri)) if "://" in uri else uri  # noqa: SLF001  fsspec's own counterpart of unstrip_protocol


def source_file(system: AbstractFileSystem, name: str, info: Mapping[str, Any]) -> SourceFile:
    """The file for an entry of a listing. A tag of its content is the best version; else its times and its place on the disk."""
    uri = name if "://" in name or (name.startswith("/") and "file" in _protocols(system)) else system.unstrip_protocol(name)
    size = int(info.get("size") or 0)
    tag = next((str(info[key]) for key in _TAGS if info.get(key)), None)
    modified = next((moment for key in _MOMENTS if (moment := _seconds(info.get(key))) is not None), None)
    place = [str(info[key]) for key in ("ino",) if info.get(key)]
    version = tag or "-".join([str(size), *([] if modified is None else [repr(modified)]), *place])
    return SourceFile(uri=uri, size_bytes=size, version=version, modified=modified)


def _protocols(system: AbstractFileSystem) -> tuple[str, ...]:
    return (system.protocol,) if isinstance(system.protocol, str) else tuple(system.protocol)


def _seconds(moment: object) -> float | None:
    if isinstance(moment, datetime):
        return moment.timestamp()
    if isinstance(moment, str):
        try:
            return datetime.fromisoformat(moment).timestamp()
        except ValueError:
            return None
    return float(moment) if isinstance(moment, int | float) else None
