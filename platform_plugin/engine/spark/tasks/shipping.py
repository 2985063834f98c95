"""`ship_package`: the package's modules for executors that lack them, as an artifact of one session."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from platform_plugin.engine.spark.tasks.sending import PACKAGE

if TYPE_CHECKING:
    from platform_plugin.engine.spark.session.session import Session


def ship_package(session: Session) -> None:
    """Send the package to the executors of a session; Python finds it there before any other."""
    folder = Path(__file__).parents[3]
    with tempfile.TemporaryDirectory() as place:
        archive = Path(place) / f"{PACKAGE}.zip"
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
            for path in sorted(folder.rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    file.write(path, f"{PACKAGE}/{path.relative_to(folder)}")
        with session.job():
            session.spark.addArtifacts(str(archive), pyfile=True)
