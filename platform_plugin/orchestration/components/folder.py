"""`SqlFolder`: the component for a folder of SQL files, with one asset for each file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field, PrivateAttr

from platform_plugin.errors import PlatformError
from platform_plugin.orchestration.assets.assets import build_assets
from platform_plugin.orchestration.assets.inventory import Inventory, read_inventory
from platform_plugin.orchestration.components.documentation import RowPartitions
from platform_plugin.orchestration.components.file_memory import JsonFileMemory
from platform_plugin.orchestration.components.model import Model, fingerprint, read_models
from platform_plugin.orchestration.components.nouns import Noun
from platform_plugin.orchestration.components.project import (
    ProjectDeclarations,
    file_errors,
    find_components,
    find_declared,
    refuse_duplicates,
)
from platform_plugin.orchestration.components.scaffolding import FolderScaffolder
from platform_plugin.orchestration.sensors.arrivals import RowPartitionedTable
from platform_plugin.orchestration.sensors.sensing import Sensing

if TYPE_CHECKING:
    from collections.abc import Iterator


@dg.scaffold_with(FolderScaffolder)
class SqlFolder(Sensing):
    """A folder of SQL files, each of which declares one table, stream, view or sample; and the relations of the lake beside them.

    The assets need a resource called `platform`, a `PlatformResource` on the same lake; the component `Lake` brings one. To change keys,
    groups, kinds or tags, subclass this component and override `translator`.
    """

    path: str = Field(description="The folder, absolute or seen from the folder of this YAML file.")
    include_lake: bool = Field(default=True, description="Whether relations of the lake that no component declares are assets too.")

    _models: tuple[Model, ...] = PrivateAttr(default=())

    @property
    def rank(self) -> int:
        """A folder that includes its lake comes first, since it must know of all others."""
        return 0 if self.include_lake else 1

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Read the files and the catalogue."""
        folder = self._folder(Path(context.path))
        try:
            models = self._models = read_models(folder)
        except PlatformError as error:
            raise file_errors(context, error) from None
        before = self.find_before(context)
        elsewhere = ProjectDeclarations() if before else self._find_declared(context)
        refuse_duplicates(models, elsewhere, self.translator)
        inventory = self._read_inventory(context, elsewhere, alone=not before)
        # Every run loads its code location anew, so what takes time is found out once.
        memory = JsonFileMemory(context.project_root / ".platform" / "known" / f"{fingerprint(str(folder))}.json")
        built = build_assets(
            models,
            inventory,
            self.translator,
            step=f"folder_{len(before)}" if before else None,
            memory=memory,
            # Only the first folder knows what all others declare.
            elsewhere=None if before else lambda name: elsewhere.place(str(name), self.translator.asset_key(name)) is not None,
        )
        memory.save()
        # One sensor tells of what arrives, so it has to know the tables of all folders.
        others = [each for each in self._find_folders(context) if not before and each is not self]
        told = [*models, *(model for each in others for model in each._models)]  # noqa: SLF001  its own class
        sensors = self.build_sensors(
            context,
            targets=built.targets,
            checked=built.checked,
            ranged=[
                RowPartitionedTable(table=str(model.name), stream=str(model.reads[0]).lower(), size=model.documentation.partitions.rows)
                for model in told
                if isinstance(model.documentation.partitions, RowPartitions) and model.reads
            ],
            built={self.translator.asset_key(model.name) for model in told if model.is_built},
        )
        return dg.Definitions.merge(dg.Definitions(assets=[*built.assets], asset_checks=list(built.checks)), sensors)

    def find_errors(self, path: Path, file: str) -> Iterator[PlatformError]:
        """What is wrong with its files."""
        del file
        try:
            read_models(self._folder(path))
        except PlatformError as error:
            yield error

    def _folder(self, path: Path) -> Path:
        return (path / self.path).resolve()

    def _find_folders(self, context: dg.ComponentLoadContext) -> list[SqlFolder]:
        """The folders on the same lake, itself included."""
        return [each for each in find_components(context, SqlFolder) if each.lake(context) == self.lake(context)]

    def _find_declared(self, context: dg.ComponentLoadContext) -> ProjectDeclarations:
        """What others declare. The first folder on another lake looks round as this one does, so they do not look at each other."""
        leading = [each for each in find_components(context, SqlFolder) if not each.find_before(context)]
        return find_declared(context, own=(SqlFolder, Noun), apart=[self, *leading])

    def _read_inventory(self, context: dg.ComponentLoadContext, elsewhere: ProjectDeclarations, *, alone: bool) -> Inventory:
        """What the lake holds: of what no file declares, that which no component declares either, if this folder is to include it."""
        found = read_inventory(self.lake(context))
        own = {str(model.name).lower() for model in self._models}
        free = {
            name
            for name, stored in found.relations.items()
            if alone and self.include_lake and elsewhere.place(name, self.translator.asset_key(stored.name)) is None
        }
        kept = {name: stored for name, stored in found.relations.items() if name in own or name in free}
        known = {name: stored for name, stored in found.relations.items() if name not in kept}
        return replace(found, relations=kept, known=known)
