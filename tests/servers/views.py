#!/usr/bin/env python3
"""Records servers under load and compares the first sentence with samples of /proc.

usage: views.py CONVOY [--only NAME,...] [--seconds S] [--idle RECORDS] [--write FILE]

Each server of cost.py is started as the load needs it, recorded, and sampled from outside: in which
part of the samples its threads run or could run, sleep in futex(2) with the arguments of a wait for
a lock of libc (a private word with the value 2), sleep in it otherwise, or sleep elsewhere. The time
in such waits, and the time that Convoy found, are in the table in seconds. Locks of a language's
runtime, rwlocks and semaphores cannot be told from conditions in this way. With --idle, each server
is recorded so many times without a load instead, and the table has the first sentences that are
about a lock; the exit code is then 1 if there are any. As root.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import cost

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import generated  # noqa: E402

FUTEX, OF_A_LOCK = "202", (0x80, 2)
PERIOD_S = 0.02
LOADED = ["| server | Convoy | waits for locks | samples of /proc | run | lock | futex | other |",
          "|---" * 8 + "|"]
IDLE = ["| server | records | about a lock | sentences |", "|---" * 4 + "|"]


def state(task):
    """Returns what a thread does."""
    try:
        words = (task / "syscall").read_text().split()
    except OSError:
        return None
    if words[0] == "running":
        return "runs"
    if words[0] != FUTEX:
        return "sleeps"
    operation, value = (int(words[at], 16) & 0xFFFFFFFF for at in (2, 3))
    return "lock" if (operation, value) == OF_A_LOCK else "futex"


class Sampler(threading.Thread):
    """Samples the descendants of a process until it is told to end."""

    def __init__(self, root):
        super().__init__()
        self.root, self.counts, self.is_over = root, {}, False
        self.begin = time.monotonic()

    def run(self):
        rounds = 0
        while not self.is_over:
            if rounds % 25 == 0:
                parents = {pid: parent for pid, (parent, _) in cost.cpu_times().items()}
                mine, size = {self.root}, 0
                while len(mine) != size:
                    size = len(mine)
                    mine |= {pid for pid, parent in parents.items() if parent in mine}
                mine.discard(self.root)
            rounds += 1
            for pid in mine:
                for task in pathlib.Path(f"/proc/{pid}/task").glob("*"):
                    kind = state(task)
                    self.counts[kind] = self.counts.get(kind, 0) + 1
            time.sleep(PERIOD_S)
        # Each sample of a thread stands for the mean time between two.
        self.each_s = (time.monotonic() - self.begin) / max(rounds, 1)


def view(server, file):
    """Returns what Convoy says, the time that it found in waits for locks, and the samples."""
    recorder = server.start([server.convoy, "record", "-q", "-o", file, "--"])
    sampler = Sampler(recorder.pid)
    sampler.start()
    subprocess.run(server.filled(server.load), capture_output=True, check=False)
    sampler.is_over = True
    sampler.join()
    server.end(recorder)
    explained = subprocess.run([server.convoy, "explain", file, "--format", "json"], check=True,
                               capture_output=True)
    explained = json.loads(explained.stdout)
    record = json.loads(pathlib.Path(file).read_text())
    locks = [lock for process in record["processes"]
             for lock in process.get("locks", []) + process.get("futexes", [])
             if lock["kind"] in ("mutex", "futex")]
    waited_s = sum(site["wait"]["total_s"] for lock in locks for site in lock["sites"]
                   if site["act"] == "lock")
    return explained["verdict"], waited_s, sampler


def idle(server, file, seconds, records):
    """Returns the first sentences about a lock in records of the server without a load."""
    sentences = []
    for _ in range(records):
        recorder = server.start([server.convoy, "record", "-q", "-o", file, "--"])
        time.sleep(seconds)
        server.end(recorder)
        explained = subprocess.run([server.convoy, "explain", file, "--format", "json"], check=True,
                                   capture_output=True)
        explained = json.loads(explained.stdout)
        if explained["diagnoses"] and not explained.get("quiet"):
            sentences.append(explained["verdict"].split(". ")[0])
    return sentences


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("convoy")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--idle", type=int, default=0)
    parser.add_argument("--write")
    arguments = parser.parse_args()
    os.environ["CONVOY_STORE"] = "none"
    convoy = pathlib.Path(arguments.convoy).resolve()
    only, wrong = set(filter(None, arguments.only.split(","))), 0
    lines = IDLE if arguments.idle else LOADED
    with tempfile.TemporaryDirectory() as place:
        pathlib.Path(place).chmod(0o755)
        for name in cost.SERVERS:
            server = cost.Server(name, convoy, pathlib.Path(place), arguments.seconds, [])
            if only and name not in only or not server.is_installed():
                continue
            server.prepare()
            if arguments.idle:
                sentences = idle(server, str(server.directory / "record.json"), arguments.seconds,
                                 arguments.idle)
                wrong += len(sentences)
                lines.append(f"| {name} | {arguments.idle} | {len(sentences)} | "
                             f"{'; '.join(sorted(set(sentences)))} |")
                print(lines[-1], flush=True)
                continue
            verdict, waited_s, sampler = view(server, str(server.directory / "record.json"))
            counts = sampler.counts
            part = {kind: counts.get(kind, 0) / max(sum(counts.values()), 1)
                    for kind in ("runs", "lock", "futex", "sleeps")}
            sentence = verdict.split(". ")[0].rstrip(".")
            lines.append(f"| {name} | {sentence} | {waited_s:.2f} s | "
                         f"{counts.get('lock', 0) * sampler.each_s:.2f} s | "
                         + " | ".join(f"{100 * share:.0f} %" for share in part.values()) + " |")
            print(lines[-1], flush=True)
    if arguments.write:
        script = "tests/servers/views.py" + (" --idle" if arguments.idle else "")
        generated.replace(arguments.write, script, sys.argv[2:], lines)
    return 2 if len(lines) == 2 else 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
