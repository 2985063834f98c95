"""A column beside a grouping is found where it stands, with the GROUP BY that would have it."""

from __future__ import annotations

import pytest

from platform_plugin.language.query.ungrouped import find_ungrouped


@pytest.mark.parametrize(
    ("query", "name", "clause"),
    [
        ("SELECT region, ^name, count(*) FROM users GROUP BY region", None, "GROUP BY region, name"),
        ("SELECT region, ^name, count(*) FROM users GROUP BY 1", None, "GROUP BY 1, name"),
        ("SELECT ^u.name, region, count(*) FROM users u GROUP BY u.region", "name", "GROUP BY u.region, u.name"),
        ("SELECT upper(region), sum(score) + ^id AS x FROM users u GROUP BY u.region", None, "GROUP BY u.region, id"),
        ("SELECT upper(^name), max(id) FROM users", None, "GROUP BY name"),
        ("SELECT kurtosis(x), count_if(y > 1), ^`a b` FROM users", None, "GROUP BY `a b`"),
        ("SELECT region, count(*) AS n FROM users GROUP BY region HAVING ^name = 'x'", "name", "GROUP BY region, name"),
        ("SELECT region, count(*) AS n FROM users GROUP BY region ORDER BY n, ^name", None, "GROUP BY region, name"),
        ("SELECT x.region FROM (SELECT region, ^name, count(*) FROM users GROUP BY region) x", None, "GROUP BY region, name"),
        ("SELECT id FROM users WHERE id IN (SELECT ^name FROM users GROUP BY id)", None, "GROUP BY id, name"),
        ("SELECT region, ^name, count(*) FROM users GROUP BY ROLLUP (region)", None, "name into GROUP BY"),
        ("SELECT ^* FROM users GROUP BY region", "id", None),
        ("SELECT ^u.* FROM users AS u GROUP BY region", "id", None),
    ],
)
def test_the_first_such_column_is_found(query, name, clause):
    found = find_ungrouped(query.replace("^", ""), name)
    assert found is not None
    assert (found.start, found.clause) == (query.index("^"), clause)
    assert query.replace("^", "")[found.start :].startswith(found.name)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, name FROM users",
        "SELECT region, count(*) AS n FROM users GROUP BY region HAVING n > 1 ORDER BY n, region",
        "SELECT date_trunc('day', at), count(*) FROM users GROUP BY date_trunc('DAY', at)",
        "SELECT id + 1, count(DISTINCT name) FROM users GROUP BY id + 1",
        "SELECT region, sum(count(*)) OVER (ORDER BY region) FROM users GROUP BY region",
        "SELECT count(*) FROM users WHERE name = 'x'",
        "SELECT max(rate) OVER (PARTITION BY id), id FROM rates",
        "SELECT region, (SELECT max(rate) FROM rates) FROM users GROUP BY region",
        "SELECT FROM WHERE",
        "this is no query (",
    ],
)
def test_nothing_is_found_where_nothing_is_wrong_or_understood(query):
    assert find_ungrouped(query) is None
