"""What callers give as parameters becomes plain Python values, or one clear error."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest

from platform_plugin.errors import InvalidValue
from platform_plugin.relations.arguments import plain_value, plan_parameters


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (np.int64(3), 3),
        (np.bool_(1), True),
        (np.array([1.5, 2.5]), [1.5, 2.5]),
        (np.datetime64("2026-01-02T03:04:05.123456789"), datetime(2026, 1, 2, 3, 4, 5, 123456)),  # noqa: DTZ001
        (pa.scalar("x"), "x"),
        (memoryview(b"y"), b"y"),
        ((1, (2, None)), [1, [2, None]]),
        ({"a": np.int8(1)}, {"a": 1}),
        (UUID(int=1), UUID(int=1)),
        (True, True),
    ],
)
def test_values_become_pythons_own(given, wanted):
    found = plain_value(given, ":v")
    assert found == wanted
    assert type(found) is type(wanted)


@pytest.mark.parametrize("given", [object(), {1, 2}, range(3), "\ud800", [object()], {"a": {1}}, 1j])
def test_values_that_no_column_holds_are_refused_by_name(given):
    with pytest.raises(InvalidValue, match='"v"'):
        plain_value(given, "v")


@pytest.mark.parametrize("given", ["abc", b"abc", 5, object(), {1: 2}, {"a"}])
def test_parameters_are_a_list_or_a_dict(given):
    with pytest.raises(InvalidValue):
        plan_parameters(given)
