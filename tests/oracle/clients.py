#!/usr/bin/env python3
"""Counts the clients of audit logs a second time, for tests to compare with `plimsoll clients`.

    clients.py [--version v1.36.0] CLUSTER:INSTANCE=FILE...

Written from docs/rollup.md (sections 1, 2 and of 4 `sequences`, `sources`, `clients`) without a look at the Rust, and
without histograms: medians are exact, by nearest rank. FILE as in traffic.py; files of one instance are one stream,
read in the order of their first events. --version is the apiservers' version; without it most LISTs are `unsure`.
Prints {"rows": [...], "window_seconds": n, "requests": n, "lost": n}; a row has further lists to judge thresholds by:
`lifetimes_us` and `retry_429_us`, sorted.
"""
import argparse
import hashlib
import json
import re
import sys
from collections import Counter, defaultdict
from urllib.parse import parse_qsl

sys.dont_write_bytecode = True
import traffic  # noqa: E402

LATE = 5_000_000        # µs behind the stream's largest `at`
FAILED_END = 120_000_000
LONGEST_GAP = 120_000_000


class Event:
    """One terminal or started event, with the fields of docs/rollup.md."""

    def __init__(self, event, cluster, instance, at):
        ref = event.get("objectRef") or {}
        user = event.get("user") or {}
        self.cluster, self.instance, self.at = cluster, instance, at
        self.given = traffic.micros(event.get("requestReceivedTimestamp"))
        self.received = at if self.given is None else self.given
        self.stage, self.audit_id = event["stage"], event.get("auditID") or ""
        self.verb, self.uri = event.get("verb") or "", event.get("requestURI") or ""
        self.group, self.resource = ref.get("apiGroup") or "", ref.get("resource") or ""
        self.name, self.namespace = ref.get("name") or "", ref.get("namespace") or ""
        self.subresource = ref.get("subresource") or ""
        self.code = (event.get("responseStatus") or {}).get("code")
        self.user = user.get("username") or ""
        agent = event.get("userAgent") or ""
        self.agent = re.match("[^/ ]*", agent)[0]
        rest = agent[len(self.agent):]
        self.version = rest[1:].split(" ")[0] if rest.startswith("/") else ""
        self.source = (event.get("sourceIPs") or [""])[-1]
        extra = user.get("extra") or {}
        self.node = (extra.get("authentication.kubernetes.io/node-name") or [""])[0]
        self.pod = (extra.get("authentication.kubernetes.io/pod-name") or [""])[0]
        if self.user.startswith("system:node:"):
            self.node = self.user.removeprefix("system:node:")
        self.long_running = traffic.is_long_running(event, ref)
        self.terminal = self.stage != "ResponseStarted"
        self.scope = traffic.scope_of(event, ref)
        self.late = False

    def folded_user(self):
        return "system:node:*" if self.user.startswith("system:node:") else self.user

    def client(self):
        return traffic.cut(self.cluster), traffic.cut(self.folded_user()), traffic.cut(self.agent)

    def actor(self):
        return self.cluster, self.user, self.agent, self.source

    def identity(self):
        return self.cluster, self.instance, self.audit_id, self.uri, self.given

    def order(self):
        return self.at, self.received, self.audit_id.encode()[:16], self.terminal

    def parameters(self):
        """Query parameters, decoded; of a repeated one the first."""
        pairs = parse_qsl(self.uri.partition("?")[2], keep_blank_values=True)
        return dict(reversed(pairs))

    def kind(self):
        """1 or 2 as in docs/rollup.md; a started event of a long-running request is 0: perhaps of kind 3."""
        return 1 if self.terminal else 0 if self.long_running else 2


def boolean(text):
    return text is not None and text.lower() not in ("0", "false")


