"""What a person sees, in a real browser: the graph, a view with its plots and checks, runs and why, the overview, a cancelled run."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from deploy.feed import INBOX, Shop, drop, load
from platform_plugin import Platform
from tests.deploy.services import ROOT, Services

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.postgres, pytest.mark.timeout(1800)]
pytest.importorskip("dagster_postgres")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
KEPT = os.environ.get("SCREENSHOTS")
"""Where the pictures go that the documentation shows: `SCREENSHOTS=docs/images`; by default nobody keeps them."""

PICTURES = ("asset-graph", "asset-page", "platform-overview", "runs", "view-checks", "view-lineage", "view-plots")

LOCATION = '''
import dagster as dg

from deploy.code_location import load
from platform_plugin.orchestration import history_table


@history_table()
def slow() -> str:
    """Nobody waits for this one."""
    return "SELECT sum(pmod(hash(id), 7)) AS s FROM range(0, 1000000000000)"


defs = dg.Definitions.merge(load(), dg.Definitions(assets=[slow]))
'''
"""The reference platform, and a run that can be cancelled."""


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
    made = Services(folder=tmp_path, database=database, lake=f"platform+local://{tmp_path}/lake")
    try:
        yield made.start(location=LOCATION)
    finally:
        made.stop()
        postgres_server.execute(f'DROP DATABASE IF EXISTS "{database.name}" WITH (FORCE)')


def made_first() -> list[str]:
    """What `make ui` makes first: all but what people or the clock ask for."""
    from deploy.code_location import load

    later = {"daily_sales", "campaign", "platform/overview"}
    return sorted({key.to_user_string() for key in load().resolve_all_asset_keys()} - later)


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium (apt-get install chromium)")
@pytest.mark.skipif(find_playwright() is None, reason="playwright-core is not installed (npm install -g playwright-core)")
def test_the_interface_shows_the_living_platform(services, tmp_path, monkeypatch):
    monkeypatch.setenv("PLATFORM_URL", services.lake)
    monkeypatch.syspath_prepend(str(ROOT))
    assert services.ended(services.launch(*made_first()), seconds=400)["status"] == "SUCCESS"
    shop = Shop()
    (services.folder / INBOX).mkdir(parents=True)
    with Platform.open(services.lake) as platform:
        load(platform, {"customers": shop.customers(), "products": shop.products(), "return_reasons": shop.reasons()})
        second = 0
        # Until the base has been maintained so often that its plots are lines.
        while len(services.materializations("sales_by_product/sales_by_product_base", 10)) < 5 and second < 150:
            second += 1
            drop(shop.orders(300 + 100 * (second % 5), broken=second % 2), services.folder / INBOX)
            for name, rows in {"clicks": shop.clicks(500), "searches": shop.searches(100), "returns": shop.returns(3)}.items():
                platform.stream(name).append(rows)
            time.sleep(2)
    cancelled = services.launch("slow")
    services.wait("the start of the slow run", lambda: services.run(cancelled)["status"] == "STARTED")
    time.sleep(5)
    services.terminate(cancelled)
    assert services.ended(cancelled)["status"] == "CANCELED"
    services.wait("the overview", lambda: services.materializations("platform/overview"))
    folder = ROOT / KEPT if KEPT else tmp_path / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"NODE_PATH": str(find_playwright()), "CHROMIUM": str(CHROMIUM)}
    command = ["node", str(Path(__file__).with_name("browser.cjs")), f"http://127.0.0.1:{services.port}", str(folder), cancelled]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all((folder / f"{name}.png").stat().st_size > 10_000 for name in PICTURES)
