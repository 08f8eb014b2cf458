"""Runs the code of a pgvector library for macOS on a Linux of the same processor, as far as that goes without PostgreSQL.

usage: python tests/postgres/macos_library.py LIBRARY        prints JSON: what it was built for, and distances of two vectors

The file is mapped, moved and bound as macOS does it. What it takes from macOS comes from glibc, and what it takes from the
server are stand-ins that return an empty place in memory. Distances need no more.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import lief

VECTORS = ([0.5 * at for at in range(100)], [7.0 - at for at in range(100)])
DISTANCES = ("l2_distance", "cosine_distance", "negative_inner_product", "l1_distance")
KINDS = {  # of vectors: how `struct` calls their numbers, and what their functions are called
    "vector": ("f", lambda name: f"vector_{name}" if name == "negative_inner_product" else name),
    "halfvec": ("e", lambda name: f"halfvec_{name}"),
}
EMPTY = ctypes.create_string_buffer(1 << 16)
SAME_AS = {"__error": "__errno_location"}


class Library:
    """A library in memory.

    Args:
        path: of a file for the processor that this program runs on.
    """

    def __init__(self, path: Path) -> None:
        self._parsed = lief.MachO.parse(str(path))
        assert self._parsed is not None
        self._binary = self._parsed.at(0)
        self._kept: list[object] = []
        self._system = (ctypes.CDLL("libc.so.6"), ctypes.CDLL("libm.so.6"))
        last = self._binary.segments[-1]
        everything = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC  # Windows has none of them
        self._memory = mmap.mmap(-1, last.virtual_address + last.virtual_size, prot=everything)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        data = path.read_bytes()
        for segment in self._binary.segments:
            self._write(segment.virtual_address, data[segment.file_offset :][: segment.file_size])
        for place in self._binary.relocations:
            [inside] = struct.unpack_from("<Q", self._memory, place.address)
            self._write(place.address, struct.pack("<Q", self._base + inside))
        known: dict[str, int] = {}
        for place in self._binary.bindings:
            name = str(place.symbol.name).removeprefix("_")
            if name not in known:
                known[name] = self._found(name, of_macos=place.library_ordinal == 1)
            self._write(place.address, struct.pack("<Q", known[name]))
        self._functions = {one.name: one.address for one in self._binary.exported_functions}

    def call(self, name: str, *arguments: int) -> int:
        """Call a function with integers or addresses; return what it returns, as an integer."""
        kinds = [ctypes.c_uint64] * len(arguments)
        return int(ctypes.CFUNCTYPE(ctypes.c_uint64, *kinds)(self._base + self._functions[f"_{name}"])(*arguments))

    def distance(self, name: str, *values: bytes) -> float:
        """Call a function of SQL that takes values of variable length and returns a number."""
        given = [ctypes.create_string_buffer(struct.pack("<i", 4 + len(one) << 2) + one) for one in values]
        arguments = b"".join(
            struct.pack("<Qq", ctypes.addressof(one), 0) for one in given
        )  # a value, and if it is NULL
        frame = ctypes.create_string_buffer(struct.pack("<QQQIxxh", 0, 0, 0, 0, len(values)) + arguments)
        [found] = struct.unpack("<d", struct.pack("<Q", self.call(name, ctypes.addressof(frame))))
        return float(found)

    def _write(self, at: int, data: bytes) -> None:
        self._memory[at : at + len(data)] = data

    def _found(self, name: str, *, of_macos: bool) -> int:
        for library in self._system if of_macos else ():
            if hasattr(library, SAME_AS.get(name, name)):
                return self._address(getattr(library, SAME_AS.get(name, name)))
        if name in ("InterruptPending", "MainLWLockArray", "process_shared_preload_libraries_in_progress"):
            return ctypes.addressof(EMPTY)
        same = name == "pg_detoast_datum"
        kind = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64)
        return self._address(kind((lambda value: value) if same else (lambda _: ctypes.addressof(EMPTY))))

    def _address(self, function: Callable[..., object]) -> int:
        self._kept.append(function)
        return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]


def packed(vector: list[float], code: str) -> bytes:
    """Return what a vector is made of, without its length in bytes."""
    return struct.pack(f"<hh{len(vector)}{code}", len(vector), 0, *vector)


def main(path: str) -> None:
    """Print what the library says of itself, and the distances."""
    library = Library(Path(path))
    magic = ctypes.string_at(library.call("Pg_magic_func"), 24)
    library.call("_PG_init")
    found = {
        kind: [library.distance(called(name), *(packed(one, code) for one in VECTORS)) for name in DISTANCES]
        for kind, (code, called) in KINDS.items()
    }
    sys.stdout.write(json.dumps({"built for": struct.unpack("<6i", magic)[1], **found}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
