"""Views answer what the cases beside them expect, in the reference platform too; one that does not is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from platform_plugin.quality.cases import find_cases
from platform_plugin.quality.trial import run_trials

pytestmark = pytest.mark.spark
FOLDER = Path(__file__).parents[2] / "dbt_like_sql"


@pytest.mark.parametrize("case", find_cases(FOLDER), ids=str)
def test_the_views_of_the_reference_platform(case, spark_server):
    (tried,) = run_trials(FOLDER, [case])
    assert tried.passed, tried.difference


def write(folder, case):
    (folder / "s.sql").write_text("CREATE STREAM s (id INT, n INT, at TIMESTAMP, tags ARRAY<STRING>)")
    (folder / "v.sql").write_text("CREATE VIEW v AS SELECT id, sum(n) AS n, count(DISTINCT n) AS d FROM s GROUP BY id")
    (folder / "v.test.yml").write_text(case)
    return list(run_trials(folder, find_cases(folder)))


def test_what_differs_is_shown(tmp_path, spark_server):
    wrong, unread, overflowing, misspelt, *typos = write(
        tmp_path,
        """
wrong:
  given:
    - s: [{id: 1, n: 2, at: 2026-01-31 12:00:00, tags: [a, b]}, {id: 2, n: 1}]
    - s: [{id: 1, n: 3}]
  expect:
    - null
    - - {id: 1, n: 6}
      - {id: 2, n: 1}
unread:
  given: {t: [{id: 1}]}
  expect: []
overflowing:
  given: {s: [{id: 10000000000}]}
  expect: []
misspelt:
  expect: [{idd: 1}]
in a row:
  given:
    - s: [{id: 1}]
    - s:
        - {ID: 1}
        - {id: 1, tagz: [a]}
  expect: [null, []]
in an epoch:
  given: {s: [{id: 1}]}
  expect:
    - - {id: 1}
      - {id: 2, m: 1}
""",
    )
    assert wrong.difference == "  epoch 2\n              id  n\n  - expected   1  6\n  + got        1  5\n  1 row as expected"
    assert 'rows are given for "t", which the view does not read' in str(unread.difference)
    assert "v.test.yml" in str(unread.difference)
    assert "line 11: rows are given" in str(unread.difference)
    assert 'case "misspelt" in "v.test.yml", line 17: view "v" has no column "idd"' in str(misspelt.difference)
    assert "did you mean id?" in str(misspelt.difference)
    assert [each.difference.splitlines() for each in typos] == [
        ['  case "in a row" in "v.test.yml", line 23: "s" has no column "tagz"', "    hint: did you mean tags?"],
        ['  case "in an epoch" in "v.test.yml", line 29: view "v" has no column "m"', "    hint: there are id, n, d"],
    ]
    assert not overflowing.passed


def test_an_error_in_a_definition_names_its_file_and_has_the_line_in_it(tmp_path, spark_server):
    (tmp_path / "views").mkdir()
    (tmp_path / "s.sql").write_text("CREATE STREAM s (id INT, price INT)")
    (tmp_path / "views" / "v.sql").write_text("-- What each costs.\nCREATE VIEW v AS\nSELECT prcie, count(*) AS n FROM s GROUP BY prcie")
    (tmp_path / "views" / "v.test.yml").write_text("wrong: {expect: []}")
    (tried,) = run_trials(tmp_path, find_cases(tmp_path))
    said = str(tried.difference)
    assert said.startswith('  file "views/v.sql": column "prcie" does not exist')
    assert "line 3, column 8" in said
    assert "did you mean price?" in said
