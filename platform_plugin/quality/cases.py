"""`read_cases`: tests of a view in the YAML file beside its SQL: rows given epoch by epoch, and the expected answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from platform_plugin.errors import InvalidValue, PlatformError, UnknownObject, combine_errors
from platform_plugin.language.text.places import suggest_word
from platform_plugin.quality.yaml_lines import find_yaml_line

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

Row = Mapping[str, Any]
Place = tuple[str | int, ...]
ENDINGS = (".test.yml", ".test.yaml")
_KEYS = ("description", "given", "expect")


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """Rows that arrive together, by relation, and the view's expected answer; None where it is not checked."""

    given: Mapping[str, tuple[Row, ...]]
    expect: tuple[Row, ...] | None = None
    given_at: Place = field(default=("given",), compare=False)
    """The places of its given and its expected rows in the body of the case."""
    expect_at: Place = field(default=("expect",), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A test of the view in `sql_file`."""

    name: str
    file: Path
    sql_file: Path
    epochs: tuple[Epoch, ...]
    description: str | None = None

    def __str__(self) -> str:
        return f"{self.file.name}: {self.name}"

    def unknown(self, place: Place, what: str, name: str, known: Iterable[str]) -> UnknownObject:
        """The error of a name at a place of the case, with the known name that is most like it, or with all of them."""
        names = list(known)
        hint = suggest_word(name, names) or f"there are {', '.join(names)}"
        return UnknownObject(f"{_told(self.name, self.file, place)}: {what}", hint=hint)


def find_cases(folder: Path) -> tuple[Case, ...]:
    """The cases of all files in a folder and the folders in it, by path."""
    if not folder.is_dir():
        raise UnknownObject(f'folder "{folder}" does not exist', hint="name the folder of the SQL files, such as sql")
    files = sorted(path for path in folder.rglob("*") if path.name.endswith(ENDINGS))
    cases: list[Case] = []
    errors: list[PlatformError] = []
    for path in files:
        try:
            cases += read_cases(path)
        except PlatformError as error:
            errors.append(error)
    failure = combine_errors(errors)
    if failure is not None:
        raise failure
    return tuple(cases)


def read_cases(path: Path) -> tuple[Case, ...]:
    """The cases of one file, `view.test.yml` beside `view.sql`."""
    ending = next(ending for ending in ENDINGS if path.name.endswith(ending))
    sql_file = path.with_name(path.name.removesuffix(ending) + ".sql")
    if not sql_file.is_file():
        raise UnknownObject(f'file "{path}" tests "{sql_file.name}", which is not there', hint="put it beside the SQL file, with its name")
    import yaml  # only those who test load it

    try:
        content: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise InvalidValue(
            f'file "{path}" is not YAML', detail=str(error), hint="write `name:`, and below it `given:` and `expect:`"
        ) from error
    if not isinstance(content, Mapping):
        raise InvalidValue(f'file "{path}" holds no cases', hint="write `name:`, and below it `given:` and `expect:`")
    return tuple(parse_case(str(name), body, path, sql_file) for name, body in content.items())


def parse_case(name: str, body: Any, file: Path, sql_file: Path) -> Case:
    """The case for its YAML.

    `given` is a list of epochs, each with rows by relation, or a single one. `expect` is a list with the rows after each epoch, with null
    where they are not checked, or only the rows after the last one.
    """

    def wrong(what: str, hint: str, *place: str | int) -> InvalidValue:
        return InvalidValue(f"{_told(name, file, place)}: {what}", hint=hint)

    if not isinstance(body, Mapping):
        raise wrong("it is empty", "write `given:` and `expect:` below its name")
    unknown = next((str(key) for key in body if key not in _KEYS), None)
    if unknown is not None:
        raise wrong(f'"{unknown}" is no part of a case', suggest_word(unknown, _KEYS) or f"its parts are {', '.join(_KEYS)}", unknown)
    given = body.get("given") or {}
    epochs = [given] if isinstance(given, Mapping) else list(given) if isinstance(given, Sequence) else None
    if epochs is None or not all(isinstance(epoch, Mapping) and all(_is_rows(rows) for rows in epoch.values()) for epoch in epochs):
        raise wrong("`given` is not epochs of rows by relation", "write `- posts: [{uid: 1, score: 10}]`", "given")
    expect = body.get("expect")
    if not isinstance(expect, list):
        raise wrong("it expects nothing", "write `expect:` with rows such as `- {uid: 1, score: 10.0}`; [] is no rows", "expect")
    by_epoch = bool(expect) and all(part is None or _is_rows(part) for part in expect)
    expected = expect if by_epoch else [None] * (len(epochs) - 1) + [expect]
    if len(expected) != len(epochs) or not all(part is None or _is_rows(part) for part in expected):
        raise wrong(
            f"`expect` is neither rows nor a list of rows for each epoch, of which `given` has {len(epochs)}",
            "write null for an epoch that nothing is expected of",
            "expect",
        )
    return Case(
        name=name,
        file=file,
        sql_file=sql_file,
        description=body.get("description"),
        epochs=tuple(
            Epoch(
                given={str(relation): tuple(rows) for relation, rows in epoch.items()},
                expect=None if rows is None else tuple(rows),
                given_at=("given",) if isinstance(given, Mapping) else ("given", number),
                expect_at=("expect", number) if by_epoch else ("expect",),
            )
            for number, (epoch, rows) in enumerate(zip(epochs, expected, strict=True))
        ),
    )


def _told(name: str, file: Path, place: Place) -> str:
    """A case as an error names it, with the line that it is about."""
    line = find_yaml_line(file.read_text(encoding="utf-8"), (name, *place)) if file.is_file() else None
    return f'case "{name}" in "{file.name}"' + (f", line {line}" if line else "")


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(row, Mapping) for row in value)
