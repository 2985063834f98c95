# ruff: noqa: E501
"""Queries that are admitted, one for each thing that a view may do, with the answer Spark gives as the only measure."""

from __future__ import annotations

ADMITTED = {
    "one group": "SELECT count(*) AS n, sum(score) AS s, avg(score) AS a, min(score) AS lo, max(content) AS hi FROM posts",
    "null keys": "SELECT uid, count(*) AS n, count(score) AS m, sum(score) AS s FROM posts GROUP BY uid",
    "decimals": "SELECT uid, sum(amount) AS s, avg(amount) AS a, avg(amount * 3) AS b, sum(amount * 0.5) AS c FROM posts GROUP BY uid",
    "wide decimals": "SELECT uid, sum(amount * amount * amount) AS s, sum(amount * (1 - amount)) AS t FROM posts GROUP BY uid",
    "decimals without groups": "SELECT sum(amount) AS s, avg(amount) AS a, try_sum(amount) AS t FROM posts",
    "bigints": "SELECT uid, sum(weight) AS s, avg(weight) AS a, try_sum(weight) AS t, try_avg(weight) AS u FROM likes GROUP BY uid",
    "floats": "SELECT uid, sum(ratio) AS s, avg(ratio) AS a, min(ratio) AS lo FROM posts GROUP BY uid",
    "variances": """SELECT uid, var_pop(ratio) AS a, var_samp(ratio) AS b, stddev(score) AS c, stddev_pop(amount) AS d, variance(score) AS e
        FROM posts GROUP BY uid""",
    "variances without groups": "SELECT var_pop(ratio) AS a, stddev_samp(ratio) AS b, std(score) AS c FROM posts",
    "covariances": """SELECT covar_pop(score, ratio) AS a, covar_samp(score, ratio) AS b, corr(score, ratio) AS c, regr_count(score, ratio) AS d,
        regr_slope(score, ratio) AS e, regr_intercept(score, ratio) AS f, regr_r2(score, ratio) AS g, regr_sxx(score, ratio) AS h,
        regr_sxy(score, ratio) AS i, regr_syy(score, ratio) AS j, regr_avgx(score, ratio) AS k, regr_avgy(score, ratio) AS l FROM posts""",
    "booleans and bits": """SELECT uid, bool_and(liked) AS a, bool_or(liked) AS b, every(liked) AS c, any(liked) AS d, bit_and(weight) AS e,
        bit_or(weight) AS f, bit_xor(weight) AS g, count_if(liked) AS h FROM likes GROUP BY uid""",
    "by row": """SELECT uid, first(score) AS a, last(score) AS b, first(score) IGNORE NULLS AS c, last(score, true) AS d,
        any_value(content) AS e, first_value(content) AS f FROM posts GROUP BY uid""",
    "by row through a projection": """SELECT uid, first(double_score) AS a FROM (SELECT uid, score * 2 AS double_score FROM posts WHERE score > 1)
        GROUP BY uid""",
    "by another": "SELECT content, max_by(uid, at) AS a, min_by(score, at) AS b FROM posts GROUP BY content",
    "collections": """SELECT uid, collect_list(score) AS a, array_agg(content) AS b, collect_set(content) AS c, collect_list(DISTINCT score) AS d
        FROM posts GROUP BY uid""",
    "joined strings": """SELECT listagg(content, '-') WITHIN GROUP (ORDER BY content) AS a,
        string_agg(DISTINCT content, ',') WITHIN GROUP (ORDER BY content DESC) AS b FROM posts""",
    "distinct": """SELECT uid, count(DISTINCT content) AS a, sum(DISTINCT score) AS b, avg(DISTINCT score) AS c, count(DISTINCT content, score) AS d,
        count(*) AS n FROM posts GROUP BY uid""",
    "distinct of decimals": "SELECT avg(DISTINCT amount) AS a, sum(DISTINCT amount) AS b FROM posts",
    "distinct alone": "SELECT uid, count(DISTINCT content) AS d FROM posts GROUP BY uid",
    "distinct without groups": "SELECT count(DISTINCT content) AS d, count(DISTINCT uid) AS e, count(*) AS n FROM posts",
    "distinct with a filter": "SELECT uid, count(DISTINCT content) FILTER (WHERE score > 3) AS d FROM posts GROUP BY uid",
    "percentiles": """SELECT uid, median(score) AS a, percentile(score, 0.25) AS b, percentile(ratio, array(0.1, 0.9)) AS c,
        percentile_cont(0.3) WITHIN GROUP (ORDER BY score) AS d, percentile_cont(0.3) WITHIN GROUP (ORDER BY score DESC) AS e,
        percentile_disc(0.5) WITHIN GROUP (ORDER BY score) AS f FROM posts GROUP BY uid""",
    "percentiles without groups": "SELECT median(ratio) AS a, percentile(score, 0.5, 2) AS b, skewness(score) AS c, kurtosis(score) AS d FROM posts",
    "mode": "SELECT mode(content) AS a, count(*) AS n FROM posts WHERE content IN ('a', 'b') AND uid IS NOT NULL",
    "histogram": "SELECT aggregate(histogram_numeric(score, 20), 0D, (a, b) -> a + b.y) AS n FROM posts",
    "approximations": "SELECT uid, approx_count_distinct(content) AS a, approx_count_distinct(amount, 0.01) AS b FROM posts GROUP BY uid",
    "approximate quantiles": "SELECT approx_percentile(score, 0.5) AS a, percentile_approx(score, array(0.0, 1.0)) AS b FROM posts",
    "sketches": """SELECT hll_sketch_estimate(hll_sketch_agg(uid)) AS a, theta_sketch_estimate(theta_sketch_agg(uid)) AS b,
        bitmap_count(bitmap_construct_agg(bitmap_bit_position(weight))) AS c FROM likes""",
    "filters": """SELECT uid, count(*) FILTER (WHERE score > 3) AS a, sum(amount) FILTER (WHERE content = 'a') AS b,
        avg(score) FILTER (WHERE score < 9) AS c, stddev(score) FILTER (WHERE score > 1) AS d, first(score) FILTER (WHERE score > 3) AS e
        FROM posts GROUP BY uid""",
    "having": "SELECT uid, count(*) AS n FROM posts GROUP BY uid HAVING count(*) > 1 AND max(score) > 3",
    "having by alias": "SELECT uid, count(*) AS n FROM posts GROUP BY uid HAVING n > 1",
    "having alone": "SELECT uid FROM posts GROUP BY uid HAVING count(score) = 0",
    "expressions": """SELECT uid, 2 * sum(score) + 1 AS a, sum(amount) / count(*) AS b, CASE WHEN count(*) > 1 THEN 'many' ELSE 'one' END AS c,
        coalesce(sum(score), 0) - min(coalesce(score, 0)) AS d FROM posts GROUP BY uid""",
    "computed keys": """SELECT score % 2 AS odd, CASE WHEN uid > 1 THEN 'big' WHEN uid = 1 THEN 'one' END AS size, count(*) AS n
        FROM posts GROUP BY score % 2, size""",
    "keys by number": "SELECT upper(content) AS c, uid, count(*) FROM posts GROUP BY 1, 2",
    "group by all": "SELECT uid, content, count(*) AS n, sum(score) + 1 AS s FROM posts GROUP BY ALL",
    "windows of time": "SELECT date_trunc('DAY', at) AS day, hour(at) AS h, count(*) AS n FROM posts GROUP BY date_trunc('DAY', at), hour(at)",
    "the column of a window": """SELECT window.start AS s, WINDOW.`end` AS e, count(*) AS n FROM posts GROUP BY window(at, '30 minutes')
        HAVING window.start IS NOT NULL""",
    "the column of a window as a whole": "SELECT CAST(window AS STRING) AS w, sum(score) AS s FROM posts GROUP BY uid, window(at, '1 hour', '20 minutes')",
    "tumbling windows": "SELECT window(at, '30 minutes').start AS s, count(*) AS n FROM posts GROUP BY window(at, '30 minutes')",
    "sliding windows": "SELECT `window`(at, '1 hour', '30 minutes').end AS e, count(*) AS n FROM posts GROUP BY `window`(at, '1 hour', '30 minutes')",
    "sessions": """SELECT uid, session_window.start AS s, session_window.end AS e, count(*) AS n, avg(amount) AS a
        FROM posts GROUP BY session_window(at, '1 hour'), uid""",
    "sessions of all rows": "SELECT session_window(at, '30 minutes').end AS e, max(score) AS hi FROM posts GROUP BY session_window(at, '30 minutes')",
    "sessions with gaps of their own": """SELECT session_window.start AS s, count(*) AS n FROM posts
        GROUP BY session_window(at, CASE WHEN score > 3 THEN '3 hours' ELSE '20 minutes' END)""",
    "values of sessions": """SELECT uid, session_window.start AS s, count(DISTINCT content) FILTER (WHERE score > 3) AS d, median(score) AS m, first(content) AS f
        FROM posts GROUP BY uid, session_window(at, '1 hour')""",
    "sessions counted": "SELECT uid, count(*) AS sessions FROM (SELECT uid FROM posts GROUP BY uid, session_window(at, '1 hour')) GROUP BY uid",
    "lengths of time": "SELECT uid, max(at) - min(at) AS stay, max(CAST(at AS DATE)) - min(CAST(at AS DATE)) AS days, max(at) - min(at) > INTERVAL 1 DAY AS long FROM posts GROUP BY uid",
    "sums of lengths of time": """SELECT content, sum(at - TIMESTAMP_NTZ '2026-01-01 00:00:00') AS t, avg(at - TIMESTAMP_NTZ '2026-01-01 00:00:00') AS a,
        max(INTERVAL '1' HOUR * score) AS hi, count(DISTINCT at - TIMESTAMP_NTZ '2026-01-01 00:00:00') AS d FROM posts GROUP BY content""",
    "names of all kinds": "SELECT p.uid AS `größe`, count(*) AS `a b`, max(P.SCORE) AS Mixed FROM posts AS p GROUP BY p.uid",
    "list with a generator": "SELECT u.region, t.tag, count(*) AS n FROM users u, posts p LATERAL VIEW explode(p.tags) t AS tag WHERE u.id = p.uid AND tag <> 'z' GROUP BY u.region, t.tag",
    "where": "SELECT uid, sum(score) AS s FROM posts WHERE score > 3 AND content LIKE 'a%' OR uid IS NULL GROUP BY uid",
    "rollup": "SELECT uid, content, count(*) AS n, avg(score) AS a, grouping(uid) AS g FROM posts GROUP BY ROLLUP(uid, content)",
    "cube": "SELECT uid, content, sum(amount) AS s, grouping_id(uid, content) AS g FROM posts GROUP BY CUBE(uid, content)",
    "grouping sets": """SELECT uid, content, score, count(*) AS n, stddev(score) AS d, first(score) AS f
        FROM posts GROUP BY GROUPING SETS ((uid), (content, score), ())""",
    "rollup of distinct": """SELECT uid, content, count(DISTINCT score) AS d, median(score) AS m, count(*) AS n
        FROM posts GROUP BY uid, content WITH ROLLUP""",
    "rollup of a key's sum": "SELECT uid, sum(uid) AS s, count(DISTINCT uid) AS d FROM posts GROUP BY ROLLUP(uid)",
    "look-up": "SELECT u.region, count(*) AS n, sum(p.amount * u.rate) AS s FROM posts p JOIN users u ON p.uid = u.id GROUP BY u.region",
    "left look-up": "SELECT region, count(*) AS n, count(id) AS m FROM posts LEFT JOIN users ON uid = id GROUP BY region",
    "flipped look-up": "SELECT region, count(*) AS n, count(id) AS m FROM users RIGHT JOIN posts ON uid = id GROUP BY region",
    "semi": "SELECT uid, count(*) AS n FROM posts LEFT SEMI JOIN users ON uid = id GROUP BY uid",
    "anti": "SELECT uid, count(*) AS n FROM posts LEFT ANTI JOIN users ON uid = id GROUP BY uid",
    "in": "SELECT content, count(*) AS n FROM posts WHERE uid IN (SELECT id FROM users WHERE rate > 1) GROUP BY content",
    "not in": "SELECT count(*) AS n FROM posts WHERE uid NOT IN (SELECT id FROM users)",
    "exists": "SELECT uid, count(*) AS n FROM posts p WHERE EXISTS (SELECT 1 FROM users u WHERE u.id = p.uid AND u.rate < p.amount) GROUP BY uid",
    "scalar sub-query below": "SELECT uid, count(*) AS n FROM posts WHERE amount > (SELECT max(rate) FROM users) GROUP BY uid",
    "using": "SELECT uid, count(*) AS n, max(region) AS r FROM posts JOIN (SELECT id AS uid, region FROM users) AS u USING (uid) GROUP BY uid",
    "two tables": """SELECT a.region, b.n, count(*) AS c FROM posts JOIN users a ON posts.uid = a.id
        LEFT JOIN (SELECT region, count(*) AS n FROM users GROUP BY region) b ON a.region = b.region GROUP BY a.region, b.n""",
    "tables joined first": """SELECT a.region, count(*) AS n FROM posts LEFT JOIN (users a JOIN users b ON a.id = b.id AND a.rate < b.rate)
        ON posts.uid = a.id GROUP BY a.region""",
    "lateral view": "SELECT tag, count(*) AS n, max(score) AS m FROM posts LATERAL VIEW explode(tags) t AS tag GROUP BY tag",
    "outer lateral view": "SELECT tag, count(*) AS n FROM posts LATERAL VIEW OUTER explode(tags) t AS tag WHERE uid > 0 GROUP BY tag",
    "lateral sub-query": """SELECT x.big, count(*) AS n FROM posts CROSS JOIN LATERAL (SELECT amount > 1 AS big) x GROUP BY x.big""",
    "explode in select": "SELECT tag, count(*) AS n FROM (SELECT explode(tags) AS tag FROM posts) GROUP BY tag",
    "distinct rows": "SELECT DISTINCT uid, content FROM posts WHERE score > 1",
    "count of distinct rows": "SELECT count(*) AS n FROM (SELECT DISTINCT uid, score FROM posts)",
    "nested groupings": "SELECT n, count(*) AS groups, sum(s) AS s FROM (SELECT uid, count(*) AS n, sum(score) AS s FROM posts GROUP BY uid) GROUP BY n",
    "average of averages": "SELECT avg(a) AS a FROM (SELECT uid, avg(amount) AS a FROM posts GROUP BY uid)",
    "cte used twice": """WITH per_user AS (SELECT uid, count(*) AS n FROM posts GROUP BY uid)
        SELECT a.uid, a.n, b.n AS m FROM per_user a JOIN per_user b ON a.n = b.n AND a.uid < b.uid""",
    "cte and scalar sub-query": """WITH per_user AS (SELECT uid, count(*) AS n FROM posts GROUP BY uid)
        SELECT uid, n FROM per_user WHERE n > (SELECT avg(n) FROM per_user)""",
    "two streams": """SELECT uid, p.n, l.w FROM (SELECT uid, count(*) AS n FROM posts GROUP BY uid) p
        FULL JOIN (SELECT uid, sum(weight) AS w FROM likes GROUP BY uid) l USING (uid)""",
    "two streams and a table": """SELECT u.region, sum(p.n) AS n, sum(l.w) AS w FROM users u
        LEFT JOIN (SELECT uid, count(*) AS n FROM posts GROUP BY uid) p ON p.uid = u.id
        LEFT JOIN (SELECT uid, sum(weight) AS w FROM likes GROUP BY uid) l ON l.uid = u.id GROUP BY u.region""",
    "difference of streams": "SELECT (SELECT sum(score) FROM posts) - (SELECT sum(weight) FROM likes) AS d",
    "stream beside itself": """SELECT a.uid, a.n, b.m FROM (SELECT uid, count(*) AS n FROM posts GROUP BY uid) a
        LEFT JOIN (SELECT uid, count(*) AS m FROM posts WHERE score > 3 GROUP BY uid) b ON a.uid <=> b.uid""",
    "union of streams": """SELECT uid, count(*) AS n, sum(x) AS s FROM (SELECT uid, score AS x FROM posts UNION ALL SELECT uid, weight FROM likes)
        GROUP BY uid""",
    "union of a stream and a table": "SELECT x, count(*) AS n FROM (SELECT uid AS x FROM posts UNION ALL SELECT id FROM users) GROUP BY x",
    "union that removes": "SELECT uid FROM posts UNION SELECT uid FROM likes",
    "union in a join": """SELECT region, count(*) AS n FROM users JOIN (SELECT uid FROM posts UNION ALL SELECT uid FROM likes) s ON s.uid = id
        GROUP BY region""",
    "first of a union": "SELECT min(x) AS a, first(x) AS b FROM (SELECT score AS x FROM posts WHERE uid = 1 UNION ALL SELECT score FROM posts WHERE 1 = 0)",
    "union of groups": "SELECT uid, count(*) AS n FROM posts GROUP BY uid UNION ALL SELECT uid, sum(weight) FROM likes GROUP BY uid",
    "set operations of groups": "SELECT uid FROM posts GROUP BY uid EXCEPT SELECT uid FROM likes GROUP BY uid",
    "set operations of rows": """SELECT uid, score FROM posts WHERE score > 2 EXCEPT SELECT uid, CAST(weight AS INT) FROM likes
        INTERSECT SELECT uid, score FROM posts""",
    "rows in a table and not in another stream": """SELECT count(*) AS n, sum(uid) AS s FROM (SELECT uid FROM posts INTERSECT SELECT id FROM users
        EXCEPT SELECT uid FROM likes WHERE liked)""",
    "rows in a condition": "SELECT id FROM users WHERE id IN (SELECT uid FROM posts WHERE score > 2) OR id NOT IN (SELECT uid FROM likes)",
    "groups minus a table": "SELECT uid FROM posts GROUP BY uid INTERSECT SELECT id FROM users",
    "top groups": "SELECT uid, sum(score) AS s FROM posts WHERE uid IS NOT NULL GROUP BY uid ORDER BY s DESC NULLS LAST, uid LIMIT 2",
    "top by what is not shown": "SELECT uid FROM posts GROUP BY uid ORDER BY count(*) DESC, uid LIMIT 2 OFFSET 1",
    "top of top": "SELECT sum(s) AS s FROM (SELECT uid, sum(score) AS s FROM posts GROUP BY uid ORDER BY s DESC NULLS LAST LIMIT 2)",
    "order without limit": "SELECT uid, count(*) AS n FROM (SELECT * FROM posts ORDER BY at) GROUP BY uid ORDER BY n",
    "window over groups": """SELECT uid, n, rank() OVER (ORDER BY n DESC) AS r, sum(n) OVER (ORDER BY uid) AS t
        FROM (SELECT uid, count(*) AS n FROM posts GROUP BY uid)""",
    "window over aggregates": "SELECT uid, sum(score) AS s, sum(sum(score)) OVER () AS t, rank() OVER w AS r FROM posts GROUP BY uid WINDOW w AS (ORDER BY count(*), uid)",
    "qualify": """SELECT uid, content, count(*) AS n FROM posts WHERE uid IS NOT NULL GROUP BY uid, content
        QUALIFY row_number() OVER (PARTITION BY uid ORDER BY n DESC, content) = 1""",
    "qualify by alias": """SELECT content, sum(score) AS s, rank() OVER (ORDER BY sum(score) DESC NULLS LAST) AS place FROM posts
        GROUP BY content HAVING count(*) > 0 QUALIFY place <= 2 ORDER BY place""",
    "qualify over a sub-query": """SELECT DISTINCT n FROM (SELECT uid, count(*) AS n FROM posts GROUP BY uid) g
        QUALIFY count(*) OVER (PARTITION BY n) > 1 AND n < (SELECT max(weight) FROM likes)""",
    "the clock in a condition": "SELECT content, count(*) AS n, sum(score) AS s FROM posts WHERE date(at) < current_date() AND score > 1 GROUP BY content",
    "the clock and distinct values": "SELECT count(*) AS n, count(DISTINCT uid) AS d, first(score) AS f FROM posts WHERE at < now() - INTERVAL 1 DAY",
    "the clock in a condition on a table": """SELECT region, count(*) AS n FROM posts JOIN (SELECT id, region FROM users WHERE region <> string(current_date())) u
        ON uid = id GROUP BY ROLLUP (region)""",
    "the time of the query and the user": "SELECT uid, count(*) AS n FROM posts WHERE score < unix_timestamp() AND content <> current_user() GROUP BY uid",
    "correlated above": """SELECT g.region, (SELECT max(v.rate) FROM users v WHERE v.region = g.region) AS m, g.n
        FROM (SELECT u.region, count(*) AS n FROM posts JOIN users u ON uid = id GROUP BY u.region) g""",
    "correlated over a stream": """SELECT id, rate, (SELECT count(*) FROM posts WHERE uid = id) AS n,
        (SELECT sum(score) + 1 FROM posts p WHERE p.uid = u.id AND p.score > u.rate AND p.content <> 'b') AS s,
        (SELECT count(DISTINCT score) FROM posts p WHERE p.uid = u.id) AS d FROM users u""",
    "correlated condition": """SELECT id, region FROM users
        WHERE rate < (SELECT 0.5 * sum(amount) FROM posts WHERE posts.uid = users.id AND score > 2)""",
    "tables in a list": """SELECT a.region, count(*) AS n FROM users a, users b, posts p
        WHERE p.uid = a.id AND b.id = p.uid AND a.rate > 1 AND p.score > a.rate AND b.region IS NOT NULL GROUP BY a.region""",
    "product with a table": "SELECT region, count(*) AS n FROM users, posts WHERE amount > rate OR rate IS NULL GROUP BY region",
    "group in a condition": "SELECT id, region FROM users WHERE id IN (SELECT uid FROM posts GROUP BY uid HAVING count(*) > 1)",
    "lambda": "SELECT uid, sum(CAST(aggregate(transform(tags, t -> length(t)), 0, (a, t) -> a + t) AS INT)) AS s FROM posts WHERE tags IS NOT NULL GROUP BY uid",
    "nothing arrives": "SELECT count(*) AS n, sum(score) AS s, count(DISTINCT uid) AS d, stddev(score) AS v, collect_list(score) AS l FROM posts WHERE 1 = 0",
    "star": "SELECT uid, count(*) AS n FROM (SELECT * EXCEPT (content) FROM posts) GROUP BY uid",
    "same answer twice": "SELECT uid, avg(score) AS a, sum(score) AS b, count(score) AS c, avg(score) + 1 AS d FROM posts GROUP BY uid",
    "constants": "SELECT 'k' AS k, 1 AS one, count(*) AS n FROM posts GROUP BY 'k'",
    "literals": r"SELECT count(*) AS n, 'it\'s' AS s, X'0A' AS b, 1.50BD AS d, INTERVAL '1 day' AS i, DATE '2026-01-01' AS at FROM posts WHERE content <> 'a\\b' AND at < TIMESTAMP_NTZ '2026-01-02 12:00:00' + INTERVAL 3 HOURS",
}
