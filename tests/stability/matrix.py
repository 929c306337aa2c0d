#!/usr/bin/env python3
"""Records programs many times and checks that the answer is right and is the same each time.

usage: matrix.py CONVOY [--only LANGUAGE[/MODE],...] [--records N] [--seconds LIST]
                 [--write FILE]

Each program of programs.toml is recorded in every setting: alone and next to a program that
takes one CPU, as root and as an ordinary user, N times for each number of seconds (or `N,M` times
for the first and the second). An answer is the kind of
the first finding with its lock and its owner, or the first gap, or `quiet`, or `busy-pool` for a
pool that always has work. It is *right* if it is
among the right answers of the program, *honest* if it names a gap or says that too little was
observed, otherwise *wrong*. Of two causes, both must be right. A lock with less than a tenth of the
time is right where `quiet` is. The command fails if more than 1 % of the answers are wrong. Answers
with two causes are left out, as honest ones are, when the answers of one kind are counted.
"""
import argparse
import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LITTLE = ["few-samples", "few-dumps", "java-monitor"]
BUSY = ["sh", "-c", "while :; do :; done"]
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]


PAGE = """# Stability of diagnoses

Programs with one known use of locks, in seven languages, recorded again and again: is the answer
right, and is it the same each time? Each cell has the number of right, honest and wrong answers,
and how many of the answers are the most frequent one (kind and lock). *Honest* answers name a gap
or say that too little was observed. Answers that name two causes are right if both are; they are
left out, as honest ones are, when the answers of one kind are counted. A lock with less than a
tenth of the time is as good as `quiet` where that is right. The sources and the right answers are
in `tests/stability`.

```console
# cargo xtask stability {command}
```

Measured at {commit} on {machine}, with a mean load of {load} in the last 15 minutes.

{summary}
"""


class Answer:
    """What `explain` says first of a record, as facts."""

    def __init__(self, explained):
        findings, quiet = explained["diagnoses"], explained.get("quiet") or {}
        finding = findings[0] if findings else None
        gap = quiet.get("gap")
        self.lock = self.owner = ""
        self.second = None
        self.honest = self.is_minor = False
        self.sentence = explained["verdict"]
        if finding and not quiet:
            self.kind = finding["kind"]
            self.lock = finding.get("lock") or ""
            self.owner = json.dumps(finding["problem"]) + json.dumps(finding.get("waiters"))
            parts = [finding.get(part) for part in ("share", "weight")]
            part = min((part for part in parts if part is not None), default=0)
            self.is_minor = part < 0.1 and self.kind != "deadlock"
            parks = finding["problem"].get("parks", False)
            few = any(gap["gap"] in LITTLE for gap in finding["gaps"])
            self.second = (finding.get("second") or {}).get("problem")
            is_timed = finding["problem"].get("is_timed", True)
            self.honest = parks or few or bool(self.second) or not is_timed
        elif gap:
            name = gap if isinstance(gap, str) else gap.get("gap") or next(iter(gap))
            self.kind, self.honest = f"gap-{name}", True
        else:
            self.kind = "busy-pool" if quiet.get("busy_pool") else "quiet"

    def key(self):
        return (self.kind, self.lock)

    def is_right(self, expected):
        if self.is_minor and "quiet" in expected["right"]:
            return True
        is_named = self.kind in ("quiet", "busy-pool") or self.kind.startswith("gap-") or (
            expected.get("lock", "") in self.lock and expected.get("owner", "") in self.owner)
        are_right = {self.kind, self.second or self.kind} <= set(expected["right"])
        return are_right and is_named


def record(convoy, command, setting, directory):
    file = directory / "record.json"
    file.unlink(missing_ok=True)
    words = [convoy, "record", "-q", "-o", file, "--", *command, setting["seconds"]]
    if setting["user"] == "user":
        words = [*NOBODY, *words]
    subprocess.run(words, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, timeout=120, check=False)
    if not file.exists():
        return None
    explained = subprocess.run([convoy, "explain", file, "--format", "json"], cwd="/",
                               capture_output=True, check=False)
    return Answer(json.loads(explained.stdout)) if explained.returncode == 0 else None


