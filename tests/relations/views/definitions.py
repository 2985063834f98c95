# ruff: noqa: E501
"""Definitions of views as users of streaming systems write them, by topic, and the relations and rows that they are over.

The topics are those that public documentation of streaming databases and stream processors has in common; the queries are written for this
collection. The last topic is Nexmark, q0 to q22, over its streams of persons, auctions and bids.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

COLUMNS: dict[str, dict[str, str]] = {
    "clicks": {"user_id": "BIGINT", "page": "STRING", "country": "STRING", "ms": "INT", "at": "TIMESTAMP"},
    "orders": {
        "order_id": "BIGINT",
        "customer": "BIGINT",
        "product": "INT",
        "quantity": "INT",
        "price": "DECIMAL(9,2)",
        "status": "STRING",
        "at": "TIMESTAMP",
    },
    "payments": {"order_id": "BIGINT", "amount": "DECIMAL(9,2)", "method": "STRING", "at": "TIMESTAMP"},
    "readings": {"sensor": "INT", "temperature": "DOUBLE", "humidity": "DOUBLE", "at": "TIMESTAMP"},
    "events": {"user_id": "BIGINT", "kind": "STRING", "at": "TIMESTAMP", "body": "STRING", "tags": "ARRAY<STRING>"},
    "person": {
        "id": "BIGINT",
        "name": "STRING",
        "email_address": "STRING",
        "credit_card": "STRING",
        "city": "STRING",
        "state": "STRING",
        "date_time": "TIMESTAMP",
        "extra": "STRING",
    },
    "auction": {
        "id": "BIGINT",
        "item_name": "STRING",
        "description": "STRING",
        "initial_bid": "BIGINT",
        "reserve": "BIGINT",
        "date_time": "TIMESTAMP",
        "expires": "TIMESTAMP",
        "seller": "BIGINT",
        "category": "BIGINT",
        "extra": "STRING",
    },
    "bid": {
        "auction": "BIGINT",
        "bidder": "BIGINT",
        "price": "BIGINT",
        "channel": "STRING",
        "url": "STRING",
        "date_time": "TIMESTAMP",
        "extra": "STRING",
    },
    "products": {"id": "INT", "name": "STRING", "category": "STRING", "cost": "DECIMAL(9,2)"},
    "customers": {"id": "BIGINT", "name": "STRING", "region": "STRING", "since": "DATE"},
    "sensors": {"id": "INT", "place": "STRING", "low": "DOUBLE", "high": "DOUBLE"},
    "rates": {"method": "STRING", "starts": "TIMESTAMP", "ends": "TIMESTAMP", "fee": "DECIMAL(5,4)"},
    "side_input": {"key": "BIGINT", "value": "STRING"},
}
TABLES = ("products", "customers", "sensors", "rates", "side_input")
KINDS = {name: "table" if name in TABLES else "stream" for name in COLUMNS}

Rows = dict[str, list[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A definition of a view: `result` is `continuous`, `plain`, the rule that refuses it, or `text`, with the words of the reason.

    `text` stands for words that a plan can't hold.
    """

    topic: str
    title: str
    sql: str
    result: str = "continuous"
    reason: str = ""


