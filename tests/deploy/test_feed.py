"""The generator of the shop makes rows that every asset has something to do with."""

from __future__ import annotations

import csv
from datetime import UTC, datetime, timedelta

from deploy.feed import OPENING_DAYS, OPENING_ORDERS, Shop


def days_of(text):
    return [datetime.fromisoformat(row["ordered_at"]).replace(tzinfo=UTC).date() for row in csv.DictReader(text.splitlines())]


def test_the_first_orders_are_of_the_last_days_so_that_there_are_days_to_build():
    today = datetime.now(UTC).date()
    days = days_of(Shop().orders(OPENING_ORDERS, days=OPENING_DAYS))
    assert {today - timedelta(days=number) for number in range(1, OPENING_DAYS)} <= set(days)
    assert days == sorted(days)
    assert max(days) <= datetime.now(UTC).date()


def test_orders_are_of_now_otherwise_and_the_last_ones_are_broken():
    before = datetime.now(UTC).date()
    text = Shop().orders(10, broken=2)
    assert set(days_of(text)) <= {before, datetime.now(UTC).date()}
    assert [row["quantity"] == "two" for row in csv.DictReader(text.splitlines())] == [False] * 8 + [True] * 2
