"""The program `convoy`: where it is, and calls of it."""

import functools
import json
import os
import pathlib
import shutil
import subprocess
import sysconfig
from typing import Any, Iterable, List, Optional, Sequence, Tuple, Union

from ._errors import InternalError, ProgramNotFound, SchemaError, of_code

#: The version of the JSON that this package reads.
SCHEMA = 1

Path = Union[str, "os.PathLike[str]"]


def program() -> str:
    """Returns the path of the program: $CONVOY, the one of this package's wheel, or in $PATH."""
    named = os.environ.get("CONVOY")
    if named:
        if shutil.which(named) is None:
            raise ProgramNotFound(f"$CONVOY is {named}, which is no program")
        return named
    schemes = [sysconfig.get_path("scripts")]
    user = f"{os.name}_user"
    if user in sysconfig.get_scheme_names():
        schemes.append(sysconfig.get_path("scripts", user))
    for place in schemes:
        found = pathlib.Path(place, "convoy")
        if os.access(found, os.X_OK):
            return str(found)
    found_in_path = shutil.which("convoy")
    if found_in_path is None:
        raise ProgramNotFound(
            "no program convoy: install the wheel of a release, or set $CONVOY to its path"
        )
    return found_in_path


def version() -> str:
    """Returns the version of the program, such as "0.1.0"."""
    return _run(["--version"])[1].split()[1]


@functools.lru_cache(maxsize=None)
def _schema_of(path: str) -> None:
    """Raises SchemaError unless the program at `path` has the schema of this package."""
    done = subprocess.run([path, "schema"], capture_output=True, text=True, check=False)
    try:
        name = json.loads(done.stdout)["$id"]
    except (ValueError, KeyError) as error:
        raise SchemaError(f"{path} schema prints no schema: {done.stderr.strip()}") from error
    if name != f"urn:convoy:output:{SCHEMA}":
        raise SchemaError(f"{path} has the schema {name}, and this package reads version {SCHEMA}")


def _run(arguments: Sequence[str], codes: Tuple[int, ...] = (0,)) -> Tuple[int, str]:
    """Runs the program. Returns its exit code, one of `codes`, and its standard output."""
    command = [program(), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in codes:
        raise of_code(done.returncode, done.stderr, command)
    return done.returncode, done.stdout


def result(arguments: Sequence[str], codes: Tuple[int, ...] = (0,)) -> Any:
    """Runs a command with `--format json` and returns what it printed."""
    _schema_of(program())
    text = _run([*arguments, "--format", "json", "--quiet"], codes)[1]
    try:
        return json.loads(text)
    except ValueError as error:
        raise InternalError(f"convoy {arguments[0]} printed no JSON: {error}") from error


def flag(name: str, value: Any) -> List[str]:
    """Returns the flag for a value: nothing for None and False, a list as "1,2,3"."""
    if value is None or value is False:
        return []
    if value is True:
        return [name]
    if isinstance(value, (list, tuple, range)):
        return [name, ",".join(str(item) for item in value)]
    return [name, str(value)]


def repeated(name: str, values: Optional[Iterable[Any]]) -> List[str]:
    """Returns the flag once for each value."""
    return [word for value in values or [] for word in (name, str(value))]


def settings(values: Optional[dict]) -> List[str]:
    """Returns `--set KEY=VALUE` for each entry."""
    return repeated("--set", [f"{key}={value}" for key, value in (values or {}).items()])
