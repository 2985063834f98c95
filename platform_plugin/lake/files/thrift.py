"""Reading and writing Thrift's compact protocol, in which Parquet stores its footers.

A struct is a dict of field numbers to pairs of type and value, a list the type of its elements and their values. Nothing here depends on
Parquet.
"""

from __future__ import annotations

from typing import Any

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
_WHOLE = (I16, I32, I64)

Struct = dict[int, tuple[int, Any]]


def read_struct(data: bytes | memoryview, place: int = 0) -> tuple[Struct, int]:
    """The struct that begins at an offset, and the offset after it.

    >>> read_struct(write_struct({1: (I32, -3), 20: (BINARY, b"x"), 21: (LIST, (I64, [1, 300]))}))[0]
    {1: (5, -3), 20: (8, b'x'), 21: (9, (6, [1, 300]))}
    """
    found: Struct = {}
    number = 0
    while True:
        head = data[place]
        place += 1
        kind = head & 0x0F
        if not kind:
            return found, place
        if head >> 4:
            number += head >> 4
        else:
            number, place = _read_whole(data, place)
        if kind in (TRUE, FALSE):
            found[number] = kind, None
            continue
        value, place = _read(data, place, kind)
        found[number] = kind, value


def _read(data: bytes | memoryview, place: int, kind: int) -> tuple[Any, int]:
    if kind in _WHOLE:
        return _read_whole(data, place)
    if kind == BINARY:
        size, place = _read_varint(data, place)
        return bytes(data[place : place + size]), place + size
    if kind == STRUCT:
        return read_struct(data, place)
    if kind in (LIST, SET):
        head = data[place]
        size, place = (head >> 4, place + 1) if head >> 4 < 15 else _read_varint(data, place + 1)
        values = []
        for _ in range(size):
            value, place = _read(data, place, head & 0x0F)
            values.append(value)
        return (head & 0x0F, values), place
    if kind in (TRUE, FALSE, BYTE):
        return data[place], place + 1
    if kind == DOUBLE:
        return bytes(data[place : place + 8]), place + 8
    message = f"thrift type {kind}"
    raise ValueError(message)


def _read_varint(data: bytes | memoryview, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7


def _read_whole(data: bytes | memoryview, place: int) -> tuple[int, int]:
    value, place = _read_varint(data, place)
    return value >> 1 ^ -(value & 1), place


def write_struct(struct: Struct) -> bytes:
    """The bytes of a struct."""
    out = bytearray()
    _write(out, STRUCT, struct)
    return bytes(out)


def _write(out: bytearray, kind: int, value: Any) -> None:
    if kind in _WHOLE:
        _write_whole(out, value)
    elif kind == BINARY:
        _write_varint(out, len(value))
        out += value
    elif kind == STRUCT:
        last = 0
        for number in sorted(value):
            own, inner = value[number]
            if 0 < number - last < 16:
                out.append(number - last << 4 | own)
            else:
                out.append(own)
                _write_whole(out, number)
            last = number
            if own not in (TRUE, FALSE):
                _write(out, own, inner)
        out.append(0)
    elif kind in (LIST, SET):
        own, values = value
        if len(values) < 15:
            out.append(len(values) << 4 | own)
        else:
            out.append(0xF0 | own)
            _write_varint(out, len(values))
        for inner in values:
            _write(out, own, inner)
    elif kind == DOUBLE:
        out += value
    else:
        out.append(value)


def _write_varint(out: bytearray, value: int) -> None:
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _write_whole(out: bytearray, value: int) -> None:
    _write_varint(out, (value << 1 ^ value >> 63) & 0xFFFFFFFFFFFFFFFF)
