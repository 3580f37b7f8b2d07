#!/usr/bin/env python3
"""Whether a dataset holds the events of raw audit logs, each once and each column as docs/dataset.md gives it.

    dataset.py DATASET FILE=CLUSTER,INSTANCE ...      prints {"events", "columns"}; exit code 1 and the first differences where there are any

Written from docs/dataset.md and docs/rollup.md without a look at the Rust; the dataset is read by DuckDB.
"""
import collections
import json
import re
import sys
from datetime import datetime, timedelta, timezone
from urllib.parse import unquote_plus

import duckdb

from rollup import read_lines

LONG_SUBRESOURCES = {"attach", "exec", "log", "portforward", "proxy"}
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def micros(text):
    return (datetime.fromisoformat(text.replace("Z", "+00:00")) - EPOCH) // timedelta(microseconds=1)


def rest_of(uri):
    parts = [part for part in uri.split("?")[0].split("/") if part]
    rest = parts[2:] if parts[:1] == ["api"] else parts[3:] if parts[:1] == ["apis"] else []
    return rest[1:] if rest and rest[0] in ("watch", "proxy") else rest


def scope(uri, ref, verb):
    if not ref.get("resource"):
        return "nonresource"
    rest = rest_of(uri)
    if not rest:
        is_object = ref.get("name") and verb not in ("create", "list", "watch", "deletecollection")
        return "object" if is_object else "namespace" if ref.get("namespace") else "cluster"
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        return "object" if len(rest) > 3 else "namespace"
    return "object" if len(rest) > 1 else "cluster"


def shape(uri, verb, resource):
    if not resource:
        first = next((part for part in uri.split("?")[0].split("/") if part), "")
        named = {"api": "discovery", "apis": "discovery", "openapi": "openapi", "swagger.json": "openapi", "healthz": "health",
                 "livez": "health", "readyz": "health", "metrics": "metrics", "version": "version"}
        return "path=" + named.get(first, "other")
    if verb not in ("get", "list", "watch", "deletecollection"):
        return None
    given = {}
    for pair in uri.partition("?")[2].split("&"):
        key, _, value = pair.partition("=")
        given.setdefault(unquote_plus(key), unquote_plus(value))
    version = given.get("resourceVersion", "")
    out = "rv=" + ("unset" if version == "" else "0" if version == "0" else "N")
    match = given.get("resourceVersionMatch", "")
    out += "" if not match else ",match=" + {"Exact": "exact", "NotOlderThan": "notolder"}.get(match, "other")
    is_number = lambda text: re.fullmatch(r"[+-]?\d+", text or "")
    out += ",limit" if is_number(given.get("limit")) and int(given["limit"]) > 0 else ""
    out += ",continue" if given.get("continue") else ""
    field = given.get("fieldSelector", "")
    for selects, name in (("metadata.name=" in field, "name"), ("spec.nodeName=" in field, "node"), (field, "field"), (given.get("labelSelector"), "label")):
        if selects:
            out += ",sel=" + name
            break
    is_true = lambda name: name in given and given[name].lower() not in ("0", "false")
    out += ",bookmarks" if is_true("allowWatchBookmarks") else ""
    out += ",initial" if is_true("sendInitialEvents") else ""
    if verb == "watch":
        seconds = given.get("timeoutSeconds", "")
        length = int(seconds) if is_number(seconds) else None
        out += ",t=" + ("default" if length is None else "short" if length < 60 else "informer" if length <= 600 else "long")
    return out


def api_version(uri):
    parts = uri.split("?")[0].split("/")
    if parts[1:2] == ["api"]:
        return parts[2] if len(parts) > 2 else ""
    return "/".join(parts[2:4]) if parts[1:2] == ["apis"] else ""


