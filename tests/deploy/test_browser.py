"""What a person sees: the asset graph, a view's plots and checks, the overview's picture and a cancelled run, in a real browser."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pyarrow as pa
import pytest

from platform_plugin import Platform
from tests.deploy.services import ROOT, Services

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.postgres, pytest.mark.timeout(900)]
pytest.importorskip("dagster_postgres")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
KEPT = os.environ.get("SCREENSHOTS")
"""Where the pictures go that the documentation shows: `SCREENSHOTS=docs/images`; by default nobody keeps them."""


def find_playwright() -> Path | None:
    """The folder with `playwright-core`, from NODE_PATH or installed for the whole machine."""
    npm = shutil.which("npm")
    everywhere = [subprocess.run([npm, "root", "-g"], capture_output=True, text=True, check=False).stdout.strip()] if npm else []
    folders = [*os.environ.get("NODE_PATH", "").split(os.pathsep), *everywhere]
    return next((Path(folder) for folder in folders if folder and (Path(folder) / "playwright-core").is_dir()), None)


@pytest.fixture
def services(spark_server, postgres_server, tmp_path):
    database = postgres_server.database("dagster_browser")
    postgres_server.execute(f'CREATE DATABASE "{database.name}"')
    files = {path.relative_to(ROOT / "dbt_like_sql").as_posix(): path.read_text() for path in (ROOT / "dbt_like_sql").rglob("*.*")}
    slow = "-- Nobody waits for this one.\nCREATE TABLE slow AS SELECT sum(pmod(hash(id), 7)) AS s FROM range(0, 1000000000000)"
    made = Services(folder=tmp_path, database=database, lake=f"platform+local://{tmp_path}/lake")
    try:
        yield made.start(files | {"tables/slow.sql": slow})
    finally:
        made.stop()
        postgres_server.execute(f'DROP DATABASE IF EXISTS "{database.name}" WITH (FORCE)')


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium (apt-get install chromium)")
@pytest.mark.skipif(find_playwright() is None, reason="playwright-core is not installed (npm install -g playwright-core)")
def test_the_interface_shows_the_living_platform(services, tmp_path):
    relations = ["posts", "users", "impact/base", "impact", "price_per_like", "best_prices"]
    assert services.ended(services.launch(*relations))["status"] == "SUCCESS"
    with Platform.open(services.lake) as platform:
        second = 0
        # Until the base has been maintained so often that its plots are lines.
        while len(services.materializations("impact/base", 10)) < 4 and second < 120:
            second += 1
            count = 300 + 100 * (second % 5)
            uids = pa.array([(n * n + second) % 97 for n in range(count)], pa.int32())
            names = pa.array([f"user{uid}" for uid in uids.to_pylist()])
            platform.stream("posts").append(pa.table({"uid": uids, "username": names, "score": uids, "content": names}))
            time.sleep(2)
    cancelled = services.launch("slow")
    services.wait("the start of the slow run", lambda: services.run(cancelled)["status"] == "STARTED")
    time.sleep(5)
    services.terminate(cancelled)
    assert services.ended(cancelled)["status"] == "CANCELED"
    folder = ROOT / KEPT if KEPT else tmp_path / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"NODE_PATH": str(find_playwright()), "CHROMIUM": str(CHROMIUM)}
    command = ["node", str(Path(__file__).with_name("browser.cjs")), f"http://127.0.0.1:{services.port}", str(folder), cancelled]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all((folder / name).stat().st_size > 10_000 for name in ("asset-graph.png", "view-plots.png", "cancelled-run.png"))
