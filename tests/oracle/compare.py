#!/usr/bin/env python3
"""What plimsoll compare should say, by other means: roll-ups by docs/rollup.sql in DuckDB, and the bounds of docs/commands/compare.md by scipy.

    compare.py rows BEFORE_DIR FROM TO AFTER_DIR FROM TO     rows of two roll-ups (folders written by rollup.py; times in microseconds), as JSON
    compare.py cut FROM TO OUT LOG...                        the lines of logs whose stageTimestamp lies in [FROM, TO) (RFC 3339), as one log
    compare.py steady SEED SECONDS OUT                       a log on which nothing changes: clients at random, by the clock, in bursts
    compare.py more LOG AGENT SHARE FROM OUT                 further requests of an agent from a time (RFC 3339) on: so many more of its own, moved a little
"""

import csv
import datetime
import json
import math
import os
import random
import sys
from collections import defaultdict

import numpy as np
from scipy import stats

from rollup import read_lines

PARTS = 8
csv.field_size_limit(1 << 28)


# ---------------------------------------------------------------- bounds

class Sums:
    def __init__(self, cells):
        exposure = np.array([cell[0] for cell in cells], float)
        amount = np.array([cell[1] for cell in cells], float)
        n = len(cells)
        b = max(1, int(math.floor(n / 5 + 0.5)))
        self.seconds, self.sum, self.most = exposure.sum(), amount.sum(), amount.max()
        rate = self.sum / self.seconds
        of = lambda values: np.convolve(values, np.ones(b), "valid")
        deviation = of(amount) - rate * of(exposure)
        self.variance = n * n / (b * (n - b) * (n - b + 1)) * (deviation ** 2).sum() if n > b else math.inf
        self.degrees = max(1.0, 1.5 * (n / b - 1)) if b > 1 else max(1.0, n - 1)

    def dispersion(self):
        if self.sum == 0:
            return None
        least = 1.0 if self.sum < 30 else 0.1
        return (max(self.variance, self.sum * least) + self.most ** 2 / 6) / self.sum


def welch(va, da, vb, db):
    return (va + vb) ** 2 / (va * va / da + vb * vb / db)


def of_counts(before, after, alpha):
    a, b = Sums(before), Sums(after)
    if len(before) < 4 or len(after) < 4 or a.sum + b.sum < 10:
        return None
    plain = bounds_of(a, b, alpha)
    if (a.sum > 0) == (b.sum > 0) or not (plain[0] <= 1 and (plain[1] is None or plain[1] >= 1)):
        return plain
    # Nothing on one side: how much the other wanders shows between its first and its last event.
    busy = before if a.sum > 0 else after
    filled = [n for n, (_, count) in enumerate(busy) if count > 0]
    stretch = busy[filled[0]:filled[-1] + 1]
    if len(stretch) < 4 or len(stretch) < len(busy) / 5:
        return plain
    within = Sums(stretch)
    for side in (a, b):
        side.variance, side.degrees, side.most = within.variance, within.degrees, within.most
    bounds = bounds_of(a, b, alpha)
    return plain if bounds[0] <= 1 and (bounds[1] is None or bounds[1] >= 1) else bounds


def bounds_of(a, b, alpha):
    each = max(side.dispersion() or 0.0 for side in (a, b))
    degrees = [side.degrees if side.sum else other.degrees for side, other in ((a, b), (b, a))]
    wide = [1 / max(1.0, side.sum / each) for side in (a, b)]
    wider = (stats.t.isf(alpha / 2, welch(wide[0], degrees[0], wide[1], degrees[1])) / stats.norm.isf(alpha / 2)) ** 2
    (ka, wa), (kb, wb) = [(side.sum / (each * wider), side.seconds / (each * wider)) for side in (a, b)]
    low = stats.beta.ppf(alpha / 2, kb, ka + 1) if kb > 0 else 0.0
    high = stats.beta.ppf(1 - alpha / 2, kb + 1, ka) if ka > 0 else 1.0
    ratio = lambda share: share / (1 - share) * wa / wb if share < 1 else None
    return ratio(low), ratio(high)


