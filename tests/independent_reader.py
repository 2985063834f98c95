"""DuckDB with its own DuckLake extension: a reader of the lake that shares no code with us."""

from __future__ import annotations

from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb

EXTENSIONS = ("ducklake", "sqlite_scanner", "postgres_scanner")


def attach_target(lake_url: str) -> str:
    """What DuckDB's ATTACH calls the lake that a platform URL names.

    >>> attach_target("platform+local:///srv/lake")
    'ducklake:sqlite:/srv/lake/lake.sqlite'
    >>> attach_target("platform://me@127.0.0.1:5433/db?data=/srv/data")
    'ducklake:postgres:dbname=db host=127.0.0.1 port=5433 user=me'
    """
    url = urlsplit(lake_url)
    if url.scheme == "platform+local":
        return f"ducklake:sqlite:{url.path}/lake.sqlite"
    parts = {"dbname": url.path.lstrip("/"), "host": url.hostname, "port": url.port, "user": url.username, "password": url.password}
    return "ducklake:postgres:" + " ".join(f"{key}={value}" for key, value in parts.items() if value is not None)


def connect(lake_url: str, *, data: Path | None = None, **options: object) -> duckdb.DuckDBPyConnection:
    """A fresh DuckDB in memory with the lake attached as `lake` and made current; options are ATTACH's own, such as `read_only=True`.

    Give `data` when DuckDB itself is to create the lake.
    """
    import duckdb

    connection = duckdb.connect()
    try:
        _load(connection)
        words = {name.upper(): value for name, value in options.items()}
        if data is not None:
            words["DATA_PATH"] = f"{data}/"
        rendered = ", ".join(f"{name} {_literal(value)}" for name, value in words.items())
        connection.execute(f"ATTACH {_literal(attach_target(lake_url))} AS lake" + (f" ({rendered})" if rendered else ""))
        connection.execute("USE lake")
    except BaseException:
        connection.close()
        raise
    return connection


def _load(connection: duckdb.DuckDBPyConnection) -> None:
    # Loaded straight from the wheels: installing first would write into the user's home, and two processes would race there.
    for name in EXTENSIONS:
        folder = files(f"duckdb_extension_{name}") / "extensions" / f"v{version('duckdb')}"
        connection.execute(f"LOAD {_literal(folder / f'{name}.duckdb_extension')}")


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int):
        return str(value)
    return "'" + str(value).replace("'", "''") + "'"
