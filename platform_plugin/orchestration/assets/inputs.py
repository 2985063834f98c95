"""`ContinuousViewInput`: relations as arguments of ordinary assets, in Arrow, pandas or Spark, at one stated snapshot."""

# Dagster looks at the annotations of a resource's fields, so they must not be text in this module.

from collections.abc import Sequence
from typing import Any, get_args

import dagster as dg
import pyarrow as pa
from pydantic import PrivateAttr

from platform_plugin.errors import InvalidValue
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.language.text.writing import identifier
from platform_plugin.orchestration.assets.translator import Translator
from platform_plugin.orchestration.runs.failure import raise_failures
from platform_plugin.orchestration.runs.resource import PlatformResource

MANAGER = "platform_views"
"""The key of the resource that loads views for assets."""


def ContinuousViewInput(  # noqa: N802  used where `AssetIn` is
    name: str,
    *,
    columns: Sequence[str] = (),
    where: str | None = None,
    snapshot: int | None = None,
    passed: bool = False,
    translator: Translator | None = None,
) -> dg.AssetIn:
    """A relation as an argument of an asset; the annotation gives its type: `pyarrow.Table`, `pandas.DataFrame` or a Spark `DataFrame`.

    Without `snapshot`, all such arguments of an asset are at the snapshot that is newest when the first of them is read; `where` is SQL.
    With `passed` the argument is the version that passed its gate last.

    >>> import dagster as dg
    >>> @dg.asset(ins={"impact": ContinuousViewInput("impact", columns=["uid", "score"], where="score > 10")})
    ... def campaign(impact: pa.Table) -> int:
    ...     return impact.num_rows
    """
    if passed and snapshot is not None:
        hint = "leave out one of them: the version that passed its gate last has a snapshot of its own"
        raise InvalidValue(f'input "{name}" has both `snapshot` and `passed`', hint=hint)
    schema, _, relation = name.rpartition(".")
    key = (translator or Translator()).asset_key(Name.of((schema, relation) if schema else relation))
    metadata: dict[str, Any] = {"relation": name, "columns": list(columns), "where": where, "snapshot": snapshot, "passed": passed}
    return dg.AssetIn(key=key, input_manager_key=MANAGER, metadata={key: value for key, value in metadata.items() if value})


class ViewReader(dg.ConfigurableIOManager):
    """Loads relations in the types of assets' annotations. It only reads: it does not store what an asset returns."""

    platform: dg.ResourceDependency[PlatformResource]

    _pinned: dict[str, int] = PrivateAttr(default_factory=dict)

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        """Refuse: relations are written by SQL."""
        raise InvalidValue("a relation is not written by returning it", hint="use platform.execute, or another IO manager for this asset")

    def load_input(self, context: dg.InputContext) -> Any:
        """Read the relation of an argument."""
        asked = context.definition_metadata
        with raise_failures():
            told: dict[str, Any] = {}
            if asked.get("passed"):
                version = "GATE => 'passed'"
            else:
                told["snapshot"] = int(asked["snapshot"]) if "snapshot" in asked else self._snapshot(context.op_def.name)
                version = f"VERSION => {told['snapshot']}"
            sql = _query(str(asked["relation"]), list(asked.get("columns", ())), asked.get("where"), version)
            rows = self._read(sql, context.dagster_type.typing_type)
        told["query"] = dg.MetadataValue.md(f"```sql\n{sql}\n```")
        if isinstance(rows, pa.Table):
            told |= {"rows": rows.num_rows}
        context.add_input_metadata(told)
        return rows

    def _snapshot(self, asset: str) -> int:
        """The snapshot of all arguments of an asset, kept readable until the run ends."""
        if asset not in self._pinned:
            self._pinned[asset] = self.platform.hold()
        return self._pinned[asset]

    def _read(self, sql: str, wanted: Any) -> Any:
        kinds = {
            f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in (get_args(wanted) or (wanted,)) if isinstance(kind, type)
        }
        if "pyspark.DataFrame" in kinds:
            return self.platform.frame(sql)
        table = self.platform.execute(sql).arrow()
        return table.to_pandas() if "pandas.DataFrame" in kinds else table


def _query(relation: str, columns: Sequence[str], where: Any, version: str) -> str:
    chosen = ", ".join(identifier(column) for column in columns) or "*"
    named = ".".join(identifier(part) for part in relation.split("."))
    condition = f"\nWHERE {where}" if where else ""
    return f"SELECT {chosen}\nFROM {named} AT ({version}){condition}"