def go_micros(text):
    scale = {"ns": 1, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9}
    return int(sum(float(number) * scale[unit] for number, unit in re.findall(r"([\d.]+)(ns|us|µs|μs|ms|s|m|h)", text)) // 1000)


def length(line, key):
    at = line.find(f'"{key}":')
    if at < 0:
        return 0
    at += len(key) + 3
    _, end = json.JSONDecoder().raw_decode(line, at)
    return len(line[at:end].encode())


def is_long_running(uri, verb, subresource):
    return verb in ("watch", "proxy") or subresource in LONG_SUBRESOURCES or uri.startswith("/debug/pprof/")


def row(line, event, cluster, instance, seq, late):
    ref, user, notes = event.get("objectRef") or {}, event.get("user") or {}, event.get("annotations") or {}
    uri, verb, stage, agent = event["requestURI"], event["verb"], event["stage"], event.get("userAgent", "")
    status, extra, name = event.get("responseStatus") or {}, user.get("extra") or {}, user.get("username", "")
    at = micros(event["stageTimestamp"])
    received = micros(event["requestReceivedTimestamp"]) if event.get("requestReceivedTimestamp") else None
    is_terminal = stage in ("ResponseComplete", "Panic")
    subresource = ref.get("subresource", "")
    is_long = is_long_running(uri, verb, subresource)
    took = max(at - received, 0) if is_terminal and received is not None else None
    spent = lambda *names: sum(go_micros(notes.get("apiserver.latency.k8s.io/" + name, "")) for name in names) or None
    body, size = event.get("responseObject"), lambda key, own: int(notes.get("plimsoll.io/" + key, own)) or None
    items = len(body["items"]) if isinstance(body, dict) and isinstance(body.get("items"), list) else 0
    is_deprecated = notes.get("k8s.io/deprecated") == "true"
    product, version = re.split("[/ ]", agent, maxsplit=1)[0], ""
    if agent[len(product):len(product) + 1] == "/":
        version = agent[len(product) + 1:].split(" ")[0]
    account = re.fullmatch("system:serviceaccount:([^:]+:[^:]+)", name)
    first = lambda key: (extra.get(key) or [""])[0]
    node = name[len("system:node:"):] if name.startswith("system:node:") else first("authentication.kubernetes.io/node-name")
    op = {"get": "get", "list": "list", "watch": "watch", "create": "write", "update": "write", "patch": "write", "delete": "delete",
          "deletecollection": "delete"}.get(verb, "other")
    return {
        "event_time": at, "received": received, "latency_us": None if is_long else took, "lifetime_us": took if is_long else None,
        "code": status.get("code"), "request_bytes": size("request-bytes", length(line, "requestObject")),
        "response_bytes": size("response-bytes", length(line, "responseObject")), "response_items": size("response-items", items),
        "etcd_us": spent("etcd"), "webhook_us": spent("mutating-webhook", "validating-webhook"), "queue_us": spent("apf-queue-wait"),
        "seq": seq, "terminal": is_terminal, "long_running": is_long, "late": late, "deprecated": is_deprecated,
        "audit_id": event["auditID"], "instance": instance, "stage": stage, "level": event["level"], "verb": verb, "op": op, "uri": uri,
        "api_group": ref.get("apiGroup"), "api_version": api_version(uri), "resource": ref.get("resource"), "subresource": subresource,
        "namespace": ref.get("namespace"), "name": ref.get("name"), "scope": scope(uri, ref, verb),
        "shape": shape(uri, verb, ref.get("resource")), "username": name,
        "client_user": "system:node:*" if name.startswith("system:node:") else name, "client_agent": product, "agent_version": version,
        "agent": agent, "service_account": account and account[1],
        "impersonated": (event.get("impersonatedUser") or {}).get("username"), "source_ip": (event.get("sourceIPs") or [""])[-1],
        "node": node, "pod": first("authentication.kubernetes.io/pod-name"), "decision": notes.get("authorization.k8s.io/decision"),
        "removed_release": notes.get("k8s.io/removed-release") if is_deprecated else None, "message": status.get("message"),
        "groups": user.get("groups") or [], "cluster": cluster or None,
        "date": (EPOCH + timedelta(microseconds=at)).strftime("%Y-%m-%d"), "hour": (EPOCH + timedelta(microseconds=at)).strftime("%H"),
    }


# What a body may show of itself: what kind of object and change it was (docs/commands/collect.md).
SHOWN = {"kind", "apiVersion", "dryRun", "gracePeriodSeconds", "code", "status", "metadata", "name", "resourceVersion", "finalizers",
         "$deleteFromPrimitiveList/finalizers", "annotations", "spec", "replicas", "unschedulable", "template", "holderIdentity",
         "renewTime", "leaseDurationSeconds", "rules", "subjects", "roleRef", "op", "path", "from", "value"}


def is_part(kept, body, at=""):
    """Whether all that is kept stands in the body, and is of what may be shown."""
    if isinstance(kept, dict) and isinstance(body, dict):
        is_open = at in ("annotations", "rules", "subjects", "roleRef", "value")
        return all((is_open or key in SHOWN) and key in body and is_part(own, body[key], key) for key, own in kept.items())
    if isinstance(kept, list) and isinstance(body, list):
        return len(kept) == len(body) and all(is_part(own, other, at) for own, other in zip(kept, body))
    return kept == body


def check_bodies(read, bodies):
    columns = "audit_id, stage, epoch_us(event_time), instance, request_object, response_object"
    rows = duckdb.sql(f"select {columns} from {read} where request_object is not null or response_object is not null").fetchall()
    for audit_id, stage, at, instance, *kept in rows:
        candidates = bodies[(audit_id, stage, at, instance or "")]
        fits = lambda own: all(text is None or is_part(json.loads(text), body) for text, body in zip(kept, own))
        if not any(map(fits, candidates)):
            print(f"kept of {audit_id}: {kept}, and the bodies are {candidates}", file=sys.stderr)
            sys.exit(1)
    return len(rows)


def main():
    dataset, expected, bodies = sys.argv[1], [], collections.defaultdict(list)
    for argument in sys.argv[2:]:
        path, _, names = argument.partition("=")
        cluster, instance = names.split(",")
        latest = None
        for seq, line in enumerate(read_lines(path)):
            event = json.loads(line)
            at = micros(event["stageTimestamp"])
            expected.append(row(line, event, cluster, instance, seq, latest is not None and at < latest - 5_000_000))
            if "requestObject" in event or "responseObject" in event:
                bodies[(event["auditID"], event["stage"], at, instance)].append((event.get("requestObject"), event.get("responseObject")))
            latest = at if latest is None else max(at, latest)
    names = list(expected[0])
    read = f"read_parquet('{dataset}/audit/**/*.parquet', hive_partitioning=1, hive_types={{'date': VARCHAR, 'hour': VARCHAR, 'cluster': VARCHAR}})"
    times = {"event_time", "received"}
    columns = ", ".join(f"epoch_us({name}) as {name}" if name in times else f'"{name}"' for name in names)
    found = duckdb.sql(f"select {columns} from {read}").fetchall()
    key = lambda values: tuple(tuple(value) if isinstance(value, list) else value or None if isinstance(value, str) else value for value in values)
    found, wanted = collections.Counter(map(key, found)), collections.Counter(key(own.values()) for own in expected)
    if found != wanted:
        for wrong, right in list(zip(sorted(found - wanted, key=str), sorted(wanted - found, key=str)))[:3]:
            print({name: (own, other) for name, own, other in zip(names, wrong, right) if own != other}, file=sys.stderr)
        print(f"{sum((found - wanted).values())} rows too many, {sum((wanted - found).values())} missing", file=sys.stderr)
        sys.exit(1)
    # The two columns of bodies are looked at by themselves.
    kept = check_bodies(read, bodies)
    print(json.dumps({"events": len(expected), "columns": len(names) + 2, "bodies": kept}))


if __name__ == "__main__":
    main()
