"""What `plimsoll record` must write of a bundle, by its definition in docs/history.md: read from the same files once more.

    record.py BUNDLE

Prints {series: [[unix seconds, value], ...]}, series as `name{"label":"value"}` with labels by name.
"""

import json
import re
import sys
from collections import defaultdict
from decimal import Decimal
from pathlib import Path

import zstandard

LINE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')
VERBS = {"LIST": "list", "GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "APPLY": "patch", "WATCH": "watch",
         "WATCHLIST": "watch", "CONNECT": "connect"}


def text(path):
    data = path.read_bytes()
    if path.suffix == ".zst":
        data = zstandard.ZstdDecompressor().stream_reader(data).read()
    return data.decode()


def key(name, **labels):
    labels = {k: v for k, v in sorted(labels.items()) if v != ""}
    return name + json.dumps(labels, separators=(",", ":"), ensure_ascii=False)


def page(path):
    for line in text(path).splitlines():
        found = LINE.match(line)
        if found:
            yield found[1], dict(LABEL.findall(found[2] or "")), float(found[3])


def seconds(path):
    return int(path.name.split(".")[0])


samples = defaultdict(dict)
bundle = Path(sys.argv[1])

# Pages: counters of each instance on each page, by what is recorded.
counters = defaultdict(dict)
for folder in sorted((bundle / "metrics").iterdir()):
    for path in sorted(folder.iterdir()):
        at, own = seconds(path), defaultdict(float)
        seats, limits = defaultdict(float), {}
        for name, labels, value in page(path):
            level = labels.get("priority_level", "")
            if name == "apiserver_request_total":
                verb = labels["verb"]
                if labels["resource"] and verb == "DELETE":
                    verb = "delete" if labels["scope"] == "resource" else "deletecollection"
                elif labels["resource"]:
                    verb = VERBS.get(verb, verb.lower())
                else:
                    verb = verb.lower()
                own[key("apiserver_rps", verb=verb, group=labels["group"], resource=labels["resource"], subresource=labels["subresource"])] += value
            elif name == "apiserver_flowcontrol_dispatched_requests_total":
                own[key("apiserver_rps", flow_schema=labels["flow_schema"], priority_level=level)] += value
            elif name == "apiserver_resource_objects" and value >= 0:
                series = samples[key("apiserver_objects", group=labels["group"], resource=labels["resource"])]
                series[at] = max(series.get(at, 0), value)
            elif name == "apiserver_resource_size_estimate_bytes" and value >= 0:
                series = samples[key("apiserver_object_bytes", group=labels["group"], resource=labels["resource"])]
                series[at] = max(series.get(at, 0), value)
            elif name == "apiserver_flowcontrol_current_executing_seats":
                seats[level] += value
            elif name == "apiserver_flowcontrol_current_limit_seats":
                limits[level] = value
            elif name in ("etcd_mvcc_db_total_size_in_bytes", "etcd_mvcc_db_total_size_in_use_in_bytes", "etcd_server_quota_backend_bytes"):
                short = {"size_in_bytes": "etcd_db_bytes", "use_in_bytes": "etcd_db_in_use_bytes", "backend_bytes": "etcd_quota_bytes"}
                samples[key(next(v for k, v in short.items() if name.endswith(k)), instance=folder.name)][at] = value
            elif name == "apiserver_storage_size_bytes":
                series = samples[key("etcd_db_bytes")]
                series[at] = max(series.get(at, 0), value)
        for kind, levels in (("executing", seats), ("limit", limits)):
            for level, value in levels.items():
                series = samples[key("apiserver_seats", priority_level=level, kind=kind)]
                series[at] = series.get(at, 0) + value
        if own:
            counters[folder.name][at] = own

# Rates: the increase since the page before, of all instances together. (No process of these bundles starts anew.)
for pages in counters.values():
    times = sorted(pages)
    for before, at in zip(times, times[1:]):
        for series, value in pages[at].items():
            rate = (value - pages[before].get(series, 0)) / (at - before)
            assert rate >= 0, (series, at)
            samples[series][at] = samples[series].get(at, 0) + rate

# Cgroups, v1: usage, working set = usage - inactive_file, anonymous memory, cache, limit.
for folder in sorted((bundle / "cgroup").iterdir()):
    for path in sorted(folder.iterdir()):
        at, files, current = seconds(path), defaultdict(dict), ""
        for line in text(path).splitlines():
            if line.startswith("== "):
                current = line[3:]
            else:
                name, _, value = line.rpartition(" ")
                files[current][name] = value
        stat = {name: int(value) for name, value in files["memory.stat"].items()}
        usage = int(files["memory.usage_in_bytes"][""])
        total = lambda name: stat.get("total_" + name, stat[name])
        values = {"usage": usage, "working_set": max(0, usage - total("inactive_file")), "anon": total("rss"), "file": total("cache")}
        for kind, value in values.items():
            samples[key("cgroup_memory_bytes", path=folder.name, kind=kind)][at] = value

# Quotas as the cluster counted them.
SUFFIX = {"": 1, "m": Decimal("0.001"), "k": 10**3, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def quantity(written):
    found = re.match(r"^([\d.]+)([a-zA-Z]*)$", written)
    return float(Decimal(found[1]) * SUFFIX[found[2]])


for folder in sorted((bundle / "objects").iterdir()):
    for path in folder.glob("resourcequotas.json*"):
        for item in json.loads(text(path))["items"]:
            for kind in ("hard", "used"):
                for resource, amount in item["status"].get(kind, {}).items():
                    labels = {"namespace": item["metadata"]["namespace"], "resourcequota": item["metadata"]["name"], "resource": resource}
                    samples[key("kube_resourcequota", type=kind, **labels)][int(folder.name)] = quantity(amount)

print(json.dumps({series: sorted(points.items()) for series, points in samples.items()}))
