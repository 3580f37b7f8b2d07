#!/usr/bin/env python3
"""Writes the files beside it: audit logs that are damaged, cut short, hostile, or none at all.

    python3 samples/damage/make.py         (needs the module zstandard)

README.md says of every file what is wrong with it and what can still be read. Everything is deterministic.
"""
import gzip
import json
import pathlib
import sys

import zstandard

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "forms"))
sys.dont_write_bytecode = True
import make as forms  # noqa: E402  (samples/forms/make.py)

NGINX = """\
192.0.2.10 - - [20/Nov/2026:09:18:00 +0000] "GET /api/v1/pods?limit=500 HTTP/1.1" 200 51234 "-" "kubectl/v1.36.0 (linux/amd64)"
192.0.2.11 - alice [20/Nov/2026:09:18:01 +0000] "GET / HTTP/1.1" 304 0 "-" "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
192.0.2.12 - - [20/Nov/2026:09:18:01 +0000] "POST /login HTTP/1.1" 302 154 "https://shop.example.com/login" "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)"
192.0.2.10 - - [20/Nov/2026:09:18:02 +0000] "GET /healthz HTTP/1.1" 200 2 "-" "kube-probe/1.36"
2001:db8::7 - - [20/Nov/2026:09:18:03 +0000] "GET /static/app.js HTTP/2.0" 200 88211 "https://shop.example.com/" "Mozilla/5.0"
192.0.2.13 - - [20/Nov/2026:09:18:03 +0000] "\\x16\\x03\\x01\\x02\\x00" 400 157 "-" "-"
192.0.2.14 - - [20/Nov/2026:09:18:04 +0000] "GET /search?q={%22verb%22:%22list%22} HTTP/1.1" 200 5120 "-" "curl/8.5.0"
192.0.2.10 - - [20/Nov/2026:09:18:05 +0000] "GET /healthz HTTP/1.1" 200 2 "-" "kube-probe/1.36"
"""


