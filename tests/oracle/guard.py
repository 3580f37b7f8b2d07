#!/usr/bin/env python3
"""Dangerous operations, found a second time, and logs of other forms to find them in. No look at the Rust.

    guard.py removed BEFORE.db[.zst] AFTER.db[.zst]    objects of the first database that are not in the second:
                                                       {"namespaces": {NAMESPACE: {RESOURCE: COUNT}}, "resources": {RESOURCE: COUNT}}
    guard.py operations LOG...                         {KIND: {USER: [COUNT, DONE]}}, before any rule about how many make a row
    guard.py eventlist|merged|metadata OUT LOG...      the logs as one: a document of kind EventList; lines in the order of time; lines as
                                                       a policy of level Metadata for all would have written them

RESOURCE is with its group: jobs.batch. Rules: docs/commands/guard.md, docs/rollup.md ("notable").
"""
import io
import json
import sys
import tempfile
import urllib.parse

import zstandard

from etcd_bolt import Bolt, revisions
from etcd_usage_by import Space


def unpacked(path):
    with open(path, "rb") as file:
        return file.read() if not path.endswith(".zst") else zstandard.ZstdDecompressor().stream_reader(
            io.BytesIO(file.read()), read_across_frames=True).read()


def living(path):
    with tempfile.NamedTemporaryFile() as plain:
        plain.write(unpacked(path))
        plain.flush()
        return {entry.raw: entry.key for entry in Space(revisions(Bolt(plain.name))).entries if entry.live}


def removed(before, after):
    old, new = living(before), living(after)
    namespaces, resources = {}, {}
    for raw in old.keys() - new.keys():
        key = old[raw]
        if not key.kubernetes:
            continue
        resource = f"{key.resource}.{key.group}" if key.group else key.resource
        within = namespaces.setdefault(key.namespace, {})
        within[resource] = within.get(resource, 0) + 1
        resources[resource] = resources.get(resource, 0) + 1
    return {"namespaces": namespaces, "resources": resources}


def events(paths):
    for path in paths:
        yield from (json.loads(line) for line in unpacked(path).splitlines())


def is_control_plane(user):
    return user in ("system:apiserver", "system:kube-controller-manager", "system:kube-scheduler") or user.startswith("system:serviceaccount:kube-system:")


def says(body, *path):
    """A field of an object or a merge patch, or what a JSON patch sets at that path; None where it says nothing."""
    if isinstance(body, list):
        return next((step.get("value") for step in body if step.get("path") == "/" + "/".join(path) and step.get("op") != "remove"), None)
    for name in path:
        if not isinstance(body, dict):
            return None
        body = body.get(name)
    return body


def is_forbidden(event):
    """403 by the authorizer; admission's 403 (quotas, policies) comes after it has allowed the request."""
    decision = (event.get("annotations") or {}).get("authorization.k8s.io/decision")
    return event.get("responseStatus", {}).get("code") == 403 and decision != "allow"


def kind(event):
    verb, ref, user, body = event["verb"], event.get("objectRef", {}), event["user"]["username"], event.get("requestObject")
    resource, sub, group = ref.get("resource", ""), ref.get("subresource", ""), ref.get("apiGroup", "")
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(event["requestURI"]).query)
    options = body if isinstance(body, dict) else {}
    changes = verb in ("create", "update", "patch", "delete")
    if resource == "pods" and sub in ("exec", "attach") and verb in ("create", "get"):
        return "exec"
    if resource == "pods" and sub == "ephemeralcontainers" and verb in ("update", "patch"):
        return "ephemeral-container"
    if resource == "nodes" and sub == "proxy":
        return "node-proxy"
    if is_control_plane(user):
        return None
    if not changes and verb != "deletecollection":
        return "forbidden" if is_forbidden(event) and resource == "secrets" and verb in ("get", "list", "watch") else None
    if "All" in query.get("dryRun", []) + (options.get("dryRun") or []):
        return None
    if verb == "deletecollection":
        return "delete-collection"
    roots = {"namespaces": "namespace", "customresourcedefinitions": "crd", "nodes": "node", "apiservices": "apiservice",
             "poddisruptionbudgets": "pdb", "persistentvolumes": "volume"}
    if verb == "delete" and not sub:
        if resource in roots:
            return "delete-" + roots[resource]
        if resource == "leases" and ref.get("namespace") == "kube-system":
            return "delete-control-plane-lease"
        if resource == "pods" and (not user.startswith("system:") or user.startswith("system:serviceaccount:")):
            is_forced = query.get("gracePeriodSeconds") == ["0"] or options.get("gracePeriodSeconds") == 0
            return "force-delete" if is_forced else "delete-pod"
    if verb == "create" and resource == "pods" and sub == "eviction":
        return "evict"
    if verb in ("update", "patch"):
        scalable = sub == "scale" or not sub and resource in ("deployments", "statefulsets", "replicasets", "replicationcontrollers")
        unsaid = verb == "update" and sub == "scale" and isinstance(body, dict) and says(body, "spec", "replicas") is None
        if scalable and (unsaid or says(body, "spec", "replicas") == 0):
            return "scale-to-zero"
        if resource == "nodes" and not sub and says(body, "spec", "unschedulable") is True:
            return "cordon"
    by_group = {"admissionregistration.k8s.io": "webhook-write", "rbac.authorization.k8s.io": "rbac-write", "flowcontrol.apiserver.k8s.io": "flowcontrol-write"}
    if changes and group in by_group and not (group.startswith("flowcontrol") and sub == "status"):
        return by_group[group]
    if changes and resource == "apiservices" and not sub:
        return "apiservice-write"
    if verb == "create" and resource == "serviceaccounts" and sub == "token" and not user.startswith("system:node:"):
        return "token-create"
    if resource == "certificatesigningrequests" and sub == "approval" and verb in ("update", "patch"):
        return "csr-approve"
    if resource == "namespaces" and sub == "finalize" and verb == "update":
        return "finalize"
    if is_forbidden(event):
        return "forbidden"
    return None


def operations(paths):
    found = {}
    for event in events(paths):
        what = kind(event) if event["stage"] in ("ResponseComplete", "Panic") else None
        if what:
            counts = found.setdefault(what, {}).setdefault(event["user"]["username"], [0, 0])
            counts[0] += 1
            counts[1] += 100 <= event.get("responseStatus", {}).get("code", 0) < 300
    return found


def other_form(form, out, paths):
    all_ = sorted(events(paths), key=lambda event: event["stageTimestamp"])
    with open(out, "w") as file:
        if form == "eventlist":
            bare = [{name: value for name, value in event.items() if name not in ("kind", "apiVersion")} for event in all_]
            json.dump({"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "metadata": {}, "items": bare}, file)
            return
        for event in all_:
            if form == "metadata":
                event = {name: value for name, value in event.items() if name not in ("requestObject", "responseObject")}
                event["level"] = "Metadata"
            file.write(json.dumps(event, separators=(",", ":")) + "\n")


def main():
    what, *rest = sys.argv[1:]
    if what == "removed":
        json.dump(removed(*rest), sys.stdout)
    elif what == "operations":
        json.dump(operations(rest), sys.stdout)
    else:
        other_form(what, rest[0], rest[1:])


if __name__ == "__main__":
    main()
