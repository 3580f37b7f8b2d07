#!/usr/bin/env python3
"""What DuckDB makes of a query over a dataset or roll-ups, to compare `plimsoll dataset query` with.

    query.py ANSWER SQL FOLDER...      ANSWER: the JSON that plimsoll printed; exit code 1 and the first difference where they differ

Rows are compared in their order where the query has one, else as a set. Numbers may differ by rounding in the last digits.
"""
import datetime
import glob
import json
import math
import os
import re
import sys

import duckdb

CAPTURED = ("audit", "metrics", "keyspace", "quotas")


def views(connection, folders):
    files = {}
    for folder in folders:
        for table in CAPTURED:
            files.setdefault(table, []).extend(sorted(glob.glob(f"{glob.escape(folder)}/{table}/**/*.parquet", recursive=True)))
        for path in sorted(glob.glob(f"{glob.escape(folder)}/*.parquet")):
            files.setdefault(os.path.basename(path).removesuffix(".parquet"), []).append(path)
    for table, paths in files.items():
        if paths:
            hive = str(table in CAPTURED).lower()
            # Partitions as they are written, and not as what they might be.
            connection.execute(f"create view \"{table}\" as select * from read_parquet({paths!r}, hive_partitioning = {hive}, "
                               "hive_types_autocast = false, union_by_name = true)")


def plain(value):
    if isinstance(value, datetime.datetime):
        text = value.isoformat(timespec="microseconds" if value.microsecond else "seconds")
        return text + "Z"
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value.__class__.__name__ == "Decimal":
        return float(value)
    return value


def alike(ours, theirs):
    if isinstance(ours, bool) or isinstance(theirs, bool):
        return ours is theirs
    if isinstance(ours, (int, float)) and isinstance(theirs, (int, float)):
        return math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-15)
    return ours == theirs


def main():
    answer, sql, folders = json.load(open(sys.argv[1])), sys.argv[2], sys.argv[3:]
    connection = duckdb.connect()
    views(connection, folders)
    found = connection.execute(sql)
    names = [column[0] for column in found.description]
    # What hours are called as text is a number here.
    number = lambda name, value: int(value) if name == "hour" and isinstance(value, str) else plain(value)
    theirs = [[number(name, value) for name, value in zip(names, row)] for row in found.fetchall()]
    ours = [list(row.values()) for row in answer["rows"]]
    # What a column is called that has no name is each engine's own affair.
    named = lambda all: ["" if "(" in name else name for name in all]
    if answer["rows"] and named(answer["rows"][0]) != named(names):
        sys.exit(f"columns {list(answer['rows'][0])}, DuckDB {names}")
    outer = sql.lower()
    while "(" in outer:
        outer = re.sub(r"\([^()]*\)", "", outer)
    if "order by" not in outer:
        key = lambda row: json.dumps([f"{value:.9g}" if isinstance(value, float) else value for value in row])
        ours, theirs = sorted(ours, key=key), sorted(theirs, key=key)
    if len(ours) != len(theirs):
        sys.exit(f"{len(ours)} rows, DuckDB {len(theirs)}")
    for number, (a, b) in enumerate(zip(ours, theirs)):
        if len(a) != len(b) or not all(map(alike, a, b)):
            sys.exit(f"row {number}: {a}\nDuckDB: {b}")
    print(json.dumps({"rows": len(ours)}))


main()
