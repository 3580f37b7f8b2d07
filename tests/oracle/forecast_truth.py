"""Series of control planes that were never there, whose truth is known (benches/forecast/synthetic.py), and what forecasts of them are worth.

    forecast_truth.py make DIR     for each set DIR/SET.csv, DIR/SET.limits.csv, DIR/SET.series.jsonl
    forecast_truth.py judge DIR    of DIR/SET.json, the answers of `plimsoll forecast --points -o json`: one JSON object

MASE, coverage, alarms and dates are defined in benches/forecast/score.py.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benches/forecast"))

import convert
import synthetic
from score import lines, mean, measure, median


def make(folder):
    for name, series in synthetic.sets(with_oracle=False).items():
        path = folder / f"{name}.series.jsonl"
        path.write_text("".join(json.dumps(one) + "\n" for one in series), encoding="utf-8")
        convert.to_csv(path, folder / f"{name}.csv", folder / f"{name}.limits.csv")


def judge(folder):
    told = {}
    for path in sorted(folder.glob("*.series.jsonl")):
        name = path.name.removesuffix(".series.jsonl")
        answers = folder / f"{name}.forecasts.jsonl"
        convert.from_json(path, folder / f"{name}.json", answers)
        forecasts = {one["name"]: one for one in lines(answers)}
        for series in lines(path):
            told[name, series["name"]] = series, measure(series, forecasts[series["name"]])
    still = [m["alarm"] for s, m in told.values() if s["stationary"]]
    crossed = [m for s, m in told.values() if s["crossing"] is not None]
    by_set = {name: [m for (of, _), (_, m) in told.items() if of == name] for name in {name for name, _ in told}}
    print(
        json.dumps(
            {
                "series": len(told),
                "mase": {name: mean(m["mase"] for m in members) for name, members in by_set.items()},
                "coverage": {name: mean(m["coverage"] for m in members) for name, members in by_set.items()},
                "stationary": len(still),
                "false_alarms": sum(still),
                "crossings": len(crossed),
                "announced": sum(m["alarm"] for m in crossed),
                "in_range": sum(m["in_range"] for m in crossed),
                "median_days_off": median(m.get("days_off") for m in crossed),
            }
        )
    )


if __name__ == "__main__":
    {"make": make, "judge": judge}[sys.argv[1]](Path(sys.argv[2]))
