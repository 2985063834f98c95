"""The refresh sensor: decides when it is worth a run that continuous views consume what has arrived."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from platform_plugin.language.text.counting import count_text
from platform_plugin.orchestration.runs.jobs import RunNeed
from platform_plugin.orchestration.sensors.estimating import estimate_tags
from platform_plugin.orchestration.sensors.firing import (
    USUAL_POOL,
    Decision,
    build_sensor,
    checks_of,
    count_failures,
    find_unreported,
    name_list,
    pause_seconds,
)
from platform_plugin.orchestration.sensors.waiting import read_waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import datetime

    import dagster as dg

    from platform_plugin.lake.catalogue.tables import Name
    from platform_plugin.orchestration.runs.jobs import Jobs
    from platform_plugin.orchestration.sensors.firing import Moment, PastRun
    from platform_plugin.orchestration.sensors.waiting import WaitingView

SENSOR_NAME = "split_refresh"
_UNTOLD = "the last run ended before it could report what it did"


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshPolicy:
    """When a view without a target lag is due, and how much of Spark's time maintenance may take.

    Readers merge unconsumed rows themselves, so a late run makes reads slower and never wrong: not every row needs a run.
    """

    target_lag: timedelta = timedelta(minutes=1)
    most_rows: int = 1_000_000
    fullness: float = 0.5
    share: float = 0.5
    tick: timedelta = timedelta(seconds=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class DueViews:
    """The views that a run should maintain: those with a reason, and others because their streams are read anyway."""

    views: tuple[WaitingView, ...]
    reasons: Mapping[Name, str]

    @property
    def reason(self) -> str:
        """The reason of the first view."""
        return self.reasons[self.views[0].view]

    def needs(self, key: Callable[[Name], dg.AssetKey]) -> list[RunNeed]:
        """Each view with its asset and its reason."""
        return [RunNeed(key=key(view.view), name=view.view, reason=self.reasons.get(view.view, "")) for view in self.views]


def plan_refresh(
    waiting: Sequence[WaitingView],
    now: datetime,
    *,
    runs: Sequence[PastRun] = (),
    pool: str = USUAL_POOL,
    policy: RefreshPolicy | None = None,
    untold: Collection[Name] = (),
    noun: str = "views",
) -> DueViews | str:
    """The views to maintain in a pool, or the reason why there are none.

    A view is due when its oldest row will have waited for its target lag before the next run could end, when too many rows wait, or when
    rows that it needs fill its stream. Other views over a stream that is read anyway are taken along: the scan is shared. Views in `untold`
    had a run that was killed, which may have done its work without reporting it.
    """
    policy = policy or RefreshPolicy()
    behind = [view for view in waiting if view.wants_run or view.view in untold]
    if not behind:
        return f"no unconsumed rows for {count_text(len(waiting), noun.removesuffix('s'))}"
    ended = [run for run in runs if run.pool == pool and run.ended is not None]
    cost = next((run.seconds for run in ended if run.seconds is not None), 0.0)
    margin = cost + policy.tick.total_seconds()
    held = {view.view: _held_back(view, ended, pool, now) for view in behind}
    due = {
        view.view: _why(view, now, margin, policy) or (_UNTOLD if view.view in untold else None) for view in behind if not held[view.view]
    }
    reasons = {name: why for name, why in due.items() if why}
    if not reasons:
        pausing = [name for name, until in held.items() if until]
        if pausing:
            return f"{name_list(pausing)} failed and is tried again in {max(held.values()):.0f} s"
        # Views over one stream wait for the same rows, so these are not added up.
        rows, lag = max(view.rows for view in behind), max(view.lag_seconds(now) for view in behind)
        said = (
            f"{count_text(rows, 'unconsumed row')} for" if len(behind) == 1 else f"up to {count_text(rows, 'unconsumed row')} for each of"
        )
        return f"{said} {len(behind)} of {len(waiting)} {noun}, the oldest for {lag:.0f} s: no target lag is near"
    is_urgent = any(view.fullness >= policy.fullness for view in behind if view.view in reasons)
    rest = _rest(ended, now, policy)
    if rest > 0 and not is_urgent:
        name, why = next(iter(reasons.items()))
        return f"the last run took {cost:.0f} s, so the next one waits {rest:.0f} s more; {name_list([name])}: {why}"
    streams = frozenset().union(*(view.streams for view in behind if view.view in reasons))
    chosen = [view for view in behind if view.view in reasons]
    chosen += [view for view in behind if view.view not in reasons and view.streams & streams and not held[view.view]]
    return DueViews(views=tuple(chosen), reasons=reasons)


def _why(view: WaitingView, now: datetime, margin: float, policy: RefreshPolicy) -> str | None:
    if view.fullness >= policy.fullness:
        return f"{view.fullness:.0%} of a stream are unconsumed rows"
    if view.rows >= policy.most_rows:
        return count_text(view.rows, "unconsumed row")
    target = policy.target_lag.total_seconds() if view.target_lag_seconds is None else view.target_lag_seconds
    lag = view.lag_seconds(now)
    if lag + margin < target or not view.wants_run:
        return None
    told = count_text(view.rows, "unconsumed row") if view.rows else "a table that it looks up was changed"
    return f"lag {lag:.1f} s of {target:g} s, {told}"


def _held_back(view: WaitingView, ended: Sequence[PastRun], pool: str, now: datetime) -> float:
    """The seconds for which a view that failed is still left alone; a run that ended without a word held up everybody."""
    if not ended:
        return 0.0
    known = next((run for run in ended if run.failed), None)
    failures = count_failures(ended, pool, str(view.view)) if known is ended[0] else count_failures(ended, pool)
    newest = ended[0].ended or now
    return max(pause_seconds(failures) - (now - newest).total_seconds(), 0.0)


def _rest(ended: Sequence[PastRun], now: datetime, policy: RefreshPolicy) -> float:
    """How long Spark is left to others after a run, so that maintenance takes no more than its share of the time."""
    last = next(iter(ended), None)
    if last is None or last.ended is None or last.seconds is None:
        return 0.0
    return last.seconds * (1 / policy.share - 1) - (now - last.ended).total_seconds()


def build_refresh_sensor(
    url: str,
    jobs: Jobs,
    *,
    base_key: Callable[[Name], dg.AssetKey],
    view_key: Callable[[Name], dg.AssetKey],
    policy: RefreshPolicy | None = None,
    running: bool = True,
) -> dg.SensorDefinition:
    """The sensor that keeps those views current whose bases a run can maintain."""

    def decide(moment: Moment) -> Decision:
        by_pool: defaultdict[str, list[WaitingView]] = defaultdict(list)
        for view in read_waiting(moment.lake, moment.snapshot):
            key = base_key(view.view)
            if jobs.can_run(key, moment):
                by_pool[jobs.pools.get(key, USUAL_POOL)].append(view)
        asks, reasons = [], []
        for pool, views in by_pool.items():
            lost = find_unreported(moment.runs, pool)
            untold = {view.view for view in views if base_key(view.view).to_user_string() in lost}
            due = plan_refresh(views, moment.now, runs=moment.runs, pool=pool, policy=policy, untold=untold)
            if isinstance(due, str):
                reasons.append(due)
                continue
            checks = checks_of(moment, (view_key(view.view) for view in due.views))
            first = min(view.taken_up for view in due.views)
            tags = estimate_tags(moment.lake, due.views)
            asks += jobs.ask(due.needs(base_key), checks, pool=pool, runs=moment.runs, first=first, last=moment.snapshot.id, tags=tags)
        return Decision(asks=tuple(asks), reason="; ".join(reasons) or "there is no continuous view")

    return build_sensor(
        SENSOR_NAME,
        url,
        decide,
        description="Maintains continuous views before their lag reaches their target lag.",
        jobs=jobs.all,
        running=running,
    )
