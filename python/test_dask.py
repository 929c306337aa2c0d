#!/usr/bin/env python3
"""A sweep on two Dask workers, of which one is killed half-way, gives the bytes of a sweep without.

Usage: test_dask.py PROGRAM, where PROGRAM is the convoy to test. Needs `distributed`.
"""

import pathlib
import subprocess
import sys
import tempfile
import time

import psutil

EXPERIMENT = """
title = "five numbers of users, two kernels, four seeds"
[inputs]
machine = "quad-2008-two-dies"
shrink = 20
[[grid]]
name = "users"
target = "sim"
seeds = 4
compare = { axis = "kernel", baseline = "2.6.25", metric = "jobs_per_min" }
[[grid.axis]]
key = "users"
values = [6, 8, 10, 12, 14]
[[grid.axis]]
key = "kernel"
values = ["2.6.25", "2.6.26-rc1"]
"""
CELLS = 40


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
    program = str(pathlib.Path(sys.argv[1]).resolve())
    driver_script = pathlib.Path(__file__).with_name("convoy_dask.py")
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        experiment = place / "mine.toml"
        experiment.write_text(EXPERIMENT)
        plain, dask = place / "plain", place / "dask"
        subprocess.run(
            [program, "sweep", experiment, "--dir", plain, "--quiet"],
            check=True, stdout=subprocess.DEVNULL,
        )
        driver = subprocess.Popen(
            [sys.executable, driver_script, experiment, "--dir", dask, "--shards", "4",
             "--workers", "2", "--convoy", program],
            stdout=subprocess.PIPE, text=True,
        )
        killed = False
        while driver.poll() is None:
            if not killed and cells(dask) >= CELLS // 4:
                found = busy_worker(driver)
                if found:
                    for process in found:
                        process.kill()
                    killed = True
                    print(f"killed a worker with {cells(dask)} of {CELLS} cells done")
            time.sleep(0.02)
        assert driver.returncode == 0, f"the driver ended with code {driver.returncode}"
        assert killed, "the sweep was over before a worker could be killed"
        for name in ["record.json", "result.csv"]:
            assert (plain / name).read_bytes() == (dask / name).read_bytes(), name
        assert driver.stdout.read().startswith("mine.toml"), "the report comes at the end"
        print(f"{CELLS} cells on two workers, one of them killed: the same bytes")


if __name__ == "__main__":
    main()
