#!/usr/bin/env python3
"""Counts a pprof profile a second time, from the format's definition (profile.proto), without protobuf or Rust.

    heap.py [--by function|file|line] [--flame] FILE...   one JSON object: {FILE: {SAMPLE_TYPE: {...}}}

Of each sample type `total`, and of each node `[flat, cum]`: flat is what stacks that end in it hold, cum what stacks
that it is anywhere in hold, each stack once. With --flame, `stacks` instead: values by stack, root first.
"""
import argparse
import gzip
import json
import posixpath
import sys


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, at
        shift += 7


def fields(data):
    """(number, value) of each field; bytes where it is length-delimited."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = varint(data, at)
        elif wire == 2:
            length, at = varint(data, at)
            value, at = data[at:at + length], at + length
        else:
            raise ValueError(f"wire type {wire}")
        yield number, value


def numbers(value):
    """A repeated number: one, or packed."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = varint(value, at)
        found.append(number)
    return found


def signed(value):
    return value - (1 << 64) if value >> 63 else value


def read(path):
    data = open(path, "rb").read()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    types, samples, locations, functions, strings = [], [], {}, {}, []
    for number, value in fields(data):
        if number == 1:
            types.append(dict(fields(value)).get(1, 0))
        elif number == 2:
            stack, values = [], []
            for inner, item in fields(value):
                if inner == 1:
                    stack += numbers(item)
                elif inner == 2:
                    values += map(signed, numbers(item))
            samples.append((stack, values))
        elif number == 4:
            ident, lines = 0, []
            for inner, item in fields(value):
                if inner == 1:
                    ident = item
                elif inner == 4:
                    line = dict(fields(item))
                    lines.append((line.get(1, 0), signed(line.get(2, 0))))
            locations[ident] = lines
        elif number == 5:
            function = dict(fields(value))
            functions[function[1]] = (function.get(2, 0), function.get(4, 0))
        elif number == 6:
            strings.append(value.decode())
    functions = {ident: (strings[name], strings[file]) for ident, (name, file) in functions.items()}
    # Leaf first, inlined calls before their callers: as a sample lists its locations, and a location its lines.
    frames = {ident: [functions[function] + (line,) for function, line in lines] for ident, lines in locations.items()}
    stacks = [[frame for location in stack for frame in frames[location]] for stack, _ in samples]
    return [strings[name] for name in types], stacks, [values for _, values in samples]


def node(frame, by):
    name, file, line = frame
    file = posixpath.normpath(file) if file else ""
    return {"function": name, "file": file, "line": f"{name} {file}:{line}"}[by]


def count(path, by, flame):
    types, stacks, values = read(path)
    result = {}
    for index, name in enumerate(types):
        nodes, folded, total = {}, {}, 0
        for stack, weights in zip(stacks, values):
            weight = weights[index]
            total += weight
            if not weight or not stack:
                continue
            if flame:
                key = ";".join(frame[0] for frame in reversed(stack))
                folded[key] = folded.get(key, 0) + weight
                continue
            keys = [node(frame, by) for frame in stack]
            nodes.setdefault(keys[0], [0, 0])[0] += weight
            for key in set(keys):
                nodes.setdefault(key, [0, 0])[1] += weight
        result[name] = {"total": total, "stacks": folded} if flame else {"total": total, "nodes": nodes}
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--by", default="function", choices=["function", "file", "line"])
    parser.add_argument("--flame", action="store_true")
    parser.add_argument("files", nargs="+")
    args = parser.parse_args()
    json.dump({path: count(path, args.by, args.flame) for path in args.files}, sys.stdout)


if __name__ == "__main__":
    main()
