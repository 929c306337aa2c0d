#!/usr/bin/env python3
"""Acquisitions per second of the lock-contention model, here and on other simulators, in turns.

Usage: run.py [--json]. Exit code 1: this engine is not as many times as fast as it should be. A peer
that cannot be built here is left out, with the reason. `cargo xtask peers` calls it.
"""

import json
import pathlib
import statistics
import subprocess
import sys

TASKS = 2000
ROUNDS = 5
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGET = ROOT / "target/peers"


def run(*command, cwd=ROOT):
    """The output of a command that must succeed."""
    words = [str(word) for word in command]
    return subprocess.run(words, cwd=cwd, check=True, text=True, stdout=subprocess.PIPE).stdout


def simpy():
    python = TARGET / "simpy/bin/python"
    run("python3", "-m", "venv", TARGET / "simpy")
    run(python, "-m", "pip", "install", "--quiet", "simpy==4.1.2")
    return [python, HERE / "contention.py"], []


def nexosim():
    build = ["build", "--release", "--locked", "--target-dir", TARGET]
    run("cargo", *build, cwd=HERE / "nexosim")
    return [TARGET / "release/peer-nexosim"], []


def simgrid():
    """Needs a C++ compiler and Debian's libsimgrid-dev."""
    run("c++", "-O2", HERE / "contention.cpp", "-lsimgrid", "-o", TARGET / "simgrid")
    return [TARGET / "simgrid"], ["--cfg=contexts/factory:raw"]


# Name, function that builds it, acquisitions for about a second, and how many times as fast this
# engine should be.
PEERS = [("SimPy", simpy, 100_000, 60), ("NeXosim", nexosim, 500_000, 20), ("SimGrid", simgrid, 300_000, 20)]
# This engine with the locks of the model, and the model alone. The first is compared with the peers,
# which model a lock as a queue, too.
OURS = [("queue lock", "queue"), ("semaphore", None), ("mutex", "mutex"), ("bare loop, ceiling", "bare")]


def engines():
    """Rows with a name, a command before and after the numbers, acquisitions and the wanted ratio."""
    TARGET.mkdir(parents=True, exist_ok=True)
    build = ["build", "--release", "--locked", "--target-dir", TARGET]
    run("cargo", *build, "--package", "convoy-machine", "--example", "contention")
    program = [TARGET / "release/examples/contention"]
    for name, lock in OURS:
        yield name, program, [lock] if lock else [], 2_000_000, None
    for name, build, acquisitions, wanted in PEERS:
        try:
            before, after = build()
        except (OSError, subprocess.CalledProcessError) as reason:
            print(f"{name} is left out: {reason}", file=sys.stderr)
        else:
            yield name, before, after, acquisitions, wanted


def main():
    rows = list(engines())
    rates = {name: [] for name, *_ in rows}
    for _ in range(ROUNDS):
        for name, before, after, acquisitions, _ in rows:
            lines = run(*before, TASKS, acquisitions, *after).splitlines()
            rates[name].append(float(lines[-1]))
    medians = {name: statistics.median(values) for name, values in rates.items()}
    ours = medians[OURS[0][0]]
    wanted = {name: ratio for name, *_, ratio in rows}
    if "--json" in sys.argv[1:]:
        table = [
            {
                "engine": name,
                "tasks": TASKS,
                "acquisitions_per_cpu_s": median,
                "rounds": rates[name],
                "convoy_over_it": ours / median,
                "asked": wanted[name],
            }
            for name, median in medians.items()
        ]
        print(json.dumps({"rows": table}))
    else:
        print(f"{'engine':<20}{'acquisitions per CPU s':>24}{'queue lock is faster':>22}{'asked':>8}")
        for name, median in medians.items():
            limit = f"{wanted[name]} x" if wanted[name] else ""
            print(f"{name:<20}{median:>24.0f}{ours / median:>20.1f} x{limit:>8}")
    return any(ratio and ours < ratio * medians[name] for name, ratio in wanted.items())


if __name__ == "__main__":
    sys.exit(main())
