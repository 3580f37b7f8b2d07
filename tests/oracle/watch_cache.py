#!/usr/bin/env python3
"""Seconds of history in watch caches, a second time: from the pages of one apiserver.

    watch_cache.py PAGE...      (named by their Unix seconds; .zst is unpacked)

Prints {"group/resource": {"capacity", "rate", "history", "shortest"}}. `shortest`: at each page, how long ago the counter of received events
stood `capacity` lower, by linear interpolation between pages; the least of them.
"""
import json
import os
import re
import sys

import zstandard

SAMPLE = re.compile(r'^(watch_cache_capacity|apiserver_watch_cache_events_received_total)\{group="([^"]*)",resource="([^"]*)"\} (\S+)$', re.M)
START = re.compile(r"^process_start_time_seconds (\S+)$", re.M)


def main():
    pages = []
    for path in sys.argv[1:]:
        raw = zstandard.ZstdDecompressor().decompressobj().decompress(open(path, "rb").read()).decode()
        values = {(name, f"{group}/{resource}"): float(value) for name, group, resource, value in SAMPLE.findall(raw)}
        pages.append((float(os.path.basename(path).split(".")[0]), values, float(START.search(raw)[1])))
    pages.sort(key=lambda page: page[0])
    assert len({start for _, _, start in pages}) == 1, "one process"
    end, last, start = pages[-1]
    out = {}
    for (name, key), capacity in last.items():
        if name != "watch_cache_capacity":
            continue
        course = [(at, values.get(("apiserver_watch_cache_events_received_total", key), 0.0)) for at, values, _ in pages]
        rate = (course[-1][1] - course[0][1]) / (course[-1][0] - course[0][0])
        least = None
        for i, (at, count) in enumerate(course):
            target = count - capacity
            if target < course[0][1]:
                continue
            for (a, x), (b, y) in zip(course[:i], course[1:i + 1]):
                if x <= target <= y and y > x:
                    when = a + (b - a) * (target - x) / (y - x)
            # Smaller caches double rather than forget what is younger than 75 s, and none is older than its process.
            least = min(least or 1e18, min(max(at - when, 75), end - start))
        out[key] = {"capacity": capacity, "rate": rate, "history": min(max(capacity / rate, 75), end - start) if rate > 0 else None, "shortest": least}
    print(json.dumps(out))


if __name__ == "__main__":
    main()
