"""SQLAlchemy's own plugin, in a pytest run of its own: `python tests/dialect/suite/run.py`."""

from sqlalchemy.dialects import registry
from sqlalchemy.testing.plugin.pytestplugin import *  # noqa: F403  the plugin is made to be imported so

registry.register("platform", "platform_plugin.dialect", "PlatformDialect")
registry.register("platform.local", "platform_plugin.dialect", "PlatformDialect")
