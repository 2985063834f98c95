"""The Dagster features that may still change; each is used in this module only."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import dagster as dg

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from dagster import AssetSpec


class _QuietSensor(dg.SensorDefinition):
    """A sensor that is copied without a warning: Dagster's copy names the owners, of which nobody who sees the warning can do anything.

    A filter of warnings does not last: Dagster loads components, and with them this module, inside `warnings.catch_warnings`.
    """

    def with_attributes(self, **attributes: Any) -> dg.SensorDefinition:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dg.BetaWarning)
            return quieten_copies(super().with_attributes(**attributes))


def quieten_copies(sensor: dg.SensorDefinition) -> dg.SensorDefinition:
    """The sensor itself, whose copies by Dagster warn of nothing."""
    sensor.__class__ = _QuietSensor
    return sensor


VERSION_TAG = "dagster/data_version"


def version_tags(version: str, code_version: str, inputs: Mapping[dg.AssetKey, tuple[str, int] | None]) -> dict[str, str]:
    """The tags of a materialization in an asset job: the version of the data, of the code, and of each input."""
    tags = {VERSION_TAG: version, "dagster/code_version": code_version, "dagster/data_version_is_user_provided": "true"}
    for key, known in inputs.items():
        name = key.to_user_string()
        tags[f"dagster/input_data_version/{name}"], pointer = known or ("INITIAL", "NULL")
        tags[f"dagster/input_event_pointer/{name}"] = str(pointer)
    return tags


def as_virtual(spec: AssetSpec) -> AssetSpec:
    """The asset as one that is always as current as its inputs, so that nothing waits for it to be materialized."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.PreviewWarning)
        return spec.replace_attributes(is_virtual=True)


def source_link(path: Path) -> dg.CodeReferencesMetadataValue:
    """A link that opens a file in the editor of a user on the same machine."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        file = dg.LocalFileCodeReference(file_path=str(path), line_number=1, label=path.name)
        return dg.CodeReferencesMetadataValue(code_references=[file])


def every_asset() -> dg.AssetSelection:
    """All assets, external ones included."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        return dg.AssetSelection.all(include_sources=True)