def hostile():
    """Valid events, one a line, each with one thing that misleads a careless reader or a careless writer."""
    out = []

    def event(number, **change):
        base = {
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata",
            "auditID": f"00000000-0000-4000-8000-{number:012d}", "stage": "ResponseComplete",
            "requestURI": "/api/v1/namespaces/hostile/configmaps/c1", "verb": "get",
            "user": {"username": "system:serviceaccount:hostile:client", "groups": ["system:authenticated"]},
            "sourceIPs": ["192.0.2.66"], "userAgent": "client/v1.0 (linux/amd64)",
            "objectRef": {"resource": "configmaps", "namespace": "hostile", "name": "c1", "apiVersion": "v1"},
            "responseStatus": {"metadata": {}, "code": 200},
            "requestReceivedTimestamp": f"2026-11-20T09:18:{number:02d}.000000Z",
            "stageTimestamp": f"2026-11-20T09:18:{number:02d}.001500Z",
            "annotations": {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""},
        }
        for key, value in change.items():
            if value is None:
                del base[key]
            elif key in ("requestObject", "responseObject"):
                items = list(base.items())  # the encoder writes bodies between responseStatus and the times
                where = [k for k, _ in items].index("requestReceivedTimestamp")
                base = dict(items[:where] + [(key, value)] + items[where:])
            else:
                base[key] = value
        return base

    def add(value):
        out.append(value if isinstance(value, str) else forms.go_json(value))

    # 1 to 6: the user agent is written by the client
    add(event(1, userAgent="\x1b[2J\x1b[1;31mroot\x1b[0m\x07\x1b]0;owned\x07/v1"))
    add(event(2, userAgent="<script>alert('agent')</script><img src=x onerror=alert(1)>/v1"))
    add(event(3, userAgent="=cmd|' /C calc'!A0"))
    add(event(4, userAgent="first line\r\nsecond,line;\"quoted\"\t/v1"))
    add(event(5, userAgent="user\u202etnega\u202c\u200b/v1\u0000.0"))
    add(event(6, userAgent="A" * 100_000))
    # 7 to 9: keys and strings in bodies that look like the event's own
    body = {"verb": "delete", "code": 503, "stage": "Panic", "stageTimestamp": "2031-01-01T00:00:00.000000Z",
            "requestReceivedTimestamp": "2031-01-01T00:00:00.000000Z", "auditID": "forged", "userAgent": "forged/9",
            "requestURI": "/api/v1/secrets", "user": {"username": "forged"}, "sourceIPs": ["203.0.113.1"],
            "objectRef": {"resource": "secrets", "namespace": "kube-system", "name": "forged"},
            "responseStatus": {"code": 500}}
    add(event(7, level="RequestResponse", verb="update", requestObject={**body, "metadata": body, "spec": {"deep": [body, {"deeper": body}]}},
              responseObject={"kind": "ConfigMap", "items": [body], **body}))
    text = '","verb":"delete","user":{"username":"forged"},"stageTimestamp":"2031-01-01T00:00:00.000000Z","code":500}}\\'
    add(event(8, level="Request", verb="update",
              requestObject={"kind": "ConfigMap", "data": {"k": text, text: "}]}\n{\"kind\":\"Event\"", "brackets": "]]}}[[{{\\\"\\\\"}}))
    add(event(9, requestURI='/api/v1/namespaces/hostile/configmaps/c1?x=","verb":"delete"', userAgent='x","verb":"delete","y":"/v1'))
    # 10: annotations that imitate fields
    add(event(10, annotations={"stageTimestamp": "2031-01-01T00:00:00.000000Z", "verb": "delete", "code": "500",
                               "requestReceivedTimestamp": "2031-01-01T00:00:00.000000Z",
                               "audit.example/text": '"stageTimestamp":"2031-01-01T00:00:00.000000Z"'}))
    # 11: keys named sourceIPs elsewhere, unknown keys at the top; the client forged the first address
    add(event(11, user={"username": "system:serviceaccount:hostile:client", "extra": {"sourceIPs": ["203.0.113.1"], "verb": ["delete"]}},
              impersonatedUser={"username": "forged", "extra": {"sourceIPs": ["203.0.113.2"]}},
              sourceIPs=["203.0.113.3", "203.0.113.4", "192.0.2.66"],
              future={"sourceIPs": ["203.0.113.5"], "verb": "delete", "list": [[[{"verb": "delete"}]]]}))
    # 12: every character of keys and values that may be escaped
    escaped = forms.go_json(event(12))
    escaped = escaped.replace('"verb":"get"', '"\\u0076erb":"\\u0067\\u0065\\u0074"')
    escaped = escaped.replace('"stage":"ResponseComplete"', '"stage":"Response\\u0043omplete"')
    escaped = escaped.replace('/api/v1/namespaces', '\\/api\\/v1\\/namespaces')
    escaped = escaped.replace('"stageTimestamp":"2026', '"stageTimestamp":"\\u0032026')
    escaped = escaped.replace('client/v1.0', 'client\\u002fv1.0 \\ud83d\\ude80')
    add(escaped)
    # 13: the fields in reverse order
    add(dict(reversed(list(event(13).items()))))
    # 14: blanks between all tokens
    add(spaced(event(14)))
    # 15, 16: one audit id for two requests, as a client may choose it
    add(event(15, auditID="chosen-by-the-client"))
    add(event(16, auditID="chosen-by-the-client", verb="list", requestURI="/api/v1/configmaps",
              objectRef={"resource": "configmaps", "apiVersion": "v1"}))
    # 17: the same event twice, as a log shipper may send it
    add(event(17))
    add(event(17))
    # 19: it ends before it began
    add(event(19, requestReceivedTimestamp="2026-11-20T09:18:19.500000Z", stageTimestamp="2026-11-20T09:18:19.000000Z"))
    # 20, 21: no responseStatus; code 0
    add(event(20, responseStatus=None))
    add(event(21, responseStatus={"metadata": {}, "code": 0}))
    # 22, 23: Panic, with and without a code
    add(event(22, stage="Panic", responseStatus={"metadata": {}, "status": "Failure", "message": "APIServer panic'd: \"x\"",
                                                 "reason": "InternalError", "code": 500}))
    add(event(23, stage="Panic", responseStatus=None))
    # 24 to 26: other spellings of time: nanoseconds, none below the second, an offset
    add(event(24, requestReceivedTimestamp="2026-11-20T09:18:24.000000999Z", stageTimestamp="2026-11-20T09:18:24.001500999Z"))
    add(event(25, requestReceivedTimestamp="2026-11-20T09:18:25Z", stageTimestamp="2026-11-20T09:18:26Z"))
    add(event(26, requestReceivedTimestamp="2026-11-20T10:18:26.000000+01:00", stageTimestamp="2026-11-20T03:48:26.001500-05:30"))
    # 27: null where a value is expected; no requestReceivedTimestamp
    bare = event(27, requestReceivedTimestamp=None, sourceIPs=None, userAgent=None)
    bare.update(objectRef=None, annotations=None)
    add(bare)
    # 28: nested deeper than most parsers' stacks allow by default (128 levels and more)
    add(forms.go_json(event(28, level="Request", requestObject={"deep": "@"})).replace('"@"', "[" * 400 + "]" * 400))
    # 29: numbers that fit no machine word, in a body
    add(forms.go_json(event(29, level="Request", requestObject={"n": "@"})).replace('"@"', "[1e999,-0.0,123456789012345678901234567890]"))
    # 30: half a surrogate pair
    add(forms.go_json(event(30, userAgent="client/v1@")).replace("@", "\\ud800"))
    return "".join(line + "\n" for line in out).encode()


