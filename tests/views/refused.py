"""Queries that are refused: the rule that each breaks, what of the text the error points at, and a word of the hint."""

from __future__ import annotations

REFUSED = {
    "rows": ("SELECT * FROM posts", "R9", "posts", "GROUP BY uid"),
    "rows that are sorted": ("SELECT uid FROM posts ORDER BY uid LIMIT 3", "R9", "posts", "plain SELECT"),
    "rows beside groups": (
        "SELECT uid, n FROM (SELECT uid, count(*) AS n FROM likes GROUP BY uid) UNION ALL SELECT uid, score FROM posts",
        "R1",
        "posts",
        "GROUP BY uid",
    ),
    "rows in IN": ("SELECT id FROM users WHERE id IN (SELECT uid FROM posts)", "R1", "posts", "SELECT uid FROM posts GROUP BY uid"),
    "window": ("SELECT max(r) AS r FROM (SELECT rank() OVER (ORDER BY score) AS r FROM posts)", "R2", "rank", "FROM posts GROUP BY"),
    "except": ("SELECT count(*) AS n FROM (SELECT uid FROM posts EXCEPT SELECT id FROM users)", "R2", "uid", "group each side first"),
    "intersect": ("SELECT count(*) AS n FROM (SELECT uid FROM posts INTERSECT SELECT id FROM users)", "R2", "uid", "group each side first"),
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
    "stream in a condition": ("SELECT count(*) AS n FROM posts WHERE uid IN (SELECT uid FROM likes)", "R3", "likes", 'group "posts" first'),
    "groups in a condition": (
        "SELECT count(*) AS n FROM posts WHERE score > (SELECT avg(weight) FROM likes)",
        "R3",
        "",
        'group "posts" first',
    ),
    "rows and groups": (
        "SELECT sum(x) AS n FROM (SELECT score AS x FROM posts UNION ALL SELECT uid FROM likes GROUP BY uid)",
        "R3",
        "",
        "aggregate again",
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
        "LEFT JOIN the groups",
    ),
    "top rows": ("SELECT count(*) AS n FROM (SELECT uid FROM posts ORDER BY score LIMIT 5)", "R7", "score", "max_by"),
    "some rows": ("SELECT count(*) AS n FROM (SELECT uid FROM posts LIMIT 5)", "R7", "5", "after the GROUP BY"),
    "clock in WHERE": ("SELECT count(*) AS n FROM posts WHERE at > now()", "H1", "now", "GROUP BY hour"),
    "clock without brackets": ("SELECT count(*) AS n FROM likes WHERE day = current_date", "H1", "", "GROUP BY day"),
    "clock in a key": ("SELECT current_date() AS d, count(*) AS n FROM posts GROUP BY current_date()", "H1", "current_date", "above"),
    "time of the query": ("SELECT count(*) AS n FROM posts WHERE score > unix_timestamp()", "H1", "unix_timestamp", "above the GROUP BY"),
    "sessions": (
        "SELECT session_window(at, '5 minutes') AS w, count(*) AS n FROM posts GROUP BY session_window(at, '5 minutes')",
        "R2",
        "session_window",
        "window(at",
    ),
    "chance": ("SELECT count(*) AS n FROM posts WHERE rand() < 0.5", "H1", "rand", "above the GROUP BY"),
    "chance in an aggregate": ("SELECT sum(score * rand()) AS n FROM posts", "H1", "rand", "above the GROUP BY"),
    "user": ("SELECT count(*) AS n FROM posts WHERE content = current_user()", "H1", "current_user", "column of the stream"),
    "clock of a table": (
        "SELECT count(*) AS n FROM posts JOIN (SELECT id FROM users WHERE region = string(current_date())) u ON uid = id",
        "H1",
        "current_date",
        "GROUP BY day",
    ),
    "top k": ("SELECT approx_top_k(content) AS t FROM posts", "A1", "approx_top_k", "mode"),
    "sketch without merge": (
        "SELECT count_min_sketch(uid, 0.1, 0.9, 1) AS t FROM posts",
        "A1",
        "count_min_sketch",
        "approx_count_distinct",
    ),
    "distinct of a rare one": ("SELECT kurtosis(DISTINCT score) AS t FROM posts", "A1", "kurtosis", "count, sum and avg"),
    "order of another": ("SELECT listagg(content, ',') WITHIN GROUP (ORDER BY uid) AS t FROM posts", "A1", "listagg", "argument itself"),
    "unknown type": ("SELECT sum(from_json(content, 'INT')) AS t FROM posts", "A1", "sum", "CAST(from_json"),
    "wide average": ("SELECT avg(CAST(amount AS DECIMAL(30,2))) AS t FROM posts", "A1", "avg", "DECIMAL(24,2)"),
    "parameter": ("SELECT count(*) AS n FROM posts WHERE uid = :uid", "R10", ":uid", "when reading"),
    "snapshot": ("SELECT count(*) AS n FROM posts JOIN users AT (VERSION => 3) ON id = uid", "R10", "AT (VERSION", "leave it out"),
    "no stream": ("SELECT region, count(*) AS n FROM users GROUP BY region", "R9", "", "CREATE VIEW"),
}

