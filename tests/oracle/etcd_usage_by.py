#!/usr/bin/env python3
"""Counts etcd's key space a second time, in all the ways that `plimsoll etcd` can: from the definitions, with etcd_bolt.py's reader.

    etcd_usage_by.py DB WHAT...

WHAT is prefix, resource, namespace, name-prefix, kind, owner, manager, label:KEY (as usage --by), top, flame:WEIGHT, history, check, split.
Prints {WHAT: rows}; rows are objects with the names that plimsoll's JSON has.
    etcd_usage_by.py --get ETCDCTL_JSON WHAT...     the same of `etcdctl get --prefix '' -w json`: only what lives
"""
import base64
import json
import sys

from etcd_bolt import Bolt, compact_revision, fields, revisions, trailer
from etcd_objects import Key, Object, decode, name_prefix

NONE = Object()


class Entry:
    """A key with all its revisions."""

    def __init__(self, key, all_):
        self.raw, self.revisions = key, sorted(all_, key=lambda r: (r.main, r.sub))
        self.key = Key(key.decode("utf-8", "replace"))
        self.latest = self.revisions[-1]
        self.live = not self.latest.tombstone
        newest = next((r for r in reversed(self.revisions) if not r.tombstone), None)
        self.object = decode(newest.value) if newest else NONE
        self.value = self.latest.value if self.live else b""

    def counts(self):
        deletes = sum(r.tombstone for r in self.revisions)
        history = sum(r.stored for r in self.revisions) - (self.latest.stored if self.live else 0)
        o = self.object if self.live else NONE
        return {"keys": int(self.live), "revisions": len(self.revisions), "tombstones": deletes, "live_bytes": len(self.value), "history_bytes": history,
                "key_bytes": len(self.raw) if self.live else 0, "max_object_bytes": len(self.value), "managed_fields_bytes": o.managed_fields_bytes,
                "annotation_bytes": o.annotation_bytes, "last_applied_bytes": o.last_applied_bytes}


def add(row, counts):
    for name, value in counts.items():
        row[name] = max(row.get(name, 0), value) if name == "max_object_bytes" else row.get(name, 0) + value


class Space:
    def __init__(self, all_, compacted=0):
        grouped = {}
        for revision in all_:
            grouped.setdefault(bytes(revision.key), []).append(revision)
        self.entries = [Entry(key, found) for key, found in sorted(grouped.items())]
        self.compacted = compacted

    def group(self, dims):
        """dims(entry) → a list of (labels, changed counts or None)."""
        rows = {}
        for entry in self.entries:
            counts = entry.counts()
            for labels, changed in dims(entry):
                add(rows.setdefault(tuple(sorted(labels.items())), {}), {**counts, **(changed or {})})
        return [{**dict(labels), **row} for labels, row in rows.items()]

    def usage(self, by):
        if by.startswith("label:"):
            return self.group(lambda e: [({"label": e.object.labels.get(by[6:], "")}, None)])
        if by == "manager":
            return self.group(self.managers)
        if by == "owner":
            owner = self.owners()
            return self.group(lambda e: [(owner[e.raw], None)])
        pick = {
            "prefix": lambda e: {"prefix": e.key.prefix, "group": e.key.group, "resource": e.key.resource, "namespace": e.key.namespace},
            "resource": lambda e: {"group": e.key.group, "resource": e.key.resource},
            "namespace": lambda e: {"namespace": e.key.namespace},
            "kind": lambda e: {"api_version": e.object.api_version, "kind": e.object.kind},
            "name-prefix": lambda e: {"group": e.key.group, "resource": e.key.resource, "namespace": e.key.namespace,
                                      "name_prefix": name_prefix(e.key.name) if e.key.kubernetes else e.key.prefix},
        }[by]
        return self.group(lambda e: [(pick(e), None)])

    @staticmethod
    def managers(entry):
        own = {}
        for manager, size, _ in entry.object.managed:
            own[manager] = own.get(manager, 0) + size
        return [({"manager": name}, {"managed_fields_bytes": size if entry.live else 0}) for name, size in own.items()] or [({"manager": ""}, None)]

    def owners(self):
        """key → the row it belongs to."""
        by_uid = {e.object.uid: e for e in self.entries if e.object.uid}

        def reference(e):
            known = [r for r in e.object.owners if r["uid"]]
            return next((r for r in known if r["controller"]), known[0] if known else None)
        referred = {r["uid"] for e in self.entries for r in [reference(e)] if r}
        out = {}
        for entry in self.entries:
            at, ref = entry, reference(entry)
            if ref is None:
                top = bool(entry.object.uid) and entry.object.uid in referred
                out[entry.raw] = {"namespace": entry.key.namespace, "owner_kind": entry.object.kind if top else "", "owner": entry.object.name if top else ""}
                continue
            for _ in range(16):
                above = by_uid.get(ref["uid"]) if ref["uid"] else None
                further = reference(above) if above else None
                if further is None:
                    break
                at, ref = above, further
            top = by_uid.get(ref["uid"]) if ref["uid"] else None
            out[entry.raw] = {"namespace": (top or at).key.namespace, "owner_kind": ref["kind"], "owner": ref["name"]}
        return out

    def top(self):
        rows = []
        for e in self.entries:
            if e.live:
                counts = e.counts()
                rows.append({"key": e.key.key, "group": e.key.group, "resource": e.key.resource, "namespace": e.key.namespace, "name": e.key.name, "modified": e.latest.main,
                             **{n: counts[n] for n in ("live_bytes", "history_bytes", "revisions", "managed_fields_bytes", "annotation_bytes", "last_applied_bytes")}})
        return sorted(rows, key=lambda r: (-r["live_bytes"], r["key"]))

    def flame(self, weight):
        stacks = {}
        for e in self.entries:
            counts = e.counts()
            value = {"live": counts["live_bytes"], "history": counts["history_bytes"], "all": counts["live_bytes"] + counts["history_bytes"], "keys": counts["keys"],
                     "revisions": counts["revisions"]}[weight]
            stack = (e.key.prefix.rstrip("/") or "<unknown>",)
            if e.key.kubernetes:
                stack = (f"{e.key.resource}.{e.key.group}" if e.key.group else e.key.resource, e.key.namespace or "(cluster)", name_prefix(e.key.name) or "<unknown>")
            # As folded text can hold it.
            stack = tuple(frame.replace(";", ",").replace("\t", "\\t").replace("\n", "\\n") for frame in stack)
            stacks[stack] = stacks.get(stack, 0) + value
        return [{"stack": ";".join(stack), "weight": value} for stack, value in sorted(stacks.items()) if value]

    def history(self):
        before, after, rows = [], [], []
        for e in self.entries:
            for r in e.revisions:
                if not r.tombstone:
                    times = decode(r.value).times
                    if times:
                        (after if r.main > self.compacted else before).append(max(times))
            writes = [r for r in e.revisions if r.main > self.compacted]
            if writes:
                rows.append({"key": e.key.key, "group": e.key.group, "resource": e.key.resource, "namespace": e.key.namespace, "name": e.key.name, "writes": len(writes),
                             "deletes": sum(r.tombstone for r in writes), "written_bytes": sum(r.stored for r in writes), "history_bytes": e.counts()["history_bytes"], "is_live": e.live})
        start = max(before) if before else min(after, default=None)
        end = max(before + after, default=None)
        hours = (end - start) / 3600 if start is not None else None
        rows.sort(key=lambda r: (-r["written_bytes"], r["key"]))
        for row in rows:
            row["written_bytes_per_hour"] = row["written_bytes"] / hours if hours and hours > 0 else None
        return {"rows": rows, "hours": hours, "from": start, "to": end}

    def split(self):
        rows = {}
        for e in self.entries:
            counts = e.counts()
            row = rows.setdefault((e.key.group, e.key.resource), {"group": e.key.group, "resource": e.key.resource, "bytes": 0, "writes": 0})
            row["bytes"] += counts["live_bytes"] + counts["history_bytes"]
            row["writes"] += sum(r.main > self.compacted for r in e.revisions)
        return list(rows.values())


