"""Scores forecasts against the futures that came, and prints tables.

    python score.py DIR [--forecasts NAME=FILE]... [--seconds NAME=SECONDS]... [--kinds NAME,NAME] [--worst N] [--check NAME]

DIR holds *.series.jsonl, peer.json and peer-*.jsonl. A file of forecasts has a line for each series:
{"set","name","p10":[..],"p50":[..],"p90":[..],"reached":{"p10","p50","p90"},"probability"}; `reached` are times (RFC 3339) or steps after the end
of the history, null where the limit is not reached within the horizon. Forecasts without `reached`, as the peer's are, get what their courses say:
p50 where the middle one reaches the limit, p10 where the high one does, p90 where the low one does.

MASE of a series: mean |forecast - came| divided by the mean |y(t) - y(t - season)| over its history, pairs with missing values left out. A series
whose scale is zero has none and is counted. `all` is the mean over series, `sets` the mean of the sets' means.
Coverage: how much of the future lies within p10..p90, the mean over series; what is exactly on the edge of the interval, within a millionth, is in it.

An alarm is a p50 at which the limit is reached. False alarms are counted on the stationary series; announced are those of the true crossings that have an
alarm. `foreseeable` are the crossings that the oracle announces, who knows the process but not its noise. Errors of the date are those of announced
crossings: in days, and as a share of the time from the end of the history to the crossing.

--check exits 1 where a target is missed, and names it.
"""

import argparse
import json
import math
from datetime import datetime
from pathlib import Path

import numpy as np

TARGETS = {"mase": 1.02, "coverage": (0.75, 0.85), "false": 0.02, "announced": 0.90, "faster": 5.0}
BETTER_OF = ("AutoETS", "MSTL")


