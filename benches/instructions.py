#!/usr/bin/env python3
"""Instructions that Convoy executes for fixed work, against the last record of
results/instructions.jsonl. Counts repeat within 0.1 % on any machine, however busy; times do not.

Usage: instructions.py [--record], which adds this commit to the records. Exit code 1: some work takes
2 % more instructions; 3: valgrind is missing. `cargo xtask bench` calls it. Between two recorded
commits, the count of one of these programs finds the change:

    convoy lab bisect --good OLD --bad NEW --build 'cargo build --release' --lower-is-better \\
        --metric-regex 'refs: *([0-9]+)' --unit instructions --keep-builds 3 -- \\
        'valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null \\
        target/release/convoy lab sim --kernel 2.6.26-rc1 --users 2 2>&1 >/dev/null | tr -d ,'
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HISTORY = ROOT / "results/instructions.jsonl"
# A growth above this is a finding, percent.
GROWTH = 2.0
CONTENTION = "examples/contention"
# Work by name: the program, and its arguments.
WORK = {
    "start": ("convoy", "list"),
    "simulate": ("convoy", "sim", "--kernel", "2.6.26-rc1", "--users", "2", "--quiet"),
    "check": ("convoy", "check", "opportunistic", "--budget", "1000", "--quiet"),
    "queue": (CONTENTION, "2000", "100000", "queue"),
    "semaphore": (CONTENTION, "2000", "100000"),
    "mutex": (CONTENTION, "2000", "100000", "mutex"),
}


def run(*words):
    """The output of a command that must succeed."""
    done = subprocess.run(words, cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE)
    return done.stdout.strip()


def count(program, *arguments):
    """Instructions that a program executes in user mode."""
    flags = ["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    words = ["valgrind", *flags, ROOT / "target/release" / program, *arguments]
    done = subprocess.run(words, env={"CONVOY_STORE": "none"}, capture_output=True, text=True)
    # Such as `==12== I   refs:      1,234`.
    found = re.search(r"refs:\s*([\d,]+)", done.stderr)
    if done.returncode or not found:
        sys.exit(f"{program} failed: {done.stderr}")
    return int(found[1].replace(",", ""))


def main():
    if not shutil.which("valgrind"):
        print("valgrind is missing: apt-get install valgrind", file=sys.stderr)
        return 3
    for target in (["convoy", "--bin", "convoy"], ["convoy-machine", "--example", "contention"]):
        run("cargo", "build", "--release", "--locked", "--package", *target)
    latest = {
        "commit": run("git", "describe", "--always", "--dirty", "--abbrev=12"),
        "day": run("git", "log", "-1", "--format=%cs"),
        "rustc": run("rustc", "--version"),
        "instructions": {name: count(*words) for name, words in sorted(WORK.items())},
    }
    lines = HISTORY.read_text().splitlines() if HISTORY.exists() else []
    before = json.loads(lines[-1]) if lines else {"commit": "none", "instructions": {}}
    print(f"million instructions, and the ratio to {before['commit']}")
    has_grown = False
    for name, now in latest["instructions"].items():
        ratio = now / before["instructions"].get(name, now)
        is_larger = ratio > 1 + GROWTH / 100
        has_grown |= is_larger
        print(f"{name:<12}{now / 1e6:>12.1f}{ratio:>10.4f}" + "  more than before" * is_larger)
    if has_grown and before.get("rustc") != latest["rustc"]:
        print(f"the compiler changed, too: {before.get('rustc')} before")
    if "--record" in sys.argv[1:]:
        if latest["commit"].endswith("-dirty"):
            sys.exit("commit the changes before you record them")
        with HISTORY.open("a") as file:
            print(json.dumps(latest, separators=(",", ":")), file=file)
    return int(has_grown)


if __name__ == "__main__":
    sys.exit(main())
