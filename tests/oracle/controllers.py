#!/usr/bin/env python3
"""What plimsoll controllers should say, by other means, as JSON.

    controllers.py metrics FOLDER      queues, attempts and stages of each process folder of pages, out of prometheus_client's parser
    controllers.py kinds PODS.json     pods without a node, by what kube-scheduler's SignPod looks at
    controllers.py leases LOG...       who held which lease, by the bodies of audit logs
"""

import json
import math
import os
import re
import sys
from collections import defaultdict
from datetime import datetime
from fractions import Fraction

from metrics import quantile, read_text, samples, time_in_name
from rollup import read_lines

COUNTERS = re.compile(r"_(total|sum|count|bucket)$")


def fold(folder):
    """Of the pages of one process folder: increases of counters, last gauges, gauges by page, seconds. A process that started after the first page
    counted from 0."""
    pages = sorted((time_in_name(os.path.join(folder, name)), os.path.join(folder, name)) for name in os.listdir(folder))
    first, last = pages[0][0], pages[-1][0]
    before, increase, gauges, levels, start, came = {}, defaultdict(float), {}, defaultdict(list), None, defaultdict(float)
    for at, path in pages:
        page = {(name, tuple(sorted(labels.items()))): value for name, labels, value, _ in samples(read_text(path))}
        began = page[("process_start_time_seconds", ())]
        is_new = start is not None and abs(began - start) > 2
        is_first = start is None
        start = began
        if is_new:
            before = {}
        leads = any(value == 1 for key, value in page.items() if key[0] == "leader_election_master_status")
        for key, value in page.items():
            if not COUNTERS.search(key[0]):
                levels[key].append((at / 1e6, value))
            elif not is_first:
                increase[key] += value - before.get(key, 0.0)
                if key[0] == "scheduler_queue_incoming_pods_total" and leads:
                    came[dict(key[1])["queue"]] += value - before.get(key, 0.0)
        gauges, before = {key: value for key, value in page.items() if not COUNTERS.search(key[0])}, dict(page)
    return increase, gauges, levels, (last - first) / 1e6, came


def parts(increase, name, label):
    """Of a histogram: by the label's value, sum, count and buckets."""
    out = defaultdict(lambda: {"sum": 0.0, "count": 0.0, "buckets": defaultdict(float)})
    for (sample, labels), value in increase.items():
        labels = dict(labels)
        if sample == f"{name}_bucket":
            out[labels.get(label, "")]["buckets"][float(labels["le"])] += value
        elif sample in (f"{name}_sum", f"{name}_count"):
            out[labels.get(label, "")][sample.rsplit("_", 1)[1]] += value
    return out


def totals(values, name, label):
    out = defaultdict(float)
    for (sample, labels), value in values.items():
        if sample == name:
            out[dict(labels).get(label, "")] += value
    return out


def mean(part):
    return part["sum"] / part["count"] * 1e3 if part["count"] else None


def p(q, part):
    value = quantile(q, part["buckets"])
    return None if value is None else value * 1e3


