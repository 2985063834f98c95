import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_plugin.errors import InvalidStatement
from platform_plugin.language.text import tokens as tokens_module
from platform_plugin.language.text.tokens import DEEPEST, check_brackets, tokenize


def texts(source):
    tokens = tokenize(source)
    return [tokens.text(index) for index in range(len(tokens))]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a.b -- c\n+1", ["a", ".", "b", "+", "1"]),
        ("1 /* x /* y */ z */ 2", ["1", "2"]),
        ("select /*+ broadcast(t) */ x", ["select", "x"]),
        ("-- back-slash goes on \\\n still comment\n1", ["1"]),
        (r"'it''s' 'a\'b' r'\' ", ["'it''s'", r"'a\'b'", r"r'\'"]),
        ('`a``b` "c""d"', ["`a``b`", '"c""d"']),
        ("1.5e-3 .5 5L 1abc 2BD", ["1.5e-3", ".5", "5L", "1abc", "2BD"]),
        ("a<=>b::int||c=>d->e", ["a", "<=>", "b", "::", "int", "||", "c", "=>", "d", "->", "e"]),
        ("X'1F' x", ["X'1F'", "x"]),
        ("\ufeffa\r\nb", ["a", "b"]),
    ],
)
def test_follows_sparks_lexical_rules(source, expected):
    assert texts(source) == expected


@pytest.mark.parametrize(
    ("source", "column", "said"),
    [
        ("x 'abc", 3, "a string is never closed"),
        ("x `abc", 3, "a quoted name is never closed"),
        ("x /* /* */", 3, "a comment is never closed"),
        ("x */", 3, "a comment ends that never began"),
        ("x /*+ y", 3, "a hint is never closed"),
        ("a \x00", 3, "unexpected character U+0000"),
        ("a 🦆", 3, "unexpected character 🦆"),
    ],
)
def test_says_where_text_can_not_be_read(source, column, said):
    with pytest.raises(InvalidStatement) as caught:
        tokenize(source)
    assert (caught.value.message, caught.value.column) == (said, column)


def test_kept_positions_are_exact():
    source = "SELECT 'ü' /* 🦆 */, `x`"
    tokens = tokenize(source)
    assert [source[a:b] for a, b in zip(tokens.starts, tokens.ends, strict=True)] == ["SELECT", "'ü'", ",", "`x`"]


@pytest.mark.parametrize("opener", ["(", "[", "NOT ", "- ", "CASE ", "ARRAY<"])
def test_refuses_what_is_nested_too_deeply(opener):
    tokenize("SELECT " + opener * (DEEPEST - 1))
    with pytest.raises(InvalidStatement, match="levels deep"):
        tokenize("SELECT " + opener * (DEEPEST + 1))


@pytest.mark.parametrize(("source", "said"), [("(a]", "( is closed by ]"), ("a)", ") has no partner"), ("(a[1]", "( is never closed")])
def test_brackets_need_their_partners(source, said):
    tokens = tokenize(source)
    with pytest.raises(InvalidStatement) as caught:
        check_brackets(tokens, 0, len(tokens))
    assert caught.value.message == said


@given(st.text(alphabet="ab1'\"`\\-*/+(). \n;:?🦆", max_size=60))
def test_tokens_never_overlap_and_lose_only_space_and_comments(source):
    try:
        tokens = tokenize(source)
    except InvalidStatement:
        return
    position = 0
    for start, end in zip(tokens.starts, tokens.ends, strict=True):
        assert position <= start < end
        between = source[position:start].strip()
        assert not between or between.startswith(("--", "/*", "\ufeff"))
        position = end


@given(
    st.lists(st.sampled_from(["SELECT", "a", "'x y'", "/* c */", "/*+ hint(t) */", "-- l\n", "(", ")", "1.5", "`q r`", ","]), min_size=1),
    st.data(),
)
def test_a_part_of_a_text_has_the_same_tokens_whether_the_whole_was_read_before(words, data):
    source = " ".join(words)
    whole = tokens_module._tokenize(source, 0, None)
    bounds = sorted({0, len(source), *whole.starts, *whole.ends})
    start = data.draw(st.sampled_from(bounds))
    end = data.draw(st.sampled_from([bound for bound in bounds if bound >= start]))
    first = tokens_module._tokenize(source, start, end)
    tokenize(source)
    again = tokenize(source, start, end)
    assert (again.kinds, again.starts, again.ends) == (first.kinds, first.starts, first.ends)


def test_a_part_that_ends_within_a_token_is_read_by_itself():
    assert texts("alpha 'b c' d") == ["alpha", "'b c'", "d"]
    part = tokenize("alpha 'b c' d", 2, 5)
    assert [part.text(index) for index in range(len(part))] == ["pha"]
