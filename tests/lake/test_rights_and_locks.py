"""Missing rights and a catalogue that another program has locked: an error in time says what stands in the way."""

from __future__ import annotations

import os
import pwd
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from platform_plugin.errors import CatalogueError
from platform_plugin.lake.catalogue import database
from platform_plugin.lake.lake import Lake
from tests.lake.hundred_rows import append_rows, create_lake

AS_NOBODY = """
import os, sys
import pyarrow as pa
import sqlalchemy.dialects.sqlite, pyarrow.parquet, fsspec
import platform_plugin.lake.commit.commit
from platform_plugin.lake.lake import Lake
from platform_plugin.lake.read.read import read_rows
from platform_plugin.lake.catalogue.relations import Declaration, declare_relation
from platform_plugin.errors import PlatformError
uid = int(sys.argv[1])
# What is imported on demand may be where nobody else may read.
fsspec.url_to_fs(sys.argv[2])
os.setgroups([]); os.setgid(uid); os.setuid(uid)
for call in sys.argv[3:]:
    try:
        lake = Lake.create(sys.argv[2]) if call == "create" else Lake.open(sys.argv[2])
        if call == "read":
            lake.read("t")
        if call == "commit":
            rows = pa.table({"id": [1]})
            with lake.commit("x") as commit:
                commit.append(lake.table("t"), [lake.write(lake.table("t"), rows)])
        if call == "note":
            with lake.commit("x"):
                pass
        print(call, "done")
    except PlatformError as error:
        print(call, type(error).__name__, "hint" if error.hint else "NO HINT", str(error).replace(chr(10), " | "))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_missing_rights_are_said(tmp_path):
    place = Path("/tmp") / f"platform-rights-{os.getpid()}"
    place.mkdir(mode=0o755)
    try:
        lake = create_lake(place / "lake")
        lake.close()
        nobody = str(pwd.getpwnam("nobody").pw_uid)

        def attempt(*calls):
            ran = subprocess.run(
                [sys.executable, "-c", AS_NOBODY, nobody, str(place / "lake"), *calls],
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
                cwd=Path(__file__).parents[2],
            )
            assert ran.returncode == 0, ran.stderr
            return ran.stdout.splitlines()

        head = (place / "lake" / "lake.sqlite").stat().st_mtime_ns
        for line in attempt("commit", "note", "create"):
            assert "done" not in line, line
            assert "NO HINT" not in line, line
        (place / "lake" / "data" / "main" / "t").chmod(0o700)
        (place / "lake").chmod(0o777)
        (place / "lake" / "lake.sqlite").chmod(0o666)
        for line in attempt("read", "commit"):
            assert "StorageError hint" in line, line
            assert "permission denied" in line.lower(), line
        (place / "lake").chmod(0o700)
        for line in attempt("read", "create"):
            assert "hint" in line, line
        (place / "lake").chmod(0o755)
        assert (place / "lake" / "lake.sqlite").stat().st_mtime_ns == head
        with Lake.open(place / "lake") as lake:
            assert lake.read("t").num_rows == 100
            assert lake.snapshot().id == 1
    finally:
        subprocess.run(["rm", "-rf", str(place)], check=True)


def test_a_catalogue_locked_by_another_program_is_an_error_in_time(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "BUSY_TIMEOUT_SECONDS", 0.4)
    lake = create_lake(tmp_path / "lake")
    holder = sqlite3.connect(tmp_path / "lake" / "lake.sqlite", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    before = {path for path, _ in lake.storage.listing()}
    started = time.monotonic()
    with pytest.raises(CatalogueError, match="is locked by another process") as raised, lake.commit("note"):
        pass
    # By itself it waits for 30 seconds.
    assert time.monotonic() - started < 25
    assert raised.value.hint
    assert lake.read("t").num_rows == 100  # readers pass
    assert {path for path, _ in lake.storage.listing()} == before
    holder.rollback()
    holder.close()
    append_rows(lake)
    lake.close()