def lines(path):
    """Lines of JSON, one at a time."""
    with open(path, encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            try:
                yield json.loads(text)
            except ValueError as error:
                raise SystemExit(f"{path}:{number}: {error}") from error


def floats(values):
    return np.array([np.nan if v is None else v for v in values], float)


def scale(values, season):
    """The mean error of the seasonal naive forecast over the history."""
    steps = np.abs(values[season:] - values[:-season])
    return float(np.nanmean(steps)) if np.isfinite(steps).any() else 0.0


def place(series, when):
    """A time as steps after the end of the history; 0 is the first step of the future."""
    if when is None or isinstance(when, int):
        return when
    seconds = datetime.fromisoformat(when.replace("Z", "+00:00")).timestamp()
    return (seconds - series["from"]) / series["step"] - len(series["values"])


def by_course(limit, low, middle, high):
    """When the limit is reached by each course: a high course reaches it early."""

    def first(course):
        places = np.flatnonzero(course >= limit)
        return int(places[0]) if len(places) else None

    return {"p10": first(high), "p50": first(middle), "p90": first(low)}


def measure(series, forecast):
    """What one forecast is worth."""
    future = floats(series["future"])
    low, middle, high = (floats(forecast[p]) for p in ("p10", "p50", "p90"))
    if not len(low) == len(middle) == len(high) == len(future):
        raise SystemExit(f"{series['set']} {series['name']}: {len(middle)} steps are forecast, {len(future)} came")
    if not (np.isfinite(low) & np.isfinite(middle) & np.isfinite(high)).all():
        raise SystemExit(f"{series['set']} {series['name']}: a forecast is no number")
    known = np.isfinite(future)
    error = float(np.abs(middle - future)[known].mean())
    unit = scale(floats(series["values"]), series["season"])
    edge = 1e-6 * np.maximum(np.abs(future), 1e-300)
    inside = (future >= low - edge) & (future <= high + edge)
    result = {"mase": error / unit if unit > 0 else None, "coverage": float(inside[known].mean())}
    if series["limit"] is not None:
        reached = forecast["reached"] if "reached" in forecast else by_course(series["limit"], low, middle, high)
        deciles = {p: place(series, reached.get(p)) for p in ("p10", "p50", "p90")}
        result["alarm"] = deciles["p50"] is not None
        crossing = series["crossing"]
        if forecast.get("probability") is not None:
            result["brier"] = (forecast["probability"] - (crossing is not None)) ** 2
        if crossing is not None:
            early, late = deciles["p10"], deciles["p90"]
            result["in_range"] = early is not None and early <= crossing and (late is None or crossing <= late)
            if result["alarm"]:
                off = abs(deciles["p50"] - crossing)
                result["days_off"] = off * series["step"] / 86400
                result["share_off"] = off / (crossing + 1)
    return result


def mean(values):
    values = [v for v in values if v is not None]
    return sum(values) / len(values) if values else math.nan


def median(values):
    values = [v for v in values if v is not None]
    return float(np.median(values)) if values else math.nan


def table(head, rows):
    """A Markdown table; a measure that does not exist is empty."""

    def cell(value):
        if isinstance(value, float):
            return "" if math.isnan(value) else f"{value:.3f}"
        return str(value)

    cells = [[cell(value) for value in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    for number, row in enumerate(cells):
        print("| " + " | ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))) + " |")
        if number == 0:
            print("| " + " | ".join("-" * w if i == 0 else "-" * (w - 1) + ":" for i, w in enumerate(widths)) + " |")
    print()


def by_set(models, sets, what):
    """A table of one measure: a row for each set, a column for each model, and both means."""
    rows = []
    for name, members in sets.items():
        rows.append([name, len(members), *(mean(m.get(key, {}).get(what) for key in members) for m in models.values())])
    every = [key for members in sets.values() for key in members]
    whole = {name: mean(m.get(key, {}).get(what) for key in every) for name, m in models.items()}
    of_sets = {name: mean(row[2 + i] for row in rows) for i, name in enumerate(models)}
    rows.append(["mean of sets", "", *of_sets.values()])
    rows.append(["mean of all series", len(every), *whole.values()])
    table([what, "series", *models], rows)
    return of_sets, whole


def crossings(models, series):
    """The table of alarms. Returns for each model the rate of false alarms and the share of announced crossings."""
    limited = {key: s for key, s in series.items() if s["limit"] is not None}
    still = [key for key, s in limited.items() if s.get("stationary")]
    stepped = [key for key, s in limited.items() if s.get("kind") == "step-flat"]
    out_of_reach = [key for key, s in limited.items() if s["crossing"] is None and key not in set(still) | set(stepped)]
    crossed = [key for key, s in limited.items() if s["crossing"] is not None]
    foreseeable = [key for key in crossed if limited[key]["oracle"]["p50"] is not None]
    knowing = {key: {"alarm": s["oracle"]["p50"] is not None, **measure_oracle(s)} for key, s in limited.items()}
    rows, told = [], {}
    for name, model in {**models, "oracle": knowing}.items():

        def share(keys, what="alarm"):
            return mean(float(model[key].get(what, False)) for key in keys if key in model)

        told[name] = (share(still), share(crossed))
        off = [model[key].get("days_off") for key in crossed if key in model]
        rows.append(
            [
                name,
                share(still),
                share(stepped),
                share(out_of_reach),
                share(crossed),
                share(foreseeable),
                median(off),
                median(model[key].get("share_off") for key in crossed if key in model),
                share(crossed, "in_range"),
                mean(model[key].get("brier") for key in limited if key in model),
            ]
        )
    table(
        [
            "alarms",
            f"stationary ({len(still)})",
            f"flat after a step ({len(stepped)})",
            f"growing, not reached ({len(out_of_reach)})",
            f"reached ({len(crossed)})",
            f"foreseeable ({len(foreseeable)})",
            "median error, days",
            "of the time left",
            "reached within p10..p90",
            "Brier",
        ],
        rows,
    )
    return told


def measure_oracle(series):
    """The oracle's dates, scored as the models' are."""
    crossing, deciles = series["crossing"], series["oracle"]
    brier = (deciles["probability"] - (crossing is not None)) ** 2
    if crossing is None:
        return {"brier": brier}
    result = {"brier": brier, "in_range": deciles["p10"] is not None and deciles["p10"] <= crossing and (deciles["p90"] is None or crossing <= deciles["p90"])}
    if deciles["p50"] is not None:
        off = abs(deciles["p50"] - crossing)
        result |= {"days_off": off * series["step"] / 86400, "share_off": off / (crossing + 1)}
    return result


def by_kind(models, series):
    """For each kind of the synthetic series: MASE, coverage, alarms where there is no crossing and where there is."""
    kinds = {}
    for key, one in series.items():
        if "kind" in one:
            kinds.setdefault((one["set"], one["kind"]), []).append(key)
    for name, model in models.items():
        rows = []
        for (set_name, kind), keys in kinds.items():
            quiet = [model[k] for k in keys if k in model and series[k]["crossing"] is None]
            crossed = [model[k] for k in keys if k in model and series[k]["crossing"] is not None]
            alarms = sum(m["alarm"] for m in quiet)
            found = sum(m["alarm"] for m in crossed)
            every = quiet + crossed
            rows.append(
                [
                    f"{set_name} {kind}",
                    mean(m["mase"] for m in every),
                    mean(m["coverage"] for m in every),
                    f"{alarms}/{len(quiet)}",
                    f"{found}/{len(crossed)}",
                    median(m.get("days_off") for m in crossed),
                ]
            )
        table([name, "MASE", "coverage", "false alarms", "announced", "median error, days"], rows)


def worst(models, series, count):
    """For each model the series that cost most against the better of the peers."""
    for name, model in models.items():
        if name in BETTER_OF or name == "line":
            continue
        rows = []
        for key, mine in model.items():
            theirs = [models[peer][key]["mase"] for peer in BETTER_OF if key in models.get(peer, {})]
            if mine["mase"] is not None and theirs:
                rows.append([" ".join(key), mine["mase"], *theirs, mine["coverage"]])
        rows.sort(key=lambda row: min(row[2:-1]) - row[1])
        table([f"{name}: worst against the peers", name, *(p for p in BETTER_OF if p in models), "coverage"], rows[:count])


def check(name, seconds, mase, coverage, told, missing):
    """The targets that are missed."""
    missed = []

    def target(holds, text):
        print(("ok      " if holds else "MISSED  ") + text)
        if not holds:
            missed.append(text)

    if missing:
        target(False, f"{missing} series have no forecast")
    # The better of the two over all, not series by series; and the seconds are that one's too.
    best = min(BETTER_OF, key=lambda peer: mase[0][peer])
    for means, what in zip(mase, ("mean of sets", "mean of all series")):
        least = min(means[peer] for peer in BETTER_OF)
        ratio = means[name] / least
        target(ratio <= TARGETS["mase"], f"MASE, {what}: {ratio:.3f} of the better of {' and '.join(BETTER_OF)}, at most {TARGETS['mase']}")
    low, high = TARGETS["coverage"]
    for means, what in zip(coverage, ("mean of sets", "mean of all series")):
        target(low <= means[name] <= high, f"80 % intervals, {what}: cover {means[name]:.1%}, {low:.0%} to {high:.0%}")
    false, announced = told[name]
    target(false < TARGETS["false"], f"false alarms on stationary series: {false:.1%}, under {TARGETS['false']:.0%}")
    target(announced >= TARGETS["announced"], f"crossings announced: {announced:.1%}, at least {TARGETS['announced']:.0%}")
    if name in seconds:
        faster = seconds[best] / seconds[name]
        target(faster >= TARGETS["faster"], f"speed: {faster:.1f} times that of {best}, at least {TARGETS['faster']:.0f}")
    return missed


def pair(text):
    name, _, value = text.partition("=")
    if not value:
        raise argparse.ArgumentTypeError(f"{text}: NAME=VALUE is expected")
    return name, value


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--forecasts", type=pair, action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--seconds", type=pair, action="append", default=[], metavar="NAME=SECONDS")
    parser.add_argument("--sets", help="only these, by comma")
    parser.add_argument("--kinds", default="", metavar="NAMES", help="of these forecasts a table by kind of synthetic series")
    parser.add_argument("--worst", type=int, default=0, metavar="N", help="the N series that cost most against the peers")
    parser.add_argument("--check", metavar="NAME", help="hold these forecasts against the targets")
    options = parser.parse_args()
    only = options.sets.split(",") if options.sets else None

    series, sets = {}, {}
    for path in sorted(options.folder.glob("*.series.jsonl")):
        for one in lines(path):
            if only is None or one["set"] in only:
                series[one["set"], one["name"]] = one
                sets.setdefault(one["set"], []).append((one["set"], one["name"]))
    if not series:
        raise SystemExit(f"{options.folder}: no series")

    files, seconds = {}, {}
    told_by = options.folder / "peer.json"
    if told_by.exists():
        for name, model in json.loads(told_by.read_text())["models"].items():
            files[name] = options.folder / f"peer-{name}.jsonl"
            seconds[name] = sum(s for set_name, s in model["seconds"].items() if set_name in sets)
    files |= dict(options.forecasts)
    seconds |= {name: float(value) for name, value in options.seconds}

    models, missing = {}, {}
    for name, path in files.items():
        models[name] = {}
        for forecast in lines(path):
            key = (forecast["set"], forecast["name"])
            if key in series:
                models[name][key] = measure(series[key], forecast)
        missing[name] = len(series) - len(models[name])
        if missing[name]:
            print(f"{name}: {missing[name]} of {len(series)} series have no forecast\n")

    zero = sum(scale(floats(s["values"]), s["season"]) == 0 for s in series.values())
    print(f"{len(series)} series in {len(sets)} sets; {zero} have a scale of zero and no MASE\n")
    mase = by_set(models, sets, "mase")
    coverage = by_set(models, sets, "coverage")
    if any(s["limit"] is not None for s in series.values()):
        told = crossings(models, series)
    else:
        told = {name: (math.nan, math.nan) for name in models}
    table(["model", "seconds"], [[name, f"{s:.2f}"] for name, s in seconds.items()])
    by_kind({name: model for name, model in models.items() if name in options.kinds.split(",")}, series)
    if options.worst:
        worst(models, series, options.worst)
    if options.check and check(options.check, seconds, mase, coverage, told, missing[options.check]):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
