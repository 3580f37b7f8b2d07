#!/usr/bin/env python3
"""Counts audit logs as `plimsoll serve` exports them, for tests to compare with what a scrape says.

    serve.py count [--version v1.36.0] FILE...        the series, as {"NAME{label=value,...}": number}
    serve.py prometheus PORT TARGET QUERY             what a real Prometheus answers that has scraped TARGET
    serve.py list FILE FIRST LAST                     lines FIRST to LAST of a log as the EventList that apiservers post

Written from docs/commands/serve.md and docs/rollup.md without a look at the Rust. FILEs are one log, in order.
"""
import argparse
import json
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections import Counter

sys.dont_write_bytecode = True
import clients  # noqa: E402

BOUNDS_US = [4 ** n for n in range(5, 14)]
OPS = {"get": "read", "list": "list", **{verb: "write" for verb in ("create", "update", "patch", "delete", "deletecollection")}}
LASTING = ("attach", "exec", "log", "portforward", "proxy")


def name(metric, **labels):
    return metric + "{" + ",".join(f"{key}={value}" for key, value in sorted(labels.items()) if value != "") + "}"


def count(paths, version):
    events, _ = clients.read_stream([("", "", path) for path in paths])
    series = Counter()
    for event in events:
        if not event.terminal:
            continue
        who = {"user": event.folded_user(), "agent": event.agent}
        what = {"group": event.group, "resource": event.resource}
        code = "" if event.code is None else event.code
        series[name("plimsoll_client_requests_total", **who, verb=event.verb, **what, code=code)] += 1
        if event.verb == "list" and event.resource:
            parameters = event.parameters()
            kind = ("paged-" if clients.is_page(parameters) else "full-") + clients.route(event, parameters, version)
            series[name("plimsoll_client_lists_total", **who, **what, list_kind=kind)] += 1
        if event.verb in OPS and event.resource and event.subresource not in LASTING:
            labels = {**who, "op": OPS[event.verb]}
            took = max(event.at - event.received, 0)
            metric = "plimsoll_client_request_duration_seconds"
            series[name(metric + "_count", **labels)] += 1
            series[name(metric + "_sum", **labels)] += took / 1e6
            series[name(metric + "_bucket", **labels, le="+Inf")] += 1
            for bound in BOUNDS_US:
                series[name(metric + "_bucket", **labels, le=bound / 1e6)] += took < bound
    for path in paths:
        for value, _ in clients.traffic.read(path):
            deprecated(value, series)
    for (_, user, agent), _, _, _, *what in relists(events):
        series[name("plimsoll_client_relists_total", user=user, agent=agent, group=what[0], resource=what[1])] += 1
    return series


def deprecated(raw, series):
    notes, event = raw.get("annotations") or {}, clients.Event(raw, "", "", clients.traffic.micros(raw["stageTimestamp"]))
    if event.stage != "ResponseComplete" or notes.get("k8s.io/deprecated") != "true":
        return
    version = (raw.get("objectRef") or {}).get("apiVersion", "")
    labels = {"user": event.folded_user(), "agent": event.agent, "group": event.group, "version": version, "resource": event.resource}
    series[name("plimsoll_client_deprecated_requests_total", **labels, removed_release=notes.get("k8s.io/removed-release", ""))] += 1


def relists(events):
    """As clients.relists, with group and resource; lists of one actor come one by one."""
    by_resource = {}
    for event in events:
        by_resource.setdefault((event.group, event.resource), []).append(event)
    for what, own in by_resource.items():
        for client, *rest in clients.relists(sorted(own, key=clients.Event.order)):
            yield (client, *rest, *what)


def ask(port, target, query):
    """Starts a Prometheus, waits until it has scraped, and asks."""
    with tempfile.TemporaryDirectory() as home:
        config = {"global": {"scrape_interval": "1s", "external_labels": {"cluster": "c"}},
                  "scrape_configs": [{"job_name": "plimsoll", "static_configs": [{"targets": [target]}]}]}
        with open(f"{home}/p.yml", "w") as file:
            json.dump(config, file)
        server = subprocess.Popen(
            ["prometheus", f"--config.file={home}/p.yml", f"--storage.tsdb.path={home}/data", f"--web.listen-address=127.0.0.1:{port}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": query})
            for _ in range(300):
                time.sleep(0.1)
                if server.poll() is not None:
                    raise SystemExit("prometheus ended: " + server.stderr.read().decode())
                try:
                    answer = json.load(urllib.request.urlopen(url, timeout=5))
                except OSError:
                    continue
                if answer["data"]["result"]:
                    return answer["data"]["result"]
            raise SystemExit("prometheus has no answer after 30 s")
        finally:
            server.terminate()
            server.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["count", "prometheus", "list"])
    parser.add_argument("--version", default="")
    parser.add_argument("words", nargs="+")
    args = parser.parse_args()
    if args.what == "count":
        print(json.dumps(count(args.words, clients.minor(args.version))))
    elif args.what == "prometheus":
        print(json.dumps(ask(*args.words)))
    else:
        with open(args.words[0]) as file:
            lines = file.read().splitlines()[int(args.words[1]):int(args.words[2])]
        items = [json.loads(line) for line in lines]
        print(json.dumps({"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "metadata": {}, "items": items}, indent=1))


main()
