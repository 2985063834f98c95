"""`lake_url`: the URL of a project's lake."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

URL_VARIABLE = "PLATFORM_URL"


def lake_url(project: Path, environment: Mapping[str, str] = os.environ) -> str:
    """The lake in PLATFORM_URL, or else the project's own, in `.platform/lake`.

    >>> from pathlib import Path
    >>> lake_url(Path("/srv/shop"), {}), lake_url(Path("/srv/shop"), {"PLATFORM_URL": "platform+local:///lake"})
    ('platform+local:///srv/shop/.platform/lake', 'platform+local:///lake')
    """
    return environment.get(URL_VARIABLE) or f"platform+local://{project / '.platform' / 'lake'}"
