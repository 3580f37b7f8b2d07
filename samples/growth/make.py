#!/usr/bin/env python3
"""Writes history.csv.zst: sixty days of a cluster that never was, hour by hour, in the series that `plimsoll record` keeps.

What grows and when it reaches its limit is known, since it is made here (README.md). Times end at 2026-11-20T00:00:00Z.
"""
import csv
import io
import subprocess
from pathlib import Path

import numpy as np

HOURS = 60 * 24
END = 1_795_132_800
rng = np.random.default_rng(20261120)
hour = np.arange(HOURS)
day = hour / 24
at = END - HOURS * 3600 + hour * 3600
# Office hours of working days; 2026-09-21 was a Monday.
office = (np.sin((hour % 24 - 8) / 12 * np.pi).clip(0) * np.where(hour // 24 % 7 < 5, 1.0, 0.25)).round(3)
rows = []


def put(name, values, **labels):
    for when, value in zip(at, values):
        if np.isfinite(value):
            rows.append({"name": name, "time": int(when), "value": f"{value:.10g}", **labels})


def noise(scale):
    return rng.normal(0, scale, HOURS)


# Quotas. web grows by 1.5 cores a week and has 60; batch is level; ml moved in on day 41 and grows since.
web = 36 + 1.5 * day / 7 + 6 * office + noise(0.4)
batch = 22 + 8 * (hour % 24 < 4) + noise(0.6)
ml = np.where(day < 41, 4, 18 + 0.55 * (day - 41)) + noise(0.3)
for namespace, used, hard in (("web", web, 60), ("batch", batch, 40), ("ml", ml, 40)):
    labels = {"namespace": namespace, "resourcequota": "compute", "resource": "requests.cpu"}
    put("kube_resourcequota", used.round(1), type="used", **labels)
    put("kube_resourcequota", np.full(HOURS, hard), type="hard", **labels)
    put("namespace_requests", used.round(1), namespace=namespace, resource="cpu")
    pods = (used * 3.1).round()
    put("namespace_objects", pods, namespace=namespace, resource="pods")
for node in range(1, 9):
    put("kube_node_status_allocatable", np.full(HOURS, 15.5), node=f"node-{node}", resource="cpu")

# Objects, and with them etcd, which is defragmented every week; its quota is 8 GiB.
events = 9_000 + 4_000 * office + noise(300)
pods = (web + batch + ml) * 3.1
workflows = 12_000 + 260 * day + noise(60)
put("apiserver_objects", events.round(), group="events.k8s.io", resource="events")
put("apiserver_objects", pods.round(), resource="pods")
put("apiserver_objects", workflows.round(), group="argoproj.io", resource="workflows")
put("apiserver_object_bytes", (pods * 12_000).round(), resource="pods")
put("apiserver_object_bytes", (workflows * 60_000).round(), group="argoproj.io", resource="workflows")
in_use = 2.1e9 + workflows * 60_000
db = in_use + 1.6e9 * ((day + 2) % 7) / 7
put("etcd_db_bytes", db.round(), instance="10.0.0.11:2379")
put("etcd_quota_bytes", np.full(HOURS, 8 * 2**30), instance="10.0.0.11:2379")

# Requests and seats: they follow the office hours and do not grow.
put("apiserver_rps", (180 + 90 * office + noise(6)).round(2), verb="list", resource="pods")
put("apiserver_rps", (310 + 40 * office + noise(5)).round(2), verb="update", group="coordination.k8s.io", resource="leases")
seats = 35 + 60 * office + rng.gamma(1.5, 3, HOURS)
put("apiserver_seats", seats.round(), priority_level="workload-low", kind="executing")
put("apiserver_seats", np.full(HOURS, 245), priority_level="workload-low", kind="limit")

# The apiserver's memory grows with what it caches.
put("cgroup_memory_bytes", (5.2e9 + workflows * 110_000 + noise(3e7)).round(), path="/kubepods/apiserver", kind="working_set")
put("cgroup_memory_bytes", np.full(HOURS, 12 * 2**30), path="/kubepods/apiserver", kind="limit")

# A scrape that failed for a day and a half.
rows = [row for row in rows if not END - 20 * 86_400 < row["time"] < END - 20 * 86_400 + 36 * 3600]
rows.sort(key=lambda row: row["time"])
columns = ["name", "time", "value"] + sorted({key for row in rows for key in row} - {"name", "time", "value"})
text = io.StringIO()
writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
writer.writeheader()
writer.writerows(rows)
out = Path(__file__).parent / "history.csv.zst"
subprocess.run(["zstd", "-q", "-19", "-f", "-o", out], input=text.getvalue().encode(), check=True)
print(f"{len(rows)} rows, {out.stat().st_size} bytes")
