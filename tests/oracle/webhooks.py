#!/usr/bin/env python3
"""Which requests of audit logs webhooks are asked about: webhooks.py HOOKS.yaml NAMESPACES.json LOG...

Written after the documentation of dynamic admission control, with none of plimsoll's code; NAMESPACES.json is what kubectl get namespaces -o json
writes, or -. Prints per webhook: certain, perhaps, of the control plane, and requests by client.
"""

import json
import re
import sys
from collections import Counter

import yaml

from rollup import read_lines

hooks_path, namespaces_path, *logs = sys.argv[1:]
labels = {}
if namespaces_path != "-":
    for item in json.load(open(namespaces_path))["items"]:
        if item.get("kind", "Namespace") == "Namespace":
            labels[item["metadata"]["name"]] = item["metadata"].get("labels", {})

hooks = []
for document in yaml.safe_load_all(open(hooks_path)):
    for item in document.get("items", [document]):
        for hook in item["webhooks"]:
            hooks.append(hook)


def holds(selector, of):
    for key, value in (selector.get("matchLabels") or {}).items():
        if of.get(key) != value:
            return False
    for e in selector.get("matchExpressions") or []:
        key, operator, values = e["key"], e["operator"], e.get("values") or []
        ok = {"In": of.get(key) in values, "NotIn": key not in of or of[key] not in values, "Exists": key in of, "DoesNotExist": key not in of}[operator]
        if not ok:
            return False
    return True


def matches(rule, request, exact):
    operation, group, version, resource, subresource, namespace = request
    if not {"*", operation} & set(rule["operations"]) or not {"*", group} & set(rule["apiGroups"]):
        return False
    if exact and not {"*", version} & set(rule["apiVersions"]):
        return False
    is_namespaced = bool(namespace) and resource != "namespaces"
    if rule.get("scope", "*") == "Namespaced" and not is_namespaced or rule.get("scope", "*") == "Cluster" and is_namespaced:
        return False
    full = f"{resource}/{subresource}" if subresource else resource
    for pattern in rule["resources"]:
        if "/" in pattern:
            if re.fullmatch(re.escape(pattern).replace(r"\*", "[^/]*"), full if subresource else resource + "/"):
                return True
        elif pattern in ("*", resource) and not subresource:
            return True
    return False


def asked(hook, request):
    if request[1] == "admissionregistration.k8s.io":
        return None
    if not any(matches(rule, request, hook.get("matchPolicy") == "Exact") for rule in hook["rules"]):
        return None
    selector, namespace = hook.get("namespaceSelector") or {}, request[5]
    sure = not (hook.get("objectSelector") or {}) and not hook.get("matchConditions")
    if selector and namespace:
        if namespace in labels:
            if not holds(selector, labels[namespace]):
                return None
        else:
            only = {"kubernetes.io/metadata.name": namespace}
            keys = set(selector.get("matchLabels") or {}) | {e["key"] for e in selector.get("matchExpressions") or []}
            of_name = {"matchLabels": {k: v for k, v in (selector.get("matchLabels") or {}).items() if k in only},
                       "matchExpressions": [e for e in selector.get("matchExpressions") or [] if e["key"] in only]}
            if not holds(of_name, only):
                return None
            sure = sure and keys <= set(only)
    return sure


CONTROL = {"system:apiserver", "system:kube-controller-manager", "system:kube-scheduler"}
result = [{"certain": 0, "perhaps": 0, "control_plane": 0, "clients": Counter()} for _ in hooks]
writes = 0
for log in logs:
    for line in read_lines(log):
        e = json.loads(line)
        ref, code = e.get("objectRef", {}), e.get("responseStatus", {}).get("code", 0)
        if e["stage"] not in ("ResponseComplete", "Panic") or not ref.get("resource") or not 100 <= code < 300:
            continue
        verb, subresource = e["verb"], ref.get("subresource", "")
        if subresource in ("exec", "attach", "portforward", "proxy"):
            operation = "CONNECT"
        elif verb in ("patch", "update"):
            operation = "CREATE" if code == 201 else "UPDATE"
        else:
            operation = {"create": "CREATE", "delete": "DELETE", "deletecollection": "DELETE"}.get(verb)
        if operation is None:
            continue
        writes += 1
        namespace = ref.get("name", "") if ref["resource"] == "namespaces" else ref.get("namespace", "")
        request = (operation, ref.get("apiGroup", ""), ref.get("apiVersion", ""), ref["resource"], subresource, namespace)
        user = e["user"]["username"]
        control = user in CONTROL or user.startswith(("system:serviceaccount:kube-system:", "system:node:"))
        client = ("system:node:*" if user.startswith("system:node:") else user) + "|" + e.get("userAgent", "").split("/")[0].split(" ")[0]
        for hook, of in zip(hooks, result):
            sure = asked(hook, request)
            if sure is not None:
                of["certain" if sure else "perhaps"] += 1
                of["control_plane"] += control
                of["clients"][client] += 1
json.dump({"writes": writes, "webhooks": {hook["name"]: of for hook, of in zip(hooks, result)}}, sys.stdout)
