"""Every `.test` file of this folder, on a lake of its own and the shared Spark server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from platform_plugin.errors import PlatformError
from platform_plugin.platform import Platform
from tests.sql.script import Step, expected_rows, read_steps, shown

SCRIPTS = sorted(Path(__file__).parent.glob("*.test"))


@pytest.mark.spark
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script(script: Path, tmp_path: Path, spark_server: Any, duck: Any) -> None:
    url = f"platform+local://{tmp_path}/lake"
    with Platform.create(url) as platform:
        for step in read_steps(script):
            _run(platform, step, script, duck, url)


def _run(platform: Platform, step: Step, script: Path, duck: Any, url: str) -> None:
    where = f"{script.name}:{step.line}"
    kind, _, rest = step.head.partition(" ")
    sql = step.sql.replace("{folder}", str(platform.lake.location.folder))
    if kind == "statement" and rest == "ok":
        platform.execute(sql).close()
    elif kind == "statement":
        before = platform.lake.snapshot().id
        with pytest.raises(PlatformError) as caught:
            platform.execute(sql).arrow()
        message = rest.removeprefix("error").strip()
        assert re.search(message, str(caught.value)), f"{where}: {caught.value}"
        assert platform.lake.snapshot().id == before, f"{where}: a failed statement changed the lake"
    elif kind == "query":
        words = rest.split()
        ordered, wanted = "ordered" in words, expected_rows(step)
        found = [shown(row) for row in platform.execute(sql)]
        assert (found if ordered else sorted(found)) == (wanted if ordered else sorted(wanted)), where
        if "duck" in words:
            other = [shown(row) for row in duck(url).execute(step.duck or sql).fetchall()]
            assert sorted(other) == sorted(wanted), f"{where}: the independent reader disagrees"
    else:
        pytest.fail(f"{where}: {step.head!r} is no kind of block")
