"""An S3-compatible object store on loopback, for what must hold beyond this machine's own disk."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """The address of the store of this process; the environment names it to everything that reads S3."""
    from moto.server import ThreadedMotoServer

    before = {
        name: os.environ.get(name) for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION")
    }
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    os.environ.update(dict(zip(before, (endpoint, "test", "test", "us-east-1"), strict=True)))
    yield endpoint
    server.stop()
    for name, value in before.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


@pytest.fixture
def s3_bucket(s3_endpoint: str) -> Iterator[str]:
    """`s3://name` of an empty bucket that only this test sees."""
    import s3fs

    files = s3fs.S3FileSystem()
    name = f"bucket-{uuid4().hex[:12]}"
    files.mkdir(name)
    yield f"s3://{name}"
    files.rm(name, recursive=True)
    # Each test's instance would else be given to the next one, whose server may be another.
    s3fs.S3FileSystem.clear_instance_cache()
