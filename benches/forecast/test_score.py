"""Checks the measures of score.py: against utilsforecast, which the peer's authors measure with, and against examples worked out by hand."""

import numpy as np
import pandas as pd
from utilsforecast import losses

from score import measure, measure_oracle, place

START = 1780272000


def line(values, future, **more):
    return {"set": "s", "name": "n", "step": 3600, "season": 24, "from": START, "values": list(values), "future": list(future), "limit": None, "crossing": None, **more}


def against_utilsforecast():
    """MASE and coverage of random series."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        values, future = rng.normal(10, 3, 200), rng.normal(10, 3, 48)
        middle = rng.normal(10, 1, 48)
        low, high = middle - rng.uniform(1, 5), middle + rng.uniform(1, 5)
        ours = measure(line(values, future), {"p10": low, "p50": middle, "p90": high})
        past = pd.DataFrame({"unique_id": "n", "ds": np.arange(200), "y": values})
        frame = pd.DataFrame({"unique_id": "n", "ds": np.arange(200, 248), "y": future, "m": middle, "m-lo-80": low, "m-hi-80": high})
        mase = losses.mase(frame, ["m"], seasonality=24, train_df=past)["m"].iloc[0]
        coverage = losses.coverage(frame, ["m"], level=80)["m"].iloc[0]
        assert abs(ours["mase"] - mase) < 1e-9 * mase, (ours, mase)
        assert abs(ours["coverage"] - coverage) < 1e-12, (ours, coverage)


def by_hand():
    """Alarms and dates: history ends before 02:00 of the third day, the limit of 5 is reached at step 4, that is at 06:00."""
    series = line([1.0, 2.0] * 25, [1, 2, 3, 4, 5, 6], limit=5, crossing=4)
    flat = [1.0] * 6
    at = {"p10": "2026-06-03T05:00:00Z", "p50": "2026-06-03T08:00:00Z", "p90": None}
    told = measure(series, {"p10": flat, "p50": flat, "p90": [9.0] * 6, "reached": at, "probability": 0.75})
    assert place(series, at["p10"]) == 3 and place(series, at["p50"]) == 6
    assert told["alarm"] and told["in_range"]
    assert told["days_off"] == 2 / 24 and told["share_off"] == 2 / 5
    assert told["brier"] == 0.0625
    # A season of 24 steps of 1, 2, 1, 2, …: the scale is zero, so there is no MASE.
    assert told["mase"] is None and told["coverage"] == 1.0
    # Without `reached` the courses tell it: the middle one never, the high one at once.
    told = measure(series, {"p10": flat, "p50": flat, "p90": [9.0] * 6})
    assert not told["alarm"] and told["in_range"] and "days_off" not in told and "brier" not in told
    # Too early a range is none.
    at = {"p10": "2026-06-03T02:00:00Z", "p50": "2026-06-03T03:00:00Z", "p90": "2026-06-03T05:00:00Z"}
    assert not measure(series, {"p10": flat, "p50": flat, "p90": flat, "reached": at})["in_range"]
    knowing = measure_oracle({**series, "oracle": {"probability": 1.0, "p10": 3, "p50": 5, "p90": None}})
    assert knowing == {"brier": 0.0, "in_range": True, "days_off": 1 / 24, "share_off": 1 / 5}
    # Missing values count neither in the history nor in the future.
    series = line([None, 1.0, 3.0] * 16 + [2.0, 2.0], [None, 4.0])
    told = measure(series, {"p10": [0.0, 0.0], "p50": [9.0, 2.0], "p90": [9.0, 3.0]})
    assert told["coverage"] == 0.0
    values = np.array([np.nan if v is None else v for v in series["values"]])
    assert abs(told["mase"] - 2.0 / np.nanmean(np.abs(values[24:] - values[:-24]))) < 1e-12


if __name__ == "__main__":
    against_utilsforecast()
    by_hand()
    print("score.py: measures agree with utilsforecast's, and with examples by hand")