def check(bolt, space):
    """check → (checked, failed)."""
    out, idle = {}, 0
    live = [e for e in space.entries if e.live]
    bad = 0
    for e in space.entries:
        for r in e.revisions:
            deleted = r.tombstone and (r.create or r.mod or r.version or r.value or r.lease)
            odd = not r.tombstone and not (r.mod == r.main and r.create <= r.mod and 1 <= r.version <= r.mod - r.create + 1)
            bad += bool(deleted or odd)
    out["revisions"] = (sum(len(e.revisions) for e in space.entries), bad)
    leases = set()
    for key, value in bolt.buckets.get("lease", []):
        leases.add(next((v for n, v, _ in fields(value) if n == 1), 0))
    used = [e.latest.lease for e in live if e.latest.lease]
    out["leases"] = (len(used), sum(lease not in leases for lease in used))
    idle = len(leases - set(used))
    namespaces = {e.key.name for e in live if e.key.resource == "namespaces" and not e.key.group}
    within = [e for e in live if e.key.kubernetes and e.key.namespace]
    out["namespaces"] = (len(within), sum(e.key.namespace not in namespaces for e in within)) if namespaces else None
    uids = {e.object.uid for e in live if e.object.uid}
    refs = [r for e in live for r in e.object.owners]
    out["owners"] = (len(refs), sum(bool(r["uid"]) and r["uid"] not in uids for r in refs))
    out["trailer"] = trailer(bolt)
    return {**out, "idle_leases": idle}


class Got:
    """A kv of etcdctl's JSON, in the form of a Revision."""

    def __init__(self, kv):
        self.main, self.sub, self.tombstone, self.lease = kv["mod_revision"], 0, False, kv.get("lease", 0)
        self.key, self.value = base64.b64decode(kv["key"]), base64.b64decode(kv.get("value", ""))
        self.create, self.mod, self.version, self.stored = kv["create_revision"], kv["mod_revision"], kv["version"], 0


def main():
    args = sys.argv[1:]
    if args[0] == "--get":
        bolt, args = None, args[1:]
        with open(args[0], encoding="utf-8") as file:
            space = Space(Got(kv) for kv in json.load(file)["kvs"])
    else:
        bolt = Bolt(args[0])
        space = Space(revisions(bolt), compact_revision(bolt))
    out = {}
    for what in args[1:]:
        if what == "top":
            out[what] = space.top()
        elif what.startswith("flame:"):
            out[what] = space.flame(what[6:])
        elif what == "history":
            out[what] = space.history()
        elif what == "check":
            out[what] = check(bolt, space)
        elif what == "split":
            out[what] = space.split()
        else:
            out[what] = space.usage(what)
    json.dump(out, sys.stdout)


if __name__ == "__main__":
    main()
