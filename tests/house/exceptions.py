"""Where a rule of the house does not hold, each with the reason. These lists only get shorter: an entry that is not needed fails."""

from __future__ import annotations

# A module that names a catalogue table of another owner: "module": {"table": "reason"}.
FOREIGN_TABLES: dict[str, dict[str, str]] = {}

# A function that is called plan_… and takes a lake, a workspace, a session or a connection: "module.function": "reason".
PLANS_WITH_HANDLES: dict[str, str] = {}

# A folder of more than 20 modules: "folder": "reason".
LARGE_FOLDERS: dict[str, str] = {}
