#!/usr/bin/env python3
"""Damages a database of etcd in every way it can think of, and runs every `plimsoll etcd` subcommand on it.

    etcd_damage.py PLIMSOLL DB [--cases N] [--seed N] [--only NAME] [--keep FOLDER]

Each run must end within 5 s and 3 GB of address space, without a panic, with 0, 1 or 3. A leaf page that can't be read must cost exactly
what is on it, and `check` must name page and bucket. Prints how many cases ran; N picks some, 0 (the default) all.
"""
import argparse
import json
import os
import random
import resource
import struct
import subprocess
import sys
import tempfile
import time

from etcd_bolt import BRANCH, LEAF, Bolt, fnv64a

SECONDS, ADDRESS_SPACE = 5, 3 << 30
COMMANDS = [
    ["usage"], ["usage", "--by", "owner"], ["usage", "--by", "manager"], ["usage", "--by", "name-prefix"], ["usage", "--keys-only"], ["top"], ["flame", "-o", "folded", "--weight", "all"],
    ["history"], ["pages"], ["check"], ["split"],
]


class Damage:
    def __init__(self, path, seed):
        with open(path, "rb") as file:
            self.whole = file.read()
        self.bolt, self.random = Bolt(path), random.Random(seed)
        self.size = self.bolt.page_size
        self.kinds = {"branch": [], "leaf": [], "overflow": [], "free": []}
        for page in range(2, self.bolt.meta.high):
            if page not in self.bolt.used:
                self.kinds["free"].append(page)
            elif self.bolt.used[page] != page:
                self.kinds["overflow"].append(page)
            else:
                flags = self.bolt.page(page)[1]
                self.kinds["branch" if flags & BRANCH else "leaf"].append(page)
        self.root = self.bolt.meta.root

    def with_(self, *changes):
        out = bytearray(self.whole)
        for at, content in changes:
            out[at:at + len(content)] = content
        return bytes(out[:len(self.whole)])

    def meta(self, form, offset, value, both=True):
        """A field of the meta pages changed, with a checksum that fits."""
        out = bytearray(self.whole)
        for page in (0, 1) if both else (self.bolt.metas.index(self.bolt.meta),):
            at = page * self.size + 16
            struct.pack_into("<" + form, out, at + offset, value)
            struct.pack_into("<Q", out, at + 56, fnv64a(bytes(out[at:at + 56])))
        return bytes(out)

    def cases(self):
        """(name, make): the name tells what is wrong."""
        size, whole, rng = self.size, self.whole, self.random
        for page in range(len(whole) // size + 1):
            for more in (0, 1, 17):
                yield f"cut-page-{page}+{more}", lambda at=page * size + more: whole[:at]
        for n in range(100):
            yield f"cut-random-{n}", lambda at=rng.randrange(len(whole)): whole[:at]
        yield from (("empty", lambda: b""), ("zeros", lambda: bytes(len(whole))), ("text", lambda: b"# Notes\nnothing of the kind\n" * 500), ("random", lambda: random.Random(1).randbytes(200_000)),
                    ("zstd-cut", lambda: b"\x28\xb5\x2f\xfd" + whole[:500]), ("gzip-cut", lambda: b"\x1f\x8b\x08\0" + whole[:500]), ("twice", lambda: whole + whole), ("long", lambda: whole + bytes(10 * size)))
        for field, form, offset, values in [("magic", "I", 0, [0]), ("version", "I", 4, [0, 3]), ("page-size", "I", 8, [0, 1, 512, 1024, 3000, 8192, 65536, 1 << 31, 0xFFFFFFFF]), ("flags", "I", 12, [1]),
                                            ("root", "Q", 16, [0, 1, 2, 5, self.bolt.meta.high, 1 << 62, (1 << 64) - 1]), ("freelist", "Q", 32, [0, 1, self.root, *self.kinds["leaf"][:3], 1 << 62]),
                                            ("high", "Q", 40, [0, 1, 2, 3, self.bolt.meta.high - 3, self.bolt.meta.high + 1000, 1 << 40, (1 << 64) - 1]), ("txid", "Q", 48, [0, (1 << 64) - 1])]:
            for value in values:
                yield f"meta-{field}-{value:x}", lambda a=(form, offset, value): self.meta(*a)
                yield f"meta-{field}-{value:x}-one", lambda a=(form, offset, value): self.meta(*a, both=False)
        for number in (0, 1):
            yield f"meta-{number}-gone", lambda n=number: self.with_((n * size, bytes(80)))
        yield "metas-gone", lambda: self.with_((0, bytes(80)), (size, bytes(80)))
        pages = {"branch": self.kinds["branch"], "leaf": self.kinds["leaf"]}
        for kind, some in pages.items():
            for page in some:
                at = page * size
                for name, change in {"id": (at, struct.pack("<Q", page + 1)), "flags-0": (at + 8, b"\0\0"), "flags-all": (at + 8, b"\xff\xff"), "flags-swap": (at + 8, b"\1\0" if kind == "leaf" else b"\2\0"),
                                     "flags-meta": (at + 8, b"\4\0"), "flags-free": (at + 8, b"\x10\0"), "count-0": (at + 10, b"\0\0"), "count-1": (at + 10, b"\1\0"), "count-max": (at + 10, b"\xff\xff"),
                                     "overflow-1": (at + 12, b"\1\0\0\0"), "overflow-max": (at + 12, b"\xff" * 4), "overflow-0": (at + 12, bytes(4))}.items():
                    yield f"{kind}-{page}-{name}", lambda c=change: self.with_(c)
                for element in range(min(3, self.bolt.page(page)[2])):
                    for offset in (0, 4, 8, 12):
                        for value in (0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 4097):
                            yield f"{kind}-{page}-element-{element}+{offset}-{value:x}", lambda c=(at + 16 + 16 * element + offset, struct.pack("<I", value)): self.with_(c)
        for page in self.kinds["branch"]:
            count = self.bolt.page(page)[2]
            children = [struct.unpack_from("<Q", whole, page * size + 16 + 16 * n + 8)[0] for n in range(count)]
            for n in {0, count // 2, count - 1}:
                for to in {page, self.root, 0, 1, 2, self.bolt.meta.high, self.bolt.meta.high - 1, 1 << 63, children[0], children[-1], *self.kinds["branch"], *self.kinds["overflow"][:2], *self.kinds["free"][:2]}:
                    if to != children[n]:
                        yield f"branch-{page}-child-{n}-to-{to:x}", lambda c=(page * size + 16 + 16 * n + 8, struct.pack("<Q", to)): self.with_(c)
        # Buckets that are each other, or nothing.
        at = self.root * size
        for n in range(self.bolt.page(self.root)[2]):
            _, position, key, _ = struct.unpack_from("<IIII", whole, at + 16 + 16 * n)
            value = at + 16 + 16 * n + position + key
            for to in (self.root, 0, 1, 3, self.bolt.meta.high + 5, (1 << 64) - 1, *self.kinds["branch"], *self.kinds["leaf"][:4]):
                yield f"bucket-{n}-root-{to:x}", lambda c=(value, struct.pack("<Q", to)): self.with_(c)
            yield f"bucket-{n}-inline-count", lambda c=(value + 16 + 10, b"\xff\xff"): self.with_(c)
            yield f"bucket-{n}-flags", lambda c=(at + 16 + 16 * n, bytes(4)): self.with_(c)
            yield f"bucket-{n}-name", lambda c=(value - key, b"\xff"): self.with_(c)
        # A free-list that claims anything.
        for page in self.kinds["free"][:1] + self.kinds["leaf"][:1]:
            for name, head in {"max": struct.pack("<QHHI", page, 0x10, 0xFFFF, 0) + b"\xff" * 8, "huge": struct.pack("<QHHIQ", page, 0x10, 0xFFFF, 0, 1 << 40), "own": struct.pack("<QHHIQQ", page, 0x10, 2, 0, page, page),
                               "overflow": struct.pack("<QHHI", page, 0x10, 5, 0xFFFFFFF0), "used": struct.pack("<QHHIQ", page, 0x10, 1, 0, self.root)}.items():
                def make(page=page, head=head):
                    out = bytearray(self.meta("Q", 32, page))
                    out[page * size:page * size + len(head)] = head
                    return bytes(out)
                yield f"freelist-{page}-{name}", make
        yield "trailer", lambda: self.with_((len(whole) - 5, b"\0\1"))
        for kind, some in {"meta": [0, 1], **self.kinds}.items():
            for n in range(400 if some else 0):
                page = rng.choice(some)
                spot = page * size + (rng.randrange(96) if n % 2 else rng.randrange(size))
                yield f"flip-{kind}-{n}", lambda c=(spot, bytes([whole[spot] ^ 1 << rng.randrange(8)])) if spot < len(whole) else (0, b""): self.with_(c)
            for n in range(60 if some else 0):
                page = rng.choice(some)
                yield f"noise-{kind}-{n}", lambda c=(page * size + rng.randrange(size), rng.randbytes(rng.randrange(1, 200))): self.with_(c)
        for n in range(60):
            used = self.kinds["leaf"] + self.kinds["branch"]
            a, b = rng.choice(used), rng.choice(used)
            yield f"copy-{a}-over-{b}", lambda a=a, b=b: self.with_((b * size, whole[a * size:(a + 1) * size]))
            yield f"copy-{a}-as-{b}", lambda a=a, b=b: self.with_((b * size, struct.pack("<Q", b) + whole[a * size + 8:(a + 1) * size]))


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))