def make_rows(seed: int = 7, count: int = 40) -> Rows:
    """Rows with NULLs, ties, repeated keys and late times; the same for the same seed."""
    dice = random.Random(seed)
    start = datetime(2026, 3, 1, 9, tzinfo=UTC)

    def at(minutes: int = 600) -> datetime:
        return start + timedelta(seconds=dice.randrange(minutes * 60))

    def maybe(value: Any) -> Any:
        return None if dice.random() < 0.08 else value

    def money(top: int) -> Decimal:
        return Decimal(dice.randrange(1, top)) / 100

    def body(number: int) -> str:
        return f'{{"amount": {number % 13}, "plan": "{dice.choice("abc")}", "ok": {str(number % 2 == 0).lower()}}}'

    pages = ["/", "/shop", "/shop/item", "/cart", "/pay"]
    urls = [
        "https://www.nexmark.com/a/b/item.htm?channel_id=5&q=1",
        "https://www.nexmark.com/x/y/z/item.htm",
        "https://www.nexmark.com/&channel_id=77",
    ]
    return {
        "clicks": [
            (maybe(dice.randrange(1, 7)), dice.choice(pages), maybe(dice.choice(["DE", "FR", "US"])), maybe(dice.randrange(900)), at(120))
            for _ in range(count)
        ],
        "orders": [
            (
                100 + number,
                dice.randrange(1, 6),
                dice.randrange(1, 5),
                dice.randrange(1, 9),
                maybe(money(90_000)),
                dice.choice(["paid", "open", "returned"]),
                at(4000),
            )
            for number in range(count)
        ],
        "payments": [
            (100 + dice.randrange(count + 5), money(9000), maybe(dice.choice(["card", "cash", "bank"])), at(4000)) for _ in range(count)
        ],
        "readings": [
            (dice.randrange(1, 5), maybe(dice.randrange(-40, 400) / 8), maybe(dice.randrange(0, 800) / 8), at(90)) for _ in range(count)
        ],
        "events": [
            (
                dice.randrange(1, 6),
                dice.choice(["view", "cart", "buy", "leave"]),
                at(300),
                maybe(body(number)),
                maybe(dice.sample(["a", "b", "c", "d"], dice.randrange(4))),
            )
            for number in range(count)
        ],
        "person": [
            (
                number,
                dice.choice(["Ada", "Bo", "Cy"]),
                f"p{number}@x.org",
                "0000 1111",
                dice.choice(["Salem", "Boise"]),
                dice.choice(["OR", "ID", "CA", "WA"]),
                at(60),
                "",
            )
            for number in range(1, 13)
        ],
        "auction": [
            (
                number,
                f"item {number}",
                "thing",
                10,
                dice.randrange(10, 400),
                at(40),
                at(40) + timedelta(minutes=20),
                dice.randrange(1, 13),
                dice.choice([10, 10, 11, 12]),
                "",
            )
            for number in range(1, 15)
        ],
        "bid": [
            (
                dice.choice([123, *range(1, 15)]),
                dice.randrange(1, 6),
                dice.randrange(1, 60) * 1000,
                dice.choice(["apple", "Google", "facebook", "baidu", "channel-9"]),
                dice.choice(urls),
                at(50),
                dice.choice(["abc", "ccc", ""]),
            )
            for _ in range(count * 2)
        ],
        "products": [
            (1, "pen", "office", Decimal("0.50")),
            (2, "desk", "office", Decimal("80.00")),
            (3, "tea", "food", None),
            (5, "lamp", None, Decimal("9.99")),
        ],
        "customers": [
            (1, "Ada", "north", date(2024, 5, 1)),
            (2, "Bo", "south", date(2025, 1, 1)),
            (3, "Cy", "north", None),
            (9, "Di", "west", date(2026, 1, 1)),
        ],
        "sensors": [(1, "hall", 0.0, 30.0), (2, "roof", -10.0, 20.0), (3, None, 5.0, None)],
        "rates": [
            ("card", start, start + timedelta(days=1), Decimal("0.0150")),
            ("card", start + timedelta(days=1), start + timedelta(days=9), Decimal("0.0200")),
            ("bank", start, start + timedelta(days=9), Decimal("0.0010")),
        ],
        "side_input": [(number, f"side {number % 3}") for number in range(0, 120, 7)],
    }


def _topic(name: str, *found: Definition) -> list[Definition]:
    return [replace(one, topic=name) for one in found]


def _view(title: str, sql: str, result: str = "continuous", reason: str = "") -> Definition:
    return Definition(topic="", title=title, sql=" ".join(sql.split()), result=result, reason=reason)


