"""Set-up of SQLAlchemy's compliance suite: the lake and the schemas of each engine."""

from __future__ import annotations

from typing import Any

from sqlalchemy.schema import CreateSchema
from sqlalchemy.testing.provision import post_configure_engine, temp_table_keyword_args

SCHEMAS = ("test_schema", "test_schema_2")


@post_configure_engine.for_db("platform")  # type: ignore[untyped-decorator]
def make_schemas(url: Any, engine: Any, follower_ident: str | None) -> None:  # noqa: ARG001  the suite passes them
    """Create the schemas that the suite expects."""
    with engine.connect() as connection:
        for schema in SCHEMAS:
            connection.execute(CreateSchema(schema, if_not_exists=True))


@temp_table_keyword_args.for_db("platform")  # type: ignore[untyped-decorator]
def refuse_temporary_tables(config: Any, engine: Any) -> dict[str, Any]:  # noqa: ARG001  as above
    """Tell the suite that there are no temporary tables."""
    return {}
