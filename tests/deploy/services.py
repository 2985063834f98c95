"""A team's deployment on one machine: PostgreSQL storage, code server, web server and daemon, each a process of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.postgres import Database

ROOT = Path(__file__).resolve().parents[2]
# Whoever runs the tests may speak to the world through a proxy, but not to their own machine.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))

CODE_LOCATION = """
from pathlib import Path

import dagster as dg

from platform_plugin.orchestration import PlatformResource, SqlFolder, upstream_changed
from platform_plugin.orchestration.components.place import lake_url

HERE = Path(__file__).parent


class Context:
    path = HERE
    project_root = HERE


@dg.asset(deps=["impact"], group_name="results", automation_condition=upstream_changed())
def campaign(platform: PlatformResource) -> dg.MaterializeResult:
    return dg.MaterializeResult(metadata={"users": platform.execute("SELECT count(*) FROM impact").arrow()[0][0].as_py()})


defs = dg.Definitions.merge(
    SqlFolder(path="sql", url=lake_url(HERE)).build_defs(Context()),
    dg.Definitions(
        assets=[campaign],
        resources={"platform": PlatformResource(url=lake_url(HERE), create=True)},
        executor=dg.in_process_executor,
    ),
)
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@dataclass
class Services:
    """The processes, and what a person would ask the web server for."""

    folder: Path
    database: Database
    lake: str
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    code_port: int = field(default_factory=free_port)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {
            "DAGSTER_HOME": str(self.home),
            "DAGSTER_PG_HOST": self.database.host,
            "DAGSTER_PG_PORT": str(self.database.port),
            "DAGSTER_PG_USERNAME": self.database.user,
            "DAGSTER_PG_PASSWORD": "none",
            "DAGSTER_PG_DB": self.database.name,
            "CODE_SERVER_HOST": "127.0.0.1",
            "CODE_SERVER_PORT": str(self.code_port),
            "PLATFORM_URL": self.lake,
            "PYTHONPATH": f"{self.folder}{os.pathsep}{ROOT}",
        }

    def start(self, sql: Mapping[str, str] = MappingProxyType({}), location: str = CODE_LOCATION) -> Services:
        self.home.mkdir(parents=True)
        for name in ("dagster.yaml", "workspace.yaml"):
            shutil.copy(ROOT / "deploy" / "team" / name, self.home)
        (self.folder / "team_location.py").write_text(location)
        for name, text in sql.items():
            path = self.folder / "sql" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        # One after the other: the first makes the tables of the database.
        local = ["--host", "127.0.0.1"]
        self._run(
            "code", "dagster", "code-server", "start", "-f", str(self.folder / "team_location.py"), *local, "--port", str(self.code_port)
        )
        self.wait("the code server", self._serves_code)
        workspace = ["-w", str(self.home / "workspace.yaml")]
        self._run("web", "dagster_webserver", *workspace, *local, "--port", str(self.port))
        self.wait("the web server", lambda: self.get("/server_info"))
        self._run("daemon", "dagster._daemon", "run", *workspace)
        return self

    def _run(self, name: str, module: str, *arguments: str) -> None:
        log = (self.folder / f"{name}.log").open("wb")
        self.processes[name] = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def _serves_code(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.code_port)) == 0

    def stop(self) -> None:
        for process in reversed(self.processes.values()):
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
        for process in self.processes.values():
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)

    def wait(self, what: str, happened: Callable[[], Any], seconds: float = 180.0) -> Any:
        """The first true answer; afterwards it is too late, and the logs say why."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                found = happened()
            except OSError:
                found = None
            if found:
                return found
            if any(process.poll() is not None for process in self.processes.values()):
                break
            time.sleep(0.1)
        logs = "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}" for path in sorted(self.folder.glob("*.log")))
        message = f"{what} did not happen within {seconds:.0f} s\n{logs}"
        raise AssertionError(message)

    def get(self, path: str) -> bytes:
        with _OPENER.open(f"http://127.0.0.1:{self.port}{path}", timeout=20) as answer:
            return bytes(answer.read())

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        """What the web server's GraphQL answers."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/graphql", data=body, headers={"Content-Type": "application/json"})
        try:
            with _OPENER.open(request, timeout=60) as answer:
                told = json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode(errors="replace")[:3000]) from error
        assert "errors" not in told, told["errors"]
        return dict(told["data"])

    def launch(self, *keys: str, job: str = "__ASSET_JOB") -> str:
        """Materialize assets as the button does; the id of the run."""
        selection = [{"path": key.split("/")} for key in keys]
        params = {
            "selector": {
                "repositoryLocationName": "reference_platform",
                "repositoryName": "__repository__",
                "pipelineName": job,
                "assetSelection": selection,
                "assetCheckSelection": [],
            },
            "mode": "default",
            "runConfigData": {},
        }
        told = self.ask(
            """mutation($p: ExecutionParams!) { launchPipelineExecution(executionParams: $p) {
                __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } ... on RunConfigValidationInvalid
                { errors { message } } ... on InvalidSubsetError { message } } }""",
            p=params,
        )["launchPipelineExecution"]
        assert told["__typename"] == "LaunchRunSuccess", told
        return str(told["run"]["runId"])

    def run(self, run_id: str) -> dict[str, Any]:
        query = "query($id: ID!) { runOrError(runId: $id) { ... on Run { status startTime endTime creationTime } } }"
        return dict(self.ask(query, id=run_id)["runOrError"])

    def process_of(self, run_id: str) -> int:
        """The process that a run is in, as its log says."""
        query = """query($id: ID!) { runOrError(runId: $id) { ... on Run { eventConnection { events {
            ... on MessageEvent { message } } } } } }"""
        events = self.ask(query, id=run_id)["runOrError"]["eventConnection"]["events"]
        found = [re.search(r"pid: (\d+)", event.get("message") or "") for event in events]
        return next(int(match[1]) for match in reversed(found) if match)

    def terminate(self, run_id: str) -> None:
        self.ask("mutation($id: String!) { terminateRun(runId: $id) { __typename } }", id=run_id)

    def ended(self, run_id: str, seconds: float = 180.0) -> dict[str, Any]:
        return dict(self.wait(f"the end of run {run_id}", lambda: (told := self.run(run_id))["status"] in _ENDS and told, seconds=seconds))

    def materializations(self, key: str, limit: int = 5) -> list[dict[str, Any]]:
        """The newest of an asset, with the version of the data and the run."""
        query = """query($k: AssetKeyInput!, $n: Int!) { assetOrError(assetKey: $k) { ... on Asset {
            assetMaterializations(limit: $n) { timestamp runId tags { key value } metadataEntries { label ... on IntMetadataEntry
            { intValue } ... on FloatMetadataEntry { floatValue } } } } } }"""
        found = self.ask(query, k={"path": key.split("/")}, n=limit)["assetOrError"]
        return list(found.get("assetMaterializations", []))

    def checks(self, key: str) -> list[dict[str, Any]]:
        """The last execution of each check of an asset."""
        query = """query($k: AssetKeyInput!) { assetNodeOrError(assetKey: $k) { ... on AssetNode { assetChecksOrError {
            ... on AssetChecks { checks { name executionForLatestMaterialization { status timestamp evaluation { success } } } } } } } }"""
        return list(self.ask(query, k={"path": key.split("/")})["assetNodeOrError"]["assetChecksOrError"]["checks"])


_ENDS = ("SUCCESS", "FAILURE", "CANCELED")
