"""What a file says otherwise than the lake is told line by line, and ways of writing the same are none."""

from __future__ import annotations

import pytest

from platform_plugin.language.script import parse_statement
from platform_plugin.orchestration.components.differences import plan_differences

SAMPLE = "CREATE SAMPLE s ON posts SIZE 10 WHERE score > 3 WITH (window = '1 hour')"
STORED = "CREATE SAMPLE main.s ON main.posts SIZE 10 WHERE score > 3 WITH (window = '3600.000000 seconds', seed = 7)"


def differences(declared, stored=STORED):
    return list(plan_differences(parse_statement(declared), parse_statement(stored)))


def test_a_sample_that_is_written_otherwise_is_the_same():
    assert differences(SAMPLE) == []
    assert differences("create sample S on Posts size 10 where score  >  3 with (seed = 7, window = '60 minutes')") == []


def test_other_parts_of_a_merged_sample_are_told():
    stored = "CREATE SAMPLE main.both ON SAMPLES (main.a, main.b) SIZE 10 WITH (seed = 7)"
    assert differences("CREATE SAMPLE both ON SAMPLES (A, b) SIZE 10", stored) == []
    told = "the relation is samples main.a, main.c in the file, samples main.a, main.b in the lake"
    assert differences("CREATE SAMPLE both ON SAMPLES (a, c) SIZE 10", stored) == [told]
    assert differences("CREATE SAMPLE both ON a SIZE 10", stored) == [
        "the relation is main.a in the file, samples main.a, main.b in the lake"
    ]


def test_other_weights_are_told():
    stored = (
        "CREATE SAMPLE main.s ON main.posts SIZE 10 WEIGHTED BY (fee) WITH (half_life = '3600.0 seconds', time_column = 'at', seed = 7)"
    )
    declared = "CREATE SAMPLE s ON posts SIZE 10 WEIGHTED BY (FEE) WITH (half_life = '1 hour', time_column = 'At')"
    assert differences(declared, stored) == []
    assert differences(declared.replace("FEE", "tip"), stored) == ["the weight is tip in the file, fee in the lake"]
    assert differences(declared.replace("1 hour", "2 hours"), stored) == ["option half_life is 2:00:00 in the file, 1:00:00 in the lake"]


def test_a_default_that_is_written_otherwise_is_the_same():
    stored = "CREATE TABLE main.t (a TIMESTAMP DEFAULT '2026-01-01 00:00:00+00:00', b DECIMAL(5,2) DEFAULT 1.01, c DOUBLE DEFAULT 100.0)"
    declared = "CREATE TABLE t (a TIMESTAMP DEFAULT '2026-01-01', b DECIMAL(5,2) DEFAULT 1.005, c DOUBLE DEFAULT 1e2)"
    assert differences(declared, stored) == []
    assert len(differences(declared.replace("1e2", "1e3"), stored)) == 1


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("SIZE 10", "SIZE 11"), "the size is 11 in the file, 10 in the lake"),
        (("score > 3", "score > 4"), "the condition is score > 4 in the file, score > 3 in the lake"),
        ((" WHERE score > 3", ""), "the condition is not set in the file, score > 3 in the lake"),
        (("ON posts", "ON clicks"), "the relation is main.clicks in the file, main.posts in the lake"),
        (("1 hour", "2 hours"), "option window is 2:00:00 in the file, 1:00:00 in the lake"),
        ((" WITH (window = '1 hour')", ""), "option window is not set in the file, 1:00:00 in the lake"),
        (("'1 hour'", "'1 hour', seed = 8"), "option seed is 8 in the file, 7 in the lake"),
    ],
)
def test_each_thing_that_a_file_says_otherwise_of_a_sample_is_told(change, told):
    assert differences(SAMPLE.replace(*change)) == [told]
