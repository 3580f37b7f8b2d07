#!/usr/bin/env python3
"""Queries with names, by `plimsoll dataset query` and by DuckDB over the same dataset, in turns.

    query.py PLIMSOLL DATASET [RUNS]      for each: medians in seconds, and the ratio

plimsoll's time is that of the whole process; DuckDB's is that of reading the list of files and answering, without starting Python.
Both use all cores.
"""
import glob
import json
import statistics
import subprocess
import sys
import time

import duckdb


def theirs(dataset, sql):
    began = time.perf_counter()
    connection = duckdb.connect()
    for table in ("audit", "metrics", "keyspace", "quotas"):
        files = glob.glob(f"{dataset}/{table}/**/part-*.parquet", recursive=True)
        if files:
            connection.execute(f"create view {table} as select * from read_parquet({files!r}, hive_partitioning = true)")
    rows = connection.execute(sql).fetchall()
    return time.perf_counter() - began, len(rows)


def ours(program, dataset, sql):
    began = time.perf_counter()
    done = subprocess.run([program, "dataset", "query", sql, dataset, "-o", "csv"], capture_output=True, check=True)
    return time.perf_counter() - began, done.stdout.count(b"\n") - 1


def main(program, dataset, runs=7):
    listed = json.loads(subprocess.run([program, "dataset", "query", ".queries", "-o", "json"], capture_output=True, check=True).stdout)
    queries = {row["query"]: row["text"] for row in listed["rows"]}
    queries["count"] = "select count(*) as n from audit"
    queries["distinct"] = "select count(distinct audit_id) as n from audit"
    queries["one-client"] = "select verb, count(*) as n from audit where client_agent = 'kubectl' group by verb"
    print(f"{'query':20} {'plimsoll':>10} {'duckdb':>10} {'ratio':>7}")
    for name, sql in queries.items():
        a, b = [], []
        try:
            for _ in range(int(runs) + 1):
                a.append(ours(program, dataset, sql)[0])
                b.append(theirs(dataset, sql)[0])
        except (subprocess.CalledProcessError, duckdb.Error) as error:
            # The dataset has no such table.
            reason = error.stderr.decode() if isinstance(error, subprocess.CalledProcessError) else str(error)
            print(f"{name:20} {reason.splitlines()[-1][:80]}")
            continue
        # The first one of each warms the page cache.
        ratio = statistics.median(x / y for x, y in zip(a[1:], b[1:]))
        print(f"{name:20} {statistics.median(a[1:]):10.3f} {statistics.median(b[1:]):10.3f} {ratio:7.2f}")


main(*sys.argv[1:])
