"""Find, explain, predict and fix lock-scaling regressions, from Python.

    import convoy_perf as convoy

    record = convoy.record(["./server", "--port", "80"])
    print(record.verdict)
    record.locks.to_pandas()

Every function calls the program `convoy` and reads the JSON that it prints, so the program and this
package may have different versions as long as they share the schema that `convoy schema` prints.
Tables are Arrow tables and need pyarrow; the same values are plain dictionaries without it.
"""

from ._errors import (
    ConvoyError,
    InternalError,
    MachineError,
    ProgramNotFound,
    SchemaError,
    UsageError,
)
from ._experiments import Result, Sweep, compare, experiment, sweep
from ._program import SCHEMA, program, version
from ._record import Record, predict, record

__all__ = [
    "SCHEMA",
    "ConvoyError",
    "InternalError",
    "MachineError",
    "ProgramNotFound",
    "Record",
    "Result",
    "SchemaError",
    "Sweep",
    "UsageError",
    "compare",
    "experiment",
    "predict",
    "program",
    "record",
    "sweep",
    "version",
]
