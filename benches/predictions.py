#!/usr/bin/env python3
"""Predictions by `convoy predict` next to measurements in the same minutes.

Every row is printed, good or bad. The prediction comes first, so that no measurement decides which
rows are refused. docs/predict.md describes the columns. `cargo xtask predictions` calls it.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import shlex
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLACE = ROOT / "target/predictions"
RECORD = PLACE / "record.json"
PAGE = ROOT / "results/predictions.md"
BEGIN = "<!-- generated: cargo xtask predictions --real --write -->\n"
END = "<!-- end -->\n"
# Pairs of a measurement: the extremes of five hold the median with 94 % confidence, of three 75 %.
PAIRS = 5
# Rounds of a prediction, as `convoy predict` has them.
ROUNDS = 3
# CPUs that other programs may use while a row is measured before it is left out of the medians: as
# in crates/workload/src/disturbance.rs.
QUIET_CPUS = 0.15
# Ratio of the maximum to the minimum of the pairs, or of the recorded run to the others, from which
# a program counts as bistable.
BISTABLE = 2.0
# The third number of threads, or the last, is predicted from the first one, too.
THREADS = [4, 16, 64]
REAL_THREADS = [4, 16, 64, 256]
MUTEX = ["sleep", "spin", "fair", "handoff"]
# Acquisitions of all threads together, and writes.
LOCKS = 1_280_000
WRITES = 160_000

# Half of the threads put numbers into a queue of the standard library, the others take them.
QUEUE = """
import queue, sys, threading, time
half, items = int(sys.argv[1]) // 2, 200000
items -= items % half
line = queue.Queue(64)
def put():
    for number in range(items // half):
        line.put(number)
def take():
    for number in range(items // half):
        line.get()
threads = [threading.Thread(target=body) for body in (put, take) for _ in range(half)]
begin = time.monotonic()
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(items / (time.monotonic() - begin))
"""


@dataclass
class Program:
    """A program that prints a rate, recorded under the first of its policies."""

    name: str
    # With {place}, {threads}, and {locks} and {writes} of each thread.
    command: str
    # The number of operations in the output, or a constant for all threads.
    operations: "str | int"
    # Their duration in the output; none: the operations are a rate.
    seconds: "str | None" = None
    flag: str = "--mutex"
    policies: list = field(default_factory=lambda: MUTEX)
    # The number of parts of a split lock, its name, and the words that split it.
    split: "tuple | None" = None
    counts_acquisitions: bool = False

    def words(self, threads):
        locks, writes = LOCKS // threads, WRITES // threads
        text = self.command.format(place=PLACE, threads=threads, locks=locks, writes=writes)
        return shlex.split(text)

    def rate(self, output, threads):
        """Operations per second."""

        def number(pattern):
            return float(re.findall(pattern, output)[-1])

        if isinstance(self.operations, int):
            operations = self.operations // threads * threads
        else:
            operations = number(self.operations)
        return operations / number(self.seconds) if self.seconds else operations


def loop(name, **keys):
    command = f"{{place}}/rate {name} {{threads}} 400"
    return Program(name, command, r"^([\d.]+)", counts_acquisitions=True, **keys)


LOOPS = [
    loop("turn", flag="--sem", policies=["handoff", "sleep"]),
    *(loop(name) for name in ["hot", "rare", "buffer", "group", "nested"]),
]
TOTAL_TIME = r"total time:\s*([\d.]+)"
OPS = r"(\d+) ops/sec"
# Programs of Debian's packages sysbench, rocksdb-tools and python3.
REAL = [
    Program(
        "sysbench mutex",
        "sysbench mutex --threads={threads} --mutex-num=1 --mutex-locks={locks} --mutex-loops=500 run",
        LOCKS,
        TOTAL_TIME,
    ),
    Program(
        "sysbench threads",
        "sysbench threads --threads={threads} --thread-yields=200 --thread-locks=1 --time=1 run",
        r"total number of events:\s*(\d+)",
        TOTAL_TIME,
    ),
    Program(
        "db_bench readrandom",
        "db_bench --use_existing_db=1 --benchmarks=readrandom --cache_numshardbits=0"
        " --cache_size=1000000 --num=100000 --threads={threads} --duration=1 --db={place}/db",
        OPS,
        split=(16, "16 shards", "--cache_numshardbits=0", "--cache_numshardbits=4"),
    ),
    Program(
        "db_bench fillrandom",
        "db_bench --benchmarks=fillrandom --num={writes} --threads={threads} --db={place}/db-written",
        OPS,
    ),
    Program(
        "python queue",
        "/usr/bin/python3 {place}/through_queue.py {threads}",
        r"^([\d.]+)",
    ),
]


class Failed(Exception):
    """A command that failed, with its last line."""


def run(words):
    """The output of a command."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode:
        raise Failed((done.stderr.splitlines() or [f"exit code {done.returncode}"])[-1])
    return done.stdout


@dataclass
class Row:
    """A change that was predicted and measured, as ratios."""

    name: str
    predicted: float
    ratios: list
    # Throughput of the recorded run, relative to the unrecorded runs.
    recorded: float = 1.0
    # CPUs that other programs used during the measurement.
    others: float = 0.0

    @property
    def measured(self):
        return statistics.median_high(self.ratios)

    @property
    def is_disturbed(self):
        return self.others > QUIET_CPUS

    @property
    def is_bistable(self):
        spread = max(self.ratios) / min(self.ratios)
        return any(max(ratio, 1 / ratio) > BISTABLE for ratio in (spread, self.recorded))

    @property
    def error(self):
        """The error of the prediction, in percent of the measurement."""
        return 100 * (self.predicted / self.measured - 1)

    @property
    def beyond(self):
        """The same beyond the spread of repeats."""
        nearest = min(max(self.predicted, min(self.ratios)), max(self.ratios))
        return 100 * abs(self.predicted / nearest - 1)

    @property
    def sign(self):
        """Whether the direction is right; none if the repeats show no direction."""
        shown = min(self.ratios) > 1 or max(self.ratios) < 1
        return (self.predicted > 1) == (self.measured > 1) if shown else None

    def __str__(self):
        ratios = [self.predicted, self.measured, min(self.ratios), max(self.ratios)]
        cells = [f"{100 * (ratio - 1):+.0f} %" for ratio in ratios]
        cells += [f"{self.error:+.0f} %", f"{self.beyond:.0f} %", f"{self.others:.2f}"]
        notes = "  disturbed" * self.is_disturbed + "  bistable" * self.is_bistable
        return line(self.name, cells) + notes


def line(name, cells):
    widths = [10, 10, 8, 8, 8, 8, 8]
    return f"{name:<52}" + "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths))


def cpu_time(cpus):
    """Seconds, CPU time of all programs on the first CPUs, and of our ended children."""
    lines = pathlib.Path("/proc/stat").read_text().splitlines()[1 : cpus + 1]
    # user, nice, system, idle, iowait, irq, softirq in ticks of 10 ms.
    ticks = [[int(word) for word in cpu.split()[1:8]] for cpu in lines]
    busy = sum(sum(cpu) - cpu[3] - cpu[4] for cpu in ticks) / 100
    ours = os.times()
    return time.monotonic(), busy, ours.children_user + ours.children_system


class Bench:
    """Predicts and measures the rows of all programs."""

    def __init__(self, flags, convoy):
        self.flags, self.convoy = flags, convoy
        self.rows, self.refused, self.page = [], 0, ""

    def say(self, text):
        print(text, flush=True)
        self.page += text.rstrip() + "\n"

    def refuse(self, name, reason, rows):
        self.say(f"{name}: refused: {reason}")
        self.refused += rows

    def add(self, row):
        self.say(str(row))
        self.rows.append(row)

    def pinned(self, cpus, words):
        """A command on these CPUs, at the wanted priority: also of its session, if the kernel shares
        CPUs between sessions (`sched_autogroup_enabled`)."""
        script = 'echo "$0" 2>/dev/null >/proc/self/autogroup; exec nice -n "$0" taskset -c "$@"'
        first = ["taskset", "-c"]
        if self.flags.nice:
            first = ["setsid", "--wait", "sh", "-c", script, self.flags.nice]
        return [*first, f"0-{cpus - 1}", *words]

    def lock_flags(self, program, policy):
        return [] if policy == "sleep" else [program.flag, policy]

    def rate(self, cpus, program, threads, policy, split=False):
        words = program.words(threads)
        if split:
            words = [program.split[3] if word == program.split[2] else word for word in words]
        flags = self.lock_flags(program, policy)
        words = [self.convoy, "with", *flags, "--", *words] if flags else words
        return program.rate(run(self.pinned(cpus, words)), threads)

    def record(self, cpus, program, threads):
        flags = ["--kernel", "off", "--quiet", "-o", RECORD]
        flags += self.lock_flags(program, program.policies[0])
        words = [self.convoy, "record", *flags, "--", *program.words(threads)]
        run(self.pinned(cpus, words))

    def predict(self, *flags):
        """Predicted ratios with the recorded rate of acquisitions, or the reason why there are none."""
        words = [self.convoy, "predict", RECORD, *flags]
        try:
            found = json.loads(run([*words, "--rounds", self.flags.rounds, "--format", "json"]))
        except Failed as reason:
            # Without the path of the record.
            return [], None, str(reason).rsplit(".json: ", 1)[-1]
        recorded = found["anchor"][0]["acquisitions_per_s"]
        ratios = [1 + row["change_percent"] / 100 for row in found["rows"]]
        return ratios, recorded, None

    def measure(self, cpus, program, threads, policies, split):
        """Rates of each policy and of the split lock in turns, and the CPUs of other programs."""
        rates, parts, before = [[] for _ in policies], [], cpu_time(cpus)
        for _ in range(self.flags.pairs):
            for values, policy in zip(rates, policies):
                values.append(self.rate(cpus, program, threads, policy))
            if split:
                parts.append(self.rate(cpus, program, threads, policies[0], split=True))
        seconds, busy, ours = (now - then for now, then in zip(cpu_time(cpus), before))
        return [*rates, parts], max(0.0, (busy - ours) / seconds)

    def program(self, cpus, program):
        """All rows of a program."""
        base, *policies = program.policies
        few, many = self.flags.threads[0], self.flags.threads[: len(THREADS)][-1]
        growth, ends = None, []
        growth_name = f"{program.name}, {cpus} CPU, {base}: {few} to {many} threads"
        names = policies + ([program.split[1]] if program.split else [])
        for threads in self.flags.threads:
            name = f"{program.name}, {cpus} CPU, {threads} threads"
            self.record(cpus, program, threads)
            if threads == few != many:
                growth = self.predict("--policy", base, "--threads", many)
                if growth[2]:
                    self.refuse(growth_name, growth[2], 1)
                    growth = None
            flags = ["--split", program.split[0]] if program.split else []
            ratios, recorded, reason = self.predict("--policy", ",".join(policies), *flags)
            if reason:
                self.refuse(name, reason, len(names))
            is_end = growth is not None and threads in (few, many)
            if not ratios and not is_end:
                continue
            measured = program.policies if ratios else [base]
            split = bool(ratios and program.split)
            rates, others = self.measure(cpus, program, threads, measured, split)
            for name_after, ratio, after in zip(names, ratios, rates[1:]):
                self.add(self.row(program, f"{name}: {name_after}", (ratio, recorded), rates[0], after, others))
            if is_end:
                ends.append((rates[0], others))
        if len(ends) == 2:
            (before, first), (after, last) = ends
            predicted = growth[0][0], growth[1]
            self.add(self.row(program, growth_name, predicted, before, after, max(first, last)))

    def row(self, program, name, predicted, before, after, others):
        ratio, recorded = predicted
        # The loops count acquisitions, the others what they do with them.
        relative = recorded / statistics.median_high(before) if program.counts_acquisitions else 1.0
        return Row(name, ratio, [b / a for a, b in zip(before, after)], relative, others)

    def judge(self, name, rows):
        """The errors of some rows."""
        if not rows:
            return f"{name}: none"
        kept = [row for row in rows if not row.is_bistable]
        signs = [row.sign for row in rows if row.sign is not None]

        def middle(value):
            return statistics.median_high(map(value, kept)) if kept else float("nan")

        return (
            f"{name}, without bistable ones ({len(kept)}): the change is off by"
            f" {middle(lambda row: abs(row.error)):.0f} % (median), by"
            f" {middle(lambda row: row.beyond):.0f} % beyond what repeats differ by; no change would"
            f" be off by {middle(lambda row: 100 * abs(1 / row.measured - 1)):.0f} %; sign right in"
            f" {sum(signs)} of the {len(signs)} rows that show one"
        )

    def summary(self):
        disturbed = sum(row.is_disturbed for row in self.rows)
        bistable = sum(row.is_bistable for row in self.rows)
        self.say(
            f"{len(self.rows)} rows: {disturbed} disturbed by other programs, {bistable} bistable;"
            f" {self.refused} more were refused before they were measured"
        )
        quiet = [row for row in self.rows if not row.is_disturbed]
        self.say(self.judge("undisturbed rows", quiet))
        self.say(self.judge("all rows, the disturbed ones too", self.rows))


def write(text):
    """Puts the rows into the page, with the commit, the date and the command."""
    path = PAGE
    commit = run(["git", "-C", ROOT, "describe", "--always", "--dirty= with changes"]).strip()
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%-d %B %Y, %H:%M UTC")
    command = shlex.join(["cargo", "xtask", "predictions", *sys.argv[1:]])
    part = f"`{command}`\n\nBuild of {commit}, {date}.\n\n```text\n{text}```\n"
    before, rest = path.read_text().split(BEGIN)
    path.write_text(f"{before}{BEGIN}\n{part}\n{END}{rest.split(END)[1]}")


def check():
    """Known answers of the columns and of the readers of rates."""
    after = [1.2, 1.5, 1.3, 1.1, 1.4]
    near = Row("", 1.5, after)
    assert near.beyond < 1e-9 and near.error > 15 and not near.is_bistable
    assert near.sign is True and Row("", 0.9, after).sign is False
    assert abs(Row("", 3.0, after).beyond - 100) < 1e-9
    both = Row("", 0.5, [0.9, 1.0, 1.1, 0.95, 3.0])
    assert both.is_bistable and both.sign is None
    assert Row("", 1.0, [1.0], recorded=0.4).is_bistable
    real = {program.name: program for program in REAL}
    text = "    total time:     0.3200s\n    total number of events:     32\n"
    assert real["sysbench mutex"].rate(text, 32) == 4_000_000
    assert real["sysbench threads"].rate(text, 32) == 100
    text = "readrandom   :      40.116 micros/op 398812 ops/sec 3.0 seconds"
    assert real["db_bench readrandom"].rate(text, 16) == 398_812
    assert LOOPS[0].rate("1234.5\n", 4) == 1234.5
    page = PAGE.read_text()
    assert BEGIN in page and END in page.split(BEGIN)[1]


def numbers(text):
    values = [int(word) for word in text.split(",")]
    if min(values) < 1:
        raise ValueError(text)
    return values


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--real", action="store_true", help="packaged programs instead of loops")
    parser.add_argument("--only", action="append", metavar="NAME", help="a program; repeatable")
    parser.add_argument("--threads", type=numbers, metavar="LIST")
    parser.add_argument("--cpus", type=numbers, metavar="LIST", default=[1, 2])
    parser.add_argument("--pairs", type=int, metavar="N", default=PAIRS)
    parser.add_argument("--rounds", type=int, metavar="N", default=ROUNDS)
    parser.add_argument("--nice", type=int, metavar="N", default=0, help="of measured programs")
    parser.add_argument("--write", action="store_true", help="also into the page")
    parser.add_argument("--check", action="store_true", help="test this program itself")
    parser.add_argument("convoy", nargs="?", type=pathlib.Path, help="default: a release build")
    return parser.parse_args()


def prepare(flags):
    """Makes the programs and their files. Returns the path of convoy."""
    PLACE.mkdir(parents=True, exist_ok=True)
    source = ROOT / "crates/record/tests/programs/rate.c"
    run(["cc", "-O1", "-g", "-pthread", "-o", PLACE / "rate", source])
    if flags.real:
        (PLACE / "through_queue.py").write_text(QUEUE)
        fill = ["--benchmarks=fillrandom", "--num=100000", "--threads=1", f"--db={PLACE}/db"]
        try:
            run(["db_bench", *fill])
        except FileNotFoundError:
            pass
    if flags.convoy:
        return flags.convoy.resolve()
    subprocess.run(
        ["cargo", "build", "--release", "--locked", "--package", "convoy"], cwd=ROOT, check=True
    )
    return ROOT / "target/release/convoy"


def main():
    flags = arguments()
    if flags.check:
        return check()
    flags.threads = flags.threads or (REAL_THREADS if flags.real else THREADS)
    bench = Bench(flags, prepare(flags))
    if (flags.pairs, flags.rounds) != (PAIRS, ROUNDS):
        bench.say(
            f"reduced: {flags.pairs} pairs of runs instead of {PAIRS}, {flags.rounds} rounds of a"
            f" prediction instead of {ROUNDS}"
        )
    head = ["predicted", "measured", "from", "to", "error", "beyond", "others"]
    bench.say(line("", head))
    for cpus in flags.cpus:
        for program in REAL if flags.real else LOOPS:
            if flags.only and program.name not in flags.only:
                continue
            try:
                subprocess.run([program.words(2)[0], "--version"], capture_output=True)
            except FileNotFoundError:
                bench.say(f"{program.name}: not installed, so not measured")
                continue
            bench.program(cpus, program)
    bench.summary()
    if flags.write:
        write(bench.page)


if __name__ == "__main__":
    main()
