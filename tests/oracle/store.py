"""Reads a store's Parquet files with DuckDB: what each series and day comes to, from the sealed points and as the sealed days say it.

    store.py STORE CSV

CSV: what was imported (name,who,time,value; time in Unix seconds). Prints what differs, and how much was compared.
"""

import csv
import json
import sys
from collections import defaultdict

import duckdb

store, source = sys.argv[1:]
truth = defaultdict(dict)
with open(source) as lines:
    for row in csv.DictReader(lines):
        series = (row["name"], json.dumps({"who": row["who"]}, separators=(",", ":")))
        at, value = round(float(row["time"]) * 1e6), float(row["value"])
        # The same instant again: the largest value.
        truth[series][at] = max(value, truth[series].get(at, value))

expected = {}
for (name, labels), points in truth.items():
    by_day = defaultdict(list)
    for at in sorted(points):
        by_day[at // 86_400_000_000].append((at, points[at]))
    for day, own in by_day.items():
        high = max(value for _, value in own)
        total = 0.0
        for _, value in own:
            total += value
        expected[name, labels, day] = (len(own), min(v for _, v in own), high, min(at for at, v in own if v == high), total, own[-1][1], own[-1][0])

sealed = duckdb.sql(f"""
    SELECT name, labels, day, count, min, max, max_at, sum, last, last_at FROM read_parquet('{store}/days/*.parquet')
""").fetchall()
# `at` is a word of DuckDB's own.
of_points = duckdb.sql(f"""
    SELECT name, labels, CAST(floor("at" / 86400000000) AS BIGINT) AS day, count(*), min(value), max(value), arg_max("at", (value, -"at")), sum(value ORDER BY "at"),
           arg_max(value, "at"), max("at")
    FROM read_parquet('{store}/points/*.parquet') GROUP BY ALL
""").fetchall()
sorted_rows = duckdb.sql(f"""
    SELECT count(*) FROM (SELECT name || labels AS key, lag(name || labels) OVER w AS before, "at", lag("at") OVER w AS at_before
    FROM read_parquet('{store}/points/*.parquet', filename = true, file_row_number = true)
    WINDOW w AS (PARTITION BY filename ORDER BY file_row_number)) WHERE key < before OR key = before AND "at" <= at_before
""").fetchall()[0][0]

faults = []
for what, rows in (("days", sealed), ("points", of_points)):
    found = {tuple(row[:3]): tuple(row[3:]) for row in rows}
    if len(found) != len(rows):
        faults.append(f"{what}: a series has a day twice")
    for place in sorted(found.keys() | expected.keys()):
        mine, wanted = found.get(place), expected.get(place)
        close = mine and wanted and all(abs(a - b) <= 1e-9 * max(1.0, abs(b)) for a, b in zip(mine, wanted))
        if not close:
            faults.append(f"{what}: {place}: {mine}, not {wanted}")
if sorted_rows:
    faults.append(f"{sorted_rows} points are not in order of series and time")
print(json.dumps({"series": len(truth), "days": len(expected), "points": sum(map(len, truth.values())), "faults": faults[:20]}))
