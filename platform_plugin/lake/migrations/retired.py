"""Tables that a migration has retired: in their place stands a view on which every statement of an older program fails and says why.

Programs from before there were versions would create a table anew that they miss, and go on with it as if it had always been empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

WORDS = "a newer version of platform-plugin wrote this lake: upgrade platform-plugin"
_REFUSAL = "platform_refuse_older"


def retire_table(connection: Connection, name: str) -> None:
    """Drop a table whose rows a migration has moved, and leave a view of its name that refuses older programs."""
    look = sa.inspect(connection)
    if not look.has_table(name):
        return
    columns = {column["name"]: column["type"].compile(connection.dialect) for column in look.get_columns(name)}
    quote = connection.dialect.identifier_preparer.quote_identifier
    run = connection.exec_driver_sql
    run(f"DROP TABLE {quote(name)}")
    if connection.dialect.name == "sqlite":
        # A view is not resolved before it is used; then the database names the function that it lacks.
        shown = ", ".join(f"{quote(WORDS)}() AS {quote(column)}" for column in columns)
        run(f"CREATE VIEW {quote(name)} AS SELECT {shown}")
        for verb in ("INSERT", "UPDATE", "DELETE"):
            run(
                f"CREATE TRIGGER {quote(f'{name}_refuse_{verb.lower()}')} INSTEAD OF {verb} ON {quote(name)} "
                f"BEGIN SELECT RAISE(ABORT, '{WORDS}'); END"
            )
        return
    body = f"BEGIN RAISE EXCEPTION '{WORDS}'; END"
    run(f"CREATE OR REPLACE FUNCTION {_REFUSAL}() RETURNS text LANGUAGE plpgsql VOLATILE AS $$ {body} $$")
    run(f"CREATE OR REPLACE FUNCTION {_REFUSAL}_row() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$")
    shown = ", ".join(f"CAST({_REFUSAL}() AS {kind}) AS {quote(column)}" for column, kind in columns.items())
    run(f"CREATE VIEW {quote(name)} AS SELECT {shown}")
    run(
        f"CREATE TRIGGER {quote(f'{name}_refuse')} INSTEAD OF INSERT OR UPDATE OR DELETE ON {quote(name)} "
        f"FOR EACH ROW EXECUTE FUNCTION {_REFUSAL}_row()"
    )
