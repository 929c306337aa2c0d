#!/usr/bin/env python3
"""Measures what recording costs threads that only pass entries through one queue.

usage: entries.py CONVOY [--rounds N] [--write FILE]

crates/record/tests/programs/queue.c (four producers and four consumers, a mutex and two conditions)
runs in every mode in random order, once in each round. Figures are the time and the CPU time of the
program itself, from its first to its last line, as multiples of the plain run of the same round:
medians over the rounds, with the least and the most. As root. --write replaces the table in FILE.
"""
import argparse
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import generated  # noqa: E402

SOURCE = HERE.parent.parent / "crates/record/tests/programs/queue.c"
# Prints the seconds and the CPU seconds of the program when it ends.
TIMES = r"""#include <stdio.h>
#include <time.h>
static double begin;
static double now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}
__attribute__((constructor)) static void start(void) { begin = now(CLOCK_MONOTONIC); }
__attribute__((destructor)) static void end(void) {
    fprintf(stderr, "times %f %f\n", now(CLOCK_MONOTONIC) - begin, now(CLOCK_PROCESS_CPUTIME_ID));
}
"""
SIZES = {64: 100_000, 4096: 1_000_000}
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
RECORD = ["{convoy}", "record", "-q", "-o", "/dev/null"]
MODES = {
    "plain": [],
    "plain again": [],
    "recorded as root": [*RECORD, "--"],
    "`--kernel off`": [*RECORD, "--kernel", "off", "--"],
    "as another user": [*NOBODY, *RECORD, "--"],
    "`--contended`": [*RECORD, "--contended", "--"],
}


def times(convoy, mode, program):
    """Runs the program once; returns its seconds and CPU seconds."""
    words = [word.format(convoy=convoy) for word in MODES[mode]]
    ended = subprocess.run([*words, program], capture_output=True, text=True, check=True)
    line = next(line for line in ended.stderr.splitlines() if line.startswith("times "))
    return [float(word) for word in line.split()[1:]]


def ratio(ratios):
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("convoy")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--write")
    arguments = parser.parse_args()
    os.environ["CONVOY_STORE"] = "none"
    convoy = pathlib.Path(arguments.convoy).resolve()
    lines = ["| room | | time | CPU time |", "|---" * 4 + "|"]
    with tempfile.TemporaryDirectory() as place:
        pathlib.Path(place).chmod(0o755)
        clock = pathlib.Path(place) / "times.c"
        clock.write_text(TIMES)
        for room, items in SIZES.items():
            program = pathlib.Path(place) / f"queue-{room}"
            subprocess.run(["cc", "-O2", "-pthread", f"-DITEMS={items}", f"-DROOM={room}", SOURCE,
                            clock, "-o", program], check=True)
            rounds = {mode: [] for mode in MODES}
            for _ in range(arguments.rounds):
                for mode in random.sample(list(MODES), len(MODES)):
                    rounds[mode].append(times(convoy, mode, program))
            plain = rounds.pop("plain")
            seconds = statistics.median(wall for wall, _ in plain)
            lines.append(f"| {room:,} | plain | {seconds:.2f} s | "
                         f"{statistics.median(cpu for _, cpu in plain):.2f} s |")
            print(lines[-1], flush=True)
            for mode, measured in rounds.items():
                pairs = list(zip(measured, plain))
                lines.append(f"| | {mode} | {ratio([one[0] / base[0] for one, base in pairs])} | "
                             f"{ratio([one[1] / base[1] for one, base in pairs])} |")
                print(lines[-1], flush=True)
    if arguments.write:
        generated.replace(arguments.write, "tests/servers/entries.py", ["CONVOY", *sys.argv[2:]], lines)


if __name__ == "__main__":
    main()
