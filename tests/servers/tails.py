#!/usr/bin/env python3
"""Measures ten programs under `convoy with --mutex fair`: throughput and tails of requests.

usage: tails.py CONVOY [--only NAME,...] [--pairs N] [--seconds S] [--policy POLICY] [--write FILE]

Each program runs plain and with POLICY in random order, once in each pair, under the same load for
S seconds. Figures are medians over the pairs of the ratio to the plain run of the same pair, with
the least and the most. Programs that are not installed are left out. As root. --write replaces the
table in FILE. Exit code 1: a median exceeds its limit; 2: none is installed.
"""
import argparse
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile

import cost
import generated

# The least throughput, and the longest percentiles, relative to the plain run.
LIMITS = (0.95, 1.2, 1.5)
LUA = """done = function(result, latency)
  print(string.format("tails %d %d %d", result.requests, latency:percentile(99),
                      latency:percentile(99.9)))
end
"""
# Eight threads that read rows by their key, each with a connection: SECONDS FILE.
SQLITE = """#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double end;
static const char *file;

static double now(void) {{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}}

static void *reads(void *number) {{
    unsigned seed = (unsigned)(long)number;
    sqlite3 *database;
    sqlite3_stmt *row;
    sqlite3_open(file, &database);
    sqlite3_prepare_v2(database, "select word from rows where id = ?", -1, &row, 0);
    for (double begin = now(); begin < end;) {{
        sqlite3_bind_int(row, 1, rand_r(&seed) % 10000);
        sqlite3_step(row);
        sqlite3_reset(row);
        double then = now();
        printf("%.1f\\n", (then - begin) * 1e6);
        begin = then;
    }}
    return 0;
}}

int main(int count, char **words) {{
    pthread_t threads[8];
    sqlite3 *database;
    file = words[2];
    sqlite3_open(file, &database);
    sqlite3_exec(database, "create table if not exists rows (id integer primary key, word);"
                 "insert or ignore into rows with recursive n(i) as (select 0 union all select"
                 " i + 1 from n where i < 9999) select i, hex(randomblob(50)) from n", 0, 0, 0);
    end = now() + atof(words[1]);
    for (long number = 0; number < 8; number++)
        pthread_create(&threads[number], 0, reads, (void *)number);
    for (int number = 0; number < 8; number++)
        pthread_join(threads[number], 0);
}}
"""
# Compresses a file of 8 MB again and again with two threads, for SECONDS: DIRECTORY.
ZSTD = ("head -c 6000000 /dev/urandom | base64 > {dir}/data; count=0;"
        " end=$(($(date +%s) + {seconds}));"
        " while [ $(date +%s) -lt $end ]; do zstd -T2 -3 -q -f {dir}/data -o {dir}/packed;"
        " count=$((count + 1)); done; echo tails $count 0 0")
WRK = [*cost.HTTP[:-1], "-s", "{dir}/tails.lua", cost.HTTP[-1] + "index.html"]


def last_line(text, _):
    """The line `tails REQUESTS P99 P99.9` of a load."""
    return [float(word) for word in re.search(r"tails (\S+) (\S+) (\S+)", text).groups()]


def percentiles(latencies):
    """Requests and percentiles of a list."""
    ordered = sorted(latencies)
    return [len(ordered), *(ordered[int(share * len(ordered))] for share in (0.99, 0.999))]


def histogram(text, _):
    """The histogram of sysbench."""
    bins = re.findall(r"^ +([\d.]+) \|[ *]+ (\d+)$", text, re.MULTILINE)
    return percentiles([float(value) for value, count in bins for _ in range(int(count))])


def log_file(_, directory):
    """The log of pgbench."""
    latencies = []
    for log in directory.glob("pgbench*"):
        latencies += [float(line.split()[2]) for line in log.read_text().splitlines()]
        log.unlink()
    return percentiles(latencies)


def each_line(text, _):
    """One latency on each line."""
    return percentiles([float(line) for line in text.splitlines()])


def summary(text, _):
    """The report of redis-benchmark."""
    rate = float(re.search(r"throughput summary: ([\d.]+)", text)[1])
    shares = [(float(share), float(ms)) for share, ms in
              re.findall(r"([\d.]+)% <= ([\d.]+) milliseconds \(cum", text)]
    return [rate, *(next(ms for share, ms in shares if share >= least) for least in (99, 99.9))]


