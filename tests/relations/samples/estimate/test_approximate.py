"""Approximate answers: what is admitted, what is refused, and whether the bounds hold."""

import math

import numpy as np
import pyarrow as pa
import pytest

from platform_plugin.errors import InvalidStatement, InvalidValue, PlatformError
from platform_plugin.language.query.approximate import plan_approximation, wants_sample
from platform_plugin.language.text.places import Span
from platform_plugin.platform import Platform
from platform_plugin.relations.samples.estimate.answer import estimate
from platform_plugin.relations.samples.estimate.estimators import Design


def plan(text):
    return plan_approximation(Span(text, 0, len(text)))


def test_only_who_asks_is_estimated():
    for text, wanted in (
        ("SELECT count(*) FROM t WITH SAMPLE (error = 0.1)", True),
        ("SELECT 'WITH SAMPLE (' FROM sample", False),
        ("SELECT * FROM t TABLESAMPLE (10 ROWS)", False),
        ("WITH sample AS (SELECT 1) SELECT * FROM sample", False),
    ):
        assert wants_sample(Span(text, 0, len(text))) is wanted


def test_a_plan_asks_each_row_for_values():
    found = plan(
        "SELECT k, count(*) AS n, sum(x) FILTER (WHERE y > 1) AS s, avg(x) a, 100 * sum(x) / sum(z) AS r, median(x) m, "
        "percentile(x, 0.9) AS p, count_if(x > 2) c FROM t JOIN u ON t.id = u.id WITH SAMPLE (confidence = 0.9) "
        "WHERE z < :limit GROUP BY 1, j"
    )
    assert [(one.name, one.kind, one.scale, one.counts, one.share) for one in found.measures] == [
        ("n", "total", 1, True, None),
        ("s", "total", 1, False, None),
        ("a", "ratio", 1, False, None),
        ("r", "ratio", 100, False, None),
        ("m", "quantile", 1, False, 0.5),
        ("p", "quantile", 1, False, 0.9),
        ("c", "total", 1, True, None),
    ]
    assert (found.groups, found.hidden_groups, found.error, found.confidence) == (("k",), 1, 0.05, 0.9)
    assert found.text.endswith("_unit, _stratum FROM t JOIN u ON t.id = u.id WHERE z < :limit")


def test_columns_without_a_name_are_called_what_they_are():
    found = plan("SELECT t.k, k + 1, count(*), avg(x) FROM t WITH SAMPLE () GROUP BY t.k, k + 1")
    assert (found.groups, [one.name for one in found.measures]) == (("k", "k + 1"), ["count(*)", "avg(x)"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT x FROM t WITH SAMPLE ()", "nothing is aggregated"),
        ("SELECT max(x) FROM t WITH SAMPLE ()", "max(x) can't be estimated"),
        ("SELECT count(DISTINCT x) FROM t WITH SAMPLE ()", "can't be estimated"),
        ("SELECT sum(x) - 1 FROM t WITH SAMPLE ()", "can't be estimated"),
        ("SELECT k, count(*) FROM t WITH SAMPLE ()", '"k" is neither aggregated nor grouped by'),
        ("SELECT k, count(*) FROM t WITH SAMPLE () GROUP BY k HAVING count(*) > 3", "HAVING is not part"),
        ("SELECT count(*) FROM t WITH SAMPLE () LIMIT 1", "LIMIT is not part"),
        ("SELECT DISTINCT count(*) FROM t WITH SAMPLE ()", "DISTINCT is not part"),
        ("SELECT count(*) FROM (SELECT * FROM t) WITH SAMPLE ()", "the first relation in FROM"),
        ("SELECT count(*) FROM t WITH SAMPLE () WHERE x IN (SELECT 1)", "a query inside of the query"),
        ("SELECT count(*) FROM t RIGHT JOIN u ON t.id = u.id WITH SAMPLE ()", "RIGHT JOIN asks for rows"),
        ("SELECT sum(x) OVER () FROM t WITH SAMPLE ()", "a window function"),
        ("SELECT k, count(*) FROM t WITH SAMPLE () GROUP BY ROLLUP (k)", "only plain GROUP BY"),
        ("SELECT count(*) FROM t WITH SAMPLE (error = 2)", "an error of 2 can't be asked for"),
        ("SELECT count(*) FROM t WITH SAMPLE (error = 0)", "an error of 0 can't be asked for"),
        ("SELECT count(*) FROM t WITH SAMPLE (confidence = 1)", "a confidence of 1 can't be asked for"),
        ("SELECT count(*) FROM t WITH SAMPLE (errors = 0.1)", 'WITH SAMPLE has no option "errors"'),
        ("SELECT count(*) FROM t WITH SAMPLE (error)", 'option "error" takes a number'),
        ("SELECT count(*) FROM t WITH SAMPLE (error = 0.1", "WITH SAMPLE"),
    ],
)
def test_refusals(text, said):
    with pytest.raises(PlatformError) as refused:
        plan(text)
    assert said in str(refused.value)
    assert isinstance(refused.value, InvalidStatement | InvalidValue)


