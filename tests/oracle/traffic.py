#!/usr/bin/env python3
"""Counts the requests of audit logs a second time, for tests to compare with `plimsoll traffic`.

    traffic.py --by verb,resource,user [--fold-nodes] [--pair-by-id] [CLUSTER:INSTANCE=]FILE...

FILE: JSON lines or any of the forms in samples/forms, plain, gzip or zstd (needs the module zstandard).
The rules of counting are sections 1 and 2 of docs/rollup.md, written down here as plainly as possible and
without a look at the Rust. Prints {"rows": [...], "events": n, "stages": {...}, "lost": n}.

--fold-nodes   system:node:NAME counts as the user system:node:*
--flow FILE    match requests with the FlowSchemas of these objects (repeatable; flow.py); without it the two dimensions are empty
--pair-by-id   an event without requestReceivedTimestamp has no part of `received` in its request's identity
               (docs/rollup.md puts its own time there; then the two ends of a GKE watch never meet)
"""
import argparse
import json
import re
import sys
import zlib
from datetime import datetime, timezone

sys.dont_write_bytecode = True
import flow  # noqa: E402

DIMENSIONS = ("verb resource group subresource namespace name user serviceaccount agent agent-version source-ip node "
              "code code-class instance cluster scope stage minute flow_schema priority_level").split()

# ---------------------------------------------------------------- reading: bytes, lines, events


def open_chunks(path):
    """The decompressed content, chunk by chunk; what a damaged file still gives."""
    with open(path, "rb") as f:
        magic = f.read(4)
        f.seek(0)
        if magic[:2] == b"\x1f\x8b":
            unzip = zlib.decompressobj(31)
            while chunk := f.read(1 << 20):
                while chunk:
                    try:
                        yield unzip.decompress(chunk)
                    except zlib.error as e:
                        print(f"{path}: {e}", file=sys.stderr)
                        return
                    chunk = unzip.unused_data
                    if unzip.eof:
                        unzip = zlib.decompressobj(31)
        elif magic == b"\x28\xb5\x2f\xfd":
            import zstandard
            unzip = zstandard.ZstdDecompressor().decompressobj()
            while chunk := f.read(1 << 16):
                while chunk:
                    try:
                        yield unzip.decompress(chunk)
                    except zstandard.ZstdError as e:
                        print(f"{path}: {e}", file=sys.stderr)
                        return
                    chunk = b""
                    if unzip.eof:
                        chunk = unzip.unused_data
                        unzip = zstandard.ZstdDecompressor().decompressobj()
        else:
            while chunk := f.read(1 << 20):
                yield chunk


def open_lines(path):
    rest = b""
    for chunk in open_chunks(path):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
    if rest:
        yield rest


def objects(text):
    """The JSON values in a text, one behind the other; None for what is left if it is not JSON."""
    decoder = json.JSONDecoder()
    at = 0
    while True:
        while at < len(text) and text[at] in " \t\r\n":
            at += 1
        if at == len(text):
            return
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            yield None
            return
        yield value


PREFIX = [
    re.compile(r"\d{4}-\d\d-\d\dT\S+ (?:stdout|stderr) F (?P<json>\{.*)"),  # CRI
    re.compile(r"\d{4}-\d\d-\d\dT\S+Z (?P<json>\{.*)"),                     # CloudWatch export to S3
    re.compile(r"(?P<instance>[A-Za-z0-9][A-Za-z0-9.-]*) (?P<json>\{.*)"),  # oc adm node-logs
]


def read(path):
    """(value, instance) of every JSON value of a file; value None for a lost line."""
    lines = open_lines(path)
    for raw in lines:
        line = raw.replace(b"\0", b"").decode("utf-8", "replace").strip(" \t\r")
        if not line:
            if raw.strip(b" \t\r"):
                yield None, ""
            continue
        if line in ("{", "["):  # a pretty-printed document: take the rest of the file at once
            document = b"\n".join([raw, *lines]).decode("utf-8", "replace")
            for value in objects(document):
                yield value, ""
            return
        instance = ""
        if line[0] not in "{[":
            for pattern in PREFIX:
                if match := pattern.fullmatch(line):
                    line = match["json"]
                    instance = match.groupdict().get("instance") or ""
                    break
        if line[0] not in "{[":
            yield None, ""
            continue
        for value in objects(line):
            yield value, instance


