#!/usr/bin/env python3
"""What `plimsoll report` is made from, counted again from the audit log itself.

    report.py load BUNDLE PARTS PHASES         requests by client at baseline and within, the load that each added, and the course of the load
    report.py names BUNDLE                     users, namespaces, names and addresses in the logs

PARTS and PHASES are JSON: {"calm": [[FROM, TO], ...], "within": [[FROM, TO], ...]}, times in RFC 3339. Added load: requests that were not
throttled (429), more of them a second than at baseline, each as long as such a request took at baseline, whoever sent it.
"""
import collections
import datetime
import io
import json
import pathlib
import sys

import zstandard

PIECE = 5


def seconds(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def events(bundle):
    for path in sorted(pathlib.Path(bundle).glob("audit/**/*.log*")):
        raw = path.open("rb")
        stream = zstandard.ZstdDecompressor().stream_reader(raw) if path.suffix == ".zst" else raw
        for line in io.TextIOWrapper(stream, encoding="utf-8"):
            yield json.loads(line)


def requests(all_events, low=float("-inf"), high=float("inf")):
    """One for each request in the log lines of a stretch: when its line was written, who, what, whether refused, and how long it took in
    microseconds."""
    opened = {}
    for event in all_events:
        what = event.get("objectRef") or {}
        agent = event.get("userAgent", "").split("/")[0].split(" ")[0]
        user = event["user"]["username"]
        kind = (event["verb"], what.get("apiGroup", ""), what.get("resource", ""), what.get("subresource", ""))
        at = round(seconds(event["stageTimestamp"]) * 1e6)
        if not low <= at < high:
            continue
        took = max(0, at - round(seconds(event["requestReceivedTimestamp"]) * 1e6))
        code = event.get("responseStatus", {}).get("code")
        long = event["verb"] in ("watch", "proxy") or kind[3] in ("exec", "attach", "portforward", "proxy") or kind[3] == "log"
        long = long or event["requestURI"].startswith("/debug/pprof/")
        one = {"at": at, "user": user, "agent": agent, "kind": kind, "code": code, "took": took, "long": long}
        if event["stage"] == "ResponseStarted":
            opened[event["auditID"]] = one
            if not long:
                yield one
        elif event["stage"] in ("ResponseComplete", "Panic"):
            opened.pop(event["auditID"], None)
            yield one
    # Watches whose end is not in the stretch.
    for one in opened.values():
        if one["long"]:
            yield one


def load(bundle, parts):
    parts = {part: [[seconds(at) * 1e6 for at in span] for span in spans] for part, spans in json.loads(parts).items()}
    counts = {part: collections.defaultdict(lambda: collections.defaultdict(lambda: [0, 0, 0.0])) for part in parts}
    beats = collections.defaultdict(lambda: collections.Counter())
    all_events = list(events(bundle))
    about = dict(line.split(": ", 1) for line in (pathlib.Path(bundle) / "bundle.yaml").read_text().splitlines() if ": " in line)
    bounds = [seconds(about[bound]) * 1e6 for bound in ("t0", "end")]
    ended = list(requests(all_events, *bounds))
    for part, spans in parts.items():
        within = lambda at: any(low <= at < high for low, high in spans)
        folded = lambda user: "system:node:*" if user.startswith("system:node:") else user
        for one in ended:
            if within(one["at"]) and not one["long"]:
                own = counts[part][folded(one["user"]), one["agent"]][one["kind"]]
                own[0] += 1
                own[1] += one["code"] == 429
                own[2] += one["took"] / 1e6
        # A watch counts when it starts.
        for event in all_events:
            if event["verb"] == "watch" and event["stage"] == "ResponseStarted" and within(round(seconds(event["stageTimestamp"]) * 1e6)):
                agent = event.get("userAgent", "").split("/")[0].split(" ")[0]
                counts[part][folded(event["user"]["username"]), agent]["watch",][0] += 1
    for one in ended:
        if one["user"] != "system:apiserver":
            beat = beats[one["at"] // (PIECE * 1_000_000)]
            beat["rps"] += one["kind"][0] not in ("watch", "connect", "proxy")
            beat["lists_per_s"] += one["kind"][0] == "list"
            beat["throttled_per_s"] += one["code"] == 429
            if not one["long"]:
                beat["server_time"] += one["took"] / 1e6
    length = {part: sum(high - low for low, high in spans) / 1e6 for part, spans in parts.items()}
    calm = [(kind, own) for client in counts["calm"].values() for kind, own in client.items() if kind[0] != "watch"]

    def price(kind, now):
        for tier in ([c for k, c in calm if k == kind], [c for k, c in calm if k[0] == kind[0]], [c for _, c in calm], [now]):
            if sum(c[0] for c in tier) >= 5:
                return sum(c[2] for c in tier) / sum(c[0] for c in tier)
        return 0

    clients = []
    for who, kinds in counts["within"].items():
        was = counts["calm"].get(who, {})
        added = 0
        for kind, now in kinds.items():
            before = was.get(kind)
            if kind[0] == "watch":
                continue
            more = (now[0] - now[1]) / length["within"] - (before[0] if before else 0) / length["calm"]
            added += max(more, 0) * price(kind, now)
        clients.append({
            "user": who[0], "agent": who[1], "added": added,
            "before_rps": sum(own[0] for own in was.values()) / length["calm"],
            "within_rps": sum(own[0] for own in kinds.values()) / length["within"],
        })
    total = sum(client["added"] for client in clients)
    for client in clients:
        client["added_share"] = client["added"] / total
    clients.sort(key=lambda client: -client["added"])
    means = {}
    for part, spans in parts.items():
        low, high = spans[0][0], spans[-1][1]
        pieces = [n for n in range(int(low // 5e6), int(high // 5e6) + 1) if any(low <= n * 5e6 < high for low, high in spans)]
        means[part] = {name: sum(beats[n][name] for n in pieces) / PIECE / len(pieces) for name in ["rps", "lists_per_s", "throttled_per_s", "server_time"]}
    return {"clients": clients, "phases": means, "alike_p99_s": alike_p99(ended, parts, length)}


def alike_p99(ended, parts, length):
    """The 99th percentile at baseline, and within: there each client and kind counts at most at its rate at baseline."""
    took = {part: collections.defaultdict(list) for part in parts}
    for one in ended:
        if not one["long"] and one["user"] != "system:apiserver":
            user = "system:node:*" if one["user"].startswith("system:node:") else one["user"]
            for part, spans in parts.items():
                if any(low <= one["at"] < high for low, high in spans):
                    took[part][user, one["agent"], one["kind"]].append(one["took"] / 1e6)
    def quantile(weighed):
        weighed.sort()
        wanted = 0.99 * sum(weight for _, weight in weighed)
        for value, weight in weighed:
            wanted -= weight
            if wanted <= 0:
                return value
    rate = lambda part, key: len(took[part].get(key, [])) / length[part]
    within = [(value, min(1, rate("calm", key) / rate("within", key))) for key, all_of in took["within"].items() for value in all_of]
    return [quantile([(value, 1) for all_of in took["calm"].values() for value in all_of]), quantile([pair for pair in within if pair[1] > 0])]


def names(bundle):
    all_names = collections.defaultdict(set)
    for event in events(bundle):
        what = event.get("objectRef") or {}
        all_names["users"].add(event["user"]["username"])
        all_names["namespaces"].add(what.get("namespace", ""))
        all_names["names"].add(what.get("name", ""))
        all_names["addresses"].update(event.get("sourceIPs", []))
    return {kind: sorted(found - {""}) for kind, found in all_names.items()}


def main():
    asked = {"load": load, "names": names}[sys.argv[1]]
    print(json.dumps(asked(*sys.argv[2:])))


if __name__ == "__main__":
    main()
