"""`find_damage`: tells a damaged file from a store that does not answer, when Spark can't read the file."""

from __future__ import annotations

import gzip
import lzma
import zlib
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from platform_plugin.relations.streams.feeds.file_listing import open_system, path_in

if TYPE_CHECKING:
    from platform_plugin.relations.streams.feeds.declaration import FilesFeed
    from platform_plugin.relations.streams.feeds.sources import SourceFile

_CHUNK = 1 << 20
_DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError)


def find_damage(feed: FilesFeed, file: SourceFile) -> str | None:
    """The damage of a file that Spark could not read; None if its bytes can't be read either, or are sound in a remote store.

    Then another attempt may help.
    """
    system, _ = open_system(file.uri)
    path = path_in(system, file.uri)
    try:
        if feed.format == "parquet":
            return _parquet_damage(system.cat_file(path)) or _unexplained(file)
        with system.open(path, "rb", compression="infer") as opened:
            while opened.read(_CHUNK):
                pass
    except _DAMAGED as error:
        return f"it can't be unpacked to its end: {error}"
    except OSError as error:
        # The codecs of Python say what is wrong with data by errors without a number; those of the system have one.
        return None if error.errno is not None else f"it can't be unpacked to its end: {error}"
    return _unexplained(file)


def _unexplained(file: SourceFile) -> str | None:
    return None if "://" in file.uri else "Spark can't read it"


def _parquet_damage(content: bytes) -> str | None:
    try:
        for _ in pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True).iter_batches():
            pass
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        return f"it is not a whole Parquet file: {str(error).splitlines()[0]}"
    return None
