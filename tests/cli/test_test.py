"""`platform test` runs the cases of a folder and says which views answer something else."""

from __future__ import annotations

import json

import pytest

from platform_plugin.cli.test import choose_folder
from platform_plugin.errors import UnknownObject


def test_a_folder_without_cases_is_told(platform, tmp_path):
    assert "has no case to run" in platform("test", str(tmp_path), check=1).stderr
    assert "does not exist" in platform("test", str(tmp_path / "nothing"), check=1).stderr


def test_wrong_cases_and_wrong_sql_files_are_told_together(platform, tmp_path):
    (tmp_path / "s.sql").write_text("CREATE STREEM s (id INT)")
    (tmp_path / "v.sql").write_text("CREATE VIEW v AS SELECT 1 AS n")
    (tmp_path / "v.test.yml").write_text("right: {expct: [{n: 1}]}")
    said = platform("test", str(tmp_path), check=1).stderr
    assert [part for part in ("2 errors in files", 'file "s.sql"', '"expct" is no part of a case') if part not in said] == []


def test_a_choice_that_no_case_meets_is_told_with_the_cases_that_there_are(platform, tmp_path):
    (tmp_path / "v.sql").write_text("CREATE VIEW v AS SELECT 1 AS n")
    (tmp_path / "v.test.yml").write_text("right: {expect: [{n: 1}]}\nwrong: {expect: [{n: 2}]}\n")
    said = platform("test", str(tmp_path), "--only", "nosuch", check=1).stderr
    assert 'no case\'s file or name holds "nosuch"' in said
    assert "there are v.test.yml: right; v.test.yml: wrong" in said


def test_the_folder_is_the_usual_one_that_is_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnknownObject, match="no folder sql or dbt_like_sql here"):
        choose_folder(None)
    (tmp_path / "dbt_like_sql").mkdir()
    assert str(choose_folder(None)) == "dbt_like_sql"
    (tmp_path / "sql").mkdir()
    assert (str(choose_folder(None)), str(choose_folder("dbt_like_sql"))) == ("sql", "dbt_like_sql")


@pytest.mark.spark
def test_what_passes_and_what_differs(platform, tmp_path):
    (tmp_path / "s.sql").write_text("CREATE STREAM s (id INT)")
    (tmp_path / "v.sql").write_text("CREATE VIEW v AS SELECT count(*) AS n FROM s")
    (tmp_path / "v.test.yml").write_text("right: {given: {s: [{id: 1}]}, expect: [{n: 1}]}\nwrong: {expect: [{n: 1}]}\n")
    done = platform("test", str(tmp_path), check=1)
    assert done.stdout.startswith(
        "ok      v.test.yml: right\nFAILED  v.test.yml: wrong\n  epoch 1\n              n\n  - expected  1\n  + got       0\n"
    )
    assert "1 case of 2 failed" in done.stdout
    only = platform("test", str(tmp_path), "--only", "right", "--json")
    assert json.loads(only.stdout)["passed"] is True
