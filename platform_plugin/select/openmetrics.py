"""`render_metrics`: the figures of a lake and of the platform server as OpenMetrics text, which Prometheus and its kind collect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime

    from platform_plugin.select.overview import Overview, RelationSize

Labels = tuple[tuple[str, str], ...]


class MetricSources(NamedTuple):
    """What metrics are made of: a lake's overview if one is named, what the server says if one runs, the moment and the version."""

    overview: Overview | None
    server: Mapping[str, Any]
    now: datetime
    version: str


class MetricValue(NamedTuple):
    """One value of a metric."""

    labels: Labels
    value: float


class MetricFamily(NamedTuple):
    """A metric: its name, unit and meaning, and its values."""

    name: str
    unit: str
    about: str
    read: Callable[[MetricSources], Iterable[tuple[Labels, float | None]]]
    kind: str = "gauge"

    def samples(self, sources: MetricSources) -> Iterator[MetricValue]:
        """The values that are known."""
        return (MetricValue(labels, float(value)) for labels, value in self.read(sources) if value is not None)


def render_metrics(sources: MetricSources) -> str:
    """All metrics that have a value, as OpenMetrics text.

    >>> from datetime import UTC, datetime
    >>> print(render_metrics(MetricSources(None, {}, datetime.now(UTC), "1.0")), end="")
    # TYPE platform info
    # HELP platform The version of the package that made this text.
    platform_info{version="1.0"} 1.0
    # TYPE platform_server_up gauge
    # HELP platform_server_up 1 while the platform server of this user runs, 0 otherwise.
    platform_server_up 0.0
    # EOF
    """
    lines: list[str] = []
    for family in FAMILIES:
        samples = list(family.samples(sources))
        if not samples:
            continue
        lines.append(f"# TYPE {family.name} {family.kind}")
        lines += [f"# UNIT {family.name} {family.unit}"] if family.unit else []
        lines.append(f"# HELP {family.name} {_escape(family.about)}")
        suffix = "_info" if family.kind == "info" else ""
        lines += [f"{family.name}{suffix}{_label_text(sample.labels)} {sample.value!r}" for sample in samples]
    return "\n".join([*lines, "# EOF", ""])


def list_metrics(sources: MetricSources) -> list[dict[str, Any]]:
    """The same for programs that read JSON."""
    return [
        {"name": family.name, "labels": dict(sample.labels), "value": sample.value}
        for family in FAMILIES
        for sample in family.samples(sources)
    ]


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _label_text(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in labels) + "}" if labels else ""


def _of_lake(read: Callable[[Overview], float | None]) -> Callable[[MetricSources], Iterable[tuple[Labels, float | None]]]:
    def found(sources: MetricSources) -> Iterable[tuple[Labels, float | None]]:
        return [] if sources.overview is None else [((), read(sources.overview))]

    return found


def _of_relations(
    read: Callable[[RelationSize, datetime], float | None],
) -> Callable[[MetricSources], Iterable[tuple[Labels, float | None]]]:
    def found(sources: MetricSources) -> Iterable[tuple[Labels, float | None]]:
        relations = () if sources.overview is None else sources.overview.relations
        return [((*_named(each.schema, each.name), ("kind", each.kind)), read(each, sources.now)) for each in relations]

    return found


def _of_server(key: str) -> Callable[[MetricSources], Iterable[tuple[Labels, float | None]]]:
    def found(sources: MetricSources) -> Iterable[tuple[Labels, float | None]]:
        return [((), sources.server.get(key))]

    return found


def _of_runs(field: str) -> Callable[[MetricSources], Iterable[tuple[Labels, float | None]]]:
    def found(sources: MetricSources) -> Iterable[tuple[Labels, float | None]]:
        runs = () if sources.overview is None else sources.overview.engines
        return [
            ((*_named(schema, name), ("engine", run.engine)), getattr(run, field))
            for run in runs
            for schema, _, name in (relation.partition(".") for relation in run.relations)
        ]

    return found


def _named(schema: str, name: str) -> Labels:
    return ("schema", schema), ("name", name)


def _version(sources: MetricSources) -> Iterable[tuple[Labels, float | None]]:
    return [((("version", sources.version),), 1.0)]


def _up(sources: MetricSources) -> Iterable[tuple[Labels, float | None]]:
    return [((), 1.0 if sources.server.get("running") else 0.0)]


def _consumers(sources: MetricSources) -> Iterable[tuple[Labels, float | None]]:
    if sources.overview is None:
        return []
    newest = sources.overview.snapshot
    return [((*_named(each.schema, each.name), ("consumer", each.consumer)), newest - each.snapshot) for each in sources.overview.consumers]


def _stalls(read: Callable[[Any], float | None]) -> Callable[[MetricSources], Iterable[tuple[Labels, float | None]]]:
    def found(sources: MetricSources) -> Iterable[tuple[Labels, float | None]]:
        stalls = () if sources.overview is None else sources.overview.stalls
        return [((*_named(each.schema, each.name), ("cause", each.cause)), read(each)) for each in stalls]

    return found


