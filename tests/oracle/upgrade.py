#!/usr/bin/env python3
"""Which clients call APIs that a version of Kubernetes does not serve, counted from raw audit logs.

    upgrade.py MINOR FILE...      rows as JSON: [user, agent, version, resource, removed, verdict, requests, first, last]

Written from docs/commands/upgrade.md without a look at the Rust. Times are those of the events, as they stand there.
"""
import json
import re
import sys

OF_KUBERNETES = {"kubelet", "kube-proxy", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "cloud-controller-manager"}


def verdict(removed, agent, to):
    match = re.match(r"v?1\.(\d+)", removed)
    # A release that no number of 32 bits holds is none.
    if not match or int(match[1]) >= 2 ** 32:
        return "deprecated"
    if int(match[1]) > to:
        return "later"
    return "upgraded-along" if agent in OF_KUBERNETES else "breaks"


def main():
    to, rows = int(sys.argv[1]), {}
    for path in sys.argv[2:]:
        with open(path) as file:
            for line in file:
                event = json.loads(line)
                notes = event.get("annotations") or {}
                if notes.get("k8s.io/deprecated") != "true" or event["stage"] not in ("ResponseComplete", "Panic"):
                    continue
                ref, user = event["objectRef"], event["user"]["username"]
                user = "system:node:*" if user.startswith("system:node:") else user
                agent = event.get("userAgent", "").split("/")[0].split(" ")[0]
                version = "/".join(filter(None, [ref.get("apiGroup", ""), ref["apiVersion"]]))
                removed = notes.get("k8s.io/removed-release", "")
                key = (user, agent, version, ref["resource"], removed, verdict(removed, agent, to))
                own = rows.setdefault(key, [0, event["stageTimestamp"], event["stageTimestamp"]])
                own[0] += 1
                own[1], own[2] = min(own[1], event["stageTimestamp"]), max(own[2], event["stageTimestamp"])
    print(json.dumps(sorted([*key, *values] for key, values in rows.items())))


main()
