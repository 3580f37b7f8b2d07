#!/usr/bin/env python3
"""A week of a cluster in a store, as `record` keeps it, from one hour of log: the hour's roll-up, moved by whole hours.

    benches/week.py PROGRAM LOG STORE [HOURS]

Records LOG once, makes HOURS (168) parts of its roll-up, and lets `record` put them together as old ones: tiles of a minute, a part a day. The
counts of a part are those of the log, so the week's are HOURS times as many. What joins parts (seams) is left out: each hour begins anew.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import duckdb

HOUR = 3_600
# Columns that are times, in seconds or in microseconds; 0 is no time.
SECONDS = {"tile", "second", "minute"}
MICROS = {"at", "received", "first", "last", "lasts"}


def moved(source, target, hours):
    """Writes a part's tables, so many hours later."""
    manifest = json.loads((source / "manifest.json").read_text())
    del manifest["tables"]["seams"]
    by = hours * HOUR
    for name in ("first", "last"):
        manifest[name] += by * 1_000_000
        for stream in manifest["streams"]:
            stream[name] += by * 1_000_000
    # As old as it is: of what was recorded later the age counts from then.
    manifest["recorded"] = manifest["last"]
    manifest["files"] = []
    manifest["replaces"] = []
    for name, table in manifest["tables"].items():
        table.pop("crc32c", None)
        path = source / f"{name}.parquet"
        columns = [row[0] for row in duckdb.sql(f"DESCRIBE FROM '{path}'").fetchall()]
        length = {column: by for column in SECONDS} | {column: by * 1_000_000 for column in MICROS}
        chosen = [
            f'CASE "{column}" WHEN 0 THEN 0 ELSE "{column}" + {length[column]} END AS "{column}"' if column in length else f'"{column}"'
            for column in columns
        ]
        duckdb.sql(f"COPY (SELECT {', '.join(chosen)} FROM '{path}') TO '{target / path.name}' (FORMAT parquet, COMPRESSION zstd)")
        table["bytes"] = (target / path.name).stat().st_size
    (target / "manifest.json").write_text(json.dumps(manifest))


def main():
    program, log, store = os.path.abspath(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    hours = int(sys.argv[4]) if len(sys.argv) > 4 else 168
    shutil.rmtree(store, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=store.parent) as scratch:
        one = pathlib.Path(scratch) / "one"
        subprocess.run([program, "rollup", log, "--to", one], check=True, stdout=subprocess.DEVNULL)
        manifest = json.loads((one / "manifest.json").read_text())
        assert manifest["last"] - manifest["first"] <= HOUR * 1_000_000, "the log must be at most an hour long"
        one_hour = int(duckdb.sql(f"SELECT sum(requests) FROM '{one}/traffic.parquet'").fetchall()[0][0])
        # A store with nothing in it.
        page = pathlib.Path(scratch) / "page.txt"
        page.write_text("# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1\n")
        subprocess.run([program, "record", page, "--store", store, "--once"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for hour in range(hours):
            part = store / "rollups" / f"{manifest['first'] // 1_000_000 + (hour - hours) * HOUR}-1-{hour:04x}"
            part.mkdir(parents=True)
            moved(one, part, hour - hours)
        # Hours become days.
        subprocess.run([program, "record", page, "--store", store, "--once"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    parts = {part.parent.name: json.loads(part.read_text()) for part in (store / "rollups").glob("*/manifest.json")}
    gone = {name for part in parts.values() for name in part["replaces"]}
    parts = {name: part for name, part in parts.items() if name not in gone}
    tiles = sorted({part["tile_seconds"] for part in parts.values()})
    requests = sum(int(duckdb.sql(f"SELECT sum(requests) FROM '{store}/rollups/{name}/traffic.parquet'").fetchall()[0][0]) for name in parts)
    assert requests == one_hour * hours, f"{requests} requests in the store, {one_hour} in each of {hours} hours"
    size = sum(file.stat().st_size for name in parts for file in (store / "rollups" / name).iterdir())
    print(json.dumps({"parts": len(parts), "tiles": tiles, "requests": int(requests), "bytes": size,
                      "first": manifest["first"] // 1_000_000 - hours * HOUR}))


if __name__ == "__main__":
    main()
