"""A check tells which files of before-images are missing, cut off, needed by nobody, or left by a statement that was killed."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import sqlalchemy as sa

from platform_plugin.lake.commit.before_images import GONE
from platform_plugin.lake.upkeep import image_check
from tests.lake.agreement import create
from tests.lake.changing import end_rows

ROWS = pa.table({"id": range(100), "s": [str(number) for number in range(100)]})
NOW = dt.timedelta(0)


def findings(lake):
    return {(str(found.table), found.problem): (found.files, found.example) for found in lake.check()}


def image_paths(lake):
    with lake.reading() as connection:
        return list(connection.execute(sa.select(GONE.c.path).order_by(GONE.c.snapshot_id)).scalars())


def test_a_lake_in_order_has_no_findings(lake):
    assert findings(lake) == {}
    table = create(lake, "t", ROWS)
    for number in (1, 2):
        end_rows(lake, table, [number], images=True)
    assert findings(lake) == {}
    lake.expire(dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1))
    # Scheduled files are not left over: a vacuum knows them.
    assert image_paths(lake) == []
    assert findings(lake) == {}
    lake.vacuum(grace=NOW)
    assert findings(lake) == {}


def test_missing_and_cut_files_are_told_and_feeds_go_on(lake, monkeypatch):
    table = create(lake, "t", ROWS)
    start = lake.snapshot()
    for number in (1, 2):
        end_rows(lake, table, [number], images=True)
    first, second = image_paths(lake)
    lake.storage.delete([first])
    with lake.storage.open(second, "wb") as file:
        file.write(b"PAR1")
    assert findings(lake) == {
        ("main.t", "before-images that are missing"): (1, first),
        ("main.t", "before-images of another size than the catalogue notes"): (1, second),
    }
    lake.storage.delete([second])
    went, _ = lake.net_changes("t", after=start).read(lake)
    assert went.row_ids.tolist() == [1, 2]


def test_images_of_expired_snapshots_and_of_killed_statements_are_told(lake, monkeypatch):
    table = create(lake, "t", ROWS)
    end_rows(lake, table, [1], images=True)
    (path,) = image_paths(lake)
    scan = lake.scan(table, lake.snapshot())
    (orphan,) = lake.write_before_images(scan, {scan.files[0].id: [5]})
    # A young one may be of a statement that goes on to its commit.
    assert findings(lake) == {}
    monkeypatch.setattr(image_check, "GRACE", NOW)
    assert findings(lake) == {("main.t", "before-images that no commit named"): (1, orphan.path)}
    with lake.writing() as connection:
        connection.execute(sa.update(GONE).values(snapshot_id=0))
    assert findings(lake) == {
        ("main.t", "before-images that no commit named"): (1, orphan.path),
        ("main.t", "before-images that no feed can need"): (1, path),
    }
    lake.expire(dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1))
    lake.vacuum(grace=NOW)
    assert findings(lake) == {}
