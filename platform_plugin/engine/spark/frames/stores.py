"""Object stores for Spark: the scheme and jar of each, and the error where a server lacks the jar."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, cast

from platform_plugin.errors import QueryFailed, StorageError

if TYPE_CHECKING:
    from platform_plugin.engine.spark.session.session import Session

_SCHEMES = {"s3": "s3a", "gcs": "gs", "local": "file"}
# What each scheme's file system comes in. The jars of Hadoop have the version of the Hadoop that Spark brings.
_PACKAGES = {
    "s3a": "org.apache.hadoop:hadoop-aws:{hadoop}",
    "s3": "org.apache.hadoop:hadoop-aws:{hadoop}",
    "gs": "org.apache.hadoop:hadoop-gcp:{hadoop}",
    "abfs": "org.apache.hadoop:hadoop-azure:{hadoop}",
    "abfss": "org.apache.hadoop:hadoop-azure:{hadoop}",
    "wasb": "org.apache.hadoop:hadoop-azure:{hadoop}",
    "wasbs": "org.apache.hadoop:hadoop-azure:{hadoop}",
}
_CLASSES = {"s3a": "s3a", "azurebfs": "abfss", "azure": "wasbs", "gs": "gs"}
_NO_CLASS = re.compile(r"Class \S*?\.(?P<package>s3a|azurebfs|azure|gs)\.\S+ not found")
_NO_SCHEME = re.compile(r"No FileSystem for scheme:? \"?(?P<scheme>[\w+.\-]+)")


def to_spark_url(place: str) -> str:
    """The URL by which Spark reads a place.

    >>> to_spark_url("s3://bucket/x*.csv"), to_spark_url("/data/x.csv")
    ('s3a://bucket/x*.csv', '/data/x.csv')
    """
    scheme, found, rest = place.partition("://")
    return f"{_SCHEMES.get(scheme.lower(), scheme)}://{rest}" if found else place


class MissingStore(StorageError):
    """Spark's server lacks the file system of a scheme; `package` is what has it."""

    package = ""


def find_missing_store(session: Session, place: str, *, scheme: str) -> MissingStore | None:
    """The error if the server lacks the file system of a scheme, of which `place` is an example; it is asked once for a session.

    Spark's planner is asked, and no job runs.
    """
    if scheme not in session.missing_stores:
        session.missing_stores[scheme] = _ask_for_store(session, place)
    return cast("MissingStore | None", session.missing_stores[scheme])


def _ask_for_store(session: Session, place: str) -> MissingStore | None:
    try:
        with session.job():
            session.spark.read.schema("value STRING").text(to_spark_url(place)).schema  # noqa: B018  asking is all
    except MissingStore as error:
        return error
    except (StorageError, QueryFailed) as error:
        # Whatever else is wrong with the place is told by whoever reads it.
        return explain_missing_store(f"{error.message} {error.detail}")
    return None


def explain_missing_store(said: str) -> MissingStore | None:
    """The error for a message of Spark's that a known file system is missing; None for other messages."""
    by_class, by_scheme = _NO_CLASS.search(said), _NO_SCHEME.search(said)
    scheme = _CLASSES[by_class["package"]] if by_class else by_scheme["scheme"] if by_scheme else ""
    package = _PACKAGES.get(scheme, "").format(hadoop=_hadoop_version())
    if not package:
        return None
    error = MissingStore(
        f'Spark lacks the jar that reads "{scheme}" places',
        detail=f"it is {package}, of which Spark's Python package has none",
        hint=f"start the server with the option spark.jars.packages={package}, or put the jar and what it needs into pyspark/jars",
    )
    error.package = package
    return error


def _hadoop_version() -> str:
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    return next((path.stem.rpartition("-")[2] for path in jars.glob("hadoop-client-api-*.jar")), "3.5.0")