def test_estimates_by_group_and_rows_that_a_join_multiplied():
    found = plan("SELECT k, count(*) AS n, sum(x) AS s FROM t JOIN u ON t.id = u.id WITH SAMPLE () GROUP BY k")
    count = 400
    units = np.repeat(np.arange(count), 2)
    rows = pa.table(
        {
            "_g0": pa.array(["a", "b"] * count),
            "_y0": np.ones(2 * count),
            "_y1": np.where(np.arange(2 * count) % 2 == 0, 3.0, 0.0),
            "_unit": units,
            "_stratum": np.zeros(2 * count, dtype=np.int64),
        }
    )
    answer = estimate(found, rows, Design(populations=np.array([4000]), sizes=np.array([count])))
    table = {row["k"]: row for row in answer.table().to_pylist()}
    assert table["a"]["n"] == table["b"]["n"] == 4000
    assert table["a"]["s"] == 12_000
    assert table["b"]["s"] == 0
    assert table["a"]["matching_rows"] == count
    # Each sampled row has two rows of the join: that is one draw and not two.
    both = plan("SELECT count(*) AS n FROM t JOIN u ON t.id = u.id WITH SAMPLE ()")
    half = rows.filter(units < 200).select(["_y0", "_unit", "_stratum"])
    one = estimate(both, half, Design(populations=np.array([4000]), sizes=np.array([count]))).rows[0][0]
    assert one.value == 4000
    assert 0.08 < one.relative_error < 0.12  # as of 200 of 400 draws, not of 400 of 800