def run(plimsoll, args):
    """(exit code, stdout, stderr); an error text instead of the code if it can't be so."""
    start = time.monotonic()
    try:
        done = subprocess.run([plimsoll, "etcd", *args], stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, preexec_fn=limit, env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "RUST_BACKTRACE": "1"})
    except subprocess.TimeoutExpired:
        return f"no end within {SECONDS} s", b"", b""
    code = done.returncode
    if code not in (0, 1, 3) or b"panicked" in done.stderr:
        code = f"exit code {code} after {time.monotonic() - start:.1f} s: {done.stderr.decode(errors='replace')[-600:]}"
    return code, done.stdout, done.stderr


def lost_leaves(damage, plimsoll, path):
    """Each leaf page of the bucket `key` made unreadable in turn: what is on it is lost, and no more."""
    wrong, number = [], 0
    total = len(damage.bolt.buckets["key"])
    inside = {key for key, _ in damage.bolt.buckets["key"]}
    for page in damage.kinds["leaf"]:
        keys = [key for _, key, _ in Bolt.leaf(damage.whole, page * damage.size)]
        if not keys or keys[0] not in inside:
            continue
        number += 1
        with open(path, "wb") as file:
            file.write(damage.with_((page * damage.size + 8, b"\0\0")))
        code, out, _ = run(plimsoll, ["usage", path, "-o", "json"])
        found = json.loads(out)["totals"]["revisions"] if out else None
        if code != 3 or found != total - len(keys):
            wrong.append(f"leaf page {page} unreadable: usage ends with {code} and finds {found} revisions, not {total - len(keys)} of {total}")
        code, out, _ = run(plimsoll, ["check", path, "-o", "json"])
        told = json.dumps(json.loads(out)) if out else ""
        if code not in (1, 3) or f"page {page}" not in told or "key" not in told:
            wrong.append(f"leaf page {page} unreadable: check ends with {code} and does not name it")
    return number, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plimsoll")
    parser.add_argument("db")
    parser.add_argument("--cases", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", help="copies of what failed go here")
    args = parser.parse_args()
    damage = Damage(args.db, args.seed)
    cases = [case for case in damage.cases() if args.only in case[0]]
    if args.cases and len(cases) > args.cases:
        cases = random.Random(args.seed).sample(cases, args.cases)
    wrong, runs, codes = [], 0, {}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "damaged.db")
        for number, (name, make) in enumerate(cases):
            with open(path, "wb") as file:
                file.write(make())
            # With few cases each gets three subcommands, in turns; `check` always.
            commands = COMMANDS + [["diff", args.db], ["diff", "--objects"]] if not args.cases else [["check"], COMMANDS[number % len(COMMANDS)], [["diff", args.db], ["diff", "--objects"]][number % 2]]
            for command in commands:
                line = [*command, path] if command != ["diff", "--objects"] else ["diff", path, args.db, "--objects"]
                if "-o" not in line:
                    line += ["-o", ["json", "table"][number % 2]]
                code, _, _ = run(args.plimsoll, line)
                runs += 1
                codes[str(code)[:40]] = codes.get(str(code)[:40], 0) + 1
                if isinstance(code, str):
                    wrong.append(f"{name}: {' '.join(command)}: {code}")
                    if args.keep:
                        os.makedirs(args.keep, exist_ok=True)
                        with open(os.path.join(args.keep, f"{name}.db"), "wb") as file:
                            file.write(make())
        leaves, more = lost_leaves(damage, args.plimsoll, path) if not args.only else (0, [])
    wrong += more
    print("\n".join(wrong[:200]))
    print(json.dumps({"cases": len(cases), "runs": runs, "leaves": leaves, "wrong": len(wrong), "codes": codes}))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
