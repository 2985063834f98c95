"""`TextProgram` and `ParquetProgram`: tasks read files of other programs for Spark SQL, where Spark has no file system for them."""

from __future__ import annotations

import csv
import io
import json
import lzma
import zlib
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, cast
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from platform_plugin.errors import InvalidValue, QueryFailed
from platform_plugin.lake.files.storage import explain_storage_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# Text is read, and handed on, in parts of this size.
_PART_BYTES = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
VALUE_COLUMN, FILE_COLUMN, INDEX_COLUMN = "\x1fvalue", "\x1fsource", "\x1findex"
"""A record of text, the file that a record is in, and its place there; no column of a user's can have such a name."""


@contextmanager
def _opened(uri: str, store: Mapping[str, Any], compression: str | None = None) -> Iterator[BinaryIO]:
    import fsspec

    with explain_storage_errors(uri):
        system, path = fsspec.url_to_fs(uri, **store)
        with system.open(path, "rb", compression=compression) as file, _telling_damage(uri):
            yield cast("BinaryIO", file)


@contextmanager
def _telling_damage(uri: str) -> Iterator[None]:
    """Say of a file with damage what Spark would say; the client finds out what it is. Errors of codecs have no number."""
    try:
        yield
    except (pa.ArrowException, EOFError, OSError, UnicodeDecodeError, lzma.LZMAError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        why = (str(error) or type(error).__name__).splitlines()[0]
        raise QueryFailed(f'file "{uri}" can\'t be read', detail=f"error while reading file {uri}. (FAILED_READ_FILE) {why}") from error


def _shown(uri: str) -> str:
    """The name of a file as Spark gives it beside a row: a URL."""
    return quote(uri, safe=":/") if "://" in uri else f"file:{quote(uri)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextProgram:
    """Reads the records of text files as bytes in UTF-8, each beside the file that it is in: lines, or what is between two commas.

    `store` opens the files. `names` are the columns that the header of a CSV file must name, where it has one.
    """

    store: Mapping[str, Any] = field(repr=False)
    is_json: bool
    header: bool = False
    names: tuple[str, ...] | None = None
    multiline: bool = False
    encoding: str | None = None
    compression: str | None = None
    delimiter: str = ","
    quote: str = '"'
    escape: str = "\\"

    def read(self, share: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The records of some files."""
        for uri in share:
            gathered: list[bytes] = []
            size = 0
            for record in self._records(uri):
                gathered.append(record)
                size += len(record) + 1
                if size >= _PART_BYTES:
                    yield _batch(gathered, uri)
                    gathered, size = [], 0
            if gathered:
                yield _batch(gathered, uri)

    def _records(self, uri: str) -> Iterator[bytes]:
        with _opened(uri, self.store, self.compression or "infer") as file:
            if self.is_json and self.multiline:
                yield from split_documents(self._decoded(file).read())
                return
            lines: Iterator[bytes] = split_lines(self._decoded(file))
            if self.multiline:
                lines = join_quoted(lines, self.quote.encode(), self.escape.encode())
            records = (line for line in lines if line.strip())
            if self.header and not self.is_json:
                first = next(records, None)
                if first is not None:
                    self._check_header(first, uri)
            yield from records

    def _decoded(self, file: BinaryIO) -> BinaryIO:
        """The file as UTF-8."""
        if self.encoding is None or self.encoding.lower().replace("-", "") == "utf8":
            return file
        text = file.read().decode(self.encoding, errors="replace")
        return io.BytesIO(text.removeprefix("\ufeff").encode())

    def _check_header(self, line: bytes, uri: str) -> None:
        if self.names is None:
            return
        text = line.decode(errors="replace")
        is_plain = len(self.delimiter) == 1 and self.quote
        found = next(csv.reader([text], delimiter=self.delimiter, quotechar=self.quote), []) if is_plain else text.split(self.delimiter)
        if [name.strip().lower() for name in found] != [name.lower() for name in self.names]:
            raise InvalidValue(
                f'the header of file "{uri}" does not name the columns',
                detail=f"it is {text[:200]}, for {', '.join(self.names)}",
                hint="name the columns in the order of the file: COPY t (a, b) FROM …",
            )


def split_lines(file: BinaryIO) -> Iterator[bytes]:
    r"""The lines of a file without their ends, which are \n, \r or \r\n.

    >>> list(split_lines(io.BytesIO(b"a\r\nb\rc\n\nd")))
    [b'a', b'b', b'c', b'', b'd']
    """
    rest, is_first = b"", True
    while chunk := file.read(_PART_BYTES):
        if is_first:
            chunk, is_first = chunk.removeprefix(_BYTE_ORDER_MARK), False
        # The end of the last line may be in the next chunk, and so may its second half.
        *whole, rest = (rest + chunk).splitlines(keepends=True) or [b""]
        yield from (line.rstrip(b"\r\n") for line in whole)
    if rest:
        yield rest.rstrip(b"\r\n")


def join_quoted(lines: Iterator[bytes], quote: bytes, escape: bytes) -> Iterator[bytes]:
    r"""Lines, those joined that a line break between quotes divides.

    >>> list(join_quoted(iter([b'1,"a', b'b"', b"2,c"]), b'"', b"\\"))
    [b'1,"a\nb"', b'2,c']
    """
    waiting: list[bytes] = []
    is_open = False
    for line in lines:
        plain = line.replace(escape + escape, b"").replace(escape + quote, b"") if escape and escape != quote else line
        if quote:
            is_open ^= plain.count(quote) % 2 == 1
        waiting.append(line)
        if not is_open:
            yield b"\n".join(waiting)
            waiting = []
    if waiting:
        yield b"\n".join(waiting)


def split_documents(content: bytes) -> Iterator[bytes]:
    """The objects in a JSON file, in an array or one after the other, as they are written; what is no JSON comes as it is.

    >>> list(split_documents(b' [{"a": 1.50}, {"b": []}]')), list(split_documents(b'{"a": 1}  {"a"'))
    ([b'{"a": 1.50}', b'{"b": []}'], [b'{"a": 1}', b'{"a"'])
    """
    text = content.removeprefix(_BYTE_ORDER_MARK).decode("utf-8", errors="surrogateescape")
    decoder = json.JSONDecoder()
    place = _after(text, 0, " \t\r\n")
    is_array = text[place : place + 1] == "["
    between = " \t\r\n," if is_array else " \t\r\n"
    place = _after(text, place + is_array, between)
    while place < len(text) and not (is_array and text[place] == "]"):
        try:
            _, end = decoder.raw_decode(text, place)
        except ValueError:
            end = len(text)
        yield text[place:end].encode("utf-8", errors="surrogateescape")
        place = _after(text, end, between)


def _after(text: str, place: int, signs: str) -> int:
    while place < len(text) and text[place] in signs:
        place += 1
    return place


def _batch(records: list[bytes], uri: str) -> pa.RecordBatch:
    columns = [pa.array(records, pa.binary()), pa.repeat(pa.scalar(_shown(uri)), len(records))]
    return pa.RecordBatch.from_arrays(columns, names=[VALUE_COLUMN, FILE_COLUMN])


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetProgram:
    """Reads columns of Parquet files by their names, and behind them the file that a row is in, and its position there."""

    store: Mapping[str, Any] = field(repr=False)
    schema: pa.Schema

    def read(self, share: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of some files."""
        for uri in share:
            with _opened(uri, self.store) as file:
                yield from self._rows(pq.ParquetFile(file), uri)

    def _rows(self, file: pq.ParquetFile, uri: str) -> Iterator[pa.RecordBatch]:
        own = {name.lower(): name for name in file.schema_arrow.names}
        wanted = list(self.schema)[:-2]
        names = [own[part.name.lower()] for part in wanted if part.name.lower() in own]
        first = 0
        for batch in file.iter_batches(columns=names):
            by_name = {name.lower(): column for name, column in zip(batch.schema.names, batch.columns, strict=True)}
            count = batch.num_rows
            columns = [_fit(by_name.get(part.name.lower()), part.type, count) for part in wanted]
            columns += [pa.repeat(pa.scalar(_shown(uri)), count), pa.array(np.arange(first, first + count))]
            first += count
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _fit(column: pa.Array | None, kind: pa.DataType, count: int) -> pa.Array:
    if column is None:
        return pa.nulls(count, kind)
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    return column if column.type == kind else column.cast(kind)
