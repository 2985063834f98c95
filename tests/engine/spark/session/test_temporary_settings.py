"""Settings that several queries of a session ask for at once, against a model of who is inside."""

from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_plugin.engine.spark.session.temporary_settings import TemporarySettings

GIVEN = {"adaptive": "true", "partitions": "8"}
values = st.dictionaries(st.sampled_from(sorted(GIVEN)), st.sampled_from(["true", "false", "1"]), min_size=1)


class Conf:
    """A session's settings on the server, and how often they were sent."""

    def __init__(self):
        self.now = dict(GIVEN)
        self.sent = 0
        self.is_gone = False

    def get(self, name):
        return self.now[name]

    def _set_all(self, values, *, silent):
        assert silent
        if self.is_gone:
            raise ConnectionError
        self.sent += 1
        self.now |= values


@given(st.lists(st.one_of(values, st.integers(0, 5)), max_size=20))
def test_the_newest_decides_and_the_last_restores(steps):
    conf = Conf()
    settings = TemporarySettings(conf)
    inside = []

    def check():
        expected = dict(GIVEN)
        for asked, _ in inside:
            expected |= asked
        assert conf.now == expected

    for step in steps:
        if isinstance(step, dict):
            stack = ExitStack()
            stack.enter_context(settings.use(step))
            inside.append((step, stack))
        elif inside:
            inside.pop(step % len(inside))[1].close()  # in any order, as threads end
        check()
    for _, stack in inside:
        stack.close()
    assert conf.now == GIVEN


def test_a_value_that_holds_is_not_sent_again():
    conf = Conf()
    settings = TemporarySettings(conf)
    with settings.use({"adaptive": "false"}), settings.use({"adaptive": "false"}):
        assert conf.sent == 1
    assert (conf.sent, conf.now) == (2, GIVEN)


def test_the_error_of_a_query_is_not_hidden_by_a_server_that_is_gone():
    conf = Conf()
    settings = TemporarySettings(conf)

    def run():
        with settings.use({"adaptive": "false"}):
            conf.is_gone = True
            raise ValueError("lost")

    with pytest.raises(ValueError, match="lost"):
        run()
    conf.is_gone = False
    with settings.use({"partitions": "1"}):
        assert conf.now["partitions"] == "1"
