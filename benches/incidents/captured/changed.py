#!/usr/bin/env python3
"""Scores a judge on captures that are changed as what users have differs from a complete capture.

    changed.py [--program plimsoll] [--only NAME,...] [--said] CAPTURE...

Each capture is given with one thing changed; what should be found stays the same, and it is scored as score.py does.
--said prints what was said wherever something was missed. Of quiet captures alone, parts of the log are taken out too
("hole"): that is no incident, and nobody is to blame.
"""
import argparse
import collections
import copy
import datetime
import json
import pathlib
import shutil
import subprocess
import tempfile
import zlib

import score

# What is taken out of logs, s.
HOLES = (15, 30, 60)
# How much of a baseline is left where a log begins late, s.
BASELINE = 60
SKEW = 4


def iso(at):
    return datetime.datetime.fromtimestamp(at, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def at(event):
    return score.seconds(event["stageTimestamp"])


def read(audit):
    """Apiserver and event of every line."""
    for log in sorted(audit.rglob("*.log")):
        yield from ((log.parent.name, json.loads(line)) for line in log.read_bytes().splitlines())


def write(rows, to):
    lines = collections.defaultdict(list)
    for instance, event in rows:
        lines[instance].append(json.dumps(event, separators=(",", ":")))
    for instance, own in lines.items():
        (to / instance).mkdir(parents=True)
        (to / instance / "audit.log").write_text("\n".join(own) + "\n")
    return to


def without_annotations(event):
    return {key: value for key, value in event.items() if key != "annotations"}


def later(event, by):
    return event | {key: iso(score.seconds(event[key]) + by) for key in ("stageTimestamp", "requestReceivedTimestamp")}


def of_logs(rows, truth):
    """Changes of audit logs: name, rows, truth."""
    counts = collections.Counter(instance for instance, _ in rows)
    most, least = max(counts, key=counts.get), min(counts, key=counts.get)
    episodes = truth.get("episodes", [])
    yield "as it is", rows, truth
    yield "two events of three", [own for own in rows if zlib.crc32(own[1]["auditID"].encode()) % 3], truth
    yield "no annotations", [(instance, without_annotations(event)) for instance, event in rows], truth
    yield "writes only", [own for own in rows if own[1]["verb"] in score.WRITES], truth
    yield "all logs in one file", [("all", event) for _, event in sorted(rows, key=lambda own: at(own[1]))], truth
    if most != least:
        yield "busiest log only", [own for own in rows if own[0] == most], truth
        yield "least busy log only", [own for own in rows if own[0] == least], truth
        yield f"clock {SKEW} s off", [(own, later(event, SKEW) if own == most else event) for own, event in rows], truth
    if episodes:
        begin, end = score.span(episodes[0])
        yield "begins a minute before", [own for own in rows if at(own[1]) >= begin - BASELINE], truth
        middle = max((begin + end) / 2, begin + 30)
        if len(episodes) == 1 and middle < end:
            ongoing = copy.deepcopy(truth)
            ongoing["episodes"][0]["to"] = iso(middle)
            yield "ends in the middle", [own for own in rows if at(own[1]) < middle], ongoing
    if truth.get("quiet") and not episodes:
        begin, end = score.span(truth)
        for length in HOLES:
            for place in (40, (end - begin) / 2 - length, end - begin - 80 - length):
                hole = (begin + place, begin + place + length)
                for which in [None, *counts]:
                    rest = [own for own in rows if which not in (None, own[0]) or not hole[0] <= at(own[1]) < hole[1]]
                    yield "hole in all logs" if which is None else "hole in one log", rest, truth


def of_pages(metrics, home):
    """Changes of metrics pages: name, folder."""
    yield "pages as they are", metrics
    third = shutil.copytree(metrics, home / "third")
    for instance in third.iterdir():
        for number, page in enumerate(sorted(instance.iterdir())):
            if number % 3:
                page.unlink()
    yield "every third page", third
    yield "no pages of etcd", shutil.copytree(metrics, home / "no-etcd", ignore=shutil.ignore_patterns("etcd*"))


class Sum:
    """What came of one change, over all captures."""

    def __init__(self):
        self.cases = self.episodes = self.found = self.right = self.false = self.blamed = 0

    def add(self, truth, found, form):
        wanted, taken = truth.get("episodes", []), []
        for own in wanted:
            match = next((other for other in found if score.is_found(own, other)), None)
            taken.append(match)
            first = match["causes"][0] if match and match["causes"] else None
            self.found += match is not None
            self.right += first is not None and score.is_right(own, first, form)
        other = [own for own in found if own not in taken]
        self.cases += 1
        self.episodes += len(wanted)
        self.false += sum(own["grade"] in score.GRAVE for own in other)
        self.blamed += sum(own["grade"] == "degraded" and bool(own["causes"]) for own in other if not wanted)

    def row(self):
        return (self.cases, self.episodes, self.found, self.right, self.false, self.blamed)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="plimsoll")
    parser.add_argument("--only", type=lambda text: set(text.split(",")))
    parser.add_argument("--said", action="store_true")
    parser.add_argument("captures", nargs="+", type=pathlib.Path)
    args = parser.parse_args()
    sums = collections.defaultdict(Sum)

    def take(capture, name, source, truth, form):
        found = score.judge(args.program, source)["episodes"]
        before = sums[name].row()
        sums[name].add(truth, found, form)
        new = [now - was for now, was in zip(sums[name].row(), before)]
        if args.said and (min(new[2:4]) < new[1] or new[4] or new[5]):
            said = "; ".join(own["headline"] for own in found) or "nothing"
            print(f"{capture} | {name} | {said}", flush=True)

    for capture in args.captures:
        with tempfile.TemporaryDirectory() as folder:
            home = pathlib.Path(folder)
            subprocess.run(["tar", "--zstd", "-xf", capture, "-C", home], check=True)
            bundle = next(path.parent for path in home.rglob("truth.json"))
            truth = json.loads((bundle / "truth.json").read_text())
            for number, (name, rows, own) in enumerate(of_logs(list(read(bundle / "audit")), truth)):
                if not args.only or name in args.only:
                    take(truth["name"], name, write(rows, home / str(number)), own, "audit")
            for name, pages in of_pages(bundle / "metrics", home):
                if not args.only or name in args.only:
                    take(truth["name"], name, pages, truth, "metrics")
    print("| changed | cases | episodes | found | first cause right | false incidents or outages | blamed for nothing |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for name, own in sums.items():
        print(f"| {name} | " + " | ".join(map(str, own.row())) + " |")


if __name__ == "__main__":
    main()
