#!/usr/bin/env python3
"""Writes a database's buckets into a new bbolt file: with any page size, a stored free-list, free pages in between. What bbolt itself would
write on machines with other pages, or with its free-list kept in the file.

    etcd_relay.py DB OUT [--page-size 16384] [--free N] [--freelist] [--first N]
"""
import argparse
import struct

from etcd_bolt import BRANCH, FREELIST, LEAF, NO_PAGE, Bolt, fnv64a


class Writer:
    def __init__(self, size, gap):
        self.size, self.gap, self.next, self.pages, self.free = size, gap, 2, {}, []

    def take(self, count):
        if self.gap:  # some free pages in front of each, more and more of them
            many = min(self.gap, 1 + len(self.pages) % 7)
            self.free += range(self.next, self.next + many)
            self.next, self.gap = self.next + many, self.gap - many
        page, self.next = self.next, self.next + count
        return page

    def put(self, flags, count, body):
        pages = -(-(16 + len(body)) // self.size)
        page = self.take(pages)
        self.pages[page] = struct.pack("<QHHI", page, flags, count, pages - 1) + body
        return page

    @staticmethod
    def leaf(items):
        heads, tail, at = b"", b"", 16 * len(items)
        for n, (flags, key, value) in enumerate(items):
            heads += struct.pack("<IIII", flags, at + len(tail) - 16 * n, len(key), len(value))
            tail += key + value
        return heads + tail

    def tree(self, items):
        """The page of a tree's root."""
        groups, group, size = [], [], 16
        for item in items:
            more = 16 + len(item[1]) + len(item[2])
            if group and size + more > self.size:
                groups.append(group)
                group, size = [], 16
            group.append(item)
            size += more
        groups.append(group)
        level = [(group[0][1] if group else b"", self.put(LEAF, len(group), self.leaf(group))) for group in groups]
        while len(level) > 1:
            fan = max(2, (self.size - 16) // (16 + max(len(key) for key, _ in level)))
            level = [(part[0][0], self.branch(part)) for part in (level[n:n + fan] for n in range(0, len(level), fan))]
        return level[0][1]

    def branch(self, children):
        heads, tail, at = b"", b"", 16 * len(children)
        for n, (key, page) in enumerate(children):
            heads += struct.pack("<IIQ", at + len(tail) - 16 * n, len(key), page)
            tail += key
        return self.put(BRANCH, len(children), heads + tail)


def write(buckets, inline, path, size, free, stored):
    out, roots = Writer(size, free), []
    for name, items in sorted(buckets.items(), key=lambda pair: pair[0].encode()):
        entries = [(0, key, value) for key, value in items]
        if name in inline:
            value = struct.pack("<QQ", 0, 0) + struct.pack("<QHHI", 0, LEAF, len(entries), 0) + out.leaf(entries)
        else:
            value = struct.pack("<QQ", out.tree(entries), 0)
        roots.append((1, name.encode(), value))
    root = out.tree(roots)
    if free and out.gap:
        out.free += range(out.next, out.next + out.gap)
        out.next, out.gap = out.next + out.gap, 0
    list_page = NO_PAGE
    if stored:
        count, first = (len(out.free), b"") if len(out.free) < 0xFFFF else (0xFFFF, struct.pack("<Q", len(out.free)))
        list_page = out.put(FREELIST, count, first + struct.pack(f"<{len(out.free)}Q", *out.free))
    with open(path, "wb") as file:
        for number in (0, 1):
            meta = struct.pack("<IIIIQQQQQ", 0xED0CDAED, 2, size, 0, root, 0, list_page, out.next, 7 + number)
            file.seek(number * size)
            file.write(struct.pack("<QHHI", number, 4, 0, 0) + meta + struct.pack("<Q", fnv64a(meta)))
        for page, body in out.pages.items():
            file.seek(page * size)
            file.write(body)
        file.truncate(out.next * size)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("db")
    parser.add_argument("out")
    parser.add_argument("--page-size", type=int, default=4096)
    parser.add_argument("--free", type=int, default=0, help="pages that are free")
    parser.add_argument("--freelist", action="store_true", help="keep the free-list in the file")
    parser.add_argument("--first", type=int, default=0, help="only so many records of the keys, of values under 300 bytes")
    args = parser.parse_args()
    bolt = Bolt(args.db)
    buckets = bolt.buckets
    if args.first:
        small = [(key, value) for key, value in buckets["key"] if len(value) < 300]
        buckets["key"] = small[::max(1, len(small) // args.first)][:args.first]
    write(buckets, bolt.inline - {"key"}, args.out, args.page_size, args.free, args.freelist)


if __name__ == "__main__":
    main()