def metrics(folder):
    out, placed = {}, {"sum": 0.0, "count": 0.0, "buckets": defaultdict(float)}
    for process in sorted(os.listdir(folder)):
        increase, gauges, levels, seconds, came = fold(os.path.join(folder, process))
        adds, retries = totals(increase, "workqueue_adds_total", "name"), totals(increase, "workqueue_retries_total", "name")
        waits, works = parts(increase, "workqueue_queue_duration_seconds", "name"), parts(increase, "workqueue_work_duration_seconds", "name")
        depth, longest = totals(gauges, "workqueue_depth", "name"), totals(gauges, "workqueue_longest_running_processor_seconds", "name")
        peaks = {dict(labels)["name"]: max(v for _, v in values) for (sample, labels), values in levels.items() if sample == "workqueue_depth"}
        queues = {}
        for name in peaks:
            if adds[name] > 0 or peaks[name] > 0:
                queues[name] = {
                    "depth": depth[name], "depth_peak": peaks[name], "adds_per_s": adds[name] / seconds, "retries_per_s": retries[name] / seconds,
                    "done_per_s": works[name]["count"] / seconds, "busy": works[name]["sum"] / seconds, "longest_s": longest[name],
                    "wait_mean_ms": mean(waits[name]), "wait_p99_ms": p(0.99, waits[name]), "work_mean_ms": mean(works[name]), "work_p99_ms": p(0.99, works[name]),
                }
        counts, times = totals(increase, "scheduler_schedule_attempts_total", "result"), parts(increase, "scheduler_scheduling_attempt_duration_seconds", "result")
        attempts = {r: {"attempts": n, "attempts_per_s": n / seconds, "mean_ms": mean(times[r]), "p50_ms": p(0.5, times[r]), "p99_ms": p(0.99, times[r])} for r, n in counts.items() if n > 0}
        points = parts(increase, "scheduler_framework_extension_point_duration_seconds", "extension_point")
        all_time = sum(part["sum"] for part in points.values())
        stages = {n: {"calls_per_s": part["count"] / seconds, "mean_ms": mean(part), "p99_ms": p(0.99, part), "time_share": part["sum"] / all_time} for n, part in points.items() if part["count"] > 0}
        requests = totals(increase, "rest_client_requests_total", "code")
        limiter, took = parts(increase, "rest_client_rate_limiter_duration_seconds", "")[""], parts(increase, "rest_client_request_duration_seconds", "")[""]
        calls = {"rps": sum(requests.values()) / seconds, "limiter_mean_ms": mean(limiter), "limiter_p99_ms": p(0.99, limiter), "mean_ms": mean(took), "p99_ms": p(0.99, took),
                 "failed": sum(n for code, n in requests.items() if code == "<error>" or code[:1] == "5"), "throttled": requests["429"]}
        pending = {dict(labels)["queue"]: values for (sample, labels), values in levels.items() if sample == "scheduler_pending_pods"}
        led = {at for (sample, _), values in levels.items() if sample == "leader_election_master_status" for at, value in values if value == 1}
        algorithm = parts(increase, "scheduler_scheduling_algorithm_duration_seconds", "")[""]
        for part in parts(increase, "scheduler_pod_scheduling_sli_duration_seconds", "attempts").values():
            placed["sum"], placed["count"] = placed["sum"] + part["sum"], placed["count"] + part["count"]
            for bound, count in part["buckets"].items():
                placed["buckets"][bound] += count
        out[process] = {"queues": queues, "attempts": attempts, "stages": stages, "calls": calls, "seconds": seconds, "leads": any(v == 1 for k, v in gauges.items() if k[0] == "leader_election_master_status"),
                        "pending": {queue: [v for at, v in values if at in led] for queue, values in pending.items()}, "last": max((at for values in pending.values() for at, _ in values if at in led), default=0),
                        "algorithm": [algorithm["sum"], algorithm["count"]], "came_in": came}
    out["all"] = {"sli_mean_ms": mean(placed), "sli_p99_ms": p(0.99, placed)}
    return out