def spaced(value):
    if isinstance(value, dict):
        return " { " + " , ".join(f"{json.dumps(k)}\t: {spaced(v)}" for k, v in value.items()) + " } "
    if isinstance(value, list):
        return "[ " + " , ".join(spaced(v) for v in value) + " ]"
    return json.dumps(value)


def truncated_bodies(lines):
    """Bodies too large for the log: how the API server, AKS and log shippers shorten them."""
    events = [json.loads(line) for line in lines]
    patch = next(e for e in events if "requestObject" in e)

    def changed(number, request, annotations=None):
        e = dict(patch)
        e["auditID"] = f"00000000-0000-4000-9000-{number:012d}"
        e["requestObject"] = request
        if request is None:
            del e["requestObject"]
        e["annotations"] = {**patch["annotations"], **(annotations or {})}
        return forms.go_json(e)

    big = {"spec": {"template": {"metadata": {"annotations": {"text": "x" * 3000}}}}}
    out = [
        changed(1, None, {"audit.k8s.io/truncated": "true"}),     # --audit-log-truncate-enabled
        changed(2, "skipped-too-big-size-object"),                # AKS
        changed(3, {"metadata": {}, "note": "whole"}),
        changed(4, big)[:2048],                                   # a shipper's limit: no end, no newline inside
        changed(5, {"metadata": {}, "note": "whole"}),
        changed(6, big)[:1500] + "...",                           # a shipper that says so
        changed(7, {"metadata": {}, "note": "whole"}),
    ]
    return "".join(line + "\n" for line in out).encode()


def main():
    def write(name, content):
        (HERE / name).write_bytes(content)

    long_log = b"".join(line + b"\n" for line in forms.sample_lines(11000, 400))
    packed = gzip.compress(long_log, 9, mtime=0)
    write("truncated.log.gz", packed[:len(packed) * 6 // 10])
    packed = zstandard.ZstdCompressor(level=9).compress(long_log)
    write("truncated.log.zst", packed[:len(packed) * 8 // 10])

    lines = forms.sample_lines(count=20)

    nul = list(lines)
    nul[8] = b"\0" * 4096 + nul[8]                                # a hole before a whole event
    nul[13] = nul[13][:300] + b"\0" * 1024                        # an event that never reached the disk
    write("nul-bytes.log", b"".join(line + b"\n" for line in nul))

    bad = list(lines[:10])
    bad[2] = bad[2].replace(b'"userAgent":"', b'"userAgent":"\xff\xfe', 1)
    bad[6] = bad[6].replace(b'"annotations":{', b'"annotations":{"latin-1":"caf\xe9",', 1)
    write("invalid-utf8.log", b"".join(line + b"\n" for line in bad))

    broken = list(lines[:12])
    broken[4] = broken[4][:400]
    broken.insert(8, b"E1120 09:21:36.118290      11 wrap.go:54] \"timeout or abort while handling\" method=\"GET\" URI={\"verb\"")
    write("broken-line.log", b"".join(line + b"\n" for line in broken))

    write("not-audit.log", NGINX.encode())
    write("empty.log", b"")
    write("unfinished-last-line.log", b"".join(line + b"\n" for line in lines[:9]) + lines[9][:500])
    write("hostile.log", hostile())
    write("truncated-bodies.log", truncated_bodies(forms.sample_lines()))


if __name__ == "__main__":
    main()
