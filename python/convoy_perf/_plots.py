"""Pictures with matplotlib."""

from typing import TYPE_CHECKING, Any, Dict, Optional, Sequence

if TYPE_CHECKING:
    import matplotlib.axes

# Colours that are told apart with any kind of colour vision (Okabe and Ito).
_COLOURS = {
    "waiting for a lock": "#d55e00",
    "running": "#009e73",
    "running in a critical section": "#0072b2",
    "asleep in a critical section": "#cc79a7",
    "preempted in a critical section": "#e69f00",
    "off CPU in a critical section": "#999999",
    "waiting for a condition": "#56b4e9",
    "off CPU": "#dddddd",
}


def timeline(
    activity: Sequence[Dict[str, Any]], ax: Optional["matplotlib.axes.Axes"] = None
) -> "matplotlib.axes.Axes":
    """Draws one row per thread, coloured by state."""
    import matplotlib.patches
    import matplotlib.pyplot

    threads = sorted({(row["pid"], row["tid"]) for row in activity})
    if ax is None:
        _, ax = matplotlib.pyplot.subplots(figsize=(9, 0.3 * len(threads) + 1.5))
    place = {thread: index for index, thread in enumerate(threads)}
    states = list(dict.fromkeys(row["state"] for row in activity))
    for state in states:
        colour = _COLOURS.get(state, "#000000")
        for thread in threads:
            bars = [
                (row["start_ms"], row["end_ms"] - row["start_ms"])
                for row in activity
                if row["state"] == state and (row["pid"], row["tid"]) == thread
            ]
            if bars:
                ax.broken_barh(bars, (place[thread] - 0.4, 0.8), facecolors=colour)
    ax.set_yticks(range(len(threads)))
    ax.set_yticklabels([str(tid) for _, tid in threads])
    ax.invert_yaxis()
    ax.set_xlabel("time (ms)")
    ax.set_ylabel("thread")
    handles = [
        matplotlib.patches.Patch(color=_COLOURS.get(state, "#000000"), label=state)
        for state in states
    ]
    ax.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, 1), ncol=2, frameon=False)
    return ax
