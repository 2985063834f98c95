"""Random queries over two streams and a table, all of them admitted, in the SQL that Spark and DuckDB have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypothesis import strategies as st

if TYPE_CHECKING:
    from tests.relations.views.composed import Rows


@dataclass(frozen=True, slots=True)
class From:
    """What stands in FROM, with expressions that can be keys and whole numbers of it."""

    text: str
    keys: tuple[str, ...]
    numbers: tuple[str, ...]


POSTS = From("posts", ("uid", "content", "score % 3", "array(uid, score)", "CAST(at AS DATE)", "amount"), ("score", "uid"))
LIKES = From("likes", ("uid", "day", "liked"), ("weight", "uid"))
LOOKED_UP = (
    From("posts AS p INNER JOIN users AS u ON p.uid = u.id", ("p.uid", "u.region", "p.content"), ("p.score", "u.id")),
    From("posts AS p LEFT JOIN users AS u ON p.uid = u.id", ("p.uid", "u.region", "p.content"), ("p.score", "u.id")),
    From("users AS u RIGHT JOIN posts AS p ON u.id = p.uid AND p.score > 2", ("p.uid", "u.region"), ("p.score", "u.id")),
    From("users AS u, posts AS p, users AS v", ("p.uid", "u.region"), ("p.score", "v.id")),
)
CHOSEN = tuple(
    From(f"posts {join} users ON posts.uid = users.id", POSTS.keys, POSTS.numbers) for join in ("LEFT SEMI JOIN", "LEFT ANTI JOIN")
)
UNIONS = (
    From("(SELECT uid, score AS x FROM posts UNION ALL SELECT uid, weight FROM likes) AS q", ("q.uid",), ("q.x", "q.uid")),
    From("(SELECT uid, score AS x FROM posts WHERE score > 1 UNION ALL SELECT id, 7 FROM users) AS q", ("uid", "x % 2"), ("x",)),
)
DERIVED = (
    From("(SELECT uid + 1 AS v, coalesce(score, 0) AS w, content FROM posts WHERE uid IS NOT NULL) AS q", ("v", "content"), ("w", "q.v")),
    From(
        "(SELECT p.uid AS v, r.n AS w FROM posts p JOIN (SELECT id, count(*) AS n FROM users GROUP BY id) r ON r.id = p.uid) AS q",
        ("v", "w"),
        ("w",),
    ),
)
CONDITIONS = {
    "posts": ("score > 2", "content = 'a' OR uid IS NULL", "uid IN (SELECT id FROM users WHERE region = 'north')", "NOT (score < 4)"),
    "users AS u, posts AS p, users AS v": ("u.id = p.uid AND (v.id = u.id AND v.region = 'north') AND p.score > 1", "v.id = p.score"),
    "likes": ("weight > 2", "liked", "EXISTS (SELECT 1 FROM users WHERE users.id = likes.uid)"),
}
NESTED = (
    From(
        "posts AS p LEFT JOIN (SELECT id, max(region) AS region FROM users GROUP BY id) AS u ON p.uid = u.id AND u.region > 'n'",
        ("u.region", "coalesce(u.id, p.uid)"),
        ("p.score", "u.id"),
    ),
    From(
        "(SELECT * FROM (SELECT uid, score, content FROM posts WHERE content IS NOT NULL) AS q WHERE score > 1) AS r",
        ("uid", "r.content"),
        ("score",),
    ),
    From(
        "(SELECT uid, score AS x FROM posts UNION ALL SELECT uid, weight FROM likes UNION ALL SELECT uid, 1 FROM posts WHERE uid > 1) AS q",
        ("uid", "CASE WHEN x > 2 THEN 'high' WHEN x IS NULL THEN NULL ELSE 'low' END"),
        ("x", "q.uid"),
    ),
    From(
        "posts AS p JOIN users AS u ON p.uid = u.id JOIN users AS v ON v.region = u.region AND v.id <> u.id",
        ("v.id", "u.region"),
        ("p.score", "v.id"),
    ),
    From(
        "(VALUES (1, 'one'), (2, 'two'), (NULL, 'none')) AS w(id, word) RIGHT JOIN likes AS l ON w.id = l.uid",
        ("word", "l.day"),
        ("l.weight",),
    ),
)
AGGREGATES = (
    "count(*)",
    "count({0})",
    "sum({0})",
    "avg({0})",
    "min({0})",
    "max({0})",
    "count(DISTINCT {0})",
    "sum(DISTINCT {0})",
    "sum({0}) FILTER (WHERE {0} > 2)",
    "count(DISTINCT {0}) FILTER (WHERE {0} < 4)",
    "count(*) FILTER (WHERE {0} IS NULL)",
    "2 * sum({0}) + count(*)",
    "bool_and({0} > 1)",
    "bool_or({0} > 4)",
    "bit_xor({0})",
    "max_by({0}, {0})",
    "CASE WHEN count(*) > 2 THEN max({0}) ELSE -1 END",
    "coalesce(sum({0}), 0)",
)
HAVING = ("", "", " HAVING count(*) > 1", " HAVING sum({0}) IS NOT NULL", " HAVING max({0}) > min({0})")


@st.composite
def blocks(draw: st.DrawFn) -> str:
    """One grouping over streams; its columns are k0, k1, … and a0, a1, …"""
    text, count, _ = draw(shaped_blocks())
    del count
    return text


@st.composite
def shaped_blocks(draw: st.DrawFn) -> tuple[str, int, int]:
    """A grouping, and how many keys and aggregates it has."""
    source = draw(st.sampled_from((POSTS, POSTS, LIKES, *LOOKED_UP, *CHOSEN, *UNIONS, *DERIVED, *NESTED)))
    keys = draw(st.lists(st.sampled_from(source.keys), unique=True, max_size=2))
    calls = [draw(st.sampled_from(AGGREGATES)).format(draw(st.sampled_from(source.numbers))) for _ in range(draw(st.integers(1, 3)))]
    items = [f"{key} AS k{number}" for number, key in enumerate(keys)] + [f"{call} AS a{number}" for number, call in enumerate(calls)]
    where = draw(st.sampled_from(("", *CONDITIONS.get(source.text, ()))))
    grouping = draw(st.sampled_from(("{}", "{}", "{}", "ROLLUP({})", "CUBE({})"))).format(", ".join(keys)) if keys else ""
    if len(keys) > 1 and draw(st.integers(0, 5)) == 0:
        grouping = f"GROUPING SETS (({keys[0]}), ({keys[1]}), ({keys[0]}, {keys[1]}), ())"
    having = draw(st.sampled_from(HAVING)).format(source.numbers[0]) if keys else ""
    text = f"SELECT {', '.join(items)} FROM {source.text}" + (f" WHERE {where}" if where else "")
    return text + (f" GROUP BY {grouping}" if keys else "") + having, len(keys), len(calls)


@st.composite
def queries(draw: st.DrawFn) -> str:
    """A grouping, or something above one or two of them."""
    block, keys, calls = draw(shaped_blocks())
    names = [f"k{number}" for number in range(keys)] + [f"a{number}" for number in range(calls)]
    match draw(
        st.sampled_from(
            ("plain", "plain", "again", "top", "window", "joined", "twice", "compared", "union", "distinct", "in", "correlated")
        )
    ):
        case "again":
            by = draw(st.sampled_from(names))
            return f"SELECT {by} AS g, count(*) AS n FROM ({block}) AS b GROUP BY {by}"
        case "top":
            order = ", ".join(f"{name} DESC NULLS LAST" for name in names)
            return f"SELECT * FROM ({block}) AS b ORDER BY {order} LIMIT {draw(st.integers(1, 3))}"
        case "window":
            return f"SELECT {', '.join(names)}, count(*) OVER (PARTITION BY {draw(st.sampled_from(names))}) AS w FROM ({block}) AS b"
        case "joined":
            other, others, _ = draw(shaped_blocks())
            kind = draw(st.sampled_from(("JOIN", "LEFT JOIN", "FULL JOIN")))
            del others
            return f"SELECT b.a0 AS x, c.a0 AS y FROM ({block}) AS b {kind} ({other}) AS c ON b.a0 = c.a0"
        case "twice":
            return f"WITH b AS ({block}) SELECT x.a0 AS x, y.a0 AS y FROM b AS x JOIN b AS y ON x.a0 = y.a0"
        case "compared":
            return f"WITH b AS ({block}) SELECT * FROM b WHERE NOT (a0 IS NULL) AND b.a0 IN (SELECT max(a0) FROM b)"
        case "union":
            other, _, _ = draw(shaped_blocks())
            return f"SELECT 1 AS side, count(*) AS n FROM ({block}) AS b UNION ALL SELECT 2, count(*) FROM ({other}) AS c"
        case "distinct":
            source, columns = draw(
                st.sampled_from(
                    (("posts", "uid, content"), ("likes", "uid"), ("(SELECT uid FROM posts UNION SELECT uid FROM likes) q", "uid"))
                )
            )
            return f"SELECT count(*) AS n FROM (SELECT DISTINCT {columns} FROM {source}) AS d"
        case "in":
            least = draw(st.integers(0, 2))
            chosen = f"SELECT uid FROM posts WHERE uid IS NOT NULL GROUP BY uid HAVING count(*) > {least}"
            return f"SELECT u.id, u.region FROM users u WHERE u.id IN ({chosen})"
        case "correlated":
            call = draw(st.sampled_from(AGGREGATES)).format("score")
            compared = draw(st.sampled_from(("uid = u.id", "uid = u.id AND score > 1", "uid <= u.id AND content = 'a'")))
            return f"SELECT u.id, (SELECT {call} FROM posts WHERE {compared}) AS a FROM users u"
        case _:
            return block


@st.composite
def towers(draw: st.DrawFn, most: int = 3) -> tuple[str, tuple[str, ...]]:
    """Groupings with anything above them, again and again; the query and the names of its columns."""
    if most == 0 or draw(st.integers(0, 3)) == 0:
        block, keys, calls = draw(shaped_blocks())
        return block, tuple(f"k{number}" for number in range(keys)) + tuple(f"a{number}" for number in range(calls))
    below, names = draw(towers(most - 1))
    some = draw(st.sampled_from(names))
    match draw(
        st.sampled_from(
            ("group", "distinct", "filter", "window", "join", "three", "set", "cte", "lateral", "exists", "scalar", "semi", "top")
        )
    ):
        case "group":
            other = draw(st.sampled_from(names))
            called = draw(st.sampled_from(("count({0})", "min({0})", "max({0})", "count(DISTINCT {0})", "count(*)"))).format(other)
            if draw(st.booleans()):
                return f"SELECT {some} AS g, {called} AS c FROM ({below}) AS t GROUP BY {some} HAVING count(*) >= 1", ("g", "c")
            return f"SELECT {called} AS c FROM ({below}) AS t", ("c",)
        case "distinct":
            return f"SELECT DISTINCT {some} FROM ({below}) AS t", (some,)
        case "filter":
            condition = draw(st.sampled_from(("IS NULL", "IS NOT NULL", f"IN (SELECT {some} FROM ({below}) AS o)")))
            return f"SELECT * FROM ({below}) AS t WHERE {some} {condition}", names
        case "window":
            frame = f"count(*) OVER (PARTITION BY {some} ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)"
            return f"SELECT {some} AS s, {frame} AS w, dense_rank() OVER (ORDER BY {some} NULLS FIRST) AS r FROM ({below}) AS t", (
                "s",
                "w",
                "r",
            )
        case "join":
            other, others = draw(towers(most - 1))
            kind = draw(st.sampled_from(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")))
            on = f"CAST(x.{some} AS STRING) = CAST(y.{draw(st.sampled_from(others))} AS STRING)"
            return f"SELECT x.{some} AS x, y.{others[-1]} AS y FROM ({below}) AS x {kind} ({other}) AS y ON {on}", ("x", "y")
        case "three":
            on = f"CAST(u.id AS STRING) = CAST(x.{some} AS STRING)"
            return f"SELECT x.{some} AS x, u.region AS region FROM ({below}) AS x LEFT JOIN users AS u ON {on}", ("x", "region")
        case "set":
            other, others = draw(towers(most - 1))
            word = draw(st.sampled_from(("UNION ALL", "UNION", "INTERSECT", "EXCEPT")))
            mine, theirs = f"CAST({some} AS STRING) AS s", f"CAST({draw(st.sampled_from(others))} AS STRING) AS s"
            return f"SELECT {mine} FROM ({below}) AS t {word} SELECT {theirs} FROM ({other}) AS o", ("s",)
        case "cte":
            return (
                f"WITH c AS ({below}) SELECT a.{some} AS x, (SELECT count(*) FROM c) AS n FROM c AS a JOIN c AS b ON a.{some} = b.{some}",
                ("x", "n"),
            )
        case "lateral":
            counted = f"SELECT count(*) AS n FROM ({below}) AS t WHERE CAST(t.{some} AS STRING) = u.region"
            return f"SELECT u.id AS id, l.n AS n FROM users AS u, LATERAL ({counted}) AS l", ("id", "n")
        case "exists":
            word = draw(st.sampled_from(("EXISTS", "NOT EXISTS")))
            same = f"SELECT 1 FROM ({below}) AS t WHERE CAST(t.{some} AS STRING) = CAST(u.id AS STRING)"
            return f"SELECT u.id AS id FROM users AS u WHERE {word} ({same})", ("id",)
        case "scalar":
            return f"SELECT u.region AS region, (SELECT max({some}) FROM ({below}) AS t) AS m FROM users AS u", ("region", "m")
        case "semi":
            other, others = draw(towers(most - 1))
            word = draw(st.sampled_from(("SEMI", "ANTI")))
            on = f"CAST(x.{some} AS STRING) = CAST(y.{others[0]} AS STRING)"
            return f"SELECT x.{some} AS x FROM ({below}) AS x LEFT {word} JOIN ({other}) AS y ON {on}", ("x",)
        case _:
            order = ", ".join(f"{name} NULLS LAST" for name in names)
            return f"SELECT * FROM ({below}) AS t ORDER BY {order} LIMIT {draw(st.integers(1, 3))}", names


def nullable(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.one_of(st.none(), strategy)


SMALL = nullable(st.integers(0, 5))
FEW = st.sampled_from((1, 1, 2, 2, 3, None))
MONEY = nullable(st.sampled_from(("1.00", "0.01", "-3.50")))
TIMES = nullable(st.sampled_from(("2026-01-01 00:00:00", "2026-01-01 23:59:59", "2026-01-02 00:00:00")))
DAYS = nullable(st.sampled_from(("2026-01-01", "2026-01-02")))
WORDS = nullable(st.sampled_from("abc"))


def rows() -> st.SearchStrategy[Rows]:
    """A few rows of each relation, with NULLs and repetitions."""
    posts = st.tuples(FEW, SMALL, MONEY, st.just(1.0), TIMES, WORDS, st.just(()))
    likes = st.tuples(FEW, SMALL, DAYS, nullable(st.booleans()))
    users = st.tuples(FEW, nullable(st.sampled_from(("north", "south"))), st.just("1.00"))
    return st.fixed_dictionaries({"posts": _many(posts), "likes": _many(likes), "users": st.lists(users, min_size=1, max_size=4)})


def _many(row: st.SearchStrategy[tuple[object, ...]]) -> st.SearchStrategy[list[tuple[object, ...]]]:
    """Enough rows that groups have some in several ranges, and now and then none or one."""
    return st.one_of(st.lists(row, min_size=7, max_size=10), st.lists(row, min_size=7, max_size=10), st.lists(row, max_size=2))
