"""The deployment for a team: what its files say, and its services as processes, from pushed rows to a view that Dagster keeps current."""

from __future__ import annotations

import os
import re
import shlex
import time

import pyarrow as pa
import pytest
import yaml

from platform_plugin.cli.arguments import build_parser
from platform_plugin.lake.catalogue.location import Location
from platform_plugin.platform import Platform
from tests.deploy.services import ROOT
from tests.deploy.team import ORDER, SECRETS, TEAM, Team, fill_in, list_copies, read_compose, read_lock

pytest.importorskip("dagster_postgres")


def test_every_service_is_bounded_reaped_and_of_a_pinned_image():
    services = read_compose()["services"]
    assert set(services) == {*ORDER, "postgres", "store"}
    for name, service in services.items():
        assert service["init"] is True, name
        assert service["mem_limit"], name
        assert name == "found" or service["restart"] == "unless-stopped", name
        assert "build" in service or re.search(r":(\d+\.\d+|RELEASE\.)", service["image"]), f"{name} is of any version"
    bases = re.findall(r"^FROM (\S+)", (TEAM / "Dockerfile").read_text(), re.MULTILINE)
    assert bases
    assert all(re.fullmatch(r"python:3\.\d+\.\d+-slim-bookworm", base) for base in bases)


def test_services_start_after_what_they_need():
    services = read_compose()["services"]
    for name, service in services.items():
        for other, how in service.get("depends_on", {}).items():
            assert other in services
            assert other in ("postgres", "store") or ORDER.index(other) < ORDER.index(name)
            assert how["condition"] != "service_healthy" or "healthcheck" in services[other], f"{name} waits for {other} for good"


def test_only_loopback_is_published_and_no_secret_is_in_the_file():
    text = (TEAM / "compose.yaml").read_text()
    published = [port for service in yaml.safe_load(text)["services"].values() for port in service.get("ports", [])]
    assert published == ["127.0.0.1:3000:3000"]
    needed = set(re.findall(r"\$\{(\w+):\?", text))
    assert needed == set(SECRETS)
    assert set(re.findall(r"^(\w+)=$", (TEAM / "env.example").read_text(), re.MULTILINE)) == needed
    with pytest.raises(AssertionError, match="is not set"):
        fill_in(read_compose()["services"]["code"]["environment"]["PGPASSWORD"], {})


def test_the_url_and_the_servers_command_are_ours():
    services = read_compose()["services"]
    location = Location.parse(fill_in(services["code"]["environment"]["PLATFORM_URL"], SECRETS))
    assert (location.data_path, location.spark) == (
        "s3://lake/main/",
        f"sc://server:15002/;use_ssl=false;token={SECRETS['PLATFORM_SERVER_TOKEN']}",
    )
    command, *words = services["server"]["command"]
    assert command == "platform"
    given = build_parser().parse_args(words)
    assert (given.master, given.port, given.idle.total_seconds(), given.foreground) == ("spark://spark-master:7077", 15002, 0, True)


def test_the_image_has_what_its_urls_need_and_nothing_for_developers():
    team, all_of_it = read_lock(TEAM / "requirements.lock"), read_lock(ROOT / "requirements.lock")
    assert {name: all_of_it.get(name) for name in team} == team, "the versions that are tested"
    assert {
        "pyspark",
        "dagster-postgres",
        "dagster-webserver",
        "psycopg",
        "psycopg2-binary",
        "s3fs",
        "confluent-kafka",
        "great-expectations",
    } <= set(team)
    assert not {"pytest", "mypy", "ruff", "moto", "flask", "duckdb", "hypothesis", "dagster-dg-cli", "sphinx", "hatchling", "uv"} & set(
        team
    )
    build = read_lock(TEAM / "build.lock")
    assert {"hatchling"} <= set(build)
    assert {name: all_of_it.get(name) for name in build} == build
    assert all((ROOT / source).exists() for source, _ in list_copies())


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.postgres
@pytest.mark.timeout(900)
def test_rows_that_are_pushed_become_a_view_through_all_services(private_postgres, s3_endpoint, tmp_path, monkeypatch, capsys):
    for statement in ("CREATE ROLE platform LOGIN SUPERUSER", "CREATE DATABASE dagster", "CREATE DATABASE lake"):
        private_postgres.execute(statement)
    database = private_postgres.database("dagster")
    team = Team(folder=tmp_path, database=database, lake="", store=s3_endpoint)
    began = time.monotonic()
    try:
        team.start_all()
        with capsys.disabled():
            print(f"\n  all services are up after {time.monotonic() - began:.0f} s, load {os.getloadavg()[0]:.1f}")
        for name, value in team.environment_of("code").items():
            if name.startswith(("PG", "AWS", "PLATFORM")):
                monkeypatch.setenv(name, value)
        keys = ["returns", "returns_by_reason/returns_by_reason_base", "returns_by_reason"]
        assert team.ended(team.launch(*keys))["status"] == "SUCCESS"
        before = team.materializations(keys[1])[0]["timestamp"]
        with Platform.open(team.lake) as platform:
            assert platform.execute("SELECT sum(pmod(hash(id), 7)) >= 0 AS s FROM range(1000)").arrow().to_pylist() == [{"s": True}]
            assert platform.work.session.read_task_slots() == 4, "two workers of two cores"
            rows = pa.table(
                {
                    "order_id": pa.array(range(90), pa.int64()),
                    "product_id": pa.array([1] * 90, pa.int32()),
                    "code": ["a", "b", "a"] * 30,
                    "returned_at": pa.array([0] * 90, pa.timestamp("us")),
                }
            )
            platform.stream("returns").append(rows)
            platform.stream("returns").flush()
            team.wait("a run of the daemon", lambda: team.materializations(keys[1])[0]["timestamp"] != before)
            assert sorted(tuple(row) for row in platform.execute("SELECT code, returns FROM returns_by_reason")) == [("a", 60), ("b", 30)]
        # The server ends with its service, and the next start serves the same clients.
        server = team.processes.pop("server-0")
        server.terminate()
        assert server.wait(60) == 143
        team.start_service("server", 1)
        team.wait("health of the server", lambda: team.is_healthy("server"), seconds=240)
        with Platform.open(team.lake) as platform:
            assert platform.execute("SELECT sum(pmod(hash(id), 7)) >= 0 AS s FROM range(1000)").arrow().num_rows == 1
        logs = "".join(path.read_text(errors="replace") for path in tmp_path.glob("*.log"))
        assert not [name for name, secret in SECRETS.items() if secret in logs], "no secret is in a log"
    finally:
        team.stop()


def test_the_page_names_every_service_and_its_commands_parse():
    page = (ROOT / "docs" / "operations" / "deploy.md").read_text()
    assert [name for name in read_compose()["services"] if f"`{name}`" not in page] == []
    for line in re.findall(r"^(platform .+?)(?: &)?$", "\n".join(re.findall(r"```sh\n(.*?)```", page, re.DOTALL)), re.MULTILINE):
        build_parser().parse_args(shlex.split(line.partition(" #")[0])[1:])
