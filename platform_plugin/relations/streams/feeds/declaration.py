"""`FilesFeed`, `KafkaFeed` and `TableFeed`: a stream's source, from its statement to its stored form and back."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from platform_plugin.algebra.types.data_types import List, Map, Struct
from platform_plugin.errors import InvalidValue, PlatformError, UnsupportedType
from platform_plugin.lake.catalogue.identifiers import new_uuid
from platform_plugin.lake.commit.schema_operations import CreateTableOp
from platform_plugin.lake.files.sources import make_absolute
from platform_plugin.language import statements as s
from platform_plugin.language.text.file_formats import format_of, uncompressed_name
from platform_plugin.language.text.options import FEEDS, STREAM
from platform_plugin.language.text.places import Span, locate_offset

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.lake.catalogue.relations import Declaration
    from platform_plugin.lake.catalogue.tables import Name, Snapshot, Table
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.lake.files.storage import Storage
    from platform_plugin.lake.lake import Lake

# What tells readers of records how they are written, by our words.
_READER = (
    "header",
    "delimiter",
    "null",
    "quote",
    "escape",
    "encoding",
    "date_format",
    "timestamp_format",
    "multiline",
    "compression",
)
# For so long files that are gone are remembered one by one, where their names or times grow.
REMEMBER = timedelta(days=7)
_DURATIONS = ("settle", "remember")
MAX_FILES, MAX_BYTES, MAX_ROWS = 1000, 1 << 30, 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesFeed:
    """The files that match a glob, each read once."""

    glob: str
    format: Literal["csv", "json", "parquet"]
    reader: Mapping[str, Any] = field(default_factory=dict)
    on_malformed: Literal["quarantine", "fail"] = "quarantine"
    extra_fields: Literal["ignore", "quarantine"] = "ignore"
    on_change: Literal["report", "fail"] = "report"
    settle: timedelta = timedelta(0)
    ordered_by: Literal["name", "time"] | None = None
    remember: timedelta = REMEMBER
    max_files: int = MAX_FILES
    max_bytes: int = MAX_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaFeed:
    """The records of a topic, each read once. Credentials are never part of it: see `kafka_settings`."""

    brokers: str
    topic: str
    format: Literal["csv", "json"] = "json"
    reader: Mapping[str, Any] = field(default_factory=dict)
    on_malformed: Literal["quarantine", "fail"] = "quarantine"
    extra_fields: Literal["ignore", "quarantine"] = "ignore"
    on_gap: Literal["fail", "skip"] = "fail"
    start: Literal["earliest", "latest"] = "earliest"
    max_rows: int = MAX_ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFeed:
    """The rows that are appended to a table of the same lake, or, with `changes`, all changes of it."""

    table: str
    start: Literal["earliest", "latest"] = "earliest"
    changes: bool = False
    max_files: int = MAX_FILES
    max_bytes: int = MAX_BYTES


Feed = FilesFeed | KafkaFeed | TableFeed


def plan_feed(written: s.Feed, columns: Sequence[Field], storage: Storage) -> dict[str, Any]:
    """The stored form of a feed in a statement; whatever could only fail later is refused now, at its place in the statement."""
    location = written.location
    with _blaming(written.span):
        if written.kind == "FILES":
            location = _absolute_glob(location, storage)
    options = {option.name: _plain(option.value) for option in written.options}
    if written.kind == "FILES":
        options.setdefault("format", format_of(location) or "")
        if options["format"] == "csv" and uncompressed_name(location).endswith(".tsv"):
            options.setdefault("delimiter", "\t")
    places = {option.name: option.span for option in written.options}
    with _blaming(places.get("format", written.span)):
        _check_format(written.kind, location, options.get("format"), columns)
    for name in ("max_files", "max_bytes", "max_rows"):
        if options.get(name) == 0:
            with _blaming(places[name]):
                raise InvalidValue(
                    f'option "{name}" is 0, so that no batch could hold anything', hint="leave it out, or give it at least 1"
                )
    stored = {"kind": written.kind, "location": location, "options": options}
    with _blaming(written.span):
        feed_of(stored)
    return stored


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedDeclaration:
    """What a feed adds to a new stream: its columns, the stored option, and the table whose files it shares."""

    columns: Sequence[Field]
    options: Mapping[str, Any] = field(default_factory=dict)
    source: Table | None = None

    def create(self, commit: Commit, name: Name, comment: str | None) -> Table:
        """The stream's table. Over another table it has the same columns, ids and folder, so that files fit both."""
        if self.source is None:
            return commit.create_table(name, self.columns, comment=comment)
        table = replace(self.source, id=None, uuid=new_uuid(), name=name, comment=comment, partition_keys=(), partition_id=None)
        commit.also(CreateTableOp(table))
        return table


