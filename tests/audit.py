"""Looks into programs and libraries for what stops them on another machine: missing DLLs and missing instructions.

usage: python tests/audit.py PATH...        each a wheel, a folder, a program or a library

A Windows or macOS file may import what the system brings and what lies in the same wheel or folder. One for macOS must
run on macOS 13, and one for Apple silicon must be signed, if only by its linker. Code for x86-64 may use AVX, FMA and
AVX-512, and code for arm64 SVE, only in functions that are neither exported nor called by name: such a function is reached
through a pointer alone, which the program sets after a look at the processor. Exit code 1 when something is found.
"""

from __future__ import annotations

import bisect
import hashlib
import re
import struct
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import capstone
import lief

# What every Windows 10 has; Microsoft's C++ runtime is no part of it.
WINDOWS = (
    "advapi32 bcrypt bcryptprimitives cfgmgr32 comctl32 comdlg32 crypt32 cryptsp d3d12 dbghelp dnsapi dxcore dxgi gdi32 "
    "imm32 iphlpapi kernel32 kernelbase mpr msvcrt mswsock ncrypt netapi32 normaliz ntdll odbc32 ole32 oleaut32 pdh "
    "powrprof propsys psapi rpcrt4 secur32 setupapi shell32 shlwapi ucrtbase user32 userenv uxtheme version winhttp winmm "
    "winspool.drv wintrust wldap32 ws2_32 wsock32 wtsapi32"
)
MACOS = ("/usr/lib/", "/System/Library/")
OLDEST_MACOS = [13, 0, 0]
SIGNATURE, DIRECTORY = 0xFADE0CC0, 0xFADE0C02  # what a signature and its list of hashes begin with (XNU's cs_blobs.h)
CODE = (b"MZ", b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
VEX, EVEX = (0xC4, 0xC5), 0x62  # in 64-bit code these first bytes mean nothing else (Intel SDM vol. 2, 2.3 and 2.7)
PREFIXES = (0x64, 0x65, 0x67)
POINTER = re.compile(r"\[rip ([+-] 0x[0-9a-f]+)\]")
SVE = 0b0010  # bits 25 to 28 of an instruction (Arm ARM, C4.1)


def main(paths: list[str]) -> int:
    """Print what is found; return the exit code."""
    found = 0
    for path in map(Path, paths):
        with tempfile.TemporaryDirectory() as folder:
            if path.suffix == ".whl":
                zipfile.ZipFile(path).extractall(folder)
            place = Path(folder) if path.suffix == ".whl" else path
            for line in audited(place):
                sys.stdout.write(f"{path.name}: {line}\n")
                found += 1
    sys.stdout.write(f"{found} found\n" if found else "nothing found\n")
    return 1 if found else 0


def audited(place: Path) -> Iterator[str]:
    """Yield a sentence for each fault of the programs and libraries in a folder, or of one file."""
    files = [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.is_file())
    beside = {path.name.lower() for path in (place.parent if place.is_file() else place).rglob("*")}
    for path in files:
        with path.open("rb") as opened:
            if not opened.read(4).startswith(CODE):
                continue
        name = path.relative_to(place) if path != place else path.name
        for fault in faults(path, beside):
            yield f"{name} {fault}"


def faults(path: Path, beside: set[str]) -> Iterator[str]:
    """Yield what is wrong with one file; `beside` has the names of what lies in the same place, in lower case."""
    for dll in imported(path):
        if not brought_by_windows(dll) and dll not in beside:
            yield f"imports {dll}, which neither Windows nor the package brings"
    yield from unfit_for_macos(path, beside)
    for instructions, functions in unguarded(path).items():
        yield f"has {instructions} in {len(functions)} functions that any processor may enter"


def imported(path: Path) -> list[str]:
    """Return the DLLs that a Windows file names, in lower case; none for other files."""
    binary = lief.PE.parse(str(path)) if lief.is_pe(str(path)) else None
    return sorted({entry.name.lower() for entry in binary.imports}) if binary else []


def brought_by_windows(dll: str) -> bool:
    """Tell whether Windows has the DLL, or the program that loads the file is meant by the name."""
    return (
        dll.removesuffix(".dll") in WINDOWS.split()
        or dll.startswith(("api-ms-win-", "ext-ms-"))
        or dll.endswith(".exe")
    )


def unfit_for_macos(path: Path, beside: set[str]) -> Iterator[str]:
    """Yield what keeps a macOS file from being loaded; nothing for other files."""
    parsed = lief.MachO.parse(str(path)) if lief.is_macho(str(path)) else None  # owns the binaries in it
    for binary in parsed or ():
        for library in needed_on_macos(binary):
            if Path(library).name.lower() not in beside:
                yield f"imports {library}, which neither macOS nor the package brings"
        oldest = binary.build_version.minos if binary.build_version else binary.version_min.version
        if oldest > OLDEST_MACOS:
            yield f"needs macOS {'.'.join(map(str, oldest))}"
        arm = binary.header.cpu_type == lief.MachO.Header.CPU_TYPE.ARM64
        if arm and not is_signed(binary, path.read_bytes()[binary.fat_offset :]):
            yield "has no signature that fits, without which Apple silicon ends the program"


def needed_on_macos(binary: lief.MachO.Binary) -> list[str]:
    """Return the libraries that a macOS file names, without its own name and those of the system."""
    others = (one.name for one in binary.libraries if one.command != lief.MachO.LoadCommand.TYPE.ID_DYLIB)
    return [name for name in others if not name.startswith(MACOS)]


def is_signed(binary: lief.MachO.Binary, data: bytes) -> bool:
    """Tell whether a file has a signature whose hashes are those of its pages."""
    if not binary.has_code_signature:
        return False
    blob = data[binary.code_signature.data_offset :][: binary.code_signature.data_size]
    magic, _, count = struct.unpack_from(">3I", blob)
    places = [struct.unpack_from(">2I", blob, 12 + 8 * at)[1] for at in range(count)]
    lists = [at for at in places if struct.unpack_from(">I", blob, at)[0] == DIRECTORY]
    return magic == SIGNATURE and bool(lists) and all(hashes_fit(blob[at:], data) for at in lists)


def hashes_fit(directory: bytes, data: bytes) -> bool:
    """Tell whether a signature's list has the hash of each page of the file up to the signature, by SHA-1 or SHA-256."""
    first, _, _, pages, limit, size, kind, _, page_bits = struct.unpack_from(">5I4B", directory, 16)
    page = 1 << page_bits
    made = [
        hashlib.new("sha1" if kind == 1 else "sha256", data[at : min(at + page, limit)]).digest()[:size]
        for at in range(0, limit, page)
    ]
    return made == [directory[first + size * at :][:size] for at in range(pages)]


def unguarded(path: Path) -> dict[str, set[int]]:
    """Return the functions that may run on any processor, by the instructions in them that not every processor has."""
    binary = lief.parse(str(path))
    if binary is None:
        return {}
    open_to_all = {function.address for function in binary.exported_functions}
    starts = open_to_all | {function.address for function in binary.functions}
    if isinstance(binary, lief.PE.Binary):
        starts |= {function.address for function in binary.exception_functions}
    code = next(section for section in binary.sections if section.name in (".text", "__text"))
    scan = sve if binary.abstract.header.architecture == lief.Header.ARCHITECTURES.ARM64 else avx
    found = scan(bytes(code.content), code.virtual_address)
    starts |= {target for _, target in found.calls} | found.pointers
    order = sorted(starts)
    entered = open_to_all | {target for _, target in found.calls}
    entered |= {target for source, target in found.jumps if target in starts and function_of(order, source) != target}
    functions: dict[str, set[int]] = {}
    for address, kind in found.uses:
        function = function_of(order, address)
        if function in entered:
            functions.setdefault(kind, set()).add(function)
    return functions


def function_of(starts: list[int], address: int) -> int:
    """Return where the function begins that an instruction belongs to."""
    return starts[max(bisect.bisect_right(starts, address) - 1, 0)]


@dataclass
class Found:
    """What stands in machine code: the instructions looked for with their kind, and who goes where."""

    uses: list[tuple[int, str]] = field(default_factory=list)
    calls: list[tuple[int, int]] = field(default_factory=list)
    jumps: list[tuple[int, int]] = field(default_factory=list)
    pointers: set[int] = field(default_factory=set)


def avx(code: bytes, base: int) -> Found:
    """Look for AVX, FMA and AVX-512 in x86-64 code."""
    engine = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    engine.skipdata = True
    found = Found()
    for address, size, name, operands in engine.disasm_lite(code, base):
        first = next((byte for byte in code[address - base : address - base + size] if byte not in PREFIXES), 0)
        if name.startswith("v") and (first == EVEX or first in VEX):
            found.uses.append((address, "AVX-512" if first == EVEX else "AVX or FMA"))
        elif operands.startswith("0x") and (name.startswith("j") or name == "call"):
            (found.calls if name == "call" else found.jumps).append((address, int(operands, 16)))
        elif name == "lea" and (pointer := POINTER.search(operands)):
            target = address + size + int(pointer[1].replace(" ", ""), 16)
            if base <= target < base + len(code):
                found.pointers.add(target)
    return found


def sve(code: bytes, base: int) -> Found:
    """Look for SVE in arm64 code, whose instructions are words."""
    found = Found()
    for at in range(0, len(code) - 3, 4):
        word = int.from_bytes(code[at : at + 4], "little")
        if word >> 25 & 0xF == SVE:
            found.uses.append((base + at, "SVE"))
        elif word >> 26 & 0b011111 == 0b000101:  # B, and BL with the highest bit
            offset = (word & 0x3FFFFFF) - ((word & 0x2000000) << 1)
            (found.calls if word >> 31 else found.jumps).append((base + at, base + at + 4 * offset))
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) if len(sys.argv) > 1 else __doc__)
