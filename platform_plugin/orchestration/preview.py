"""Previews: each Dagster feature that may still change is used here and nowhere else."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import dagster as dg

if TYPE_CHECKING:
    from pathlib import Path

    from dagster import AssetSpec


def as_virtual(spec: AssetSpec) -> AssetSpec:
    """The same asset as one that is always current with what it reads, so that nothing waits for it to be materialized."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.PreviewWarning)
        return spec.replace_attributes(is_virtual=True)


def source_link(path: Path) -> dg.CodeReferencesMetadataValue:
    """A link that opens a file in the editor of whoever looks at the asset on the same machine."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        file = dg.LocalFileCodeReference(file_path=str(path), line_number=1, label=path.name)
        return dg.CodeReferencesMetadataValue(code_references=[file])


def every_asset() -> dg.AssetSelection:
    """All assets, those included that somebody else materializes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        return dg.AssetSelection.all(include_sources=True)
