"""What breaks a rule of the house, each with the reason. These lists only get shorter: an exception that nothing needs fails its test."""

KINDS_THAT_KNOW_KINDS: dict[tuple[str, str], str] = {}
"""Modules below `platform_plugin/relations` that import a kind which is not theirs, and that kind."""