def _offsets(sources: MetricSources) -> Iterable[tuple[Labels, float | None]]:
    offsets = () if sources.overview is None else sources.overview.offsets
    return [((*_named(each.schema, each.name), ("partition", each.partition)), each.offset) for each in offsets]


def _pinned(sources: MetricSources) -> Iterable[tuple[Labels, float | None]]:
    pinned = () if sources.overview is None else sources.overview.pinned
    return [(_named(each.schema, each.name), len(each.tables)) for each in pinned]


FAMILIES: tuple[MetricFamily, ...] = (
    MetricFamily("platform", "", "The version of the package that made this text.", _version, "info"),
    MetricFamily("platform_snapshot", "", "The number of the newest snapshot.", _of_lake(lambda lake: lake.snapshot)),
    MetricFamily(
        "platform_commit_timestamp_seconds",
        "seconds",
        "When the newest snapshot was committed.",
        _of_lake(lambda lake: lake.committed_at.timestamp()),
    ),
    MetricFamily("platform_snapshots", "", "Snapshots that have not expired.", _of_lake(lambda lake: lake.snapshots)),
    MetricFamily("platform_leases", "", "Leases that keep snapshots for readers.", _of_lake(lambda lake: lake.leases)),
    MetricFamily(
        "platform_oldest_leased_snapshot",
        "",
        "The oldest snapshot that a lease keeps.",
        _of_lake(lambda lake: lake.oldest_leased),
    ),
    MetricFamily("platform_files", "", "Files of the newest snapshot, states included.", _of_lake(lambda lake: lake.stored_files)),
    MetricFamily("platform_bytes", "bytes", "Bytes of these files.", _of_lake(lambda lake: lake.stored_bytes)),
    MetricFamily("platform_relation_rows", "", "Rows of a relation.", _of_relations(lambda each, _: each.rows)),
    MetricFamily("platform_relation_files", "", "Files of a relation.", _of_relations(lambda each, _: each.files)),
    MetricFamily("platform_relation_bytes", "bytes", "Bytes of these files.", _of_relations(lambda each, _: each.bytes)),
    MetricFamily(
        "platform_stream_rows_per_second",
        "",
        "Rows that arrived in a stream, a second, over the last minute.",
        _of_relations(lambda each, _: each.rows_per_second),
    ),
    MetricFamily(
        "platform_last_arrival_timestamp_seconds",
        "seconds",
        "When the newest rows of a stream arrived.",
        _of_relations(lambda each, _: None if each.last_arrival is None else each.last_arrival.timestamp()),
    ),
    MetricFamily(
        "platform_waiting_rows",
        "",
        "Rows that a view or sample has not consumed, which readers see nevertheless, or that a stream has not read from its table.",
        _of_relations(lambda each, _: each.rows_waiting),
    ),
    MetricFamily(
        "platform_lag_seconds",
        "seconds",
        "For how long the oldest of these rows has waited.",
        _of_relations(lambda each, now: each.lag_seconds(now)),
    ),
    MetricFamily("platform_feed_offset", "", "The offset of the next record that a stream reads from a partition of its topic.", _offsets),
    MetricFamily("platform_consumer_lag_snapshots", "snapshots", "Snapshots that a consumer of a table's changes is behind.", _consumers),
    MetricFamily("platform_stall", "", "1 for what is stalled: by an error in its maintenance, or by a gate.", _stalls(lambda _: 1.0)),
    MetricFamily("platform_stall_timestamp_seconds", "seconds", "Since when it is stalled.", _stalls(lambda each: each.since.timestamp())),
    MetricFamily("platform_stall_rows", "", "Rows that the stall holds back, if they are known.", _stalls(lambda each: each.row_count)),
    MetricFamily("platform_pinned_tables_changed", "", "Tables that a view read once and that have changed since.", _pinned),
    MetricFamily("platform_run_seconds", "seconds", "What the last run that maintained a relation took.", _of_runs("seconds")),
    MetricFamily("platform_run_estimated_seconds", "seconds", "What that run was estimated to take.", _of_runs("estimated_seconds")),
    MetricFamily("platform_run_rows", "", "Rows that the run read.", _of_runs("rows")),
    MetricFamily("platform_run_snapshot", "", "The snapshot that the run committed.", _of_runs("snapshot")),
    MetricFamily("platform_server_up", "", "1 while the platform server of this user runs, 0 otherwise.", _up),
    MetricFamily("platform_server_sessions", "", "Its open sessions.", _of_server("sessions")),
    MetricFamily("platform_server_running_queries", "", "Its statements that run.", _of_server("running_queries")),
    MetricFamily("platform_server_task_slots", "", "How many tasks it runs at once.", _of_server("task_slots")),
    MetricFamily("platform_server_running_tasks", "", "How many tasks run now.", _of_server("running_tasks")),
    MetricFamily("platform_server_executors", "", "Executors of its cluster.", _of_server("executors")),
    MetricFamily("platform_server_heap_bytes", "bytes", "What its Java holds of its heap.", _of_server("heap_bytes")),
)
"""All metrics; docs/operations/watch.md has a row for each."""
