#!/usr/bin/env python3
"""Compares the sentence of `convoy top` with the diagnosis of a record of the same load.

usage: live.py CONVOY [--only NAME,...] [--rounds N] [--seconds S]

Each server is started plain and gets its load from cost.py; the requests of the services in Go and
Java share a lock. While the load runs, `convoy top --once` observes it, and then `convoy record --pid`
for S seconds. Both agree if their first sentences do, apart from figures. The cost is that of `top`,
in percent of a CPU. As root; exit code 1: fewer than nine of ten agree; 2: no server is installed.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import cost

SERVERS = ["mariadb", "nginx", "java", "go", "redis"]
SHARED = """synchronized (Main.class) {{
                long sum = 0;
                for (int step = 0; step < 300_000; step++) sum += sum ^ step;
                total += sum;
            }}
            exchange.send"""


def share():
    """Makes the requests of two services share a lock."""
    go = (cost.HERE / "service.go").read_text().replace("/hit", "/")
    go = go.replace("{", "{{").replace("}", "}}")
    java = cost.JAVA.replace("exchange.send", SHARED, 1)
    java = java.replace("public static void main", "static long total;\n\n    public static void main")
    for name, file, text in ("go", "main.go", go), ("java", "Main.java", java):
        _, before, command, *load = cost.SERVERS[name]
        command = [*command, "{port}"] if name == "go" else command
        cost.SERVERS[name] = ({file: text}, before, command, *load)


def first_sentence(verdict):
    """Returns the first sentence without its figures."""
    return re.sub(r"[0-9][0-9.]*( ?(%|us|ms|ns|s)\\b)?", "N", re.split(r"[.:] ", verdict)[0])


def answer(words):
    """Returns the JSON that a command prints."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{words}: {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def compared(server, convoy, seconds):
    """Returns the two verdicts, and the cost of `top` in percent of a CPU."""
    running = server.start([])
    load = subprocess.Popen(server.filled(server.load), stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)
    time.sleep(1)
    record = server.directory / "record.json"
    target = ["--pid", str(running.pid)]
    live = answer([convoy, "top", *target, "--once", "--format", "json"])
    subprocess.run([convoy, "record", "-q", *target, "--seconds", str(seconds), "-o", record],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    load.wait()
    server.end(running)
    whole = answer([convoy, "explain", record, "--format", "json"])
    return live["verdict"], whole["verdict"], live["cost_percent"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("convoy")
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=3)
    arguments = parser.parse_args()
    convoy = pathlib.Path(arguments.convoy).resolve()
    only = set(filter(None, arguments.only.split(",")))
    share()
    agreed = tried = 0
    with tempfile.TemporaryDirectory() as place:
        pathlib.Path(place).chmod(0o755)
        for name in SERVERS:
            # The load outlives both observations.
            server = cost.Server(name, convoy, pathlib.Path(place), arguments.seconds + 9, [])
            if only and name not in only or not server.is_installed():
                continue
            server.prepare()
            for _ in range(arguments.rounds):
                live, whole, percent = compared(server, convoy, arguments.seconds)
                agrees = first_sentence(live) == first_sentence(whole)
                tried, agreed = tried + 1, agreed + agrees
                print(f"{name}: {'agree' if agrees else 'differ'}, {percent:.2f} % of a CPU\n"
                      f"  top:    {live}\n  record: {whole}", flush=True)
    if not tried:
        return 2
    print(f"{agreed} of {tried} agree")
    return 1 if agreed < 0.9 * tried else 0


if __name__ == "__main__":
    sys.exit(main())
