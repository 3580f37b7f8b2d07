#!/usr/bin/env python3
"""Asks a real Prometheus that holds captured pages what boards ask, and runs rules over captured pages.

    dashboards.py panels QUESTIONS.json BUNDLE...
    dashboards.py rules RULES.yaml... -- BUNDLE...
    dashboards.py grafana BOARD.json...
    dashboards.py shift BUNDLE FOLDER

A BUNDLE is a folder with metrics/INSTANCE/SECONDS.txt[.zst] (or INSTANCE/...), as in samples/, or NAME.tar.zst that holds the
folder NAME; its name is the label `cluster`, and `job` follows from the instance's name. Beside the pages Prometheus holds `up`, and FIXTURE series: what cAdvisor, kube-state-metrics, the kubelet and
node_exporter would export, with their names and labels, made from cgroup and object captures of the same bundle.

panels     QUESTIONS.json: {"metrics": [NAME, ...], "queries": {ID: PROMQL, ...}, "exports": {CLUSTER: FILE}}. FILE is what `plimsoll serve`
           exported: counters rise to it from 0 with the last page of that bundle.
           Each query is asked a minute behind the end of each bundle. Prints {"answers": {ID: {CLUSTER: [{"metric": ..., "value": ...}, ...]}},
           "counted": {CLUSTER: {...}}}: clusters without an answer are left out; `counted` is what the last 300 s of bundles with
           pages of etcd come to by a count of the pages, without Prometheus. Exits with 1, and says which, if an expression is not
           valid.
rules      Evaluates the rule files over the pages with promtool, page by page as they were taken, and prints for each bundle which
           alerts were pending or firing: {CLUSTER: {ALERT: {"pending": N, "firing": N}}} (N: evaluations).
shift      Writes the audit logs of a bundle into FOLDER/INSTANCE/audit.log with other times: the last event is of now.
grafana    Reads boards with the types of Grafana's published schema (grafana-foundation-sdk), writes them again, and compares.
"""
import datetime
import glob
import io
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.parse
import urllib.request

import prometheus as replay

PAGE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)", re.M)
JOBS = {"apiserver": "apiserver", "etcd": "etcd", "kube-controller-manager": "kube-controller-manager", "kube-scheduler": "kube-scheduler"}
# Seconds behind the last page at which queries are asked. Steps of subqueries are whole minutes: one of them lies behind that page.
# And no page lies on the edge of a window, which versions of Prometheus take differently.
AFTER = 61
SUFFIXES = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "m": 1e-3, "": 1}


def fail(why):
    sys.exit(f"dashboards.py: {why}")


def program(name):
    return shutil.which(name) or fail(f"there is no `{name}` on PATH: run .ci/setup")


# ---------------------------------------------------------------- series

def labels_of(**labels):
    return ",".join(f'{name}="{value}"' for name, value in labels.items())


def taken(path):
    return int(float(re.search(r"([\d.]+?)(?:\.txt)?(?:\.zst)?$", os.path.basename(path))[1]))


def pages(bundle):
    """(labels, seconds, text) of each page."""
    cluster = os.path.basename(bundle.rstrip("/"))
    found = sorted(glob.glob(os.path.join(bundle, "metrics", "*", "*")) or glob.glob(os.path.join(bundle, "*", "*")))
    if not found:
        fail(f"{bundle} has no metrics pages")
    for path in found:
        instance = os.path.basename(os.path.dirname(path))
        job = JOBS[re.sub(r"-(\d+|[ab])$", "", instance)]
        yield labels_of(cluster=cluster, job=job, instance=instance), taken(path), replay.read(path).decode()


def samples(bundle, is_wanted):
    """(name, labels, seconds, value as text) of all that Prometheus would hold of a bundle."""
    last = 0
    for own, at, text in pages(bundle):
        last = max(last, at)
        yield "up", own, at, "1"
        for name, labels, value in PAGE.findall(text):
            if is_wanted(name):
                yield name, (labels.rstrip(",") + "," if labels else "") + own, at, value
    yield from fixture(bundle, last)


def quantity(text):
    number, suffix = re.fullmatch(r"([\d.]+)([A-Za-z]*)", text).groups()
    return float(number) * SUFFIXES[suffix]


