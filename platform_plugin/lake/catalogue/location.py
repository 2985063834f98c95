"""`Location`: a lake's URL, which names its catalogue database, its data folder and the Spark that works on it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy import exc

from platform_plugin.errors import InvalidValue
from platform_plugin.lake.files.sources import make_absolute, split_place
from platform_plugin.redaction import holds_credentials, redact_text

CATALOGUE_FILE = "lake.sqlite"
DATA_FOLDER = "data"
_FORMS = "platform+local:///path/to/lake or platform://user@host/database?data=s3://bucket/prefix"
_OPTIONS = ("data", "spark", "schema", "outside", "sources", "engine", "file_access")
_LIMIT = "limit_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A parsed lake URL. Its text never shows a password.

    `outside` are folders beyond the data folder whose files the lake's tables may name, to be read and nothing else;
    `sources` are all that COPY and feeds may read, where they are given; `limits` are those of the engines, `engine` is the one that
    maintains relations, and `file_access` says who reads and writes files, as they are written.

    >>> where = Location.parse("platform+local:///srv/lake")
    >>> where.data_path, str(where)
    ('/srv/lake/data/', 'platform+local:///srv/lake')
    """

    text: str
    catalogue: sa.URL = field(repr=False)
    data_path: str
    folder: Path | None
    schema: str | None
    spark: str | None = field(repr=False)
    outside: tuple[str, ...] = ()
    sources: tuple[str, ...] | None = None
    limits: tuple[tuple[str, str], ...] = ()
    engine: str | None = None
    file_access: str | None = None

    def __str__(self) -> str:
        return self.text

    @property
    def is_local(self) -> bool:
        """Whether the catalogue is a file inside the lake's own folder."""
        return self.folder is not None

    @classmethod
    def parse(cls, url: str | Path) -> Location:
        """The location of a lake URL or a plain folder path; the error for anything else names the two forms."""
        text = str(url)
        if isinstance(url, Path) or "://" not in text:
            if text.startswith(("platform:", "platform+local:")):
                # A slash is missing; the text may hold a password, so it is not repeated.
                raise InvalidValue("the lake URL can't be read", hint=f"write {_FORMS}")
            return cls._local(Path(make_absolute(text)), spark=None)
        if not text.isascii():
            split_place(text)
        try:
            parsed = sa.make_url(text)
        except (exc.ArgumentError, ValueError):
            # The text may hold a password, so it is not repeated.
            raise InvalidValue("the lake URL can't be read", hint=f"write {_FORMS}") from None
        options = {key: value if isinstance(value, str) else value[-1] for key, value in parsed.query.items()}
        limits = tuple((key.removeprefix(_LIMIT), options[key]) for key in sorted(options) if key.startswith(_LIMIT))
        unknown = sorted(key for key in options if key not in _OPTIONS and not key.startswith(_LIMIT))
        if unknown:
            raise InvalidValue(
                f'the lake URL has an unknown option "{unknown[0]}"', hint=f"options are {', '.join(_OPTIONS)} and {_LIMIT}NAME"
            )
        outside = parsed.query.get("outside", ())
        outside = (outside,) if isinstance(outside, str) else tuple(outside)
        if re.search(r"[?&]sources=(?:[&,]|$)", text):
            # It would be lost, and with it all that it keeps away.
            raise InvalidValue("option sources of the lake URL is empty", hint="name a folder, s3://bucket/prefix, or a scheme such as gs:")
        sources = parsed.query.get("sources")
        sources = tuple(sources.split(",") if isinstance(sources, str) else sources) if sources is not None else None
        if parsed.drivername == "platform+local":
            if parsed.host or not parsed.database:
                raise InvalidValue(
                    "a local lake URL needs an absolute path", hint="write platform+local:///path/to/lake, with three slashes"
                )
            if "data" in options or "schema" in options:
                raise InvalidValue("a local lake keeps its data in its own folder", hint="leave out the options data and schema")
            folder = Path("/" + parsed.database.lstrip("/"))
            return cls._local(
                folder,
                spark=options.get("spark"),
                outside=outside,
                sources=sources,
                limits=limits,
                engine=options.get("engine"),
                file_access=options.get("file_access"),
            )
        if parsed.drivername == "platform":
            return cls._postgres(parsed, options, outside, sources, limits)
        raise InvalidValue(f'"{parsed.drivername}" is not a lake URL scheme', hint=f"write {_FORMS}")

    @classmethod
    def _local(
        cls,
        folder: Path,
        *,
        spark: str | None,
        outside: tuple[str, ...] = (),
        sources: tuple[str, ...] | None = None,
        limits: tuple[tuple[str, str], ...] = (),
        engine: str | None = None,
        file_access: str | None = None,
    ) -> Location:
        split_place(str(folder))
        catalogue = sa.URL.create("sqlite", database=str(folder / CATALOGUE_FILE))
        shown = [*([f"spark={redact_text(spark)}"] if spark else ()), *(f"outside={quote(other)}" for other in outside)]
        shown += [f"sources={quote(source, safe='/:')}" for source in sources or ()]
        shown += [f"{_LIMIT}{name}={quote(value)}" for name, value in limits]
        shown += [f"engine={quote(engine)}"] if engine is not None else []
        shown += [f"file_access={quote(file_access)}"] if file_access is not None else []
        text = f"platform+local://{folder}" + (f"?{'&'.join(shown)}" if shown else "")
        return cls(
            text=text,
            catalogue=catalogue,
            data_path=f"{folder / DATA_FOLDER}/",
            folder=folder,
            schema=None,
            spark=spark,
            outside=_roots(outside, f"{folder}/"),
            sources=sources,
            limits=limits,
            engine=engine,
            file_access=file_access,
        )

    @classmethod
    def _postgres(
        cls,
        parsed: sa.URL,
        options: dict[str, str],
        outside: tuple[str, ...],
        sources: tuple[str, ...] | None,
        limits: tuple[tuple[str, str], ...],
    ) -> Location:
        data = options.get("data")
        if not parsed.database or not data:
            raise InvalidValue(
                "a lake URL on PostgreSQL needs a database and a data folder",
                hint="write platform://user@host/database?data=s3://bucket/prefix",
            )
        if holds_credentials(data) or "@" in (parsed.host or ""):
            # The folder is kept in the catalogue, which others read; a host with an @ is the rest of a password.
            raise InvalidValue(
                "the data folder of a lake URL holds credentials" if holds_credentials(data) else "the lake URL can't be read",
                hint="give those of the data folder by the environment, and write signs of a password as %40, %2F and so on",
            )
        if split_place(data).scheme == "" and not data.startswith("/"):
            raise InvalidValue(f'data folder "{data}" is not absolute', hint="write data=/path or data=scheme://bucket/prefix")
        schema = options.get("schema", "public")
        catalogue = parsed.set(drivername="postgresql+psycopg", query={"options": f"-csearch_path={_quoted_option(schema)}"})
        return cls(
            text=_shown(parsed, options, outside, sources),
            catalogue=catalogue,
            data_path=data.rstrip("/") + "/",
            folder=None,
            schema=schema,
            spark=options.get("spark"),
            outside=_roots(outside, data),
            sources=sources,
            limits=limits,
            engine=options.get("engine"),
            file_access=options.get("file_access"),
        )


