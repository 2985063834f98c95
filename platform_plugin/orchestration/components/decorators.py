"""The decorators `continuous_view` and `history_table`, and `stream` and `sample`: relations declared in Python."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from platform_plugin.errors import InvalidValue
from platform_plugin.orchestration.assets.inventory import Inventory, read_inventory
from platform_plugin.orchestration.assets.translator import Translator
from platform_plugin.orchestration.components.nouns import ContinuousView, HistoryTable, Noun, Sample, Stream, build_single
from platform_plugin.orchestration.components.place import URL_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType

    Query = Callable[[], str]


def continuous_view(
    *,
    name: str | None = None,
    target_lag: str | None = None,
    start: str | None = None,
    description: str | None = None,
    owners: Sequence[str] = (),
    tags: Mapping[str, str] | None = None,
    columns: Mapping[str, str] | None = None,
    suite: str | None = None,
    gate: str | None = None,
    translator: Translator | None = None,
) -> Callable[[Query], dg.AssetsDefinition]:
    """A continuous view whose query a function returns, as the assets `<view>/<view>_base` and `<view>`; `columns` describes them.

    `suite` is the file of a suite of expectations, each of which is a check; `gate` the same where it has to be a gate.

    >>> @continuous_view(target_lag="30 seconds", owners=["team:growth"])
    ... def impact() -> str:
    ...     '''How far the posts of each user reach.'''
    ...     return "SELECT uid, avg(score) AS score FROM posts GROUP BY uid"
    >>> sorted(key.to_user_string() for key in impact.keys)
    ['impact', 'impact/impact_base']
    """

    def decorate(query: Query) -> dg.AssetsDefinition:
        said = _said(query, name, description, owners, tags)
        noun = ContinuousView(
            query=query(),
            target_lag=target_lag,
            start=start,
            column_descriptions=dict(columns or {}),
            suite=_suite(suite, gate),
            **said,
        )
        return _asset(noun, _file_of(query), translator, gate=gate)

    return decorate


def history_table(
    *,
    name: str | None = None,
    description: str | None = None,
    owners: Sequence[str] = (),
    tags: Mapping[str, str] | None = None,
    columns: Mapping[str, str] | None = None,
    suite: str | None = None,
    gate: str | None = None,
    translator: Translator | None = None,
) -> Callable[[Query], dg.AssetsDefinition]:
    """A table that is built from the query that a function returns, again whenever it is materialized.

    `suite` is the file of a suite of expectations, each of which is a check; `gate` the same where it has to be a gate.

    >>> @history_table()
    ... def regions() -> str:
    ...     return "SELECT region, count(*) AS users FROM users GROUP BY region"
    >>> regions.key.to_user_string()
    'regions'
    """

    def decorate(query: Query) -> dg.AssetsDefinition:
        said = _said(query, name, description, owners, tags)
        noun = HistoryTable(query=query(), column_descriptions=dict(columns or {}), suite=_suite(suite, gate), **said)
        return _asset(noun, _file_of(query), translator, gate=gate)

    return decorate


def stream(
    name: str,
    columns: Mapping[str, str],
    *,
    retention_rows: int | None = None,
    retention: str | None = None,
    source: str | None = None,
    description: str | None = None,
    owners: Sequence[str] = (),
    tags: Mapping[str, str] | None = None,
    suite: str | None = None,
    gate: str | None = None,
    translator: Translator | None = None,
) -> dg.AssetsDefinition:
    """A stream with these columns, by name and type in SQL.

    `suite` is the file of a suite of expectations, each of which is a check; `gate` the same where batches of its feed have to meet it.

    >>> stream("posts", {"uid": "INT", "score": "INT"}, retention_rows=1_000_000).key.to_user_string()
    'posts'
    """
    noun = Stream(
        name=name,
        columns=dict(columns),
        retention_rows=retention_rows,
        retention=retention,
        source=source,
        suite=_suite(suite, gate),
        description=description,
        owners=list(owners),
        tags=dict(tags or {}),
    )
    return _asset(noun, _file_of_caller(inspect.currentframe()), translator, gate=gate)


def sample(
    name: str,
    relation: str,
    size: int,
    *,
    where: str | None = None,
    strata: Sequence[str] = (),
    window: str | None = None,
    description: str | None = None,
    owners: Sequence[str] = (),
    tags: Mapping[str, str] | None = None,
    translator: Translator | None = None,
) -> dg.AssetsDefinition:
    """A uniform sample of so many rows of a stream, a table or a view.

    >>> sample("some_posts", "posts", 1000, window="1 hour").key.to_user_string()
    'some_posts'
    """
    noun = Sample(
        name=name,
        relation=relation,
        size=size,
        where=where,
        strata=list(strata),
        window=window,
        description=description,
        owners=list(owners),
        tags=dict(tags or {}),
    )
    return _asset(noun, _file_of_caller(inspect.currentframe()), translator)


def _said(query: Query, name: str | None, description: str | None, owners: Sequence[str], tags: Mapping[str, str] | None) -> dict[str, Any]:
    return {
        "name": name or query.__name__,
        "description": description or inspect.getdoc(query),
        "owners": list(owners),
        "tags": dict(tags or {}),
    }


def _file_of(query: Query) -> Path:
    return Path(query.__code__.co_filename)


def _file_of_caller(frame: FrameType | None) -> Path:
    """The file that calls the function of a frame."""
    caller = frame.f_back if frame is not None else None
    return Path(caller.f_code.co_filename if caller is not None else __file__)


def _suite(suite: str | None, gate: str | None) -> str | None:
    if suite is not None and gate is not None and suite != gate:
        raise InvalidValue(f'both suite "{suite}" and gate "{gate}" are named', hint="name one: a suite is a gate if its file says so")
    return gate or suite


def _asset(noun: Noun, path: Path, translator: Translator | None, *, gate: str | None = None) -> dg.AssetsDefinition:
    url = os.environ.get(URL_VARIABLE)
    inventory = read_inventory(url) if url else Inventory()
    model = noun.model_at(path)
    if gate is not None and (model.suite is None or not model.suite.gate):
        raise InvalidValue(f'suite "{gate}" of "{noun.name}" is no gate', hint="write `gate: true` in it, or name it with suite=")
    # There is one asset to return, so its checks are its own step's.
    (asset,) = build_single(model, inventory, translator or Translator(), checked_within=True).assets
    if not isinstance(asset, dg.AssetsDefinition):
        message = f"{noun.name} is no asset"
        raise TypeError(message)
    return asset
