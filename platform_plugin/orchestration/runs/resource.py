"""`PlatformResource`: the platform as a Dagster resource, open during a run, with its Spark jobs tagged by the run."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import dagster as dg
from dagster import InitResourceContext
from pydantic import Field, PrivateAttr

from platform_plugin.engine.spark.session.metrics import JobMetrics, parse_metrics
from platform_plugin.engine.workspace import Workspace
from platform_plugin.errors import CatalogueError
from platform_plugin.lake.catalogue.location import CATALOGUE_FILE, Location
from platform_plugin.lake.upkeep.leases import Lease
from platform_plugin.platform import Platform
from platform_plugin.relations.bind.query import bind_query

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from platform_plugin.engine.limits import Limits
    from platform_plugin.engine.spark.session.session import Session
    from platform_plugin.relations.result import Result


class PlatformResource(dg.ConfigurableResource[Any]):
    """The lake at a URL. The first use in a run opens it, and it is closed when the run ends, even by an error.

    >>> import tempfile
    >>> resource = PlatformResource(url=tempfile.mkdtemp() + "/lake", create=True)
    >>> with resource.opened("run-1"):
    ...     resource.execute("CREATE TABLE users (id INT)").message
    'table main.users created'
    """

    url: str = Field(repr=False, description="The lake: platform+local:///path, platform://user@host/database?data=…, or a folder.")
    create: bool = Field(default=False, description="Create the lake when it is a local folder that does not exist yet.")
    limits: dict[str, str] = Field(default={}, description="Limits of the engines by name; SHOW LIMITS lists them.")

    engine: str | None = Field(default=None, description="The engine that maintains relations: auto, local, executors or spark_sql.")

    _platform: Platform | None = PrivateAttr(default=None)
    _tag: str | None = PrivateAttr(default=None)
    _leases: list[Lease] = PrivateAttr(default_factory=list)

    @contextmanager
    def yield_for_execution(self, context: InitResourceContext) -> Iterator[Self]:
        """Give the resource to one run."""
        with self.opened(context.run.run_id if context.run is not None else "no-run"):
            yield self

    @contextmanager
    def opened(self, tag: str) -> Iterator[Self]:
        """Tag the Spark jobs of the `with` block; afterwards stop those that still run, and close the platform."""
        self._tag = tag
        try:
            yield self
        finally:
            platform, self._platform, self._tag = self._platform, None, None
            leases, self._leases = self._leases, []
            if platform is not None:
                for lease in leases:
                    lease.release()
                if platform.work.is_attached:
                    # Cancelling a run in the web interface must not leave its Spark jobs behind.
                    platform.work.session.interrupt(tag)
                platform.close()

    @property
    def platform(self) -> Platform:
        """The open platform."""
        if self._tag is None:
            message = "the platform is open only inside a run; use `with resource.opened(tag)` elsewhere"
            raise RuntimeError(message)
        if self._platform is None:
            self._platform = self._open()
            option = self._platform.work.engine_option
            self._platform.work = _TaggedWorkspace(self._platform.lake, tag=self._tag, limits=self._platform.work.limits)
            self._platform.work.engine_option = option
        return self._platform

    def execute(self, sql: str, parameters: Any = None) -> Result:
        """Run SQL, as `Platform.execute` does."""
        return self.platform.execute(sql, parameters)

    def frame(self, sql: str) -> DataFrame:
        """A query as a Spark DataFrame, which is valid until the run ends."""
        work = self.platform.work
        # It is read when its user asks it for rows: until the run ends.
        self.hold()
        return bind_query(work, sql, self._leases[-1].snapshot).frame

    def hold(self) -> int:
        """The newest snapshot, under a lease until the run ends."""
        self._leases.append(self.platform.lake.lease(holder=f"run {self._tag}"))
        return self._leases[-1].snapshot.id

    def read_metrics(self) -> JobMetrics | None:
        """The cost of this run's Spark jobs so far; None if Spark was not used, or if its server can't be asked."""
        if self._platform is None or self._tag is None or not self._platform.work.is_attached:
            return None
        answer = self._platform.work.session.read_metrics(self._tag)
        return None if answer is None else parse_metrics(answer, seconds=0.0)

    def read_tasks(self) -> list[dict[str, Any]]:
        """The tasks of the stage that worked longest in this run so far."""
        if self._platform is None or self._tag is None or not self._platform.work.is_attached:
            return []
        return self._platform.work.session.read_tasks(self._tag)

    def read_links(self) -> dict[str, str]:
        """The addresses of Spark's pages about this run's jobs, and their tag; empty if its server has no web page."""
        if self._platform is None or self._tag is None or not self._platform.work.is_attached:
            return {}
        page = self._platform.work.session.read_page()
        return {} if page is None else {"spark_ui": f"{page}/jobs/", "spark_tag": self._tag}

    def _open(self) -> Platform:
        try:
            return Platform.open(self.url, limits=self.limits, engine=self.engine)
        except CatalogueError:
            folder = Location.parse(self.url).folder
            if not self.create or folder is None or (folder / CATALOGUE_FILE).exists():
                raise
        # Another run may create it meanwhile.
        return Platform.create(self.url, exist_ok=True, limits=self.limits, engine=self.engine)


class _TaggedWorkspace(Workspace):
    """A workspace whose Spark jobs have a tag, whichever thread starts them."""

    def __init__(self, lake: Any, *, tag: str, limits: Limits) -> None:
        super().__init__(lake, limits=limits)
        self._tag = tag

    @property
    def session(self) -> Session:
        session = super().session
        # Tags belong to the thread, and adding one twice is harmless.
        session.spark.addTag(self._tag)
        return session
