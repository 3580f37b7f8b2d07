#!/usr/bin/env python3
"""What a row of `plimsoll fleet` says of a cluster, counted from its raw audit logs.

    fleet.py SINCE UNTIL FILE...      {"requests", "bad_least", "bad_most", "seconds": [[user, agent, server seconds, requests], ...]}

Written from docs/commands/fleet.md and docs/rollup.md without a look at the Rust. Latencies are kept in buckets, a twentieth wide at most, so
that how many requests took too long is known between two numbers.
"""
import json
import sys
from datetime import datetime

from dataset import LONG_SUBRESOURCES, is_long_running, scope
from rollup import read_lines

WRITES = {"create", "update", "patch", "delete", "deletecollection"}


def bound(verb, resource, subresource, where):
    if not resource or subresource in LONG_SUBRESOURCES:
        return None
    if verb in WRITES:
        return 1.0
    if verb in ("get", "list"):
        return {"object": 1.0, "namespace": 30.0, "cluster": 30.0}[where]
    return None


def at(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def main():
    since, until = at(sys.argv[1]), at(sys.argv[2])
    requests = least = most = 0
    clients = {}
    for path in sys.argv[3:]:
        for line in read_lines(path):
            event = json.loads(line)
            if event["stage"] not in ("ResponseComplete", "Panic") or not since <= at(event["stageTimestamp"]) < until:
                continue
            ref, verb = event.get("objectRef") or {}, event["verb"]
            took = (at(event["stageTimestamp"]) - at(event["requestReceivedTimestamp"])).total_seconds()
            user = event["user"].get("username", "")
            user = "system:node:*" if user.startswith("system:node:") else user
            agent = event.get("userAgent", "").split("/")[0].split(" ")[0]
            own = clients.setdefault((user, agent), [0.0, 0])
            subresource = ref.get("subresource", "")
            own[1] += 1
            own[0] += 0 if is_long_running(event["requestURI"], verb, subresource) else took
            limit = bound(verb, ref.get("resource", ""), subresource, scope(event["requestURI"], ref, verb))
            if limit is None:
                continue
            requests += 1
            code = (event.get("responseStatus") or {}).get("code", 0)
            is_failed = code == 0 or code >= 500
            least += is_failed or took >= limit * 1.05
            most += is_failed or took >= limit * 0.95
    seconds = sorted(([*who, own[0], own[1]] for who, own in clients.items()), key=lambda row: -row[2])
    print(json.dumps({"requests": requests, "bad_least": least, "bad_most": most, "seconds": seconds}))


main()