def fixture(bundle, last):
    """FIXTURE: what other exporters would say, with their names and labels. Values are those of the captures; made up are the memory
    limit of the container (1 GiB; the captured one has none), PSI and page faults that cgroup v1 does not have, the labels `team`,
    and the certificates of a kubelet."""
    cluster = os.path.basename(bundle.rstrip("/"))
    for path in sorted(glob.glob(os.path.join(bundle, "cgroup", "*", "*.txt"))):
        at, stat, files, name = taken(path), {}, {}, ""
        if at > last:
            continue
        for line in open(path):
            if line.startswith("== "):
                name = line[3:].strip()
            elif name == "memory.stat" or name == "memory.oom_control":
                key, value = line.split()
                stat[key] = float(value)
            else:
                files[name] = float(line)
        if "total_rss" not in stat:
            fail(f"{path} is no capture of cgroup v1")
        pod = os.path.basename(os.path.dirname(path))
        own = labels_of(cluster=cluster, job="kubelet", instance="10.0.0.1:10250", namespace="kube-system", pod=pod,
                        container="etcd" if pod.startswith("etcd") else "kube-apiserver", image="registry.k8s.io/kube-apiserver:v1.36.0",
                        id=f"/kubepods/burstable/{pod}", name=pod)
        usage = files["memory.usage_in_bytes"]
        for metric, value in {
            "container_memory_usage_bytes": usage,
            "container_memory_working_set_bytes": max(0, usage - stat["total_inactive_file"]),
            "container_memory_rss": stat["total_rss"],
            "container_memory_cache": stat["total_cache"],
            "container_memory_total_active_file_bytes": stat["total_active_file"],
            "container_memory_total_inactive_file_bytes": stat["total_inactive_file"],
            "container_memory_failcnt": files.get("memory.failcnt", 0),
            "container_oom_events_total": stat.get("oom_kill", 0),
            "container_spec_memory_limit_bytes": 2**30,
        }.items():
            yield metric, own, at, repr(value)
        yield "container_memory_failures_total", own + ',failure_type="pgmajfault",scope="container"', at, repr(stat["total_pgmajfault"])
        node = labels_of(cluster=cluster, job="node-exporter", instance="10.0.0.1:9100", cgroup=f"/kubepods/{pod}")
        reclaimable = stat["total_inactive_file"] + stat["total_active_file"] - stat["total_dirty"]
        for metric, value in {
            "usage_bytes": usage,
            "reclaimable_bytes": reclaimable,
            "headroom_with_cache_bytes": 2**30 - usage + reclaimable,
            "refaults_per_second": 0,
        }.items():
            yield "plimsoll_memory_" + metric, node, at, repr(value)
        yield "plimsoll_memory_verdict", node + ',verdict="healthy"', at, "1"
    for path in sorted(glob.glob(os.path.join(bundle, "objects", "*", "resourcequotas.json.zst"))):
        at = int(os.path.basename(os.path.dirname(path)))
        if at > last:
            continue
        own = labels_of(cluster=cluster, job="kube-state-metrics", instance="10.0.0.2:8080")
        for quota in json.loads(replay.read(path))["items"]:
            for kind in ("hard", "used"):
                for resource, value in quota["status"].get(kind, {}).items():
                    more = labels_of(namespace=quota["metadata"]["namespace"], resourcequota=quota["metadata"]["name"],
                                     resource=resource, type=kind)
                    yield "kube_resourcequota", f"{own},{more}", at, repr(quantity(value))
        for namespace in json.loads(replay.read(path.replace("resourcequotas", "namespaces")))["items"]:
            team = namespace["metadata"].get("labels", {}).get("team")
            more = labels_of(namespace=namespace["metadata"]["name"], **({"label_team": team} if team else {}))
            yield "kube_namespace_labels", f"{own},{more}", at, "1"
    for kind in ("client", "server"):
        own = labels_of(cluster=cluster, job="kubelet", instance="10.0.0.1:10250")
        yield f"kubelet_certificate_manager_{kind}_ttl_seconds", own, last, "2.1e7"


def exported(file, cluster, times):
    """(name, labels, seconds, value as text) of what `plimsoll serve` exported."""
    text = open(file).read()
    counts = {name for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M) if kind in ("counter", "histogram")}
    own = labels_of(cluster=cluster, job="plimsoll", instance="10.0.0.3:9797")
    for name, labels, value in PAGE.findall(text):
        if name in counts or re.sub("_(bucket|sum|count)$", "", name) in counts:
            for at in times[:-1]:
                yield name, f"{labels},{own}", at, "0"
        yield name, ",".join(filter(None, (labels, own))), times[-1], value


# ---------------------------------------------------------------- panels