GRPC_TO_HTTP = {0: 200, 3: 400, 4: 504, 5: 404, 7: 403, 8: 429, 10: 409, 11: 410, 13: 500, 14: 503, 16: 401}


def from_gke(entry):
    """A Cloud Logging entry as an audit event. It has no URI, no time of receipt, no HTTP status of a success."""
    payload = entry["protoPayload"]
    method, resource = payload["methodName"], payload.get("resourceName", "")
    operation = entry.get("operation", {})
    verb = method.split(".")[-1]
    event = {
        "auditID": operation.get("id") or entry.get("insertId", ""), "verb": verb, "requestURI": "",
        "stage": "ResponseStarted" if operation.get("first") and not operation.get("last") else "ResponseComplete",
        "user": {"username": payload.get("authenticationInfo", {}).get("principalEmail", "")},
        "userAgent": payload.get("requestMetadata", {}).get("callerSuppliedUserAgent", ""),
        "sourceIPs": [payload.get("requestMetadata", {}).get("callerIp", "")],
        "stageTimestamp": entry["timestamp"], "objectRef": {},
    }
    code = payload.get("status", {}).get("code", 0)
    event["responseStatus"] = {"code": payload.get("response", {}).get("code") or GRPC_TO_HTTP.get(code, 500)}
    if method.count(".") > 2:  # not io.k8s.get of a path
        group, version, *path = resource.split("/")
        ref = {"apiGroup": "" if group == "core" else group, "apiVersion": version}
        if len(path) > 2 and path[0] == "namespaces" and path[2] not in ("status", "finalize"):
            ref["namespace"], path = path[1], path[2:]
        ref["resource"], ref["name"], ref["subresource"] = (path + ["", "", ""])[:3]
        event["objectRef"] = ref
    return event


def unwrap(value, cluster="", instance=""):
    """(event, cluster, instance) of every audit event in a JSON value; event None for what is none."""
    if isinstance(value, str):
        if "audit.k8s.io/" not in value and "auditID" not in value:
            return  # another log of the same service: nothing of the audit log is lost
        for inner in objects(value):
            if inner is None or isinstance(inner, str):
                yield None, cluster, instance
            else:
                yield from unwrap(inner, cluster, instance)
        return
    if isinstance(value, list):
        for inner in value:
            yield from unwrap(inner, cluster, instance)
        return
    if not isinstance(value, dict):
        yield None, cluster, instance
        return
    if "auditID" in value and "stage" in value:
        yield value, cluster, instance
    elif value.get("kind") == "EventList":
        yield from unwrap(value.get("items") or [], cluster, instance)
    elif "protoPayload" in value:
        name = value.get("resource", {}).get("labels", {}).get("cluster_name", "")
        yield from_gke(value), name, instance
    elif "logEvents" in value:  # CloudWatch subscription
        if value.get("messageType") == "DATA_MESSAGE":
            group = value.get("logGroup", "").split("/")
            name = group[3] if len(group) == 5 and group[:3] == ["", "aws", "eks"] else ""
            for inner in value["logEvents"]:
                yield from unwrap(inner["message"], name, value.get("logStream", ""))
    elif "events" in value:  # aws logs filter-log-events
        for inner in value["events"]:
            yield from unwrap(inner["message"], cluster, inner.get("logStreamName", ""))
    elif "records" in value:  # Event Hub
        yield from unwrap(value["records"], cluster, instance)
    elif isinstance(value.get("properties"), dict) and "log" in value["properties"]:  # AKS
        inner = value["properties"]
        yield from unwrap(inner["log"], value.get("resourceId", "").split("/")[-1], inner.get("pod", ""))
    elif "log_s" in value:  # AzureDiagnostics
        where = value.get("ResourceId") or value.get("_ResourceId") or ""
        yield from unwrap(value["log_s"], where.split("/")[-1], value.get("pod_s", ""))
    else:
        yield None, cluster, instance


