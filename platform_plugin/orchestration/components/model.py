"""A model: one SQL file that declares one relation, what it reads and what identifies its meaning."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from platform_plugin.errors import InvalidStatement, InvalidValue, PlatformError, UnknownObject
from platform_plugin.language.query.query import analyse_query
from platform_plugin.language.script import parse_statement
from platform_plugin.language.statements.create_sample import CreateSample
from platform_plugin.language.statements.create_stream import CreateStream
from platform_plugin.language.statements.create_table import CreateHistory, CreateTable
from platform_plugin.language.statements.create_view import CreateView
from platform_plugin.language.text.places import Span, at, did_you_mean, fault
from platform_plugin.language.text.tokens import WORD, tokenize
from platform_plugin.language.text.words import RESERVED
from platform_plugin.orchestration.components.documentation import Documentation, read_documentation, read_suite
from platform_plugin.relations.bind import lake_name

if TYPE_CHECKING:
    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.lake.catalogue.relations import Kind
    from platform_plugin.lake.catalogue.tables import Name
    from platform_plugin.language.text.names import Name as QualifiedName
    from platform_plugin.quality.suite import Suite

_KINDS: dict[type, Kind] = {
    CreateTable: "table",
    CreateHistory: "table",
    CreateStream: "stream",
    CreateView: "view",
    CreateSample: "sample",
}
_READ: dict[str, tuple[Name, ...]] = {}
_MOST_KNOWN = 10_000
Definition = CreateTable | CreateHistory | CreateStream | CreateView | CreateSample


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A relation as a file declares it; `file` is the path inside the folder, with `/`, and `path` the whole one."""

    name: Name
    kind: Kind
    statement: Definition
    file: str
    path: Path
    comment: str | None
    reads: tuple[Name, ...]
    code_version: str
    documentation: Documentation
    suite: Suite | None = None

    @property
    def columns(self) -> tuple[Field, ...]:
        """The declared columns; none where a query decides."""
        return () if isinstance(self.statement, CreateView | CreateSample | CreateHistory) else self.statement.columns

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The columns that name a row."""
        return self.statement.primary_key if isinstance(self.statement, CreateTable) else ()

    @property
    def is_built(self) -> bool:
        """Whether materializing it computes its rows anew: a table that is the result of a query."""
        return isinstance(self.statement, CreateTable) and self.statement.query is not None

    @property
    def description(self) -> str | None:
        """What the YAML file says, or the statement's COMMENT, or the comment at the head of the file."""
        said = None if isinstance(self.statement, CreateSample | CreateHistory) else self.statement.comment
        return self.documentation.description or said or self.comment


def read_models(folder: Path) -> tuple[Model, ...]:
    """The models of a folder and the folders in it, by path; a fault is told with its file and its place there."""
    if not folder.is_dir():
        raise UnknownObject(f'folder "{folder}" does not exist', hint="correct `path`, or make the folder and put an SQL file in it")
    models: dict[str, Model] = {}
    for path in sorted(folder.rglob("*.sql")):
        model = _read(path, path.relative_to(folder).as_posix())
        other = models.setdefault(str(model.name).lower(), model)
        if other is not model:
            raise InvalidStatement(
                f'relation "{model.name}" is declared twice', detail=f"in {other.file} and {model.file}", hint="keep one of the files"
            )
    return tuple(models.values())


def _read(path: Path, file: str) -> Model:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (UnicodeDecodeError, OSError) as error:
        raise InvalidStatement(f'file "{file}" can\'t be read', detail=str(error), hint="write it in UTF-8") from error
    documentation = read_documentation(path, shown=file)
    try:
        model = parse_model(text, file=file, path=path, documentation=documentation)
        model = with_suite(model, read_suite(path, shown=file, named=documentation.suite))
    except PlatformError as error:
        raise InvalidStatement(f'file "{file}": {error.message}', detail=error.detail, hint=error.hint) from error
    _check_columns(model)
    if model.documentation.partitions is not None and not model.is_built:
        raise InvalidValue(f'"{file}" has partitions but no query', hint="only CREATE TABLE … AS query is built part by part")
    return model


