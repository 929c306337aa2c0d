"""The tables of convoy_perf: needs pyarrow, pandas and the program in $CONVOY.

Usage: test_tables.py ORDERS, the program of docs/tutorial.md.
"""

import sys

import pyarrow

import convoy_perf as convoy
from convoy_perf import pytest_benchmark
from convoy_perf._tables import flat, table


def main():
    made = convoy.record([sys.argv[1]])
    for name in ("locks", "waits", "blame", "timeline"):
        rows = getattr(made, name)
        assert isinstance(rows, pyarrow.Table) and rows.num_rows > 0, name
    locks, waits = made.locks.to_pandas(), made.waits.to_pandas()
    assert locks.iloc[0]["name"] == "journals"
    assert locks["wait_percent"].is_monotonic_decreasing
    site = waits[waits["lock"] == "journals"].iloc[0]
    assert site["place"].startswith("note") and site["count"] == 1200
    assert made.blame.column("held_at").to_pylist()[0].startswith("note")
    line = made.timeline.to_pandas()
    assert (line["end_ms"] >= line["start_ms"]).all()
    assert set(line.loc[line["state"] == "waiting for a lock", "lock"]) == {"journals"}

    # Columns exist without rows, and nested objects become columns.
    assert table([], ["a"]).column_names == ["a"]
    assert flat({"a": {"b": 1}, "ci95": [1, 2], "list": []}) == {
        "a_b": 1, "ci95_low": 1, "ci95_high": 2,
    }
    try:
        pytest_benchmark.times(__file__)
    except convoy.UsageError as error:
        assert "no result of pytest-benchmark" in str(error)
    else:
        raise AssertionError("a file that is no result was read")
    print("convoy_perf tables: ok")


if __name__ == "__main__":
    main()
