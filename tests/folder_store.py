"""An S3-compatible store in a folder, as a process of its own: it can be killed with what it has stored, and told to fail.

`python tests/folder_store.py PORT FOLDER` serves until it is killed. The file `FOLDER/fault` says how each n-th answer for an object
fails: `slow 3 0.5`, `503 2`, `half 2`; nothing, or no file, is no fault.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit
from uuid import uuid4
from xml.sax.saxutils import escape


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    root: Path
    counter = itertools.count(1)

    def _fault(self) -> str:
        """The fault of this answer, which has happened already if it is to be slow."""
        try:
            words = (self.root / "fault").read_text().split()
        except FileNotFoundError:
            return ""
        if not words or next(self.counter) % int(words[1]):
            return ""
        if words[0] == "slow":
            time.sleep(float(words[2]))
        return words[0]

    def _place(self) -> tuple[Path, str, dict[str, list[str]]]:
        split = urlsplit(self.path)
        bucket, _, key = unquote(split.path).lstrip("/").partition("/")
        return self.root / "objects" / bucket, key, parse_qs(split.query, keep_blank_values=True)

    def _file(self, bucket: Path, key: str) -> Path:
        return bucket / quote(key, safe="")

    def _answer(self, status: int, content: bytes = b"", *, half: bool = False, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2] if half else content)
        if half:
            self.wfile.flush()
            self.close_connection = True

    def _error(self, status: int, code: str) -> None:
        self._answer(status, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode(), Content_Type="application/xml")

    def do_GET(self) -> None:
        bucket, key, query = self._place()
        if not key:
            self._list(bucket, query)
            return
        fault, file = self._fault(), self._file(bucket, key)
        if fault == "503":
            self._error(503, "SlowDown")
            return
        if not file.exists():
            self._error(404, "NoSuchKey")
            return
        content, status, headers = file.read_bytes(), 200, {}
        wanted = self.headers.get("Range")
        if wanted is not None:
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            begin, end = (
                (int(first), min(int(last), len(content) - 1) if last else len(content) - 1)
                if first
                else (len(content) - int(last), len(content) - 1)
            )
            headers = {"Content_Range": f"bytes {begin}-{end}/{len(content)}"}
            content, status = content[begin : end + 1], 206
        self._answer(
            status,
            content,
            half=fault == "half" and len(content) > 1,
            ETag=f'"{file.stat().st_mtime_ns:x}"',
            Last_Modified=formatdate(file.stat().st_mtime, usegmt=True),
            **headers,
        )

    def do_HEAD(self) -> None:
        bucket, key, _ = self._place()
        file = self._file(bucket, key)
        if self._fault() == "503":
            self._answer(503)
        elif not key:
            self._answer(200 if bucket.exists() else 404)
        elif not file.exists():
            self._answer(404)
        else:
            found = file.stat()
            self._answer(
                200,
                ETag=f'"{found.st_mtime_ns:x}"',
                Last_Modified=formatdate(found.st_mtime, usegmt=True),
                Content_Length=str(found.st_size),
            )

    def do_PUT(self) -> None:
        bucket, key, _ = self._place()
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not key:
            bucket.mkdir(parents=True, exist_ok=True)
            self._answer(200)
            return
        fault = self._fault()
        if fault == "503":
            self._error(503, "SlowDown")
            return
        if "aws-chunked" in (self.headers.get("Content-Encoding") or "") or "STREAMING" in (self.headers.get("X-Amz-Content-Sha256") or ""):
            content = _unchunk(content)
        part = self.root / uuid4().hex
        part.write_bytes(content)
        part.replace(self._file(bucket, key))
        if fault == "half":
            # It is stored, and whoever stored it never hears of it.
            self.close_connection = True
            return
        self._answer(200, ETag=f'"{uuid4().hex}"')

    def do_DELETE(self) -> None:
        bucket, key, _ = self._place()
        if self._fault() == "503":
            self._error(503, "SlowDown")
            return
        self._file(bucket, key).unlink(missing_ok=True)
        self._answer(204)

    def _list(self, bucket: Path, query: dict[str, list[str]]) -> None:
        if not bucket.exists():
            self._error(404, "NoSuchBucket")
            return
        prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        contents, folders = [], set()
        for file in sorted(bucket.iterdir(), key=lambda file: unquote(file.name)):
            key = unquote(file.name)
            if not key.startswith(prefix):
                continue
            rest = key[len(prefix) :]
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.split(delimiter)[0] + delimiter)
                continue
            found = file.stat()
            when = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(found.st_mtime))
            contents.append(
                f"<Contents><Key>{escape(key)}</Key><Size>{found.st_size}</Size><LastModified>{when}</LastModified><ETag>&quot;{found.st_mtime_ns:x}&quot;</ETag></Contents>"
            )
        parts = "".join(contents) + "".join(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in sorted(folders))
        body = f'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><IsTruncated>false</IsTruncated><KeyCount>{len(contents)}</KeyCount>{parts}</ListBucketResult>'
        self._answer(200, body.encode(), Content_Type="application/xml")

    def log_message(self, *_: object) -> None:
        pass


def _unchunk(content: bytes) -> bytes:
    """The content of a body that came in signed chunks."""
    parts, rest = [], content
    while rest:
        head, _, rest = rest.partition(b"\r\n")
        size = int(head.split(b";")[0], 16)
        if not size:
            break
        parts.append(rest[:size])
        rest = rest[size + 2 :]
    return b"".join(parts)


class FolderStore:
    """The store as a process; `kill` and `start` keep what it has stored."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        (folder / "objects").mkdir(parents=True, exist_ok=True)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        import socket

        self.process = subprocess.Popen([sys.executable, __file__, str(self.port), str(self.folder)])
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise TimeoutError(self.endpoint)

    def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def fail(self, fault: str = "") -> None:
        """Let answers fail in a way, or no more."""
        part = self.folder / "fault.new"
        part.write_text(fault)
        part.replace(self.folder / "fault")

    def list_keys(self) -> set[str]:
        return {unquote(file.name) for bucket in (self.folder / "objects").iterdir() for file in bucket.iterdir()}


if __name__ == "__main__":
    Handler.root = Path(sys.argv[2])
    os.chdir(Handler.root)
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
