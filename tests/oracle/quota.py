"""What quotas of a bundle should be, counted without plimsoll: from the objects' JSON and the audit logs.

usage: quota.py BUNDLE [HEADROOM] -> {"rows": {"namespace|quota|resource": {...}}, "silent": [...], "allocatable": {...}}
"""
import glob
import json
import math
import os
import re
import sys
from fractions import Fraction

import zstandard

SUFFIX = {"": 1, "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
SUFFIX.update({name: 1024 ** (power + 1) for power, name in enumerate(["Ki", "Mi", "Gi", "Ti"])})


def quantity(text):
    number, suffix = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", text).groups()
    return Fraction(number) * SUFFIX[suffix]


def opened(path):
    data = open(path, "rb").read()
    if data[:4] == b"\x28\xb5\x2f\xfd":
        data = zstandard.ZstdDecompressor().stream_reader(data).read()
    return data


def rounded(value, resource):
    is_bytes = resource.split(".")[-1] in ("memory", "storage", "ephemeral-storage")
    is_cpu = resource.split(".")[-1] == "cpu"
    if is_bytes:
        steps = [Fraction(2**power) for power in range(60)]
    else:
        least = Fraction(1, 1000) if is_cpu else Fraction(1)
        steps = sorted(least * base * 10**power for power in range(20) for base in (1, 2, 5))
    step = max([step for step in steps if step <= value / 20] or [steps[0]])
    return math.ceil(value / step) * step


def main(bundle, headroom=Fraction(1, 5)):
    peak, used, hard = {}, {}, {}
    captures = sorted(glob.glob(os.path.join(bundle, "objects", "*")))
    silent = set()
    allocatable = {}
    for capture in captures:
        items = {kind: json.loads(opened(path))["items"] for path in glob.glob(capture + "/*") for kind in [os.path.basename(path).split(".")[0]]}
        now, hard = {}, {}
        for quota in items["resourcequotas"]:
            for resource, amount in quota["spec"]["hard"].items():
                key = (quota["metadata"]["namespace"], quota["metadata"]["name"], resource)
                hard[key] = quantity(amount)
                now[key] = quantity(quota["status"]["used"][resource])
        for pod in items["pods"]:
            if pod["status"].get("phase") in ("Succeeded", "Failed"):
                continue
            assert "initContainers" not in pod["spec"] and "overhead" not in pod["spec"]
            namespace = pod["metadata"]["namespace"]
            amounts = {"pods": Fraction(1)}
            for container in pod["spec"]["containers"]:
                for which in ("requests", "limits"):
                    for name, amount in container.get("resources", {}).get(which, {}).items():
                        amounts[f"{which}.{name}"] = amounts.get(f"{which}.{name}", 0) + quantity(amount)
            for resource, amount in amounts.items():
                key = (namespace, "", resource)
                now[key] = now.get(key, 0) + amount
        for key, amount in now.items():
            peak[key] = max(peak.get(key, 0), amount)
        used = now
        namespaces = {item["metadata"]["name"] for item in items["namespaces"]}
        specs = [(pod["metadata"]["namespace"], pod["spec"]) for pod in items["pods"] if pod["status"].get("phase") not in ("Succeeded", "Failed")]
        specs += [(item["metadata"]["namespace"], item["spec"]["template"]["spec"]) for item in items["deployments"]]
        silent = set()
        for namespace, spec in specs:
            for container in spec["containers"]:
                resources = container.get("resources", {})
                for resource in ("requests.cpu", "requests.memory", "limits.memory"):
                    which, name = resource.split(".")
                    if name not in resources.get(which, {}) and name not in resources.get("limits", {}):
                        silent.add((namespace, resource))
        allocatable = {}
        for node in items["nodes"]:
            ready = any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"]["conditions"])
            if ready and not node["spec"].get("unschedulable"):
                for name, amount in node["status"]["allocatable"].items():
                    allocatable[name] = allocatable.get(name, 0) + quantity(amount)
    refused = {}
    for path in glob.glob(os.path.join(bundle, "audit", "**"), recursive=True):
        if not os.path.isfile(path):
            continue
        for line in opened(path).splitlines():
            event = json.loads(line)
            status = event.get("responseStatus", {})
            found = re.search(r"exceeded quota: ([^,]+), requested: (.*), used: (.*), limited: ", status.get("message", ""))
            if not found or status.get("code") != 403:
                continue
            amounts = [{k: quantity(v) for k, v in (part.split("=") for part in text.split(","))} for text in found.groups()[1:]]
            for resource, amount in amounts[0].items():
                key = (event["objectRef"]["namespace"], found.group(1), resource)
                count, needed = refused.get(key, (0, 0))
                refused[key] = (count + 1, max(needed, amount + amounts[1].get(resource, 0)))
    rows = {}
    spoken_for = {(namespace, resource) for namespace, _, resource in hard}
    for (namespace, quota, resource), most in peak.items():
        key = (namespace, quota, resource)
        if namespace not in namespaces or quota and key not in hard:
            continue
        if not quota:
            usual = ("requests.cpu", "requests.memory", "limits.memory", "pods", "requests.storage")
            if (namespace, resource) in spoken_for or namespace.startswith("kube-") or resource not in usual or not most:
                continue
            if (namespace, resource) in silent:
                continue
        count, needed = refused.get(key, (0, 0))
        most = max(most, needed)
        # Where nothing was ever used, the quota stays.
        proposed = hard[key] if not most and key in hard else rounded(max(most * (1 + headroom), used.get(key, most)), resource)
        rows["|".join(key)] = {
            "peak": float(most),
            "used": float(used.get(key, most)),
            "hard": float(hard[key]) if key in hard else None,
            "proposed": float(proposed),
            "refused": count,
        }
    print(json.dumps({"rows": rows, "silent": sorted(silent), "allocatable": {name: float(amount) for name, amount in allocatable.items()}}))


if __name__ == "__main__":
    main(sys.argv[1], *(Fraction(share) for share in sys.argv[2:]))
