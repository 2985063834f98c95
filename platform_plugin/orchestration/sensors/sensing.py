"""`Sensing`: the base of components that bring sensors, with the attributes that switch each of them on."""

from __future__ import annotations

from typing import Any

import dagster as dg
from pydantic import Field

from platform_plugin.orchestration.assets.overview import build_overview
from platform_plugin.orchestration.assets.translator import Translator
from platform_plugin.orchestration.components.place import lake_url
from platform_plugin.orchestration.components.project import find_components
from platform_plugin.orchestration.sensors.loops import SENSORS, build_loops


class Sensing(dg.Component, dg.Model, dg.Resolvable):
    """A component with sensors. To change asset keys and other names, subclass it and override `translator`."""

    url: str | None = Field(
        default=None, description="The lake whose catalogue is read; by default the one in PLATFORM_URL, or .platform/lake in the project."
    )
    refresh: bool = Field(default=True, description="Whether a sensor keeps continuous views within their target lag.")
    ingest: bool = Field(default=True, description="Whether a sensor ingests the feeds of streams.")
    sample: bool = Field(default=True, description="Whether a sensor lets samples of streams consume new rows.")
    report_arrivals: bool = Field(
        default=True,
        description="Whether a sensor notifies Dagster of new rows of streams, with their rates, and of tables that were written to.",
    )
    rebuild: bool = Field(default=True, description="Whether a sensor builds tables again that say so in their YAML file.")
    notices: str | None = Field(
        default=None, description="The environment variable with the address of a webhook that is notified of failed runs."
    )
    running: bool = Field(default=True, description="Whether the sensors are on from the beginning.")

    @property
    def translator(self) -> Translator:
        """The translator of the relations' assets."""
        return Translator()

    def lake(self, context: dg.ComponentLoadContext) -> str:
        """The URL of the lake."""
        return self.url or lake_url(context.project_root)

    @property
    def rank(self) -> int:
        """The rank among components with sensors on one lake: the first one brings them, and components that know assets come first."""
        return 2

    def find_before(self, context: dg.ComponentLoadContext) -> list[Sensing]:
        """The components with sensors on the same lake that come before this one, by rank and then by their places in the project."""
        found = [each for each in find_components(context, Sensing) if each.lake(context) == self.lake(context)]  # type: ignore[type-abstract]
        ordered = sorted(found, key=lambda each: each.rank)
        return ordered[: next((place for place, each in enumerate(ordered) if each is self), 0)]

    def build_sensors(self, context: dg.ComponentLoadContext, **known: Any) -> dg.Definitions:
        """The sensors that are switched on and that no other component on the lake brings, with their jobs and the overview.

        `known` is passed to `build_loops`.
        """
        others = self.find_before(context)
        brought = {kind.switch for kind in SENSORS if self.brings(kind.switch) and not any(each.brings(kind.switch) for each in others)}
        loops = build_loops(
            self.lake(context),
            self.translator,
            notices=self.notices,
            running=self.running,
            without={kind.switch for kind in SENSORS} - brought,
            **known,
        )
        return dg.Definitions.merge(dg.Definitions(assets=[build_overview()] if "report_arrivals" in brought else []), loops)

    def brings(self, switch: str) -> bool:
        """Whether its attributes switch a sensor on; a sensor without an attribute is always on."""
        return bool(getattr(self, switch, True))
