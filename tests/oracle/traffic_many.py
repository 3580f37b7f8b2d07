#!/usr/bin/env python3
"""Runs traffic.py for many breakdowns with one reading of the files, and puts numpy's quantiles in place of the latencies.

    traffic_many.py 'verb resource,user name' [--pair-by-id] [CLUSTER:INSTANCE=]FILE...

Prints {"breakdowns": {"verb": what traffic.py prints, …}, "first": …, "last": …}: a row has `quantiles_us` (p50, p90, p99 by
nearest rank: numpy's `inverted_cdf`) or null; first and last are the times of the counted events in microseconds.
"""
import contextlib
import io
import json
import re
import sys

sys.dont_write_bytecode = True
import numpy  # noqa: E402
import traffic  # noqa: E402

read_file, cache = traffic.read, {}


def read(path):
    """What traffic.read gives, kept."""
    if path not in cache:
        cache[path] = list(read_file(path))
    return cache[path]


def breakdown(by, arguments):
    sys.argv = ["traffic.py", "--by", by, *arguments]
    with contextlib.redirect_stdout(io.StringIO()) as text:
        traffic.main()
    result = json.loads(text.getvalue())
    for row in result["rows"]:
        latencies = row.pop("latencies_us")
        quantiles = numpy.quantile(latencies, [0.5, 0.9, 0.99], method="inverted_cdf") if latencies else None
        row["quantiles_us"] = None if quantiles is None else [int(q) for q in quantiles]
    return result


def times(files):
    for name in files:
        for value, instance in read(re.sub(r"^[^:=/]*:[^:=/]*=", "", name)):
            for event, _, _ in traffic.unwrap(value, "", instance) if value is not None else ():
                at = traffic.micros(event.get("stageTimestamp")) if event else None
                if at is not None and event["stage"] != "RequestReceived":
                    yield at


def main():
    bys, arguments = sys.argv[1].split(" "), sys.argv[2:]
    traffic.read = read
    breakdowns = {by: breakdown(by, arguments) for by in bys}
    counted = list(times(a for a in arguments if not a.startswith("--")))  # a flag has its value behind =
    json.dump({"breakdowns": breakdowns, "first": min(counted, default=None), "last": max(counted, default=None)}, sys.stdout)


if __name__ == "__main__":
    main()