# ---------------------------------------------------------------- one event: section 2 of docs/rollup.md

TIME = re.compile(r"(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)")


def micros(text):
    """Microseconds since 1970; finer digits are cut off. None if it is no time."""
    match = TIME.fullmatch(text) if isinstance(text, str) else None
    if not match:
        return None
    zone = match[3].upper().replace("Z", "+00:00")
    seconds = int(datetime.fromisoformat(match[1].upper().replace(" ", "T") + zone).timestamp())
    return seconds * 1_000_000 + int((match[2] or "0").ljust(6, "0")[:6])


def cut(text):
    """Strings longer than 1,024 bytes are cut at a character and end in an ellipsis."""
    if not isinstance(text, str):
        return ""
    text = re.sub("[\ud800-\udfff]", "\ufffd", text)  # half a surrogate pair, as Go reads it
    data = text.encode()
    return text if len(data) <= 1024 else data[:1024].decode("utf-8", "ignore") + "…"


def path_of(uri):
    return uri.split("?")[0]


def scope_of(event, ref):
    if not ref.get("resource"):
        return "nonresource"
    parts = path_of(event.get("requestURI") or "").strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        rest = parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        rest = parts[3:]
    else:
        rest = []
    if rest and rest[0] in ("watch", "proxy"):
        rest = rest[1:]
    if not rest:
        if ref.get("name") and event.get("verb") not in ("create", "list", "watch", "deletecollection"):
            return "object"
        return "namespace" if ref.get("namespace") else "cluster"
    if rest[0] == "namespaces" and len(rest) >= 3 and rest[2] not in ("status", "finalize"):
        return "object" if len(rest) > 3 else "namespace"
    return "object" if len(rest) > 1 else "cluster"


def is_long_running(event, ref):
    return (event.get("verb") in ("watch", "proxy")
            or ref.get("subresource") in ("attach", "exec", "log", "portforward", "proxy")
            or path_of(event.get("requestURI") or "").startswith("/debug/pprof/"))