GROUPS = "(SELECT uid, count(*) AS n FROM posts GROUP BY uid)"
DAYS = "(SELECT date(at) AS day, count(*) AS n FROM posts GROUP BY date(at))"
INSTEAD = {
    "rows": "SELECT uid, count(*) AS n FROM posts GROUP BY uid",
    "rows that are sorted": "SELECT uid, count(*) AS n FROM posts GROUP BY uid ORDER BY uid LIMIT 3",
    "rows beside groups": f"SELECT uid, n FROM (SELECT uid, count(*) AS n FROM likes GROUP BY uid) UNION ALL SELECT uid, n FROM {GROUPS}",
    "rows in IN": "SELECT id FROM users WHERE id IN (SELECT uid FROM posts GROUP BY uid)",
    "window": "SELECT uid, rank() OVER (ORDER BY n) AS r FROM (SELECT uid, count(*) AS n FROM posts GROUP BY uid)",
    "except": "SELECT count(*) AS n FROM (SELECT uid FROM posts GROUP BY uid EXCEPT SELECT id FROM users)",
    "intersect": "SELECT count(*) AS n FROM (SELECT uid FROM posts GROUP BY uid INTERSECT SELECT id FROM users)",
    "union of types": (
        "SELECT count(*) AS n FROM (SELECT CAST(content AS STRING) AS c FROM posts UNION ALL SELECT CAST(uid AS STRING) FROM likes)"
    ),
    "two streams": (
        "SELECT sum(n * m) AS n FROM (SELECT uid, count(*) AS n FROM posts GROUP BY uid) AS a "
        "JOIN (SELECT uid, count(*) AS m FROM likes GROUP BY uid) AS b USING (uid)"
    ),
    "two streams ungrouped": (
        "SELECT uid FROM (SELECT uid, count(*) AS n FROM posts GROUP BY uid) AS a "
        "JOIN (SELECT uid, count(*) AS m FROM likes GROUP BY uid) AS b USING (uid)"
    ),
    "a stream twice": (
        "SELECT sum(n * m) AS n FROM (SELECT uid, count(*) AS n FROM posts GROUP BY uid) AS a "
        "JOIN (SELECT uid, count(*) AS m FROM posts GROUP BY uid) AS b USING (uid)"
    ),
    "one side grouped": f"SELECT sum(n) AS n FROM {GROUPS} p JOIN (SELECT uid, count(*) AS c FROM likes GROUP BY uid) l ON p.uid = l.uid",
    "stream in a condition": f"SELECT sum(n) AS n FROM {GROUPS} p WHERE uid IN (SELECT uid FROM likes GROUP BY uid)",
    "groups in a condition": (
        "SELECT sum(n) AS n FROM (SELECT score, count(*) AS n FROM posts GROUP BY score) WHERE score > (SELECT avg(weight) FROM likes)"
    ),
    "rows and groups": (
        "SELECT sum(x) AS n FROM (SELECT sum(score) AS x FROM posts GROUP BY score UNION ALL SELECT uid FROM likes GROUP BY uid)"
    ),
    "continuous view below": f"SELECT sum(p.n) AS n FROM {GROUPS} p JOIN daily ON p.uid = daily.uid",
    "table kept": f"SELECT id, coalesce(n, 0) AS n FROM users LEFT JOIN {GROUPS} AS g ON id = g.uid",
    "table kept, ungrouped": f"SELECT id, uid FROM users LEFT JOIN {GROUPS} AS g ON id = g.uid",
    "table kept on the right": f"SELECT id, coalesce(n, 0) AS n FROM users LEFT JOIN {GROUPS} AS g ON id = g.uid",
    "both kept": f"SELECT id, n FROM users FULL JOIN {GROUPS} AS g ON id = g.uid",
    "table semi stream": "SELECT id FROM users LEFT SEMI JOIN (SELECT uid FROM posts GROUP BY uid) AS g ON id = g.uid",
    "table anti stream": "SELECT id FROM users LEFT ANTI JOIN (SELECT uid FROM posts GROUP BY uid) AS g ON id = g.uid",
    "correlated": f"SELECT id, n FROM users LEFT JOIN {GROUPS} AS g ON id = g.uid",
    "lateral stream": f"SELECT id, n FROM users u LEFT JOIN {GROUPS} AS g ON u.id = g.uid",
    "top rows": "SELECT max_by(uid, score) AS best FROM posts",
    "some rows": "SELECT uid, count(*) AS n FROM posts GROUP BY uid LIMIT 5",
    "clock in WHERE": (
        "SELECT sum(n) AS n FROM (SELECT date_trunc('HOUR', at) AS hour, count(*) AS n FROM posts GROUP BY date_trunc('HOUR', at)) "
        "WHERE hour > now() - INTERVAL '1' HOUR"
    ),
    "clock without brackets": "SELECT n FROM (SELECT day, count(*) AS n FROM likes GROUP BY day) WHERE day = current_date()",
    "clock in a key": f"SELECT day, n FROM {DAYS} WHERE day = current_date()",
    "time of the query": "SELECT count(*) AS n FROM (SELECT score, count(*) AS n FROM posts GROUP BY score) WHERE score > unix_timestamp()",
    "sessions": "SELECT window(at, '10 minutes') AS w, count(*) AS n FROM posts GROUP BY window(at, '10 minutes')",
    "chance": f"SELECT sum(n) AS n FROM {GROUPS} WHERE rand() < 0.5",
    "chance in an aggregate": "SELECT s * rand() AS n FROM (SELECT sum(score) AS s FROM posts)",
    "user": "SELECT n FROM (SELECT content, count(*) AS n FROM posts GROUP BY content) WHERE content = current_user()",
    "clock of a table": f"SELECT n FROM {DAYS} WHERE day = current_date()",
    "top k": "SELECT mode(content) AS t, hll_sketch_agg(content) AS h, approx_count_distinct(content) AS a FROM posts",
    "sketch without merge": "SELECT approx_count_distinct(uid) AS t FROM posts",
    "distinct of a rare one": "SELECT count(DISTINCT score) AS c, sum(DISTINCT score) AS s, avg(DISTINCT score) AS a FROM posts",
    "order of another": "SELECT listagg(content, ',') WITHIN GROUP (ORDER BY content) AS t FROM posts",
    "unknown type": "SELECT sum(CAST(from_json(content, 'INT') AS INT)) AS t FROM posts",
    "wide average": "SELECT avg(CAST(CAST(amount AS DECIMAL(30,2)) AS DECIMAL(24,2))) AS t FROM posts",
    "parameter": "SELECT count(*) AS n FROM posts WHERE uid = 7",
    "snapshot": "SELECT count(*) AS n FROM posts JOIN users ON id = uid",
    "no stream": None,
}
"""For each of them a query that the hint leads to."""
