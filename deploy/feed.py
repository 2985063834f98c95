"""The generator of the shop: tables once, then orders as CSV files, clicks, searches and returns for as long as somebody watches."""

from __future__ import annotations

import csv
import io
import math
import random
import signal
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from platform_plugin.errors import PlatformError
from platform_plugin.platform import Platform

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CUSTOMERS = 1_000
PRODUCTS = 40
INBOX = Path(".platform/inbox/orders")
COUNTRIES = ("DE", "FR", "IT", "JP", "US")
CATEGORIES = ("kitchen", "light", "garden", "office")
THINGS = ("kettle", "pan", "lamp", "lantern", "rake", "spade", "pen", "stapler", "mug", "vase")
REASONS = {"size": "does not fit", "broken": "arrived broken", "late": "came too late", "other": "said nothing"}
COLUMNS = ("id", "customer_id", "product_id", "quantity", "amount", "ordered_at")
ORDERS_PER_SECOND = 60
OPENING_ORDERS, OPENING_DAYS = 2_000, 7
"""What the first file has: the orders of the last days."""
PAUSE = timedelta(seconds=2)
KEPT = timedelta(days=1)
"""After that a CSV file is removed, as a checkout would do that cleans up behind itself."""


class Shop:
    """Makes rows that look as if people had made them; the same seed makes the same ones."""

    def __init__(self, seed: int = 7, first_order: int = 0) -> None:
        self._chance = random.Random(seed)
        self._next = first_order
        self._prices = [round(math.exp(self._chance.gauss(3, 0.8)), 2) for _ in range(PRODUCTS)]

    def customers(self) -> pa.Table:
        """All customers; one in two hundred has an address that is none."""
        chance = self._chance
        return pa.table(
            {
                "id": pa.array(range(CUSTOMERS), pa.int32()),
                "name": [f"customer {number}" for number in range(CUSTOMERS)],
                "country": [chance.choice(COUNTRIES) for _ in range(CUSTOMERS)],
                "email": [f"c{number}{'at' if number % 200 == 0 else '@'}example.org" for number in range(CUSTOMERS)],
            }
        )

    def products(self) -> pa.Table:
        """All products."""
        return pa.table(
            {
                "id": pa.array(range(PRODUCTS), pa.int32()),
                "name": [f"{THINGS[number % len(THINGS)]} {number}" for number in range(PRODUCTS)],
                "category": [CATEGORIES[number % len(CATEGORIES)] for number in range(PRODUCTS)],
                "price": pa.array(self._prices).cast(pa.decimal128(9, 2)),
            }
        )

    def reasons(self) -> pa.Table:
        """Why things come back."""
        return pa.table({"code": list(REASONS), "reason": list(REASONS.values())})

    def orders(self, count: int, *, broken: int = 0, days: int = 0) -> str:
        """So many orders as a CSV file with a header, of now or of some days until now.

        Of the last ones so many are written as no program should.
        """
        now = datetime.now(UTC)
        step = timedelta(days=days) / count
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow(COLUMNS)
        for number in range(count):
            product, quantity = self._product(), 1 + int(self._chance.expovariate(1.5))
            amount = f"{quantity * self._prices[product]:.2f}"
            wrong = number >= count - broken
            lines.writerow(
                [self._next, self._customer(), product, "two" if wrong else quantity, amount, _written(now - step * (count - number))]
            )
            self._next += 1
        return text.getvalue()

    def clicks(self, count: int) -> pa.Table:
        """So many looks at products."""
        moment = datetime.now(UTC)
        return pa.table(
            {
                "visitor": [f"v{int(self._chance.expovariate(1 / 400))}" for _ in range(count)],
                "product_id": pa.array([self._product() for _ in range(count)], pa.int32()),
                "clicked_at": pa.array([moment] * count, pa.timestamp("us", "UTC")),
            }
        )

    def searches(self, count: int) -> pa.Table:
        """So many searches; nobody has a hammock."""
        terms = self._chance.choices((*THINGS, "hammock"), k=count)
        return pa.table(
            {
                "visitor": [f"v{int(self._chance.expovariate(1 / 400))}" for _ in range(count)],
                "term": terms,
                "hits": pa.array([0 if term == "hammock" else PRODUCTS // len(THINGS) for term in terms], pa.int32()),
                "searched_at": pa.array([datetime.now(UTC)] * count, pa.timestamp("us", "UTC")),
            }
        )

    def returns(self, count: int) -> pa.Table:
        """So many orders that come back."""
        return pa.table(
            {
                "order_id": pa.array([self._chance.randrange(max(1, self._next)) for _ in range(count)], pa.int64()),
                "product_id": pa.array([self._product() for _ in range(count)], pa.int32()),
                "code": self._chance.choices(list(REASONS), weights=(6, 2, 1, 1), k=count),
                "returned_at": pa.array([datetime.now(UTC)] * count, pa.timestamp("us", "UTC")),
            }
        )

    def _product(self) -> int:
        return min(int(self._chance.expovariate(1 / 8)), PRODUCTS - 1)

    def _customer(self) -> int:
        return min(int(self._chance.expovariate(1 / 200)), CUSTOMERS - 1)


def feed(url: str) -> None:
    """Load what is loaded once and add to the streams for ever; a lake or stream that is not there yet is waited for."""
    INBOX.mkdir(parents=True, exist_ok=True)
    shop = Shop(first_order=int(time.time()) * 1_000)
    began = time.monotonic()
    while True:
        try:
            with Platform.open(url) as platform:
                if not _files(INBOX):
                    # Else daily_sales would have no day to build before tomorrow.
                    drop(shop.orders(OPENING_ORDERS, days=OPENING_DAYS))
                load(platform, {"customers": shop.customers(), "products": shop.products(), "return_reasons": shop.reasons()})
                while True:
                    seconds = PAUSE.total_seconds()
                    # Business swells and ebbs within five minutes.
                    swell = 1 + 0.8 * math.sin((time.monotonic() - began) / 300 * math.tau)
                    count = max(1, int(ORDERS_PER_SECOND * seconds * swell * random.uniform(0.7, 1.3)))
                    drop(shop.orders(count, broken=int(random.random() < 0.05)))
                    for name, rows in {
                        "clicks": shop.clicks(5 * count),
                        "searches": shop.searches(count),
                        "returns": shop.returns(3),
                    }.items():
                        platform.stream(name).append(rows)
                    time.sleep(seconds)
        except PlatformError:
            # The first materialization makes the lake; a restart of it is survived too.
            time.sleep(1.0)


def load(platform: Platform, tables: Mapping[str, pa.Table]) -> None:
    """Fill tables that are empty, all in one commit."""
    lake = platform.lake
    empty = {name: rows for name, rows in tables.items() if not lake.read(name).num_rows}
    if empty:
        with lake.commit("load what the shop knows") as commit:
            for name, rows in empty.items():
                table = lake.table(name)
                commit.append(table, [lake.write(table, rows)])


def drop(text: str, inbox: Path = INBOX) -> Path:
    """Put a file of orders into the inbox under a hidden name and then rename it, so that nobody reads half of it; old ones go."""
    oldest = time.time() - KEPT.total_seconds()
    for path in _files(inbox):
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < oldest:
                path.unlink()
    path = inbox / f"orders-{time.time_ns()}.csv"
    hidden = path.with_name(f".{path.name}")
    hidden.write_text(text)
    return hidden.rename(path)


def _files(inbox: Path) -> Sequence[Path]:
    return sorted(inbox.glob("*.csv"))


def _written(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S")


if __name__ == "__main__":
    # A shell that starts things in the background lets them ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        feed(sys.argv[1])