def test_explained_without_being_asked(tmp_path):
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE TABLE sales (id INT, amount DOUBLE)")
        platform.execute("INSERT INTO sales VALUES (1, 2.0), (2, 3.0)")
        told = [line for (line,) in platform.execute("EXPLAIN SELECT sum(amount) AS s FROM sales WITH SAMPLE (error = 0.1)")]
        assert told[:3] == [
            "estimates s within 0.1 at a confidence of 0.95",
            'samples "main.sales"',
            "can draw up to 2 of 2 rows, 2 of them at first",
        ]
        assert told[-1].endswith("FROM sales")


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_answers_with_bounds(tmp_path, spark_server):
    random = np.random.default_rng(1)
    count = 100_000
    kinds, amounts = random.choice(["a", "b", "c"], count, p=[0.6, 0.3, 0.1]), random.exponential(50, count)
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE TABLE sales (id INT, kind STRING, amount DOUBLE, day DATE)")
        platform.execute("CREATE TABLE kinds (kind STRING, rate DOUBLE)")
        platform.execute("INSERT INTO kinds VALUES ('a', 1.0), ('b', 2.0), ('c', 0.5)")
        lake = platform.lake
        table = lake.table("sales")
        rows = pa.table({"id": pa.array(range(count), pa.int32()), "kind": kinds, "amount": amounts})
        with lake.commit("load") as commit:
            commit.append(table, [lake.write(table, rows.slice(start, 25_000)) for start in range(0, count, 25_000)])
        query = "SELECT kind, count(*) AS n, sum(amount) AS s, avg(amount) AS a, median(amount) AS m FROM sales"
        found = platform.execute(f"{query} WITH SAMPLE (error = 0.08, confidence = 0.999) WHERE id >= :first GROUP BY kind", {"first": 0})
        for row in found.arrow().to_pylist():
            own = amounts[kinds == row["kind"]]
            for name, truth in (("n", len(own)), ("s", own.sum()), ("a", own.mean()), ("m", np.median(own))):
                assert row[f"{name}_low"] <= truth <= row[f"{name}_high"], (row["kind"], name)
                assert (row[f"{name}_high"] - row[f"{name}_low"]) / 2 <= 0.08 * row[name] * 1.0001
            assert row["matching_rows"] < row["sample_rows"] < row["population_rows"] == count
        joined = platform.estimate(
            "SELECT sum(s.amount * k.rate) AS owed FROM sales s JOIN kinds k ON k.kind = s.kind WHERE s.id >= ?", [0], error=0.03
        )
        (row,) = joined.arrow().to_pylist()
        truth = (amounts * np.select([kinds == "a", kinds == "b"], [1.0, 2.0], 0.5)).sum()
        assert abs(row["owed"] / truth - 1) < 0.06
        assert platform.estimate("SELECT count(*) AS n FROM kinds").arrow().to_pylist() == [
            {"n": 3.0, "n_low": 3.0, "n_high": 3.0, "matching_rows": 3, "sample_rows": 3, "population_rows": 3}
        ]
        # A sample that is there answers without looking at the table, as far as it goes.
        platform.execute("CREATE SAMPLE small ON sales SIZE 2000 STRATIFIED BY kind WITH (seed = 1)")
        platform.execute("REFRESH SAMPLE small")
        (row,) = platform.estimate("SELECT avg(amount) AS a FROM small", error=0.1).arrow().to_pylist()
        assert row["a_low"] <= amounts.mean() <= row["a_high"]
        assert (row["sample_rows"], row["population_rows"]) == (1998, count)
        with pytest.raises(InvalidValue, match=r'"main.small" can\'t be estimated with an error of 0.001') as refused:
            platform.estimate("SELECT avg(amount) AS a FROM small", error=0.001)
        assert "rows would do" in str(refused.value)
        platform.execute("CREATE VIEW big AS SELECT * FROM sales WHERE amount > 100")
        with pytest.raises(InvalidValue, match=r'view "main.big" has no sample'):
            platform.estimate("SELECT count(*) FROM big")
        platform.execute("CREATE SAMPLE of_view ON big SIZE 1000 WITH (seed = 1)")
        (row,) = platform.estimate("SELECT avg(amount) AS a FROM big", error=0.1).arrow().to_pylist()
        assert row["a_low"] <= amounts[amounts > 100].mean() <= row["a_high"]
        (row,) = platform.estimate("SELECT count(*) AS n FROM sales WHERE amount < 0", error=0.5).arrow().to_pylist()
        assert (row["n"], row["n_low"], row["n_high"]) == (0, 0, 0), "when no row matches all are looked at"
        assert not math.isnan(row["n"])


def test_an_unknown_relation_is_shown_where_the_user_wrote_it(tmp_path):
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE TABLE posts (pots INT)")
        query = "SELECT avg(pots) FROM pots WITH SAMPLE (error = 0.1)"
        for text in (query, f"EXPLAIN {query}"):
            with pytest.raises(PlatformError, match="did you mean") as caught:
                platform.execute(text)
            assert text in str(caught.value)
            assert caught.value.column == text.index("FROM pots") + 6
