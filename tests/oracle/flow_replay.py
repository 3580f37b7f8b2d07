#!/usr/bin/env python3
"""Serves the requests of a log a second time, for tests to compare with plimsoll clients --emit flowschema.

    flow_replay.py --seats N --objects FILE... [--fence FILE] --logs [CLUSTER:INSTANCE=]FILE...

--objects: FlowSchemas and PriorityLevelConfigurations as kubectl prints them; --fence: a JSON list of more. Written from KEP-1040
(API Priority and Fairness) and docs/flowcontrol.md, without a look at the Rust. Each level of each instance works on its own;
every request takes one seat. Prints {FlowSchema: {requests, queued, rejected, max_wait_ms}}.
"""
import argparse
import hashlib
import heapq
import json
import math
import re
import sys

sys.dont_write_bytecode = True
import flow  # noqa: E402
import traffic  # noqa: E402

GUESS = 0.003          # seconds that a request is taken to last before it is known
WAIT = 15_000_000      # µs that it may wait


def deal(number, queues, size):
    """A hand: like cards taken from a deck one by one, by the digits of the number."""
    deck, cards = list(range(queues)), []
    for left in range(queues, queues - size, -1):
        number, digit = divmod(number, left)
        cards.append(deck.pop(digit))
    return cards


class Level:
    def __init__(self, spec, seats):
        self.exempt = spec["type"] == "Exempt"
        queuing = {} if self.exempt else spec["limited"]["limitResponse"].get("queuing")
        self.rejects = not self.exempt and not queuing
        self.seats = seats
        self.size, self.length = (queuing or {}).get("handSize", 1), (queuing or {}).get("queueLengthLimit", 0)
        count = (queuing or {}).get("queues", 1)
        self.queues = [[] for _ in range(count)]       # waiting: (virtual arrival, number, arrival, lasts, schema)
        self.busy = [0] * count
        self.start = [0.0] * count                     # virtual time at which the next one is dispatched
        self.running, self.ends, self.limits = 0, [], []
        self.virtual, self.clock, self.last, self.dealt, self.count = 0.0, None, 0, 0, 0
        self.fates = {}

    def pass_time(self, at):
        active = sum(1 for q, b in zip(self.queues, self.busy) if q or b)
        if active and at > self.clock:
            wanted = self.running + sum(len(q) for q in self.queues)
            self.virtual += min(float(wanted), float(self.seats)) / active * ((at - self.clock) / 1_000_000)
        self.clock = at

    def bound(self, i):
        if self.queues[i]:
            self.start[i] = max(self.start[i], self.queues[i][0][0])

    def until(self, at):
        while True:
            end = self.ends[0][0] if self.ends else math.inf
            limit = self.limits[0][0] if self.limits else math.inf
            if min(end, limit) > at or min(end, limit) == math.inf:
                return
            if end <= limit:
                when, _, i, began = heapq.heappop(self.ends)
                self.pass_time(when)
                self.running -= 1
                self.busy[i] -= 1
                if not self.rejects:
                    self.start[i] -= GUESS - (when - began) / 1_000_000
                    self.bound(i)
                    self.dispatch()
            else:
                when, number, i = self.limits.pop(0)
                for one in self.queues[i]:
                    if one[1] == number:
                        self.pass_time(when)
                        self.queues[i].remove(one)
                        fate = self.fates[one[4]]
                        fate["rejected"] += 1
                        self.waited(fate, when - one[2])
                        self.bound(i)
                        break

    @staticmethod
    def waited(fate, wait):
        fate["queued"] += wait > 0
        fate["max_wait_ms"] = max(fate["max_wait_ms"], wait / 1000)

    def run(self, i, lasts):
        self.count += 1
        self.running += 1
        self.busy[i] += 1
        heapq.heappush(self.ends, (self.clock + lasts, self.count, i, self.clock))

    def dispatch(self):
        while self.running < self.seats and any(self.queues):
            best = None
            for step in range(1, len(self.queues) + 1):
                i = (self.last + step) % len(self.queues)
                if self.queues[i] and (best is None or self.start[i] + GUESS < self.start[best] + GUESS):
                    best = i
            self.last = best
            _, _, arrival, lasts, schema = self.queues[best].pop(0)
            self.start[best] += GUESS
            self.waited(self.fates[schema], self.clock - arrival)
            self.run(best, lasts)
            self.bound(best)

    def arrive(self, at, lasts, schema, flow_of):
        self.clock = at if self.clock is None else self.clock
        self.until(at)
        self.pass_time(at)
        fate = self.fates.setdefault(schema, {"requests": 0, "queued": 0, "rejected": 0, "max_wait_ms": 0.0})
        fate["requests"] += 1
        if self.exempt:
            return
        if self.rejects:
            if self.running + 1 <= self.seats or self.seats < 1 and self.running == 0:
                self.run(0, lasts)
            else:
                fate["rejected"] += 1
            return
        number = int.from_bytes(hashlib.sha256(schema.encode() + b"\0" + flow_of.encode()).digest()[:8], "little")
        hand = deal(number, len(self.queues), self.size)
        turn = self.dealt % len(hand)
        self.dealt += 1
        i = min(hand[turn:] + hand[:turn], key=lambda i: len(self.queues[i]))
        if self.running >= self.seats and len(self.queues[i]) >= self.length:
            fate["rejected"] += 1
            return
        self.count += 1
        if not self.queues[i] and not self.busy[i]:
            self.start[i] = self.virtual
        self.queues[i].append((self.virtual, self.count, at, lasts, schema))
        self.bound(i)
        self.limits.append((at + WAIT, self.count, i))
        self.dispatch()


