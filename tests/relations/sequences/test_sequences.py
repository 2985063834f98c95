"""A kind of relation is a folder and a line: this one is registered by the tests, and everything that reads the list of kinds knows it."""

import dagster as dg
import pytest
import sqlalchemy as sa

from platform_plugin.errors import CatalogueError, InvalidStatement, InvalidValue
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.language.script import parse_statement
from platform_plugin.language.statements.registry import statement_text
from platform_plugin.orchestration.assets.assets import build_definitions
from platform_plugin.orchestration.assets.inventory import read_lake
from platform_plugin.orchestration.assets.missing import find_missing
from platform_plugin.orchestration.assets.tracing import Tracing
from platform_plugin.orchestration.components.apply import run_model
from platform_plugin.orchestration.components.model import parse_model
from platform_plugin.platform import Platform
from platform_plugin.relations import kinds
from platform_plugin.select.overview import read_overview
from tests.relations.sequences.kind import SEQUENCE, SequenceKind
from tests.relations.sequences.statements import STATEMENTS, WORD


@pytest.fixture(autouse=True, params=[SEQUENCE, SequenceKind()], ids=["declarable", "without Dagster"])
def registered(request):
    kinds.register(request.param, word=WORD, statements=STATEMENTS)
    yield
    kinds.unregister(request.param)


declarable = pytest.mark.parametrize("registered", [SEQUENCE], indirect=True)
without_dagster = pytest.mark.parametrize("registered", [SequenceKind()], indirect=True)


@pytest.fixture
def platform(tmp_path):
    with Platform.create(tmp_path / "lake") as made:
        made.execute("CREATE TABLE users (id INT)")
        made.execute("CREATE SEQUENCE ids START WITH 7")
        yield made


def test_its_statements_give_each_number_once(platform):
    assert [list(platform.execute("NEXT VALUE FOR ids")) for _ in range(3)] == [[(7,)], [(8,)], [(9,)]]
    assert list(platform.execute("SELECT next_value FROM ids")) == [(10,)]
    with pytest.raises(InvalidValue, match=r'"main\.users" is not a sequence'):
        platform.execute("NEXT VALUE FOR users")


def test_show_and_describe_know_it(platform):
    assert [row[1:3] for row in platform.execute("SHOW SEQUENCES")] == [("ids", "sequence")]
    assert {row[1:3] for row in platform.execute("SHOW TABLES")} == {("ids", "sequence"), ("users", "table")}
    (text,) = next(iter(platform.execute("SHOW CREATE SEQUENCE ids")))
    assert text == "CREATE SEQUENCE main.ids START WITH 7" == statement_text(parse_statement(text))
    described = {row[0]: row[1] for row in platform.execute("DESCRIBE EXTENDED ids")}
    assert described == {
        "next_value": "BIGINT",
        "# kind": "sequence",
        "# rows": "0",
        "# files": "0",
        "# bytes": "0",
        "# start": "7",
        "# next value": "7",
    }


def test_statements_about_other_kinds_are_refused_in_its_words(platform):
    with pytest.raises(InvalidValue, match=r'"main\.ids" is a sequence') as caught:
        platform.execute("INSERT INTO ids VALUES (1)")
    assert caught.value.hint == "write NEXT VALUE FOR main.ids"
    with pytest.raises(InvalidValue, match=r'"main\.ids" is a sequence'):
        platform.execute("DELETE FROM ids")
    with pytest.raises(InvalidValue, match=r'"main\.ids" is a sequence, not a table') as caught:
        platform.execute("DROP TABLE ids")
    assert caught.value.hint == "write DROP SEQUENCE"


def test_drop_ends_it_and_what_it_keeps(platform):
    platform.execute("DROP SEQUENCE ids")
    assert list(platform.execute("SHOW SEQUENCES")) == []
    with platform.lake.reading() as connection:
        assert connection.execute(sa.text("SELECT count(*) FROM platform_sequence")).scalar() == 0
    platform.execute("CREATE SCHEMA apart")
    platform.execute("CREATE SEQUENCE apart.ids")
    platform.execute("DROP SCHEMA apart CASCADE")
    assert list(platform.execute("SHOW SEQUENCES")) == []


def test_reflection_lists_it_with_the_sequences(platform):
    inspector = sa.inspect(sa.create_engine(str(platform.lake.location)))
    assert inspector.get_sequence_names() == ["ids"]
    assert inspector.get_table_names() == ["users"]


def test_the_overview_lists_it(platform):
    found = {relation.name: relation.kind for relation in read_overview(str(platform.lake.location)).relations}
    assert found == {"users": "table", "ids": "sequence"}


@without_dagster
def test_a_kind_that_dagster_asks_nothing_of_is_no_asset_and_its_columns_are_known(platform):
    with pytest.raises(InvalidStatement, match="not a definition"):
        parse_model("CREATE SEQUENCE orders", file="orders.sql")
    inventory = read_lake(platform.lake)
    assert set(inventory.relations) == {"main.users"}
    found = inventory.find(Name.of("ids"))
    assert ([field.name for field in found.fields], found.intake) == (["next_value"], None)
    model = parse_model("CREATE TABLE numbers AS SELECT next_value FROM ids", file="numbers.sql")
    tracing = Tracing([model], inventory)
    assert list(find_missing([model], inventory, tracing, lambda _: False)) == []
    assert [str(column.type) for column in tracing.of(model.name).columns] == ["BIGINT"]


@declarable
def test_a_file_makes_it_an_asset(platform):
    model = parse_model("-- Numbers of orders.\nCREATE SEQUENCE orders START WITH 100", file="orders.sql")
    assert (model.kind, model.description) == ("sequence", "Numbers of orders.")
    assert run_model(platform, model).action == "created"
    platform.execute("NEXT VALUE FOR orders")
    assert run_model(platform, model).action == "unchanged"
    assert list(platform.execute("NEXT VALUE FOR orders")) == [(101,)]
    built = build_definitions([model], read_lake(platform.lake)).assets
    specs = {spec.key.path[-1]: spec for each in built for spec in (each.specs if isinstance(each, dg.AssetsDefinition) else [each])}
    assert {name: spec.group_name for name, spec in specs.items()} == {"orders": "sequences", "ids": "sequences", "users": "tables"}
    assert specs["orders"].kinds == {"sequence", "spark"}


@declarable
def test_without_its_line_nobody_knows_it(platform):
    kinds.unregister(SEQUENCE)
    with pytest.raises(InvalidStatement):
        platform.execute("CREATE SEQUENCE others")
    with pytest.raises(CatalogueError, match=r'"main\.ids" is a sequence, which is not known here'):
        platform.execute("DESCRIBE ids")
    assert [row[1:3] for row in platform.execute("SHOW TABLES")] == [("ids", "sequence"), ("users", "table")]


@declarable
def test_a_name_that_is_taken_is_refused():
    class Other(SequenceKind):
        name = "table"

    with pytest.raises(InvalidValue, match='there is a kind "table"'):
        kinds.register(Other(), word=WORD)
