"""The leaves of a tree have the user's own text, and know its place."""

import pytest
from sqlglot import exp

from platform_plugin.language.query.query import analyse_query
from platform_plugin.language.text.places import InvalidSyntax
from tests.language.queries import QUERIES


def leaves(tree):
    return (node for node in tree.walk() if "at" in node.meta and isinstance(node, exp.Literal | exp.Anonymous | exp.Identifier | exp.Var))


@pytest.mark.parametrize("text", QUERIES)
def test_a_leaf_has_the_text_at_its_place(text):
    for leaf in leaves(analyse_query(text).tree):
        start, end = leaf.meta["at"]
        written = text[start:end].strip("`").replace("``", "`")
        # PIVOT makes names of strings.
        assert str(leaf.this).lower() in (written.lower(), written.lower().strip("'"))


@pytest.mark.parametrize("text", QUERIES)
def test_no_placeholder_is_left(text):
    assert not [node for node in analyse_query(text).tree.walk() if str(node.args.get("this")).startswith("__")]


@pytest.mark.parametrize("text", ["SELECT * FROM VALUES (1), (2), (3) AS t (a)", "VALUES (1, 'a'), (2, 'b'), (3, NULL)"])
def test_a_plan_has_all_rows_of_a_list(text):
    query = analyse_query(text)
    assert query.is_shortened
    assert len(query.whole_tree().find(exp.Values).expressions) == 3


def test_a_parameter_is_its_own_text():
    tree = analyse_query("SELECT a FROM t WHERE b = :low AND c > f(:low)").tree
    assert [str(node.meta["parameter"].name) for node in tree.find_all(exp.Var) if "parameter" in node.meta] == ["low", "low"]


@pytest.mark.parametrize(
    ("literal", "kind"),
    [("1", "int32"), ("3000000000", "int64"), ("5L", "int64"), ("1e3", "float64"), ("'x'", "varchar"), ("DATE '2026-01-01'", "date")],
)
def test_a_literal_knows_its_type(literal, kind):
    (node,) = analyse_query(f"SELECT {literal} FROM t").tree.expressions
    assert (str(node.this), node.meta["type"].name) == (literal, kind)


def test_a_string_is_no_name():
    with pytest.raises(InvalidSyntax, match="a string where a name belongs"):
        analyse_query("SELECT a AS 'x' FROM t")
