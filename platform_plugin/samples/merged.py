"""Merged samples: uniform over all that several samples stand for together, such as those of streams with the same columns.

Nothing of a part is kept: at every snapshot the parts are merged as they are then, with shares by the exact integer method.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.errors import InvalidValue
from platform_plugin.language.render import type_text
from platform_plugin.samples.growing import Grown
from platform_plugin.samples.merge import Sampled, merge_samples
from platform_plugin.samples.record import Progress
from platform_plugin.samples.seeds import generator
from platform_plugin.samples.sources import find_parts, in_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_plugin.lake.lake import Lake
    from platform_plugin.lake.tables import Snapshot
    from platform_plugin.samples.definition import Key
    from platform_plugin.samples.record import Sample

_DEEPEST = 16


def check_parts(lake: Lake, parts: Sequence[Sample], size: int, snapshot: Snapshot) -> None:
    """Refuse samples that can't be merged into one of this size: the draw would not be uniform, or have no columns."""
    for part in parts:
        definition = part.definition
        if definition.strata:
            raise InvalidValue(f'sample "{part.name}" is stratified, which merged samples are not', hint="merge plain samples")
        if definition.is_weighted:
            raise InvalidValue(f'sample "{part.name}" is weighted, a merged sample is uniform', hint="merge uniform samples")
        if definition.size < size:
            raise InvalidValue(
                f'sample "{part.name}" holds {definition.size} rows, a merged sample of {size} rows may need {size} of it',
                hint=f"ask for {definition.size} rows at most, or make the part larger",
            )
        _check_columns(parts[0], part)
    leaves = [leaf for part in parts for leaf in _leaves(lake, part, snapshot)]
    relations: dict[str, Sample] = {}
    seeds: dict[int, Sample] = {}
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


def _check_columns(one: Sample, other: Sample) -> None:
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


def _leaves(lake: Lake, sample: Sample, snapshot: Snapshot, depth: int = 1) -> list[Sample]:
    """The samples that a sample is merged from in the end; itself if it is not merged."""
    if not sample.definition.parts:
        return [sample]
    if depth >= _DEEPEST:
        raise InvalidValue(f'sample "{sample.name}" is merged in too many steps', hint=f"merge in {_DEEPEST} steps at most")
    return [leaf for part in find_parts(lake, sample, snapshot) for leaf in _leaves(lake, part, snapshot, depth + 1)]


def merge_parts(parts: Sequence[Sample], read: Sequence[Grown], size: int, seed: int) -> Sampled:
    """A uniform sample of all that the parts stand for; who merges the same parts by the same seed has the same rows."""
    counts = [sum(one.progress.cardinalities.values()) for one in read]
    named = zip(parts, read, counts, strict=True)
    words = [f"{part.table.uuid}:{one.progress.next_row_id}:{count}" for part, one, count in named]
    first = parts[0]
    sampled = [Sampled(rows=in_shape(first, one.rows), cardinality=count) for one, count in zip(read, counts, strict=True)]
    return merge_samples(sampled, size, generator(seed, "merge", *words))


def merge_read(sample: Sample, parts: Sequence[Sample], read: Sequence[Grown], snapshot: Snapshot) -> Grown:
    """A merged sample of its parts as they were read at a snapshot."""
    merged = merge_parts(parts, read, sample.definition.size, sample.definition.seed)
    cardinalities: dict[Key, int] = {(): merged.cardinality} if merged.cardinality else {}
    rows = in_shape(sample, merged.rows)
    return Grown(rows=rows, progress=Progress(of_snapshot=snapshot.id, cardinalities=cardinalities), fetched=rows.num_rows)
