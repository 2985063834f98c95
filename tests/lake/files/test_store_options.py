"""What a process hands on of its access to an object store, and to whom."""

from __future__ import annotations

import json
import pickle

import pytest

from platform_plugin.lake.files.storage import Storage
from platform_plugin.lake.files.store_options import read_store_options

NAMES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_DEFAULT_REGION", "AWS_PROFILE")


@pytest.fixture
def nothing(monkeypatch, tmp_path):
    """A user without any keys."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    return tmp_path


def test_a_storage_that_is_sent_has_the_keys_of_the_environment(nothing, monkeypatch):
    values = ("key", "secret", "token", "http://127.0.0.1:1", "eu-north-1")
    for name, value in zip(NAMES, values, strict=False):
        monkeypatch.setenv(name, value)
    sent = pickle.dumps(Storage("s3://bucket/lake/"))
    for name in NAMES[:5]:
        monkeypatch.delenv(name)
    files = pickle.loads(sent).files
    assert (files.key, files.secret, files.token, files.endpoint_url) == values[:4]
    assert files.client_kwargs == {"region_name": "eu-north-1"}
    assert b"secret" in sent
    assert "secret" not in repr(pickle.loads(sent))
    # Who was sent keys hands on these, whatever it has itself.
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "other")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "other")
    assert pickle.loads(pickle.dumps(pickle.loads(sent))).files.secret == "secret"


def test_keys_of_a_profile_are_sent_and_no_key_is_no_option(nothing, monkeypatch):
    assert read_store_options("s3") == {}
    (nothing / "credentials").write_text("[other]\naws_access_key_id = k\naws_secret_access_key = s\n")
    (nothing / "config").write_text("[profile other]\nregion = us-west-2\nendpoint_url = http://127.0.0.1:2\n")
    monkeypatch.setenv("AWS_PROFILE", "other")
    expected = {"key": "k", "secret": "s", "endpoint_url": "http://127.0.0.1:2", "client_kwargs": {"region_name": "us-west-2"}}
    assert read_store_options("s3") == expected


def test_the_file_that_google_names_is_sent_with_what_is_in_it(tmp_path):
    place = tmp_path / "keys.json"
    place.write_text(json.dumps({"type": "service_account"}))
    environment = {"GOOGLE_APPLICATION_CREDENTIALS": str(place), "STORAGE_EMULATOR_HOST": "http://127.0.0.1:3"}
    assert read_store_options("gs", environment) == {"token": {"type": "service_account"}, "endpoint_url": "http://127.0.0.1:3"}
    place.unlink()
    assert read_store_options("gs", {"GOOGLE_APPLICATION_CREDENTIALS": str(place)}) == {}


def test_a_folder_is_sent_without_anything():
    assert Storage("/srv/lake").__getstate__() == {"root": "/srv/lake/", "outside": (), "options": {}}