class Prometheus:
    """One that scrapes nothing and has these blocks."""

    def __init__(self, folder):
        with open(f"{folder}/prometheus.yml", "w") as f:
            f.write("{}")
        self.log = f"{folder}/log"
        for _ in range(5):
            # Another program may take the port between its choice and its use.
            self.start(folder)
            if self.is_ready():
                return
            self.process.kill()
            self.process.wait()
        fail("prometheus does not start:\n" + open(self.log).read()[-2000:])

    def start(self, folder):
        with replay.socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [program("prometheus"), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                 "--storage.tsdb.retention.time=100y", f"--web.listen-address={self.address}", "--log.level=warn"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                preexec_fn=lambda: replay.ctypes.CDLL(None).prctl(1, replay.signal.SIGKILL))

    def get(self, path, **asked):
        body = urllib.parse.urlencode(asked).encode() if asked else None
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://{self.address}{path}", body, timeout=300) as answer:
            return answer.read()

    def is_ready(self):
        while self.process.poll() is None:
            try:
                self.get("/-/ready")
                return True
            except OSError:
                replay.time.sleep(0.05)
        return False

    def ask(self, query, at):
        return json.loads(self.get("/api/v1/query", query=query, time=at))["data"]["result"]


def panels(file, bundles):
    asked = json.load(open(file))
    names = re.compile("(?:%s)(?:_bucket|_sum|_count)?" % "|".join(map(re.escape, asked["metrics"])))
    known = {}

    def is_wanted(name):
        if name not in known:
            known[name] = names.fullmatch(name) is not None
        return known[name]

    with tempfile.TemporaryDirectory() as folder:
        ends = {}
        with open(f"{folder}/all.om", "w") as out:
            for bundle in bundles:
                cluster = os.path.basename(bundle.rstrip("/"))
                times = set()
                for name, labels, at, value in samples(bundle, is_wanted):
                    out.write(f"{name}{{{labels}}} {value} {at}\n")
                    times.add(at)
                ends[cluster] = max(times)
                if cluster in asked["exports"]:
                    for name, labels, at, value in exported(asked["exports"][cluster], cluster, sorted(times)):
                        if is_wanted(name):
                            out.write(f"{name}{{{labels}}} {value} {at}\n")
            out.write("# EOF\n")
        made = subprocess.run([program("promtool"), "tsdb", "create-blocks-from", "openmetrics", "-q", f"{folder}/all.om", f"{folder}/data"],
                              capture_output=True, text=True)
        if made.returncode:
            fail(f"promtool makes no blocks: {made.stdout} {made.stderr}")
        server = Prometheus(folder)
        results, wrong = {}, []
        try:
            for name, query in asked["queries"].items():
                results[name] = {}
                for cluster, end in ends.items():
                    try:
                        answer = server.ask(query, end + AFTER)
                    except urllib.error.HTTPError as error:
                        wrong.append(f"{name}: {query}: {error.read().decode()[:500]}")
                        break
                    own = [series for series in answer if series["metric"].get("cluster", cluster) == cluster]
                    if own:
                        results[name][cluster] = [{"metric": series["metric"], "value": number(series["value"][1])} for series in own]
        finally:
            server.process.kill()
            server.process.wait()
    if wrong:
        fail("\n".join(wrong))
    counted = {os.path.basename(bundle): count(bundle) for bundle in bundles if glob.glob(os.path.join(bundle, "metrics", "etcd-*"))}
    return {"answers": results, "counted": counted}


