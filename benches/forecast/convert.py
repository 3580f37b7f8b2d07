"""From the benchmark's series to what plimsoll reads, and from its answers to what score.py reads.

    python convert.py csv SERIES.jsonl OUT.csv LIMITS.csv     a file that `plimsoll forecast` reads, and the limits
    python convert.py steps SERIES.jsonl                      step and horizon of a set, as flags
    python convert.py json SERIES.jsonl ANSWER.json OUT.jsonl the answer of `-o json --points`, as forecasts for score.py

The name of a series is its metric's name and its set a label, as `record import` has it. What is missing is left out, as a store would.
"""

import csv
import json
import sys
from datetime import datetime

from score import lines


def to_csv(series_path, csv_path, limits_path):
    """Points and limits."""
    with open(csv_path, "w", encoding="utf-8", newline="") as points, open(limits_path, "w", encoding="utf-8", newline="") as limits:
        out, bounds = csv.writer(points, lineterminator="\n"), csv.writer(limits, lineterminator="\n")
        out.writerow(["name", "time", "value", "set"])
        bounds.writerow(["series", "limit"])
        for one in lines(series_path):
            name, label = one["name"], one["set"]
            for number, value in enumerate(one["values"]):
                if value is not None:
                    out.writerow([name, one["from"] + number * one["step"], repr(value), label])
            if one["limit"] is not None:
                bounds.writerow([f'{name}{{set="{label}"}}', repr(one["limit"])])


def steps(series_path):
    """The flags of a set: all its series have one step, and the longest future is the horizon."""
    step, future = 0, 0
    for one in lines(series_path):
        step, future = one["step"], max(future, len(one["future"]))
    if not future:
        raise SystemExit(f"{series_path}: no series")
    unit = {3600: "h", 86400: "d"}[step]
    print(f"--step 1{unit} --horizon {future}{unit}")


def seconds(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def from_json(series_path, answer_path, out_path):
    """Forecasts of the steps of the future, by their times: a point between or beyond them is an error, for then another grid was forecast."""
    series = {one["name"]: one for one in lines(series_path)}
    with open(answer_path, encoding="utf-8") as file:
        rows = json.load(file)["rows"]
    with open(out_path, "w", encoding="utf-8") as out:
        for row in rows:
            one = series.get(row["name"])
            if one is None or not row.get("points"):
                continue
            first = one["from"] + len(one["values"]) * one["step"]
            at = {seconds(point["at"]): point for point in row["points"]}
            wanted = [first + i * one["step"] for i in range(len(one["future"]))]
            absent = [when for when in wanted if when not in at]
            if absent:
                raise SystemExit(f"{answer_path}: {one['name']}: no forecast for Unix second {absent[0]:.0f} ({len(absent)} such steps)")
            told = {p: [at[when][p] for when in wanted] for p in ("p10", "p50", "p90")}
            told |= {"set": one["set"], "name": one["name"], "reached": row.get("reached"), "probability": row.get("probability")}
            out.write(json.dumps(told, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    forms = {"csv": (to_csv, 3), "steps": (steps, 1), "json": (from_json, 3)}
    if len(sys.argv) < 2 or sys.argv[1] not in forms or len(sys.argv) - 2 != forms[sys.argv[1]][1]:
        raise SystemExit(__doc__)
    forms[sys.argv[1]][0](*sys.argv[2:])
