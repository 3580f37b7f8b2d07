"""Forecasts of the peer: statsforecast's AutoETS and MSTL, and the straight line that people use with Prometheus.

    python peer.py DIR [--sets SET,SET] [--jobs 2]

Reads DIR/*.series.jsonl. Writes DIR/peer-<model>.jsonl, a line for each series: p10, p50, p90 for each step of its future; and DIR/peer.json: versions, and for each model and set the seconds of fitting and forecasting.

What is timed is `StatsForecast.forecast` with `n_jobs` processes: neither imports, nor reading, nor writing. Each model first forecasts two small
series, so that nothing is loaded or compiled in the timed part; how long the very first such call took is written as `first_call`.
The peer does not take missing values: they are interpolated, outside the timed part.
"""

import argparse
import json
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
from statsforecast import StatsForecast
from statsforecast.models import MSTL, AutoETS, SeasonalNaive

# A set that takes longer than this with one model would make the benchmark unusable: fewer of its series would have to do.
TOO_LONG = 900


def read(path):
    """The series of one set."""
    with open(path, encoding="utf-8") as file:
        return [json.loads(text) for text in file]


def whole(values):
    """History with what is missing filled in by straight lines."""
    series = pd.Series([np.nan if v is None else v for v in values], dtype=float)
    return series.interpolate(limit_direction="both").to_numpy()


def model_of(name, seasons):
    """The two models that the benchmark is about. Where a fit fails, the peer falls back to the seasonal naive forecast."""
    if name == "AutoETS":
        return AutoETS(season_length=seasons[0]), SeasonalNaive(season_length=seasons[0])
    return (
        MSTL(season_length=list(seasons), trend_forecaster=AutoETS(model="ZZN")),
        SeasonalNaive(season_length=seasons[0]),
    )


def forecast(name, seasons, frame, steps, jobs):
    """Forecasts of all series of a frame with 80 % intervals, and the seconds that took."""
    model, fallback = model_of(name, seasons)
    engine = StatsForecast(models=[model], freq=1, n_jobs=jobs, fallback_model=fallback)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = engine.forecast(df=frame, h=steps, level=[80])
    return result, time.perf_counter() - began


def small():
    """Two tiny series, for what is only done once."""
    t = np.arange(96)
    return pd.concat(
        pd.DataFrame({"unique_id": f"{i:06}", "ds": t, "y": 10 + np.sin(t * np.pi / 12) + i * 0.01 * t}) for i in range(2)
    )


def line_forecast(values, step, steps):
    """Prometheus's predict_linear over the last four hours (days for daily series): least squares through the last points.

    The interval is the residuals' deviation times 1.28, as if the line were true.
    """
    last = values[-4:]
    t = np.arange(-len(last) + 1, 1)
    slope, level = np.polyfit(t, last, 1)
    ahead = level + slope * np.arange(1, steps + 1)
    width = 1.2816 * np.std(last - (level + slope * t))
    return ahead - width, ahead, ahead + width


def told(one, low, middle, high):
    """A line of forecasts, in the form that score.py reads."""
    return {
        "set": one["set"],
        "name": one["name"],
        "p10": [float(f"{v:.6g}") for v in low],
        "p50": [float(f"{v:.9g}") for v in middle],
        "p90": [float(f"{v:.6g}") for v in high],
    }


def peers(name, series, jobs):
    """Forecasts of one set with one model. Series of other seasons or another horizon need a call of their own; their seconds are added."""
    lines, seconds = [], 0.0
    groups = {}
    for one in series:
        seasons = tuple(s for s in one["seasons"] if len(one["values"]) >= 2 * s) or (one["season"],)
        groups.setdefault((seasons, len(one["future"])), []).append(one)
    for (seasons, steps), members in sorted(groups.items()):
        frame = pd.concat(
            pd.DataFrame({"unique_id": f"{i:06}", "ds": np.arange(len(one["values"])), "y": whole(one["values"])})
            for i, one in enumerate(members)
        )
        result, took = forecast(name, seasons, frame, steps, jobs)
        seconds += took
        column = [c for c in result.columns if c not in ("unique_id", "ds")][0].split("-")[0]
        for i, (_, part) in enumerate(result.groupby("unique_id", sort=True)):
            low, high = part[f"{column}-lo-80"].to_numpy(float), part[f"{column}-hi-80"].to_numpy(float)
            middle = part[column].to_numpy(float)
            # An interval that could not be made is no interval; it covers nothing but the forecast itself.
            low, high = np.where(np.isfinite(low), low, middle), np.where(np.isfinite(high), high, middle)
            lines.append(told(members[i], low, middle, high))
    return lines, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", help="only these, by comma")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    paths = sorted(options.folder.glob("*.series.jsonl"))
    if options.sets:
        paths = [p for p in paths if p.name.split(".")[0] in options.sets.split(",")]
    summary = {
        "versions": {name: version(name) for name in ("statsforecast", "numpy", "pandas")},
        "jobs": options.jobs,
        "models": {},
    }
    for name in ("MSTL", "AutoETS", "line"):
        model = {"seconds": {}, "count": {}, "first_call": 0.0}
        if name != "line":
            model["first_call"] = round(forecast(name, (24,), small(), 24, options.jobs)[1], 3)
        with open(options.folder / f"peer-{name}.jsonl", "w", encoding="utf-8") as out:
            for path in paths:
                series = read(path)
                if name == "line":
                    began = time.perf_counter()
                    lines = [told(s, *line_forecast(whole(s["values"]), s["step"], len(s["future"]))) for s in series]
                    seconds = time.perf_counter() - began
                else:
                    lines, seconds = peers(name, series, options.jobs)
                key = path.name.split(".")[0]
                model["seconds"][key], model["count"][key] = round(seconds, 3), len(series)
                late = "  too long: cut this set" if seconds > TOO_LONG else ""
                print(f"{name} {key}: {len(series)} series, {seconds:.1f} s{late}", flush=True)
                for one in lines:
                    out.write(json.dumps(one, separators=(",", ":")) + "\n")
                out.flush()
        summary["models"][name] = model
        (options.folder / "peer.json").write_text(json.dumps(summary, indent=1) + "\n")


if __name__ == "__main__":
    main()
