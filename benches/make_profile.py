#!/usr/bin/env python3
"""Makes a large heap profile from the samples: all of them as one, with tables of their own each, until it is as large as
asked for. The same size gives the same bytes.

    make_profile.py --size 10MB OUT.pb [--gzip]
"""
import argparse
import glob
import gzip
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../tests/oracle"))
from heap import fields, numbers  # noqa: E402


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def data(field, value):
    return varint(field << 3 | 2) + varint(len(value)) + value


def packed(values):
    return b"".join(map(varint, values))


class Merged:
    """Profiles one after the other; texts are shared, functions and locations are not, as if of several builds."""

    def __init__(self):
        self.texts, self.functions, self.locations, self.samples = {"": 0}, [], [], []
        self.types, self.size = [], 0

    def text(self, text):
        return self.texts.setdefault(text, len(self.texts))

    def add(self, path, round_):
        raw = [(field, value) for field, value in fields(gzip.decompress(open(path, "rb").read()))]
        strings = [value.decode() for field, value in raw if field == 6]
        functions, locations = {}, {}
        types = [dict(fields(value)) for field, value in raw if field == 1]
        self.types = [(self.text(strings[t.get(1, 0)]), self.text(strings[t.get(2, 0)])) for t in types]
        for field, value in raw:
            if field == 5:
                function = dict(fields(value))
                functions[function[1]] = len(self.functions) + 1
                # Each round has functions of its own name, as generated code has.
                name = strings[function.get(2, 0)] + (f".r{round_}" if round_ else "")
                out = number(1, len(self.functions) + 1) + number(2, self.text(name))
                out += number(4, self.text(strings[function.get(4, 0)])) + number(5, function.get(5, 0))
                self.functions.append(data(5, out))
                self.size += len(out) + len(name)
        for field, value in raw:
            if field == 4:
                found = list(fields(value))
                ident = dict((f, v) for f, v in found if f != 4)
                locations[ident[1]] = len(self.locations) + 1
                out = number(1, len(self.locations) + 1) + number(3, ident.get(3, 0))
                for line in (dict(fields(v)) for f, v in found if f == 4):
                    out += data(4, number(1, functions[line[1]]) + number(2, line.get(2, 0)))
                self.locations.append(data(4, out))
                self.size += len(out)
        for field, value in raw:
            if field == 2:
                stack = [ident for f, v in fields(value) if f == 1 for ident in numbers(v)]
                values = [count for f, v in fields(value) if f == 2 for count in numbers(v)]
                out = data(2, data(1, packed(locations[ident] for ident in stack)) + data(2, packed(values)))
                self.samples.append(out)
                self.size += len(out)

    def bytes(self):
        types = b"".join(data(1, number(1, name) + number(2, unit)) for name, unit in self.types)
        texts = b"".join(data(6, text.encode()) for text in self.texts)
        return types + b"".join(self.samples) + b"".join(self.locations) + b"".join(self.functions) + texts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", default="10MB")
    parser.add_argument("--gzip", action="store_true")
    parser.add_argument("out")
    args = parser.parse_args()
    wanted = int(args.size.removesuffix("MB")) * 1_000_000
    merged, round_ = Merged(), 0
    profiles = sorted(glob.glob(os.path.join(os.path.dirname(__file__), "../samples/*/heap/*.pb.gz")))
    while merged.size < wanted:
        merged.add(profiles[round_ % len(profiles)], round_)
        round_ += 1
    out = merged.bytes()
    if args.gzip:
        out = gzip.compress(out, 6, mtime=0)
    with open(args.out, "wb") as file:
        file.write(out)
    print(f"{args.out}: {len(out)} bytes, {len(merged.samples)} samples of {round_} profiles")


if __name__ == "__main__":
    main()
