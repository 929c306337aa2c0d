"""Arrow tables of lists of dictionaries."""

from typing import TYPE_CHECKING, Any, Dict, List, Sequence

if TYPE_CHECKING:
    import pyarrow


def table(rows: Sequence[Dict[str, Any]], columns: Sequence[str]) -> "pyarrow.Table":
    """Returns `rows` with all of `columns`, also if there are no rows, and the columns that only
    some rows have after them."""
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError("tables need pyarrow: pip install 'convoy-perf[tables]'") from error
    names: List[str] = list(columns)
    for row in rows:
        names += [name for name in row if name not in names]
    arrays = {name: pyarrow.array([row.get(name) for row in rows]) for name in names}
    return pyarrow.table(arrays)


def flat(row: Dict[str, Any], prefix: str = "") -> Dict[str, Any]:
    """Returns `row` with nested objects as columns such as `wait_total_s`, and without lists."""
    out: Dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, dict):
            out.update(flat(value, f"{prefix}{key}_"))
        elif key == "ci95" and isinstance(value, list) and len(value) == 2:
            out[f"{prefix}ci95_low"], out[f"{prefix}ci95_high"] = value
        elif not isinstance(value, list):
            out[prefix + key] = value
    return out
