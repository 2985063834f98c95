"""Makes one lake of the corpus: run it with the package of an earlier version on PYTHONPATH, and with the folder to make as argument.

It uses what every version since the first of them has: `Platform`, SQL and the command line. A statement that a version does not know is
noted as such. What relations must hold is told from what was written, and where only the version itself can tell, from what it answered.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

from platform_plugin.errors import PlatformError
from platform_plugin.platform import Platform

USERS = "CREATE TABLE users (id INT PRIMARY KEY, region STRING, rate DECIMAL(9,2))"
STREAMS = {
    "clicks": "CREATE STREAM clicks (id INT, uid INT, amount DECIMAL(9,2), page STRING) WITH (retention_rows = 30)",
    "clicks_all": "CREATE TABLE clicks_all AS HISTORY OF clicks",
    "logs": "CREATE STREAM logs (id INT, level STRING, took DOUBLE)",
    "visits": "CREATE STREAM visits (id INT, place STRING) FROM FILES '{root}/feed/*.csv' (FORMAT csv, HEADER)",
    "mirror": "CREATE STREAM mirror FROM TABLE users",
}
VIEWS = {
    "totals": "CREATE VIEW totals AS SELECT uid, count(*) AS n, sum(amount) AS total FROM clicks GROUP BY uid",
    "large": "CREATE VIEW large AS SELECT uid, count(*) AS n, sum(amount) AS total FROM clicks GROUP BY uid HAVING sum(amount) > 40",
    "pages": "CREATE VIEW pages WITH (target_lag = '1 second') AS SELECT page, max(amount) AS most FROM clicks GROUP BY page",
    "regions": "CREATE VIEW regions AS SELECT u.region, count(*) AS n FROM clicks c JOIN users u ON c.uid = u.id GROUP BY u.region",
    "levels": "CREATE VIEW levels WITH (maintenance = 'deferred') AS SELECT level, count(*) AS n FROM logs GROUP BY level",
    "levels_at_once": "CREATE VIEW levels_at_once WITH (maintenance = 'eager') AS SELECT level, count(*) AS n FROM logs GROUP BY level",
    "levels_in_batches": "CREATE VIEW levels_in_batches WITH (maintenance = 'batch', batch_rows = 8) AS"
    " SELECT level, count(*) AS n FROM logs GROUP BY level",
    "places": "CREATE VIEW places AS SELECT place, count(*) AS n FROM visits GROUP BY place",
    "rich": "CREATE VIEW rich AS SELECT id, region FROM users WHERE rate > 2",
}
SAMPLES = {
    "some_clicks": "CREATE SAMPLE some_clicks ON clicks SIZE 7 WITH (seed = 1)",
    "clicks_by_page": "CREATE SAMPLE clicks_by_page ON clicks SIZE 8 STRATIFIED BY (page) WITH (seed = 2)",
    "newest_clicks": "CREATE SAMPLE newest_clicks ON clicks SIZE 5 WITH (window = '20 rows', seed = 3)",
    "dear_clicks": "CREATE SAMPLE dear_clicks ON clicks SIZE 6 WEIGHTED BY (amount) WITH (seed = 4)",
    "some_users": "CREATE SAMPLE some_users ON users SIZE 3 WITH (seed = 5)",
    "some_logs": "CREATE SAMPLE some_logs ON logs SIZE 7 WITH (seed = 6)",
    "some_totals": "CREATE SAMPLE some_totals ON totals SIZE 2 WITH (seed = 7)",
    "some_of_two": "CREATE SAMPLE some_of_two ON SAMPLES (some_clicks, more_clicks) SIZE 5 WITH (seed = 8)",
}
OTHER = {"more_clicks": "CREATE SAMPLE more_clicks ON other_clicks SIZE 7 WITH (seed = 9)"}
# What their rows are drawn from, and how many they are at most.
DRAWN = {
    "some_clicks": ("ever clicks", 7),
    "clicks_by_page": ("ever clicks", 8),
    "newest_clicks": ("ever clicks", 5),
    "dear_clicks": ("ever clicks", 6),
    "some_users": ("users", 3),
    "some_logs": ("logs", 7),
    "some_totals": ("totals", 2),
}
RECORDED = ("clicks", "clicks_all", "mirror")
"""What streams hold depends on when views have consumed it: of these the version's own answers are kept."""
SUITE = """gate: true
expectations:
- {type: expect_column_values_to_be_between, kwargs: {column: amount, min_value: 0}}
"""
PAGES, LEVELS, PLACES, REGIONS = ("home", "cart", "pay"), ("info", "warn"), ("here", "there"), ("EU", "US", "AP")
ROUNDS = 7


