#!/usr/bin/env python3
"""Counts audit logs as `plimsoll serve` exports them, for tests to compare with what a scrape says.

    serve.py count [--version v1.36.0] FILE...        the series, as {"NAME{label=value,...}": number}
    serve.py now PAGE DUMP OBJECTS NODES              series of what two apiservers with this page and this dump show now
    serve.py prometheus PORT TARGET QUERY [FEATURE...] what a real Prometheus answers that has scraped TARGET
    serve.py list FILE FIRST LAST                     lines FIRST to LAST of a log as the EventList that apiservers post

Written from docs/commands/serve.md and docs/rollup.md without a look at the Rust. FILEs are one log, in order.
"""
import argparse
import json
import re
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


def count(paths, version, stored):
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
            if event.code is None or event.code < 400:
                size = estimate(event, parameters, stored)
                metric, value = ("lists_not_estimated", 1) if size is None else ("list_bytes_estimated", size)
                series[name(f"plimsoll_client_{metric}_total", **who, **what)] += value
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


def estimate(event, parameters, stored):
    """Bytes of JSON that a LIST returned, by what apiservers say of objects in etcd (docs/commands/clients.md, LIST cost); None: not shown."""
    if clients.is_page(parameters) or parameters.get("labelSelector") or event.scope != "cluster":
        return None
    fields = parameters.get("fieldSelector", "")
    if (event.group, event.resource) not in stored or fields and "spec.nodeName=" not in fields:
        return None
    objects, size = stored[event.group, event.resource]
    if size < 0 or not size and objects:
        return None
    each = size / max(objects, 1)
    if (event.group, event.resource) == ("", "configmaps"):
        json_size = 1.05 * each + 150
    elif (event.group, event.resource) == ("", "secrets"):
        json_size = each + 180 + max(each - 600, 0) / 3
    elif (event.group, event.resource) == ("", "serviceaccounts"):
        json_size = 1.3 * each + 20
    elif event.resource in ("rolebindings", "clusterrolebindings"):
        json_size = 1.3 * each + 20
    elif event.resource == "events":
        json_size = 1.24 * each + 264
    elif event.resource == "customresourcedefinitions":
        json_size = each - 89
    elif event.resource == "apiservices":
        json_size = each - 33
    elif "." in event.group and not event.group.endswith(".k8s.io"):
        json_size = each + 27
    else:
        json_size = 1.36 * each + 50
    total = round(max(json_size, 0) * objects)
    return total // stored["", "nodes"][0] if fields else total


def samples(page):
    """Name, labels, value of each line of a metrics page."""
    with open(page, "rb") as file:
        text = file.read()
    if page.endswith(".zst"):
        text = subprocess.run(["zstd", "-dcq"], input=text, stdout=subprocess.PIPE, check=True).stdout
    for line in text.decode().splitlines():
        match = re.fullmatch(r'(\w+)\{(.*)\} (\S+)', line)
        if match:
            yield match[1], dict(re.findall(r'(\w+)="([^"]*)"', match[2])), float(match[3])


def stored_by(page):
    """Objects and their bytes by group and resource; -1 where an apiserver does not know."""
    names = {"apiserver_resource_objects": 0, "apiserver_resource_size_estimate_bytes": 1}
    stored = {}
    for metric, labels, value in samples(page):
        if metric in names:
            stored.setdefault((labels.get("group", ""), labels["resource"]), [0, 0])[names[metric]] = value
    return stored


def quantity(text):
    for suffix, factor in {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9}.items():
        if text.endswith(suffix):
            return float(text[:-len(suffix)]) * factor
    return float(text)


def now(page, dump, objects, servers):
    series = {}
    for (group, resource), (count, size) in stored_by(page).items():
        series[name("plimsoll_storage_keys", group=group, resource=resource)] = count
        if size >= 0:
            series[name("plimsoll_storage_bytes", group=group, resource=resource)] = size
    text = subprocess.run(["zstd", "-dcq", objects], stdout=subprocess.PIPE, check=True).stdout
    for quota in json.loads(text)["items"]:
        for resource, hard in quota["status"]["hard"].items():
            used = quantity(quota["status"]["used"][resource])
            if quantity(hard) > 0:
                key = name("plimsoll_quota_ratio", quota_namespace=quota["metadata"]["namespace"], quota_resource=resource)
                series[key] = max(series.get(key, 0), used / quantity(hard))
    # Names of flows and users may hold commas: a row is cut at its times, numbers and path.
    row = re.compile(r"(\S+),\s+(\S+),.*?\d{4}-\d\d-\d\dT[0-9:.]+Z,\s+(\d+),\s+(\d+),\s+\S+,\s+(\S+),\s+(.*?),\s+[a-z]+,\s+/")
    with open(dump) as file:
        lines = file.read().splitlines()[1:]
    for level, _, first, last, started, user in (row.match(line).groups() for line in lines):
        state = "waiting" if started.startswith("0001") else "executing"
        user = "system:node:*" if user.startswith("system:node:") else user
        key = name("plimsoll_client_seats", user=user, priority_level=level, state=state)
        series[key] = series.get(key, 0) + max(int(first), int(last)) * int(servers)
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


def ask(port, target, query, *features):
    """Starts a Prometheus with these features, waits until it has scraped, and asks."""
    with tempfile.TemporaryDirectory() as home:
        config = {"global": {"scrape_interval": "1s", "external_labels": {"cluster": "c"}},
                  "scrape_configs": [{"job_name": "plimsoll", "static_configs": [{"targets": [target]}]}]}
        with open(f"{home}/p.yml", "w") as file:
            json.dump(config, file)
        server = subprocess.Popen(
            ["prometheus", f"--config.file={home}/p.yml", f"--storage.tsdb.path={home}/data", f"--web.listen-address=127.0.0.1:{port}",
             *(f"--enable-feature={name}" for name in features)],
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
    parser.add_argument("what", choices=["count", "now", "prometheus", "list"])
    parser.add_argument("--page", help="a metrics page that shows how large LISTs are")
    parser.add_argument("--version", default="")
    parser.add_argument("words", nargs="+")
    args = parser.parse_args()
    if args.what == "count":
        print(json.dumps(count(args.words, clients.minor(args.version), stored_by(args.page) if args.page else {})))
    elif args.what == "now":
        print(json.dumps(now(*args.words)))
    elif args.what == "prometheus":
        print(json.dumps(ask(*args.words)))
    else:
        with open(args.words[0]) as file:
            lines = file.read().splitlines()[int(args.words[1]):int(args.words[2])]
        items = [json.loads(line) for line in lines]
        print(json.dumps({"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "metadata": {}, "items": items}, indent=1))


main()
