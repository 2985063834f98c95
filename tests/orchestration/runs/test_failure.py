"""A platform error is the failure of a step, without the frames that it came through."""

import dagster as dg
import pytest

from platform_plugin.errors import InvalidValue
from platform_plugin.orchestration.runs.failure import combine_failures, raise_failures


def test_a_failure_has_the_message_and_no_cause_to_be_shown_below_it():
    with pytest.raises(dg.Failure) as caught, raise_failures():
        raise InvalidValue("this is odd", hint="look there")
    assert (caught.value.description, caught.value.metadata["hint"].value) == ("this is odd\n  hint: look there", "look there")
    assert (caught.value.__cause__, caught.value.__suppress_context__) == (None, True)


def test_the_failure_of_one_relation_among_many_names_it():
    failure = combine_failures({"main.sales": InvalidValue("this is odd", hint="look there")})
    assert failure.description == "main.sales: this is odd\n  hint: look there"
    assert failure.metadata["hint"].value == "look there"
