"""What components say that bring the sensors of a lake: which of them, and on which lake."""

from __future__ import annotations

from typing import Any

import dagster as dg
from pydantic import Field

from platform_plugin.orchestration.loops import build_loops
from platform_plugin.orchestration.overview import build_overview
from platform_plugin.orchestration.translator import Translator


class Sensing(dg.Component, dg.Model, dg.Resolvable):
    """A component with sensors. To change what they call assets, and other names, subclass it and override `translator`."""

    url: str | None = Field(
        default=None, description="The lake whose catalogue is read; by default the one in PLATFORM_URL, or .platform/lake in the project."
    )
    refresh: bool = Field(default=True, description="Whether a sensor keeps continuous views within their target lag.")
    ingest: bool = Field(default=True, description="Whether a sensor lets streams that pull read their sources.")
    sample: bool = Field(default=True, description="Whether a sensor lets reservoirs of samples take up what has arrived.")
    report_arrivals: bool = Field(
        default=True, description="Whether a sensor reports new rows of streams, with their rates, and tables that were written to."
    )
    rebuild: bool = Field(default=True, description="Whether a sensor builds tables again that say so in their YAML file.")
    notices: str | None = Field(
        default=None, description="The environment variable with the address of a webhook that is told of failed runs."
    )
    running: bool = Field(default=True, description="Whether the sensors are on from the beginning.")

    @property
    def translator(self) -> Translator:
        """How relations are called, grouped and marked."""
        return Translator()

    def build_sensors(self, url: str, **known: Any) -> dg.Definitions:
        """The sensors that are wanted, with their jobs and the page that they draw; `known` is what `build_loops` takes."""
        loops = build_loops(
            url,
            self.translator,
            refresh=self.refresh,
            ingest=self.ingest,
            sample=self.sample,
            arrivals=self.report_arrivals,
            rebuild=self.rebuild,
            notices=self.notices,
            running=self.running,
            **known,
        )
        return dg.Definitions.merge(dg.Definitions(assets=[build_overview()] if self.report_arrivals else []), loops)
