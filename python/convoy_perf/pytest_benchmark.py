"""Results of pytest-benchmark for `convoy compare`.

    pytest --benchmark-save-data --benchmark-json=before.json
    python -m convoy_perf.pytest_benchmark before.json before-times.json
    convoy compare before-times.json after-times.json

The output has the format of hyperfine: the mean time of each round, by benchmark.
"""

import json
import pathlib
import sys
from typing import Any, Dict, List

from ._errors import ConvoyError, UsageError
from ._program import Path


def times(path: Path) -> Dict[str, List[float]]:
    """Returns the seconds of every round in a file of `pytest --benchmark-json`."""
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
        benchmarks = json.loads(text)["benchmarks"]
        found = {one["fullname"]: one["stats"].get("data") for one in benchmarks}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is no result of pytest-benchmark: {error!r}") from error
    without = [name for name, values in found.items() if not values]
    if without or not found:
        missing = without[0] if without else "every benchmark"
        raise UsageError(f"{path} has no rounds of {missing}: run with --benchmark-save-data")
    return found


def convert(source: Path, target: Path) -> None:
    """Writes the rounds of `source` to `target` as a file that `convoy compare` reads."""
    results: List[Dict[str, Any]] = [
        {"command": name, "times": values} for name, values in times(source).items()
    ]
    pathlib.Path(target).write_text(json.dumps({"results": results}), encoding="utf-8")


def main() -> int:
    """The command line."""
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        convert(sys.argv[1], sys.argv[2])
    except ConvoyError as error:
        print(f"convoy_perf: {error}", file=sys.stderr)
        return error.code or 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
