import pytest

from platform_plugin.errors import PlatformError
from platform_plugin.orchestration.components.model import read_models


def test_yaml_beside_a_file_documents_it(project):
    project.write(users="CREATE TABLE users (Id INT)", users_yml="description: people\nowners: ['team:growth']\ncolumns: {id: the key}")
    (model,) = read_models(project.folder)
    assert model.description == "people"
    assert model.documentation.columns == {"id": "the key"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("columns: {idd: the key}", ['column "idd"', "did you mean Id?"]),
        ("owner: me", ['file "users.yml"', 'line 1: "owner" is not one of its keys', "hint: did you mean owners?"]),
        ("description: x\nchekcs: [a]", ['line 2: "chekcs" is not one of its keys', "hint: did you mean checks?"]),
        ("checks:\n- reconciles\n- schema_stabel", ['line 3: checks.1: "schema_stabel" is not', "hint: did you mean schema_stable?"]),
        (
            "colums: {}\nchekcs: [a]",
            ['"colums" is not one of its keys; did you mean columns?', "; did you mean checks?", "hint: correct each"],
        ),
        ("owner: me\nxyz: 1", ['"owner" is not one of its keys; did you mean owners?', "hint: its keys are description"]),
        ("rebuild: hourly", ['line 1: rebuild: "hourly" is neither on_change nor']),
        ("- a\n- b", ['file "users.yml"']),
        ("a: [", ['file "users.yml" is not YAML', "line 1"]),
        ("owners: 3", ['file "users.yml"', "owners"]),
    ],
)
def test_yaml_that_says_something_else_is_refused(project, text, said):
    project.write(users="CREATE TABLE users (Id INT)", users_yml=text)
    with pytest.raises(PlatformError) as caught:
        read_models(project.folder)
    assert [part for part in said if part not in str(caught.value)] == []


def test_an_empty_yaml_file_says_nothing(project):
    project.write(users="CREATE TABLE users (id INT)", users_yml="")
    (model,) = read_models(project.folder)
    assert model.description is None