def declared_feed(lake: Lake, statement: s.CreateStream, name: Name, snapshot: Snapshot) -> FeedDeclaration:
    """The feed of a CREATE STREAM; without columns in the statement, those of the source are taken."""
    written = statement.feed
    if written is None:
        return FeedDeclaration(columns=statement.columns)
    source: Table | None = None
    if written.relation is not None:
        from platform_plugin.relations.streams.feeds.table_ingest import refuse_source

        with _blaming(written.relation.span):
            source = lake.table(_lake_name(written.relation), snapshot)
            if any(option.name == "changes" and option.value for option in written.options):
                return _declared_changes(lake, written, source)
            refuse_source(lake, source, name.schema)
    columns = statement.columns if source is None else source.fields
    stored = plan_feed(written, columns, lake.storage)
    feed = feed_of(stored)
    with _blaming(written.span):
        for place in feed_places(feed):
            lake.sources.check(place)
    if isinstance(feed, FilesFeed) and not columns:
        from platform_plugin.relations.streams.feeds.file_shapes import read_columns

        with _blaming(written.span):
            columns = read_columns(feed, lake.sources)
    return FeedDeclaration(columns=columns, options={"feed": stored} | ({"borrows_files": True} if source else {}), source=source)


def _declared_changes(lake: Lake, written: s.Feed, source: Table) -> FeedDeclaration:
    """The feed of a table's changes, which shares no files: each row has its kind and weight beside it."""
    from platform_plugin.relations.streams.feeds.change_ingest import change_columns, refuse_changes_of

    refuse_changes_of(lake, source)
    columns = change_columns(source)
    return FeedDeclaration(columns=columns, options={"feed": plan_feed(written, columns, lake.storage)})


def altered_feed(declaration: Declaration, changes: Sequence[s.Option], columns: Sequence[Field]) -> dict[str, Any]:
    """The stored feed after ALTER STREAM … SET, or nothing if no change is about the feed."""
    mine = [option for option in changes if option.name not in STREAM]
    if not mine or declaration.kind != "stream":
        return {}
    kept = declaration.options.get("feed")
    for option in mine:
        with _blaming(option.span):
            if kept is None:
                raise InvalidValue(f'option "{option.name}" is about a feed, and the stream has none', hint="rows are pushed into it")
            if option.name not in FEEDS[kept["kind"]]:
                known = ", ".join(FEEDS[kept["kind"]])
                raise InvalidValue(f'a feed from {kept["kind"].lower()} has no option "{option.name}"', hint=f"its options are {known}")
    altered = {**kept, "options": kept["options"] | {option.name: _plain(option.value) for option in mine}} if kept else {}
    _check_format(altered["kind"], altered["location"], altered["options"].get("format"), columns)
    feed_of(altered)
    return {"feed": altered}


TABLE_FEED = '"kind": "TABLE"'
"""What the stored options of a stream contain whose feed is a table."""


def feed_of(stored: Mapping[str, Any]) -> Feed:
    """The feed for its stored form.

    >>> feed_of({"kind": "KAFKA", "location": "one:9092,two:9092/posts", "options": {"max_rows": 10}}).topic
    'posts'
    """
    options, location = dict(stored["options"]), str(stored["location"])
    reader = {name: options.pop(name) for name in _READER if options.get(name) is not None}
    if stored["kind"] == "TABLE":
        return TableFeed(table=location, **options)
    if stored["kind"] == "FILES":
        remember = options.pop("remember", None)
        settle, kept = timedelta(seconds=options.pop("settle", 0)), REMEMBER if remember is None else timedelta(seconds=remember)
        files = FilesFeed(glob=location, reader=reader, settle=settle, remember=kept, **options)
        if remember is not None and files.ordered_by is None:
            raise InvalidValue(
                'option "remember" says nothing of files that may have any name and time: they are remembered for ever',
                hint="add ordered_by = 'name' or 'time' if names or times of new files are later than those of older ones",
            )
        if files.extra_fields == "quarantine" and not has_json_lines(files):
            raise InvalidValue(
                "extra fields are only seen in JSON files with an object a line, in UTF-8",
                hint="leave out extra_fields, multiline and encoding",
            )
        return files
    brokers, _, topic = location.partition("/")
    if not brokers or not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", topic):
        raise InvalidValue(f'"{location}" does not name a topic', hint="write 'host:9092/topic', or 'one:9092,two:9092/topic'")
    if "@" in brokers:
        raise InvalidValue(
            "the brokers of a topic are named with credentials", hint="set PLATFORM_KAFKA_SASL_USERNAME and PLATFORM_KAFKA_SASL_PASSWORD"
        )
    topic_feed = KafkaFeed(brokers=brokers, topic=topic, reader=reader, **options)
    if topic_feed.extra_fields == "quarantine" and topic_feed.format != "json":
        raise InvalidValue("extra fields are only seen in JSON records", hint="leave it out: a CSV record with more values never fits")
    return topic_feed


