"""The class `Platform`: an open lake that runs SQL statements, opens streams for appends and reads samples."""

from __future__ import annotations

import weakref
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

from platform_plugin.engine.limits import read_limits
from platform_plugin.engine.option import read_engine
from platform_plugin.engine.workspace import Workspace
from platform_plugin.errors import InvalidValue, ServerLost
from platform_plugin.lake.catalogue.location import Location
from platform_plugin.lake.lake import Lake
from platform_plugin.language.script import parse_script
from platform_plugin.language.statements.registry import find_statement_kind, load
from platform_plugin.language.text.places import locate_offset
from platform_plugin.relations.arguments import Arguments, plan_arguments

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from platform_plugin.engine.limits import Limits
    from platform_plugin.engine.option import EngineOption
    from platform_plugin.engine.spark.server.liveness import Watcher
    from platform_plugin.engine.spark.server.settings import ServerSettings
    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.language.statements.statement import Statement
    from platform_plugin.relations.result import Result
    from platform_plugin.relations.samples.handle import SampleReader
    from platform_plugin.relations.streams.append import Grouping, WhenFull
    from platform_plugin.relations.streams.stream import Stream, Streams

BLOCK_TIMEOUT = timedelta(seconds=60)


class Platform:
    """A lake that is open for SQL. Every read names one snapshot, and everything in that read is at that snapshot.

    >>> import tempfile
    >>> platform = Platform.create(tempfile.mkdtemp() + "/lake")
    >>> platform.execute("CREATE TABLE users (id INT PRIMARY KEY, region STRING)").message
    'table main.users created'
    >>> platform.execute("INSERT INTO users VALUES (1, 'EU'), (:id, 'US')", {"id": 2}).row_count
    2
    >>> [row[1:4] for row in platform.execute("SHOW TABLES")]
    [('users', 'table', 2)]
    >>> platform.close()
    """

    def __init__(
        self,
        lake: Lake,
        *,
        settings: ServerSettings | None = None,
        watcher: Watcher | None = None,
        limits: Limits | None = None,
        engine: EngineOption | None = None,
    ) -> None:
        self.work = Workspace(lake, settings=settings, watcher=watcher, limits=limits, engine=engine)
        self._unread: weakref.WeakSet[Result] = weakref.WeakSet()
        self._streams: Streams | None = None

    @classmethod
    def open(
        cls,
        url: str | Path,
        *,
        settings: ServerSettings | None = None,
        watcher: Watcher | None = None,
        limits: Mapping[str, int | str] | None = None,
        engine: str | None = None,
    ) -> Platform:
        """Open the lake at a URL or folder. The first statement that needs Spark starts it or attaches to it.

        `settings` are used only if this process starts the machine's platform server; `watcher` is called with the progress of the start.
        `limits` are those of the engines by name, such as `{"broadcast_bytes": "256 MiB"}`; SHOW LIMITS lists them. `engine` maintains
        relations that name none: `auto`, `local`, `executors` or `spark_sql`.
        """
        location = Location.parse(url)
        own, asked = read_limits(limits, url=dict(location.limits)), read_engine(engine, url=location.engine)
        return cls(Lake.open(location), settings=settings, watcher=watcher, limits=own, engine=asked)

    @classmethod
    def create(
        cls,
        url: str | Path,
        *,
        exist_ok: bool = False,
        settings: ServerSettings | None = None,
        watcher: Watcher | None = None,
        limits: Mapping[str, int | str] | None = None,
        engine: str | None = None,
    ) -> Platform:
        """Create an empty lake and open it; a place that holds one already is refused, or with `exist_ok` that lake is opened as it is."""
        location = Location.parse(url)
        own, asked = read_limits(limits, url=dict(location.limits)), read_engine(engine, url=location.engine)
        return cls(Lake.create(location, exist_ok=exist_ok), settings=settings, watcher=watcher, limits=own, engine=asked)

    @property
    def lake(self) -> Lake:
        """The lake underneath, for work that needs no SQL."""
        return self.work.lake

    def stream(
        self,
        name: str | tuple[str, str],
        *,
        when_full: WhenFull = "block",
        timeout: timedelta | None = BLOCK_TIMEOUT,
        grouping: Grouping | None = None,
    ) -> Stream:
        """Open a stream for appending from Python, without Spark. Handles of one stream share their commits, and wait for the same appends.

        When the buffer is full, `append` waits for up to `timeout` ("block") or refuses the rows at once ("fail"). `grouping` sets how
        appends are grouped into commits.
        """
        if self._streams is None:
            from platform_plugin.relations import hooks
            from platform_plugin.relations.streams.stream import Streams

            work = self.work
            self._streams = Streams(self.lake, lambda stream, snapshot: hooks.notify_appended(work, stream, snapshot))
        return self._streams.open(name, grouping=grouping, when_full=when_full, timeout=timeout)

    def _await_appends(self, timeout: timedelta | None = None) -> None:
        if self._streams is not None:
            self._streams.wait(timeout)

    def sample(self, name: str | tuple[str, str], *, version: int | None = None) -> SampleReader:
        """Read a sample: `.arrow()` or `.pandas()` are its rows at the newest snapshot, or at an older one."""
        from platform_plugin.relations.samples.handle import open_sample

        if version is None:
            self._await_appends()
        return open_sample(self.work, name, None if version is None else self.lake.snapshot(version))

    def plot(self, sample: str | tuple[str, str], *, versions: Sequence[int] = ()) -> bytes:
        """Draw a sample as SVG: its numeric columns, beside the population's where that is known and beside older snapshots'."""
        from platform_plugin.relations.samples.plot import plot_sample

        self._await_appends()
        return plot_sample(self.work, sample, versions=versions)

    def estimate(
        self,
        query: str,
        parameters: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        error: float = 0.05,
        confidence: float = 0.95,
        timeout: timedelta | None = None,
    ) -> Result:
        """Answer a query from a sample, each number with its bounds: as SELECT … WITH SAMPLE (error = …, confidence = …) does."""
        from platform_plugin.language.query.approximate import check_bounds

        check_bounds(error, confidence)
        return self.execute(
            f"{query.rstrip().rstrip(';')} WITH SAMPLE (error = {error!r}, confidence = {confidence!r})", parameters, timeout=timeout
        )

    def execute(
        self,
        sql: str,
        parameters: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        timeout: timedelta | None = None,
        progress: ProgressHandler | None = None,
        batch_id: str | None = None,
        wait_for_appends: bool = True,
    ) -> Result:
        """Run one statement, or a script of several, and return the last one's result.

        `parameters` are bound to `:name` (a dict) or `?` (a list) and never become part of the text. A statement that
        takes longer than `timeout` is interrupted; `progress` is called while Spark works. With `batch_id` one INSERT or
        COPY adds its rows once, however often it is run under that id. A statement that reads waits first until what this
        platform has appended to streams is committed, unless `wait_for_appends` is false.
        """
        last: Result | None = None
        try:
            for result in self.execute_script(
                sql, parameters, timeout=timeout, progress=progress, batch_id=batch_id, wait_for_appends=wait_for_appends
            ):
                if last is not None:
                    last.close()
                last = result
        except BaseException:
            if last is not None:
                last.close()
            raise
        if last is None:
            raise InvalidValue("there is no statement to run", hint="write one, such as SHOW TABLES")
        return last

    def execute_script(
        self,
        sql: str,
        parameters: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        timeout: timedelta | None = None,
        progress: ProgressHandler | None = None,
        batch_id: str | None = None,
        wait_for_appends: bool = True,
        one_commit: bool = False,
    ) -> Iterator[Result]:
        """Run the statements of a script one by one, each a commit of its own; all are parsed before the first runs.

        With `one_commit` all of a script of CREATE VIEW statements becomes visible at once, or nothing of it.
        """
        if not isinstance(sql, str):
            raise InvalidValue(f"a statement of type {type(sql).__name__}", hint="give SQL as text")
        statements = parse_script(sql)
        limits: dict[str, Any] = {"timeout": timeout, "progress": progress}
        if batch_id is not None:
            if len(statements) != 1 or "batch_id" not in find_statement_kind(statements[0]).takes:
                raise InvalidValue("only a single INSERT or COPY can have a batch id", hint="run it by itself, or leave batch_id out")
            limits["batch_id"] = batch_id
        everything = [parameter for statement in statements for parameter in statement.parameters]
        arguments = plan_arguments(parameters, everything)
        if one_commit:
            yield from self._run_together(statements, timeout if wait_for_appends else None, waits=wait_for_appends)
            return
        used = 0
        for statement in statements:
            own: Arguments = arguments
            if isinstance(arguments, tuple):
                own = arguments[used : used + len(statement.parameters)]
                used += len(statement.parameters)
            if wait_for_appends and find_statement_kind(statement).reads_rows:
                self._await_appends(timeout)
            yield self._run(statement, own, limits)

    def _run_together(self, statements: Sequence[Statement], timeout: timedelta | None, *, waits: bool) -> list[Result]:
        runners = [find_statement_kind(statement).run_together for statement in statements]
        for statement, runner in zip(statements, runners, strict=True):
            if runner is None or runner != runners[0]:
                raise locate_offset(statement.span).attach(
                    InvalidValue(
                        "this statement can't share a commit with others", hint="only CREATE VIEW statements can, among themselves"
                    )
                )
        if not runners or runners[0] is None:
            return []
        if waits:
            self._await_appends(timeout)
        try:
            results: list[Result] = load(runners[0])(self.work, statements)
        except ServerLost:
            self.work.forget_session()
            raise
        return results

    def _run(self, statement: Statement, arguments: Arguments, limits: dict[str, Any]) -> Result:
        try:
            result = self._dispatch(statement, arguments, limits)
        except ServerLost:
            self.work.forget_session()
            raise
        self._unread.add(result)
        return result

    def _dispatch(self, statement: Statement, arguments: Arguments, limits: dict[str, Any]) -> Result:
        # The rooms of statements load what they need, so that SHOW TABLES does not wait for PySpark.
        kind = find_statement_kind(statement)
        if kind.run is None:
            hint = "SELECT, INSERT, UPDATE, DELETE, COPY, CREATE, ALTER, DROP, SHOW"
            raise locate_offset(statement.span).attach(InvalidValue(f"{kind.planned} can't be run by this version", hint=hint))
        given = {"arguments": arguments, **limits}
        result: Result = load(kind.run)(self.work, statement, **{name: given[name] for name in kind.takes if name in given})
        return result

    def close(self) -> None:
        """Close the session and the lake; the machine's platform server stays for others. What was appended is committed first."""
        try:
            if self._streams is not None:
                self._streams.close()
        finally:
            for result in list(self._unread):
                result.close()
            self.work.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f'Platform("{self.lake.location}")'
