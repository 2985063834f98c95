"""A lake with an engine on it, and the dialect known to SQLAlchemy even where the project is not installed."""

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import registry

from platform_plugin import Platform

# SQLAlchemy's own suite brings a plugin of its own: see suite/run.py.
collect_ignore = ["suite"]

registry.register("platform", "platform_plugin.dialect", "PlatformDialect")
registry.register("platform.local", "platform_plugin.dialect", "PlatformDialect")


@pytest.fixture
def lake(tmp_path):
    """The URL of an empty lake."""
    url = f"platform+local://{tmp_path}/lake"
    Platform.create(url).close()
    return url


@pytest.fixture
def engine(lake):
    engine = sa.create_engine(lake)
    yield engine
    engine.dispose()


@pytest.fixture(scope="module")
def spark_lake(spark_server, tmp_path_factory):
    """A lake for the tests of a module that let Spark read it."""
    url = f"platform+local://{tmp_path_factory.mktemp('lake')}/lake"
    Platform.create(url).close()
    return url


@pytest.fixture(scope="module")
def spark_engine(spark_lake):
    engine = sa.create_engine(spark_lake)
    yield engine
    engine.dispose()
