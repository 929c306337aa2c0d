#!/usr/bin/env bash
# The tests that need Python packages, with the program CONVOY. Each installs its packages in
# target/python; exit code 2: python3 with venv and pip, or a package index is missing.
# usage: python/tests/run.sh CONVOY dask [FLAG]... | notebooks | pipelines | perfetto
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/../.."
convoy=$(realpath "$1") kind=$2
shift 2
export CONVOY=$convoy CONVOY_STORE=none PYTHONPATH=$PWD/python

# environment PYTHON PACKAGE...: prepares target/python/PYTHON with these packages.
environment() {
    "$1" -m venv "target/python/$1" &&
        "target/python/$1/bin/python" -m pip install --quiet --timeout 20 "${@:2}"
} >/dev/null 2>&1

python=target/python/python3/bin/python
case $kind in
    dask)
        python3 python/tests/wheel.py
        environment python3 distributed==2026.8.0 || exit 2
        "$python" python/test_dask.py "$convoy" "$@" ;;
    notebooks)
        environment python3 nbclient==0.11.0 ipykernel==7.4.0 pyarrow==26.0.1 pandas==3.1.1 \
            matplotlib==3.11.2 || exit 2
        orders=$PWD/target/python/orders
        cc -O1 -g -pthread -o "$orders" examples/slow-program/orders.c
        # The tables with the oldest and the newest supported version.
        for version in python3.9 python3.13; do
            if environment "$version" pyarrow pandas; then
                "target/python/$version/bin/python" python/tests/test_tables.py "$orders"
            else
                echo "$version is not installed here, or has no package index: left out"
            fi
        done
        PATH=$PWD/target/python/python3/bin:$PATH python3 python/tests/notebooks.py notebooks/* ;;
    pipelines)
        environment python3 pytest-benchmark==5.3.1 || exit 2
        PATH=$PWD/target/python/python3/bin:$PATH ci/test.sh "$convoy" ;;
    perfetto)
        # Its generated classes are the published schema of traces.
        environment python3 perfetto || exit 2
        "$convoy" explain semaphore-2008 --kernel 2.6.26-rc1 --trace target/nightly.pftrace
        "$python" tests/perfetto/decode.py target/nightly.pftrace ;;
esac
