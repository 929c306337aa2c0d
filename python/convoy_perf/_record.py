"""Records of programs: what `convoy record` writes, and what follows from it."""

import functools
import json
import pathlib
import subprocess
import tempfile
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Union

from . import _errors
from ._experiments import Result
from ._program import Path, flag, program, result, settings
from ._tables import flat, table

if TYPE_CHECKING:
    import matplotlib.axes
    import pyarrow

Numbers = Union[int, Sequence[int]]

_LOCKS = ["name", "kind", "pid", "wait_percent", "contended_percent", "held_s"]
_WAITS = ["lock", "kind", "place", "act", "count", "contended", "threads", "wait_total_s"]
_BLAME = ["lock", "kind", "place", "held_at", "wait_s", "count", "doing", "what", "looks"]
_TIMELINE = ["pid", "tid", "thread", "state", "lock", "place", "held_at", "start_ms", "end_ms"]


class Record:
    """The locks of one run of a program."""

    def __init__(self, path: Path, exit_code: Optional[int] = None) -> None:
        self._path = pathlib.Path(path)
        #: The exit code of the program, 128 and the signal that killed it, or None if loaded.
        self.exit_code = exit_code
        self._place: Optional[tempfile.TemporaryDirectory] = None

    @classmethod
    def load(cls, path: Path) -> "Record":
        """Returns the record in a file of `convoy record -o FILE`."""
        record = cls(path)
        _ = record.explanation  # A file that is not a record is an error here.
        return record

    @property
    def path(self) -> pathlib.Path:
        """The file, which is deleted with this object unless `output` named it."""
        return self._path

    def save(self, path: Path) -> None:
        """Copies the file to `path`."""
        pathlib.Path(path).write_bytes(self._path.read_bytes())

    @functools.cached_property
    def explanation(self) -> Dict[str, Any]:
        """The output of `convoy explain --format json`."""
        return result(["explain", str(self._path)])

    @property
    def verdict(self) -> str:
        """The first diagnosis and its cure, as sentences."""
        return self.explanation["verdict"]

    @property
    def notes(self) -> List[str]:
        """Reasons to doubt the numbers, and what could not be recorded."""
        return [*self.explanation["notes"], *self.explanation["unseen"]]

    @property
    def locks(self) -> "pyarrow.Table":
        """One row per lock, the lock with the longest waits first."""
        return table([flat(lock) for lock in self.explanation["locks"]], _LOCKS)

    @property
    def waits(self) -> "pyarrow.Table":
        """One row per lock and place where it is acquired, with wait and hold times."""
        rows = []
        for lock in self.explanation["locks"]:
            for site in lock["sites"]:
                rows.append({"lock": lock["name"], "kind": lock["kind"], **flat(site)})
        return table(rows, _WAITS)

    @property
    def blame(self) -> "pyarrow.Table":
        """One row per wait, place of its owner, and activity of the owner while threads waited."""
        rows = []
        for cause in self.explanation["causes"]:
            base = flat(cause)
            for owner in cause.get("owners") or [{}]:
                doing = {key: owner.get(key) for key in ("doing", "what")}
                rows.append({**base, **doing, "looks": owner.get("count")})
        return table(rows, _BLAME)

    @functools.cached_property
    def activity(self) -> List[Dict[str, Any]]:
        """The states of threads over time: waits for locks, critical sections, sleep."""
        with tempfile.TemporaryDirectory() as place:
            file = pathlib.Path(place, "profile.json")
            result(["explain", str(self._path), "--firefox", str(file)])
            profile = json.loads(file.read_text(encoding="utf-8"))
        rows = []
        for thread in profile["threads"]:
            strings, markers = thread["stringArray"], thread["markers"]
            for index in range(markers["length"]):
                data = markers["data"][index] or {}
                named = {
                    column: strings[data[key]] if isinstance(data.get(key), int) else None
                    for key, column in (("lock", "lock"), ("place", "place"), ("heldAt", "held_at"))
                }
                rows.append({
                    "pid": int(str(thread["pid"]).split(".", maxsplit=1)[0]),
                    "tid": int(str(thread["tid"]).split(".", maxsplit=1)[0]),
                    "thread": thread["name"],
                    "state": strings[markers["name"][index]],
                    **named,
                    "start_ms": markers["startTime"][index],
                    "end_ms": markers["endTime"][index],
                })
        return rows

    @property
    def timeline(self) -> "pyarrow.Table":
        """One row per state of a thread, with start and end in milliseconds of the run."""
        return table(self.activity, _TIMELINE)

    def predict(self, **arguments: Any) -> Result:
        """Predicts this program; see `predict`."""
        return predict(self, **arguments)

    def fix(
        self, *, split: Optional[int] = None, rounds: Optional[int] = None,
        kernel: Optional[str] = None, machine: Optional[str] = None,
        set: Optional[Mapping[str, Any]] = None,
    ) -> Result:
        """Recommends a change: `.data["advice"]`, and the commands that test it."""
        flags = flag("--split", split) + flag("--rounds", rounds) + flag("--kernel", kernel)
        flags += flag("--machine", machine) + settings(dict(set or {}))
        return Result(result(["fix", str(self._path), *flags]))

    def report(self, path: Path) -> None:
        """Writes the report of this record as one HTML page."""
        command = [program(), "report", str(self._path), "-o", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise _errors.of_code(done.returncode, done.stderr, command)

    def plot(self, ax: Optional["matplotlib.axes.Axes"] = None) -> "matplotlib.axes.Axes":
        """Draws the threads over time with matplotlib, and returns the axes."""
        from ._plots import timeline

        return timeline(self.activity, ax)

    def __repr__(self) -> str:
        return f"<convoy record: {self.explanation['title']}>"


def record(
    command: Sequence[str], *, output: Optional[Path] = None, seconds: Optional[float] = None,
    contended: bool = False, kernel: Optional[str] = None, mutex: Optional[str] = None,
    sem: Optional[str] = None, locks: Optional[Mapping[str, str]] = None,
    env: Optional[Mapping[str, str]] = None, cwd: Optional[Path] = None,
) -> Record:
    """Runs a program and records its locks. The program's own output is not captured.

    An exit code of the program other than 0 is no error: it is `exit_code` of the record.
    """
    place = None if output else tempfile.TemporaryDirectory(prefix="convoy-")
    file = pathlib.Path(output or pathlib.Path(place.name, "record.json")).absolute()
    flags = flag("--seconds", seconds) + flag("--contended", contended) + flag("--kernel", kernel)
    flags += flag("--mutex", mutex) + flag("--sem", sem)
    for site, policy in (locks or {}).items():
        flags += ["--lock", f"{site}={policy}"]
    if file.exists():
        # The program's exit code tells nothing of the record, so its file must be new.
        file.unlink()
    line = [program(), "record", "-o", str(file), *flags, "--", *map(str, command)]
    done = subprocess.run(
        line, stderr=subprocess.PIPE, text=True, check=False, env=env, cwd=cwd, errors="replace"
    )
    if not file.exists():
        raise _errors.of_code(done.returncode, done.stderr, line)
    made = Record(file, done.returncode)
    made._place = place
    return made


def predict(
    record: Union[Record, Path], *, cpus: Optional[Numbers] = None,
    threads: Optional[Numbers] = None, policy: Union[str, Sequence[str], None] = None,
    split: Optional[int] = None, rounds: Optional[int] = None, kernel: Optional[str] = None,
    machine: Optional[str] = None, set: Optional[Mapping[str, Any]] = None,
) -> Result:
    """Predicts a recorded program with other numbers of CPUs and threads, and with other locks."""
    path = record.path if isinstance(record, Record) else record
    flags = flag("--cpus", cpus) + flag("--threads", threads) + flag("--policy", policy)
    flags += flag("--split", split) + flag("--rounds", rounds) + flag("--kernel", kernel)
    flags += flag("--machine", machine) + settings(dict(set or {}))
    return Result(result(["predict", str(path), *flags]))
