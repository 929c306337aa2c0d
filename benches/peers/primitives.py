#!/usr/bin/env python3
"""Convoy's primitives other than the mutex next to those of other libraries, interleaved.

usage: primitives.py [--rounds N] [--only WORD] [--write FILE]

WORD selects primitives by a part of their name. --write replaces the table in FILE. abseil takes
part if pkg-config finds it (Debian's libabsl-dev). Needs a C++ compiler.
"""
import argparse
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tests"))
import generated  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--write")
    arguments = parser.parse_args()
    target = ROOT / "target/peers"
    build = ["cargo", "build", "--release", "--quiet", "--target-dir", target]
    subprocess.run(build, cwd=HERE / "primitives", check=True)
    words = [target / "release/peer-primitives", str(arguments.rounds), arguments.only]
    lines = []
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as bench:
        for line in bench.stdout:
            print(line, end="", flush=True)
            lines.append(line.rstrip("\n"))
    if bench.returncode:
        return bench.returncode
    if arguments.write:
        name = "benches/peers/primitives.py"
        generated.replace(arguments.write, name, sys.argv[1:], lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
