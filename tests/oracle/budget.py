#!/usr/bin/env python3
"""What a client used of what budgets limit, counted event by event from docs/commands/budget.md; shares no code with plimsoll.

budget.py USER [--pages FOLDER]... LOG... prints {rule: count}; rules that the log alone does not show are left out.
"""

import argparse
import collections
import datetime
import gzip
import json
import os
import re
import subprocess
import urllib.parse


def lines(path):
    if path.endswith(".zst"):
        yield from subprocess.run(["zstd", "-dcq", path], check=True, capture_output=True).stdout.splitlines()
    elif path.endswith(".gz"):
        with gzip.open(path) as file:
            yield from file
    else:
        with open(path, "rb") as file:
            yield from file


def micros(text):
    whole, _, part = text.rstrip("Z").partition(".")
    at = datetime.datetime.fromisoformat(whole).replace(tzinfo=datetime.timezone.utc)
    return int(at.timestamp()) * 10**6 + int((part + "000000")[:6])


def slot(at, seconds):
    return at // (seconds * 10**6)


parser = argparse.ArgumentParser()
parser.add_argument("user")
parser.add_argument("--pages", action="append")
parser.add_argument("logs", nargs="+")
args = parser.parse_args()

events = []
for path in args.logs:
    for line in lines(path):
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if event.get("stage") not in ("ResponseComplete", "Panic", "ResponseStarted") or event["user"]["username"] != args.user:
            continue
        event["at"] = micros(event["stageTimestamp"])
        event["received"] = micros(event.get("requestReceivedTimestamp", event["stageTimestamp"]))
        events.append(event)
events.sort(key=lambda event: (event["at"], event["received"]))

# A long-running request is its end, or its start where the log has no end of it. A watch is its start, and its end only if it failed, or where
# the log has no starts.
ended = collections.Counter(event["auditID"] for event in events if event["stage"] != "ResponseStarted")
starts = any(event["verb"] == "watch" and event["stage"] == "ResponseStarted" for event in events)


def counts(event):
    is_start = event["stage"] == "ResponseStarted"
    if event["verb"] == "watch" and starts and event.get("responseStatus", {}).get("code", 0) < 400:
        return is_start
    return not is_start or not ended[event["auditID"]]


requests = [event for event in events if counts(event)]

begin = events[0]["at"]
# The first minute in tiles of ten seconds: no more than a minute.
in_startup = lambda at: at < begin // 10**7 * 10**7 + 60 * 10**6
used = collections.defaultdict(collections.Counter)
startup, addresses = 0, set()
writes = collections.Counter()
last = {}
for event in requests:
    at, verb = event["at"], event["verb"]
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(event["requestURI"]).query, keep_blank_values=True)
    first = lambda name: query.get(name, [""])[0]
    true = lambda name: name in query and first(name).lower() not in ("0", "false")
    addresses.update(event["sourceIPs"][-1:])
    code = event.get("responseStatus", {}).get("code", 0)
    used["requestsPerMinute"][slot(at, 60)] += 1
    is_resource = bool(event.get("objectRef", {}).get("resource"))
    if is_resource and verb == "list":
        paged = first("limit").lstrip("-").isdigit() and int(first("limit")) > 0
        further = first("continue") != ""
        if in_startup(at):
            startup += not further
        elif not paged and not further:
            used["fullLists"][slot(at, 3600)] += 1
    if is_resource and verb == "watch":
        startup += true("sendInitialEvents") and in_startup(at)
        used["watchesWithoutBookmarks"][slot(at, 3600)] += not true("allowWatchBookmarks")
    if verb in ("update", "patch") and 200 <= code < 300 and "dryRun" not in query:
        reference = event["objectRef"]
        key = tuple(reference.get(name, "") for name in ("apiGroup", "resource", "subresource", "namespace", "name"))
        writes[(slot(at, 60), key, event.get("userAgent", "").split("/")[0])] += 1
    if event["stage"] != "ResponseStarted":
        key = (event["sourceIPs"][-1], event.get("userAgent", "").split("/")[0], verb, event["requestURI"])
        before = last.get(key)
        gap = event["received"] - before["at"] if before else -1
        if before and before.get("responseStatus", {}).get("code") == 429 and 0 <= gap < 10**6:
            used["earlyRetries"][slot(at, 3600)] += 1
        last[key] = event

# In all, whenever they were opened.
once = [event for event in events if event["stage"] != "ResponseStarted" or not ended[event["auditID"]]]
deprecated = sum(event.get("annotations", {}).get("k8s.io/deprecated") == "true" for event in once)

most = lambda rule: max(used[rule].values(), default=0)
found = {rule: most(rule) for rule in ("fullLists", "watchesWithoutBookmarks", "requestsPerMinute", "earlyRetries")}
found["startupLists"] = startup / max(1, len(addresses))
found["deprecatedAPIs"] = deprecated
busiest = max(writes.values(), default=0)
# Fewer are not counted.
found["writesPerObjectPerMinute"] = busiest if busiest >= 12 else 0
if args.pages:
    name = re.compile(r"^workqueue_work_duration_seconds_count\{.*\} (\S+)$")
    done, times = 0, []
    for folder in args.pages:
        pages = []
        for entry in sorted(os.listdir(folder)):
            counts = {}
            for line in lines(os.path.join(folder, entry)):
                if name.match(line.decode().strip()):
                    series, _, value = line.decode().strip().rpartition(" ")
                    counts[series] = float(value)
            pages.append((int(re.match(r"\d+", entry).group()) * 10**6, counts))
        # Of a process that began again the counts are new ones.
        for (_, before), (_, after) in zip(pages, pages[1:]):
            again = any(after.get(series, 0) < count for series, count in before.items())
            done += sum(count - (0 if again else before.get(series, 0)) for series, count in after.items())
        times += [pages[0][0], pages[-1][0]]
    start, end = min(times), max(times)
    beside = lambda event: (
        event["verb"] == "watch"
        or event.get("objectRef", {}).get("resource", "") in ("", "events")
        or event.get("objectRef", {}).get("apiGroup") in ("coordination.k8s.io", "authorization.k8s.io")
    )
    # Tiles that lie in that time in part, too.
    tile = lambda event: event["at"] // 10**7 * 10**7
    sent = sum(not beside(event) and tile(event) < end and tile(event) + 10**7 > start for event in requests)
    found["requestsPerReconcile"] = sent / done
print(json.dumps(found))
