"""The services of `deploy/team/compose.yaml` as processes: the same commands, variables and files, at other places and ports."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from tests.deploy.services import ROOT, Services, free_port

if TYPE_CHECKING:
    from pathlib import Path

TEAM = ROOT / "deploy" / "team"
SECRETS = {
    "DAGSTER_PG_PASSWORD": "for-the-database",
    "STORE_PASSWORD": "for-the-store",
    "PLATFORM_SERVER_TOKEN": "0123456789abcdef01234567",
}
ORDER = ("found", "spark-master", "spark-worker", "server", "code", "web", "daemon")
"""Our services, each after those that it depends on."""


def read_compose() -> dict[str, Any]:
    return dict(yaml.safe_load((TEAM / "compose.yaml").read_text()))


def fill_in(text: str, environment: dict[str, str]) -> str:
    """A value as compose reads it: `${NAME}`, `${NAME:-default}` and `${NAME:?message}`, also inside of defaults; `$$` is `$`."""
    inner = re.compile(r"\$\{(\w+)(?::([-?])([^${}]*))?\}")

    def value(found: re.Match[str]) -> str:
        name, kind, rest = found.groups()
        if environment.get(name):
            return environment[name]
        assert kind == "-", f"{name} is not set: {rest}"
        return str(rest)

    while inner.search(text):
        text = inner.sub(value, text)
    return text.replace("$$", "$")


def read_image_variables() -> dict[str, str]:
    """The variables that the Dockerfile sets."""
    joined = re.sub(r"\\\n\s*", "", (TEAM / "Dockerfile").read_text())
    found = [line for line in joined.splitlines() if line.startswith("ENV ")]
    return dict(word.split("=", 1) for line in found for word in line.removeprefix("ENV ").split())


def list_copies() -> list[tuple[str, str]]:
    """What the last stage of the Dockerfile copies from the project, and where to."""
    stage = (TEAM / "Dockerfile").read_text().rsplit("\nFROM ", 1)[1]
    found = []
    for line in stage.splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            *sources, target = line.split()[1:]
            found += [(source, target) for source in sources]
    return found


@dataclass
class Team(Services):
    """The processes of a deployment. Its PostgreSQL and its store are servers of the tests."""

    store: str = ""
    ports: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ports = {
            "5432": str(self.database.port),
            "7077": str(free_port()),
            "8080": "0",
            "8081": "0",
            "15002": str(free_port()),
            "4000": str(self.code_port),
            "3000": str(self.port),
        }
        self.compose = read_compose()
        self.lake = self.translate(self.compose["services"]["code"]["environment"]["PLATFORM_URL"])

    def translate(self, text: object) -> str:
        """A word of the deployment as one of this machine."""
        word = fill_in(str(text), SECRETS).replace("http://store:9000", self.store).replace("/srv/", f"{self.folder}/srv/")
        word = re.sub(r"\b(postgres|spark-master|server|code):(\d+)", lambda found: f"127.0.0.1:{self.ports[found[2]]}", word)
        if word in ("postgres", "spark-master", "server", "code", "0.0.0.0"):
            return "127.0.0.1"
        return self.ports.get(word, word)

    def environment_of(self, service: str) -> dict[str, str]:
        given = self.compose["services"][service].get("environment", {})
        said = read_image_variables() | {name: str(value) for name, value in given.items()}
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("PLATFORM", "DAGSTER", "AWS", "SPARK", "PYSPARK"))
        }
        # Of the project only the package can be imported, as in the image.
        return kept | {name: self.translate(value) for name, value in said.items()} | {"PYTHONPATH": str(self.folder / "site")}

    def build(self) -> None:
        """The folders of the image."""
        srv = self.folder / "srv"
        platform = srv / "platform"
        for source, target in list_copies():
            if target.startswith("/tmp"):
                continue
            to = (self.folder / target.lstrip("/") if target.startswith("/") else platform / target) / (
                "" if (ROOT / source).is_dir() else (ROOT / source).name
            )
            to.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, to, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / source, to)
        for folder in (platform / ".platform" / "inbox", srv / "incoming", srv / "spark"):
            folder.mkdir(parents=True)
        (srv / "run").mkdir(mode=0o700)
        (self.folder / "site").mkdir()
        (self.folder / "site" / "platform_plugin").symlink_to(ROOT / "platform_plugin")

    def start_all(self) -> Team:
        self.build()
        for service in ORDER:
            described = self.compose["services"][service]
            for number in range(described.get("deploy", {}).get("replicas", 1)):
                self.start_service(service, number)
            if service == "found":
                assert self.processes.pop("found-0").wait(120) == 0, (self.folder / "found-0.log").read_text()
            elif "healthcheck" in described:
                self.wait(f"health of {service}", lambda service=service: self.is_healthy(service), seconds=240)
            elif service == "web":
                self.wait("the web server", lambda: self.get("/server_info"), seconds=240)
        return self

    def start_service(self, service: str, number: int = 0) -> None:
        command = [self.translate(word) for word in self.compose["services"][service]["command"]]
        with (self.folder / f"{service}-{number}.log").open("ab") as log:
            self.processes[f"{service}-{number}"] = subprocess.Popen(
                command,
                cwd=self.folder / "srv" / "platform",
                env=self.environment_of(service),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def is_healthy(self, service: str) -> bool:
        """What the health check of a service says."""
        kind, *command = self.compose["services"][service]["healthcheck"]["test"]
        assert kind == "CMD"
        done = subprocess.run(
            [self.translate(word) for word in command],
            cwd=self.folder / "srv" / "platform",
            env=self.environment_of(service),
            capture_output=True,
            timeout=60,
            check=False,
        )
        if done.returncode:
            time.sleep(1)
        return done.returncode == 0


def read_lock(path: Path) -> dict[str, str]:
    """The versions of a lock file."""
    return dict(re.findall(r"^([a-z0-9._-]+)==([^\s;\\]+)", path.read_text(), re.MULTILINE))
