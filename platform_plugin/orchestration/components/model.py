"""`Model`: one SQL file that declares one relation, what it reads, and the version of its code."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from platform_plugin.cache import Cache
from platform_plugin.errors import InvalidStatement, InvalidValue, PlatformError, UnknownObject, combine_errors, in_file
from platform_plugin.language.query.query import analyse_query
from platform_plugin.language.script import parse_statement
from platform_plugin.language.statements.create_stream import CreateStream
from platform_plugin.language.statements.create_table import CreateTable
from platform_plugin.language.statements.create_view import CreateView
from platform_plugin.language.text.comparing import normalise_statement
from platform_plugin.language.text.places import Span, locate_offset, suggest_word, syntax_error
from platform_plugin.orchestration.components.documentation import Documentation, read_documentation, read_suite
from platform_plugin.relations.bind.names import lake_name
from platform_plugin.relations.kinds import declarable_kind, find_declared
from platform_plugin.relations.views.follow.strategy import BATCH, EAGER

if TYPE_CHECKING:
    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.lake.catalogue.tables import Name
    from platform_plugin.language.statements.statement import Statement
    from platform_plugin.quality.suite import Suite
    from platform_plugin.relations.declarations import DeclaredRelation

_READ: Cache[str, tuple[Name, ...]] = Cache("relations that queries read", weigh=lambda names: 200 * len(names))


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """The relation that a file declares; `file` is the path inside the folder, with `/`, and `path` the whole one."""

    name: Name
    kind: str
    statement: Statement
    declared: DeclaredRelation
    file: str
    path: Path
    comment: str | None
    reads: tuple[Name, ...]
    code_version: str
    documentation: Documentation
    suite: Suite | None = None

    @property
    def columns(self) -> tuple[Field, ...]:
        """The declared columns; none if a query decides them."""
        return self.declared.columns

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The columns of the declared primary key."""
        return self.declared.primary_key

    @property
    def is_built(self) -> bool:
        """Whether materializing it computes its rows again, as for a table of a query."""
        return self.declared.is_built

    @property
    def intake(self) -> str | None:
        """How a run adds rows to it: `ingest` or `sample`; None if no run does."""
        kind = declarable_kind(self.kind)
        return kind.intake if kind is not None and self.declared.takes_in else None

    @property
    def description(self) -> str | None:
        """The description in the YAML file, or the statement's COMMENT, or the comment at the head of the file."""
        return self.documentation.description or self.declared.comment or self.comment


def read_models(folder: Path) -> tuple[Model, ...]:
    """The models of a folder and the folders in it, by path; the errors of all files are raised as one, with their places."""
    if not folder.is_dir():
        raise UnknownObject(f'folder "{folder}" does not exist', hint="correct `path`, or make the folder and put an SQL file in it")
    models: dict[str, Model] = {}
    errors: list[PlatformError] = []
    for path in sorted(folder.rglob("*.sql")):
        try:
            model = _read(path, path.relative_to(folder).as_posix())
            other = models.setdefault(str(model.name).lower(), model)
            if other is not model:
                raise InvalidStatement(
                    f'relation "{model.name}" is declared twice', detail=f"in {other.file} and {model.file}", hint="keep one of the files"
                )
        except PlatformError as error:
            errors.append(error)
    failure = combine_errors(errors)
    if failure is not None:
        # What a parser said to it would stand last, a screen below the place in the file.
        raise failure.with_traceback(None) from None
    return tuple(models.values())


def _read(path: Path, file: str) -> Model:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (UnicodeDecodeError, OSError) as error:
        raise InvalidStatement(f'file "{file}" can\'t be read', detail=str(error), hint="write it in UTF-8") from error
    errors: list[PlatformError] = []
    documentation = None
    try:
        documentation = read_documentation(path, shown=file)
    except PlatformError as error:
        errors.append(error)
    try:
        model = parse_model(text, file=file, path=path, documentation=documentation)
        model = with_suite(model, read_suite(path, shown=file, named=suite_path(model)))
    except PlatformError as error:
        named = in_file(error, file)
        raise combine_errors([*errors, named]) or named from None
    if errors:
        raise errors[0]
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
    found = find_declared(statement)
    if found is None:
        raise syntax_error(
            statement.span, "not a definition", expected="CREATE TABLE, CREATE STREAM, CREATE VIEW or CREATE SAMPLE", hint="one to a file"
        )
    if statement.parameters:
        unbound = InvalidValue("a file has no parameters", hint="write the value itself, or join a table that holds it")
        raise locate_offset(statement.parameters[0].span).attach(unbound)
    kind, declared = found
    return Model(
        name=lake_name(declared.name),
        kind=kind.name,
        statement=statement,
        declared=declared,
        file=file,
        path=path or Path(file),
        comment=_leading_comment(text),
        reads=read_relations(declared.query) if declared.query is not None else tuple(map(lake_name, declared.reads)),
        code_version=fingerprint(statement.span.text),
        documentation=documentation or Documentation(),
    )


def read_relations(query: str | Span) -> tuple[Name, ...]:
    """The relations that a query reads, each once, in the order of their places."""
    text = query if isinstance(query, str) else query.text
    # By the text alone, but made from what was given: an error is about the place in the file that the text stands in.
    return _READ.find(text, lambda: tuple(dict.fromkeys(lake_name(reference.name) for reference in analyse_query(query).relations)))


def fingerprint(text: str) -> str:
    """A short text that changes when the meaning of a statement may have changed."""
    return hashlib.sha256(normalise_statement(text).encode()).hexdigest()[:16]


def _leading_comment(text: str) -> str | None:
    lines = []
    for line in text.splitlines():
        if not line.lstrip().startswith("--"):
            break
        lines.append(line.lstrip()[2:].strip())
    return " ".join(line for line in lines if line) or None


def suite_path(model: Model) -> str | None:
    """The file of the suite that a model names, in its YAML file or in SQL."""
    written = suite_option(model.statement)
    said = model.documentation.suite
    if said is not None and written is not None and said != written:
        raise InvalidValue(f'"{model.name}" names two suites, "{written}" and "{said}"', hint="name it in SQL or in YAML, once")
    return said or written


def suite_option(statement: Statement) -> str | None:
    """The suite in a statement's options."""
    match statement:
        case CreateStream(suite=suite):
            return suite
        case CreateTable(options=options) | CreateView(options=options):
            return next((str(option.value) for option in options if option.name == "suite"), None)
        case _:
            return None


def with_suite(model: Model, suite: Suite | None) -> Model:
    """The model with a suite; a gate on a relation that no run publishes is refused."""
    if suite is not None and suite.gate and not _is_published(model):
        raise InvalidValue(
            f'the suite of "{model.name}" is a gate, but no run publishes rows there',
            hint="streams with a feed, tables that a query builds and views that runs maintain have a gate; leave it out for a check",
        )
    return replace(model, suite=suite)


def _is_published(model: Model) -> bool:
    """Whether runs decide what readers find in a relation; eager and batched views are stored by the statements that add rows."""
    match model.statement:
        case CreateStream(feed=feed):
            return feed is not None
        case CreateView(options=options):
            return all(option.value not in (EAGER, BATCH) for option in options if option.name == "maintenance")
        case _:
            return model.is_built


def _check_columns(model: Model) -> None:
    known = [column.name for column in model.columns]
    for column in model.documentation.columns if known else ():
        if column.lower() not in {name.lower() for name in known}:
            raise UnknownObject(
                f'column "{column}" is documented beside "{model.file}" but not declared in it',
                hint=suggest_word(column, known) or f"its columns are {', '.join(known)}",
            )