def _roots(outside: tuple[str, ...], data: str) -> tuple[str, ...]:
    """The folders that the option `outside` names: whole ones, on the file system of the data folder."""
    for folder in outside:
        scheme = split_place(folder).scheme
        if (scheme == "" and not folder.startswith("/")) or ".." in folder.split("/"):
            raise InvalidValue(f'folder "{folder}" of the option outside is not absolute', hint="write outside=/path")
        if scheme != split_place(data).scheme:
            raise InvalidValue(
                f'folder "{folder}" of the option outside is on another file system than the lake\'s data', hint="copy its files there"
            )
    return tuple(folder.rstrip("/") + "/" for folder in outside)


def _shown(parsed: sa.URL, options: dict[str, str], outside: tuple[str, ...], sources: tuple[str, ...] | None) -> str:
    """The URL as messages show it, without the password and without what a Spark endpoint is told."""
    shown: dict[str, str | tuple[str, ...]] = dict(options)
    if outside:
        shown["outside"] = outside
    if sources:
        shown["sources"] = sources
    return redact_text(parsed.set(query=shown).render_as_string(hide_password=True))


def _quoted_option(schema: str) -> str:
    """A schema name as libpq's `options` wants it: an SQL identifier whose blanks and backslashes are escaped."""
    identifier = '"' + schema.replace('"', '""') + '"'
    return identifier.replace("\\", "\\\\").replace(" ", "\\ ")
