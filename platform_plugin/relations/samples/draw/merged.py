"""Merged samples: a uniform sample of all that several samples with the same columns stand for.

Nothing of a part is stored: at every snapshot the parts are merged as they are then, with shares by the exact integer method.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from platform_plugin.errors import InvalidValue
from platform_plugin.language.text.writing import type_text
from platform_plugin.relations.samples.definition import SampleDefinition
from platform_plugin.relations.samples.keys.seeds import random_generator
from platform_plugin.relations.samples.record import SampleProgress
from platform_plugin.relations.samples.reservoir.growing import CurrentSample
from platform_plugin.relations.samples.reservoir.merge import draw_picks
from platform_plugin.relations.samples.sources import find_parts, shape_sample_rows
from platform_plugin.relations.samples.strata import group_positions, stratum_sort_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.lake.lake import Lake
    from platform_plugin.relations.samples.definition import Key
    from platform_plugin.relations.samples.record import SampleRecord

_DEEPEST = 16
_NONE = np.empty(0, dtype=np.int64)


def plan_merged(parts: Sequence[SampleRecord], size: int, seed: int) -> SampleDefinition:
    """The definition of a sample that merges samples which were checked.

    It has the strata of its parts, and no more rows of a stratum than each of them may have.
    """
    limits = [limit for part in parts if (limit := part.definition.size_per_stratum) is not None]
    return SampleDefinition(
        relation="",
        source="samples",
        size=size,
        seed=seed,
        strata=parts[0].definition.strata,
        size_per_stratum=min(limits, default=None),
        parts=tuple(str(part.table.uuid) for part in parts),
    )


def check_parts(lake: Lake, parts: Sequence[SampleRecord], size: int, snapshot: Snapshot) -> None:
    """Refuse to merge samples if the result would not be uniform, or if their columns differ."""
    first = parts[0]
    for part in parts:
        definition = part.definition
        if [name.lower() for name in definition.strata] != [name.lower() for name in first.definition.strata]:
            ways = [f"by {', '.join(each.definition.strata)}" if each.definition.strata else "by nothing" for each in (first, part)]
            raise InvalidValue(
                f'sample "{first.name}" is stratified {ways[0]}, "{part.name}" {ways[1]}',
                hint="merge samples with the same strata, or without any",
            )
        if definition.is_weighted:
            raise InvalidValue(f'sample "{part.name}" is weighted, a merged sample is uniform', hint="merge uniform samples")
        if definition.size < size:
            raise InvalidValue(
                f'sample "{part.name}" holds {definition.size} rows, a merged sample of {size} rows may need {size} of it',
                hint=f"ask for {definition.size} rows at most, or make the part larger",
            )
        _check_columns(first, part)
    leaves = [leaf for part in parts for leaf in _leaves(lake, part, snapshot)]
    relations: dict[str, SampleRecord] = {}
    seeds: dict[int, SampleRecord] = {}
    for leaf in leaves:
        other = relations.setdefault(leaf.definition.relation, leaf)
        if other is not leaf:
            raise InvalidValue(
                f'samples "{other.name}" and "{leaf.name}" are of one relation',
                detail="each of its rows would count twice",
                hint="merge samples of different relations",
            )
        # Equal seeds give rows of equal numbers equal keys, so that the samples would not be independent of each other.
        other = seeds.setdefault(leaf.definition.seed, leaf)
        if other is not leaf:
            raise InvalidValue(
                f'samples "{other.name}" and "{leaf.name}" have the same seed, so that their draws depend on each other',
                hint="make one of them anew with another seed, or without one",
            )


def _check_columns(one: SampleRecord, other: SampleRecord) -> None:
    ours = {field.name.lower(): field for field in one.table.fields}
    theirs = {field.name.lower(): field for field in other.table.fields}
    hint = "merge samples of relations with the same columns"
    for name in (*ours, *theirs):
        if name not in ours or name not in theirs:
            having, lacking = (one, other) if name in ours else (other, one)
            column = ours.get(name) or theirs[name]
            raise InvalidValue(f'sample "{lacking.name}" has no column "{column.name}", which "{having.name}" has', hint=hint)
        if ours[name].type != theirs[name].type:
            kinds = f'{type_text(ours[name].type)} in sample "{one.name}", {type_text(theirs[name].type)} in "{other.name}"'
            raise InvalidValue(f'column "{ours[name].name}" is {kinds}', hint=hint)


def _leaves(lake: Lake, sample: SampleRecord, snapshot: Snapshot, depth: int = 1) -> list[SampleRecord]:
    """The samples that a sample is merged from in the end; itself if it is not merged."""
    if not sample.definition.parts:
        return [sample]
    if depth >= _DEEPEST:
        raise InvalidValue(f'sample "{sample.name}" is merged in too many steps', hint=f"merge in {_DEEPEST} steps at most")
    return [leaf for part in find_parts(lake, sample, snapshot) for leaf in _leaves(lake, part, snapshot, depth + 1)]


def merge_parts(
    definition: SampleDefinition, parts: Sequence[SampleRecord], read: Sequence[CurrentSample], snapshot: Snapshot
) -> CurrentSample:
    """A sample of all that the parts stand for, from their rows at a snapshot, uniform in each stratum.

    The same parts and definition always give the same rows.
    """
    counts = [dict(one.progress.cardinalities) for one in read]
    named = zip(parts, read, counts, strict=True)
    words = [f"{part.table.uuid}:{one.progress.next_row_id}:{sum(count.values())}" for part, one, count in named]
    random = random_generator(definition.seed, "merge", *words)
    rows = [shape_sample_rows(parts[0], one.rows) for one in read]
    strata = [group_positions(own, definition.strata) for own in rows]
    starts = np.cumsum([0, *(own.num_rows for own in rows)])
    cardinalities: dict[Key, int] = {}
    chosen = [_NONE]
    keys = sorted({key for count in counts for key in count}, key=stratum_sort_key)
    for key in keys:
        places = [own.get(key, _NONE) + start for own, start in zip(strata, starts[:-1], strict=True)]
        held, whole = [len(own) for own in places], [count.get(key, 0) for count in counts]
        chosen.append(np.concatenate(places)[draw_picks(held, whole, definition.cap(len(keys)), random)])
        cardinalities[key] = sum(whole)
    found = pa.concat_tables(rows).take(pa.array(np.concatenate(chosen)))
    return CurrentSample(rows=found, progress=SampleProgress(of_snapshot=snapshot.id, cardinalities=cardinalities), fetched=found.num_rows)
