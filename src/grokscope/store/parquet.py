"""How large a Parquet file becomes in memory, told by its headers before anything is decoded.

A file of a few bytes can hold billions of values (runs of equal ones, or zeros that compress well).
A curve from somebody else's store must not be able to fill the memory, so footer and page headers
are read first (Thrift's compact protocol; https://parquet.apache.org/docs/file-format/metadata/).
"""

from __future__ import annotations

from typing import Any

MOST_VALUES = 100_000_000
MOST_BYTES = 2**30

STOP, TRUE, FALSE, BYTE, I16, I32, I64 = range(7)
DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(7, 13)


def check_size(content: bytes) -> None:
    """Raise a ValueError for what is no Parquet file, or one that holds too much."""
    try:
        values, size = measure_size(content)
    except (IndexError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError("its headers are damaged") from error
    if values > MOST_VALUES or size > MOST_BYTES:
        raise ValueError(f"{values:,} values in {size:,} bytes are too many for a curve")


def measure_size(content: bytes) -> tuple[int, int]:
    """Values and uncompressed bytes, the larger of what the footer and the pages say."""
    if len(content) < 12 or content[-4:] != b"PAR1":
        raise ValueError("it is no Parquet file")
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    if start < 4:
        raise ValueError("its footer is damaged")
    footer = Reader(content, start).struct()
    values = size = 0
    for group in footer[4]:
        for column in group[1]:
            facts = column[3]
            first = min(facts[9], facts.get(11, facts[9]))
            paged, unpacked = _measure_pages(content, first, facts[7])
            values += max(facts[5], paged, group[3])
            size += max(facts[6], unpacked)
    return max(values, footer[3]), size


def _measure_pages(content: bytes, position: int, length: int) -> tuple[int, int]:
    values = size = 0
    end = position + length
    if not 4 <= position <= end <= len(content):
        raise ValueError("its pages lie outside of it")
    while position < end:
        reader = Reader(content, position)
        page = reader.struct()
        values += sum(page[kind][1] for kind in (5, 7, 8) if kind in page)
        size += page[2]
        if page[2] < 0 or page[3] < 0:
            raise ValueError("its pages are damaged")
        position = reader.position + page[3]
    return values, size


class Reader:
    """Thrift's compact protocol: a struct as a dictionary by field number."""

    def __init__(self, content: bytes, position: int) -> None:
        self.content, self.position = content, position

    def struct(self) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while True:
            head = self.content[self.position]
            self.position += 1
            if head == STOP:
                return fields
            number = number + (head >> 4) if head >> 4 else self._signed()
            kind = head & 15
            if kind in (I16, I32, I64):  # as most are
                found = self._unsigned()
                fields[number] = found >> 1 ^ -(found & 1)
            else:
                fields[number] = kind == TRUE if kind in (TRUE, FALSE) else self._value(kind)

    def _value(self, kind: int) -> Any:
        if kind in (TRUE, FALSE, BYTE):
            return self._byte()
        if kind == STRUCT:
            return self.struct()
        if kind in (LIST, SET):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._unsigned()
            return [self._value(head & 15) for _ in range(count)]
        if kind == MAP:
            raise ValueError("its headers are damaged")  # Parquet's have none
        if kind in (DOUBLE, BINARY):
            length = 8 if kind == DOUBLE else self._unsigned()
            self.position += length
            return None  # nobody asks for it
        return self._signed()

    def _byte(self) -> int:
        self.position += 1
        return self.content[self.position - 1]

    def _unsigned(self) -> int:
        result = shift = 0
        if (first := self.content[self.position]) < 128:  # as most are
            self.position += 1
            return first
        while (byte := self._byte()) & 128:
            result |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise ValueError("its headers are damaged")
        return result | byte << shift

    def _signed(self) -> int:
        number = self._unsigned()
        return number >> 1 ^ -(number & 1)
