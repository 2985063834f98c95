"""Redaction: passwords, keys and tokens are removed from texts and URLs before they are shown or raised."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

HIDDEN = "***"

# A URL ends at a blank, at a quote, or where another begins.
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*)://(?P<rest>(?:(?![A-Za-z][A-Za-z0-9+.\-]*://)[^\s'\"`<>])*)")
_PARAMETER = re.compile(r"(?P<head>[?&;#](?P<name>[\w.\-%]+)=)(?P<value>[^&;#\s'\"`<>]*)")
# What stands before the @ of these is a container or a user without a password, and never a key.
_NAMES_A_USER = re.compile(
    r"(abfss?|wasbs?|hdfs|webhdfs|s?ftp|ssh|platform|postgres|mysql|mssql|oracle|sqlite|snowflake|redshift)", re.IGNORECASE
)
_SHOWN = frozenset(
    (
        *("data", "outside", "sources", "spark", "schema", "engine", "file_access"),
        *("use_ssl", "user_id", "user_agent", "session_id"),
        *("application_name", "connect_timeout", "host", "options", "port", "sslmode", "target_session_attrs", "region", "version"),
    )
)
"""Parameters of URLs whose values are shown; of all others only the name is shown."""
_ASSIGNED = re.compile(
    r"(?i)(?P<head>(?<![\w.\-])[\w.\-]*(?:password|passwd|secret|token|access[._-]?key|account[._-]?key|api[._-]?key|credential)[\w.\-]*"
    r"(?:=|['\"]\s*:\s*['\"]))(?P<value>'[^']*'|[^\s,;&'\")\]}]+)"
)
# Brokers are named without a scheme.
_BROKER = re.compile(r"(?P<user>[\w.\-]+:)(?!//)[^\s'\"`<>]+(?P<host>@[\w.\-]+:\d+)")
_SECRET_NAME = re.compile(r"sig|secret|token|key|passw|credential")
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=\-]{8,}")
_DEEPEST = 12


def redact_text(text: str) -> str:
    """The text without passwords, keys, tokens and headers, be they in a URL, in its parameters, or after a name such as `password=`.

    >>> redact_text("no file matches s3://AKIA:wJa/lrX@bucket/*.csv?sig=abc")
    'no file matches s3://***@bucket/*.csv?sig=***'
    >>> redact_text("platform://ann:pw@host/db?data=s3://lake/x&spark=sc://host:15002/;token=abc;x-key=def;user_id=ann")
    'platform://ann:***@host/db?data=s3://lake/x&spark=sc://host:15002/;token=***;x-key=***;user_id=ann'
    """
    if "://" in text or "%3" in text:
        text = _URL.sub(_without_userinfo, text)
        text = _PARAMETER.sub(_without_value, text)
    if "=" in text or ":" in text:
        text = _ASSIGNED.sub(lambda found: found["head"] + HIDDEN, text)
    if "@" in text:
        text = _BROKER.sub(rf"\g<user>{HIDDEN}\g<host>", text)
    return _BEARER.sub(rf"\1 {HIDDEN}", text)


def holds_credentials(place: str) -> bool:
    """Whether the URL of a place holds a user's secret or a secret parameter; a folder called `token=5` is neither.

    >>> holds_credentials("s3://key:secret@bucket/x"), holds_credentials("s3://bucket/token=5/part?.csv")
    (True, False)
    """
    if "://" not in place:
        return False
    names = (found["name"].lower() for found in _PARAMETER.finditer(place) if found["value"])
    return _URL.sub(_without_userinfo, place) != place or any(_SECRET_NAME.search(name) for name in names)


def redact_cause(error: BaseException | None) -> None:
    """Redact, in place, the message of another library's error and of the errors that caused it, since they are shown with ours."""
    seen: set[int] = set()
    waiting = [error]
    while waiting and len(seen) < _DEEPEST:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        waiting += [one.__cause__, one.__context__]
        parts = tuple(_redacted_part(part) for part in one.args)
        if any(part is not before for part, before in zip(parts, one.args, strict=True)):
            with suppress(Exception):
                one.args = parts
        for name, value in list(getattr(one, "__dict__", {}).items()):
            if isinstance(value, BaseException):
                waiting.append(value)
            elif (changed := _redacted_part(value)) is not value:
                with suppress(Exception):
                    setattr(one, name, changed)
        if isinstance(one, OSError):
            for name in ("filename", "filename2", "strerror"):
                changed = _redacted_part(getattr(one, name, None))
                if changed is not getattr(one, name, None):
                    with suppress(Exception):
                        setattr(one, name, changed)


def _redacted_part(value: Any) -> Any:
    if isinstance(value, str):
        changed = redact_text(value)
        return value if changed == value else changed
    if isinstance(value, dict) and any(isinstance(inner, str) for inner in value.values()):
        parts = {key: _redacted_part(inner) for key, inner in value.items()}
        return value if parts == value else parts
    return value


def _without_userinfo(found: re.Match[str]) -> str:
    scheme, rest = found["scheme"], found["rest"]
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    user, colon, after = authority.partition(":")
    if colon and "[" not in user:
        # A password may hold the signs that end one; what follows a host's name instead is a port.
        end = rest.rfind("@", 0, _parameters_at(rest)) if "@" in authority else rest.rfind("@")
        if "@" in user:
            # A user without a password, and a port behind the host.
            return f"{scheme}://{_bare(scheme, authority)}{rest[len(authority) :]}"
        if end < 0:
            return found[0] if after.isdigit() or not after else f"{scheme}://{user}:{HIDDEN}"
        shown = f"{user}:" if _NAMES_A_USER.match(scheme) else ""
        return f"{scheme}://{shown}{HIDDEN}{rest[end:]}"
    if "@" in authority:
        return f"{scheme}://{_bare(scheme, authority)}{rest[len(authority) :]}"
    return found[0]


def _bare(scheme: str, authority: str) -> str:
    user, _, host = authority.rpartition("@")
    return authority if _NAMES_A_USER.match(scheme) and ":" not in user else f"{HIDDEN}@{host}"


def _parameters_at(rest: str) -> int:
    """Where the parameters of ours begin, in which an @ belongs to another place."""
    found = re.search(r"[?&;](?:data|outside|sources|spark)=", rest)
    return found.start() if found else len(rest)


def _without_value(found: re.Match[str]) -> str:
    name, value = found["name"].lower(), found["value"]
    if name not in _SHOWN:
        return found["head"] + (HIDDEN if value else "")
    inner = unquote(value)
    if inner == value or (changed := redact_text(inner)) == inner:
        return found[0]
    return found["head"] + changed
