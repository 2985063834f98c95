"""Queries that are refused: the rule that each breaks, what of the text the error points at, and a word of the hint."""

from __future__ import annotations

from platform_plugin.distribution import page

REFUSED = {
    "rows": ("SELECT * FROM posts", "R9", "posts", "not the same"),
    "rows that are sorted": ("SELECT uid FROM posts ORDER BY uid LIMIT 3", "R9", "posts", "plain SELECT"),
    "rows beside groups": (
        "SELECT uid, n FROM (SELECT uid, count(*) AS n FROM likes GROUP BY uid) UNION ALL SELECT uid, score FROM posts",
        "R1",
        "posts",
        "GROUP BY uid",
    ),
    "window": ("SELECT max(r) AS r FROM (SELECT rank() OVER (ORDER BY score) AS r FROM posts)", "R2", "rank", "FROM posts GROUP BY"),
    "union of types": (
        "SELECT count(*) AS n FROM (SELECT content AS c FROM posts UNION ALL SELECT uid FROM likes)",
        "R2",
        "content",
        "CAST",
    ),
    "two streams": ("SELECT count(*) AS n FROM posts JOIN likes ON posts.uid = likes.uid", "R3", "likes", "USING (uid)"),
    "two streams ungrouped": ("SELECT p.uid FROM posts p, likes l WHERE p.uid = l.uid", "R3", "likes", "USING (key)"),
    "a stream twice": ("SELECT count(*) AS n FROM posts a JOIN posts b ON a.uid = b.uid", "R3", "posts b", "join groups"),
    "one side grouped": (
        "SELECT count(*) AS n FROM posts p JOIN (SELECT uid, count(*) AS c FROM likes GROUP BY uid) l ON p.uid = l.uid",
        "R3",
        "uid, count",
        "group posts first",
    ),
    "stream in a condition": (
        "SELECT count(*) AS n FROM posts WHERE uid IN (SELECT uid FROM likes)",
        "R3",
        "likes",
        "SELECT DISTINCT … FROM likes",
    ),
    "groups in a condition": (
        "SELECT count(*) AS n FROM posts WHERE score > (SELECT avg(weight) FROM likes)",
        "R3",
        "",
        "compare in a query around that",
    ),
    "rows and groups": (
        "SELECT sum(x) AS n FROM (SELECT score AS x FROM posts UNION ALL SELECT uid FROM likes GROUP BY uid)",
        "R3",
        "",
        "1 AS n",
    ),
    "continuous view below": ("SELECT count(*) AS n FROM posts JOIN daily ON posts.uid = daily.uid", "R3", "daily", "group posts first"),
    "table kept": ("SELECT id, count(uid) AS n FROM users LEFT JOIN posts ON id = uid GROUP BY id", "R4", "posts", "LEFT JOIN (SELECT"),
    "table kept, ungrouped": ("SELECT id, uid FROM users LEFT JOIN posts ON id = uid", "R4", "posts", "LEFT JOIN (SELECT"),
    "table kept on the right": (
        "SELECT id, count(uid) AS n FROM posts RIGHT JOIN users ON id = uid GROUP BY id",
        "R4",
        "users",
        "LEFT JOIN",
    ),
    "both kept": (
        "SELECT id, count(uid) AS n FROM posts FULL JOIN users ON id = uid GROUP BY id",
        "R4",
        "users",
        "users FULL JOIN (SELECT uid",
    ),
    "table semi stream": (
        "SELECT id, count(*) AS n FROM users LEFT SEMI JOIN posts ON id = uid GROUP BY id",
        "R4",
        "posts",
        "users LEFT SEMI JOIN (SELECT uid FROM posts GROUP BY uid)",
    ),
    "table anti stream": (
        "SELECT id, count(*) AS n FROM users LEFT ANTI JOIN posts ON id = uid GROUP BY id",
        "R4",
        "posts",
        "users LEFT ANTI JOIN (SELECT uid",
    ),
    "correlated": ("SELECT id, (SELECT count(id) FROM posts WHERE uid = 1) AS n FROM users", "R4", "posts", "LEFT JOIN the groups"),
    "lateral stream": (
        "SELECT u.id, count(*) AS n FROM users u CROSS JOIN LATERAL (SELECT p.uid FROM posts p WHERE p.uid = u.id) x GROUP BY u.id",
        "R4",
        "p.uid FROM",
        "and JOIN the groups",
    ),
    "top rows": ("SELECT count(*) AS n FROM (SELECT uid FROM posts ORDER BY score LIMIT 5)", "R7", "score", "max_by"),
    "some rows": ("SELECT count(*) AS n FROM (SELECT uid FROM posts LIMIT 5)", "R7", "5", "after the GROUP BY"),
    "clock in a key": ("SELECT current_date() AS d, count(*) AS n FROM posts GROUP BY current_date()", "H1", "current_date", "WHERE n > 0"),
    "sessions": (
        "SELECT w, count(*) AS n FROM (SELECT session_window(at, '5 minutes') AS w FROM posts) GROUP BY w",
        "R2",
        "session_window",
        "SELECT session_window(at, '5 minutes') AS w, … FROM … GROUP BY session_window(at, '5 minutes')",
    ),
    "sessions of several groupings": (
        "SELECT uid, count(*) AS n FROM posts GROUP BY ROLLUP (uid, session_window(at, '5 minutes'))",
        "R2",
        "session_window",
        "UNION ALL",
    ),
    "chance": ("SELECT count(*) AS n FROM posts WHERE rand() < 0.5", "H1", "rand", "above the GROUP BY"),
    "chance in an aggregate": ("SELECT sum(score * rand()) AS n FROM posts", "H1", "rand", "above the GROUP BY"),
    "top k": ("SELECT approx_top_k(content) AS t FROM posts", "A1", "approx_top_k", "mode"),
    "sketch without merge": (
        "SELECT count_min_sketch(uid, 0.1, 0.9, 1) AS t FROM posts",
        "A1",
        "count_min_sketch",
        "approx_count_distinct",
    ),
    "distinct of a rare one": (
        "SELECT kurtosis(DISTINCT score) AS t FROM posts",
        "A1",
        "kurtosis",
        "kurtosis(score) FROM (SELECT DISTINCT …, score FROM …)",
    ),
    "order of another": (
        "SELECT listagg(content, ',') WITHIN GROUP (ORDER BY at) AS t FROM posts",
        "A1",
        "listagg",
        "sort_array(collect_list(struct(at AS k0, content AS v)))",
    ),
    "unknown type": ("SELECT sum(from_json(content, 'INT')) AS t FROM posts", "A1", "sum", "CAST(from_json"),
    "wide average": ("SELECT avg(CAST(amount AS DECIMAL(30,2))) AS t FROM posts", "A1", "avg", "DECIMAL(24,2)"),
    "all of except": (
        "SELECT count(*) AS n FROM (SELECT uid FROM posts EXCEPT ALL SELECT id FROM users)",
        "R2",
        "uid",
        "leave out ALL",
    ),
    "rows in EXISTS": (
        "SELECT id FROM users u WHERE EXISTS (SELECT 1 FROM posts p WHERE p.uid = u.id AND p.score > 2)",
        "R1",
        "posts",
        "LEFT SEMI JOIN (SELECT score, uid FROM posts GROUP BY score, uid)",
    ),
    "rows in a value": ("SELECT id, (SELECT uid FROM posts WHERE score = 9) AS best FROM users", "R1", "posts", "max(uid)"),
    "streams kept": (
        "SELECT content, count(*) AS n, sum(score) AS s FROM posts LEFT JOIN likes ON posts.uid = likes.uid AND score > weight GROUP BY 1",
        "R3",
        "likes",
        "sum(x * n * coalesce(m, 1))",
    ),
    "stream semi stream": ("SELECT count(*) AS n FROM posts p LEFT SEMI JOIN likes l ON p.uid = l.uid", "R3", "likes", "LEFT SEMI JOIN"),
    "lateral kept": (
        "SELECT u.id, count(*) AS n FROM users u LEFT JOIN LATERAL (SELECT p.uid FROM posts p WHERE p.uid = u.id) x GROUP BY u.id",
        "R4",
        "p.uid FROM",
        "sum(coalesce(n, 1))",
    ),
    "clock in an aggregate": (
        "SELECT uid, sum(datediff(current_date(), CAST(at AS DATE)) * score) AS s FROM posts GROUP BY uid",
        "H1",
        "current_date",
        "put at, score into GROUP BY",
    ),
    "sorted numbers": (
        "SELECT listagg(score, '-') WITHIN GROUP (ORDER BY score DESC) AS t FROM posts",
        "A1",
        "listagg",
        "sort_array(collect_list(struct(score AS k0, score AS v)), false)",
    ),
    "parameter": ("SELECT count(*) AS n FROM posts WHERE uid = :uid", "R10", ":uid", "when reading"),
    "snapshot": ("SELECT count(*) AS n FROM posts JOIN users AT (VERSION => 3) ON id = uid", "R10", "AT (VERSION", "leave it out"),
    "no stream": ("SELECT region, count(*) AS n FROM users GROUP BY region", "R9", "", "CREATE VIEW"),
}

