#!/usr/bin/env python3
"""Writes the files beside it: one slice of an audit log in every form in which audit logs arrive.

    python3 samples/forms/make.py          (needs the module zstandard)

All files hold the same events, lines FIRST+1 to FIRST+COUNT of list-storm's apiserver-0, unless the form
drops something. README.md says where each form comes from and what it lacks. Everything is deterministic.
"""
import gzip
import hashlib
import json
import pathlib
from datetime import datetime, timedelta, timezone

import zstandard

HERE = pathlib.Path(__file__).resolve().parent
SAMPLE = HERE.parent / "list-storm" / "audit" / "apiserver-0" / "audit.log.zst"
FIRST, COUNT = 11505, 84
BATCH = 40  # events per webhook body; kube-apiserver's own limit is 400

CLUSTER = "plimsoll-lab"
ACCOUNT = "111122223333"
PROJECT = "plimsoll-project"
SUBSCRIPTION = "00000000-1111-2222-3333-444444444444"


def sample_lines(first=FIRST, count=COUNT):
    """`count` lines of the sample log after line `first`, as bytes without the newline."""
    text = zstandard.ZstdDecompressor().stream_reader(open(SAMPLE, "rb")).read()
    return text.split(b"\n")[first:first + count]


def go_json(value):
    """JSON as Go's encoding/json writes it: compact, with <, > and & escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def plain_json(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def at(event):
    return datetime.strptime(event["stageTimestamp"], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)


def millis(when):
    return int(when.timestamp() * 1000 + 1e-6)


def digest(text, length):
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def second_server(event):
    """Two apiservers behind one name: which of them answered. Both stages of a request agree."""
    return int(digest(event["auditID"], 2), 16) % 2


# ---- the API server's own forms

def v1beta1(event):
    """The encoder of audit.k8s.io/v1beta1 (up to Kubernetes 1.23): two more fields, to the second."""
    second = event["requestReceivedTimestamp"][:19] + "Z"
    out = {"kind": "Event", "apiVersion": "audit.k8s.io/v1beta1", "metadata": {"creationTimestamp": second},
           "level": event["level"], "timestamp": second}
    for key, value in event.items():
        if key not in ("kind", "apiVersion", "level"):
            out[key] = value
    return go_json(out)


def item(event):
    return {k: v for k, v in event.items() if k not in ("kind", "apiVersion")}


def event_list(events):
    return {"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "metadata": {}, "items": [item(e) for e in events]}


def cri(event, line):
    written = at(event) + timedelta(microseconds=412)
    return f"{written:%Y-%m-%dT%H:%M:%S}.{written.microsecond:06d}{int(digest(event['auditID'], 3), 16) % 1000:03d}Z stdout F {line}"


# ---- EKS: CloudWatch Logs

def eks_stream(event):
    return "kube-apiserver-audit-" + digest(f"eks-{second_server(event)}", 32)


def eks_id(event, number):
    return f"{millis(at(event)) * 21 + 3 * 10**13:d}".rjust(17, "3") + f"{number:039d}"


def filter_log_events(events, lines):
    rows = [{"logStreamName": eks_stream(e), "timestamp": millis(at(e)), "message": line,
             "ingestionTime": millis(at(e)) + 4731, "eventId": eks_id(e, n)}
            for n, (e, line) in enumerate(zip(events, lines))]
    return json.dumps({"events": rows, "searchedLogStreams": []}, ensure_ascii=False, indent=4) + "\n"


def subscription(events, lines):
    """What Firehose puts into one S3 object: the bodies one behind the other, nothing between them."""
    group = f"/aws/eks/{CLUSTER}/cluster"

    def body(kind, stream, log_events):
        return plain_json({"messageType": kind, "owner": ACCOUNT if kind == "DATA_MESSAGE" else "CloudwatchLogs",
                           "logGroup": group if kind == "DATA_MESSAGE" else "", "logStream": stream,
                           "subscriptionFilters": ["to-firehose"] if kind == "DATA_MESSAGE" else [],
                           "logEvents": log_events})

    start = millis(at(events[0]))
    out = [body("CONTROL_MESSAGE", "", [{"id": "", "timestamp": start - 60000,
                "message": "CWL CONTROL MESSAGE: Checking health of destination Firehose."}])]
    out.append(body("DATA_MESSAGE", "kube-apiserver-" + digest("eks-0", 32), [
        {"id": "3" * 56, "timestamp": start,
         "message": 'I1120 09:21:36.118290      11 controller.go:615] "quota admission added evaluator" resource="pods"'}]))
    for first in range(0, len(events), 25):
        for stream in sorted({eks_stream(e) for e in events}):
            rows = [{"id": eks_id(e, n), "timestamp": millis(at(e)), "message": line}
                    for n, (e, line) in enumerate(zip(events, lines))
                    if first <= n < first + 25 and eks_stream(e) == stream]
            if rows:
                out.append(body("DATA_MESSAGE", stream, rows))
    return "".join(out)


def s3_export(event, line):
    when = at(event)
    return f"{when:%Y-%m-%dT%H:%M:%S}.{when.microsecond // 1000:03d}Z {line}"


# ---- GKE: Cloud Logging

GRPC = {400: (3, "INVALID_ARGUMENT"), 401: (16, "UNAUTHENTICATED"), 403: (7, "PERMISSION_DENIED"), 404: (5, "NOT_FOUND"),
        409: (10, "ABORTED"), 410: (11, "OUT_OF_RANGE"), 422: (3, "INVALID_ARGUMENT"), 429: (8, "RESOURCE_EXHAUSTED"),
        500: (13, "INTERNAL"), 503: (14, "UNAVAILABLE"), 504: (4, "DEADLINE_EXCEEDED")}


def gke(event, empty_status):
    ref = event.get("objectRef", {})
    verb = event["verb"]
    if ref.get("resource"):
        group, version = ref.get("apiGroup", ""), ref["apiVersion"]
        short = group[:-len(".k8s.io")] if group.endswith(".k8s.io") else group
        reverse = ".".join(reversed(short.split("."))) if short else "core"
        method = ".".join(filter(None, ["io.k8s", reverse, version, ref["resource"], ref.get("subresource"), verb]))
        parts = [group or "core", version]
        if ref.get("namespace"):
            parts += ["namespaces", ref["namespace"]]
        parts += [ref["resource"], ref.get("name"), ref.get("subresource")]
        resource = "/".join(filter(None, parts))
    else:
        method = f"io.k8s.{verb}"
        resource = event["requestURI"].split("?")[0].strip("/")
    code = event.get("responseStatus", {}).get("code", 200)
    reading = verb in ("get", "list", "watch")
    payload = {
        "@type": "type.googleapis.com/google.cloud.audit.AuditLog",
        "authenticationInfo": {"principalEmail": event["user"]["username"]},
        "authorizationInfo": [{"granted": True, "permission": method, "resource": resource}],
        "methodName": method,
        "requestMetadata": {"callerIp": event["sourceIPs"][-1], "callerSuppliedUserAgent": event["userAgent"]},
        "resourceName": resource,
        "serviceName": "k8s.io",
        "status": {} if empty_status else {"code": 0},
    }
    if code == 403:
        del payload["authorizationInfo"][0]["granted"]
    if code >= 400:
        number, name = GRPC[code]
        payload["status"] = {"code": number, "message": event["responseStatus"].get("message", name)}
        if not reading and ref.get("resource") not in ("configmaps", "secrets"):
            status = event["responseStatus"]
            payload["response"] = {"@type": "core.k8s.io/v1.Status", "apiVersion": "v1", "kind": "Status", **status}
    if "requestObject" in event:
        kind = "k8s.io/Patch" if verb == "patch" else f"{ref.get('apiGroup') or 'core'}/{ref['apiVersion']}"
        payload["request"] = {"@type": kind, **event["requestObject"]}
    operation = {"id": event["auditID"], "producer": "k8s.io"}
    if verb != "watch" or event["stage"] == "ResponseStarted":
        operation["first"] = True
    if event["stage"] == "ResponseComplete":
        operation["last"] = True
    received = at(event) + timedelta(seconds=6, microseconds=219114)
    return {
        "insertId": event["auditID"] if operation.get("first") else
        "-".join(digest("end" + event["auditID"], 32)[a:b] for a, b in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))),
        "labels": event.get("annotations", {}),
        "logName": f"projects/{PROJECT}/logs/cloudaudit.googleapis.com%2F" + ("data_access" if reading else "activity"),
        "operation": operation,
        "protoPayload": payload,
        "receiveTimestamp": f"{received:%Y-%m-%dT%H:%M:%S.%f}713Z",
        "resource": {"labels": {"cluster_name": CLUSTER, "location": "europe-west4", "project_id": PROJECT},
                     "type": "k8s_cluster"},
        "timestamp": event["stageTimestamp"],
    }


# ---- AKS: Azure Monitor

RESOURCE_ID = (f"/SUBSCRIPTIONS/{SUBSCRIPTION}/RESOURCEGROUPS/LAB-RG/PROVIDERS/MICROSOFT.CONTAINERSERVICE/"
               f"MANAGEDCLUSTERS/{CLUSTER.upper()}")


def aks_pod(event):
    return "kube-apiserver-6b497d8d5f-" + ("rb9qn", "kkg69")[second_server(event)]


def aks(event, line, newline):
    return {
        "operationName": "Microsoft.ContainerService/managedClusters/diagnosticLogs/Read",
        "category": "kube-audit",
        "ccpNamespace": digest("ccp", 24),
        "resourceId": RESOURCE_ID,
        "properties": {"log": line + ("\n" if newline else ""), "stream": "stdout", "pod": aks_pod(event),
                       "containerID": digest(aks_pod(event), 64)},
        "time": f"{at(event):%Y-%m-%dT%H:%M:%S}.0000000Z",
        "Cloud": "AzureCloud", "Environment": "prod", "UnderlayClass": "hcp-underlay",
        "UnderlayName": "hcp-underlay-westeurope-cx-316",
    }


def aks_other(event):
    """A record of another category, which shares the blob or the hub with kube-audit."""
    record = aks(event, "", False)
    record["category"] = "kube-apiserver"
    record["properties"]["stream"] = "stderr"
    record["properties"]["log"] = 'I1120 09:21:36.118290       1 controller.go:615] "quota admission added evaluator" resource="pods"\n'
    return record


def log_analytics(event, line):
    return {
        "Category": "kube-audit",
        "OperationName": "Microsoft.ContainerService/managedClusters/diagnosticLogs/Read",
        "Resource": CLUSTER.upper(),
        "ResourceGroup": "LAB-RG",
        "ResourceId": RESOURCE_ID,
        "ResourceProvider": "MICROSOFT.CONTAINERSERVICE",
        "ResourceType": "MANAGEDCLUSTERS",
        "SourceSystem": "Azure",
        "SubscriptionId": SUBSCRIPTION,
        "TableName": "PrimaryResult",
        "TimeGenerated": f"{at(event):%Y-%m-%dT%H:%M:%S}Z",
        "Type": "AzureDiagnostics",
        "_ResourceId": RESOURCE_ID.lower(),
        "log_s": line,
        "pod_s": aks_pod(event),
        "stream_s": "stdout",
    }


def main():
    raw = sample_lines()
    lines = [line.decode() for line in raw]
    events = [json.loads(line) for line in lines]
    for event, line in zip(events, lines):
        assert go_json(event) == line, "the sample is not as Go writes it"
    log = b"".join(line + b"\n" for line in raw)

    def write(name, content):
        (HERE / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    write("v1.log", log)
    write("v1beta1.log", "".join(v1beta1(e) + "\n" for e in events))
    write("v1.log.gz", gzip.compress(log, 9, mtime=0))
    write("v1.log.zst", zstandard.ZstdCompressor(level=9).compress(log))
    write("crlf.log", log.replace(b"\n", b"\r\n"))
    write("no-final-newline.log", log[:-1])
    write("eventlist.jsonl", "".join(go_json(event_list(events[n:n + BATCH])) + "\n" for n in range(0, COUNT, BATCH)))
    write("eventlist-pretty.json", json.dumps(event_list(events), ensure_ascii=False, indent=2) + "\n")
    write("host-prefix.log", "".join(f"master-0.example.com {line}\n" for line in lines))
    write("cri.log", "".join(cri(e, line) + "\n" for e, line in zip(events, lines)))
    write("eks-filter-log-events.json", filter_log_events(events, lines))
    write("eks-subscription.json.gz", gzip.compress(subscription(events, lines).encode(), 9, mtime=0))
    write("eks-s3-export.log", "".join(s3_export(e, line) + "\n" for e, line in zip(events, lines)))
    write("gke.jsonl", "".join(json.dumps(gke(e, False), ensure_ascii=False, separators=(",", ":"), sort_keys=True) + "\n"
                               for e in events))
    newest_first = sorted((gke(e, True) for e in events), key=lambda entry: entry["timestamp"], reverse=True)
    write("gke-array.json", json.dumps(newest_first, ensure_ascii=False, indent=2, sort_keys=True) + "\n")
    write("aks.jsonl", "".join(plain_json(aks(e, line, True)) + "\n" for e, line in zip(events, lines)))
    records = [aks(e, line, False) for e, line in zip(events, lines)]
    records.insert(10, aks_other(events[9]))
    write("aks-eventhub.json", plain_json({"records": records}))
    write("aks-log-analytics.json", json.dumps([log_analytics(e, line) for e, line in zip(events, lines)],
                                               ensure_ascii=False, indent=2) + "\n")


if __name__ == "__main__":
    main()
