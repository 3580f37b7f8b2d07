#!/usr/bin/env python3
"""Writes a protobuf heap profile in the legacy text form, as Go's runtime/pprof does for /debug/pprof/heap?debug=1.

    heap_text.py PROFILE > heap.txt

Rows are unscaled there: an object of size s is sampled with probability 1 - e^(-s/rate), so what the protobuf has is
divided by that again. Symbol lines leave out the runtime's frames at the leaf, unless there are no others.
"""
import gzip
import math
import sys

from heap import fields, numbers, signed


def read(path):
    data = gzip.decompress(open(path, "rb").read())
    strings, functions, locations, samples, period = [], {}, {}, [], 0
    for number, value in fields(data):
        if number == 2:
            stack, values, block = [], [], 0
            for inner, item in fields(value):
                if inner == 1:
                    stack += numbers(item)
                elif inner == 2:
                    values += map(signed, numbers(item))
                elif inner == 3:
                    block = dict(fields(item)).get(3, 0)  # the label `bytes`: the size of one object
            samples.append((stack, values, block))
        elif number == 4:
            ident, address, lines = 0, 0, []
            for inner, item in fields(value):
                if inner == 1:
                    ident = item
                elif inner == 3:
                    address = item
                elif inner == 4:
                    line = dict(fields(item))
                    lines.append((line.get(1, 0), line.get(2, 0)))
            locations[ident] = (address, lines)
        elif number == 5:
            function = dict(fields(value))
            functions[function[1]] = (function.get(2, 0), function.get(4, 0))
        elif number == 6:
            strings.append(value.decode())
        elif number == 12:
            period = value
    frames = {
        ident: (address, [(strings[functions[f][0]], strings[functions[f][1]], line) for f, line in lines])
        for ident, (address, lines) in locations.items()
    }
    return period, [([frames[ident] for ident in stack], values, block) for stack, values, block in samples]


def unscaled(size, block, rate):
    """How many objects were sampled, and their bytes."""
    if size == 0:
        return 0, 0
    sampled = round(size * (1 - math.exp(-block / rate)) / block)
    return sampled, sampled * block


def main():
    rate, samples = read(sys.argv[1])
    rows, sums = [], [0] * 4
    for stack, (_, all_bytes, _, size), block in samples:
        row = [*unscaled(size, block, rate), *unscaled(all_bytes, block, rate)]
        sums = [total + value for total, value in zip(sums, row)]
        # A program counter in a row is that of the return, one behind the call.
        addresses = " ".join(f"0x{address + 1:x}" for address, _ in stack)
        rows.append("{}: {} [{}: {}] @ ".format(*row) + addresses)
        named = [(address, *frame) for address, frames in stack for frame in frames]
        shown = next((at for at, frame in enumerate(named) if not frame[1].startswith("runtime.")), 0)
        rows += [f"#\t{address:#x}\t{name}+{0x1f:#x}\t\t{file}:{line}" for address, name, file, line in named[shown:]]
        rows.append("")
    print("heap profile: {}: {} [{}: {}] @ heap/{}".format(*sums, 2 * rate))
    print("\n".join(rows))
    print("\n# runtime.MemStats\n# Alloc = 1\n# BySize = [{0 1 2}]")


if __name__ == "__main__":
    main()