def count(bundle):
    """What boards show of the last 300 s, from differences between pages. Only what does not depend on how Prometheus extrapolates:
    quantiles and ratios, of series that are on the first and the last page of the window."""
    own, end = {}, 0
    for labels, at, text in pages(bundle):
        end = max(end, at)
        own.setdefault(labels, []).append((at, text))
    grown, gauges = {}, {}
    for labels, taken_pages in own.items():
        within = [text for at, text in taken_pages if end + AFTER - 300 < at]
        first, last = ({(name, series): float(value) for name, series, value in PAGE.findall(text)} for text in (within[0], within[-1]))
        instance = re.search(r'instance="([^"]*)"', labels)[1]
        for (name, series), value in last.items():
            named = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', series))
            gauges.setdefault(name, []).append(({**named, "instance": instance}, value))
            if (name, series) in first:
                grown.setdefault(name, []).append(({**named, "instance": instance}, value - first[name, series]))

    def total(name, by, where=lambda labels: True):
        sums = {}
        for labels, value in grown.get(name, []):
            if where(labels):
                key = tuple(labels.get(label, "") for label in by)
                sums[key] = sums.get(key, 0) + value
        return sums

    def quantile(q, name, by, where):
        found = {}
        for (le, *key), value in total(name + "_bucket", ["le", *by], where).items():
            found.setdefault(tuple(key), []).append((float(le), value))
        for key, buckets in found.items():
            buckets.sort()
            rank, low, below = q * buckets[-1][1], 0, 0
            for bound, value in buckets:
                if value >= rank and value > 0:
                    yield " ".join(key), low if math.isinf(bound) else low + (bound - low) * (rank - below) / (value - below)
                    break
                low, below = bound, value

    long = ("proxy", "exec", "attach", "log", "portforward")
    writes = ("POST", "PUT", "PATCH", "APPLY", "DELETE")
    sizes, counts = (total("apiserver_response_sizes" + part, ["resource"], lambda l: l["verb"] == "LIST") for part in ("_sum", "_count"))

    def counts_for_objective(l):
        return (l["verb"] in ("GET", "LIST", *writes) and l["scope"] in ("resource", "namespace", "cluster") and l["resource"]
                and l["subresource"] not in long)

    sli = "apiserver_request_sli_duration_seconds"
    all_of_them = sum(total(sli + "_count", [], counts_for_objective).values())
    in_time = sum(total(sli + "_bucket", [], lambda l: counts_for_objective(l) and float(l["le"]) == (
        1 if l["verb"] in writes or l["scope"] == "resource" else 30)).values())
    failed = sum(total("apiserver_request_total", [], lambda l: counts_for_objective(l) and (l["code"] == "0" or l["code"][0] == "5")).values())
    requests = sum(total("apiserver_request_total", [], counts_for_objective).values())
    size = {l["instance"]: value for l, value in gauges["etcd_mvcc_db_total_size_in_bytes"]}
    quota = {l["instance"]: value for l, value in gauges["etcd_server_quota_backend_bytes"]}
    objects = {}
    for l, value in gauges["apiserver_resource_objects"]:
        name = f'{l["resource"]} {l["group"]}'.strip()
        objects[name] = max(objects.get(name, 0), value)
    levels = {}
    for name, sign in (("apiserver_flowcontrol_current_executing_seats", 0), ("apiserver_flowcontrol_current_limit_seats", 1)):
        for l, value in gauges[name]:
            if l["priority_level"] != "exempt":
                levels.setdefault((l["instance"], l["priority_level"]), [0, 0])[sign] += value
    return {
        "burn": ((all_of_them - in_time) + failed) / requests / 0.01,
        "slowest": dict(quantile(0.99, sli, ["verb", "resource"], lambda l: l["verb"] not in ("WATCH", "WATCHLIST", "CONNECT")
                                 and l["resource"] and l["subresource"] not in long)),
        "list_size": {key[0]: sizes[key] / counts[key] for key in sizes if counts[key]},
        "database": max(size[instance] / quota[instance] for instance in size),
        "objects": dict(sorted(objects.items(), key=lambda one: -one[1])[:10]),
        "level": max(seats / limit for seats, limit in levels.values() if limit),
    }


def number(text):
    value = float(text)
    return value if math.isfinite(value) else None


# ---------------------------------------------------------------- rules

def rules(files, bundles):
    """promtool evaluates rules and the time that alerts have to hold; the expected results are wrong on purpose, since it then says
    what it got."""
    known, alerts = set(), []
    for file in files:
        text = open(file).read()
        known |= set(re.findall(r"[a-z_]+", text))
        alerts += re.findall(r"- alert: (\w+)", text)
    results = {}
    for bundle in bundles:
        cluster = os.path.basename(bundle.rstrip("/"))
        series, times = {}, set()
        for name, labels, at, value in samples(bundle, lambda name: name in known):
            if name in known:
                series.setdefault(f"{name}{{{labels}}}", {})[at] = value
                times.add(at)
        start, end = min(times), max(times)
        step = 15
        count = (end - start) // step + 1
        inputs = []
        for name, values in series.items():
            points = ["_"] * count
            for at, value in values.items():
                points[min(count - 1, round((at - start) / step))] = repr(float(value)).replace("inf", "Inf").replace("nan", "NaN")
            inputs.append({"series": name, "values": " ".join(points)})
        test = {
            "rule_files": [os.path.abspath(file) for file in files],
            "evaluation_interval": f"{step}s",
            "tests": [{
                "interval": f"{step}s",
                "input_series": inputs,
                "promql_expr_test": [
                    {"expr": f'count_over_time(ALERTS{{alertname="{alert}",alertstate="{state}"}}[1d])', "eval_time": f"{(count - 1) * step}s",
                     "exp_samples": [{"labels": f'{{alertname="{alert}",alertstate="{state}",expected="nothing"}}', "value": 0}]}
                    for alert in alerts for state in ("pending", "firing")],
            }],
        }
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/test.yaml"
            with open(path, "w") as f:
                json.dump(test, f)  # JSON is YAML
            ran = subprocess.run([program("promtool"), "test", "rules", path], capture_output=True, text=True)
        text = ran.stdout + ran.stderr
        compared = re.findall(r"expr: \"count_over_time\(ALERTS\{alertname=\\\"(\w+)\\\",alertstate=\\\"(\w+)\\\".*?got:\s*(.*?)(?=\n\s*expr:|\Z)", text, re.S)
        if len(compared) != 2 * len(alerts):
            fail(f"{bundle}: promtool compared {len(compared)} of {2 * len(alerts)} results:\n{text[:3000]}")
        results[cluster] = {}
        for alert, state, got in compared:
            total = sum(int(float(value)) for value in re.findall(r"\} ([\d.E+]+)", got))
            if total:
                results[cluster].setdefault(alert, {"pending": 0, "firing": 0})[state] += total
    return results