def read_stream(files):
    """The counted events of each file, files in the order of their first events; and the number of lost lines."""
    logs, lost = [], 0
    for cluster, instance, path in files:
        events = []
        for value, _ in traffic.read(path):
            for event, _, _ in [(None, 0, 0)] if value is None else traffic.unwrap(value):
                at = traffic.micros(event.get("stageTimestamp")) if event else None
                if at is None:
                    lost += 1
                elif event["stage"] in ("ResponseStarted", "ResponseComplete", "Panic"):
                    events.append(Event(event, cluster, instance, at))
        logs.append(events)
    logs.sort(key=lambda events: events[0].at if events else 0)
    events = [event for log in logs for event in log]
    newest = 0
    for event in events:
        event.late = event.at < newest - LATE
        newest = max(newest, event.at)
    return events, lost


def read_all(names):
    """Events of all streams; which of them are requests (with `open` set); lost lines."""
    streams = defaultdict(list)
    for name in names:
        match = re.fullmatch(r"([^:=/]*):([^:=/]*)=(.+)", name)
        if not match:
            sys.exit(f"clients.py: {name}: expected CLUSTER:INSTANCE=FILE")
        streams[match[1], match[2]].append(match.groups())
    events, lost = [], 0
    for files in streams.values():
        some, missing = read_stream(files)
        events += some
        lost += missing
    ends = defaultdict(list)
    for event in events:
        if event.terminal and event.long_running:
            ends[event.identity()].append(event.at)
    requests = []
    for event in events:
        if event.kind() == 0:
            failed = event.code is not None and event.code >= 400
            after = [end - event.at for end in ends[event.identity()] if end >= event.at]
            if any(not failed or gap <= FAILED_END for gap in after):
                continue
        requests.append(event)
    return events, requests, lost


def minor(version):
    match = re.match(r"v?1\.(\d+)", version or "")
    return int(match[1]) if match else None


def is_page(parameters):
    limit = parameters.get("limit", "")
    return bool(parameters.get("continue")) or (re.fullmatch(r"\+?\d+", limit) is not None and int(limit) > 0)


def route(event, parameters, server):
    """Who answers a LIST: cache, etcd, or unsure. server: the apiserver's minor version or None."""
    if event.resource == "events" and event.group in ("", "events.k8s.io"):
        return "etcd"  # has no watch cache
    version, match = parameters.get("resourceVersion", ""), parameters.get("resourceVersionMatch", "")
    snapshot = "etcd" if server is not None and server <= 33 else "unsure"  # from 1.34 the cache may hold a snapshot
    if parameters.get("continue") or match == "Exact":
        return snapshot
    if version == "0":
        return "cache"
    if version == "":
        if server is None:
            return "unsure"
        return "etcd" if server <= 30 else "cache" if server >= 34 else "unsure"  # between: depends on etcd's version
    if not is_page(parameters):
        return "cache"
    return "cache" if match == "NotOlderThan" and server is not None and server >= 36 else snapshot


def retries(events, failed):
    """(client, gap in µs) wherever a request follows one of the same actor, verb and URI that failed."""
    last = {}
    for event in events:
        if event.kind() == 0 or event.late:
            continue
        key = (event.actor(), event.verb, event.uri)
        before = last.get(key)
        if before is not None and failed(before.code) and 0 <= event.received - before.at <= LONGEST_GAP:
            yield event.client(), event.received - before.at
        last[key] = event


def relists(events):
    """(client, gap in µs, lifetime of the watch in µs, its resourceVersion) of every list just after a watch's end."""
    last = {}
    for event in events:
        if event.late:
            continue
        parameters = event.parameters()
        end = event.terminal and event.verb == "watch"
        again = (event.terminal and event.verb == "list" and not parameters.get("continue")
                 or not event.terminal and event.verb == "watch" and boolean(parameters.get("sendInitialEvents")))
        if not (end or again):
            continue
        key = (event.actor(), event.group, event.resource)
        before = last.get(key)
        if again and before is not None and 0 <= event.received - before.at <= LONGEST_GAP:
            yield (event.client(), event.received - before.at, before.at - before.received,
                   before.parameters().get("resourceVersion", ""))
        last[key] = event if end else None


