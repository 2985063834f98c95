"""Jobs: what a sensor asks to run, a plain job for relations that are done together, an asset job for those of other components."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from platform_plugin.orchestration.sensors.firing import USUAL_POOL, Ask

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import dagster as dg
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

    from platform_plugin.lake.catalogue.tables import Name
    from platform_plugin.orchestration.components.model import Model
    from platform_plugin.orchestration.sensors.firing import Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A relation that is kept current, and the asset that says so: the base of a continuous view, else the relation's own."""

    name: Name
    kind: str
    key: dg.AssetKey
    pool: str = USUAL_POOL
    model: Model | None = None
    code_version: str | None = None
    parents: tuple[dg.AssetKey, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """The jobs for one kind of upkeep: `together` by pool, for the assets that it knows; `apart` for any other."""

    apart: UnresolvedAssetJobDefinition
    together: Mapping[str, dg.JobDefinition] = field(default_factory=dict)
    pools: Mapping[dg.AssetKey, str] = field(default_factory=dict)
    """The assets that are done together, each with its pool."""

    @property
    def all(self) -> list[dg.JobDefinition | UnresolvedAssetJobDefinition]:
        """Every one of them."""
        return [*self.together.values(), self.apart]

    def can_run(self, key: dg.AssetKey, moment: Moment) -> bool:
        """Whether any of them takes an asset."""
        return key in self.pools or key in moment.keys

    def ask(self, keys: Sequence[dg.AssetKey], checks: Iterable[dg.AssetCheckKey], *, pool: str, **said: Any) -> list[Ask]:
        """The runs for some assets of a pool and for what is to be asserted afterwards; those that are done together go first."""
        job = self.together.get(pool)
        some = [key for key in keys if key in self.pools] if job is not None else []
        others = tuple(key for key in keys if key not in self.pools or job is None)
        asks = []
        if job is not None and some:
            asserted: defaultdict[str, list[str]] = defaultdict(list)
            for check in checks:
                asserted[check.asset_key.to_user_string()].append(check.name)
            config = {"assets": [key.to_user_string() for key in some], "checks": dict(asserted)}
            asks.append(Ask(job=job.name, pool=pool, config={"ops": {op_name(job.name): {"config": config}}}, **said))
        if others:
            own = () if some else tuple(checks)
            asks.append(Ask(job=self.apart.name, pool=pool, assets=others, checks=own, **said))
        return asks


def op_name(job: str) -> str:
    """The one op of a job that does many relations together; no other op of a code location may be called so."""
    return f"{job}_step"
