#!/usr/bin/env python3
"""What each megabyte of the program buys: its size by section, and its machine code by package.

usage: size.py BINARY [--symbols FILE] [--archive FILE] [--write FILE]

--symbols  the same program with its symbols: machine code by package
--archive  the program, compressed as in the archive of the release
--write    put the tables between the markers of this file, such as docs/dependencies.md

The sections are read by `readelf`, the symbols by `nm`. `cargo xtask size` builds the program of a
release and calls this script.
"""

import argparse
import re
import subprocess
import textwrap
from collections import defaultdict
from pathlib import Path

MARKERS = ("<!-- sizes begin -->", "<!-- sizes end -->")
# Sections, by what a reader wants to know.
GROUPS = [
    ("machine code", r"\.text|\.init|\.fini|\.plt.*"),
    ("constants and texts", r"\.rodata.*"),
    ("unwind tables", r"\.eh_frame.*|\.gcc_except_table"),
    ("data and relocations", r"\.data.*|\.rela.*|\.got.*|\.tdata|\.(init|fini)_array"),
    ("symbols and debug data", r"\.symtab|\.strtab|\.debug.*"),
]
# Purposes and the packages that serve them; other packages are counted together.
PURPOSES = [
    ("the recorder: processes, names, kernel events, imports", r"convoy_(record|os|layout|live)"),
    ("names of addresses, demangling", r"blazesym|gimli|cpp_demangle|rustc_demangle|zlib_rs|miniz.*"),
    ("diagnosis, prediction and reports", r"convoy_(diagnose|predict|report|explain)"),
    ("the virtual machine, its kernel and locks", r"convoy_(kernel|machine|sync|mm|runs)"),
    ("the model checker", r"convoy_checker|corosensei"),
    ("loads, experiments and presets", r"convoy_(lab|workload|host|catalogue|calibrate)"),
    ("measurement and statistics", r"convoy_(measure|stats|store)"),
    ("SQLite", r"C|libsqlite3.*|rusqlite|hashlink"),
    ("the command line", r"convoy_cli|convoy|clap.*|indicatif|ratatui.*|crossterm|console"),
    ("data formats", r"serde.*|toml.*|prost.*|schemars.*|fxprof.*|ryu|itoa|zmij|dtoa.*"),
    ("the standard library, mostly instances of generic code", r"std|core|alloc|compiler_builtins|panic_unwind|addr2line|object"),
]


def sections(binary):
    """Sizes by name of the sections that the file has."""
    text = subprocess.run(
        ["readelf", "--section-headers", "--wide", binary],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = re.findall(r"\] (\.\S+)\s+(\S+)\s+[0-9a-f]+ [0-9a-f]+ ([0-9a-f]+)", text)
    return {name: int(size, 16) for name, kind, size in found if kind != "NOBITS"}


def package(symbol):
    """The package whose name is in a mangled symbol: generic code of the standard library has that of
    the first of Convoy's packages whose types it is for, if its name says so."""
    if found := re.search(r"convoy_[a-z]+", symbol):
        return found[0]
    if found := re.match(r"_ZN\d+(?:_\$LT\$)?(?:\$\w+\$)?([a-z_]+[a-z0-9_]*?)(?:\.\.|\d|E|$)", symbol):
        return found[1]
    return "std" if symbol.startswith(("_R", "_ZN")) else "C"


def packages(binary):
    """Bytes of machine code by package, by the names of the functions."""
    sizes = defaultdict(int)
    listed = subprocess.run(["nm", "--print-size", binary], capture_output=True, text=True)
    for line in listed.stdout.splitlines():
        parts = line.split(maxsplit=3)
        if len(parts) == 4 and parts[2] in "tTwW":
            sizes[package(parts[3])] += int(parts[1], 16)
    return sizes


def grouped(sizes, groups, rest):
    """Sums of the sizes by the first group whose pattern fits."""
    sums = defaultdict(int)
    for name, size in sizes.items():
        fits = (title for title, pattern in groups if re.fullmatch(pattern, name))
        sums[next(fits, rest)] += size
    return sorted(sums.items(), key=lambda item: -item[1])


def table(title, rows, whole):
    lines = [f"| {title} | MB | share |", "|---|---|---|"]
    for name, size in rows:
        lines.append(f"| {name} | {size / 1e6:.2f} | {100 * size / whole:.0f} % |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("binary", type=Path)
    parser.add_argument("--symbols", type=Path)
    parser.add_argument("--archive", type=Path)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    whole = options.binary.stat().st_size
    parts = [f"The program has {whole / 1e6:.1f} MB"]
    if options.archive:
        parts[0] += f", the compressed archive {options.archive.stat().st_size / 1e6:.1f} MB"
    parts[0] += "."
    found = sections(options.binary)
    parts.append(table("section", grouped(found, GROUPS, "headers and others"), whole))
    if options.symbols:
        sizes = packages(options.symbols)
        rows = grouped(sizes, PURPOSES, "other packages")
        parts.append(table("machine code of", rows, sum(sizes.values())))
        largest = sorted(sizes.items(), key=lambda item: -item[1])[:16]
        names = ", ".join(f"`{name}` {size / 1e6:.2f}" for name, size in largest)
        parts.append(textwrap.fill(f"The largest packages, MB: {names}.", 100))
    text = "\n\n".join(parts)
    if options.write is None:
        print(text)
        return
    before, rest = options.write.read_text().split(MARKERS[0])
    after = rest.split(MARKERS[1])[1]
    options.write.write_text(f"{before}{MARKERS[0]}\n{text}\n{MARKERS[1]}{after}")


if __name__ == "__main__":
    main()
