"""Exceptions: one for each exit code of `convoy` that is an error.

Code 1 is a finding, which is a result: `compare` returns it, and its verdict is "slower".
"""

from typing import List, Type


class ConvoyError(Exception):
    """The program failed. The message is its one-line message."""

    #: The exit code; None if the program did not run.
    code = None


class ProgramNotFound(ConvoyError):
    """There is no program `convoy` in $CONVOY, next to this Python, or in $PATH."""


class SchemaError(ConvoyError):
    """The program prints results of another schema than this package reads."""


class UsageError(ConvoyError):
    """Exit code 2: an invalid argument or input file; 126 and 127: no program that can be executed.

    Correct it and try again.
    """

    code = 2


class MachineError(ConvoyError):
    """Exit code 3: the machine refused a resource; 129, 130 and 143: a signal ended the program.

    Fix the machine and try again.
    """

    code = 3


class InternalError(ConvoyError):
    """An exit code that is not documented, a signal, or output that is not JSON: a bug."""


def of_code(code: int, message: str, command: List[str]) -> ConvoyError:
    """Returns the exception for an exit code other than 0 and 1."""
    kinds = {2: UsageError, 126: UsageError, 127: UsageError}
    kinds.update({code: MachineError for code in (3, 129, 130, 143)})
    kind: Type[ConvoyError] = kinds.get(code, InternalError)
    text = message.strip().splitlines()
    text = [line[len("convoy: ") :] if line.startswith("convoy: ") else line for line in text]
    shown = " ".join(text) or f"{' '.join(command)} ended with code {code} and no message"
    error = kind(shown)
    error.code = code
    return error
