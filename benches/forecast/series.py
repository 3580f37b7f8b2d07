"""Write the series of the benchmark as lines of JSON, a file for each set.

    python series.py --out DIR [--m4 DIR] [--nab DIR]

The sets:
  public-hourly-48    40 days (960 h) of history, 48 h of future       from packages
  public-hourly-168   60 days (1440 h) of history, 168 h of future     from packages
  public-daily        400 days of history, 30 days of future           from packages
  synthetic-hourly    60 days (1440 h) of history, 30 days of future   made here, truth known (synthetic.py)
  synthetic-daily     200 days of history, 60 days of future           likewise
  m4-hourly           as the competition has it                        from --m4
  m4-daily            400 of 4,227, the last 1,000 days of each        from --m4, if Daily-train.csv is there
  nab-hourly          12 days and more, 48 h of future                 from --nab

No source gives more than about 20 windows to the packages' sets, and no two windows of a series share a step of their futures.
"""

import argparse
import csv
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import public
import synthetic
from windows import DAY, HOUR, cuts, line, spread, usable, write

PER_SOURCE = 20


def public_hourly():
    """Blocks of 48 + 168 hours; the first part of a block is the future of one set, the second that of the other."""
    short, long = [], []
    for source, read in public.HOURLY.items():
        columns = list(read())
        wanted = max(2, PER_SOURCE // (2 * len(columns)))
        for column, series in columns:
            values, start = series.to_numpy(float), int(series.index[0].timestamp())
            places = cuts(len(values), 48 + 168, 960)
            for cut in [places[i] for i in spread(len(places), wanted)]:
                for into, name, history, begin, steps in (
                    (short, "public-hourly-48", 960, cut, 48),
                    (long, "public-hourly-168", 1440, cut + 48, 168),
                ):
                    if begin < history:
                        continue
                    past, future = values[begin - history : begin], values[begin : begin + steps]
                    if usable(past, future):
                        at = start + (begin - history) * HOUR
                        into.append(line(name, f"{source}_{column}_{begin}", HOUR, (24, 168), at, past, future))
    return {"public-hourly-48": short, "public-hourly-168": long}


def public_daily():
    """Windows of 400 + 30 days."""
    lines = []
    for source, read in public.DAILY.items():
        columns = list(read())
        wanted = max(1, PER_SOURCE // (len(columns)))
        for column, series in columns:
            values, start = series.to_numpy(float), int(series.index[0].timestamp())
            places = cuts(len(values), 30, 400)
            for cut in [places[i] for i in spread(len(places), wanted)]:
                past, future = values[cut - 400 : cut], values[cut : cut + 30]
                if usable(past, future):
                    at = start + (cut - 400) * DAY
                    lines.append(line("public-daily", f"{source}_{column}_{cut}", DAY, (7,), at, past, future))
    return {"public-daily": lines}


def m4_rows(path):
    """Series of one of M4's files: name, numbers."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = csv.reader(file)
        next(rows)
        return [(row[0], np.array([float(v) for v in row[1:] if v not in ("", "NA")])) for row in rows if row]


def m4(folder):
    """M4's hourly series, and a tenth of the daily ones, if they are there. M4 gives hours no time of day: all begin on a Monday."""
    monday = 1577664000 + 7 * DAY
    sets = {}
    tests = dict(m4_rows(folder / "Hourly-test.csv"))
    sets["m4-hourly"] = [
        line("m4-hourly", name, HOUR, (24, 168), monday, values, tests[name])
        for name, values in m4_rows(folder / "Hourly-train.csv")
    ]
    daily = folder / "Daily-train.csv"
    if daily.exists() and daily.stat().st_size:
        tests = dict(m4_rows(folder / "Daily-test.csv"))
        rows = m4_rows(daily)
        sets["m4-daily"] = [
            line("m4-daily", name, DAY, (7,), monday, values[-1000:], tests[name])
            for name, values in (rows[i] for i in spread(len(rows), 400))
        ]
    return sets


def nab(folder):
    """Metrics of real servers, 5-minute means folded to hours, from a copy of the Numenta Anomaly Benchmark (its folder `data`)."""
    lines = []
    groups = ("realAWSCloudwatch", "realKnownCause", "realTweets")
    for path in sorted(p for group in groups for p in (folder / group).glob("*.csv")):
        frame = pd.read_csv(path)
        series = public.regular(frame["timestamp"], frame["value"], "h")
        # Partial hours at both ends are no means of an hour.
        series = series.iloc[1:-1]
        values, start = series.to_numpy(float), int(series.index[0].timestamp())
        places = cuts(len(values), 48, 280)
        for cut in [places[i] for i in spread(len(places), 4)]:
            first = max(0, cut - 960)
            past, future = values[first:cut], values[cut : cut + 48]
            if usable(past, future):
                seasons = (24, 168) if len(past) >= 336 else (24,)
                lines.append(line("nab-hourly", f"{path.stem}_{cut}", HOUR, seasons, start + first * HOUR, past, future))
    return {"nab-hourly": lines}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--m4", type=Path, help="folder with M4's Hourly-train.csv, Hourly-test.csv (and Daily-…)")
    parser.add_argument("--nab", type=Path, help="folder `data` of the Numenta Anomaly Benchmark")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for old in options.out.glob("*.series.jsonl"):
        old.unlink()
    with warnings.catch_warnings():
        # pandas speaks of zones it drops, which is meant.
        warnings.simplefilter("ignore", UserWarning)
        sets = {**public_hourly(), **public_daily()}
        if options.nab:
            sets |= nab(options.nab)
    if options.m4:
        sets |= m4(options.m4)
    sets |= synthetic.sets()
    empty = [name for name, lines in sets.items() if not lines]
    if empty:
        raise SystemExit(f"no series of {', '.join(empty)}: is the folder the right one?")
    for name, lines in sets.items():
        write(options.out / f"{name}.series.jsonl", lines)


if __name__ == "__main__":
    main()
