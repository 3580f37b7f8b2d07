#!/usr/bin/env python3
"""What prometheus_client says of pages of metrics, for tests to compare with plimsoll's reader.

    decide.py [--openmetrics] [--json] [FILE...]        (names on stdin if there are none)

Prints one line per file: "ok", or "bad: " and the reason. --openmetrics reads by the rules of OpenMetrics 1.0, otherwise by those of the
Prometheus text format 0.0.4. With --json a line is one object:

    {"file": …, "ok": true, "samples": [{"name", "labels", "value", "timestamp", "exemplar"}]}
    {"file": …, "ok": false, "reason": …}

`value` and `timestamp` (seconds) are strings, Python's repr of the float, so that nan, inf and -inf survive; `timestamp` and
`exemplar` are null where there is none; an exemplar is {"labels", "value", "timestamp"}. Samples are in the order in which the
parser gives them (families are put together). The parser puts `_total` behind the names of counters that lack it, and reads
-0 as 0. Files may be packed with gzip or Zstandard (needs the module zstandard).
"""
import argparse
import gzip
import json
import sys


def content(path):
    with open(path, "rb") as file:
        data = file.read()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    elif data[:4] == b"\x28\xb5\x2f\xfd":
        import zstandard
        data = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()
    return data.decode("utf-8")


def number(value):
    return None if value is None else repr(float(value))


def exemplar(sample):
    found = getattr(sample, "exemplar", None)
    if not found:
        return None
    return {"labels": found.labels, "value": number(found.value), "timestamp": number(found.timestamp)}


def decide(path, parse):
    try:
        samples = [{"name": s.name, "labels": s.labels, "value": number(s.value), "timestamp": number(s.timestamp),
                    "exemplar": exemplar(s)}
                   for family in parse(content(path)) for s in family.samples]
    except Exception as error:  # the parser raises ValueError, KeyError, AttributeError, … : all mean no
        return {"file": path, "ok": False, "reason": f"{type(error).__name__}: {error}"}
    return {"file": path, "ok": True, "samples": samples}


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--openmetrics", action="store_true")
    arguments.add_argument("--json", action="store_true")
    arguments.add_argument("files", nargs="*")
    args = arguments.parse_args()
    if args.openmetrics:
        from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
    else:
        from prometheus_client.parser import text_string_to_metric_families as parse
    for path in args.files or (line.rstrip("\n") for line in sys.stdin):
        decision = decide(path, parse)
        if args.json:
            print(json.dumps(decision, ensure_ascii=True), flush=True)
        elif decision["ok"]:
            print("ok", flush=True)
        else:
            print("bad: " + " ".join(decision["reason"].split()), flush=True)


if __name__ == "__main__":
    main()
