"""A domain that is fitted to a type has the same values of that type, whatever its ends were."""

import datetime as dt
import math
from decimal import Decimal as Number
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_plugin.algebra.predicates.fitting import fit_domain
from platform_plugin.algebra.predicates.ranges import Domain, above, below, points
from platform_plugin.algebra.types.data_types import Decimal, Primitive

EXACT = [Number(text) for text in ("0.1", "0.10000000000000001", "-1.005", "127.5", "1E+400", "9.99")]
ENDS = st.sampled_from([0, 1, -1, 127, 128, -128, -129, 2**70, 0.5, -0.0, 0.1, 1e300, math.nan, math.inf, -math.inf, *EXACT])
VALUES = {
    Primitive("int8"): [-128, -127, -1, 0, 1, 2, 126, 127],
    Primitive("uint8"): [0, 1, 2, 127, 128, 254, 255],
    Primitive("int64"): [-(2**63), -129, -1, 0, 1, 128, 2**63 - 1],
    Primitive("float64"): [-math.inf, -1.005, -1.0, -0.0, 0.0, 0.1, math.nextafter(0.1, 1), 0.5, 127.5, 1e300, math.inf, math.nan],
    Decimal(precision=3, scale=2): [Number(n).scaleb(-2) for n in (-999, -101, -100, 0, 9, 10, 11, 50, 100, 998, 999)],
}

domains = st.recursive(
    st.one_of(
        st.builds(points, st.lists(st.none() | ENDS, max_size=3)),
        st.builds(lambda end, closed: below(end, closed=closed), ENDS, st.booleans()),
        st.builds(lambda end, closed: above(end, closed=closed), ENDS, st.booleans()),
    ),
    lambda inner: st.builds(Domain.__and__, inner, inner) | st.builds(Domain.__or__, inner, inner) | st.builds(Domain.__invert__, inner),
    max_leaves=6,
)


@given(st.sampled_from(list(VALUES)), domains)
def test_a_fitted_domain_has_the_same_values_of_its_type(kind, domain):
    fitted = fit_domain(domain, kind)
    for value in [None, *VALUES[kind]]:
        assert fitted.contains(value) == domain.contains(value), (str(domain), str(fitted), value)
    for interval in fitted.intervals:
        for end, closed in ((interval.low, interval.low_closed), (interval.high, interval.high_closed)):
            if kind == Primitive("float64"):
                assert end is None or isinstance(end, float)
            else:
                assert end is None or (closed and (isinstance(end, int) if isinstance(kind, Primitive) else -end.as_tuple().exponent <= 2))


def test_ends_of_other_types_are_told():
    for value, kind in (("one", "int32"), (True, "int8"), (1, "varchar"), (dt.date(2026, 1, 1), "timestamp"), (b"", "varchar")):
        with pytest.raises(TypeError, match="no value of the column's type"):
            fit_domain(points([value]), Primitive(kind))
    with pytest.raises(TypeError):
        fit_domain(points([dt.datetime(2026, 1, 1)]), Primitive("timestamptz"))  # noqa: DTZ001
    assert fit_domain(points([str(UUID(int=5))]), Primitive("uuid")).values == (str(UUID(int=5)),)
    assert fit_domain(points([None]), Primitive("geometry")) == points([None])
