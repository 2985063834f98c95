"""The folder of caches: where the environment says, and nothing but copies in it."""

from pathlib import Path

from platform_plugin.state.cache_folder import list_copies, locate_cache


def test_the_folder_is_that_of_the_variable_or_of_the_users_caches():
    assert locate_cache({"PLATFORM_CACHE_DIR": "/x", "XDG_CACHE_HOME": "/y"}) == Path("/x")
    assert locate_cache({"XDG_CACHE_HOME": "/y"}) == Path("/y/platform")
    assert locate_cache({}) == Path.home() / ".cache" / "platform"


def test_copies_are_listed_whatever_else_is_there(tmp_path):
    assert list(list_copies(tmp_path / "missing")) == []
    (tmp_path / "lake").mkdir()
    (tmp_path / "lock").write_text("")
    (tmp_path / "lake" / "a.arrow").write_text("four")
    (tmp_path / "lake" / "b.arrow.1-2.part").write_text("half")
    (found,) = list_copies(tmp_path)
    assert (found.path.name, found.bytes) == ("a.arrow", 4)
    assert found.used_at > 0