# The load of each server with the function that reads its figures, or the program that is itself
# the load, with its files and the commands before it.
LOADS = {
    "mariadb": ([*cost.SERVERS["mariadb"][3][:-1], "--histogram=on", "run"], histogram),
    "postgresql": ([*cost.SERVERS["postgresql"][3][:-1], "-l", "--log-prefix={dir}/pgbench",
                    "postgres"], log_file),
    "redis": (["redis-benchmark", "-p", "{port}", "-t", "get", "-n", "{seconds}00000"],
              summary),
    "memcached": (cost.SERVERS["memcached"][3], last_line),
    "apache": (WRK, last_line),
    "mosquitto": (cost.SERVERS["mosquitto"][3], last_line),
    "python": (WRK, last_line),
    "java": (WRK, last_line),
}
PROGRAMS = {
    "sqlite": ({"c.c": SQLITE}, [["cc", "-O2", "{dir}/c.c", "-o", "{dir}/c", "-lsqlite3"]],
               ["{dir}/c", "{seconds}", "{dir}/rows"], each_line),
    "zstd": ({}, [["zstd", "--version"]], ["sh", "-c", ZSTD], last_line),
}


class Program(cost.Server):
    """A server with a load, or a program that is its own load."""

    def __init__(self, name, *arguments):
        if name in PROGRAMS:
            files, before, load, self.figures = PROGRAMS[name]
            cost.SERVERS[name] = files, before, [], load, None
        super().__init__(name, *arguments)
        if name in LOADS:
            self.load, self.figures = LOADS[name]
            self.files = {**self.files, "tails.lua": LUA}

    def is_installed(self):
        self.command = self.command or ["true"]
        installed = super().is_installed()
        self.command = [] if self.name in PROGRAMS else self.command
        return installed

    def tails(self, policy):
        """Returns requests in a run, or each second, and the percentiles of their latency."""
        words = [str(self.convoy), "with", "--mutex", policy, "--"] if policy else []
        server = self.start(words) if self.command else None
        load = self.filled([*([] if server else words), *self.load])
        done = subprocess.run(load, capture_output=True, text=True, check=False)
        if server:
            self.end(server)
        try:
            return self.figures(done.stdout, self.directory)
        except (AttributeError, IndexError, StopIteration) as reason:
            raise RuntimeError(f"{self.name}: no figures: {done.stdout}{done.stderr}") from reason


def ratios(program, policy, pairs):
    """Returns the plain requests, and the ratios of throughput and of each percentile."""
    plain, columns = [], [[], [], []]
    for _ in range(pairs):
        runs = {mode: program.tails(mode) for mode in random.sample([None, policy], 2)}
        plain.append(runs[None][0])
        for column, with_policy, without in zip(columns, runs[policy], runs[None]):
            if without:
                column.append(with_policy / without)
    return plain, columns


def cell(values):
    """Returns the median and the range."""
    if not values:
        return "–"
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def is_over(columns):
    """Returns whether a median is beyond its limit."""
    rate, *tails = [statistics.median(column) if column else None for column in columns]
    return rate < LIMITS[0] or any(tail and tail > limit for tail, limit in zip(tails, LIMITS[1:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("convoy")
    parser.add_argument("--only", default="")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--policy", default="fair")
    parser.add_argument("--write")
    arguments = parser.parse_args()
    os.environ["CONVOY_STORE"] = "none"
    convoy = pathlib.Path(arguments.convoy).resolve()
    only = set(filter(None, arguments.only.split(",")))
    lines = ["| program | plain, requests | throughput | p99 | p99.9 |", "|---" * 5 + "|"]
    over = []
    with tempfile.TemporaryDirectory() as place:
        pathlib.Path(place).chmod(0o755)
        for name in [*LOADS, *PROGRAMS]:
            program = Program(name, convoy, pathlib.Path(place), arguments.seconds, [])
            if only and name not in only or not program.is_installed():
                continue
            program.prepare()
            plain, columns = ratios(program, arguments.policy, arguments.pairs)
            cells = [cell(column) for column in columns]
            lines.append(f"| {name} | {statistics.median(plain):.0f} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
            over += [name] if is_over(columns) else []
    if len(lines) == 2:
        return 2
    print("over a limit:", ", ".join(over) or "none")
    if arguments.write:
        words = ["CONVOY", *sys.argv[2:]]
        generated.replace(arguments.write, "tests/servers/tails.py", words, lines)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
