#!/usr/bin/env python3
"""Reads etcd's database file a second time: plain, slow, without a look at the Rust.

    etcd_bolt.py DB     prints as JSON: pages, fill, free runs, depth of each bucket; checks; hashes; the trailer

Only for files that are whole: whatever is odd is an error, or stands under `checks`.
"""
import hashlib
import json
import math
import mmap
import struct
import sys

META, BRANCH, LEAF, FREELIST = 4, 1, 2, 0x10
NO_PAGE = 0xFFFF_FFFF_FFFF_FFFF


def crc_table():
    out = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ 0x82F63B78 if n & 1 else n >> 1
        out.append(n)
    return out


CRC = crc_table()


def crc32c(state, data):
    """Castagnoli, table by table; `state` starts as 0xFFFFFFFF and is inverted at the end."""
    table = CRC
    for byte in data:
        state = table[(state ^ byte) & 0xFF] ^ state >> 8
    return state


def fnv64a(data):
    state = 0xCBF29CE484222325
    for byte in data:
        state = (state ^ byte) * 0x100000001B3 & 0xFFFF_FFFF_FFFF_FFFF
    return state


class Meta:
    def __init__(self, data, at):
        body = data[at + 16:at + 16 + 64]
        (self.magic, self.version, self.page_size, _, self.root, _, self.freelist, self.high, self.txid, sum_) = struct.unpack("<IIIIQQQQQQ", body)
        self.valid = self.magic == 0xED0CDAED and self.version == 2 and sum_ == fnv64a(body[:56])