def parse_model(text: str, *, file: str, path: Path | None = None, documentation: Documentation | None = None) -> Model:
    r"""The model that a text declares, or an error at the place in it.

    >>> model = parse_model("-- How much a post moves.\nCREATE VIEW impact AS SELECT avg(score) FROM posts", file="impact.sql")
    >>> str(model.name), model.kind, [str(name) for name in model.reads], model.description
    ('main.impact', 'view', ['main.posts'], 'How much a post moves.')
    """
    statement = parse_statement(text)
    if not isinstance(statement, Definition):
        raise fault(
            statement.span, "not a definition", expected="CREATE TABLE, CREATE STREAM, CREATE VIEW or CREATE SAMPLE", hint="one to a file"
        )
    if statement.parameters:
        unbound = InvalidValue("a file has no parameters", hint="write the value itself, or join a table that holds it")
        raise at(statement.parameters[0].span).attach(unbound)
    query = statement.query if isinstance(statement, CreateTable | CreateView) else None
    return Model(
        name=lake_name(statement.name),
        kind=_KINDS[type(statement)],
        statement=statement,
        file=file,
        path=path or Path(file),
        comment=_leading_comment(text),
        reads=read_by(query) if query is not None else tuple(map(lake_name, _named(statement))),
        code_version=fingerprint(statement.span.text),
        documentation=documentation or Documentation(),
    )


def _named(statement: Definition) -> tuple[QualifiedName, ...]:
    """What a definition without a query names: the relations of a sample, the stream of a history."""
    match statement:
        case CreateSample(reads=reads):
            return reads
        case CreateHistory(stream=stream):
            return (stream,)
        case _:
            return ()


def read_by(query: str | Span) -> tuple[Name, ...]:
    """The relations that a query reads, each once, in the order of their places."""
    text = query if isinstance(query, str) else query.text
    if text not in _READ:
        # Not by `lru_cache`: an error is about the place in the file that the text stands in.
        if len(_READ) >= _MOST_KNOWN:
            _READ.clear()
        _READ[text] = tuple(dict.fromkeys(lake_name(reference.name) for reference in analyse_query(query).relations))
    return _READ[text]


def normalised(text: str) -> str:
    r"""A statement whose comments, layout and case of keywords are gone, for comparing.

    >>> normalised("select uid -- who\n from  Posts") == normalised("SELECT uid FROM Posts")
    True
    """
    tokens = tokenize(text)
    words = (tokens.text(index) for index in range(len(tokens)))
    return " ".join(
        word.upper() if kind == WORD and word.upper() in RESERVED else word for word, kind in zip(words, tokens.kinds, strict=True)
    )


def fingerprint(text: str) -> str:
    """A short text that changes when the meaning of a statement may have changed."""
    return hashlib.sha256(normalised(text).encode()).hexdigest()[:16]


def _leading_comment(text: str) -> str | None:
    lines = []
    for line in text.splitlines():
        if not line.lstrip().startswith("--"):
            break
        lines.append(line.lstrip()[2:].strip())
    return " ".join(line for line in lines if line) or None


def with_suite(model: Model, suite: Suite | None) -> Model:
    """The model with a suite; a gate that no run would ever pass through is refused."""
    pulls = isinstance(model.statement, CreateStream) and model.statement.feed is not None
    if suite is not None and suite.gate and not model.is_built and not pulls:
        raise InvalidValue(
            f'the suite of "{model.name}" is a gate, but no run publishes rows there',
            hint="only streams with a feed and tables that a query builds have a gate; leave it out, and the suite is a check",
        )
    return replace(model, suite=suite)


def _check_columns(model: Model) -> None:
    known = [column.name for column in model.columns]
    for column in model.documentation.columns if known else ():
        if column.lower() not in {name.lower() for name in known}:
            raise UnknownObject(
                f'column "{column}" is documented beside "{model.file}" but not declared in it',
                hint=did_you_mean(column, known) or f"its columns are {', '.join(known)}",
            )
