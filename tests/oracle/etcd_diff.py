#!/usr/bin/env python3
"""What differs between two of etcd's databases, counted a second time.

    etcd_diff.py A.db B.db     prints {"rows": by group, resource and namespace, "objects": each that came, went or changed}
"""
import json
import sys

from etcd_bolt import Bolt, revisions
from etcd_usage_by import Space


def living(path):
    return {e.raw: e for e in Space(revisions(Bolt(path))).entries if e.live}


def main():
    a, b = living(sys.argv[1]), living(sys.argv[2])
    rows, objects = {}, []
    for raw in sorted(a.keys() | b.keys()):
        old, new = a.get(raw), b.get(raw)
        key = (new or old).key
        row = rows.setdefault((key.prefix, key.group, key.resource, key.namespace), dict.fromkeys(("added", "removed", "changed", "rewritten", "bytes_before", "bytes_after"), 0))
        before, after = len(old.value) if old else None, len(new.value) if new else None
        row["bytes_before"] += before or 0
        row["bytes_after"] += after or 0
        if old is None or new is None or old.value != new.value:
            change = "added" if old is None else "removed" if new is None else "changed"
            row[change] += 1
            objects.append({"change": change, "key": key.key, "group": key.group, "resource": key.resource, "namespace": key.namespace, "name": key.name, "bytes_before": before, "bytes_after": after})
        elif old.latest.mod != new.latest.mod:
            row["rewritten"] += 1
    out = [{"prefix": p, "group": g, "resource": r, "namespace": n, **row, "bytes_change": row["bytes_after"] - row["bytes_before"]} for (p, g, r, n), row in rows.items()
           if any(row[change] for change in ("added", "removed", "changed", "rewritten"))]
    json.dump({"rows": out, "objects": objects}, sys.stdout)


if __name__ == "__main__":
    main()
