"""Nodes: who uses which, what goes with its last user, and what older snapshots still know."""

from __future__ import annotations

from uuid import uuid4

import pytest

from platform_plugin.errors import CommitConflict
from platform_plugin.lake.catalogue.forgotten import Folding
from platform_plugin.lake.cursors.cursor import read_owners
from platform_plugin.lake.cursors.move import AddCursor
from platform_plugin.lake.lake import Lake
from platform_plugin.state.node import (
    NODE_TABLES,
    AddNodes,
    Node,
    ReleaseNodes,
    find_alike,
    fold_nodes,
    has_nodes,
    read_nodes,
    read_parts,
    read_users,
)


@pytest.fixture
def prepared(lake_url):
    with Lake.create(lake_url) as lake:
        lake.prepare_tables(NODE_TABLES)
        with lake.reading() as connection:
            assert has_nodes(connection)
        yield lake


def commit(lake, *operations):
    with lake.commit("nodes") as made:
        for operation in operations:
            made.also(operation)
    return made.made.id


def test_a_node_goes_with_its_last_user(prepared):
    state, result = Node(uuid=uuid4(), kind="state", likeness="x", options={"created": 3}), Node(uuid=uuid4(), kind="result")
    first, second = uuid4(), uuid4()
    commit(
        prepared,
        AddNodes(user=first, parts={"state_1": state.uuid, "result": result.uuid}, nodes=[state, result]),
        AddNodes(user=second, parts={"state_1": state.uuid}),
        AddCursor(owner=state.uuid, input="posts", position=4),
    )
    with prepared.reading() as connection:
        assert find_alike(connection, "x") == [state]
        assert read_nodes(connection, [state.uuid, result.uuid]) == {state.uuid: state, result.uuid: result}
        assert set(read_users(connection)[state.uuid]) == {first, second}
        assert read_parts(connection, [first]) == {str(first): {"state_1": state.uuid, "result": result.uuid}}
    with pytest.raises(CommitConflict, match="share what is dropped"):
        commit(prepared, ReleaseNodes(users=[first], going=[state.uuid, result.uuid]))
    released = commit(prepared, ReleaseNodes(users=[first], going=[result.uuid]))
    with pytest.raises(CommitConflict, match="share what is dropped"):
        commit(prepared, ReleaseNodes(users=[second], going=[]))
    with prepared.reading() as connection:
        assert read_users(connection) == {state.uuid: [second]}
        assert read_owners(connection, "posts") == {str(state.uuid): 4}
    commit(prepared, ReleaseNodes(users=[second], going=[state.uuid]))
    with prepared.reading() as connection:
        assert find_alike(connection, "x") == []
        assert read_owners(connection, "posts") == {}
        assert read_parts(connection).keys() == {str(first), str(second)}, "reads at older snapshots need them"
    with prepared.writing() as connection:
        assert fold_nodes(Folding.at(connection, released)) == 2
        assert read_nodes(connection, [state.uuid, result.uuid]) == {state.uuid: state}
        assert fold_nodes(Folding.at(connection, released + 1)) == 1
        assert read_nodes(connection, [state.uuid, result.uuid]) == {}


def test_a_node_that_was_dropped_meanwhile_is_not_shared(prepared):
    node = Node(uuid=uuid4(), kind="state", likeness="x")
    user = uuid4()
    commit(prepared, AddNodes(user=user, parts={"state_1": node.uuid}, nodes=[node]))
    commit(prepared, ReleaseNodes(users=[user], going=[node.uuid]))
    with pytest.raises(CommitConflict, match="dropped"):
        commit(prepared, AddNodes(user=uuid4(), parts={"state_1": node.uuid}))
