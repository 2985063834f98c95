"""Random queries over two streams and a table, all of them admitted, in the SQL that Spark and DuckDB have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypothesis import strategies as st

if TYPE_CHECKING:
    from tests.views.composed import Rows


@dataclass(frozen=True, slots=True)
class From:
    """What stands in FROM, with expressions that can be keys and whole numbers of it."""

    text: str
    keys: tuple[str, ...]
    numbers: tuple[str, ...]


POSTS = From("posts", ("uid", "content", "score % 3"), ("score", "uid"))
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
    source = draw(st.sampled_from((POSTS, POSTS, LIKES, *LOOKED_UP, *CHOSEN, *UNIONS, *DERIVED)))
    keys = draw(st.lists(st.sampled_from(source.keys), unique=True, max_size=2))
    calls = [draw(st.sampled_from(AGGREGATES)).format(draw(st.sampled_from(source.numbers))) for _ in range(draw(st.integers(1, 3)))]
    items = [f"{key} AS k{number}" for number, key in enumerate(keys)] + [f"{call} AS a{number}" for number, call in enumerate(calls)]
    where = draw(st.sampled_from(("", *CONDITIONS.get(source.text, ()))))
    grouping = draw(st.sampled_from(("{}", "{}", "{}", "ROLLUP({})", "CUBE({})"))).format(", ".join(keys)) if keys else ""
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


def nullable(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.one_of(st.none(), strategy)


SMALL = nullable(st.integers(0, 5))
FEW = st.sampled_from((1, 1, 2, 2, 3, None))
DAYS = nullable(st.sampled_from(("2026-01-01", "2026-01-02")))
WORDS = nullable(st.sampled_from("abc"))


def rows() -> st.SearchStrategy[Rows]:
    """A few rows of each relation, with NULLs and repetitions."""
    posts = st.tuples(FEW, SMALL, st.just("1.00"), st.just(1.0), st.just("2026-01-01 00:00:00"), WORDS, st.just(()))
    likes = st.tuples(FEW, SMALL, DAYS, nullable(st.booleans()))
    users = st.tuples(FEW, nullable(st.sampled_from(("north", "south"))), st.just("1.00"))
    return st.fixed_dictionaries({"posts": _many(posts), "likes": _many(likes), "users": st.lists(users, min_size=1, max_size=4)})


def _many(row: st.SearchStrategy[tuple[object, ...]]) -> st.SearchStrategy[list[tuple[object, ...]]]:
    """Enough rows that groups have some in several ranges, and now and then none or one."""
    return st.one_of(st.lists(row, min_size=7, max_size=10), st.lists(row, min_size=7, max_size=10), st.lists(row, max_size=2))
