"""The list of migrations: numbered without a gap, each with a function that is there."""

from importlib import import_module

from platform_plugin.lake.migrations.migration import MIGRATIONS, NEWEST


def test_migrations_are_numbered_from_one_on():
    assert [step.number for step in MIGRATIONS] == list(range(1, NEWEST + 1))


def test_each_names_a_function_and_says_what_it_does():
    for step in MIGRATIONS:
        module, _, name = step.run.partition(":")
        assert callable(getattr(import_module(f"platform_plugin.{module}"), name))
        assert step.subject
