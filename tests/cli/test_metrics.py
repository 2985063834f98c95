"""`platform metrics`: what it prints, where it writes it, and that it starts nothing."""

from __future__ import annotations

import json
import threading

import pytest

from platform_plugin.cli.metrics import write_whole
from platform_plugin.errors import StorageError


def test_metrics_are_printed_without_a_server(platform, lake):
    said = platform("metrics", check=0).stdout
    assert said.endswith("# EOF\n")
    assert 'platform_relation_rows{schema="main",name="users",kind="table"} 4.0\n' in said
    assert "platform_server_up 0.0\n" in said
    told = json.loads(platform("metrics", "--json", check=0).stdout)["metrics"]
    assert {"name": "platform_server_up", "labels": {}, "value": 0.0} in told


def test_metrics_are_written_to_a_file(platform, lake, tmp_path):
    file = tmp_path / "platform.prom"
    assert platform("metrics", "--output", str(file), check=0).stdout == ""
    assert file.read_text().endswith("# EOF\n")
    refused = platform("metrics", "-o", str(tmp_path / "nowhere" / "x"), check=1).stderr
    assert "can't be written" in refused


def test_a_reader_sees_the_old_or_the_new_text(tmp_path):
    path, over = tmp_path / "file", threading.Event()
    texts = ["a" * 100_000, "b" * 100_000]
    write_whole(path, texts[0])

    def write():
        for number in range(200):
            write_whole(path, texts[number % 2])
        over.set()

    thread = threading.Thread(target=write)
    thread.start()
    while not over.is_set():
        assert path.read_text() in texts
    thread.join()
    assert [each.name for each in tmp_path.iterdir()] == ["file"], "no draft is left"
    with pytest.raises(StorageError):
        write_whole(tmp_path / "nowhere" / "file", "")
