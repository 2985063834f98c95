"""What must never be in the repository: one machine's paths, package hosts, secrets."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# Each pattern is split, so that this file does not match itself.
PATTERNS = {
    "a path of one machine": re.compile("/" + r"(?:home|Users|root)/\w|" + "/" + r"work/|[A-Z]:\\Users\\|" + "/tmp/" + r"w\b"),
    "a page beside the repository": re.compile(r"\.\./(?:shared|\.library)"),
    "a package host": re.compile(
        r"(?i)\b(?:files\.python" + r"hosted|pypi\.(?:org|python)|registry\.npm" + r"js|deb\.de" + r"bian|repo1?\.maven)"
    ),
    "a private key": re.compile("-----BEGIN " + "[A-Z ]*PRIVATE KEY"),
    "a cloud key": re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    "a token": re.compile(r"\b(?:ghp|gho|ghs|glpat|xox[bap]|pypi-AgE)[-_]?[A-Za-z0-9_-]{20,}"),
}
LARGEST_BYTES = 1_000_000


def tracked_files():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def find_offences(path):
    text = path.read_text(errors="replace")
    for what, pattern in PATTERNS.items():
        for found in pattern.finditer(text):
            yield f"{path.name}:{text.count(chr(10), 0, found.start()) + 1} holds {what}: {found[0]}"


def test_no_tracked_file_holds_what_belongs_elsewhere():
    files = tracked_files()
    assert ROOT / "pyproject.toml" in files
    assert [offence for path in files for offence in find_offences(path)] == []


def test_no_tracked_file_is_large():
    assert [path.name for path in tracked_files() if path.stat().st_size > LARGEST_BYTES] == []


@pytest.mark.parametrize(
    "text",
    [
        "/home" + "/someone/lake",
        "/wo" + "rk/main",
        "../sha" + "red/design.md",
        "https://files.python" + "hosted.org/packages/x.whl",
        "index = https://py" + "pi.org/simple",
        "-----BEGIN RSA " + "PRIVATE KEY-----",
        "AKIA" + "ABCDEFGHIJKLMNOP",
        "ghp_" + "a" * 36,
    ],
)
def test_an_offence_is_found(tmp_path, text):
    file = tmp_path / "file.txt"
    file.write_text(f"first line\n{text}\n")
    assert [offence for offence in find_offences(file) if ":2 " in offence]
