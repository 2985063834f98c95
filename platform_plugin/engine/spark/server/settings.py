"""`ServerSettings`: the cores, memory and master of a platform server, and the Spark options for them."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from platform_plugin.engine.spark.server.cluster import check_master_url, plan_cluster_options
from platform_plugin.errors import InvalidValue

_MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The settings that a platform server is started with; the defaults suit the machine.

    >>> ServerSettings(cores=2).master_url
    'local[2]'
    """

    cores: int = 0
    driver_memory_mib: int = 0
    port: int = 0
    """0 takes any free port."""
    address: str = "127.0.0.1"
    master: str | None = None
    """A cluster's master; None runs everything in the server's own JVM. `cores` are those that it may have of the cluster then."""
    executor_memory_mib: int = 0
    """The heap of each executor of a cluster; 0 leaves it to Spark, as with the other settings of executors."""
    executor_cores: int = 0
    executor_python: str | None = None
    """The Python of the executors, on their machines; None is the path of this process's own."""
    driver_host: str | None = None
    """The name or address under which executors reach the server."""
    driver_bind_address: str | None = None
    """The address that the server's own ports are bound to, where that is another one."""
    idle_seconds: float = 7200
    """The server ends after so many seconds without a session; 0 keeps it running."""
    ui: bool = False
    scratch: str | None = None
    """Where Spark spills and shuffles; None is inside the runtime folder."""
    options: dict[str, str] = field(default_factory=dict)
    """Any Spark option; it wins over the platform's own."""

    def __post_init__(self) -> None:
        for name in ("cores", "driver_memory_mib", "idle_seconds", "executor_memory_mib", "executor_cores"):
            if getattr(self, name) < 0:
                raise InvalidValue(f'server setting "{name}" is negative', hint="leave it out, or give 0, to let the machine decide")
        if not 0 <= self.port <= 65535:
            raise InvalidValue('server setting "port" is not a port number', hint="give a number from 0 to 65535; 0 takes any free port")
        if self.master is not None:
            check_master_url(self.master)

    @property
    def core_count(self) -> int:
        return self.cores or available_cores()

    @property
    def memory_mib(self) -> int:
        """A quarter of the memory that this process may use: Python workers, the page cache and other programs need the rest."""
        return self.driver_memory_mib or min(max(available_memory() // _MEBIBYTE // 4, 1024), 16 * 1024)

    def task_bytes(self, slots: int = 0) -> int:
        """How much of a result one of `slots` tasks may gather in memory; a result exists four times on its way out."""
        return max(self.memory_mib * _MEBIBYTE // 64 * 2 // max(slots or self.core_count, 2), 1 << 20)

    @property
    def master_url(self) -> str:
        return self.master or f"local[{self.core_count}]"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def available_cores() -> int:
    """Return how many cores this process may use, by CPU affinity and control group."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for quota, period in _read_quotas():
        if quota > 0 and period > 0:
            cores = min(cores, max(1, quota // period))
    return cores


def available_memory() -> int:
    """Return the bytes of memory that this process may use: the machine's, or the limit of its control group."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        words = _read_words(path)
        if words and words[0].isdigit():
            total = min(total, int(words[0]))
    return total


def plan_options(settings: ServerSettings, folder: Path, *, submitted: bool = False) -> dict[str, str]:
    """Return the Spark options of a server whose state is in `folder`: loopback only, no web page, the platform's file conventions.

    A server that was `submitted` leaves the cluster's own choices (master, addresses, disks) alone.
    """
    where = {"spark.master": settings.master_url, "spark.local.dir": settings.scratch or str(folder / "scratch")}
    # Whoever is on this machine can reach a loopback port, so Spark's own ports ask for a secret as well.
    alone = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.authenticate": "true"}
    return {
        "spark.app.name": "platform",
        **({} if submitted else where),
        **(alone if settings.master is None and not submitted else {}),
        **({} if settings.master is None else {"spark.executor.extraJavaOptions": " ".join(PARSER_FLAGS)}),
        **plan_cluster_options(settings),
        "spark.ui.enabled": str(settings.ui).lower(),
        "spark.ui.showConsoleProgress": "false",
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": settings.address,
        "spark.connect.grpc.binding.port": str(settings.port),
        "spark.connect.grpc.port.maxRetries": "0",
        "spark.connect.progress.reportInterval": "300ms",
        # Our own clients are watched over the control socket; others are given up on after these.
        "spark.connect.execute.manager.detachedTimeout": "60s",
        "spark.connect.execute.manager.maintenanceInterval": "5s",
        "spark.connect.session.manager.defaultSessionTimeout": "60m",
        "spark.connect.session.manager.closedSessionsTombstonesSize": "100",
        "spark.connect.execute.manager.abandonedTombstonesSize": "100",
        # Without the file the one pool is first come, first served, and a small query waits behind a large one.
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": (folder / "pools.xml").as_uri(),
        "spark.driver.maxResultSize": f"{settings.memory_mib // 4}m",
        # A cluster whose cores are not known has Spark's own number, of which adaptive execution makes fewer.
        **({"spark.sql.shuffle.partitions": str(settings.core_count)} if settings.master is None or settings.cores else {}),
        "spark.sql.ansi.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.parquet.fieldId.write.enabled": "true",
        "spark.sql.parquet.fieldId.read.enabled": "true",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        "spark.jars.ivy": str(folder / "ivy"),
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        # The lake's commit makes files visible, so a job's own marker, summary and second rename are only cost.
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
        "spark.hadoop.parquet.summary.metadata.level": "NONE",
        **_NO_WEB,
        **settings.options,
    }


# Web addresses can't be listed, so nothing but a parser that was given one ever opens it. The class is one that is not there.
_NO_WEB = {f"spark.hadoop.fs.{scheme}.impl": "platform.refuses.to.read.web.addresses" for scheme in ("http", "https")}
PARSER_FLAGS = ("-Djavax.xml.accessExternalDTD=", "-Djavax.xml.accessExternalSchema=jar:file", "-Djavax.xml.accessExternalStylesheet=")
"""Flags with which Java's XML parsers fetch nothing that a document points to; a document may be a row of a stream."""


def plan_java_options(settings: ServerSettings, folder: Path) -> list[str]:
    """Return the JVM's flags: it exits when memory runs out, and returns idle memory to the machine."""
    return [
        "-XX:+ExitOnOutOfMemoryError",
        "-XX:+UseG1GC",
        "-XX:G1PeriodicGCInterval=30000",
        "-Xss4m",
        *PARSER_FLAGS,
        # Some of Spark's parsers know only what the JVM was started with.
        *(f"-D{name}={value}" for name, value in _NO_WEB.items()),
        f"-Djava.io.tmpdir={settings.scratch or folder / 'scratch'}",
        f"-Dderby.system.home={folder / 'derby'}",
        f"-Dlog4j2.configurationFile={(folder / 'log4j2.properties').as_uri()}",
    ]


POOLS = """\
<?xml version="1.0"?>
<allocations>
  <pool name="default"><schedulingMode>FAIR</schedulingMode><weight>1</weight><minShare>0</minShare></pool>
</allocations>
"""

LOG_CONFIGURATION = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yyyy-MM-dd HH:mm:ss.SSS} %p %c{1}: %m%n%ex
logger.codegen.name = org.apache.spark.sql.catalyst.expressions.codegen
logger.codegen.level = error
logger.utils.name = org.apache.spark.util.Utils
logger.utils.level = error
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
"""


def _read_quotas() -> list[tuple[int, int]]:
    modern = _read_words("/sys/fs/cgroup/cpu.max")
    older = _read_words("/sys/fs/cgroup/cpu/cpu.cfs_quota_us") + _read_words("/sys/fs/cgroup/cpu/cpu.cfs_period_us")
    return [(int(words[0]), int(words[1])) for words in (modern, older) if len(words) == 2 and words[0].isdigit()]


def _read_words(path: str) -> list[str]:
    try:
        return Path(path).read_text().split()
    except OSError:
        return []
