#!/usr/bin/env python3
"""The installed package with its own program and without pyarrow.

Usage: installed.py ORDERS, the program of docs/tutorial.md. `cargo xtask dist --check` runs it.
"""

import pathlib
import sys
import tempfile

import convoy_perf as convoy


def fails(kind, call):
    """Returns the error of `call`, which must be a `kind`."""
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def main():
    orders = sys.argv[1]
    beside = pathlib.Path(sys.executable).parent / "convoy"
    assert convoy.program() == str(beside), convoy.program()
    assert convoy.version() == "0.1.0", convoy.version()

    made = convoy.record([orders])
    assert made.exit_code == 0
    assert "waiting for `journals`" in made.verdict, made.verdict
    assert made.explanation["locks"][0]["name"] == "journals"
    waits = [row for row in made.activity if row["state"] == "waiting for a lock"]
    assert waits and all(row["lock"] == "journals" for row in waits)
    assert len({row["tid"] for row in waits}) == 12
    assert all(row["end_ms"] >= row["start_ms"] for row in made.activity)

    with tempfile.TemporaryDirectory() as place:
        file = pathlib.Path(place, "before.json")
        made.save(file)
        again = convoy.Record.load(file)
        assert again.verdict == made.verdict
        text = pathlib.Path(place, "text.json")
        text.write_text("no record")
        assert fails(convoy.UsageError, lambda: convoy.Record.load(text)).code == 2
        made.report(pathlib.Path(place, "page.html"))
        assert pathlib.Path(place, "page.html").stat().st_size > 10_000

    # On a machine whose CPUs other programs use, both may refuse, with the reason.
    made_for = convoy.predict(made, cpus=[2, 8], policy="sleep", rounds=1)
    cpus = [row["cpus"] for row in made_for["rows"] if row["policy"] == "sleep"]
    assert cpus == [2, 8] or any(doubt["refuses"] for doubt in made_for["doubts"]), made_for
    fix = made.fix(split=6, rounds=1)
    assert "journals" in fix["advice"] or fix["doubts"], fix

    # Times that the commands print, so that other programs cannot change the verdict.
    slow, fast = "echo $((2000 + $$ % 7))", "echo $((1000 + $$ % 7))"
    printed = {"metric_regex": "[0-9]+", "runs": 12, "warmup": 0, "seed": 1}
    result = convoy.compare(slow, fast, **printed)
    assert result.verdict == "faster", result.data
    # A slower candidate is a result, although the program exits with 1.
    assert convoy.compare(fast, slow, **printed).verdict == "slower"

    lost = fails(convoy.ConvoyError, lambda: convoy.record(["/no/such/program"]))
    assert "/no/such/program" in str(lost), lost
    fails(convoy.UsageError, lambda: convoy.experiment("no-such-experiment"))
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        assert "pip install" in str(fails(ImportError, lambda: made.locks))
    file = made.path
    assert file.exists()
    del made
    assert not file.exists(), "a record without a name is deleted"
    print("convoy_perf: ok")


if __name__ == "__main__":
    main()
