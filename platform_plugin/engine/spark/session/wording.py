"""`reword`: Spark's error messages without plans and codes, and the common ones in the platform's words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from platform_plugin.language.text.places import suggest_word

if TYPE_CHECKING:
    from collections.abc import Callable


UNGROUPED = "a column is neither grouped by nor aggregated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """The message, detail and hint that replace Spark's."""

    message: str
    detail: str | None = None
    hint: str | None = None


def reword(said: str, condition: str | None) -> Wording:
    r"""The wording for an error of Spark's.

    >>> reword("[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to … SQLSTATE: 22012", "DIVIDE_BY_ZERO").message
    'division by zero'
    >>> reword("[X.Y] It broke. SQLSTATE: 42000; line 1 pos 7;\n'Project ['a]\n+- …", "X.Y")
    Wording(message='query failed', detail='It broke. (X.Y)', hint=None)
    >>> reword("A column with name posts.score cannot be resolved. Did you mean one of [posts.uid, n]", "UNRESOLVED_COLUMN").message
    'column "posts.score" can\'t be used here'
    >>> reword(
    ...     "[PYTHON_EXCEPTION] Traceback:\n  File …\nplatform_plugin.errors.StorageError: file is missing\n  hint: restore it\n",
    ...     "PYTHON_EXCEPTION",
    ... )
    Wording(message='file is missing', detail=None, hint='restore it')
    >>> said = "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in driver: 3.11, PySpark cannot …"
    >>> reword(said, "PYTHON_EXCEPTION").message
    'the executors run Python 3.12, and this process 3.11'
    """
    if (condition or "").startswith("PYTHON_EXCEPTION"):
        return _python(said)
    plain = _shortened(said)
    for prefix, known in _KNOWN.items():
        if (condition or "").startswith(prefix):
            return known(plain)
    return Wording(message="query failed", detail=f"{plain} ({condition})" if condition else plain)


def _shortened(said: str) -> str:
    """The sentence without its code before and its place and plan behind; the place is shown with a caret."""
    text = re.sub(r"^\[[A-Z0-9_.]+\]\s*", "", said.strip())
    text = re.split(r"\s*SQLSTATE:|\n\n|\n== |\n'|\n\+- |\nJVM stacktrace", text, maxsplit=1)[0]
    return re.sub(r"\s+", " ", text).strip()


def _names(text: str) -> list[str]:
    """Everything between back-ticks, quoted parts of one name joined."""
    return [name.replace("`", "") for name in re.findall(r"`[^`]*`(?:\.`[^`]*`)*", text)]


def _column(text: str) -> Wording:
    # Spark writes no back-ticks round a column that it knows and that can't be seen from where it is named.
    hidden = re.search(r"with name ([^`\s]\S*) cannot be resolved", text)
    if hidden is not None:
        return Wording(
            message=f'column "{hidden[1]}" can\'t be used here',
            detail="above a grouping there are its keys and the results of its SELECT",
            hint="give the aggregate a name in SELECT and use that name here, or filter in a SELECT around this one",
        )
    found = _names(text)
    if not found:
        return Wording(message="a column can't be resolved", detail=text)
    name, rest = found[0], [name for name in found[1:] if not name.startswith(("_relation_", "\x1f"))]
    hint = suggest_word(name.rpartition(".")[2], [known.rpartition(".")[2] for known in rest])
    return Wording(message=f'column "{name}" does not exist', hint=hint)


def _routine(text: str) -> Wording:
    found = _names(text)
    if not found:
        return Wording(message="a function does not exist", detail=text)
    hint = suggest_word(found[0].rpartition(".")[2], _list_functions())
    return Wording(message=f'function "{found[0]}" does not exist', hint=hint or "check its spelling; Spark's functions are available")


def _list_functions() -> list[str]:
    """The functions of Spark SQL, as PySpark names them; those that only its frames have, and its older names in camel case, left out."""
    from pyspark.sql import functions

    frames_only = {
        "asc",
        "broadcast",
        "call_function",
        "call_udf",
        "col",
        "column",
        "desc",
        "lit",
        "pandas_udf",
        "udf",
        "udtf",
        "unwrap_udt",
    }
    return [name for name in functions.__all__ if name.islower() and name not in frames_only]


