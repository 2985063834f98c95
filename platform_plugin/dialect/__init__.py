"""The SQLAlchemy dialect and the PEP 249 module under it."""

from __future__ import annotations

from platform_plugin.dialect.dialect import PlatformDialect
from platform_plugin.dialect.sessions import session
from platform_plugin.dialect.streams import CreateStream, DropStream

__all__ = ["CreateStream", "DropStream", "PlatformDialect", "session"]