def of_quantiles(before, after, alpha):
    (a, of_a, near_a), (b, of_b, near_b) = before, after
    if len(of_a) < 4 or len(of_b) < 4 or a <= 0 or b <= 0:
        return None
    wide = lambda all, parts: sum(math.log(part / all) ** 2 for part in parts) / (len(parts) * (len(parts) - 1)) + (1 / 16) ** 2 / 12
    def by_rank(value, near):
        deviations = min(6, max(1, math.ceil(stats.norm.isf(alpha / 2))))
        low, high = near(deviations)
        return (max(math.log(value / low), math.log(high / value)) / deviations) ** 2
    va, vb = max(wide(a, of_a), by_rank(a, near_a)), max(wide(b, of_b), by_rank(b, near_b))
    width = stats.t.isf(alpha / 2, welch(va, len(of_a) - 1, vb, len(of_b) - 1)) * math.sqrt(va + vb)
    return b / a * math.exp(-width), b / a * math.exp(width)


# ---------------------------------------------------------------- roll-ups

def midpoint(bucket):
    if bucket < 16:
        return float(bucket)
    width = 1 << (bucket // 16 - 1)
    return (16 + bucket % 16) * width + (width - 1) / 2


def quantile(histogram, most, q):
    rank, seen = max(1, math.ceil(q * sum(histogram.values()))), 0
    for bucket in sorted(histogram):
        seen += histogram[bucket]
        if seen >= rank:
            return min(midpoint(bucket), most)
    return None


class Requests:
    def __init__(self, pieces):
        self.counts = np.zeros((4, pieces))
        self.latency, self.most = defaultdict(int), 0
        self.parts = [(defaultdict(int), [0]) for _ in range(PARTS)]


def load(folder, start, end, length):
    """Requests by subject: counts by piece of time, latencies by part of the time."""
    micros = length * 1_000_000
    first = start // micros
    pieces = (end - 1) // micros - first + 1
    seconds = [min((first + n + 1) * micros, end) - max((first + n) * micros, start) for n in range(pieces)]
    found = defaultdict(lambda: Requests(pieces))
    with open(os.path.join(folder, "traffic.csv"), newline="") as f:
        for row in csv.DictReader(f):
            piece = min(max(int(row["tile"]) // length - first, 0), pieces - 1)
            code = int(row["code"] or 200)
            kinds = [True, code == 0 or code >= 500, 400 <= code < 500 and code != 429, code == 429]
            asked = ("requests", *[(field, row[field]) for field in ("cluster", "verb", "group", "resource", "subresource") if row[field]])
            client = ("clients", *[(field, row[field]) for field in ("cluster", "user", "agent") if row[field]])
            for key in (("total",), client, asked):
                one = found[key]
                for kind, is_of in enumerate(kinds):
                    one.counts[kind][piece] += int(row["requests"]) if is_of else 0
                part, most = one.parts[piece * PARTS // pieces]
                for pair in filter(None, row["latency"].split(";")):
                    bucket, count = map(int, pair.split(":"))
                    one.latency[bucket] += count
                    part[bucket] += count
                one.most = max(one.most, int(row["latency_max"]))
                most[0] = max(most[0], int(row["latency_max"]))
    return found, [second / 1e6 for second in seconds]


def rows(before, after):
    tile = max(tile_of(side) for side in (before, after))
    longest = max((int(side[2]) - int(side[1])) // 1_000_000 for side in (before, after))
    length = tile * max(1, longest // (tile * 400))
    (old, long_old), (new, long_new) = [load(side[0], int(side[1]), int(side[2]), length) for side in (before, after)]
    all_rows = []
    for key in sorted(old.keys() | new.keys()):
        area, subject = key[0], dict(key[1:])
        a, b = old.get(key), new.get(key)
        for kind, metric in enumerate(("rps", "errors_per_s", "client_errors_per_s", "throttled_per_s")):
            sides = [list(zip(long, one.counts[kind] if one else np.zeros(len(long)))) for one, long in ((a, long_old), (b, long_new))]
            if area == "total" or any(sum(count for _, count in side) for side in sides):
                rates = [sum(count for _, count in side) / sum(long for long, _ in side) for side in sides]
                all_rows.append([area, subject, metric, *rates, lambda alpha, sides=sides: of_counts(*sides, alpha)])
        for metric, q in (("p50_ms", 0.5), ("p99_ms", 0.99)) if area != "clients" and a and b and a.latency and b.latency else ():
            sides = []
            for one in (a, b):
                parts = [quantile(part, most[0], q) / 1e3 for part, most in one.parts if sum(part.values()) * (1 - q) >= 3 - 1e-12]
                deviation = math.sqrt(q * (1 - q) / sum(one.latency.values()))
                near = lambda n, one=one, q=q, far=deviation: [
                    quantile(one.latency, one.most, min(1, max(0, q + sign * n * far))) / 1e3 for sign in (-1, 1)]
                sides.append((quantile(one.latency, one.most, q) / 1e3, parts, near))
            bound = lambda alpha, sides=sides: of_quantiles(*sides, alpha)
            all_rows.append(["latency" if area == "requests" else area, subject, metric, sides[0][0], sides[1][0], bound])
    tests = sum(row[5](0.5) is not None for row in all_rows)
    alpha = 0.05 / max(1, tests)
    for row in all_rows:
        row[5] = row[5](alpha)
    return all_rows


def tile_of(side):
    hours = (int(side[2]) - int(side[1])) / 3.6e9
    return 10 if hours <= 6 else 60 if hours <= 48 else 600


# ---------------------------------------------------------------- logs

def cut(start, end, out, *logs):
    with open(out, "w") as f:
        for log in logs:
            for line in read_lines(log):
                if start <= json.loads(line)["stageTimestamp"][:26] < end:
                    f.write(line + "\n")


def stamp(at):
    return datetime.datetime.fromtimestamp(at, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def steady(seed, length, out):
    r, events = random.Random(int(seed)), []
    length = float(length)

    def add(at, user, agent, verb, resource, code=200, took=0.01):
        events.append((at, user, agent, verb, resource, code, took))

    for number, rate in enumerate((0.05, 0.3, 1, 2, 5, 8)):
        at = r.expovariate(rate)
        while at < length:
            code = 500 if (x := r.random()) < 0.01 else 404 if x < 0.05 else 200
            add(at, f"system:serviceaccount:a:p{number}", f"random-{number}", "get", "pods", code, r.lognormvariate(0, 0.8) * 0.01)
            at += r.expovariate(rate)
    regular = [(f"system:serviceaccount:b:c{n}", f"clock-{n}", period, 1 + n) for n, period in enumerate((1, 2, 5, 10, 30, 60))]
    for user, agent, period, count in [*regular, ("system:node:n1", "kubelet", 10, 40), ("system:kube-scheduler", "kube-scheduler", 2, 3)]:
        for _ in range(count):
            at = r.uniform(0, period)
            while at < length:
                add(at + r.uniform(0, 0.05), user, agent, "update", "leases", 200, r.lognormvariate(0, 0.5) * 0.005)
                at += period
    for number, (every, size) in enumerate(((60, 20), (200, 50), (600, 100))):
        at = r.uniform(0, every)
        while at < length:
            for _ in range(r.randint(size // 2, size * 3 // 2)):
                add(at + r.expovariate(1), f"system:serviceaccount:c:b{number}", f"burst-{number}", "patch", "deployments", 200, 0.02)
            at += r.expovariate(1 / every)
    write(events, out)


def write(events, out):
    with open(out, "w") as f:
        for number, (at, user, agent, verb, resource, code, took) in enumerate(sorted(events)):
            event = {
                "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": f"{number:032x}", "stage": "ResponseComplete",
                "requestURI": f"/api/v1/{resource}", "verb": verb, "user": {"username": user, "groups": ["system:authenticated"]},
                "sourceIPs": ["10.0.0.1"], "userAgent": f"{agent}/v1", "objectRef": {"resource": resource, "apiVersion": "v1"},
                "responseStatus": {"metadata": {}, "code": code},
                "requestReceivedTimestamp": stamp(1795166280 + at - took), "stageTimestamp": stamp(1795166280 + at),
            }
            f.write(json.dumps(event, separators=(",", ":")) + "\n")


def more(log, agent, share, start, out):
    r = random.Random(agent + start)
    with open(out, "w") as f:
        for line in read_lines(log):
            event = json.loads(line)
            if event["userAgent"].startswith(agent + "/") and event["stageTimestamp"] >= start and r.random() < float(share):
                move = datetime.timedelta(seconds=r.uniform(-1, 1))
                for field in ("requestReceivedTimestamp", "stageTimestamp"):
                    at = datetime.datetime.fromisoformat(event[field].replace("Z", "+00:00")) + move
                    event[field] = max(at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), start)
                event["auditID"] = f"{r.getrandbits(128):032x}"
                f.write(json.dumps(event, separators=(",", ":")) + "\n")


def main():
    command, *arguments = sys.argv[1:]
    if command == "rows":
        json.dump(rows(arguments[:3], arguments[3:]), sys.stdout)
    else:
        {"cut": cut, "steady": steady, "more": more}[command](*arguments)


main()
