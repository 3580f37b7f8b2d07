"""The hours, or days, of each series in a CSV or Parquet file, by SQL on DuckDB: what `plimsoll forecast` has to start from.

    forecast_grids.py FILE STEP_SECONDS

Prints JSON: {series: {interval: highest value}}, a series as `name|label=value|…` by label, an interval as its number since 1970. The last
interval of a series is left out if its last point lies more than one and a half mean distances (of all its distinct points within intervals
that have some) before the interval's end.
"""

import json
import sys

import duckdb

PATH, STEP = sys.argv[1], int(sys.argv[2])


def main():
    """Reads, groups, prints."""
    file = f"read_parquet('{PATH}')" if PATH.endswith(".parquet") else f"read_csv('{PATH}', all_varchar=true, header=true)"
    columns = [name for (name, *_) in duckdb.sql(f"describe select * from {file}").fetchall()]
    labels = sorted(set(columns) - {"name", "time", "value"})
    text = " || ".join(["name"] + [f"(case when coalesce(\"{name}\", '') = '' then '' else '|{name}=' || \"{name}\" end)" for name in labels])
    points = f"""
        select {text} as series, cast(time as double) as moment, cast(value as double) as value from {file}
        where isfinite(cast(value as double))
    """
    intervals = duckdb.sql(f"select series, cast(floor(moment / {STEP}) as bigint), max(value) from ({points}) group by 1, 2").fetchall()
    ends = duckdb.sql(
        f"select series, max(moment), count(distinct moment), count(distinct floor(moment / {STEP})) from ({points}) group by 1"
    ).fetchall()
    found = {}
    for series, interval, value in intervals:
        found.setdefault(series, {})[interval] = value
    for series, last, points_of, intervals_of in ends:
        interval = int(last // STEP)
        if last + 1.5 * STEP * intervals_of / points_of < (interval + 1) * STEP:
            del found[series][interval]
    json.dump(found, sys.stdout)


main()
