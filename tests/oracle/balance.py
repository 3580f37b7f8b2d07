#!/usr/bin/env python3
"""What plimsoll balance should say, by other means.

    balance.py counts INSTANCE=LOG...       server time by instance, and each client's requests by instance, as JSON
    balance.py goaway REPORT                skews by simulating connections that move, for the chances of a report of plimsoll balance
    balance.py restart FOLDER               a bundle of two apiservers of which one starts anew; when, and when it is back, as JSON
"""

import json
import os
import random
import sys
import datetime
from collections import defaultdict

import numpy as np

from rollup import read_lines


def micros(text):
    return int(datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1_000_000 + 0.5)


LONG = {"attach", "exec", "log", "portforward", "proxy"}


def counts(*logs):
    server, clients, started = defaultdict(int), defaultdict(lambda: defaultdict(int)), {}
    for log in logs:
        instance, path = log.split("=", 1)
        for line in read_lines(path):
            e = json.loads(line)
            user = "system:node:*" if e["user"]["username"].startswith("system:node:") else e["user"]["username"]
            agent = e.get("userAgent", "").split("/")[0].split(" ")[0]
            ref = e.get("objectRef", {})
            is_long = e["verb"] in ("watch", "proxy") or ref.get("subresource") in LONG or e["requestURI"].startswith("/debug/pprof/")
            key = (instance, e["auditID"], e["requestURI"])
            if e["stage"] in ("ResponseComplete", "Panic"):
                started.pop(key, None)
                clients[f"{user}|{agent}"][instance] += 1
                if not is_long:
                    server[instance] += max(0, micros(e["stageTimestamp"]) - micros(e["requestReceivedTimestamp"]))
            elif e["stage"] == "ResponseStarted" and is_long and e["responseStatus"]["code"] < 400:
                started[key] = f"{user}|{agent}"
    for (instance, *_), client in started.items():
        clients[client][instance] += 1
    return {"server_time_s": {name: value / 1e6 for name, value in server.items()}, "clients": clients}


def goaway(path):
    """Connections one by one: each request may be the last of its connection, and the next one lies anywhere. The mean of the highest load."""
    report = json.load(open(path))
    count = len(report["rows"])
    busiest = max(report["rows"], key=lambda row: row["requests"])
    seconds = report["window"]["seconds"]
    r = np.random.default_rng(5)
    total = sum(row["requests"] for row in report["rows"])
    fixed = [total - busiest["requests"], busiest["requests"]]  # elsewhere, there
    weights, places = [], []
    for row in report["tables"]["clients"]:
        there = row["share_there"] * row["requests"]
        if row["user"] == "system:apiserver":
            continue
        fixed[0] -= row["requests"] - there
        fixed[1] -= there
        on = round(row["share_there"] * row["sources"])
        weights += [row["requests"] / row["sources"]] * row["sources"]
        places += [1] * on + [0] * (row["sources"] - on)
    weights, places = np.array(weights), np.array(places)
    assert count == 2 and min(fixed) > -0.02 * total, fixed
    result = []
    for row in report["tables"]["goaway"]:
        skews = []
        for after in (60, 600, 3600):
            tries = []
            for _ in range(2000):
                stays = r.random(len(weights)) < np.exp(-row["goaway_chance"] * weights / seconds * after)
                now = np.where(stays, places, r.random(len(weights)) < 0.5)
                there = fixed[1] + (weights * now).sum()
                tries.append(max(there, total - there) / total * count)
            skews.append(float(np.mean(tries)))
        result.append([row["goaway_chance"], skews])
    return {"skews": result}


def restart(folder):
    """Even until 300 s; then b is down for 20 s, comes back empty, and its clients come back after a while."""
    r, start, events = random.Random(4), 1795166280, {"a": [], "b": []}
    stamp = lambda at: datetime.datetime.fromtimestamp(at, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    back = {client: start + 320 + 60 + 120 * client / 40 for client in range(40)}
    for client in range(40):
        home = "ab"[client % 2]
        at = start + r.uniform(0, 1)
        while at < start + 900:
            instance = "a" if home == "b" and start + 300 <= at < back[client] else home
            events[instance].append({
                "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": f"{r.getrandbits(128):032x}",
                "stage": "ResponseComplete", "requestURI": "/api/v1/pods", "verb": "list", "user": {"username": f"u{client}", "groups": []},
                "sourceIPs": [f"10.0.0.{client}"], "userAgent": "prober/v1", "objectRef": {"resource": "pods", "apiVersion": "v1"},
                "responseStatus": {"metadata": {}, "code": 200}, "requestReceivedTimestamp": stamp(at - 0.01), "stageTimestamp": stamp(at),
            })
            at += r.expovariate(1)
    for instance, of in events.items():
        os.makedirs(os.path.join(folder, "audit", instance))
        os.makedirs(os.path.join(folder, "metrics", instance))
        with open(os.path.join(folder, "audit", instance, "audit.log"), "w") as f:
            f.writelines(json.dumps(event, separators=(",", ":")) + "\n" for event in of)
        began = start - 86400 if instance == "a" else start + 320
        for at, count in (340, len(of) // 3), (899, len(of)):
            with open(os.path.join(folder, "metrics", instance, f"{start + at}.txt"), "w") as f:
                f.write(f"# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {began}\n# TYPE apiserver_request_total counter\n"
                        f'apiserver_request_total{{verb="LIST",resource="pods",scope="cluster",code="200"}} {count}\n')
    # Four fifths of a half: 16 of its 20 clients.
    return {"down": start + 300, "started": start + 320, "back": sorted(back[client] for client in range(1, 40, 2))[15] - (start + 320)}


command, *arguments = sys.argv[1:]
json.dump({"counts": counts, "goaway": goaway, "restart": restart}[command](*arguments), sys.stdout)
