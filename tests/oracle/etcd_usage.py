#!/usr/bin/env python3
"""Counts etcd's key space a second time, from what etcd itself answers.

    etcd_usage.py ETCDCTL_JSON    (etcdctl get --prefix '' -w json)

Prints {prefix: {keys, live_bytes, key_bytes, max_object_bytes, managed_fields_bytes}}. Values are decoded by hand: no protobuf library, no
knowledge of the database file.
"""
import base64
import json
import sys

SPECIAL = ("services/specs/", "services/endpoints/")


def prefix(key):
    for root in ("/registry/", "/kubernetes.io/", "/openshift.io/"):
        if not key.startswith(root):
            continue
        rest = key[len(root):]
        special = next((s for s in SPECIAL if rest.startswith(s)), None)
        if special:
            head, rest = root + special, rest[len(special):]
        else:
            parts = rest.split("/")
            count = 2 if "." in parts[0] and len(parts) > 1 else 1
            head, rest = root + "".join(part + "/" for part in parts[:count]), "/".join(parts[count:])
            if len(parts) <= count and not rest:
                return root + "/".join(parts) if len(parts) == count and count == 1 and "/" not in key[len(root):] else head
        if "/" in rest:
            head += rest.split("/")[0] + "/"
        return head
    parts = key.split("/")
    return key if len(parts) < 4 else "/".join(parts[:3]) + "/"


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    """(number, value, bytes that the whole field takes)."""
    at = 0
    while at < len(data):
        start = at
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
        elif tag & 7 == 2:
            length, at = varint(data, at)
            value, at = data[at:at + length], at + length
        else:
            size = {1: 8, 5: 4}[tag & 7]
            value, at = data[at:at + size], at + size
        yield tag >> 3, value, at - start


def managed_fields(value):
    if value.startswith(b"k8s\0"):
        raw = next((v for n, v, _ in fields(value[4:]) if n == 2), b"")
        try:
            metadata = next((v for n, v, _ in fields(raw) if n == 1), b"")
            return sum(size for n, _, size in fields(metadata) if n == 17)
        except (IndexError, KeyError, TypeError):
            return 0
    if value.startswith(b"{"):
        found = json.loads(value).get("metadata", {}).get("managedFields")
        # As kube-apiserver writes it: no blanks.
        return len(json.dumps(found, separators=(",", ":"), ensure_ascii=False).encode()) if found is not None else 0
    return 0


def main():
    rows = {}
    for kv in json.load(open(sys.argv[1]))["kvs"]:
        key, value = base64.b64decode(kv["key"]).decode(), base64.b64decode(kv.get("value", ""))
        row = rows.setdefault(prefix(key), dict.fromkeys(["keys", "live_bytes", "key_bytes", "max_object_bytes", "managed_fields_bytes"], 0))
        row["keys"] += 1
        row["live_bytes"] += len(value)
        row["key_bytes"] += len(key)
        row["max_object_bytes"] = max(row["max_object_bytes"], len(value))
        row["managed_fields_bytes"] += managed_fields(value)
    json.dump(rows, sys.stdout)


if __name__ == "__main__":
    main()
