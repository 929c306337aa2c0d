#!/usr/bin/env python3
"""A sweep on Dask workers, one of which is killed, gives the bytes of a sweep without them.

Usage: test_dask.py PROGRAM [--cells N] [--workers N], where PROGRAM is the convoy to test. Needs
`distributed`, which `python/tests/run.sh` installs. `cargo xtask nightly` runs 1,000 cells on four workers.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import time

import psutil

EXPERIMENT = """
title = "five numbers of users, two kernels, several seeds"
[inputs]
machine = "quad-2008-two-dies"
shrink = 20
[[grid]]
name = "users"
target = "sim"
seeds = SEEDS
compare = { axis = "kernel", baseline = "2.6.25", metric = "jobs_per_min" }
[[grid.axis]]
key = "users"
values = [6, 8, 10, 12, 14]
[[grid.axis]]
key = "kernel"
values = ["2.6.25", "2.6.26-rc1"]
"""
PER_SEED = 10


def cells(directory):
    """Complete cells."""
    return sum(1 for path in directory.glob("cells/*") if not path.suffix)


def busy_worker(driver):
    """A worker of the driver that runs a shard."""
    for child in psutil.Process(driver.pid).children(recursive=True):
        try:
            if child.name() == "convoy":
                return child.parent(), child
        except psutil.Error:
            continue
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--cells", type=int, default=40, help="a multiple of 10")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    if args.cells < PER_SEED or args.cells % PER_SEED:
        parser.error("--cells must be a multiple of 10")
    program = str(pathlib.Path(args.program).resolve())
    driver_script = pathlib.Path(__file__).with_name("convoy_dask.py")
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        experiment = place / "mine.toml"
        experiment.write_text(EXPERIMENT.replace("SEEDS", str(args.cells // PER_SEED)))
        plain, dask = place / "plain", place / "dask"
        begin = time.monotonic()
        subprocess.run(
            [program, "lab", "sweep", experiment, "--dir", plain, "--quiet"],
            check=True, stdout=subprocess.DEVNULL,
        )
        plain_s, begin = time.monotonic() - begin, time.monotonic()
        driver = subprocess.Popen(
            [sys.executable, driver_script, experiment, "--dir", dask,
             "--shards", str(2 * args.workers), "--workers", str(args.workers),
             "--convoy", program],
            stdout=subprocess.PIPE, text=True,
        )
        killed = False
        while driver.poll() is None:
            if not killed and cells(dask) >= args.cells // 4:
                found = busy_worker(driver)
                if found:
                    for process in found:
                        process.kill()
                    killed = True
                    print(f"killed a worker with {cells(dask)} of {args.cells} cells done")
            time.sleep(0.02)
        assert driver.returncode == 0, f"the driver ended with code {driver.returncode}"
        assert killed, "the sweep was over before a worker could be killed"
        for name in ["record.json", "result.csv"]:
            assert (plain / name).read_bytes() == (dask / name).read_bytes(), name
        assert driver.stdout.read().startswith("mine.toml"), "the report comes at the end"
        size = sum((plain / name).stat().st_size for name in ["record.json", "result.csv"])
        print(f"{args.cells} cells on {args.workers} workers, one of them killed: the same {size} "
              f"bytes, in {time.monotonic() - begin:.0f} s; without Dask {plain_s:.0f} s")


if __name__ == "__main__":
    main()
