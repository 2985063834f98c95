"""`Jobs`: the jobs that a sensor requests, plain ones for relations of this code location, asset jobs for others."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from platform_plugin.orchestration.sensors.firing import USUAL_POOL, Ask

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import dagster as dg

    from platform_plugin.lake.catalogue.tables import Name
    from platform_plugin.orchestration.components.model import Model
    from platform_plugin.orchestration.internals import AssetJob
    from platform_plugin.orchestration.sensors.firing import Moment, PastRun


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintainedAsset:
    """A relation that is kept current, and its asset: the base of a continuous view, else the relation's own."""

    name: Name
    kind: str
    key: dg.AssetKey
    pool: str = USUAL_POOL
    model: Model | None = None
    code_version: str | None = None
    parents: tuple[dg.AssetKey, ...] = ()
    view: dg.AssetKey | None = None
    """The asset of a continuous view itself, beside its base."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNeed:
    """A relation that a run is requested for, and the reason; without a reason it is only taken along."""

    key: dg.AssetKey
    name: Name
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """The jobs of one kind of upkeep: `together` by pool, for the assets that it knows; `apart` for any other."""

    apart: AssetJob
    together: Mapping[str, dg.JobDefinition] = field(default_factory=dict)
    pools: Mapping[dg.AssetKey, str] = field(default_factory=dict)
    """The assets of the jobs `together`, each with its pool."""

    @property
    def all(self) -> list[dg.JobDefinition | AssetJob]:
        """All jobs."""
        return [*self.together.values(), self.apart]

    def can_run(self, key: dg.AssetKey, moment: Moment) -> bool:
        """Whether any of them can run an asset."""
        return key in self.pools or key in moment.keys

    def ask(
        self, due: Sequence[RunNeed], checks: Iterable[dg.AssetCheckKey], *, pool: str, runs: Sequence[PastRun] = (), **said: Any
    ) -> list[Ask]:
        """The requests of runs for some relations of a pool, with the checks to evaluate afterwards.

        A pool has one run at a time, so what the last run left out comes first: else only the relations done together would ever be done.
        """
        job = self.together.get(pool)
        some = [need for need in due if job is not None and need.key in self.pools]
        others = [need for need in due if job is None or need.key not in self.pools]
        last = next((run.assets for run in runs if run.pool == pool), frozenset())
        groups = [group for group in (some, others) if any(need.reason for need in group)]
        groups.sort(key=lambda group: any(need.key.to_user_string() in last for need in group))
        asks = []
        for number, group in enumerate(groups):
            asserted = tuple(checks) if number == 0 else ()
            reason = next(need.reason for need in group if need.reason)
            relations = tuple(need.name for need in group)
            common: dict[str, Any] = {"pool": pool, "relations": relations, "reason": reason, **said}
            if job is not None and group is some:
                asks.append(Ask(job=job.name, config=_config(job.name, group, asserted), **common))
            else:
                asks.append(Ask(job=self.apart.name, assets=tuple(need.key for need in group), checks=asserted, **common))
        return asks


def _config(job: str, group: Sequence[RunNeed], checks: Iterable[dg.AssetCheckKey]) -> dict[str, Any]:
    """What a round is told to do."""
    asserted: defaultdict[str, list[str]] = defaultdict(list)
    for check in checks:
        asserted[check.asset_key.to_user_string()].append(check.name)
    config = {"assets": [need.key.to_user_string() for need in group], "checks": dict(asserted)}
    return {"ops": {op_name(job): {"config": config}}}


def op_name(job: str) -> str:
    """The name of the one op of a job for many relations; no other op of a code location may have it."""
    return f"{job}_step"
