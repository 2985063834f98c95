"""Bytes in DuckDB's text form, in which catalogues store them as defaults, bounds and inlined values."""

from __future__ import annotations


def parse_blob(text: str) -> bytes:
    r"""The bytes of a text in DuckDB's form, in which printable bytes stand as they are and others as \xAA.

    >>> parse_blob("a\\x00b")
    b'a\x00b'
    """
    out = bytearray()
    index = 0
    while index < len(text):
        if text[index] == "\\" and text[index + 1 : index + 2] == "x":
            out.append(int(text[index + 2 : index + 4], 16))
            index += 4
        else:
            out += text[index].encode()
            index += 1
    return bytes(out)


def blob_text(value: bytes) -> str:
    r"""The text of bytes in DuckDB's form, from which every reader gets the same bytes.

    >>> blob_text(b"a\x00")
    '\\x61\\x00'
    """
    return "".join(f"\\x{byte:02X}" for byte in value)
