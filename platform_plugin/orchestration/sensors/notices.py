"""The sensor `failure_notices`: sends a notice of each failed run, with the platform's error and hint."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

import dagster as dg

from platform_plugin.errors import InvalidValue

_TIMEOUT_SECONDS = 10.0
SENSOR_NAME = "failure_notices"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A failed run: its job, its error, and the message of each step that failed."""

    run_id: str
    job: str
    message: str
    steps: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([f'run {self.run_id[:8]} of job "{self.job}" failed: {self.message}', *self.steps])


Tell = Callable[[Notice], None]


def build_notices(tell: Tell, *, running: bool = True) -> dg.SensorDefinition:
    """A sensor that calls a function for each run of the deployment that fails.

    >>> build_notices(print).name
    'failure_notices'
    """

    @dg.run_failure_sensor(
        name=SENSOR_NAME,
        description="Notifies of runs that failed, with the error and what to do next.",
        default_status=dg.DefaultSensorStatus.RUNNING if running else dg.DefaultSensorStatus.STOPPED,
    )
    def failure_notices(context: dg.RunFailureSensorContext) -> None:
        failures = [event.step_failure_data for event in context.get_step_failure_events()]
        said = [failure.user_failure_data.description if failure.user_failure_data else None for failure in failures]
        told = tuple(text for text in said if text)
        run = context.dagster_run
        tell(Notice(run_id=run.run_id, job=run.job_name, message=context.failure_event.message or "it ended early", steps=told))

    return failure_notices


def webhook(variable: str) -> Tell:
    """A function that posts `{"text": …}`, the form of chat programs, to the address in an environment variable.

    Anybody who knows the address can write there, so it is never stored in a file or shown in a message.
    """

    def tell(notice: Notice) -> None:
        url = os.environ.get(variable, "")
        if urlsplit(url).scheme not in ("http", "https"):
            raise InvalidValue(f'environment variable "{variable}" holds no address', hint="set it to the https:// address of the webhook")
        body = json.dumps({"text": str(notice)}).encode()
        request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"})  # noqa: S310  checked above
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS):  # noqa: S310  as above
                pass
        except (urllib.error.URLError, OSError) as error:
            # The address is in the error of the library, so what went wrong is told without it.
            raise InvalidValue(
                f'the webhook in "{variable}" could not be notified: {type(error).__name__}', hint="check the address"
            ) from None

    return tell
