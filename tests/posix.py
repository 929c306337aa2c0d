#!/usr/bin/env python3
"""Programs of the Open POSIX test suite for threads and semaphores: each must end in the same way
without convoy, recorded, and with other locks.

Usage: posix.py CONVOY [--bless] [NAME...]. OPEN_POSIX_SUITE is testcases/open_posix_testsuite of a
checkout of the Linux Test Project; exit code 2: it is missing. NAME is the beginning of the name of
a program, such as pthread_mutex_ or sem_wait/7-1. --bless writes how the programs ended without convoy to
tests/posix.txt. Exit code 1: a program ended differently, and that is not listed as known.
"""

import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

LIST = pathlib.Path(__file__).resolve().parent / "posix.txt"
# Seconds after which a program counts as hung: the longest one sleeps for 20.
PATIENCE = 60
RECORD = ["record", "--quiet", "--kernel", "off", "--java", "off", "--output", "/dev/null"]
MODES = {
    "recorded": [*RECORD, "--"],
    "contended": [*RECORD, "--contended", "--"],
    **{policy: ["with", "--mutex", policy, "--"] for policy in ("spin", "sleep", "fair")},
    "handoff": ["with", "--mutex", "handoff", "--sem", "handoff", "--"],
}


def listed():
    """The plain ending of each program, and the modes in which it is known to end differently."""
    entries = {}
    for line in LIST.read_text().splitlines():
        words = line.split("#")[0].split()
        if words:
            entries[words[0]] = (words[1], dict(word.split("=") for word in words[2:]))
    return entries


def bless(found):
    """Adds the plain endings of programs to the list."""
    lines = LIST.read_text().splitlines()
    comment = [line for line in lines if line.startswith("#")]
    entries = {line.split()[0]: line for line in lines if line and not line.startswith("#")}
    for name, plain in found.items():
        rest = entries.get(name, f"{name} {plain}").split(maxsplit=2)[2:]
        entries[name] = " ".join([name, plain, *rest])
    LIST.write_text("\n".join([*comment, *(line for _, line in sorted(entries.items())), ""]))


def ending(command, environment, directory):
    """The exit code or signal of a program, or `hangs`."""
    process = subprocess.Popen(
        command,
        env=environment,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        code = process.wait(PATIENCE)
        # A shell, and convoy, add 128 to a signal.
        return str(128 - code if code < 0 else code)
    except subprocess.TimeoutExpired:
        return "hangs"
    finally:
        try:
            os.killpg(process.pid, 9)
        except ProcessLookupError:
            pass
        process.wait()


def compiled(suite, name, directory):
    """The path of a compiled program; None if it does not compile."""
    program = directory / name.replace("/", "-")
    source = suite / "conformance/interfaces" / f"{name}.c"
    flags = ["-std=gnu99", "-O1", "-w", "-pthread", "-I", suite / "include", "-I", source.parent]
    words = ["cc", *flags, "-o", program, source, suite / "lib/common.c", "-lrt", "-lm"]
    done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return program if done.returncode == 0 else None


def compare(convoy, program, environment, directory):
    """The ending of a program without convoy, and those that differ from it by mode. An ending that
    differs is observed again, together with the one without convoy."""
    plain = ending([program], environment, directory)
    others = {}
    for mode, words in MODES.items():
        for _ in range(3):
            other = ending([convoy, *words, program], environment, directory)
            if other == plain:
                break
            plain = ending([program], environment, directory)
        if other != plain:
            others[mode] = other
    return plain, others


def main():
    """Compares all programs."""
    words = [word for word in sys.argv[1:] if word != "--bless"]
    suite = os.environ.get("OPEN_POSIX_SUITE")
    if not words or not suite:
        print("posix: no CONVOY, or OPEN_POSIX_SUITE is not set", file=sys.stderr)
        return 2
    suite, convoy = pathlib.Path(suite).resolve(), str(pathlib.Path(words[0]).resolve())
    interfaces = suite / "conformance/interfaces"
    sources = sorted([*interfaces.glob("pthread_*/*-*.c"), *interfaces.glob("sem_*/*-*.c")])
    names = [str(source.relative_to(interfaces).with_suffix("")) for source in sources]
    names = [name for name in names if name.startswith(tuple(words[1:] or [""]))]
    entries, failed, found = listed(), 0, {}
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        # With a store, the cost of wakeups is measured once.
        environment = {**os.environ, "CONVOY_STORE": str(place / "runs.sqlite3")}
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            programs = dict(zip(names, pool.map(lambda name: compiled(suite, name, place), names)))
            there = {name: program for name, program in programs.items() if program}

            def compared(name):
                return compare(convoy, there[name], environment, place)

            for name, (plain, others) in zip(there, pool.map(compared, there)):
                found[name] = plain
                usual, known = entries.get(name, (plain, {}))
                if plain != usual:
                    print(f"{name}: {plain} plain, {usual} in the list")
                for mode, other in others.items():
                    is_known = known.get(mode) == other
                    failed += not is_known
                    print(f"{name}: {plain} plain, {other} {mode}{' (known)' if is_known else ''}")
    if "--bless" in sys.argv:
        bless(found)
    missing = [name for name in entries if name.startswith(tuple(words[1:] or [""])) and name not in found]
    print(
        f"posix: {len(found)} programs of {len(names)} compile, {failed} of "
        f"{len(found) * len(MODES)} endings differ, {len(missing)} listed programs are missing"
    )
    return 1 if failed or missing or not found else 0


if __name__ == "__main__":
    sys.exit(main())
