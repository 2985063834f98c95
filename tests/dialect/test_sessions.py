"""Sessions in SQLAlchemy: their text, their rows, and what is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from platform_plugin.dialect import session
from platform_plugin.errors import InvalidValue
from platform_plugin.platform import Platform

if TYPE_CHECKING:
    from pathlib import Path


def test_a_session_is_selected_from_and_joined(tmp_path: Path) -> None:
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE STREAM `odd name` (uid INT, score INT)")
        platform.execute("CREATE TABLE users (id INT, region STRING)")
        platform.execute("INSERT INTO users VALUES (1, 'eu'), (2, 'us')")
        platform.execute("INSERT INTO `odd name` VALUES (1, 5), (2, 7), (1, 1)")
    engine = sa.create_engine(f"platform+local://{tmp_path / 'lake'}")
    metadata = sa.MetaData()
    posts, users = sa.Table("odd name", metadata, autoload_with=engine), sa.Table("users", metadata, autoload_with=engine)
    arriving = session(posts, timedelta(milliseconds=100), start="earliest", name="p")
    total = sa.func.sum(arriving.c.score)
    query = sa.select(users.c.region, total).select_from(arriving.join(users, users.c.id == arriving.c.uid)).group_by(users.c.region)
    with engine.connect() as connection:
        assert sorted(connection.execute(query).all()) == [("eu", 6), ("us", 7)]
        nothing = session(posts, timedelta(milliseconds=100))
        assert connection.execute(sa.select(sa.func.count()).select_from(nothing)).scalar() == 0
    engine.dispose()


@pytest.mark.parametrize(("idle", "start"), [(timedelta(0), "now"), (timedelta(seconds=-1), "now"), (timedelta(seconds=1), "then")])
def test_what_is_no_session_is_refused(idle: timedelta, start: str) -> None:
    with pytest.raises(InvalidValue, match="a session can't"):
        session(sa.Table("posts", sa.MetaData(), sa.Column("uid", sa.Integer)), idle, start=start)  # type: ignore[arg-type]
