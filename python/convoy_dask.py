#!/usr/bin/env python3
"""Runs a sweep of convoy on a Dask cluster.

Every shard is `convoy lab sweep FILE --dir DIR --shard I/N` on some worker. DIR must be one that all
workers see. A shard whose worker dies is given to another one; what it had finished is kept. At the
end `convoy lab sweep FILE --dir DIR` runs here, finds every cell and prints the report.
"""

import argparse
import subprocess
import sys

from distributed import Client, LocalCluster, as_completed


def shard(program, arguments, index, count):
    """One shard, in a process of its own. Returns its exit code and what it said."""
    command = [*program, *arguments, "--shard", f"{index}/{count}", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, (done.stderr or done.stdout).strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", help="a shipped experiment or the path of a file")
    parser.add_argument("--dir", required=True, help="the directory of the cells")
    parser.add_argument("--shards", type=int, default=16, help="parts of the sweep (default 16)")
    parser.add_argument("--scheduler", help="address of a Dask scheduler; else a local cluster")
    parser.add_argument("--workers", type=int, default=2, help="of a local cluster (default 2)")
    parser.add_argument("--retries", type=int, default=10, help="tries after the death of a worker")
    parser.add_argument("--convoy", default="convoy", help="the program (default convoy)")
    parser.add_argument("rest", nargs="*", help="after --: further flags of convoy lab sweep")
    args = parser.parse_args()
    if args.shards < 1:
        parser.error("--shards must be at least 1")

    arguments = ["lab", "sweep", args.experiment, "--dir", args.dir, *args.rest]
    program = [args.convoy]
    cluster = None
    if not args.scheduler:
        cluster = LocalCluster(n_workers=args.workers, threads_per_worker=1, dashboard_address=None)
    with Client(args.scheduler or cluster) as client:
        futures = [
            client.submit(
                shard, program, [*arguments, "--threads", "1"], index, args.shards,
                pure=False, retries=args.retries,
            )
            for index in range(1, args.shards + 1)
        ]
        for done, future in enumerate(as_completed(futures), start=1):
            code, said = future.result()
            if code != 0:
                print(f"convoy_dask: a shard ended with code {code}: {said}", file=sys.stderr)
                client.cancel(futures)
                return code
            print(f"convoy_dask: {done} of {args.shards} shards are done", file=sys.stderr)
    if cluster:
        cluster.close()
    return subprocess.run([*program, *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
