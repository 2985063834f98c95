"""DuckDB's default expressions: a subset that every client reads alike is evaluated, the rest is refused."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal as Number
from typing import TYPE_CHECKING, Any, NoReturn

from platform_plugin.algebra.types.blob_text import parse_blob
from platform_plugin.algebra.types.data_types import Decimal, Field, Primitive
from platform_plugin.errors import InvalidValue, PlatformError, UnsupportedType
from platform_plugin.lake.values.assignment import assign_value, to_spark_text

if TYPE_CHECKING:
    from collections.abc import Callable

_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|\"(?P<quoted>(?:[^\"]|\"\")*)\"|(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
    r"|(?P<word>[A-Za-z_]\w*)|(?P<sign>\|\||::|[-+*(),.]))"
)
_TYPES = {
    "BOOLEAN": "boolean",
    "TINYINT": "int8",
    "SMALLINT": "int16",
    "INTEGER": "int32",
    "BIGINT": "int64",
    "HUGEINT": "int128",
    "UTINYINT": "uint8",
    "USMALLINT": "uint16",
    "UINTEGER": "uint32",
    "UBIGINT": "uint64",
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "VARCHAR": "varchar",
    "BLOB": "blob",
    "DATE": "date",
    "TIME": "time",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP WITH TIME ZONE": "timestamptz",
    "TIMESTAMPTZ": "timestamptz",
    "UUID": "uuid",
}
_NOW = ("now", "current_timestamp", "get_current_timestamp", "transaction_timestamp")
GENERATED = re.compile(r"(?:gen_random_uuid|uuid|uuidv4)\(\)", re.IGNORECASE)


def evaluate_default_expression(field: Field, now: datetime) -> Any:
    """The value of a column's default expression in a statement that began at a time; an error if it can't be evaluated."""
    try:
        value = _ExpressionReader(field, now).whole()
        return None if value is None else convert_default(value, field)
    except PlatformError as error:
        if isinstance(error, UnsupportedType):
            raise
        raise _refusal(field, error.message) from error


def _refusal(field: Field, why: str) -> UnsupportedType:
    return UnsupportedType(
        f'the default of column "{field.name}" can\'t be evaluated here: {field.default}',
        detail=why,
        hint="give the column a value, or let DuckDB write these rows",
    )


class _ExpressionReader:
    """A parser that evaluates while it reads, without a tree."""

    def __init__(self, field: Field, now: datetime) -> None:
        self.field, self.now = field, now
        self.tokens: list[tuple[str, str]] = []
        text, place = (field.default or "").strip(), 0
        while place < len(text):
            found = _TOKEN.match(text, place)
            if found is None:
                self.refuse(f"{text[place : place + 20]} is not understood")
            self.tokens.append((str(found.lastgroup), found[str(found.lastgroup)]))
            place = found.end()
        self.place = 0

    def refuse(self, why: str) -> NoReturn:
        raise _refusal(self.field, why)

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.place] if self.place < len(self.tokens) else ("", "")

    def accept(self, *signs: str) -> str | None:
        kind, text = self.peek()
        if kind in ("sign", "word") and text.upper() in signs:
            self.place += 1
            return text.upper()
        return None

    def expect(self, sign: str) -> None:
        if not self.accept(sign):
            self.refuse(f"{sign} is expected before {self.peek()[1] or 'the end'}")

    def whole(self) -> Any:
        value = self.sum()
        if self.peek()[0]:
            self.refuse(f"{self.peek()[1]} is not understood")
        return value

    def sum(self) -> Any:
        value = self.product()
        while sign := self.accept("+", "-", "||"):
            value = self.combine(sign, value, self.product())
        return value

    def product(self) -> Any:
        value = self.operand()
        while self.accept("*"):
            value = self.combine("*", value, self.operand())
        return value

    def combine(self, sign: str, left: Any, right: Any) -> Any:
        if left is None or right is None:
            return None
        if sign == "||" and isinstance(left, str) and isinstance(right, str):
            return left + right
        if sign != "||" and type(left) is int and type(right) is int:
            return {"+": left + right, "-": left - right, "*": left * right}[sign]
        return self.refuse(f"{sign} of these values")

    def operand(self) -> Any:
        if self.accept("-"):
            value = self.operand()
            if isinstance(value, bool) or not isinstance(value, int | Number | float):
                self.refuse("- of this value")
            return -value
        value = self.primary()
        while self.accept("::"):
            value = self.cast(value)
        return value

    def primary(self) -> Any:
        kind, text = self.peek()
        if self.accept("("):
            value = self.sum()
            self.expect(")")
            return value
        self.place += 1
        match kind:
            case "text":
                return text[1:-1].replace("''", "'")
            case "number":
                return int(text) if text.isdigit() else (float(text) if "e" in text.lower() else Number(text))
            case "word" if text.upper() == "CAST" and self.accept("("):
                value = self.sum()
                self.expect("AS")
                value = self.cast(value)
                self.expect(")")
                return value
            case "word" if text.upper() in ("TRUE", "FALSE", "NULL"):
                return {"TRUE": True, "FALSE": False, "NULL": None}[text.upper()]
            case "word" | "quoted":
                return self.name(text)
        return self.refuse(f"{text or 'the end'} is not understood")

    def name(self, text: str) -> Any:
        """A function, or a word that stands for one; `main.` may precede it."""
        while self.accept("."):
            text = self.peek()[1]
            self.place += 1
        arguments: list[Any] | None = None
        if self.accept("("):
            arguments = []
            while not self.accept(")"):
                arguments.append(self.sum())
                if not self.accept(","):
                    self.expect(")")
                    break
        return self.call(text.lower(), arguments)

    def call(self, name: str, arguments: list[Any] | None) -> Any:
        if not arguments:
            if name in _NOW:
                return self.now
            if name in ("current_date", "today"):
                return self.now.date()
            if name in ("current_localtimestamp", "localtimestamp"):
                return self.now.replace(tzinfo=None)
            if name in ("current_time", "localtime", "current_localtime"):
                return self.now.time()
        texts = [value for value in arguments or [] if isinstance(value, str) and value.isascii()]
        if arguments and len(texts) == len(arguments):
            if name in _TEXT_FUNCTIONS and len(texts) == 1:
                return _TEXT_FUNCTIONS[name](texts[0])
            if name == "concat":
                return "".join(texts)
        return self.refuse(f"{name}{'' if arguments is None else '()'} is not evaluated outside of DuckDB")

    def cast(self, value: Any) -> Any:
        kind = self.peek()[1].upper()
        self.place += 1
        if kind == "TIMESTAMP" and self.accept("WITH"):
            kind = "TIMESTAMP WITH TIME ZONE"
            self.place += 2
        numbers: list[int] = []
        if self.accept("("):
            while not self.accept(")"):
                numbers.append(int(self.peek()[1]) if self.peek()[0] == "number" else 0)
                self.place += 1
                self.accept(",")
        if kind == "DECIMAL":
            precision, scale = (numbers + [18, 3][len(numbers) :])[:2]
            target = Field(name=self.field.name, type=Decimal(precision=precision, scale=scale))
        elif kind in _TYPES:
            target = Field(name=self.field.name, type=Primitive(_TYPES[kind]))
        else:
            self.refuse(f"a cast to {kind}")
        return convert_default(value, target)


_TEXT_FUNCTIONS: dict[str, Callable[[str], Any]] = {
    "upper": str.upper,
    "ucase": str.upper,
    "lower": str.lower,
    "lcase": str.lower,
    "trim": lambda text: text.strip(" "),
    "length": len,
}


def convert_default(value: Any, field: Field) -> Any:
    """A value converted as in an assignment, except that texts are parsed and times are truncated to the type's precision."""
    match field.type:
        case Primitive(name="date") if isinstance(value, datetime):
            return value.date()
        case Primitive(name="time") if isinstance(value, datetime):
            return value.astimezone(UTC).time() if value.tzinfo else value.time()
        case Primitive(name="varchar") if isinstance(value, datetime | float):
            raise InvalidValue(f"each client writes {to_spark_text(value)} as a text of its own", hint="give the text with each row")
        case Primitive(name="boolean") if isinstance(value, str):
            known = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
            return assign_value(known.get(value.lower(), value), field)
        case Primitive(name="blob") if isinstance(value, str):
            return parse_blob(value)
        case Primitive(name=name) if isinstance(value, str) and name.startswith(("int", "uint", "float")) and name != "interval":
            return assign_value(_number(value), field)
        case Decimal() if isinstance(value, str):
            return assign_value(_number(value), field)
    return assign_value(value, field)


def _number(text: str) -> Any:
    try:
        return Number(text)
    except ArithmeticError:
        return text
