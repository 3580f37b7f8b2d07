#!/usr/bin/env python3
"""Scores a judge on captures of which the truth is known.

    score.py [--program plimsoll] [--forms bundle,loose,audit,metrics,writes] [--named] [--json | --features] CAPTURE...

CAPTURE is a folder or a .tar.zst with a truth.json. Each is given as a bundle, as loose files without bundle.yaml, as
audit logs alone and as metrics pages alone; `writes` (not by default) are audit logs whose policy leaves out reads. The program is called as `PROGRAM report SOURCE -o json` and answers with
`episodes` (docs/judge.md). An episode is found if overlap / union is 0.5 or more, or if both ends are right: within
20 s (two intervals of the captures). Its cause is right if the kind is one of those below, and the client is the one
that did it, where one did and the form can name it. --named names the true window of each episode, and of quiet captures the middle third:
then the grade and the cause are what is judged. --features writes what was measured of each candidate, for fit.py.
"""
import argparse
import csv
import datetime
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

# Causes of truth files, and the kinds of cause that name them.
KINDS = {
    "list-storm": {"client-surge", "expensive-lists"},
    "retry-storm": {"client-surge", "write-burst"},
    "review-flood": {"client-surge"},
    "hot-loop": {"write-burst", "client-surge"},
    "write-storm": {"write-burst"},
    "event-flood": {"write-burst"},
    "crd-storm": {"write-burst", "client-surge"},
    "load-surge": {"load-surge"},
    "imbalance": {"imbalance", "load-surge"},
    "store-slow": {"slow-etcd"},
    "store-down": {"slow-etcd"},
    "webhook-slow": {"webhook-drag"},
    "webhook-failing": {"webhook-drag"},
    "apiserver-restart": {"relist-storm"},
    "apiserver-hung": {"relist-storm"},
    "request-flood": {"client-surge"},
    "memory-pressure": {"memory", "relist-storm"},
    "namespace-deletion": {"cascade-delete", "write-burst"},
    "alternating-writers": {"write-burst", "client-surge"},
    "nodes-notready": {"nodes-lost"},
    "unauthenticated": {"client-surge"},
    "watch-churn": {"client-surge"},
    "controller-down": {"controllers-down"},
    "apiserver-slow": {"apiserver-slow"},
    "too-few-seats": {"too-few-seats"},
    "api-unavailable": {"api-unavailable"},
    "store-full": {"slow-etcd", "write-burst"},
    "garbage-collection": {"cascade-delete", "write-burst", "client-surge"},
    "admission-refuses": {"writes-refused"},
    "credentials-invalid": {"credentials-invalid"},
    "encryption-failing": {"encryption-failing"},
    "conflict-storm": {"write-burst", "client-surge"},
    "rollout": {"write-burst", "load-surge", "client-surge"},
}
# Where nobody is named, that requests of one kind rose is all that is seen.
UNNAMED = {"client-surge", "write-burst", "expensive-lists", "cascade-delete"}
GRAVE = {"outage", "incident"}
WRITES = {"create", "update", "patch", "delete", "deletecollection"}
ENDS = 20.0