def _ungrouped(text: str) -> Wording:
    found = re.search(r'non-aggregating expression "(.+?)" is based', text)
    if found is None:
        return Wording(message=UNGROUPED, detail=text)
    return Wording(
        message=f'expression "{found[1]}" is neither grouped by nor aggregated',
        hint=f"add it to GROUP BY, or write any_value({found[1]}) if any of the group's values will do",
    )


def _interval(text: str) -> Wording:
    found = re.search(r"Unable to parse '(.*?)'", text)
    if found is None:
        return Wording(message="a text is not an interval", detail=text)
    unit = found[1].split()[-1] if found[1].split() else ""
    hint = suggest_word(unit, _UNITS) if unit not in _UNITS else None
    return Wording(message=f"'{found[1]}' is not an interval", hint=hint or "write a number and a unit, such as '1 hour' or '30 seconds'")


_PLATFORM_ERROR = re.compile(
    r"^platform_plugin\.errors\.\w+: (?P<message>.+)\n(?:  detail: (?P<detail>.+)\n)?(?:  hint: (?P<hint>.+))?", re.MULTILINE
)


def _python(said: str) -> Wording:
    """The error of a Python worker: the platform's own as it was raised there, of others the last line of the traceback."""
    versions = re.search(r"different version: ([\d.]+) than that in driver: ([\d.]*\d)", said)
    if versions is not None:
        return Wording(
            message=f"the executors run Python {versions[1]}, and this process {versions[2]}",
            hint="use a Python of the same minor version here, or set PYSPARK_PYTHON of the cluster to one",
        )
    own = _PLATFORM_ERROR.search(said)
    if own is not None:
        return Wording(message=own["message"], detail=own["detail"], hint=own["hint"])
    lines = [line.strip() for line in said.splitlines() if re.match(r"\s*[\w.]+(Error|Exception|Interrupt|Exit)\b", line)]
    return Wording(
        message="a task failed in Python", detail=lines[-1] if lines else _shortened(said), hint="the server's log has all of it"
    )


_UNITS = tuple(unit + end for unit in ("microsecond", "millisecond", "second", "minute", "hour", "day", "week") for end in ("", "s"))
_KNOWN: dict[str, Callable[[str], Wording]] = {
    "UNRESOLVED_COLUMN": _column,
    "UNRESOLVED_ROUTINE": _routine,
    "MISSING_AGGREGATION": _ungrouped,
    "MISSING_GROUP_BY": lambda _: Wording(message=UNGROUPED, hint="add GROUP BY with the columns that are not in an aggregate"),
    "CANNOT_PARSE_INTERVAL": _interval,
    "DIVIDE_BY_ZERO": lambda _: Wording(message="division by zero", hint="write try_divide(a, b), or leave such rows out"),
    "ARITHMETIC_OVERFLOW": lambda text: Wording(
        message="a number is too large for its type", detail=text, hint="cast to a wider type first"
    ),
    "CAST_OVERFLOW": lambda text: Wording(message="a number is too large for its type", detail=text, hint="cast to a wider type first"),
    "NUMERIC_VALUE_OUT_OF_RANGE": lambda text: Wording(
        message="a number is too large for its type", detail=text, hint="cast to a wider type"
    ),
    "CAST_INVALID_INPUT": lambda text: Wording(
        message="a text can't be read as another type", detail=text, hint="write try_cast to get NULL instead"
    ),
    "INVALID_COLUMN_OR_FIELD_DATA_TYPE": lambda text: Wording(message="a value does not fit its column", detail=text, hint="cast it"),
    "USER_RAISED_EXCEPTION": lambda text: Wording(message=text, hint="cast or round it in the query"),
    "INVALID_SQL_ARG": lambda text: Wording(
        message="a list or dict of different types can't be a parameter", detail=text, hint="make them one"
    ),
    "PARSE_SYNTAX_ERROR": lambda text: Wording(message="the query can't be parsed", detail=text),
}
