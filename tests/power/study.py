#!/usr/bin/env python3
"""The power of `convoy compare` next to one busy program: how often a planted slowdown is found, and
how often equal programs are called what they are, with the default settings.

usage: study.py CONVOY [--runs N] [--factors LIST] [--seconds N] [--write FILE]

--runs       comparisons of each factor; a list has one number for each factor (100,100,200)
--factors    planted slowdowns (3,1.3,1)
--seconds    end after this time; the table says how many comparisons there were
--write      into this file, between its markers, instead of standard output

Exit code: 1 if fewer than 95 of 100 slowdowns are found, or fewer than 95 of 100 equal programs are
called the same, by more than chance (a binomial tail of 1 %); 2 without a C compiler.
"""

import argparse
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
MARKERS = ("<!-- power begins -->", "<!-- power ends -->")
BUSY = "while True: pass"


def numbers(kind):
    return lambda text: [kind(part) for part in text.split(",")]


def compare(convoy, work, factor):
    """One comparison with the default settings."""
    sides = [f"{work} 100", f"{work} {round(100 * factor)}"]
    begin = time.monotonic()
    done = subprocess.run(
        [convoy, "compare", "--no-store", "--format", "json", *sides],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1):
        sys.exit(f"{done.args}: {done.stderr}")
    report = json.loads(done.stdout)
    report["seconds"] = time.monotonic() - begin
    report["stated"] = "in 80 of 100 cases" in done.stderr
    return report


def tail(hits, tries, share):
    """The chance of at most `hits` of `tries`, if each is one with the probability `share`."""
    ways = (math.comb(tries, k) * share**k * (1 - share) ** (tries - k) for k in range(hits + 1))
    return sum(ways)


def interval(hits, tries):
    """The 95 % interval of a share (Wilson 1927), percent."""
    z, share = 1.96, hits / tries
    middle = share + z * z / (2 * tries)
    half = z * math.sqrt(share * (1 - share) / tries + z * z / (4 * tries * tries))
    ends = [(middle + side * half) / (1 + z * z / tries) for side in (-1, 1)]
    return f"{100 * ends[0]:.0f} to {100 * ends[1]:.0f}"


def row(factor, reports):
    """A line of the table, and whether the goal was missed by more than chance."""
    tries = len(reports)
    count = {verdict: 0 for verdict in ("slower", "same", "unsure", "faster")}
    for report in reports:
        count[report["verdict"]] += 1
    right = count["slower"] if factor > 1 else count["same"]
    middle = statistics.median
    margins = Counter(
        f"{report['rows'][0]['same_within_percent']:g}"
        for report in reports
        if report["verdict"] == "same"
    )
    within = ", ".join(f"{margins[margin]} in {margin} %" for margin in sorted(margins, key=float))
    cells = [
        f"{factor:g}",
        tries,
        *count.values(),
        f"{right} of {tries} ({interval(right, tries)} %)",
        within,
        f"{middle(report['runs'] for report in reports):.0f}",
        f"{middle(report['seconds'] for report in reports):.1f}",
        f"{100 * middle(spread(report) for report in reports):.0f} %",
    ]
    missed = tail(right, tries, 0.95) < 0.01
    return "| " + " | ".join(map(str, cells)) + " |", missed


def spread(report):
    """The coefficient of variation of the baseline."""
    side = report["rows"][0]["baseline"]
    return (side["sd"] or 0.0) / side["mean"]


def main():
    parser = argparse.ArgumentParser(usage=__doc__.replace("%", "%%"))
    parser.add_argument("convoy")
    parser.add_argument("--runs", type=numbers(int), default=[100, 100, 200])
    parser.add_argument("--factors", type=numbers(float), default=[3.0, 1.3, 1.0])
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    compiler = shutil.which("cc")
    if compiler is None:
        print("no C compiler")
        return 2
    runs = options.runs * (len(options.factors) if len(options.runs) == 1 else 1)
    left = dict(zip(options.factors, runs, strict=True))
    found = {factor: [] for factor in left}
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        work = Path(place) / "work"
        source = HERE / "work.c"
        subprocess.run([compiler, "-O1", "-pthread", "-o", work, source], check=True)
        busy = subprocess.Popen([sys.executable, "-c", BUSY])
        try:
            # In turns, so that what else the machine does meets all factors alike.
            while any(left.values()) and time.monotonic() - begin < options.seconds:
                factor = max(left, key=lambda one: left[one] / (left[one] + len(found[one])))
                found[factor].append(compare(options.convoy, work, factor))
                left[factor] -= 1
        finally:
            busy.kill()
            busy.wait()
    rows = [row(factor, reports) for factor, reports in found.items() if reports]
    stated = sum(report["stated"] for reports in found.values() for report in reports)
    total = sum(map(len, found.values()))
    version = subprocess.run([options.convoy, "--version"], capture_output=True, text=True)
    text = "\n".join(
        [
            textwrap.fill(
                f"{total} comparisons of `tests/power/work.c` with itself, next to one busy program "
                f"on {os.cpu_count()} CPUs (Linux {platform.release()}), by "
                f"{version.stdout.strip()} in {time.monotonic() - begin:.0f} s; the power was "
                f"stated before the runs in {stated}.",
                100,
            ),
            "",
            "| planted | comparisons | slower | same | unsure | faster | right | same within | "
            "runs of each side, median | seconds, median | sd of a run, median |",
            "|---|---|---|---|---|---|---|---|---|---|---|",
            *(line for line, _ in rows),
        ]
    )
    if options.write is None:
        print(text)
    else:
        before, rest = options.write.read_text().split(MARKERS[0])
        after = rest.split(MARKERS[1])[1]
        options.write.write_text(f"{before}{MARKERS[0]}\n\n{text}\n\n{MARKERS[1]}{after}")
    return int(any(missed for _, missed in rows))


if __name__ == "__main__":
    sys.exit(main())
