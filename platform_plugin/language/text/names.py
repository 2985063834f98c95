"""`WrittenName`: a relation's name as a statement has it, with its place."""

from __future__ import annotations

from dataclasses import dataclass, field

from platform_plugin.language.text.places import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenName:
    """A relation's name: `relation` or `schema.relation`, in its original spelling."""

    parts: tuple[str, ...]
    span: Span = field(compare=False, repr=False, default=Span("", 0, 0))

    @property
    def schema(self) -> str | None:
        """The schema in the name, or None for the default one."""
        return self.parts[0] if len(self.parts) > 1 else None

    @property
    def relation(self) -> str:
        """The last part."""
        return self.parts[-1]

    def __str__(self) -> str:
        return ".".join(self.parts)
