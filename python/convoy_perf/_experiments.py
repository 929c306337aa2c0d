"""Results, comparisons, experiments and sweeps."""

import subprocess
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence

from . import _errors
from ._program import Path, flag, program, repeated, result, settings
from ._tables import flat, table

if TYPE_CHECKING:
    import pyarrow


class Result:
    """What a command printed as JSON: `data`, its sentence, and its rows as a table."""

    def __init__(self, data: Dict[str, Any]) -> None:
        self.data = data

    @property
    def verdict(self) -> str:
        """The result in a word or a sentence."""
        return self.data["verdict"]

    @property
    def rows(self) -> "pyarrow.Table":
        """The rows, with nested objects as columns such as `baseline_mean`."""
        return table([flat(row) for row in self.data.get("rows") or []], [])

    def __getitem__(self, key: str) -> Any:
        return self.data[key]

    def __repr__(self) -> str:
        return f"<convoy result: {self.data.get('sentence') or self.verdict}>"


def compare(
    baseline: str, *candidates: str, runs: Optional[int] = None, max_runs: Optional[int] = None,
    max_time: Optional[float] = None, names: Optional[Sequence[str]] = None, shell: bool = True,
    metric: Optional[str] = None, metric_regex: Optional[str] = None,
    higher_is_better: bool = False, same_within: Optional[str] = None,
    fail_if: Optional[str] = None, seed: Optional[int] = None, **flags: Any,
) -> Result:
    """Compares commands, stored runs or files of measurements, in random order.

    A slower candidate is a result, whose `verdict` is "slower", and no error. Further keywords are
    flags of `convoy compare`: `warmup=0` for `--warmup 0`.
    """
    words = flag("--runs", runs) + flag("--max-runs", max_runs) + flag("--max-time", max_time)
    words += repeated("--name", names) + flag("--no-shell", not shell) + flag("--metric", metric)
    words += flag("--metric-regex", metric_regex) + flag("--higher-is-better", higher_is_better)
    words += flag("--same-within", same_within) + flag("--fail-if", fail_if) + flag("--seed", seed)
    for name, value in flags.items():
        words += flag("--" + name.replace("_", "-"), value)
    return Result(result(["compare", *words, baseline, *candidates], codes=(0, 1)))


def experiment(
    name: Path, *, only: Optional[Sequence[str]] = None, full: bool = False, quick: bool = False,
    scale: Optional[int] = None, seeds: Optional[int] = None, kernel: Optional[Sequence[str]] = None,
    machine: Optional[str] = None, threads: Optional[int] = None,
    set: Optional[Mapping[str, Any]] = None,
) -> Result:
    """Runs a shipped experiment, or an experiment file, on the virtual machine."""
    return Result(result(["lab", "reproduce", str(name), *_size(
        only, full, quick, scale, seeds, kernel, machine, set
    ), *flag("--threads", threads)]))


def sweep(
    name: Path, directory: Path, *, shards: int = 16, only: Optional[Sequence[str]] = None,
    full: bool = False, quick: bool = False, scale: Optional[int] = None,
    seeds: Optional[int] = None, kernel: Optional[Sequence[str]] = None,
    machine: Optional[str] = None, set: Optional[Mapping[str, Any]] = None,
) -> "Sweep":
    """Returns a sweep of an experiment in `directory`; `run` or `on` runs it."""
    size = _size(only, full, quick, scale, seeds, kernel, machine, set)
    return Sweep([str(name), "--dir", str(directory), *size], shards)


def _size(
    only: Optional[Sequence[str]], full: bool, quick: bool, scale: Optional[int],
    seeds: Optional[int], kernel: Optional[Sequence[str]], machine: Optional[str],
    changes: Optional[Mapping[str, Any]],
) -> List[str]:
    words = repeated("--only", only) + flag("--full", full) + flag("--quick", quick)
    words += flag("--scale", scale) + flag("--seeds", seeds) + repeated("--kernel", kernel)
    return words + flag("--machine", machine) + settings(dict(changes or {}))


class Sweep:
    """The cells of an experiment, each kept in a directory as soon as it is done."""

    def __init__(self, arguments: List[str], shards: int) -> None:
        if shards < 1:
            raise _errors.UsageError("a sweep has at least one shard")
        self._arguments, self._shards = arguments, shards

    def run(self, threads: Optional[int] = None) -> Result:
        """Runs the cells that are missing, here, and returns the result."""
        return Result(result(["lab", "sweep", *self._arguments, *flag("--threads", threads)]))

    def on(self, client: Any, retries: int = 10) -> Result:
        """Runs the cells on the workers of a Dask client, and returns the result.

        All workers must see the directory and have this package. A shard whose worker dies moves to
        another worker; its finished cells are kept.
        """
        futures = [
            client.submit(
                _shard, self._arguments, index, self._shards, pure=False, retries=retries
            )
            for index in range(1, self._shards + 1)
        ]
        try:
            for code, message, command in client.gather(futures):
                if code:
                    raise _errors.of_code(code, message, command)
        finally:
            client.cancel(futures)
        return self.run()


def _shard(arguments: List[str], index: int, count: int) -> Any:
    """One shard on one thread. Returns exit code, message and command: an exception would make
    Dask try it again."""
    command = [program(), "lab", "sweep", *arguments, "--shard", f"{index}/{count}", "--quiet"]
    done = subprocess.run(
        [*command, "--threads", "1"], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr or done.stdout, command
