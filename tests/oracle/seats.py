#!/usr/bin/env python3
"""Who holds seats, counted a second time from a page dump_requests, written from Go's tabwriter and the apiserver's source.

    seats.py PAGE        prints {"rows": {"LEVEL|SCHEMA|USER": {...}}, "levels": {...}, "at": ...}

Columns are cut at runs that end in a comma where every line of the page has a blank before the next cell: the width of a column is
that of its longest cell plus one blank, at least 8, so the widths can be had from the heading line alone.
"""
import datetime
import json
import sys


def cells(line, starts):
    ends = starts[1:] + [None]
    found = [line[a:b].rstrip(" ") for a, b in zip(starts, ends)]
    for cell in found[:-1]:
        assert cell.endswith(","), (line, found)
    return [cell[:-1] for cell in found[:-1]] + found[-1:]


def micros(text):
    """RFC 3339 with up to nine digits; cut, not rounded, below a microsecond."""
    day, clock = text.rstrip("Z").split("T")
    clock, _, fraction = clock.partition(".")
    whole = datetime.datetime.fromisoformat(f"{day}T{clock}+00:00")
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    return (whole - epoch) // datetime.timedelta(microseconds=1) + int((fraction + "000000")[:6])


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        lines = f.read().split("\n")
    heading = lines[0]
    names = [name.strip() for name in heading.split(",")]
    starts, at = [], 0
    for name in names:
        at = heading.index(name, at)
        starts.append(at)
        at += len(name)
    requests = [dict(zip(names, cells(line, starts))) for line in lines[1:] if line]
    now = max(max(micros(r["ArriveTime"]), micros(r["StartTime"])) for r in requests)
    rows, levels = {}, {}
    for r in requests:
        user = r.get("UserName", r["FlowDistingsher"])
        row = rows.setdefault("|".join([r["PriorityLevelName"], r["FlowSchemaName"], user]), {
            "executing": 0, "queued": 0, "seats_executing": 0, "seats_queued": 0, "oldest_wait_ms": None, "longest_run_ms": None})
        level = levels.setdefault(r["PriorityLevelName"], {"executing": 0, "queued": 0, "seats": 0, "seats_queued": 0})
        seats = max(int(r["InitialSeats"]), int(r["FinalSeats"]))
        executes = r["RequestIndexInQueue"] == "-1"
        assert executes == (not r["StartTime"].startswith("0001-")), r
        kind, held, since, field = (("executing", "seats_executing", r["StartTime"], "longest_run_ms") if executes
                                    else ("queued", "seats_queued", r["ArriveTime"], "oldest_wait_ms"))
        row[kind] += 1
        row[held] += seats
        row[field] = max(row[field] or 0, (now - micros(since)) / 1000)
        level[kind] += 1
        level["seats" if executes else "seats_queued"] += seats
    print(json.dumps({"rows": rows, "levels": levels, "at": now}, ensure_ascii=False))


if __name__ == "__main__":
    main()
