#!/usr/bin/env python3
"""Whether the tables of captures in a dataset hold what a bundle's pages, databases and objects hold, as docs/dataset.md gives them.

    captured.py DATASET BUNDLE USAGE.json...      prints the rows of each table; exit code 1 and the first differences where there are any

Pages are read by prometheus_client, objects by json, the dataset by DuckDB; USAGE.json are what `plimsoll etcd usage -o json` says of
the bundle's databases, in the order of their times (which other tests compare with etcd itself).
"""
import glob
import json
import math
import os
import sys
from datetime import datetime, timedelta, timezone

import duckdb
from remembered import parse_text as parse

from quota import opened, quantity

EPOCH = datetime(1970, 1, 1)
COLUMNS = {"verb": "verb", "group": "api_group", "resource": "resource", "subresource": "subresource", "scope": "scope", "code": "code",
           "component": "component", "le": "le", "priority_level": "priority_level", "flow_schema": "flow_schema"}


def rows(connection, dataset, table):
    files = sorted(glob.glob(f"{dataset}/{table}/cluster=*/date=*/part-*.parquet"))
    if not files:
        return [], []
    found = connection.execute(f"select * from read_parquet({files!r}, hive_partitioning = true, hive_types_autocast = false)")
    return [column[0] for column in found.description], found.fetchall()


def escaped(value):
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def samples(bundle):
    for path in glob.glob(f"{bundle}/metrics/*/*"):
        at = int(os.path.basename(path).split(".")[0])
        # Without what is said of types, by which the parser would change names.
        lines = [line for line in opened(path).decode().split("\n") if not line.startswith("#")]
        for family in parse("\n".join(lines)):
            for sample in family.samples:
                labels = ",".join(f'{name}="{escaped(value)}"' for name, value in sorted(sample.labels.items()))
                own = {column: sample.labels.get(label) or None for label, column in COLUMNS.items()}
                yield {"taken_at": at, "instance": path.split("/")[-2], "name": sample.name, "labels": labels or None, "value": sample.value, **own}


def quotas(bundle):
    for path in glob.glob(f"{bundle}/objects/*/resourcequotas.*"):
        at = int(path.split("/")[-2])
        for quota in json.loads(opened(path))["items"]:
            for resource, amount in quota["spec"]["hard"].items():
                yield {"taken_at": at, "namespace": quota["metadata"]["namespace"], "quota": quota["metadata"]["name"], "resource": resource,
                       "hard": float(quantity(amount)), "used": float(quantity(quota["status"]["used"][resource]))}


def keyspace(usages):
    numbers = ["keys", "live_bytes", "key_bytes", "max_object_bytes", "managed_fields_bytes", "annotation_bytes", "last_applied_bytes",
               "revisions", "tombstones", "history_bytes"]
    for path in usages:
        for row in json.load(open(path))["rows"]:
            names = {"prefix": row["prefix"], "api_group": row["group"], "resource": row["resource"], "namespace": row["namespace"]}
            yield {**{name: value or None for name, value in names.items()}, **{name: row[name] for name in numbers}}


def same(table, names, ours, expected, cluster):
    def plain(value):
        if isinstance(value, datetime):
            return (value - EPOCH) // timedelta(seconds=1)
        return "NaN" if isinstance(value, float) and math.isnan(value) else value
    theirs = list(expected)
    wanted = list(theirs[0]) if theirs else []
    for row in ours:
        own = dict(zip(names, row))
        if own["cluster"] != cluster or own["date"] != own["taken_at"].strftime("%Y-%m-%d"):
            sys.exit(f"{table}: {own}")
    key = lambda row: json.dumps([str(value) for value in row])
    ours = sorted(([plain(value) for name, value in zip(names, row) if name in wanted] for row in ours), key=key)
    order = [name for name in names if name in wanted]
    if set(order) != set(wanted):
        sys.exit(f"{table}: columns {names}, expected {wanted}")
    theirs = sorted(([plain(row[name]) for name in order] for row in theirs), key=key)
    if len(ours) != len(theirs):
        sys.exit(f"{table}: {len(ours)} rows, expected {len(theirs)}")
    for a, b in zip(ours, theirs):
        if a != b:
            sys.exit(f"{table}: {dict(zip(order, a))}\nexpected {dict(zip(order, b))}")
    return len(ours)


def main(dataset, bundle, *usages):
    connection = duckdb.connect()
    cluster = next(line.split(":", 1)[1].strip() for line in open(f"{bundle}/bundle.yaml") if line.startswith("cluster:"))
    counts = {}
    for table, expected in (("metrics", samples(bundle)), ("quotas", quotas(bundle)), ("keyspace", keyspace(usages))):
        names, ours = rows(connection, dataset, table)
        counts[table] = same(table, names, ours, expected, cluster)
    print(json.dumps(counts))


main(*sys.argv[1:])