def programs(only):
    """Yields the name of each program, its language's entry and its own."""
    table = tomllib.loads((HERE / "programs.toml").read_text())
    for language, entry in table.items():
        for mode in entry["modes"]:
            name = f"{language}/{mode['mode']}"
            if not only or language in only or name in only:
                yield name, language, entry, mode


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("convoy")
    parser.add_argument("--only", default="")
    parser.add_argument("--records", default="20")
    parser.add_argument("--seconds", default="0.2,5")
    parser.add_argument("--users", default="root,user" if os.getuid() == 0 else "root")
    parser.add_argument("--loads", default="alone,busy")
    parser.add_argument("--write")
    arguments = parser.parse_args()
    directory = pathlib.Path(tempfile.mkdtemp(prefix="stability-"))
    os.chmod(directory, 0o777)
    os.environ["CONVOY_STORE"] = "none"
    convoy = directory / "convoy"
    shutil.copy(arguments.convoy, convoy)
    try:
        rows = measure(arguments, convoy, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    report(rows, arguments)
    answers = sum(row["records"] for row in rows)
    wrong = sum(row["wrong"] for row in rows)
    sys.exit(wrong * 100 > answers)


def measure(arguments, convoy, directory):
    lengths = arguments.seconds.split(",")
    counts = [int(count) for count in arguments.records.split(",")]
    counts = dict(zip(lengths, counts if len(counts) > 1 else counts * len(lengths), strict=True))
    settings = [{"load": load, "user": user, "seconds": seconds}
                for load in arguments.loads.split(",")
                for user in arguments.users.split(",")
                for seconds in lengths]
    built, rows = {}, []
    for name, language, entry, expected in programs(set(filter(None, arguments.only.split(",")))):
        paths = {"binary": directory / language, "directory": directory,
                 "source": directory / pathlib.Path(entry["source"]).name}
        if language not in built:
            built[language] = build(entry, paths)
        if not built[language]:
            print(f"{name}: left out, since it cannot be built or run here", flush=True)
            continue
        command = [*entry["run"].format(**paths).split(), expected["mode"]]
        for setting in settings:
            row = cell(convoy, command, setting, counts[setting["seconds"]], directory, expected)
            row["name"] = name
            rows.append(row)
            print(name, *setting.values(), f"right {row['right']} honest {row['honest']}"
                  f" wrong {row['wrong']} same {row['same']} of {row['records']}", flush=True)
            for sentence in row["sentences"]:
                print("    ", sentence, flush=True)
            for key, count in row["kinds"].most_common() if len(row["kinds"]) > 1 else []:
                print("    ", count, *key, flush=True)
    return rows


def build(entry, paths):
    """Builds the program of a language. Returns whether it can run."""
    shutil.copy(ROOT / entry["source"], paths["source"])
    words = [word.format(**paths) for word in entry.get("build", entry["run"]).split()]
    if not shutil.which(words[0]):
        return False
    return "build" not in entry or subprocess.run(words, cwd=paths["directory"],
                                                  check=False).returncode == 0


def cell(convoy, command, setting, count, directory, expected):
    hog = subprocess.Popen(BUSY) if setting["load"] == "busy" else None
    row = {**setting, "right": 0, "honest": 0, "wrong": 0, "records": 0, "sentences": []}
    row["minor"] = collections.Counter()
    is_quiet = "quiet" in expected["right"]
    keys, kinds = collections.Counter(), collections.Counter()
    try:
        for _ in range(count):
            answer = record(convoy, command, setting, directory)
            row["records"] += 1
            if answer and answer.is_right(expected):
                row["right"] += 1
            elif answer and answer.honest:
                row["honest"] += 1
            else:
                row["wrong"] += 1
                row["sentences"].append(
                    f"{answer.kind} {answer.lock}: {answer.sentence}" if answer else "no record")
            keys[answer.key() if answer else None] += 1
            if not (answer and answer.honest):
                key = answer.key() if answer else (None, None)
                row["minor"][key] += bool(answer and answer.is_minor and is_quiet)
                kinds[key] += 1
    finally:
        if hog:
            hog.kill()
            hog.wait()
    row["same"] = max(keys.values())
    row["kinds"] = kinds
    return row


def report(rows, arguments):
    total = collections.Counter()
    for row in rows:
        for key in ("right", "honest", "wrong", "same", "records"):
            total[key] += row[key]
    summary = (f"{total['records']} records: right {total['right']}, honest {total['honest']}, "
               f"wrong {total['wrong']}, same answer {total['same']}")
    counted = [kinds_of_programs(rows, "kinds", parts) for parts in (1, 2)]
    steady = [steady_programs(kinds, rows, parts) for parts, kinds in enumerate(counted, 1)]
    kinds, locks = (sum(programs.values()) for programs in steady)
    summary += (f". For {kinds} of\n{len(steady[0])} programs at most 5 % of the answers, honest ones left out, "
                f"are of another kind than\nmost; for {locks} of another kind or lock.")
    print(summary)
    for name, is_steady in steady[1].items():
        if not is_steady:
            print(name, *counted[1][name].most_common())
    if arguments.write:
        commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=8", "HEAD"],
                                capture_output=True, text=True, check=False).stdout.strip()
        page = PAGE.format(summary=summary, commit=commit, command=" ".join(sys.argv[2:]),
                           machine=f"{os.cpu_count()} CPUs, Linux {os.uname().release}",
                           load=f"{os.getloadavg()[2]:.0f}")
        pathlib.Path(arguments.write).write_text("\n".join([page, *table(rows)]) + "\n")


def kinds_of_programs(rows, column, parts):
    """Returns for each program how often each kind (and lock, with two parts) was the answer."""
    kinds = collections.defaultdict(collections.Counter)
    for row in rows:
        for key, count in row[column].items():
            kinds[row["name"]][key[:parts]] += count
    return kinds


def steady_programs(kinds, rows, parts):
    """Returns for each program whether nearly all of its answers are honest or of one kind. A lock
    with little time is as good as none where none is right."""
    minor = kinds_of_programs(rows, "minor", parts)
    records = collections.Counter()
    for row in rows:
        records[row["name"]] += row["records"]
    others = {name: count_others(kinds[name], minor[name]) for name in records}
    return {name: others[name] <= 0.05 * count for name, count in records.items()}


def count_others(kinds, minor):
    """Returns how many answers differ from the most frequent one."""
    most = max(kinds, key=kinds.get, default=None)
    others = kinds.total() - kinds[most]
    return others - minor.total() + minor[most] if most and most[0] == "quiet" else others


def table(rows):
    """Returns the lines of a table with a row for each program and a column for each setting."""
    columns = list(dict.fromkeys((row["load"], row["user"], row["seconds"]) for row in rows))
    cells = {(row["name"], row["load"], row["user"], row["seconds"]): row for row in rows}
    yield "| program | " + " | ".join(f"{load}, {user}, {s} s" for load, user, s in columns) + " |"
    yield "|---" * (1 + len(columns)) + "|"
    for name in dict.fromkeys(row["name"] for row in rows):
        texts = []
        for column in columns:
            row = cells[(name, *column)]
            texts.append(f"{row['right']}/{row['honest']}/{row['wrong']}, {row['same']}")
        yield f"| {name} | " + " | ".join(texts) + " |"


main()
