"""Cut long series into windows of history and future, and write them as lines of JSON."""

import json

import numpy as np

HOUR = 3600
DAY = 86400


def line(set_name, name, step, seasons, start, values, future, **more):
    """One series as the files have it; NaN becomes null."""

    def plain(numbers):
        return [None if not np.isfinite(v) else float(f"{v:.9g}") for v in numbers]

    return {
        "set": set_name,
        "name": name,
        "step": step,
        "season": seasons[0],
        "seasons": list(seasons),
        "from": int(start),
        "values": plain(values),
        "future": plain(future),
        "limit": None,
        "crossing": None,
        **more,
    }


def write(path, lines):
    """Write lines of JSON; say how many."""
    with open(path, "w", encoding="utf-8") as out:
        for one in lines:
            out.write(json.dumps(one, separators=(",", ":")) + "\n")
    print(f"{path}: {len(lines)} series", flush=True)


def usable(values, future):
    """Whether a window says anything: at most a tenth of the history and a fifth of the future unknown, not flat.

    Its last point is known: else a program that is given points, not a grid, would begin its forecast earlier.
    """
    known = values[np.isfinite(values)]
    return (
        len(known) >= 0.9 * len(values)
        and np.isfinite(future).mean() >= 0.8
        and np.isfinite(values[-1])
        and known.max() > known.min()
    )


def spread(count, wanted):
    """At most `wanted` of the numbers 0..count, evenly spread."""
    if count <= wanted:
        return list(range(count))
    return sorted({round(i * (count - 1) / (wanted - 1)) for i in range(wanted)}) if wanted > 1 else [count - 1]


def cuts(length, block, first):
    """Where futures may begin: blocks of `block` steps that end with the series, none with less than `first` steps before."""
    return [c for c in range(length - block, first - 1, -block)][::-1]
