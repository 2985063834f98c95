"""How far files are from the client and from the executors."""

import pytest

from platform_plugin.engine.distance import find_distances, is_here


@pytest.mark.parametrize(
    ("root", "endpoint", "distances"),
    [
        ("/srv/lake/data/", None, ("near", "near")),
        ("/srv/lake/data/", "sc://localhost:15002", ("near", "near")),
        ("/srv/lake/data/", "sc://here:15002/;token=x", ("near", "near")),
        ("/srv/lake/data/", "sc://cluster:15002", ("near", "unseen")),
        ("s3://bucket/lake/", None, ("far", "far")),
        ("s3://bucket/lake/", "sc://127.0.0.1:15002", ("far", "far")),
        ("s3://bucket/lake/", "sc://cluster", ("far", "near")),
    ],
)
def test_an_object_store_is_far_and_a_folder_is_not_seen_from_elsewhere(root, endpoint, distances):
    assert tuple(find_distances(root, endpoint, machine="here")) == distances


def test_an_address_of_six_is_read():
    assert is_here("sc://[::1]:15002")
    assert not is_here("sc://[2001:db8::1]:15002")