DEFINITIONS: list[Definition] = [
    *_topic(
        "Counts and sums",
        _view("rows of each key", "SELECT page, count(*) AS views FROM clicks GROUP BY page"),
        _view("one row of totals", "SELECT count(*) AS orders, sum(quantity) AS items, sum(quantity * price) AS revenue FROM orders"),
        _view(
            "averages and extremes",
            "SELECT sensor, avg(temperature) AS mean, min(temperature) AS low, max(temperature) AS high, count(temperature) AS n FROM readings GROUP BY sensor",
        ),
        _view(
            "conditional aggregates with FILTER",
            "SELECT customer, count(*) FILTER (WHERE status = 'paid') AS paid, count(*) FILTER (WHERE status = 'returned') AS returned, sum(price) FILTER (WHERE quantity > 3) AS bulk FROM orders GROUP BY customer",
        ),
        _view(
            "conditional aggregates with CASE",
            "SELECT customer, sum(CASE WHEN status = 'returned' THEN -quantity * price ELSE quantity * price END) AS net, count_if(status = 'open') AS open FROM orders GROUP BY customer",
        ),
        _view("a ratio of two counts", "SELECT page, count_if(ms > 400) / count(*) AS slow FROM clicks GROUP BY page"),
        _view(
            "a ratio that may have no rows",
            "SELECT customer, sum(price) / nullif(count_if(status = 'paid'), 0) AS per_paid FROM orders GROUP BY customer",
        ),
        _view(
            "groups above a threshold", "SELECT customer, sum(quantity) AS items FROM orders GROUP BY customer HAVING sum(quantity) > 20"
        ),
        _view(
            "groups by an expression",
            "SELECT CASE WHEN ms < 200 THEN 'fast' WHEN ms < 600 THEN 'fair' ELSE 'slow' END AS speed, count(*) AS n FROM clicks GROUP BY 1",
        ),
        _view(
            "a histogram with fixed buckets",
            "SELECT CAST(floor(ms / 100) * 100 AS INT) AS bucket, count(*) AS n FROM clicks WHERE ms IS NOT NULL GROUP BY 1",
        ),
        _view(
            "a histogram with width_bucket",
            "SELECT width_bucket(temperature, 0, 50, 5) AS bucket, count(*) AS n FROM readings GROUP BY width_bucket(temperature, 0, 50, 5)",
        ),
        _view("subtotals with ROLLUP", "SELECT country, page, count(*) AS n, avg(ms) AS ms FROM clicks GROUP BY ROLLUP (country, page)"),
        _view("all combinations with CUBE", "SELECT status, product, sum(quantity) AS n FROM orders GROUP BY CUBE (status, product)"),
        _view(
            "several groupings at once",
            "SELECT status, product, count(*) AS n FROM orders GROUP BY GROUPING SETS ((status), (product), ())",
        ),
        _view(
            "a pivot by FILTER",
            "SELECT product, sum(quantity) FILTER (WHERE status = 'paid') AS paid, sum(quantity) FILTER (WHERE status = 'open') AS open FROM orders GROUP BY product",
        ),
        _view(
            "a pivot by PIVOT",
            "SELECT * FROM (SELECT product, status, quantity FROM orders) PIVOT (sum(quantity) FOR status IN ('paid', 'open'))",
            "text",
            "PIVOT and UNPIVOT are not supported in views",
        ),
    ),
    *_topic(
        "Distinct values",
        _view("distinct users of each page", "SELECT page, count(DISTINCT user_id) AS users FROM clicks GROUP BY page"),
        _view(
            "distinct and plain counts together",
            "SELECT country, count(*) AS n, count(DISTINCT user_id) AS users, count(DISTINCT page) AS pages FROM clicks GROUP BY country",
        ),
        _view(
            "distinct counts under a condition",
            "SELECT page, count(DISTINCT user_id) FILTER (WHERE ms < 500) AS quick_users FROM clicks GROUP BY page",
        ),
        _view("an approximate distinct count", "SELECT country, approx_count_distinct(user_id) AS users FROM clicks GROUP BY country"),
        _view("the different rows", "SELECT DISTINCT user_id, country FROM clicks"),
        _view("daily active users", "SELECT date(at) AS day, count(DISTINCT user_id) AS users FROM clicks GROUP BY date(at)"),
        _view("the values as a sorted list", "SELECT user_id, sort_array(collect_set(page)) AS pages FROM clicks GROUP BY user_id"),
        _view(
            "keys that occur more than once", "SELECT order_id, count(*) AS payments FROM payments GROUP BY order_id HAVING count(*) > 1"
        ),
    ),
    *_topic(
        "Windows of time",
        _view(
            "tumbling windows",
            "SELECT window.start AS starts, window.end AS ends, count(*) AS n FROM clicks GROUP BY window(at, '10 minutes')",
        ),
        _view(
            "tumbling windows by key",
            "SELECT page, window.start AS starts, count(*) AS n, max(ms) AS slowest FROM clicks GROUP BY page, window(at, '10 minutes')",
        ),
        _view(
            "hopping windows",
            "SELECT window.start AS starts, avg(temperature) AS mean FROM readings GROUP BY window(at, '30 minutes', '10 minutes')",
        ),
        _view(
            "windows with an offset",
            "SELECT window.start AS starts, sum(price) AS s FROM orders GROUP BY window(at, '1 day', '1 day', '6 hours')",
        ),
        _view(
            "minutes by date_trunc",
            "SELECT date_trunc('MINUTE', at) AS minute, count(*) AS n FROM clicks GROUP BY date_trunc('MINUTE', at)",
        ),
        _view("hours of the day", "SELECT hour(at) AS hour, count(*) AS n FROM orders GROUP BY hour(at)"),
        _view("weekdays", "SELECT date_format(at, 'E') AS weekday, sum(quantity) AS n FROM orders GROUP BY date_format(at, 'E')"),
        _view(
            "months and quarters",
            "SELECT year(at) AS y, quarter(at) AS q, month(at) AS m, sum(price) AS s FROM orders GROUP BY ROLLUP (year(at), quarter(at), month(at))",
        ),
        _view(
            "session windows by key",
            "SELECT user_id, session_window.start AS starts, session_window.end AS ends, count(*) AS n FROM clicks GROUP BY user_id, session_window(at, '10 minutes')",
        ),
        _view(
            "session windows of the whole stream",
            "SELECT session_window(at, '3 minutes').start AS starts, count(*) AS n, max(ms) AS slowest FROM clicks GROUP BY session_window(at, '3 minutes')",
        ),
        _view(
            "the last hour, by the clock",
            "SELECT page, count(*) AS n FROM clicks WHERE at > current_timestamp() - INTERVAL 1 HOUR GROUP BY page",
        ),
        _view(
            "today, by the clock",
            "SELECT status, count(*) AS n, sum(price) AS s FROM orders WHERE date(at) = current_date() GROUP BY status",
        ),
        _view(
            "this week, by the clock",
            "SELECT customer, sum(price) AS s FROM orders WHERE date_trunc('WEEK', at) = date_trunc('WEEK', current_timestamp()) GROUP BY customer",
        ),
        _view(
            "windows with each window's change",
            "SELECT starts, n, n - lag(n) OVER (ORDER BY starts) AS change FROM (SELECT window.start AS starts, count(*) AS n FROM clicks GROUP BY window(at, '10 minutes'))",
        ),
        _view(
            "a moving average of windows",
            "SELECT hour, avg(n) OVER (ORDER BY hour ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS moving FROM (SELECT date_trunc('HOUR', at) AS hour, count(*) AS n FROM orders GROUP BY 1)",
        ),
        _view(
            "the time between first and last",
            "SELECT user_id, max(at) - min(at) AS stay FROM clicks GROUP BY user_id",
        ),
        _view(
            "the time between, in seconds",
            "SELECT user_id, unix_timestamp(max(at)) - unix_timestamp(min(at)) AS stay FROM clicks GROUP BY user_id",
        ),
        _view(
            "windows by arrival",
            "SELECT window(_arrived_at, '1 minute').start AS starts, count(*) AS n FROM clicks GROUP BY window(_arrived_at, '1 minute')",
        ),
    ),
    *_topic(
        "Top n, first and last",
        _view("the most viewed pages", "SELECT page, count(*) AS n FROM clicks GROUP BY page ORDER BY n DESC, page LIMIT 3"),
        _view(
            "the top groups of each key, by QUALIFY",
            "SELECT country, page, count(*) AS n FROM clicks GROUP BY country, page QUALIFY row_number() OVER (PARTITION BY country ORDER BY n DESC, page) <= 2",
        ),
        _view(
            "the top groups of each key, by a sub-query",
            "SELECT country, page, n FROM (SELECT *, rank() OVER (PARTITION BY country ORDER BY n DESC) AS place FROM (SELECT country, page, count(*) AS n FROM clicks GROUP BY country, page)) WHERE place = 1",
        ),
        _view(
            "the top groups over aggregates",
            "SELECT customer, sum(price) AS s, rank() OVER (ORDER BY sum(price) DESC NULLS LAST) AS place FROM orders GROUP BY customer QUALIFY place <= 3",
        ),
        _view(
            "the top rows of each key",
            "SELECT * FROM orders QUALIFY row_number() OVER (PARTITION BY customer ORDER BY price DESC NULLS LAST, order_id) <= 2",
            "plain",
        ),
        _view(
            "the latest row of each key, by row_number",
            "SELECT order_id, status FROM (SELECT *, row_number() OVER (PARTITION BY order_id ORDER BY at DESC, status) AS place FROM orders) WHERE place = 1",
            "plain",
        ),
        _view(
            "the latest values of each key, by max_by",
            "SELECT sensor, max(at) AS at, max_by(temperature, at) AS temperature FROM readings GROUP BY sensor",
        ),
        _view(
            "the latest whole row of each key",
            "SELECT sensor, max(struct(at, temperature, humidity)) AS newest FROM readings GROUP BY sensor",
        ),
        _view(
            "the first and last in order of arrival",
            "SELECT user_id, first(page) AS landing, last(page) AS leaving FROM clicks GROUP BY user_id",
        ),
        _view(
            "the largest three values as a list",
            "SELECT product, slice(sort_array(collect_list(quantity), false), 1, 3) AS largest FROM orders GROUP BY product",
        ),
        _view(
            "the row with the greatest value",
            "SELECT product, max_by(order_id, struct(price, order_id)) AS best FROM orders WHERE price IS NOT NULL GROUP BY product",
        ),
        _view("the most frequent value", "SELECT user_id, mode(page, true) AS page FROM clicks GROUP BY user_id"),
        _view("the newest rows", "SELECT * FROM orders ORDER BY at DESC, order_id LIMIT 5", "plain"),
    ),
    *_topic(
        "Removing duplicates",
        _view("one row for each key, by DISTINCT", "SELECT DISTINCT order_id, method FROM payments"),
        _view(
            "the first row of each key",
            "SELECT order_id, min_by(amount, struct(at, amount)) AS amount, min(at) AS at FROM payments GROUP BY order_id",
        ),
        _view(
            "the first row of each key, by QUALIFY",
            "SELECT * FROM payments QUALIFY row_number() OVER (PARTITION BY order_id ORDER BY at, amount) = 1",
            "plain",
        ),
        _view(
            "an aggregate over rows without duplicates",
            "SELECT method, count(*) AS n, sum(amount) AS s FROM (SELECT DISTINCT order_id, amount, method, at FROM payments) GROUP BY method",
        ),
        _view(
            "an aggregate over the first of each key",
            "SELECT method, sum(amount) AS s FROM (SELECT order_id, min_by(amount, struct(at, amount)) AS amount, min_by(method, struct(at, amount)) AS method FROM payments GROUP BY order_id) GROUP BY method",
        ),
        _view(
            "an aggregate over the first of each key, by a window",
            "SELECT method, sum(amount) AS s FROM (SELECT *, row_number() OVER (PARTITION BY order_id ORDER BY at, amount) AS place FROM payments) WHERE place = 1 GROUP BY method",
            "R2",
            'a window looks at rows of stream "payments" before they are grouped',
        ),
    ),
    *_topic(
        "Running totals and changes",
        _view(
            "a running total of days",
            "SELECT day, n, sum(n) OVER (ORDER BY day) AS total FROM (SELECT date(at) AS day, count(*) AS n FROM orders GROUP BY date(at))",
        ),
        _view(
            "a running total of each key",
            "SELECT product, day, sum(s) OVER (PARTITION BY product ORDER BY day) AS total FROM (SELECT product, date(at) AS day, sum(quantity) AS s FROM orders GROUP BY product, date(at))",
        ),
        _view(
            "a running total of rows",
            "SELECT order_id, sum(price) OVER (PARTITION BY customer ORDER BY at, order_id) AS total FROM orders",
            "plain",
        ),
        _view(
            "shares of a total",
            "SELECT product, sum(quantity) AS n, sum(quantity) / sum(sum(quantity)) OVER () AS share FROM orders GROUP BY product",
        ),
        _view(
            "a balance of two streams",
            "SELECT customer, coalesce(o.s, 0) - coalesce(p.s, 0) AS due FROM (SELECT customer, sum(price) AS s FROM orders GROUP BY customer) o LEFT JOIN (SELECT order_id AS customer, sum(amount) AS s FROM payments GROUP BY order_id) p USING (customer)",
        ),
        _view(
            "the change from row to row",
            "SELECT sensor, at, temperature - lag(temperature) OVER (PARTITION BY sensor ORDER BY at, temperature) AS change FROM readings",
            "plain",
        ),
    ),
    *_topic(
        "Statistics",
        _view(
            "percentiles", "SELECT page, percentile(ms, 0.5) AS p50, percentile(ms, array(0.9, 0.99)) AS p90_99 FROM clicks GROUP BY page"
        ),
        _view(
            "percentiles in the standard's words",
            "SELECT page, percentile_cont(0.95) WITHIN GROUP (ORDER BY ms) AS p95, percentile_disc(0.5) WITHIN GROUP (ORDER BY ms) AS p50 FROM clicks GROUP BY page",
        ),
        _view("approximate percentiles", "SELECT country, approx_percentile(ms, 0.9) AS p90 FROM clicks GROUP BY country"),
        _view("the median", "SELECT median(price) AS middle FROM orders"),
        _view("deviations", "SELECT sensor, stddev(temperature) AS deviation, variance(humidity) AS v FROM readings GROUP BY sensor"),
        _view(
            "correlation and regression",
            "SELECT corr(temperature, humidity) AS c, regr_slope(temperature, humidity) AS slope, regr_intercept(temperature, humidity) AS base FROM readings",
        ),
        _view(
            "outliers among groups",
            "SELECT sensor, mean FROM (SELECT sensor, avg(temperature) AS mean FROM readings GROUP BY sensor) WHERE abs(mean - (SELECT avg(temperature) FROM readings)) > 1",
        ),
        _view(
            "rows beyond the average of their group",
            "SELECT r.sensor, r.temperature FROM readings r JOIN (SELECT sensor, avg(temperature) AS mean FROM readings GROUP BY sensor) m ON r.sensor = m.sensor WHERE r.temperature > m.mean",
            "R3",
            'stream "readings" is joined with "the groups of another stream", which changes too, before it is grouped',
        ),
        _view(
            "the count of groups by their size",
            "SELECT n AS orders, count(*) AS customers FROM (SELECT customer, count(*) AS n FROM orders GROUP BY customer) GROUP BY n",
        ),
    ),
    *_topic(
        "Joins with tables",
        _view("enriched rows", "SELECT o.order_id, c.name, c.region, o.price FROM orders o JOIN customers c ON o.customer = c.id", "plain"),
        _view(
            "sums by a column of the table",
            "SELECT c.region, sum(o.price) AS s FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.region",
        ),
        _view(
            "rows without a match kept",
            "SELECT coalesce(p.category, 'unknown') AS category, sum(o.quantity) AS n FROM orders o LEFT JOIN products p ON o.product = p.id GROUP BY coalesce(p.category, 'unknown')",
        ),
        _view(
            "two tables, and an expression of both",
            "SELECT c.region, p.category, sum(o.quantity * (o.price - p.cost)) AS margin FROM orders o JOIN products p ON p.id = o.product LEFT JOIN customers c ON c.id = o.customer GROUP BY c.region, p.category",
        ),
        _view(
            "a table joined above the grouping",
            "SELECT c.name, g.s FROM (SELECT customer, sum(price) AS s FROM orders GROUP BY customer) g JOIN customers c ON c.id = g.customer",
        ),
        _view(
            "keys of a table that have no rows",
            "SELECT id, name FROM customers WHERE id NOT IN (SELECT DISTINCT customer FROM orders WHERE customer IS NOT NULL)",
        ),
        _view(
            "a table kept, with counts",
            "SELECT c.id, count(o.order_id) AS n FROM customers c LEFT JOIN orders o ON o.customer = c.id GROUP BY c.id",
            "R4",
            'LEFT JOIN keeps rows of "customers", on its left, for which stream "orders" has no row yet',
        ),
        _view(
            "limits from a table",
            "SELECT s.place, count(*) AS alarms FROM readings r JOIN sensors s ON r.sensor = s.id WHERE r.temperature NOT BETWEEN s.low AND s.high GROUP BY s.place",
        ),
        _view(
            "a table by validity in time",
            "SELECT p.method, sum(p.amount * r.fee) AS fees FROM payments p JOIN rates r ON p.method = r.method AND p.at >= r.starts AND p.at < r.ends GROUP BY p.method",
        ),
        _view(
            "a condition from a table",
            "SELECT product, count(*) AS n FROM orders WHERE product IN (SELECT id FROM products WHERE category = 'office') GROUP BY product",
        ),
        _view(
            "a condition that no row of a table holds",
            "SELECT count(*) AS n FROM orders o WHERE NOT EXISTS (SELECT 1 FROM customers c WHERE c.id = o.customer)",
        ),
    ),
    *_topic(
        "Joins of streams",
        _view(
            "rows of two streams",
            "SELECT o.order_id, o.price, p.amount, p.method FROM orders o JOIN payments p ON p.order_id = o.order_id",
            "plain",
        ),
        _view(
            "rows of two streams within a time",
            "SELECT o.order_id, p.at FROM orders o JOIN payments p ON p.order_id = o.order_id AND p.at BETWEEN o.at AND o.at + INTERVAL 1 DAY",
            "plain",
        ),
        _view(
            "rows without a match in the other stream",
            "SELECT o.order_id, p.amount FROM orders o LEFT JOIN payments p ON p.order_id = o.order_id WHERE p.order_id IS NULL",
            "plain",
        ),
        _view(
            "rows of either stream",
            "SELECT coalesce(o.order_id, p.order_id) AS order_id, o.price, p.amount FROM orders o FULL JOIN payments p ON p.order_id = o.order_id",
            "plain",
        ),
        _view(
            "a stream with itself",
            "SELECT a.user_id, a.page AS first_page, b.page AS second_page FROM clicks a JOIN clicks b ON a.user_id = b.user_id AND b.at > a.at AND b.at <= a.at + INTERVAL 5 MINUTES",
            "plain",
        ),
        _view(
            "rows with a match in the other stream",
            "SELECT order_id, price FROM orders WHERE order_id IN (SELECT order_id FROM payments)",
            "plain",
        ),
        _view(
            "groups of two streams",
            "SELECT o.order_id, o.price, p.paid FROM (SELECT order_id, max(price) AS price FROM orders GROUP BY order_id) o LEFT JOIN (SELECT order_id, sum(amount) AS paid FROM payments GROUP BY order_id) p USING (order_id)",
        ),
        _view(
            "windows of two streams",
            "SELECT hour, c.n AS clicks, e.n AS events FROM (SELECT date_trunc('HOUR', at) AS hour, count(*) AS n FROM clicks GROUP BY 1) c FULL JOIN (SELECT date_trunc('HOUR', at) AS hour, count(*) AS n FROM events GROUP BY 1) e USING (hour)",
        ),
        _view(
            "an aggregate over a join of streams",
            "SELECT o.product, sum(p.amount) AS paid FROM orders o JOIN payments p ON p.order_id = o.order_id GROUP BY o.product",
            "R3",
            'streams "orders" and "payments" are joined, but stream "orders" must be grouped first, and so must "payments"',
        ),
        _view(
            "a union of streams",
            "SELECT what, count(*) AS n FROM (SELECT 'click' AS what, at FROM clicks UNION ALL SELECT kind, at FROM events) GROUP BY what",
        ),
        _view(
            "rows of a union of streams",
            "SELECT user_id, page AS what, at FROM clicks UNION ALL SELECT user_id, kind, at FROM events",
            "plain",
        ),
        _view(
            "groups of one stream that the other has not",
            "SELECT user_id FROM clicks WHERE user_id IS NOT NULL EXCEPT SELECT user_id FROM events",
        ),
    ),
    *_topic(
        "Funnels, retention and sequences",
        _view("users by step", "SELECT kind, count(DISTINCT user_id) AS users FROM events GROUP BY kind"),
        _view(
            "a funnel by first times",
            "SELECT count(viewed) AS viewed, count_if(carted > viewed) AS carted, count_if(bought > carted AND carted > viewed) AS bought FROM (SELECT user_id, min(at) FILTER (WHERE kind = 'view') AS viewed, min(at) FILTER (WHERE kind = 'cart') AS carted, min(at) FILTER (WHERE kind = 'buy') AS bought FROM events GROUP BY user_id)",
        ),
        _view(
            "users who did one thing and not another",
            "SELECT user_id FROM events GROUP BY user_id HAVING bool_or(kind = 'cart') AND NOT bool_or(kind = 'buy')",
        ),
        _view(
            "retention by cohort",
            "SELECT cohort, datediff(day, cohort) AS after, count(DISTINCT user_id) AS users FROM (SELECT user_id, date(at) AS day FROM events GROUP BY user_id, date(at)) JOIN (SELECT user_id, min(date(at)) AS cohort FROM events GROUP BY user_id) USING (user_id) GROUP BY cohort, day",
        ),
        _view(
            "the path of each user",
            "SELECT user_id, array_join(transform(sort_array(collect_list(struct(at, kind))), s -> s.kind), ' > ') AS path FROM events GROUP BY user_id",
        ),
        _view(
            "the step after each step",
            "SELECT kind, next, count(*) AS n FROM (SELECT kind, lead(kind) OVER (PARTITION BY user_id ORDER BY at, kind) AS next FROM events) GROUP BY kind, next",
            "R2",
            'a window looks at rows of stream "events" before they are grouped',
        ),
        _view(
            "a sequence by MATCH_RECOGNIZE",
            "SELECT * FROM events MATCH_RECOGNIZE (PARTITION BY user_id ORDER BY at MEASURES A.at AS began PATTERN (A B) DEFINE A AS kind = 'cart', B AS kind = 'buy')",
            "text",
            "unexpected user_id in a query",
        ),
    ),
    *_topic(
        "Nested values and texts",
        _view(
            "a field of JSON",
            "SELECT get_json_object(body, '$.plan') AS plan, count(*) AS n FROM events GROUP BY get_json_object(body, '$.plan')",
        ),
        _view(
            "a parsed body",
            "SELECT b.plan, sum(b.amount) AS s FROM (SELECT from_json(body, 'amount INT, plan STRING, ok BOOLEAN') AS b FROM events) GROUP BY b.plan",
        ),
        _view("elements of an array", "SELECT tag, count(*) AS n FROM events LATERAL VIEW explode(tags) t AS tag GROUP BY tag"),
        _view(
            "elements of an array in SELECT",
            "SELECT tag, count(DISTINCT user_id) AS users FROM (SELECT user_id, explode(tags) AS tag FROM events) GROUP BY tag",
        ),
        _view("a part of a text", "SELECT regexp_extract(page, '^/([a-z]*)', 1) AS section, count(*) AS n FROM clicks GROUP BY 1"),
        _view(
            "words of a text",
            "SELECT word, count(*) AS n FROM (SELECT explode(split(lower(page), '/')) AS word FROM clicks) WHERE word <> '' GROUP BY word",
        ),
        _view(
            "a map of counts",
            "SELECT map_from_entries(sort_array(collect_list(struct(page, n)))) AS counts FROM (SELECT page, count(*) AS n FROM clicks GROUP BY page)",
        ),
        _view(
            "rows with a computed column",
            "SELECT user_id, upper(country) AS country, ms / 1000.0 AS seconds FROM clicks WHERE page LIKE '/shop%'",
            "plain",
        ),
    ),
    *_topic(
        "Nexmark",
        _view("q0 pass through", "SELECT auction, bidder, price, date_time, extra FROM bid", "plain"),
        _view("q1 currency conversion", "SELECT auction, bidder, 0.908 * price AS price, date_time, extra FROM bid", "plain"),
        _view("q2 selection", "SELECT auction, price FROM bid WHERE auction % 123 = 0", "plain"),
        _view(
            "q3 local item suggestion",
            "SELECT p.name, p.city, p.state, a.id FROM auction a JOIN person p ON a.seller = p.id WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')",
            "plain",
        ),
        _view(
            "q4 average price of a category",
            "SELECT category, avg(final) AS average FROM (SELECT a.id, a.category, max(b.price) AS final FROM auction a JOIN bid b ON a.id = b.auction WHERE b.date_time BETWEEN a.date_time AND a.expires GROUP BY a.id, a.category) GROUP BY category",
            "R3",
            'streams "auction" and "bid" are joined, but stream "auction" must be grouped first, and so must "bid"',
        ),
        _view(
            "q5 hot items",
            "WITH counts AS (SELECT auction, window.start AS starts, count(*) AS n FROM bid GROUP BY auction, window(date_time, '10 seconds', '2 seconds')) SELECT auction, n, starts FROM counts QUALIFY rank() OVER (PARTITION BY starts ORDER BY n DESC) = 1",
        ),
        _view(
            "q6 average price of a seller's last ten",
            "SELECT seller, avg(final) OVER (PARTITION BY seller ORDER BY ended ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS average FROM (SELECT a.id, a.seller, max(b.price) AS final, max(b.date_time) AS ended FROM auction a JOIN bid b ON a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires GROUP BY a.id, a.seller)",
            "R3",
            'streams "auction" and "bid" are joined, but stream "auction" must be grouped first, and so must "bid"',
        ),
        _view(
            "q7 highest bid of a window",
            "SELECT b.auction, b.price, b.bidder, b.date_time FROM bid b JOIN (SELECT window.end AS ends, max(price) AS highest FROM bid GROUP BY window(date_time, '10 seconds')) w ON b.price = w.highest AND b.date_time >= w.ends - INTERVAL 10 SECONDS AND b.date_time < w.ends",
            "R3",
            'stream "bid" is joined with "the groups of another stream", which changes too, before it is grouped',
        ),
        _view(
            "q8 monitor new users",
            "SELECT p.id, p.name, p.starts FROM (SELECT id, name, window.start AS starts FROM person GROUP BY id, name, window(date_time, '10 minutes')) p JOIN (SELECT seller, window.start AS starts FROM auction GROUP BY seller, window(date_time, '10 minutes')) a ON p.id = a.seller AND p.starts = a.starts",
        ),
        _view(
            "q9 winning bids",
            "SELECT a.id, a.item_name, a.seller, a.category, b.bidder, b.price, b.date_time FROM auction a JOIN bid b ON a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires QUALIFY row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time, b.bidder) = 1",
            "plain",
        ),
        _view(
            "q10 rows by day and minute",
            "SELECT auction, bidder, price, date_time, extra, date_format(date_time, 'yyyy-MM-dd') AS day, date_format(date_time, 'HH:mm') AS minute FROM bid",
            "plain",
        ),
        _view(
            "q11 sessions of a user",
            "SELECT bidder, count(*) AS n, session_window.start AS starts, session_window.end AS ends FROM bid GROUP BY bidder, session_window(date_time, '10 seconds')",
        ),
        _view(
            "q12 windows by arrival",
            "SELECT bidder, count(*) AS n, window.start AS starts, window.end AS ends FROM bid GROUP BY bidder, window(_arrived_at, '10 seconds')",
        ),
        _view(
            "q13 join with a table",
            "SELECT b.auction, b.bidder, b.price, b.date_time, s.value FROM bid b JOIN side_input s ON s.key = b.auction % 100",
            "plain",
        ),
        _view(
            "q14 calculation",
            "SELECT auction, bidder, 0.908 * price AS price, CASE WHEN hour(date_time) BETWEEN 8 AND 18 THEN 'day' WHEN hour(date_time) <= 6 OR hour(date_time) >= 20 THEN 'night' ELSE 'other' END AS part, date_time, extra, length(extra) - length(replace(extra, 'c', '')) AS c FROM bid WHERE 0.908 * price BETWEEN 10000 AND 50000",
            "plain",
        ),
        _view(
            "q15 bidding statistics of a day",
            "SELECT date_format(date_time, 'yyyy-MM-dd') AS day, count(*) AS n, count(*) FILTER (WHERE price < 10000) AS low, count(*) FILTER (WHERE price >= 10000 AND price < 40000) AS middle, count(DISTINCT bidder) AS bidders, count(DISTINCT bidder) FILTER (WHERE price < 10000) AS low_bidders, count(DISTINCT auction) AS auctions, count(DISTINCT auction) FILTER (WHERE price >= 40000) AS high_auctions FROM bid GROUP BY date_format(date_time, 'yyyy-MM-dd')",
        ),
        _view(
            "q16 statistics of a channel",
            "SELECT channel, date_format(date_time, 'yyyy-MM-dd') AS day, max(date_format(date_time, 'HH:mm')) AS minute, count(*) AS n, count(*) FILTER (WHERE price < 10000) AS low, count(DISTINCT bidder) AS bidders, count(DISTINCT auction) FILTER (WHERE price < 10000) AS low_auctions FROM bid GROUP BY channel, date_format(date_time, 'yyyy-MM-dd')",
        ),
        _view(
            "q17 statistics of an auction",
            "SELECT auction, date_format(date_time, 'yyyy-MM-dd') AS day, count(*) AS n, count(*) FILTER (WHERE price < 10000) AS low, min(price) AS least, max(price) AS most, avg(price) AS mean, sum(price) AS total FROM bid GROUP BY auction, date_format(date_time, 'yyyy-MM-dd')",
        ),
        _view(
            "q18 the last bid",
            "SELECT auction, bidder, price, channel, date_time FROM bid QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY date_time DESC, price) = 1",
            "plain",
        ),
        _view(
            "q19 the top ten bids",
            "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC, date_time, bidder) AS place FROM bid) WHERE place <= 10",
            "plain",
        ),
        _view(
            "q20 bids with their auctions",
            "SELECT b.auction, b.bidder, b.price, a.item_name, a.seller, a.category FROM bid b JOIN auction a ON b.auction = a.id WHERE a.category = 10",
            "plain",
        ),
        _view(
            "q21 ids of channels",
            "SELECT auction, bidder, price, channel, CASE WHEN lower(channel) IN ('apple', 'google', 'facebook', 'baidu') THEN lower(channel) ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id FROM bid WHERE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) <> '' OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')",
            "plain",
        ),
        _view(
            "q22 directories of a URL",
            "SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2, split_part(url, '/', 6) AS dir3 FROM bid",
            "plain",
        ),
    ),
]
"""The definitions, by topic; titles are unique."""
