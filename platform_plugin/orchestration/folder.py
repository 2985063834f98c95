"""The component for a folder of SQL files: one asset a file, beside what else the lake holds."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
from pydantic import Field

from platform_plugin.errors import PlatformError
from platform_plugin.orchestration.arrivals import Ranged
from platform_plugin.orchestration.assets import build_assets
from platform_plugin.orchestration.documentation import Rows
from platform_plugin.orchestration.inventory import Inventory, read_inventory
from platform_plugin.orchestration.model import fingerprint, read_models
from platform_plugin.orchestration.place import lake_url
from platform_plugin.orchestration.remembered import FileMemory
from platform_plugin.orchestration.scaffolding import FolderScaffolder
from platform_plugin.orchestration.sensing import Sensing


@dg.scaffold_with(FolderScaffolder)
class SqlFolder(Sensing):
    """A folder of SQL files, each of which declares one table, stream, view or sample; and the relations of the lake beside them.

    The assets need a resource called `platform`, a `PlatformResource` on the same lake; the component `Lake` brings one. To change keys,
    groups, kinds or tags, subclass this component and override `translator`.
    """

    path: str = Field(description="The folder, absolute or seen from the folder of this YAML file.")
    include_lake: bool = Field(default=True, description="Whether relations of the lake that no file declares are assets too.")

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Read the files and the catalogue."""
        folder = (Path(context.path) / self.path).resolve()
        try:
            models = read_models(folder)
        except PlatformError as error:
            # What a parser said to it would stand last, a screen below the place in the file.
            raise error from None
        url = self.url or lake_url(context.project_root)
        inventory = read_inventory(url)
        if not self.include_lake:
            declared = {str(model.name).lower() for model in models}
            kept = {name: stored for name, stored in inventory.relations.items() if name in declared}
            inventory = Inventory(snapshot=inventory.snapshot, relations=kept, absence=inventory.absence)
        # Every run loads its code location anew, so what takes time is found out once.
        memory = FileMemory(context.project_root / ".platform" / "known" / f"{fingerprint(str(folder))}.json")
        built = build_assets(models, inventory, self.translator, memory=memory)
        memory.save()
        sensors = self.build_sensors(
            url,
            targets=built.targets,
            checked=built.checked,
            ranged=[
                Ranged(table=str(model.name), stream=str(model.reads[0]).lower(), size=model.documentation.partitions.rows)
                for model in models
                if isinstance(model.documentation.partitions, Rows) and model.reads
            ],
            built={self.translator.asset_key(model.name) for model in models if model.kind == "table" and model.reads},
        )
        return dg.Definitions.merge(dg.Definitions(assets=[*built.assets], asset_checks=list(built.checks)), sensors)