def seconds(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def span(own):
    return seconds(own["from"]), seconds(own["to"])


def is_found(truth, found):
    (a, b), (c, d) = span(truth), span(found)
    both = max(min(b, d) - max(a, c), 0)
    return both / max(max(b, d) - min(a, c), 1e-9) >= 0.5 or abs(a - c) <= ENDS and abs(b - d) <= ENDS


def touches(a, b):
    return span(a)[0] < span(b)[1] and span(b)[0] < span(a)[1]


def features(rows):
    """As `cargo bench --bench incidents -- features` writes them."""
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow("case,form,episode,candidate,kind,caller,is_right,confidence,feature,source,value".split(","))
    for row in rows:
        for place, number, cause, right in row["candidates"]:
            head = [row["capture"], row["form"], place, number, cause["cause"], cause["subject"].get("user", "")]
            for name, value in cause["features"].items() or [("", "")]:
                out.writerow(head + [int(right), cause["confidence"], name, "", value])


def is_right(truth, cause, form):
    wanted = KINDS.get(truth["cause"], set())
    # What a cgroup says is in the bundle alone; without it, who filled the memory is all that can be seen.
    if truth["cause"] == "memory-pressure" and form != "bundle":
        wanted = wanted | {"client-surge"}
    # Who sends what the audit policy leaves out can't be seen.
    if form == "metrics" or truth.get("unlogged") and cause["cause"] == "request-surge":
        return cause["cause"] in wanted or cause["cause"] == "request-surge" and bool(wanted & UNNAMED)
    if cause["cause"] not in wanted:
        return False
    user = cause["subject"].get("user")
    users = {own["user"] for own in truth.get("clients") or [truth.get("client")] if own}
    return not users or user is None or user in users or truth["cause"] == "rollout"


def without_reads(audit, to):
    """The same audit logs under a policy that leaves out reads."""
    for log in audit.rglob("*.log"):
        out = to / log.relative_to(audit)
        out.parent.mkdir(parents=True, exist_ok=True)
        lines = log.read_bytes().splitlines(keepends=True)
        out.write_bytes(b"".join(line for line in lines if json.loads(line)["verb"] in WRITES))


def judge(program, source, window=()):
    named = [word for flag, at in zip(("--from", "--to"), window) for word in (flag, at)]
    ran = subprocess.run([program, "report", str(source), "-o", "json", *named], capture_output=True, text=True)
    if ran.returncode not in (0, 3) or not ran.stdout:
        raise SystemExit(f"{program} report {source}: {ran.stderr.strip()}")
    return json.loads(ran.stdout)


def middle(document):
    """The middle third of what was read."""
    first, last = (seconds(document["window"][end]) for end in ("from", "to"))
    stamp = lambda at: datetime.datetime.fromtimestamp(at, datetime.timezone.utc).isoformat().replace("+00:00", "Z")
    return stamp(first + (last - first) / 3), stamp(last - (last - first) / 3)


def score(program, capture, forms, are_named=False):
    """One row for each form of a capture."""
    home = pathlib.Path(tempfile.mkdtemp())
    try:
        if capture.is_dir():
            shutil.copytree(capture, home / "capture")
        else:
            subprocess.run(["tar", "--zstd", "-xf", capture, "-C", home], check=True)
        bundle = next(path.parent for path in home.rglob("truth.json"))
        truth = json.loads((bundle / "truth.json").read_text())
        loose = home / "loose"
        for part in ("audit", "metrics"):
            shutil.copytree(bundle / part, loose / part)
        if "writes" in forms:
            without_reads(loose / "audit", home / "writes")
        sources = {"writes": home / "writes", "bundle": bundle, "loose": loose, "audit": loose / "audit", "metrics": loose / "metrics"}
        for form in forms:
            wanted = truth.get("episodes", [])
            if are_named:
                windows = [(own["from"], own["to"]) for own in wanted] or [middle(judge(program, sources[form]))]
                found = [judge(program, sources[form], window)["episodes"][0] for window in windows]
            else:
                found = judge(program, sources[form])["episodes"]
            row = {"capture": truth["name"], "form": form, "quiet": bool(truth.get("quiet")), "found": [], "right": []}
            row["grave"] = [own["grade"] for own in found if own["grade"] in GRAVE]
            taken = []
            for own in wanted:
                match = next((other for other in found if is_found(own, other)), None)
                taken.append(match)
                row["found"].append(match is not None)
                first = match["causes"][0] if match and match["causes"] else None
                row["right"].append(first is not None and is_right(own, first, form))
            row["false"] = [own["headline"] for own in found if own not in taken and own["grade"] in GRAVE]
            row["wanted"] = [f"{own['grade']} {own['cause']}" for own in wanted]
            cause = lambda own: f" {own['causes'][0]['cause']} {own['causes'][0]['confidence']:.2f}" if own["causes"] else ""
            row["said"] = [f"{own['grade']} {own['from'][11:19]}-{own['to'][11:19]}{cause(own)}" for own in found if are_named or own["causes"]]
            row["candidates"] = []
            for place, own in enumerate(found):
                true = next((one for one, match in zip(wanted, taken) if match is own), None)
                if true is None and (own["grade"] not in GRAVE or any(touches(own, one) for one in wanted)):
                    continue  # half of an episode says little about causes; and harmless activity has causes, too
                for number, cause in enumerate(own["causes"]):
                    right = true is not None and is_right(true, cause, form)
                    row["candidates"].append((place, number, cause, right))
            yield row
    finally:
        shutil.rmtree(home)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="plimsoll")
    parser.add_argument("--forms", default="bundle,loose,audit,metrics")
    parser.add_argument("--named", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--features", action="store_true")
    parser.add_argument("captures", nargs="+", type=pathlib.Path)
    args = parser.parse_args()
    rows = [row for capture in args.captures for row in score(args.program, capture, args.forms.split(","), args.named)]
    if args.features:
        features(rows)
        return
    for row in rows:
        del row["candidates"]
    if args.json:
        json.dump(rows, sys.stdout, indent=1)
        return
    print("| capture | form | truth | found | first cause right | said |\n|---|---|---|---|---|---|")
    mark = lambda all_of_them: " ".join("yes" if one else "NO" for one in all_of_them)
    for row in rows:
        truth = "quiet" if row["quiet"] else ", ".join(row["wanted"])
        print(f"| {row['capture']} | {row['form']} | {truth} | {mark(row['found'])} | {mark(row['right'])} | {'; '.join(row['said'])} |")
    for form in args.forms.split(","):
        own = [row for row in rows if row["form"] == form]
        faults = [(found, right) for row in own if not row["quiet"] for found, right in zip(row["found"], row["right"])]
        alarms = sum(bool(row["grave"]) for row in own if row["quiet"])
        print(f"{form}: {sum(f for f, _ in faults)} of {len(faults)} episodes found, first cause right in {sum(r for _, r in faults)}; "
              f"alarms on {alarms} of {sum(row['quiet'] for row in own)} quiet captures, {sum(len(row['false']) for row in own)} false ones in all")


if __name__ == "__main__":
    main()