class Maker:
    """A lake in the making, with what its relations must hold."""

    def __init__(self, root: Path, platform: Platform | None = None) -> None:
        self.root = root
        self.platform = platform or Platform.create(f"platform+local://{root}/lake")
        self.refused: dict[str, str] = {}
        self.disagreed: dict[str, list[int]] = {}
        self.made: set[str] = set()
        self.users: dict[int, tuple[str, Decimal]] = {}
        self.at_first: dict[int, tuple[str, Decimal]] = {}
        self.rows: dict[str, list[tuple[Any, ...]]] = {"clicks": [], "logs": [], "visits": [], "payments": []}
        self.expected: dict[int, dict[str, Any]] = {}

    @classmethod
    def resume(cls, root: Path, platform: Platform, state: dict[str, Any]) -> Maker:
        """Go on with a lake that another process has made, by what that one has told of it."""

        def typed(row: list[Any], place: int) -> tuple[Any, ...]:
            return (*row[:place], Decimal(row[place]), *row[place + 1 :])

        maker = cls(root, platform)
        maker.made = set(state["made"])
        maker.rows = {name: [tuple(row) for row in rows] for name, rows in state["rows"].items()}
        maker.rows["clicks"] = [typed(row, 2) for row in state["rows"]["clicks"]]
        for users, told in ((maker.users, state["users"]), (maker.at_first, state["at_first"])):
            users.update({int(number): (region, Decimal(rate)) for number, region, rate in told})
        return maker

    def run(self, sql: str, *, of: str | None = None) -> None:
        """A statement; one that this version refuses is noted."""
        try:
            self.platform.execute(sql)
        except PlatformError as error:
            self.refused[sql] = error.message
            if of is None:
                raise
            return
        if of is not None:
            self.made.add(of)

    def command(self, *words: str) -> bool:
        """A command of the `platform` program on the lake, in a process of its own as a service would be; whether it went well."""
        program = [sys.executable, "-m", "platform_plugin.cli", *words, "--url", f"platform+local://{self.root}/lake"]
        said = subprocess.run(program, capture_output=True, text=True, check=False)
        if said.returncode:
            self.refused[" ".join(words)] = (said.stderr or said.stdout).strip()[-300:]
        return not said.returncode

    def define(self) -> None:
        (self.root / "feed").mkdir()
        (self.root / "feed" / "0.csv").write_text("id,place\n")
        self.run(USERS)
        self.run("CREATE TABLE payments (id INT, amount INT)")
        (self.root / "payments.yml").write_text(SUITE)
        self.run("CREATE STREAM other_clicks (id INT, uid INT, amount DECIMAL(9,2), page STRING)")
        self.run("INSERT INTO users VALUES " + ", ".join(self._user(n) for n in range(6)))
        self.at_first = dict(self.users)
        for of, sql in {**STREAMS, **VIEWS, **OTHER, **SAMPLES}.items():
            self.run(sql.format(root=self.root), of=of)

    def _user(self, number: int) -> str:
        self.users[number] = REGIONS[number % 3], Decimal(number * 75) / 100
        return f"({number}, '{self.users[number][0]}', {self.users[number][1]})"

    def add_rows(self) -> None:
        """Rows that wait in the streams."""
        first = len(self.rows["clicks"])
        rows = [(i, i * 7 % 6, Decimal(i * 137 % 1000) / 100, PAGES[i * i % 3]) for i in range(first, first + 9)]
        self.rows["clicks"] += rows
        self.run("INSERT INTO clicks VALUES " + ", ".join(f"({i}, {uid}, {amount}, '{page}')" for i, uid, amount, page in rows))
        first = len(self.rows["logs"])
        entries = [(i, LEVELS[i % 5 == 0], i / 8) for i in range(first, first + 5)]
        self.rows["logs"] += entries
        self.run("INSERT INTO logs VALUES " + ", ".join(f"({i}, '{level}', {took})" for i, level, took in entries))

    def fill(self, number: int) -> None:
        """Rows for everything, and changes of what can be changed."""
        self.add_rows()
        if number % 3 == 1:
            self.run("INSERT INTO other_clicks VALUES " + ", ".join(f"({-i}, 1, 1.5, 'home')" for i in range(1, 6)))
            first = len(self.rows["visits"])
            visits = [(i, PLACES[i % 2]) for i in range(first, first + 4)]
            (self.root / "feed" / f"{number}.csv").write_text("id,place\n" + "".join(f"{i},{place}\n" for i, place in visits))
            self.command("ingest", "visits", "--once")
            self.rows["visits"] += visits
        gate = ("--gate", f"payments={self.root}/payments.yml")
        if number == 1:
            good = ("sql", "-c", "INSERT INTO payments VALUES (1, 5)")
            if not self.command(*good, *gate):
                self.command(*good)
            self.rows["payments"].append((1, 5))
        if number == 5 and not any("--gate" in words for words in self.refused):
            self.command("sql", "-c", "INSERT INTO payments VALUES (2, -5)", *gate)
        if number == 2:
            self.run("UPDATE users SET rate = rate + 1 WHERE region = 'EU'")
            self.users = {i: (region, rate + (region == "EU")) for i, (region, rate) in self.users.items()}
        if number == 3:
            self.run("DELETE FROM users WHERE id = 4")
            del self.users[4]
        if number == 4:
            self.run(f"INSERT INTO users VALUES {self._user(9)}, {self._user(10)}")
            self.command("ingest", "mirror", "--once")

    def keep(self, number: int) -> None:
        """What runs between: maintenance, stored samples, merged files, relations that come and go."""
        if number in (1, 3, 5):
            self.command("maintain", "--once")
        if number == 3:
            for sample in sorted(self.made & set(SAMPLES)):
                self.run(f"REFRESH SAMPLE {sample}", of="refreshed")
            if "pages" in self.made:
                self.run("REFRESH VIEW pages", of="refreshed")
        if number == 4:
            self.platform.lake.merge("users")
            self.platform.lake.merge("logs")
        if number in (2, 5):
            self.run("CREATE VIEW fleeting AS SELECT page, count(*) AS n FROM clicks GROUP BY page", of="fleeting")
            self.run("CREATE TABLE passing AS SELECT id FROM users", of="passing")
        if number in (3, 6):
            self.run("DROP VIEW fleeting", of="fleeting")
            self.run("DROP TABLE passing", of="passing")

    def note(self) -> None:
        """What each relation holds at the newest snapshot; the version has to agree."""
        told = self.tell()
        for name in sorted(self.made & {*told, *RECORDED}):
            rows = sorted(plain(row) for row in self.platform.execute(f"SELECT * FROM {name}"))
            if name in told and rows != told[name]:
                # A fault of that version. What it answered counts for nothing, but it has kept the rows.
                self.disagreed.setdefault(name, []).append(self.platform.lake.snapshot().id)
                rows = told[name]
            told[name] = rows
        ever = {plain(row) for row in self.rows["clicks"]}
        whole = {**told, "ever clicks": sorted(ever)}
        for name in sorted(self.made & set(DRAWN)):
            of, size = DRAWN[name]
            columns = len(whole[of][0]) if whole[of] else None
            rows = [plain(row)[:columns] for row in self.platform.execute(f"SELECT * FROM {name}")]
            if not set(rows) <= set(whole[of]) or len(rows) > size:
                raise AssertionError(f"{name} has {rows}, drawn from {whole[of]}")
        known = {name: rows for name, rows in told.items() if name in {"users", "payments", *self.made}}
        self.expected[self.platform.lake.snapshot().id] = known

    def tell(self) -> dict[str, list[Any]]:
        """What relations must hold, by plain counting."""
        clicks, logs, visits = self.rows["clicks"], self.rows["logs"], self.rows["visits"]
        totals = {uid: [amount for _, own, amount, _ in clicks if own == uid] for uid in {row[1] for row in clicks}}
        levels = [(level, sum(own == level for _, own, _ in logs)) for level in {row[1] for row in logs}]
        regions = [self.at_first[uid][0] for _, uid, _, _ in clicks]
        told: dict[str, list[tuple[Any, ...]]] = {
            "users": [(i, region, rate) for i, (region, rate) in self.users.items()],
            "logs": list(logs),
            "visits": list(visits),
            "payments": self.rows["payments"],
            "totals": [(uid, len(amounts), sum(amounts)) for uid, amounts in totals.items()],
            "large": [(uid, len(amounts), sum(amounts)) for uid, amounts in totals.items() if sum(amounts) > 40],
            "pages": [(page, max(amount for _, _, amount, own in clicks if own == page)) for page in {row[3] for row in clicks}],
            "regions": [(region, regions.count(region)) for region in set(regions)],
            "levels": levels,
            "levels_at_once": levels,
            "levels_in_batches": levels,
            "places": [(place, sum(own == place for _, own in visits)) for place in {row[1] for row in visits}],
            "rich": [(i, region) for i, (region, rate) in self.users.items() if rate > 2],
        }
        return {name: sorted(plain(row) for row in rows) for name, rows in told.items()}

    def state(self) -> dict[str, Any]:
        """What `resume` takes."""
        known = {"users": self.users, "at_first": self.at_first}
        users = {name: [plain((number, *row)) for number, row in told.items()] for name, told in known.items()}
        return {"made": sorted(self.made), "rows": {name: [plain(row) for row in rows] for name, rows in self.rows.items()}, **users}

    def finish(self) -> None:
        self.platform.close()
        catalogue = next((self.root / "lake").glob("*.sqlite*"))
        with sqlite3.connect(catalogue) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute("VACUUM")
        connection.close()
        for left in (self.root / "lake").glob("*-wal"), (self.root / "lake").glob("*-shm"):
            for path in left:
                path.unlink()
        told = {
            "root": str(self.root),
            "refused": self.refused,
            "disagreed": self.disagreed,
            "expected": self.expected,
            "state": self.state(),
        }
        (self.root / "expected.json").write_text(json.dumps(told, indent=1) + "\n")


def plain(row: Any) -> tuple[Any, ...]:
    """A row as JSON has it: decimals as texts without trailing zeros."""
    return tuple(format(value.normalize(), "f") if isinstance(value, Decimal) else value for value in row)


def main() -> None:
    root = Path(sys.argv[1])
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    maker = Maker(root)
    maker.define()
    maker.note()
    for number in range(ROUNDS):
        maker.fill(number)
        maker.keep(number)
        maker.note()
    maker.finish()
    print(json.dumps([maker.refused, maker.disagreed], indent=1))


if __name__ == "__main__":
    main()
