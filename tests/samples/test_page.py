"""The Python of the page on samples, run as it stands."""

from tests.test_docs import python_of


def test_the_page_on_samples(tmp_path):
    code = python_of("docs/samples.md")
    assert code.count("assert") == 5
    exec(compile(code, "docs/samples.md", "exec"), {"folder": tmp_path})
