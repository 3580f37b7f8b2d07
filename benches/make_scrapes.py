#!/usr/bin/env python3
"""Makes a long series of scrapes from pages of samples/list-storm (needs the module zstandard).

    make_scrapes.py DIR [--scrapes 500] [--every 15] [--start UNIXSECONDS]

Writes DIR/metrics/apiserver-0/UNIXSECONDS.txt.zst and the same for apiserver-1: pages of 3.7 MB, as large as the last of the
sample. From scrape to scrape every counter grows by a hundredth, buckets with their counts; gauges stay.
Prints how often apiserver_request_total rose in all, from the first page to the last.
"""
import argparse
import os
import pathlib
from concurrent.futures import ProcessPoolExecutor

import zstandard

SAMPLE = pathlib.Path(__file__).resolve().parent.parent / "samples" / "list-storm" / "metrics"
START = 1_800_000_000


def template(instance):
    """The last page's lines: (text, value), the value None where it stays."""
    last = sorted((SAMPLE / instance).iterdir())[-1]
    text = zstandard.ZstdDecompressor().stream_reader(last.read_bytes(), read_across_frames=True).read().decode()
    lines, counter = [], False
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            counter = line.split()[3] in ("counter", "histogram")
        head, _, value = line.rpartition(" ")
        lines.append((head + " ", int(float(value))) if counter and not line.startswith("#") and float(value) < 1e15 else (line, None))
    return lines


def write(job):
    folder, instance, numbers, every, start = job
    lines = template(instance)
    packer = zstandard.ZstdCompressor(level=3)
    for n in numbers:
        page = "".join(f"{text}{value + value * n // 100}\n" if value is not None else f"{text}\n" for text, value in lines)
        (folder / f"{start + n * every}.txt.zst").write_bytes(packer.compress(page.encode()))
    last = numbers[-1]
    return sum(value * last // 100 for text, value in lines if value is not None and text.startswith("apiserver_request_total{"))


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("dir", type=pathlib.Path)
    arguments.add_argument("--scrapes", type=int, default=500)
    arguments.add_argument("--every", type=int, default=15)
    arguments.add_argument("--start", type=int, default=START)
    args = arguments.parse_args()
    jobs, cores = [], os.cpu_count() or 1
    for instance in ("apiserver-0", "apiserver-1"):
        folder = args.dir / "metrics" / instance
        folder.mkdir(parents=True, exist_ok=True)
        for core in range(cores):
            jobs.append((folder, instance, range(core, args.scrapes, cores), args.every, args.start))
    with ProcessPoolExecutor() as pool:
        rises = list(pool.map(write, jobs))
    print(max(rises[:cores]) + max(rises[cores:]))


if __name__ == "__main__":
    main()
