"""A platform server on a cluster: the master's address, Spark's options, and what the executors must have.

An executor runs Python of the server's minor version, with `pyarrow`, and Spark of the server's version. Both are looked at once, when the
server starts: later each would be an error in the middle of a task.
"""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING, Any, NamedTuple

from platform_plugin.errors import InvalidValue, PlatformError, ServerError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from platform_plugin.engine.spark.server.settings import ServerSettings

_REACH_SECONDS = 5.0
_MASTER = re.compile(r"spark://[^\s/]+:\d+(,[^\s/]+:\d+)*|k8s://\S+|yarn|local(-cluster)?(\[[^\]]*\])?")


class ExecutorVersions(NamedTuple):
    """What one Python of an executor has: versions, and the checksum of this package's modules; None is what it lacks."""

    machine: str
    python: str
    spark: str
    pyarrow: str | None
    package: str | None


def check_master_url(master: str) -> None:
    """Refuse what is no master.

    >>> check_master_url("spark://one:7077,two:7077")
    """
    if _MASTER.fullmatch(master) is None:
        raise InvalidValue(f'master "{master}" is not one of Spark\'s', hint="write spark://host:7077, k8s://https://host:443 or yarn")


def list_places(master: str) -> list[tuple[str, int]]:
    """The hosts and ports of a standalone master, of which there may be more than one; none of another cluster.

    >>> list_places("spark://one:7077,[::1]:7078"), list_places("yarn")
    ([('one', 7077), ('::1', 7078)], [])
    """
    if not master.startswith("spark://"):
        return []
    pairs = [place.rpartition(":") for place in master.removeprefix("spark://").split(",")]
    return [(host.strip("[]"), int(port)) for host, _, port in pairs]


def plan_cluster_options(settings: ServerSettings) -> dict[str, str]:
    """Spark's options for what the settings say of a cluster; on a master of this machine's loopback the server listens there, too."""
    if settings.master is None:
        return {}
    places = list_places(settings.master)
    here = "127.0.0.1" if places and all(is_loopback(host) for host, _ in places) else None
    chosen = {
        "spark.executor.memory": f"{settings.executor_memory_mib}m" if settings.executor_memory_mib else None,
        "spark.executor.cores": str(settings.executor_cores) if settings.executor_cores else None,
        "spark.cores.max": str(settings.cores) if settings.cores else None,
        "spark.driver.host": settings.driver_host or here,
        "spark.driver.bindAddress": settings.driver_bind_address or (here if settings.driver_host is None else None),
    }
    return {name: value for name, value in chosen.items() if value is not None}


def check_master(master: str) -> None:
    """Refuse a standalone master that nobody answers for; Spark itself would try for a minute."""
    places = list_places(master)
    said = None
    for host, port in places:
        try:
            socket.create_connection((host, port), timeout=_REACH_SECONDS).close()
        except (OSError, OverflowError, UnicodeError) as error:
            said = str(error)
        else:
            return
    if places:
        raise ServerError(
            f'Spark master "{master}" can\'t be reached',
            detail=said,
            hint="check the address, and that a standalone master listens there: its log and its page name its URL",
        )


def is_loopback(host: str) -> bool:
    """Whether an address is one of this machine for itself."""
    return host.lower() == "localhost" or host == "::1" or host.startswith("127.")


def is_own_address(host: str) -> bool:
    """Whether a name or an address is this machine's: only those can be bound.

    >>> is_own_address("127.0.0.1"), is_own_address("192.0.2.1")
    (True, False)
    """
    if is_loopback(host) or host.lower() == socket.gethostname().lower():
        return True
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return False
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.bind(address)
        except OSError:
            continue
        return True
    return False


def list_executor_hosts(context: Any) -> list[str]:
    """The machine of each executor that there is now; the driver is none of them."""
    listed = context.statusStore().executorList(True)  # noqa: FBT003 - py4j knows no keywords
    executors = [listed.apply(place) for place in range(listed.size())]
    return [str(each.hostPort()).rpartition(":")[0].strip("[]") for each in executors if each.id() != "driver"]


def read_versions(context: Any) -> list[ExecutorVersions]:
    """What the executors that there are now have, by a job with a task for each of their slots."""

    def look(_: Any) -> Any:
        # Sent as code: an executor may not have this package.
        import importlib
        import platform

        def version(module: str) -> Any:
            try:
                return importlib.import_module(module).__version__
            except (ImportError, AttributeError):
                return None

        try:
            package = importlib.import_module("platform_plugin.engine.spark.tasks.sending").read_fingerprint()
        except ImportError:
            package = None
        yield platform.node(), platform.python_version(), version("pyspark"), version("pyarrow"), package

    slots = int(context.defaultParallelism)
    try:
        found = set(context.parallelize(range(slots), slots).mapPartitions(look).collect())
    except Exception as error:
        known = explain_start(error)
        if known is None:
            raise
        raise known from error
    return sorted((ExecutorVersions(*each) for each in found), key=repr)


def check_versions(versions: Iterable[ExecutorVersions], own: ExecutorVersions) -> None:
    """Refuse executors whose Spark is another one, or that lack what every task needs; a missing package is sent to them later."""
    for each in versions:
        if each.spark != own.spark:
            raise ServerError(
                f'executors on "{each.machine}" have Spark {each.spark}, and the server has {own.spark}',
                hint=f"give the cluster Spark {own.spark}, or install pyspark=={each.spark} here",
            )
        if each.pyarrow is None:
            raise ServerError(
                f'the Python {each.python} of executors on "{each.machine}" has no pyarrow',
                hint="install the package and what it needs there, and name that Python: `platform up --executor-python PATH`",
            )


def explain_start(error: Exception) -> PlatformError | None:
    """The platform's error for the ways in which a cluster fails a server that starts; None of others."""
    said = str(error)
    found = re.search(r"different version: ([\d.]+) than that in driver: ([\d.]*\d)", said)
    if found is not None:
        return ServerError(
            f"the executors run Python {found[1]}, and the server runs {found[2]}",
            hint="name a Python of the server's minor version: `platform up --executor-python PATH`",
        )
    found = re.search(r'Cannot run program "([^"]*)"', said)
    if found is not None:
        return ServerError(
            f'the executors can\'t run Python "{found[1]}"',
            hint="name one that is on each of their machines: `platform up --executor-python PATH`",
        )
    if "masters are unresponsive" in said:
        return ServerError(
            "the Spark master does not take the server",
            detail="it listens, but answers nothing that this version of Spark understands",
            hint="check that the cluster has the same version of Spark, and that it can reach the server: `--driver-host`",
        )
    return None
