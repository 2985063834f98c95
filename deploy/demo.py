"""The tour: the reference platform, a shop, does its main job in a temporary folder; each claim of page one is shown with its number.

Run it with `make demo`. A folder of SQL files is loaded into Dagster, rows flow, sensors decide, runs maintain, three readers must agree.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploy.waiting import Ticker

with Ticker("starting Python and Dagster"):
    import dagster as dg

    from deploy.feed import INBOX, Shop, drop, load
    from platform_plugin.orchestration.components.place import URL_VARIABLE
    from platform_plugin.orchestration.sensors.firing import FOR, RUN_KEY, WHY
    from platform_plugin.platform import Platform
    from tests import independent_reader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PROJECT = Path(__file__).resolve().parent.parent
ORDERS = 9_000
"""In a file. The stream keeps 20 000, so those of the first files leave it on the way."""
ALL_ORDERS = "(SELECT product_id, amount FROM orders UNION ALL SELECT product_id, amount FROM orders_history)"
VIEW = "SELECT product_id, orders, revenue FROM sales_by_product ORDER BY product_id"
ANEW = f"SELECT product_id, count(*) AS orders, sum(amount) AS revenue FROM {ALL_ORDERS} AS o GROUP BY product_id ORDER BY product_id"
BY_CATEGORY = "SELECT category, orders, revenue FROM sales_by_category ORDER BY revenue DESC"
# Tables that a query builds are left to their schedules and to the interface.
LATER = {"best_sellers", "daily_sales", "missing_products", "campaign", "overview"}


def main(arguments: Sequence[str]) -> int:
    """Give the tour on a fresh lake in a temporary folder, or in one that the caller removes afterwards."""
    warnings.simplefilter("ignore")
    began = time.monotonic()
    folder = Path(arguments[0] if arguments else tempfile.mkdtemp(prefix="platform-demo-"))
    here = Path.cwd()
    os.environ[URL_VARIABLE] = url = f"platform+local://{folder}/lake"
    # The feed's inbox is named relative to the project's folder, and this one is the tour's.
    os.chdir(folder)
    INBOX.mkdir(parents=True)
    try:
        with Ticker("making a lake"):
            Platform.create(url).close()
        Tour(url).give()
    except Exception as error:  # noqa: BLE001  whatever ends the tour is told in its own words, without a traceback
        print(f"\nthe tour ended early: {type(error).__name__}: {error}", file=sys.stderr)
        print("  `.venv/bin/platform status` tells how Spark is, `make demo` starts over", file=sys.stderr)
        return 1
    finally:
        os.chdir(here)
        shutil.rmtree(folder, ignore_errors=True)
    print(f"\nAll of it held, in {time.monotonic() - began:.0f} s. The same platform with live data in the Dagster UI:\n\n  make ui")
    return 0


class Tour:
    """One tour; each chapter is a method, and `held` prints what it showed."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.shop = Shop()
        self.dropped = self.broken = 0

    def give(self) -> None:
        """All chapters in their order."""
        with dg.DagsterInstance.ephemeral() as self.instance:
            with chapter("A folder of SQL files becomes a Dagster code location"):
                self.load()
            with chapter("One run makes what the files declare; the first one starts Spark"):
                self.declare()
            with Platform.open(self.url) as self.platform:
                with chapter("Orders arrive as a file, one of them broken; a sensor sees it and asks for a run"):
                    self.arrive(broken=1)
                with chapter("The view is read before any run has maintained it"):
                    self.read()
                with chapter("A sensor says when maintenance pays, and a run takes up what has arrived"):
                    self.maintain()
                with chapter("More orders than the stream keeps: old ones leave it, and no answer changes"):
                    self.overflow()
                with chapter("A process is killed in the middle of its batch (kill -9)"):
                    self.kill()
                with chapter("A sample answers with its error, and DuckDB reads the same lake without us"):
                    self.compare()

    def load(self) -> None:
        """Load the definitions, as Dagster's processes do, and count them."""
        from deploy import code_location

        with Ticker("loading"):
            self.definitions = code_location.load()
            self.repository = self.definitions.get_repository_def()
        files = len(list((PROJECT / "dbt_like_sql").rglob("*.sql")))
        self.keys = [spec.key for spec in self.definitions.resolve_all_asset_specs()]
        sensors = [sensor.name for sensor in self.repository.sensor_defs]
        held(f"{files} SQL files, a component and two Python files are {len(self.keys)} assets, with {len(sensors)} sensors")
        held(f"the sensors are {', '.join(sensors)}")

    def declare(self) -> None:
        """Materialize what is declared, fill the tables, and load again, now that the lake holds all of it."""
        chosen = [key for key in self.keys if key.path[-1] not in LATER and not self._is_virtual(key)]
        result = self.run(self.definitions.resolve_implicit_global_asset_job_def(), "making relations", asset_selection=chosen)
        with Platform.open(self.url) as platform:
            with Ticker("loading the tables"):
                tables = {"customers": self.shop.customers(), "products": self.shop.products(), "return_reasons": self.shop.reasons()}
                load(platform, tables)
            snapshot = platform.lake.snapshot().id
        held(f"{len(result.get_asset_materialization_events())} relations made; the lake is at snapshot {snapshot}")
        self.load()

    def arrive(self, *, broken: int = 0) -> None:
        """Drop a file of orders and let the sensor of feeds look."""
        drop(self.shop.orders(ORDERS, broken=broken))
        self.dropped, self.broken = self.dropped + ORDERS - broken, self.broken + broken
        told = self.tick("bounded_ingestion")["orders"].metadata
        held(f"{told['rows_in'].value:,} orders read, {told['quarantined'].value} in quarantine")
        if broken:
            ((reason,),) = self.rows("SELECT reason FROM orders__quarantine")
            held(f"why: {reason}")

    def read(self) -> None:
        """The view equals its query over all orders, in one statement and so at one snapshot."""
        self.check_view()
        show(BY_CATEGORY, self.rows(BY_CATEGORY))

    def maintain(self) -> None:
        """Ask the sensor until it is due, run what it asks for, and show what the run says of it."""
        told = self.tick("split_refresh", patience_seconds=30)["sales_by_product/sales_by_product_base"].metadata
        figures = ("rows_in", "groups_touched", "jobs", "lag_seconds_before", "lag_seconds_after", "seconds")
        held("the materialization says: " + ", ".join(f"{name} {_figure(told[name].value)}" for name in figures if name in told))
        self.check_view()

    def overflow(self) -> None:
        """Three more files, maintained in between; afterwards the stream holds no more than it promises."""
        for _ in range(3):
            self.arrive()
            self.tick("split_refresh", patience_seconds=30, quiet=True)
            self.tick("reservoir_merge")
        ((here,),), ((gone,),) = self.rows("SELECT count(*) FROM orders"), self.rows("SELECT count(*) FROM orders_history")
        assert here + gone == self.dropped, f"{here} + {gone} orders are there, {self.dropped} were made"
        assert gone, "orders must have left the stream"
        held(f"the stream holds {here:,} orders, its history {gone:,}, together all {self.dropped:,}: no row was copied")
        self.check_view()

    def kill(self) -> None:
        """Kill a process that ingests when it has written files and not committed them, and let another one do its work."""
        drop(self.shop.orders(ORDERS))
        self.dropped += ORDERS
        data = Path(self.platform.lake.storage.absolute(""))
        before = set(data.rglob("*.parquet"))
        command = [sys.executable, "-m", "platform_plugin.cli", "ingest", "orders", "--once", "--url", self.url]
        # In the session of the tour, with which it would end.
        child = subprocess.Popen(
            command, env=os.environ | {"PYTHONPATH": str(PROJECT)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        with Ticker("waiting for it to write"):
            while child.poll() is None and set(data.rglob("*.parquet")) <= before:
                time.sleep(0.002)
        child.send_signal(signal.SIGKILL)
        child.wait()
        ((there,),) = self.rows(f"SELECT count(*) FROM {ALL_ORDERS} AS o")
        held(f"killed: {there:,} orders can be read, {self.dropped:,} were made")
        with Ticker("another process reads the file"):
            subprocess.run(command, env=os.environ | {"PYTHONPATH": str(PROJECT)}, check=True, capture_output=True, timeout=300)
        ((there,),) = self.rows(f"SELECT count(*) FROM {ALL_ORDERS} AS o")
        assert there == self.dropped, f"{there} orders are there, {self.dropped} were made"
        held(f"afterwards {there:,} of {self.dropped:,}: none lost, none doubled")
        self.check_view()

    def compare(self) -> None:
        """The answer of a sample with its bounds, and what DuckDB makes of the same snapshot."""
        with Ticker("sampling"):
            sampled = self.platform.sample("orders_sample")
        assert sampled.cardinality == self.dropped, f"the sample stands for {sampled.cardinality} orders"
        held(f"{sampled.arrow().num_rows:,} sampled orders stand for all {sampled.cardinality:,} that were ever made")
        with Ticker("estimating"):
            ((mean, low, high, *_),) = self.platform.estimate("SELECT avg(amount) AS mean FROM orders", error=0.2, confidence=0.999)
        ((exact,),) = self.rows("SELECT avg(amount) FROM orders")
        assert low <= exact <= high, f"the mean order is {exact}, not within {low} and {high}"
        held(f"the mean order is {mean:.2f}, between {low:.2f} and {high:.2f} at 99.9 %; exactly it is {exact:.2f}")
        with self.rows(VIEW) as result, Ticker("DuckDB reads"):
            ours, snapshot = [tuple(row) for row in result], result.snapshot.id
            process = independent_reader.DuckProcess()
            try:
                theirs = process.attach(self.url, snapshot_version=snapshot).rows(ANEW)
            finally:
                process.stop()
        assert [tuple(row) for row in theirs] == ours, "DuckDB has another answer"
        held(f"DuckDB counts the same {sum(row[1] for row in ours):,} orders in {len(ours)} rows at snapshot {snapshot}")

    def rows(self, query: str) -> Any:
        """The result of a query."""
        with Ticker("reading"):
            return self.platform.execute(query)

    def check_view(self) -> None:
        """The view and its query over all orders, in one statement."""
        both = f"SELECT 'view', * FROM ({VIEW}) AS v UNION ALL SELECT 'anew', * FROM ({ANEW}) AS a"
        with self.rows(both) as result:
            rows, snapshot = list(result), result.snapshot.id
        view, anew = (sorted(row[1:] for row in rows if row[0] == side) for side in ("view", "anew"))
        assert view == anew, "the view is not what its query gives"
        assert sum(row[1] for row in view) == self.dropped, f"the view counts {sum(row[1] for row in view)} of {self.dropped} orders"
        held(
            f"sales_by_product counts {self.dropped:,} orders in {len(view)} groups at snapshot {snapshot}, as its query over all rows does"
        )

    def tick(self, sensor: str, *, patience_seconds: float = 0, quiet: bool = False) -> Mapping[str, dg.AssetMaterialization]:
        """Evaluate a sensor as Dagster does, run what it asks for, and return what the runs told of each asset."""
        definition = self.repository.get_sensor_def(sensor)
        deadline = time.monotonic() + patience_seconds
        skipped = None
        with Ticker(f"{sensor} is asked until it is due"):
            while True:
                asked = definition.evaluate_tick(dg.build_sensor_context(instance=self.instance, repository_def=self.repository))
                if asked.run_requests or time.monotonic() > deadline:
                    break
                if skipped is None:
                    skipped = asked.skip_message
                time.sleep(0.5)
        if skipped and not quiet:
            held(f"{sensor} first asked for nothing: {skipped}")
        told: dict[str, dg.AssetMaterialization] = {}
        for request in asked.run_requests or ():
            if not quiet:
                held(f"{sensor} asks for a run: {request.tags[FOR]}: {request.tags[WHY]}")
            job = self.definitions.resolve_job_def(str(request.job_name))
            result = self.run(job, "running", run_config=request.run_config, tags={**request.tags, RUN_KEY: str(request.run_key)})
            for event in self.instance.all_logs(result.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION):
                materialization = event.asset_materialization
                if materialization is not None:
                    told[materialization.asset_key.to_user_string()] = materialization
        return told

    def run(
        self, job: dg.JobDefinition, what: str, *, run_config: Mapping[str, Any] | None = None, **options: Any
    ) -> dg.ExecuteInProcessResult:
        """Run a job in this process; one that fails ends the tour with its error."""
        quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
        with Ticker(what):
            result = job.execute_in_process(
                instance=self.instance, run_config={**(run_config or {}), **quiet}, raise_on_error=False, **options
            )
        for event in result.all_events:
            if event.is_failure:
                raise RuntimeError(event.message)
        return result

    def _is_virtual(self, key: dg.AssetKey) -> bool:
        return [*key.path, f"{key.path[-1]}_base"] in [list(each.path) for each in self.keys]


@contextmanager
def chapter(title: str) -> Iterator[None]:
    """One step of the tour, timed."""
    print(f"\n\033[1m{title}\033[0m" if sys.stdout.isatty() else f"\n{title}", flush=True)
    began = time.monotonic()
    yield
    print(f"  ({time.monotonic() - began:.1f} s)", flush=True)


def held(claim: str) -> None:
    """A claim that was checked, or a figure that something told."""
    print(f"  ✓ {claim}", flush=True)


def show(query: str, result: Any) -> None:
    """A query and its rows as a small table."""
    print(f"    {query}")
    rows = [[str(cell) for cell in row] for row in (result.columns, *result)]
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    for row in rows:
        print("      " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip(), flush=True)


def _figure(value: object) -> str:
    return f"{value:,.1f}".removesuffix(".0") if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
