#!/usr/bin/env python3
"""Counts who writes, which objects, and in turns with whom, a second time, for tests to compare with `plimsoll clients`.

    writers.py CLUSTER:INSTANCE=FILE...

Written from docs/rollup.md (`writes`, `alternations`) and docs/findings.md (`client-write-storm`) without a look at the
Rust. FILE as in clients.py. Prints {"writes": [...], "alternations": [...], "conflicts": [...], "busiest": [...]}:
rows of the two tables, 409s by object and client, and of each client its busiest 60 s: writes that an apiserver worked
on, in tiles of 10 s, and those of its cluster.
"""
import json
import sys
from collections import Counter, defaultdict, deque

sys.dont_write_bytecode = True
from clients import read_all  # noqa: E402

MINUTE = 60_000_000
TILE = 10
REVIEWS = ("subjectaccessreviews", "localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews",
           "selfsubjectreviews", "tokenreviews")


def ref(event):
    return event.cluster, event.group, event.resource, event.subresource, event.namespace, event.name


def of_objects(events):
    """Updates and patches that were done, of an object by name, in the order of time."""
    done = [e for e in events if e.terminal and e.verb in ("update", "patch") and e.name and not e.late
            and e.code is not None and 200 <= e.code < 300 and "dryRun=" not in e.uri]
    return sorted(done, key=lambda e: e.order())


def writes(events, first, last):
    counts = Counter((e.at // MINUTE * 60, *ref(e), *e.client()[1:]) for e in of_objects(events))
    edges = {first // MINUTE * 60, last // MINUTE * 60}
    return [[*key, count] for key, count in sorted(counts.items()) if count >= 12 or count >= 6 and key[0] in edges]


def alternations(events):
    lasts, turns = defaultdict(lambda: deque(maxlen=2)), {}
    for e in of_objects(events):
        before, who = lasts[ref(e)], e.client()[1:]
        if len(before) == 2 and before[0][1] == who != before[1][1] and e.at - before[0][0] <= 2 * MINUTE:
            pair = (*ref(e), *min(who, before[1][1]), *max(who, before[1][1]))
            turns.setdefault(pair, []).append(e.at)
        before.append((e.at, who))
    return [[*pair, len(times), times[0], times[-1]] for pair, times in sorted(turns.items())]


def conflicts(events):
    """409 of updates, patches and deletes by object and client."""
    counts = Counter((e.cluster, e.group, e.resource, e.namespace, e.name, *e.client()[1:]) for e in events
                     if e.terminal and e.name and not e.late and e.code == 409 and e.verb != "create")
    return [[*key, count] for key, count in sorted(counts.items())]


def is_write(event):
    """Whether it is a write that an apiserver worked on, and no Event, question, token or heartbeat of a node."""
    if event.verb not in ("create", "update", "patch", "delete", "deletecollection"):
        return False
    if event.resource in ("events", *REVIEWS) or event.subresource == "token" or event.code in (401, 403, 429):
        return False
    return not (event.resource == "leases" and event.folded_user() == "system:node:*")


def busiest(requests):
    own, all_writes = defaultdict(Counter), defaultdict(Counter)
    for event in filter(is_write, requests):
        tile = event.at // 1_000_000 // TILE * TILE
        own[event.client()][tile] += 1
        all_writes[event.cluster][tile] += 1
    rows = []
    for client, tiles in sorted(own.items()):
        def within(start, counts):
            return sum(counts[start + n * TILE] for n in range(6))
        most, start = max((within(tile, tiles), -tile) for tile in tiles)
        rows.append([*client, most, within(-start, all_writes[client[0]]), -start])
    return rows


def main():
    events, requests, _ = read_all(sys.argv[1:])
    times = [event.at for event in events]
    json.dump({"writes": writes(events, min(times), max(times)), "alternations": alternations(events),
               "conflicts": conflicts(events), "busiest": busiest(requests)}, sys.stdout)
    print()


if __name__ == "__main__":
    main()
