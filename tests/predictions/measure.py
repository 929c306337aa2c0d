#!/usr/bin/env python3
"""Records small servers on one CPU with two threads, predicts other CPUs and threads, and measures
these.

usage: measure.py CONVOY [--only LANGUAGE[/MODE],...] [--seconds S] [--rounds N] [--before WORDS]
                  [--write FILE]

The servers make passes for a time and print their rate. They are recorded once, and predicted for
one and two CPUs with 2, 4, 8 and 16 threads. Then each of these points runs without convoy, in
random order, once in each round. The measured ratio is the median over the rounds of the rate of a
point over the rate of the recorded point in the same round; its range is the least and the most.
A prediction is right if its interval has a value in the middle half of the measured ratios; *sign*
counts rows whose whole range differs from one by more than 2 %. --write replaces the table in FILE.
WORDS come before each program: `chrt -f 1` where other programs run. The command fails if a row has no prediction or less than nine of ten are right.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import generated  # noqa: E402

RECORDED = (1, 2)
POINTS = [(cpus, threads) for cpus in (1, 2) for threads in (2, 4, 8, 16)]
CPUS = {1: "0", 2: "0,1"}
LANGUAGES = {
    "c": ("programs.c", "cc -O1 -g -pthread -o {binary} {source}", "{binary}",
          "pool units journal striped reader logged hot"),
    "cxx": ("programs.cc", "c++ -std=c++17 -O2 -g -pthread -o {binary} {source}", "{binary}",
            "worker stage session lookup"),
    "rust": ("programs.rs", "rustc -O -g --edition 2021 -o {binary} {source}", "{binary}",
             "bank channel config words"),
    "go": ("programs.go", "go build -o {binary} {source}", "{binary}", "connections handler"),
    "python": ("programs.py", "", "python3 {source}", "query logged"),
    "java": ("Programs.java", "javac -g -d {directory} {source}", "java -cp {directory} Programs",
             "lookup task"),
}
class Row:
    """A predicted and measured point."""

    def __init__(self, name, point, predicted, ratios):
        self.name, self.point, self.predicted = name, point, predicted
        ratios = sorted(ratios)
        self.measured, self.range = statistics.median(ratios), (ratios[0], ratios[-1])
        quarter = len(ratios) // 4
        self.middle = (ratios[quarter], ratios[-1 - quarter])

    def is_inside(self):
        low, _, high = self.predicted
        return low <= self.middle[1] and self.middle[0] <= high

    def sign(self):
        """Whether the predicted sign is right; None if the program did not change for certain."""
        if self.range[0] <= 1.02 and self.range[1] >= 0.98:
            return None
        return (self.predicted[1] > 1) == (self.measured > 1)

    def cells(self):
        low, middle, high = self.predicted or (None, None, None)
        predicted = f"{middle:.2f} ({low:.2f} to {high:.2f})" if self.predicted else "none"
        measured = f"{self.measured:.2f} ({self.range[0]:.2f} to {self.range[1]:.2f})"
        inside = "yes" if self.predicted and self.is_inside() else "no"
        sign = {None: "", True: "yes", False: "no"}[self.sign() if self.predicted else False]
        cpus, threads = self.point
        return [self.name, f"{cpus}", f"{threads}", predicted, measured, inside, sign]


def build(language, directory):
    """Returns the words that run the programs of a language; None if it is not installed."""
    source, compiler, run, _ = LANGUAGES[language]
    paths = {"source": directory / source, "binary": directory / language, "directory": directory}
    shutil.copy(HERE / source, paths["source"])
    words = (compiler or run).format(**paths).split()
    if not shutil.which(words[0]):
        return None
    if compiler and subprocess.run(words, cwd=directory, check=False).returncode != 0:
        return None
    return run.format(**paths).split()


def rate(words, point, seconds, before):
    """Runs a program without convoy and returns its rate."""
    cpus, threads = point
    words = [*before, "taskset", "-c", CPUS[cpus], *words, str(threads), str(seconds)]
    return float(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def answer(words):
    """Returns the rows of a prediction; none if it is refused."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        print("  ", done.stderr.strip(), flush=True)
        return []
    return json.loads(done.stdout)["rows"]