def median(values):
    """By nearest rank."""
    return sorted(values)[(len(values) + 1) // 2 - 1] if values else None


def kept(values):
    """Sets keep the 64 members whose md5 is smallest."""
    return sorted(sorted(values - {""}, key=lambda v: hashlib.md5(v.encode()).digest())[:64])


def peak(times):
    """The most requests received in 10 consecutive whole seconds. Some such window starts at a second with requests."""
    seconds = Counter(t // 1_000_000 for t in times)
    return max((sum(seconds[s + i] for i in range(10)) for s in list(seconds)), default=0)


def uneven(seen, requests):
    """Of five nodes or more: those with 100 requests and three times as many as the one in the middle."""
    counts = Counter({node: 0 for node in {e.node for e in seen} - {""}})
    counts.update(r.node for r in requests if r.node and r.kind())
    if len(counts) < 5:
        return {}
    middle = sorted(counts.values(), reverse=True)[len(counts) // 2]
    most = sorted(counts.items(), key=lambda node: (-node[1], node[0]))[:16]
    return {node: n for node, n in most if n >= 100 and n >= 3 * middle}


def row(client, seen, requests, total, window, gaps, relisted, server):
    """seen: the client's terminal and started events; requests: those that are requests."""
    lists, errors = dict.fromkeys(["full", "paged", "cache", "etcd", "unsure"], 0), Counter()
    watches = [r for r in requests if r.verb == "watch"]
    for request in requests:
        if request.verb == "list" and request.resource:
            parameters = request.parameters()
            lists["paged" if is_page(parameters) else "full"] += 1
            lists[route(request, parameters, server)] += 1
        if request.code is not None and (request.code == 0 or request.code >= 400) and request.code != 429:
            errors[str(request.code)] += 1
    lifetimes = sorted(max(0, w.at - w.given) for w in watches if w.terminal and w.given is not None)
    account = client[1].split(":")
    lived, gap = median(lifetimes), median(gaps)
    return {
        "client": dict(zip(("cluster", "user", "agent"), client)),
        "service_account": ":".join(account[2:]) if account[:2] == ["system", "serviceaccount"] and len(account) == 4 else "",
        "versions": kept({e.version for e in seen}), "instances": kept({e.instance for e in seen}),
        "nodes": len({e.node for e in seen} - {""}), "pods": kept({e.pod for e in seen}), "uneven_nodes": uneven(seen, requests),
        "source_ips": len({r.source for r in requests if r.kind()} - {""}),
        "requests": len(requests), "rps": len(requests) / window, "share": len(requests) / total,
        "peak_rps": peak(r.received for r in requests) / 10,
        "verbs": dict(sorted(Counter(r.verb for r in requests).items())), "lists": lists,
        "watches": {"opened": len(watches), "bookmarks": sum(boolean(w.parameters().get("allowWatchBookmarks")) for w in watches),
                    "median_s": None if lived is None else lived / 1e6},
        "relists": relisted, "errors": dict(sorted(errors.items())),
        "throttled": sum(r.code == 429 for r in requests),
        "retry_after_429_ms_p50": None if gap is None else gap / 1e3,
        "lifetimes_us": lifetimes, "retry_429_us": sorted(gaps),
    }


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--version", metavar="v1.N.P")
    arguments.add_argument("files", nargs="+", metavar="CLUSTER:INSTANCE=FILE")
    args = arguments.parse_args()
    events, requests, lost = read_all(args.files)
    seen, made, gaps, relisted = defaultdict(list), defaultdict(list), defaultdict(list), Counter()
    for event in events:
        seen[event.client()].append(event)
    for request in requests:
        made[request.client()].append(request)
    in_order = sorted(events, key=Event.order)
    for client, gap in retries(in_order, lambda code: code == 429):
        gaps[client].append(gap)
    for client, *_ in relists(in_order):
        relisted[client] += 1
    times = [event.at for event in events]
    window = max(1.0, (max(times) - min(times)) / 1e6) if times else 1.0
    rows = [row(client, seen[client], made[client], len(requests), window, gaps[client], relisted[client], minor(args.version))
            for client in sorted(made)]
    json.dump({"rows": rows, "window_seconds": window, "requests": len(requests), "lost": lost}, sys.stdout)
    print()


if __name__ == "__main__":
    main()