GROUPS = "(SELECT uid, count(*) AS n FROM posts GROUP BY uid)"
PAIRS = f"FROM {GROUPS} AS a JOIN (SELECT uid, count(*) AS m FROM likes GROUP BY uid) AS b USING (uid)"
COUNT = "coalesce(sum(n), 0) AS n"
DIFFERS = {
    "rows": "groups, not rows",
    "rows that are sorted": "groups, not rows",
    "rows beside groups": "groups, not rows",
    "window": "groups, not rows",
    "union of types": "another type",
    "two streams ungrouped": "a pair of groups comes once",
    "table kept, ungrouped": "each group comes once",
    "top rows": "groups, not rows",
    "some rows": "groups, not rows",
    "chance": "for each group, not for each row",
    "chance in an aggregate": "for each group, not for each row",
    "top k": f"see {page('views/aggregates.md')}",
    "sketch without merge": f"see {page('views/aggregates.md')}",
    "wide average": "values that do not fit",
    "snapshot": "the table changes",
    "all of except": "equal rows come once",
}
"""Those whose hint leads to other rows, after the words "not the same"; of all others it leads to the same rows."""

INSTEAD = {
    "rows": "SELECT uid, count(*) AS n FROM posts GROUP BY uid",
    "rows that are sorted": "SELECT uid, count(*) AS n FROM posts GROUP BY uid ORDER BY uid LIMIT 3",
    "rows beside groups": f"SELECT uid, n FROM (SELECT uid, count(*) AS n FROM likes GROUP BY uid) UNION ALL SELECT uid, n FROM {GROUPS}",
    "window": f"SELECT max(r) AS r FROM (SELECT uid, rank() OVER (ORDER BY n) AS r FROM {GROUPS})",
    "union of types": (
        "SELECT count(*) AS n FROM (SELECT CAST(content AS STRING) AS c FROM posts UNION ALL SELECT CAST(uid AS STRING) FROM likes)"
    ),
    "two streams": f"SELECT coalesce(sum(n * m), 0) AS n {PAIRS}",
    "two streams ungrouped": f"SELECT uid {PAIRS}",
    "a stream twice": f"SELECT coalesce(sum(n * m), 0) AS n {PAIRS.replace('likes', 'posts')}",
    "one side grouped": f"SELECT {COUNT} FROM {GROUPS} p JOIN (SELECT uid, count(*) AS c FROM likes GROUP BY uid) l ON p.uid = l.uid",
    "stream in a condition": f"SELECT {COUNT} FROM {GROUPS} p WHERE uid IN (SELECT DISTINCT uid FROM likes)",
    "groups in a condition": (
        f"SELECT {COUNT} FROM (SELECT score, count(*) AS n FROM posts GROUP BY score) WHERE score > (SELECT avg(weight) FROM likes)"
    ),
    "rows and groups": (
        "SELECT sum(x * n) AS n FROM (SELECT score AS x, count(*) AS n FROM posts GROUP BY score "
        "UNION ALL SELECT uid, 1 AS n FROM likes GROUP BY uid)"
    ),
    "continuous view below": f"SELECT coalesce(sum(p.n), 0) AS n FROM {GROUPS} p JOIN daily ON p.uid = daily.uid",
    "table kept": (
        f"SELECT id, coalesce(sum(n) FILTER (WHERE g.uid IS NOT NULL), 0) AS n FROM users LEFT JOIN {GROUPS} AS g ON id = g.uid GROUP BY id"
    ),
    "table kept, ungrouped": f"SELECT id, uid FROM users LEFT JOIN {GROUPS} AS g ON id = g.uid",
    "table kept on the right": (
        f"SELECT id, coalesce(sum(n) FILTER (WHERE g.uid IS NOT NULL), 0) AS n FROM users LEFT JOIN {GROUPS} AS g ON id = g.uid GROUP BY id"
    ),
    "both kept": (
        f"SELECT id, coalesce(sum(n) FILTER (WHERE g.uid IS NOT NULL), 0) AS n FROM users FULL JOIN {GROUPS} AS g ON id = g.uid GROUP BY id"
    ),
    "table semi stream": (
        "SELECT id, count(*) AS n FROM users LEFT SEMI JOIN (SELECT uid FROM posts GROUP BY uid) AS g ON id = g.uid GROUP BY id"
    ),
    "table anti stream": (
        "SELECT id, count(*) AS n FROM users LEFT ANTI JOIN (SELECT uid FROM posts GROUP BY uid) AS g ON id = g.uid GROUP BY id"
    ),
    "correlated": f"SELECT id, CASE WHEN id IS NULL THEN 0 ELSE coalesce(n, 0) END AS n FROM users LEFT JOIN {GROUPS} AS g ON g.uid = 1",
    "lateral stream": f"SELECT u.id, coalesce(sum(n), 0) AS n FROM users u JOIN {GROUPS} AS g ON u.id = g.uid GROUP BY u.id",
    "lateral kept": f"SELECT u.id, sum(coalesce(n, 1)) AS n FROM users u LEFT JOIN {GROUPS} AS g ON u.id = g.uid GROUP BY u.id",
    "top rows": "SELECT count(*) AS n FROM (SELECT uid, max(score) AS m FROM posts GROUP BY uid ORDER BY m LIMIT 5)",
    "some rows": "SELECT count(*) AS n FROM (SELECT uid FROM posts GROUP BY uid LIMIT 5)",
    "clock in a key": "SELECT current_date() AS d, n FROM (SELECT count(*) AS n FROM posts) WHERE n > 0",
    "clock in an aggregate": (
        "SELECT uid, sum(datediff(current_date(), CAST(at AS DATE)) * score * n) AS s "
        "FROM (SELECT uid, at, score, count(*) AS n FROM posts GROUP BY uid, at, score) GROUP BY uid"
    ),
    "sessions": "SELECT session_window(at, '5 minutes') AS w, count(*) AS n FROM posts GROUP BY session_window(at, '5 minutes')",
    "sessions of several groupings": (
        "SELECT uid, count(*) AS n FROM posts GROUP BY uid, session_window(at, '5 minutes') UNION ALL "
        "SELECT uid, count(*) AS n FROM posts GROUP BY uid UNION ALL SELECT CAST(NULL AS INT) AS uid, count(*) AS n FROM posts"
    ),
    "chance": f"SELECT {COUNT} FROM {GROUPS} WHERE rand() < 0.5",
    "chance in an aggregate": "SELECT s * rand() AS n FROM (SELECT sum(score) AS s FROM posts)",
    "top k": "SELECT mode(content) AS t, hll_sketch_agg(content) AS h, approx_count_distinct(content) AS a FROM posts",
    "sketch without merge": "SELECT approx_count_distinct(uid) AS t FROM posts",
    "distinct of a rare one": "SELECT kurtosis(score) AS t FROM (SELECT DISTINCT score FROM posts)",
    "order of another": (
        "SELECT CASE WHEN count(content) > 0 THEN "
        "array_join(transform(sort_array(collect_list(struct(at AS k0, content AS v))), e -> string(e.v)), ',') END AS t FROM posts"
    ),
    "sorted numbers": (
        "SELECT CASE WHEN count(score) > 0 THEN "
        "array_join(transform(sort_array(collect_list(struct(score AS k0, score AS v)), false), e -> string(e.v)), '-') END AS t FROM posts"
    ),
    "unknown type": "SELECT sum(CAST(from_json(content, 'INT') AS INT)) AS t FROM posts",
    "wide average": "SELECT avg(CAST(CAST(amount AS DECIMAL(30,2)) AS DECIMAL(24,2))) AS t FROM posts",
    "all of except": "SELECT count(*) AS n FROM (SELECT DISTINCT uid FROM posts EXCEPT SELECT id FROM users)",
    "rows in EXISTS": (
        "SELECT id FROM users u LEFT SEMI JOIN (SELECT score, uid FROM posts GROUP BY score, uid) AS g ON g.uid = u.id AND g.score > 2"
    ),
    "rows in a value": "SELECT id, (SELECT max(uid) FROM posts WHERE score = 9) AS best FROM users",
    "streams kept": (
        "SELECT a.content, coalesce(sum(n * coalesce(m, 1)), 0) AS n, sum(score * n * coalesce(m, 1)) AS s "
        "FROM (SELECT score, uid, content, count(*) AS n FROM posts GROUP BY score, uid, content) AS a "
        "LEFT JOIN (SELECT uid, weight, count(*) AS m FROM likes GROUP BY uid, weight) AS b ON a.uid = b.uid AND a.score > b.weight "
        "GROUP BY a.content"
    ),
    "stream semi stream": (
        "SELECT coalesce(sum(n), 0) AS n FROM (SELECT uid, count(*) AS n FROM posts GROUP BY uid) AS a "
        "LEFT SEMI JOIN (SELECT uid FROM likes GROUP BY uid) AS b USING (uid)"
    ),
    "parameter": "SELECT count(*) AS n FROM posts WHERE uid = 7",
    "snapshot": "SELECT count(*) AS n FROM posts JOIN users ON id = uid",
    "no stream": None,
}
"""For each of them a query that the hint leads to."""
