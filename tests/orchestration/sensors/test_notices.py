"""Who is told of a failure is told the error and its hint, and no address is ever shown."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import dagster as dg
import pytest

from platform_plugin.errors import InvalidValue
from platform_plugin.orchestration.runs.failure import raise_failures
from platform_plugin.orchestration.sensors.notices import Notice, build_notices, webhook


@dg.op
def failing():
    with raise_failures():
        raise InvalidValue("this is odd", hint="look there")


@dg.job
def work():
    failing()


def test_a_failure_is_told_with_its_hint():
    told = []
    with dg.DagsterInstance.ephemeral() as instance:
        done = work.execute_in_process(instance=instance, raise_on_error=False)
        context = dg.build_run_status_sensor_context(
            sensor_name="failure_notices",
            dagster_instance=instance,
            dagster_run=done.dagster_run,
            dagster_event=done.get_run_failure_event(),
        ).for_run_failure()
        build_notices(told.append)(context)
    (notice,) = told
    assert notice.job == "work"
    assert "this is odd" in str(notice)
    assert "look there" in str(notice)


def test_a_webhook_gets_the_text(monkeypatch):
    got = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.handle_request, daemon=True).start()
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("HOOK", f"http://127.0.0.1:{server.server_port}/secret")
    webhook("HOOK")(Notice(run_id="123456789", job="maintain_views", message="no room"))
    assert got == [{"text": 'run 12345678 of job "maintain_views" failed: no room'}]
    server.server_close()


@pytest.mark.parametrize("url", ["", "file:///etc/passwd", "http://127.0.0.1:9/secret"])
def test_a_webhook_that_can_not_be_reached_is_told_without_its_address(monkeypatch, url):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("HOOK", url)
    with pytest.raises(InvalidValue) as caught:
        webhook("HOOK")(Notice(run_id="1", job="j", message="m"))
    assert "HOOK" in str(caught.value)
    assert "secret" not in str(caught.value)