def dimensions(event, ref, code, at, cluster, instance, fold):
    user = event.get("user") or {}
    username = user.get("username") or ""
    agent = event.get("userAgent") or ""
    product = re.split("[/ ]", agent, maxsplit=1)[0]
    rest = agent[len(product):]
    account = username.split(":")
    if username.startswith("system:node:"):
        node = username[len("system:node:"):]
    else:
        node = ((user.get("extra") or {}).get("authentication.kubernetes.io/node-name") or [""])[0]
    return {
        "verb": event.get("verb"), "resource": ref.get("resource"), "group": ref.get("apiGroup"),
        "subresource": ref.get("subresource"), "namespace": ref.get("namespace"), "name": ref.get("name"),
        "user": "system:node:*" if fold and username.startswith("system:node:") else username,
        "serviceaccount": ":".join(account[2:]) if account[:2] == ["system", "serviceaccount"] and len(account) == 4 else "",
        "agent": product, "agent-version": rest[1:].split(" ")[0] if rest.startswith("/") else "",
        "source-ip": (event.get("sourceIPs") or [""])[-1], "node": node,
        "code": "" if code is None else str(code), "code-class": "" if code is None else f"{code // 100}xx",
        "instance": instance, "cluster": cluster, "scope": scope_of(event, ref), "stage": event["stage"],
        "minute": datetime.fromtimestamp(at // 60_000_000 * 60, timezone.utc).strftime("%Y-%m-%dT%H:%M:00Z"),
    }


# ---------------------------------------------------------------- counting: section 1 of docs/rollup.md

class Row:
    def __init__(self):
        self.requests = self.open = self.errors = self.client_errors = self.throttled = 0
        self.latencies = []
        self.seconds = {}

    def request(self, stage, code, received, is_open=False):
        self.requests += 1
        self.open += is_open
        if code is None:
            self.errors += stage == "Panic"
        elif code == 0 or code >= 500:
            self.errors += 1
        elif code == 429:
            self.throttled += 1
        elif 400 <= code:
            self.client_errors += 1
        second = received // 1_000_000
        self.seconds[second] = self.seconds.get(second, 0) + 1

    def peak(self):
        """The most requests received within 10 consecutive whole seconds; such a window can start at a busy one."""
        return max((sum(self.seconds.get(s + i, 0) for i in range(10)) for s in self.seconds), default=0)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--by", default="verb")
    arguments.add_argument("--fold-nodes", action="store_true")
    arguments.add_argument("--pair-by-id", action="store_true")
    arguments.add_argument("--flow", action="append", default=[])
    arguments.add_argument("files", nargs="+", metavar="[CLUSTER:INSTANCE=]FILE")
    args = arguments.parse_args()
    by = args.by.split(",") if args.by else []
    for dim in by:
        if dim not in DIMENSIONS:
            arguments.error(f"no dimension {dim}; there are: {' '.join(DIMENSIONS)}")

    schemas = flow.load(args.flow)
    rows = {}
    ends = {}      # identity of a long-running request -> times of its terminal events
    started = []   # started events of long-running requests
    count = lost = 0
    stages = {}

    for name in args.files:
        label = re.fullmatch(r"([^:=/]*):([^:=/]*)=(.+)", name)
        for value, read_instance in read(label[3] if label else name):
            if value is None:
                lost += 1
                continue
            for event, cluster, instance in unwrap(value, "", read_instance):
                at = micros(event.get("stageTimestamp")) if event else None
                if at is None:
                    lost += 1
                    continue
                if label:
                    cluster, instance = label[1], label[2]
                count += 1
                stage = event["stage"]
                stages[stage] = stages.get(stage, 0) + 1
                if stage not in ("ResponseStarted", "ResponseComplete", "Panic"):
                    continue
                given = micros(event.get("requestReceivedTimestamp"))
                received = at if given is None else given
                ref = event.get("objectRef") or {}
                code = (event.get("responseStatus") or {}).get("code")
                dims = dimensions(event, ref, code, at, cluster, instance, args.fold_nodes)
                dims["flow_schema"], dims["priority_level"] = flow.match(schemas, event) if args.flow else ("", "")
                row = rows.setdefault(tuple(cut(dims[d]) for d in by), Row())
                identity = (cluster, instance, event.get("auditID"), event.get("requestURI"),
                            given if args.pair_by_id else received)
                if stage != "ResponseStarted":
                    row.request(stage, code, received)                                    # kind 1
                    if is_long_running(event, ref):
                        ends.setdefault(identity, []).append(at)
                    elif given is not None:
                        row.latencies.append(max(0, at - given))
                elif not is_long_running(event, ref):
                    row.request(stage, code, received)                                    # kind 2
                    if given is not None:
                        row.latencies.append(max(0, at - given))
                else:
                    started.append((identity, at, code, received, row))
                    if event.get("verb") == "watch" and given is not None:
                        row.latencies.append(max(0, at - given))

    for identity, at, code, received, row in started:
        failed = code is not None and code >= 400
        ended = any(end >= at and (not failed or end - at <= 120_000_000) for end in ends.get(identity, []))
        if not ended:
            row.request("ResponseStarted", code, received, is_open=not failed)            # kind 3

    out = []
    for key in sorted(rows):
        row = rows[key]
        if row.requests or row.latencies:
            out.append(dict(zip(by, key)) | {
                "requests": row.requests, "open": row.open, "errors": row.errors, "client_errors": row.client_errors,
                "throttled": row.throttled, "max_ms": max(row.latencies) / 1000 if row.latencies else None,
                "latencies_us": sorted(row.latencies), "peak_10s": row.peak()})
    json.dump({"rows": out, "events": count, "stages": stages, "lost": lost}, sys.stdout)
    print()


if __name__ == "__main__":
    main()