def predict(convoy, words, seconds, directory, before):
    """Returns the predicted ratio of each point, with the ends of its interval. The program has the
    recorded threads and as many more as it has more workers."""
    record, (cpus, threads) = directory / "record.json", RECORDED
    record.unlink(missing_ok=True)
    words = [convoy, "record", "-q", "-o", record, "--", *words, str(threads), str(seconds)]
    subprocess.run([*before, "taskset", "-c", CPUS[cpus], *words], stdout=subprocess.DEVNULL, check=False)
    words = [convoy, "predict", "-q", record, "--policy", "sleep", "--format", "json"]
    recorded = answer(words)
    if not recorded:
        return {}
    more = recorded[0]["threads"] - threads
    numbers = ",".join(str(threads + more) for threads in (2, 4, 8, 16))
    rows = answer([*words, "--cpus", "1,2", "--threads", numbers])
    return {(row["cpus"], row["threads"] - more): tuple(1 + row[f"{which}_percent"] / 100
                                                 for which in ("low", "change", "high"))
            for row in rows}


def measured(words, seconds, rounds, before):
    """Returns the ratios of each point to the recorded one."""
    ratios = {point: [] for point in POINTS}
    for _ in range(rounds):
        order = random.sample(POINTS, len(POINTS))
        rates = {point: rate(words, point, seconds, before) for point in order}
        for point in POINTS:
            ratios[point].append(rates[point] / rates[RECORDED])
    return ratios


def summary(rows):
    """Returns a sentence about all rows, and whether they are good."""
    answered = [row for row in rows if row.predicted]
    inside = sum(row.is_inside() for row in answered)
    signs = [row.sign() for row in answered if row.sign() is not None]
    widths = [row.predicted[2] / max(row.predicted[0], 1e-9) for row in answered]
    errors = [abs(row.predicted[1] / row.measured - 1) for row in answered]
    text = (f"{len(rows)} rows of {len({row.name for row in rows})} programs: answered "
            f"{len(answered)}, inside {inside}, sign right in {sum(signs)} of {len(signs)}; median "
            f"ratio of the ends of an interval {statistics.median(widths or [0]):.2f}, median error "
            f"of the middle {100 * statistics.median(errors or [0]):.0f} %")
    return text, len(answered) == len(rows) and inside * 10 >= len(rows) * 9


def write(file, rows, text, arguments):
    """Replaces the table in a file."""
    head = ["program", "CPUs", "threads", "predicted", "measured", "inside", "sign"]
    lines = ["| " + " | ".join(cells) + " |" for cells in [head, *(row.cells() for row in rows)]]
    lines.insert(1, "|---" * len(head) + "|")
    lines = [*lines, "", *textwrap.wrap(f"{text}.", 100)]
    generated.replace(file, "tests/predictions/measure.py", ["CONVOY", *arguments], lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("convoy")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--before", default="")
    parser.add_argument("--write")
    arguments = parser.parse_args()
    os.environ["CONVOY_STORE"] = "none"
    convoy = pathlib.Path(arguments.convoy).resolve()
    only, before = set(filter(None, arguments.only.split(","))), arguments.before.split()
    rows = []
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        for language, (*_, modes) in LANGUAGES.items():
            modes = [mode for mode in modes.split()
                     if not only or only & {language, f"{language}/{mode}"}]
            words = build(language, place) if modes else None
            for mode in modes if words else []:
                name, run = f"{language}/{mode}", [*words, mode]
                predicted = predict(convoy, run, 3 * arguments.seconds, place, before)
                ratios = measured(run, arguments.seconds, arguments.rounds, before)
                for point in POINTS:
                    if point != RECORDED:
                        row = Row(name, point, predicted.get(point), ratios[point])
                        rows.append(row)
                        print(*row.cells(), sep="  ", flush=True)
    text, is_good = summary(rows)
    print(text)
    if arguments.write:
        write(arguments.write, rows, text, sys.argv[2:])
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
