"""The GPU architectures that a library holds machine code for, read out of its file: no GPU, no CUDA tools.

Standard library only: the tests feed this file to the Python inside an image.

nvcc puts its output into the section `.nv_fatbin`, as a row of containers, each with a row of entries. NVIDIA
does not publish the layout; the offsets are right where what is found equals what torch says of itself,
which is tested. Every step checks the layout, so that another one is an error and not an empty answer.
"""

from __future__ import annotations

import json
import mmap
import struct
import sys
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SECTION = b".nv_fatbin"
_CONTAINER = struct.Struct("<IHHQ")  # magic, version, bytes of this header, bytes of the entries
_ENTRY = struct.Struct("<HHIQ12xI")  # kind, version, bytes of this header and of the payload, …, architecture
_MAGIC = 0xBA55ED50
_KINDS = {1: "compute", 2: "sm"}  # PTX, which a driver compiles, and machine code


def architectures(path: str) -> dict[str, float]:
    """Return what a 64-bit ELF library holds GPU code for.

    Returns:
        By `sm_70` (machine code) or `compute_120` (PTX): the share of the containers that have it. One
        container is about one source file: what a library was made for is in nearly all of them.
    """
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:  # noqa: PTH123
        containers = [set(found) for found in _containers(content, *_section(content))]
    found = Counter(name for names in containers for name in names)
    return {name: count / len(containers) for name, count in sorted(found.items())}


def _section(content: mmap.mmap) -> tuple[int, int]:
    """Return where the section with the GPU code begins, and how long it is."""
    assert content[:5] == b"\x7fELF\x02", "no 64-bit ELF file"
    (table,) = struct.unpack_from("<Q", content, 0x28)
    size, count, names = struct.unpack_from("<HHH", content, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", content, table + size * index) for index in range(count)]
    strings = headers[names][4]
    for header in headers:
        name = content[strings + header[0] : strings + header[0] + len(SECTION) + 1]
        if name == SECTION + b"\0":
            return header[4], header[5]
    message = "there is no GPU code in it"
    raise LookupError(message)


def _containers(content: mmap.mmap, position: int, size: int) -> Iterator[Iterator[str]]:
    """Yield the architectures of each container of a part of the file."""
    end = position + size
    while position + _CONTAINER.size <= end:
        magic, _, header, length = _CONTAINER.unpack_from(content, position)
        if magic == 0:  # padding: a container begins at a multiple of 8 bytes
            position += 8
            continue
        assert magic == _MAGIC, f"no container at {position:#x}"
        yield _entries(content, position + header, length)
        position += header + length


def _entries(content: mmap.mmap, position: int, size: int) -> Iterator[str]:
    """Yield the architecture of each entry of a container."""
    end = position + size
    while position < end:
        kind, _, header, payload, number = _ENTRY.unpack_from(content, position)
        assert kind in _KINDS, f"entry of kind {kind} at {position:#x}"
        assert 50 <= number < 200, f"architecture {number} at {position:#x}"
        yield f"{_KINDS[kind]}_{number}"
        position += header + payload


if __name__ == "__main__":
    print(json.dumps({library: architectures(library) for library in sys.argv[1:]}))