UNITS = {"": 1, "m": Fraction(1, 1000), "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "k": 10**3, "M": 10**6, "G": 10**9}


def amount(text):
    number, unit = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", str(text)).groups()
    return Fraction(number) * UNITS[unit]


def requests(spec):
    """As component-helpers/resource has it; no sidecars."""
    total, first = defaultdict(Fraction), defaultdict(Fraction)
    for container in spec["containers"]:
        for name, value in (container.get("resources", {}).get("requests") or {}).items():
            total[name] += amount(value)
    for container in spec.get("initContainers") or []:
        assert container.get("restartPolicy") is None
        for name, value in (container.get("resources", {}).get("requests") or {}).items():
            first[name] = max(first[name], amount(value))
    for name, value in first.items():
        total[name] = max(total[name], value)
    for name, value in (spec.get("overhead") or {}).items():
        total[name] += amount(value)
    return tuple(sorted((name, str(value)) for name, value in total.items() if value))


def ordered(value):
    """Node affinity with every list sorted, as its signer has it."""
    if isinstance(value, dict):
        return {name: ordered(member) for name, member in sorted(value.items())}
    if isinstance(value, list):
        return sorted((ordered(element) for element in value), key=lambda element: json.dumps(element, sort_keys=True))
    return value


def dump(value):
    return json.dumps(value, sort_keys=True)


def kinds(path):
    pods = json.loads(read_text(path))["items"]
    waiting = [pod for pod in pods if not pod["spec"].get("nodeName") and pod["status"]["phase"] == "Pending" and not pod["metadata"].get("deletionTimestamp")]
    groups, looked_at = defaultdict(list), []
    for pod in waiting:
        spec = pod["spec"]
        affinity = spec.get("affinity") or {}
        containers = spec["containers"] + (spec.get("initContainers") or [])
        volumes = sorted(dump({name: value for name, value in volume.items() if name != "name"}) for volume in spec.get("volumes") or [] if "configMap" not in volume and "secret" not in volume)
        apart = bool(affinity.get("podAffinity") or affinity.get("podAntiAffinity") or spec.get("topologySpreadConstraints") or spec.get("resourceClaims"))
        key = dump([
            spec.get("schedulerName", "default-scheduler"), requests(spec), spec.get("nodeSelector") or {}, ordered(affinity.get("nodeAffinity")),
            sorted(map(dump, spec.get("tolerations") or [])), sorted({port["hostPort"] for c in containers for port in c.get("ports") or [] if port.get("hostPort")}),
            sorted({c["image"] if ":" in c["image"].rsplit("/", 1)[-1] else c["image"] + ":latest" for c in containers}), volumes,
            ordered(affinity.get("podAffinity")), ordered(affinity.get("podAntiAffinity")), sorted(map(dump, spec.get("topologySpreadConstraints") or [])),
            sorted(map(dump, spec.get("resourceClaims") or [])),
        ])
        groups[key].append(pod)
        if not spec.get("schedulingGates"):
            looked_at.append((spec.get("schedulerName"), -spec.get("priority", 0), pod["metadata"]["creationTimestamp"], pod["metadata"]["namespace"], pod["metadata"]["name"],
                              None if apart else (key, dump(pod["metadata"].get("labels") or {}))))
    looked_at.sort(key=lambda one: one[:5])
    signatures = [one[5] for one in looked_at]
    in_order = sum(1 for n, own in enumerate(signatures) if own is None or n == 0 or own != signatures[n - 1])
    sizes = sorted((len(members), sum(1 for pod in members if pod["spec"].get("schedulingGates"))) for members in groups.values())
    return {"pods": len(pods), "pods_waiting": len(looked_at), "pods_gated": len(waiting) - len(looked_at), "kinds": len(groups), "sizes": sizes, "pods_apart": signatures.count(None),
            "decisions_distinct": len({own for own in signatures if own is not None}) + signatures.count(None), "decisions_in_order": in_order}


def moment(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def leases(*logs):
    """Every lease that changed hands, by the bodies: who, to whom, seconds between, whether it was given up."""
    writes = defaultdict(list)
    for log in logs:
        for line in read_lines(log):
            e = json.loads(line)
            ref = e.get("objectRef", {})
            if ref.get("resource") != "leases" or e["verb"] not in ("create", "update", "patch") or e["stage"] != "ResponseComplete" or not 200 <= e["responseStatus"]["code"] < 300:
                continue
            body = e["responseObject"]
            if body["metadata"]["namespace"] != "kube-node-lease":
                writes[body["metadata"]["name"]].append((moment(e["requestReceivedTimestamp"]), moment(e["stageTimestamp"]), body["spec"].get("holderIdentity") or ""))
    changes = []
    for lease, all_writes in writes.items():
        holder, seen, is_free = None, None, False
        for received, done, now in sorted(all_writes):
            if now == "":
                is_free = True
            elif now != holder:
                if holder is not None:
                    changes.append({"at": received, "lease": lease, "from": holder, "to": now, "gap_s": received - seen, "released": is_free})
                holder, is_free = now, False
            seen = done
    return sorted(changes, key=lambda change: change["at"])


if __name__ == "__main__":
    json.dump({"metrics": metrics, "kinds": kinds, "leases": leases}[sys.argv[1]](*sys.argv[2:]), sys.stdout)
