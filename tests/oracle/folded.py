#!/usr/bin/env python3
"""Compares a stored roll-up with its log, counted anew: folded.py LOG FOLDER

Of each tile of `traffic` the sum of requests, and of each row that was not folded its own number, are counted in the log: requests by verb,
user, agent, group, resource, subresource, namespace and code, where each request counts once, in the tile of its last event.
Kubelets are one client (docs/rollup.md, section 2). Prints JSON.
"""
import json
import re
import sys
from collections import Counter
from datetime import datetime, timezone

import duckdb

LONG = {"watch", "connect"}


def micros(text):
    at = datetime.strptime(text.rstrip("Z").ljust(26, "0")[:26], "%Y-%m-%dT%H:%M:%S.%f")
    return int(at.replace(tzinfo=timezone.utc).timestamp()) * 1_000_000 + at.microsecond


def main():
    log, folder = sys.argv[1:]
    tiles, rows, started = Counter(), Counter(), {}
    for line in open(log):
        event = json.loads(line)
        ref = event.get("objectRef") or {}
        user = event["user"]["username"]
        if user.startswith("system:node:"):
            user = "system:node:*"
        key = (event["verb"], user, ref.get("apiGroup", ""), ref.get("resource", ""), ref.get("subresource", ""), ref.get("namespace", ""),
               str((event.get("responseStatus") or {}).get("code", "")))
        tile = micros(event["stageTimestamp"]) // 10_000_000 * 10
        if event["stage"] == "ResponseStarted":
            started[event["auditID"]] = (tile, key)
            continue
        started.pop(event["auditID"], None)
        tiles[tile] += 1
        rows[(tile, *key)] += 1
    for tile, key in started.values():
        tiles[tile] += 1
        rows[(tile, *key)] += 1
    source = f"'{folder}/traffic.parquet'"
    query = """SELECT tile, verb, "user", "group", resource, subresource, namespace, code, scope, sum(requests)
               FROM """ + source + " GROUP BY ALL"
    kept, of_tiles, folded = Counter(), Counter(), set()
    for tile, verb, user, group, resource, subresource, namespace, code, scope, count in duckdb.sql(query).fetchall():
        of_tiles[tile] += int(count)
        if scope == "(other)":
            folded.add(tile)
        else:
            kept[(tile, verb, user, group, resource, subresource, namespace, code)] += int(count)
    wrong_tiles = sum(1 for tile in tiles.keys() | of_tiles.keys() if tiles[tile] != of_tiles[tile])
    # In a folded tile a key may have lost the rows of some agents and shapes: never has it more than the log.
    wrong_rows = sum(1 for key, count in kept.items() if count > rows[key] or key[0] not in folded and count != rows[key])
    exact = sum(1 for key, count in kept.items() if count == rows[key])
    print(json.dumps({"tiles": len(tiles), "folded_tiles": len(folded), "wrong_tiles": wrong_tiles, "kept_rows": len(kept), "exact_rows": exact,
                      "wrong_rows": wrong_rows, "requests": sum(tiles.values())}))


if __name__ == "__main__":
    main()
