"""SQLAlchemy's compliance suite, run against a lake."""

from sqlalchemy.testing.suite import *  # noqa: F403  the suite is made to be imported so
