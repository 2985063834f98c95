"""Numbers of months go through Arrow's intervals unchanged, and neither module needs SQLAlchemy."""

import subprocess
import sys

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from platform_plugin.lake.values.months import from_months, months_of


@given(st.lists(st.none() | st.integers(-(2**31), 2**31 - 1)), st.integers(0, 3))
def test_numbers_go_through_intervals_unchanged(months, first):
    intervals = from_months(pa.array(months, pa.int32()))
    assert intervals.type == pa.month_day_nano_interval()
    assert [None if each is None else each.months for each in intervals.to_pylist()] == months
    assert months_of(intervals.slice(first)).to_pylist() == months[first:]


def test_a_session_is_imported_without_sqlalchemy():
    code = "import sys, platform_plugin.engine.spark.session.session as _; sys.exit('sqlalchemy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
