#!/usr/bin/env python3
"""What each megabyte of the program buys: its size by section, and its machine code by package.

usage: size.py BINARY [--rlibs DIR | --map FILE] [--archive FILE] [--write FILE]

--rlibs    the libraries that a program with symbols and without link-time optimisation was linked
           from: machine code by package
--map      the map of the linker (`-Wl,-Map=FILE`), which says from which package each part came
--archive  the compressed archive of the release
--write    put the tables between the markers of this file, such as docs/dependencies.md

The sections are read by `readelf`. `cargo xtask size` builds the program of a release with a map and
calls this script.
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
    ("SQLite", r"libsqlite3.*|rusqlite|hashlink|.*\.o"),
    ("the command line", r"convoy_cli|convoy|clap.*|indicatif|ratatui.*|crossterm|console"),
    ("data formats", r"serde.*|toml.*|prost.*|schemars.*|fxprof.*|ryu|itoa|zmij|dtoa.*"),
    ("Rust's standard library", r"std|core|alloc|compiler_builtins|panic_unwind|addr2line|object"),
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


def package(path):
    """The package that an object file of the linker's map belongs to."""
    member = path.rsplit("(", 1)
    name = Path(member[0]).name
    # With link-time optimisation: convoy-HASH.convoy_kernel-HASH.convoy_kernel.HASH-cgu.0.rcgu.o
    parts = re.findall(r"(?:^|\.)(?:lib)?([a-z0-9_]+)-[0-9a-f]{16}", name)
    return parts[-1] if parts else name


def packages(path):
    """Bytes of loaded sections by package, from a map of lld."""
    sizes = defaultdict(int)
    line = re.compile(r"^\s*[0-9a-f]+\s+[0-9a-f]+\s+([0-9a-f]+)\s+\d+\s{9}(\S.*?):\((\.[^)]+)\)$")
    for match in filter(None, map(line.match, open(path, errors="replace"))):
        size, file, section = match.groups()
        if not section.startswith((".debug", ".symtab", ".strtab", ".comment", ".bss", ".tbss")):
            sizes[package(file)] += int(size, 16)
    return sizes


def symbols(binary, directory):
    """Bytes of machine code by package, from the libraries that define its symbols."""
    owners = {}
    for library in sorted(directory.glob("*.rlib"), key=lambda path: -path.stat().st_mtime):
        listed = subprocess.run(["nm", "--defined-only", library], capture_output=True, text=True)
        for line in listed.stdout.splitlines():
            if len(parts := line.split()) == 3:
                owners.setdefault(parts[2], package(str(library)))
    sizes = defaultdict(int)
    listed = subprocess.run(["nm", "--print-size", binary], capture_output=True, text=True)
    for line in listed.stdout.splitlines():
        parts = line.split(maxsplit=3)
        if len(parts) == 4 and parts[2] in "tTwW":
            sizes[owners.get(parts[3], "std")] += int(parts[1], 16)
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
    parser.add_argument("--rlibs", type=Path)
    parser.add_argument("--map", type=Path)
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
    if options.map or options.rlibs:
        if options.map:
            sizes, title = packages(options.map), "code, constants and tables of"
        else:
            sizes, title = symbols(options.binary, options.rlibs), "machine code of"
        rows = grouped(sizes, PURPOSES, "other packages")
        parts.append(table(title, rows, sum(sizes.values())))
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