# ---------------------------------------------------------------- Grafana

def grafana(files):
    """What the types of the schema lose of a board when they read and write it."""
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard
    register_default_plugins()

    # Fields of annotations that belong to the data source: the schema leaves them open, and its types drop them.
    is_open = re.compile(r"\.annotations\.list\[\d+\]\.(step|titleFormat|textFormat)")

    def lost(before, after, path):
        if isinstance(before, dict) and isinstance(after, dict):
            for name, value in before.items():
                if name in after:
                    yield from lost(value, after[name], f"{path}.{name}")
                elif value not in (None, "", [], {}, False):
                    yield f"{path}.{name}"
        elif isinstance(before, list) and isinstance(after, list):
            if len(before) != len(after):
                yield f"{path}: {len(before)} entries, then {len(after)}"
            for at, (one, other) in enumerate(zip(before, after)):
                yield from lost(one, other, f"{path}[{at}]")
        elif before != after:
            yield f"{path}: {before!r}, then {after!r}"

    faults = {}
    for file in files:
        before = json.load(open(file))
        after = json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(before)))
        faults[os.path.basename(file)] = [fault for fault in lost(before, after, "") if not is_open.fullmatch(fault)]
    return faults


STAMP = re.compile(rb'"(requestReceivedTimestamp|stageTimestamp)":"([^"]+)"')


def shift(bundle, folder):
    """Counts of lines."""
    logs = {os.path.basename(os.path.dirname(path)): replay.read(path) for path in glob.glob(os.path.join(bundle, "audit", "*", "audit.log*"))}

    def parse(stamp):
        return datetime.datetime.fromisoformat(stamp.decode().replace("Z", "+00:00"))

    last = max(parse(stamp[2]) for log in logs.values() for stamp in STAMP.finditer(log))
    by = datetime.datetime.now(datetime.timezone.utc) - last
    for instance, log in logs.items():
        os.makedirs(f"{folder}/{instance}")
        with open(f"{folder}/{instance}/audit.log", "wb") as out:
            out.write(STAMP.sub(lambda own: b'"%s":"%s"' % (own[1], (parse(own[2]) + by).strftime("%Y-%m-%dT%H:%M:%S.%fZ").encode()), log))
    return {instance: log.count(b"\n") for instance, log in logs.items()}


def unpacked(bundle, folder):
    """The folder of a bundle; of an archive only what is read here is unpacked."""
    if not bundle.endswith(".tar.zst"):
        return bundle
    name = os.path.basename(bundle)[:-len(".tar.zst")]
    with tarfile.open(fileobj=io.BytesIO(replay.read(bundle))) as archive:
        wanted = [one for one in archive.getmembers() if one.isfile() and one.name.split("/")[1] in ("metrics", "cgroup")]
        archive.extractall(folder, wanted, filter="data")
    return os.path.join(folder, name)


def main():
    what, *rest = sys.argv[1:] or [""]
    with tempfile.TemporaryDirectory() as folder:
        result = run(what, rest, folder)
    json.dump(result, sys.stdout, indent=1)
    print()


def run(what, rest, folder):
    if what == "panels":
        return panels(rest[0], [unpacked(bundle, folder) for bundle in rest[1:]])
    if what == "rules":
        cut = rest.index("--")
        return rules(rest[:cut], [unpacked(bundle, folder) for bundle in rest[cut + 1:]])
    if what == "grafana":
        return grafana(rest)
    if what == "shift":
        return shift(*rest)
    sys.exit(__doc__)


if __name__ == "__main__":
    main()
