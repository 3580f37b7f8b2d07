#!/usr/bin/env python3
"""What a row of `plimsoll fleet` says of a cluster, counted from its raw audit logs.

    fleet.py SINCE UNTIL FILE...      {"requests", "bad_least", "bad_most", "seconds": [[user, agent, server seconds, requests], ...]}

Written from docs/commands/fleet.md and docs/rollup.md without a look at the Rust. Latencies are kept in buckets, a twentieth wide at most, so
that how many requests took too long is known between two numbers. `.zst` is unpacked by the zstd command.
"""
import json
import subprocess
import sys
from datetime import datetime

WRITES = {"create", "update", "patch", "delete", "deletecollection"}
LONG_RUNNING = {"proxy", "exec", "attach", "log", "portforward"}


def lines(path):
    if not path.endswith(".zst"):
        yield from open(path, "rb")
        return
    with subprocess.Popen(["zstd", "-dcq", path], stdout=subprocess.PIPE) as unpacked:
        yield from unpacked.stdout


def scope(uri, ref):
    parts = [part for part in uri.split("?")[0].split("/") if part]
    rest = parts[2:] if parts[:1] == ["api"] else parts[3:] if parts[:1] == ["apis"] else None
    if not rest:
        return "object" if ref.get("name") else "namespace" if ref.get("namespace") else "cluster"
    if rest[0] in ("watch", "proxy"):
        rest = rest[1:]
    if rest[:1] == ["namespaces"] and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        return "object" if len(rest) > 3 else "namespace"
    return "object" if len(rest) > 1 else "cluster"


def bound(verb, resource, subresource, where):
    if not resource or subresource in LONG_RUNNING:
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
        for line in lines(path):
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
            lasts = verb in ("watch", "proxy") or subresource in LONG_RUNNING or event["requestURI"].startswith("/debug/pprof/")
            own[0] += 0 if lasts else took
            limit = bound(verb, ref.get("resource", ""), subresource, scope(event["requestURI"], ref))
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