def feed_places(feed: Feed) -> list[str]:
    """The places outside the lake that a feed reads: its glob, or each of its brokers."""
    match feed:
        case FilesFeed():
            return [feed.glob]
        case KafkaFeed():
            return [f"kafka://{broker.strip()}" for broker in feed.brokers.split(",")]
        case _:
            return []


def has_json_lines(feed: FilesFeed) -> bool:
    """Whether each line of the files is a JSON object in UTF-8."""
    return feed.format == "json" and not feed.reader.get("multiline") and "encoding" not in feed.reader


def has_csv_lines(feed: FilesFeed) -> bool:
    """Whether each line of the files is a CSV record, so that none has a line break between quotes."""
    return feed.format == "csv" and not feed.reader.get("multiline")


def read_declared_feed(declaration: Declaration) -> Feed | None:
    """The feed of a stream, or None for a stream without one."""
    stored = declaration.options.get("feed")
    return None if stored is None else feed_of(stored)


def feed_statement(stored: Mapping[str, Any]) -> s.Feed:
    """The feed as part of a statement, for SHOW CREATE."""
    options = {name: timedelta(seconds=value) if name in _DURATIONS else value for name, value in stored["options"].items()}
    relation = s.WrittenName(parts=tuple(stored["location"].split("."))) if stored["kind"] == "TABLE" else None
    return s.Feed(
        kind=stored["kind"],
        location=stored["location"],
        relation=relation,
        options=tuple(s.Option(name=name, value=value) for name, value in options.items()),
    )


def _lake_name(name: s.WrittenName) -> str | tuple[str, str]:
    return name.relation if name.schema is None else (name.schema, name.relation)


def _plain(value: Any) -> Any:
    return value.total_seconds() if isinstance(value, timedelta) else value


class _blaming:  # noqa: N801  reads as a word in a `with`
    """Gives errors without a place the place of this part of the statement."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, PlatformError) and not hasattr(error, "line") and self._span.source:
            locate_offset(self._span, 0, len(self._span.text)).attach(error)


def _absolute_glob(location: str, storage: Storage) -> str:
    """A glob that means the same from everywhere; a path without a scheme is one of this machine."""
    path = make_absolute(location)
    name = path.rstrip("/").rsplit("/", 1)[-1]
    if location.endswith("/"):
        raise InvalidValue(f'"{location}" is a folder', hint=f"say which of its files: '{location}*.csv'")
    if name.startswith((".", "_")):
        raise InvalidValue(
            f'files named "{name}" are hidden to Spark', hint="names that start with . or _ are for unfinished files; rename them"
        )
    if (storage.is_local and "://" not in path and path.startswith(storage.root)) or path.startswith(storage.root):
        raise InvalidValue("the glob is in the lake's own data folder", hint="write FROM TABLE to follow what is appended to a table")
    return path


def _check_format(kind: str, location: str, chosen: Any, columns: Sequence[Field]) -> None:
    if chosen == "avro":
        raise InvalidValue(
            "Avro can't be read: Spark's reader for it is not part of its Python package",
            hint="convert to Parquet, or declare another format",
        )
    if kind == "FILES" and not chosen:
        raise InvalidValue(f'the format of "{location}" is not clear', hint="add (FORMAT csv), (FORMAT json) or (FORMAT parquet)")
    nested = next((column for column in columns if isinstance(column.type, List | Map | Struct)), None)
    if chosen == "csv" and nested is not None:
        raise UnsupportedType(
            f'column "{nested.name}" is {nested.type}, which CSV can\'t hold', hint="use JSON or Parquet, or leave the column out"
        )