def requests(files, schemas):
    """(instance, arrival, id, lasts or None, schema, flow)."""
    for name in files:
        label = re.fullmatch(r"([^:=/]*):([^:=/]*)=(.+)", name)
        for value, instance in traffic.read(label[3] if label else name):
            for event, _, own in traffic.unwrap(value, "", instance) if value is not None else ():
                ref = event.get("objectRef") or {}
                is_watch = event["verb"] == "watch"
                if event["stage"] != "ResponseStarted" if is_watch else event["stage"] not in ("ResponseComplete", "Panic"):
                    continue
                schema, level = flow.match(schemas, event)
                at, end = traffic.micros(event.get("requestReceivedTimestamp")), traffic.micros(event.get("stageTimestamp"))
                if not schema or at is None:
                    continue
                status = event.get("responseStatus") or {}
                lasts = max(0, end - at)
                wait = (event.get("annotations") or {}).get("apiserver.latency.k8s.io/apf-queue-wait")
                if wait and lasts >= 500_000:
                    units = {"h": 3600e6, "m": 60e6, "s": 1e6, "ms": 1e3, "µs": 1, "ns": 1e-3}
                    parts = re.findall(r"([0-9.]+)(h|ms|µs|ns|m|s)", wait)
                    lasts = max(0, lasts - round(sum(float(number) * units[unit] for number, unit in parts)))
                if status.get("code") == 429 and not status.get("reason"):
                    lasts = None
                method = (schema, level)
                user = (event.get("impersonatedUser") or event["user"])["username"]
                yield label[2] if label else own, at, event["auditID"].encode()[:8], lasts, method, user, ref, event


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--seats", type=int, required=True)
    arguments.add_argument("--objects", nargs="+", required=True)
    arguments.add_argument("--fence")
    arguments.add_argument("--logs", nargs="+", required=True)
    args = arguments.parse_args()
    items = []
    for name in args.objects:
        import zstandard
        items += json.loads(zstandard.ZstdDecompressor().decompressobj().decompress(open(name, "rb").read()))["items"]
    if args.fence:
        items += json.load(open(args.fence))
    schemas = sorted((i for i in items if i["kind"] == "FlowSchema"),
                     key=lambda s: (s["spec"]["matchingPrecedence"], s["metadata"]["name"]))
    specs = {i["metadata"]["name"]: i["spec"] for i in items if i["kind"] == "PriorityLevelConfiguration"}
    shares = {name: (spec.get("limited") or spec.get("exempt"))["nominalConcurrencyShares"] for name, spec in specs.items()}
    methods = {s["metadata"]["name"]: (s["spec"].get("distinguisherMethod") or {}).get("type") for s in schemas}

    every = sorted(requests(args.logs, schemas), key=lambda r: (r[0], r[1], r[2]))
    # What was refused took no time: the median of its like.
    known = {}
    for _, _, _, lasts, _, _, ref, event in every:
        if lasts is not None and (event.get("responseStatus") or {}).get("code") != 429:
            user = re.sub("^system:node:.*", "system:node:*", event["user"]["username"])
            known.setdefault((user, event["verb"], ref.get("apiGroup"), ref.get("resource")), []).append(lasts)
    levels = {}
    for instance, at, _, lasts, (schema, level), user, ref, event in every:
        if lasts is None:
            like = sorted(known.get((re.sub("^system:node:.*", "system:node:*", event["user"]["username"]), event["verb"],
                                     ref.get("apiGroup"), ref.get("resource")), [5000]))
            lasts = like[(len(like) + 1) // 2 - 1]
        key = (instance, level)
        if key not in levels:
            levels[key] = Level(specs[level], math.ceil(args.seats * shares[level] / sum(shares.values())))
        distinguisher = {"ByUser": user, "ByNamespace": ref.get("namespace", "")}.get(methods[schema], "")
        levels[key].arrive(at, lasts, schema, distinguisher)
    fates = {}
    for level in levels.values():
        level.until(2**62)
        for schema, fate in level.fates.items():
            all_of = fates.setdefault(schema, {"requests": 0, "queued": 0, "rejected": 0, "max_wait_ms": 0.0})
            for name in ("requests", "queued", "rejected"):
                all_of[name] += fate[name]
            all_of["max_wait_ms"] = max(all_of["max_wait_ms"], fate["max_wait_ms"])
    json.dump(fates, sys.stdout)


if __name__ == "__main__":
    main()