class Bolt:
    """buckets: {name: [(key, value)]}; stats: {name: {...}}; used: page → who."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        first = Meta(self.data, 0)
        self.page_size = first.page_size if first.valid else 4096
        self.metas = [first, Meta(self.data, self.page_size)]
        self.meta = max((m for m in self.metas if m.valid), key=lambda m: m.txid)
        self.used, self.twice, self.disorder = {}, [], 0
        for page in (0, 1):
            self.take(page, 0)
        self.freelist = None
        if self.meta.freelist != NO_PAGE:
            _, flags, count, overflow = self.page(self.meta.freelist)
            assert flags & FREELIST
            self.take(self.meta.freelist, overflow)
            at, start = self.meta.freelist * self.page_size + 16, 0
            if count == 0xFFFF:
                (count,), start = struct.unpack_from("<Q", self.data, at), 1
            self.freelist = list(struct.unpack_from(f"<{count}Q", self.data, at + 8 * start))
        self.trees = {"(root)": self.tree(self.meta.root)}
        self.buckets, self.inline = {}, set()
        for flags, name, value in self.trees["(root)"]["items"]:
            assert flags & 1
            root, = struct.unpack_from("<Q", value)
            name = name.decode()
            if root == 0:
                self.inline.add(name)
                self.trees[name] = {"items": list(self.leaf(value, 16)), "depth": 0, "branch": [], "leaf": [], "overflow": 0}
            else:
                self.trees[name] = self.tree(root)
            self.buckets[name] = [(key, value) for _, key, value in self.trees[name]["items"]]

    def page(self, number):
        return struct.unpack_from("<QHHI", self.data, number * self.page_size)

    def take(self, number, overflow):
        for page in range(number, number + overflow + 1):
            if page in self.used:
                self.twice.append(page)
            self.used[page] = number

    @staticmethod
    def leaf(data, at):
        flags, count = struct.unpack_from("<HH", data, at + 8)
        assert flags == LEAF
        for n in range(count):
            element = at + 16 + 16 * n
            kind, position, key, value = struct.unpack_from("<IIII", data, element)
            start = element + position
            yield kind, bytes(data[start:start + key]), bytes(data[start + key:start + key + value])

    def tree(self, root):
        out = {"items": [], "depth": 0, "branch": [], "leaf": [], "overflow": 0}
        last = [None]

        def visit(number, depth):
            own, flags, count, overflow = self.page(number)
            assert own == number, f"page {number} says that it is {own}"
            self.take(number, overflow)
            out["overflow"] += overflow
            at, room = number * self.page_size, self.page_size * (1 + overflow)
            if flags & BRANCH:
                elements = [struct.unpack_from("<IIQ", self.data, at + 16 + 16 * n) for n in range(count)]
                out["branch"].append((16 + sum(16 + size for _, size, _ in elements)) / room)
                for n, (position, size, child) in enumerate(elements):
                    start = at + 16 + 16 * n + position
                    first = visit(child, depth + 1)
                    if first is not None and bytes(self.data[start:start + size]) > first:
                        self.disorder += 1
                return None
            assert flags & LEAF, f"page {number} has flags {flags:x}"
            out["depth"] = max(out["depth"], depth)
            size, first = 16, None
            for kind, key, value in self.leaf(self.data, at):
                size += 16 + len(key) + len(value)
                if last[0] is not None and key <= last[0]:
                    self.disorder += 1
                last[0] = key
                first = key if first is None else first
                out["items"].append((kind, key, value))
            out["leaf"].append(size / room)
            return first
        visit(root, 1)
        return out


def quantile(values, q):
    return sorted(values)[max(1, math.ceil(q * len(values))) - 1] if values else None


def pages(bolt):
    rows = []
    for name, tree in bolt.trees.items():
        row = {"bucket": name, "entries": len(tree["items"]), "depth": tree["depth"], "branch_pages": len(tree["branch"]), "leaf_pages": len(tree["leaf"]),
               "overflow_pages": tree["overflow"]}
        row["bytes"] = bolt.page_size * (row["branch_pages"] + row["leaf_pages"] + row["overflow_pages"])
        for kind in ("leaf", "branch"):
            for q, field in ((0, "min"), (0.5, "p50"), (0.99, "p99")):
                row[f"{kind}_fill_{field}"] = quantile(tree[kind], q)
        rows.append(row)
    runs, run = [], 0
    for page in range(bolt.meta.high + 1):
        if page < bolt.meta.high and page not in bolt.used:
            run += 1
        elif run:
            runs.append(run)
            run = 0
    classes = {}
    for run in runs:
        low = 1 << run.bit_length() - 1
        row = classes.setdefault(low, {"runs": 0, "pages": 0})
        row["runs"] += 1
        row["pages"] += run
    totals = {"page_size": bolt.page_size, "pages": bolt.meta.high, "used_pages": len(bolt.used), "free_pages": sum(runs), "free_runs": len(runs),
              "longest_free_run": max(runs, default=0), "free_run_p50": quantile(runs, 0.5), "free_share": sum(runs) / bolt.meta.high}
    return {"rows": rows, "totals": totals, "runs": [{"from": low, "to": 2 * low - 1, **row} for low, row in sorted(classes.items())]}


# Protobuf, and etcd's own messages.

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
            if at + length > len(data):
                raise ValueError("cut")
            value, at = data[at:at + length], at + length
        elif tag & 7 in (1, 5):
            size = {1: 8, 5: 4}[tag & 7]
            value, at = data[at:at + size], at + size
        else:
            raise ValueError("wire type")
        yield tag >> 3, value, at - start


class Revision:
    """A record of the bucket `key`."""

    __slots__ = ("main", "sub", "tombstone", "key", "create", "mod", "version", "value", "lease", "stored")

    def __init__(self, key, value):
        self.main, _, self.sub = struct.unpack(">QcQ", key[:17])
        self.tombstone, self.stored = key[17:] == b"t", len(key) + len(value)
        known = dict.fromkeys((2, 3, 4, 6), 0)
        known |= {1: b"", 5: b""}
        for number, content, _ in fields(value):
            known[number] = content
        self.key, self.create, self.mod, self.version, self.value, self.lease = known[1], known[2], known[3], known[4], known[5], known[6]


def revisions(bolt):
    return [Revision(key, value) for key, value in bolt.buckets["key"]]


def compact_revision(bolt, which=b"finishedCompactRev"):
    found = dict(bolt.buckets["meta"]).get(which)
    return struct.unpack(">Q", found[:8])[0] if found else 0


def hashes(bolt):
    state = 0xFFFFFFFF
    for name in sorted(bolt.buckets, key=str.encode):
        state = crc32c(state, name.encode())
        for key, value in bolt.buckets[name]:
            state = crc32c(crc32c(state, key), value)
    # As `etcdctl endpoint hashkv` at the latest revision: of what the compaction left, only what is still the latest of its key
    # (etcd's kvHasher with kvindex.Keep at that revision). If nothing lives, nothing is left out.
    latest = {}
    for revision in revisions(bolt):
        latest[bytes(revision.key)] = revision
    keep = {(r.main, r.sub) for r in latest.values() if not r.tombstone}
    compacted, kv = compact_revision(bolt), crc32c(0xFFFFFFFF, b"key")
    for key, value in bolt.buckets["key"]:
        main, _, sub = struct.unpack(">QcQ", key[:17])
        if main > compacted or (main, sub) in keep or not keep:
            kv = crc32c(crc32c(kv, key), value)
    return {"hash": state ^ 0xFFFFFFFF, "kv_hash": kv ^ 0xFFFFFFFF}


def trailer(bolt):
    size = len(bolt.data)
    if size % 512 != 32:
        return None
    return hashlib.sha256(bolt.data[:size - 32]).digest() == bolt.data[size - 32:]


def main():
    bolt = Bolt(sys.argv[1])
    found = {"pages": pages(bolt), "trailer": trailer(bolt), "disorder": bolt.disorder, "twice": bolt.twice, "compact_revision": compact_revision(bolt),
             "metas": [m.valid for m in bolt.metas]}
    if "--no-hash" not in sys.argv:
        found |= hashes(bolt)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
