#!/usr/bin/env python3
"""Computes the rows of `plimsoll etcd health` a second time, and runs a real etcd to take pages of.

    etcd_health.py rows FOLDER...            {"rows": [...]} of pages in FOLDER/…/INSTANCE/UNIXSECONDS.txt[.zst]
    etcd_health.py requests FOLDER INSTANCE  [[start, end, [[verb, resource, increase]…]]…] of an apiserver between its pages
    etcd_health.py member FOLDER             a member of its own: pages at several times, a restart in between
    etcd_health.py quota FOLDER              one that is at several shares of its quota, and filled until it refuses writes
    etcd_health.py cluster FOLDER            three members, of which two are killed

The rules are sections 1, 2 and 8 of docs/metrics.md, written without a look at the Rust; pages are parsed by
prometheus_client. The real ones print what they did as JSON; they end, and end their etcd, when standard input ends.
"""
import base64
import collections
import ctypes
import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

# ---------------------------------------------------------------- pages

NEVER_FALL = ["process_cpu_seconds_total", "go_memstats_mallocs_total", "go_memstats_alloc_bytes_total",
              "process_network_receive_bytes_total"]


def text_of(path):
    with open(path, "rb") as f:
        data = f.read()
    if data[:4] == b"\x28\xb5\x2f\xfd":
        import zstandard
        data = zstandard.ZstdDecompressor().decompressobj().decompress(data)
    return data.decode()


parsed = {}


class Page:
    def __init__(self, path, wanted):
        from prometheus_client.parser import text_string_to_metric_families
        self.at = float(os.path.basename(path).split(".txt")[0])
        text = text_of(path)
        self.series = {}
        for line in text.splitlines():
            if line and line[0] != "#" and wanted(line.split("{")[0].split(" ")[0]):
                series, value = line.rsplit(" ", 1)
                if series not in parsed:  # pages of one process have the same series: each is parsed once
                    (family,) = text_string_to_metric_families(line + "\n")
                    (sample,) = family.samples
                    parsed[series] = (sample.name, tuple(sorted(sample.labels.items())))
                self.series.setdefault(parsed[series], float(value))
        self.start = self.series.get(("process_start_time_seconds", ()))

    def may_follow(self, other):
        """Whether this can be a later page of the process that `other` is a page of."""
        if self.start is not None and other.start is not None and abs(self.start - other.start) > 2:
            return False
        return all(self.series.get((name, ()), math.inf) >= other.series.get((name, ()), -math.inf) for name in NEVER_FALL)


class Process:
    def __init__(self, page):
        self.pages = [page]

    def begin(self):
        return self.pages[0].at if self.pages[0].start is None else min(self.pages[0].start, self.pages[0].at)


class Instance:
    """Processes that came after one another, and whether the first counts from its start."""

    def __init__(self, name, processes, folder_began, one_page_only):
        self.name, self.processes = name, processes
        first = processes[0]
        start = first.pages[0].start
        self.totals = one_page_only or (start is not None and start > folder_began)
        self.from_start = self.totals and start is not None
        self.began = start if self.from_start else first.pages[0].at
        self.ended = processes[-1].pages[-1].at
        self.seconds = self.ended - self.began
        if one_page_only and start is None:
            self.seconds = None
        self.restarts = len(processes) - 1

    def differences(self):
        """(from, to, series before, series after), page by page."""
        for number, process in enumerate(self.processes):
            known = {}
            if number > 0 or self.totals:
                yield process.begin(), process.pages[0].at, {}, process.pages[0].series
            known.update(process.pages[0].series)
            for before, after in zip(process.pages, process.pages[1:]):
                yield before.at, after.at, dict(known), after.series
                known.update(after.series)

    def increase(self, wanted):
        """Increases of the series that `wanted(name, labels)` keeps; None if none of them is on any page."""
        found = collections.defaultdict(float)
        there = False
        for process in self.processes:
            for page in process.pages:
                there = there or any(wanted(name, labels) for name, labels in page.series)
        for _, _, before, after in self.differences():
            for key, value in after.items():
                if wanted(*key):
                    old = before.get(key, 0.0)
                    found[key] += value - old if value >= old else value
        return found if there else None

    def total(self, name):
        found = self.increase(lambda n, _: n == name)
        return None if found is None else sum(found.values())

    def last(self, *names):
        for name in names:
            values = [value for (n, _), value in self.processes[-1].pages[-1].series.items() if n == name]
            if values:
                return max(values)
        return None

    def label(self, name, *labels):
        """A label of an information metric on the last page."""
        for (n, values), _ in self.processes[-1].pages[-1].series.items():
            if n == name:
                return next((dict(values)[label] for label in labels if label in dict(values)), "")
        return ""

    def quantile(self, q, name):
        buckets = collections.defaultdict(float)
        found = self.increase(lambda n, _: n == name + "_bucket")
        for (_, labels), value in (found or {}).items():
            buckets[float(dict(labels)["le"])] += value
        return histogram_quantile(q, sorted(buckets.items()))


def histogram_quantile(q, buckets):
    """As Prometheus does it."""
    if len(buckets) < 2 or buckets[-1][0] != math.inf:
        return None
    counts, top = [], 0.0
    for _, count in buckets:
        top = max(top, count)
        counts.append(top)
    if counts[-1] == 0:
        return None
    rank = q * counts[-1]
    at = next(i for i, count in enumerate(counts) if count >= rank)
    if at == len(buckets) - 1:
        return buckets[-2][0]
    upper = buckets[at][0]
    if at == 0 and upper <= 0:
        return upper
    lower, below = (buckets[at - 1][0], counts[at - 1]) if at else (0.0, 0.0)
    return lower + (upper - lower) * (rank - below) / (counts[at] - below)


def instances(sources, wanted):
    """The instances of all folders that hold pages."""
    folders = collections.defaultdict(list)
    for source in sources:
        for folder, _, names in os.walk(source):
            for name in names:
                if ".txt" in name and name.split(".txt")[0].replace(".", "").isdigit() and os.path.basename(os.path.dirname(folder)) != "cgroup":
                    folders[folder].append(Page(os.path.join(folder, name), wanted))
    one_page_only = all(len(pages) == 1 for pages in folders.values())
    found = []
    for folder, pages in sorted(folders.items()):
        pages.sort(key=lambda page: page.at)
        processes = []
        for page in pages:
            fitting = [process for process in processes if page.may_follow(process.pages[-1])]
            if fitting:
                fitting.sort(key=lambda process: (abs((page.start or 0) - (process.pages[-1].start or 0)), -process.pages[-1].at))
                fitting[0].pages.append(page)
            else:
                processes.append(Process(page))
        chains = []
        for process in sorted(processes, key=Process.begin):
            ended = [chain for chain in chains if chain[-1].pages[-1].at - process.begin() < 2]
            (max(ended, key=lambda chain: chain[-1].pages[-1].at) if ended else chains.append([]) or chains[-1]).append(process)
        for number, chain in enumerate(chains, 1):
            name = os.path.basename(folder) + (f"#{number}" if len(chains) > 1 else "")
            found.append(Instance(name, chain, pages[0].at, one_page_only))
    return found


# ---------------------------------------------------------------- etcd health

NEEDED = ("process_start_time", "kubernetes_build_info", "apiserver_storage_size", "apiserver_storage_db_total", "etcd_db_total",
          "etcd_server_", "etcd_disk_wal_fsync", "etcd_disk_backend_commit", "etcd_network_peer_round", "etcd_request_duration",
          "etcd_debugging_mvcc_events", "etcd_debugging_mvcc_pending", "etcd_debugging_mvcc_slow", "etcd_mvcc_db_total")


def rounded(value):
    return None if value is None else round(value, 6)


def row(instance):
    etcd = instance.last("etcd_server_has_leader", "etcd_server_is_leader", "etcd_mvcc_db_total_size_in_bytes") is not None

    def yes(name):
        value = instance.last(name)
        return None if value is None else "yes" if value else "no"

    def p99(name):
        value = instance.quantile(0.99, name)
        return None if value is None else value * 1e3

    changes = instance.total("etcd_server_leader_changes_seen_total")
    if changes is not None:
        changes = max(0, changes - instance.restarts - instance.totals)
    size = instance.last("etcd_mvcc_db_total_size_in_bytes")
    if size is None:
        size = instance.last("apiserver_storage_size_bytes", "apiserver_storage_db_total_size_in_bytes", "etcd_db_total_size_in_bytes")
    quota = instance.last("etcd_server_quota_backend_bytes")
    events = instance.total("etcd_debugging_mvcc_events_total")
    values = {
        "instance": instance.name,
        "component": "etcd" if etcd else "apiserver",
        "version": instance.label("etcd_server_version", "server_version") if etcd
        else instance.label("kubernetes_build_info", "git_version", "gitVersion"),
        "has_leader": yes("etcd_server_has_leader"),
        "is_leader": yes("etcd_server_is_leader"),
        "leader_changes": changes,
        "wal_fsync_p99_ms": p99("etcd_disk_wal_fsync_duration_seconds"),
        "commit_p99_ms": p99("etcd_disk_backend_commit_duration_seconds"),
        "peer_rtt_p99_ms": p99("etcd_network_peer_round_trip_time_seconds"),
        "request_p99_ms": None if etcd else p99("etcd_request_duration_seconds"),
        "proposals_pending": instance.last("etcd_server_proposals_pending"),
        "proposals_failed": instance.total("etcd_server_proposals_failed_total"),
        "slow_applies": instance.total("etcd_server_slow_apply_total"),
        "slow_reads": instance.total("etcd_server_slow_read_indexes_total"),
        "heartbeat_failures": instance.total("etcd_server_heartbeat_send_failures_total"),
        "events_per_s": events / instance.seconds if events is not None and instance.seconds else None,
        "pending_events": instance.last("etcd_debugging_mvcc_pending_events_total"),
        "slow_watchers": instance.last("etcd_debugging_mvcc_slow_watcher_total"),
        "db_bytes": size,
        "in_use_bytes": instance.last("etcd_mvcc_db_total_size_in_use_in_bytes"),
        "quota_bytes": quota,
        "quota_share": size / quota if size is not None and quota else None,
        "seconds": instance.seconds,
        "restarts": instance.restarts,
    }
    return {name: value if isinstance(value, (str, type(None))) else rounded(value) for name, value in values.items()}


def rows(sources):
    def wanted(name):
        return name in NEVER_FALL or name.startswith(NEEDED)
    return {"rows": [row(instance) for instance in instances(sources, wanted)]}


# ---------------------------------------------------------------- requests, for the coverage of an audit log

VERBS = {"POST": "create", "PUT": "update", "APPLY": "patch", "WATCHLIST": "watch"}


def requests(folder, name):
    """What an apiserver counted, by verb and resource; connects and subresources like log left out."""
    def wanted(metric):
        return metric in ("apiserver_request_total", "process_start_time_seconds", *NEVER_FALL)
    instance = next(i for i in instances([folder], wanted) if i.name == name)
    spans = []
    for start, end, before, after in instance.differences():
        found = collections.Counter()
        for (metric, labels), value in after.items():
            labels = dict(labels)
            if metric != "apiserver_request_total" or not labels["resource"] or labels["verb"] == "CONNECT":
                continue
            if labels["subresource"] in ("exec", "attach", "portforward", "proxy", "log"):
                continue
            verb = VERBS.get(labels["verb"], labels["verb"].lower())
            if verb == "delete" and labels["scope"] != "resource":
                verb = "deletecollection"
            old = before.get((metric, tuple(sorted(labels.items()))), 0.0)
            found[verb, labels["resource"]] += value - old if value >= old else value
        spans.append([start, end, [[*key, value] for key, value in sorted(found.items()) if value]])
    return spans


# ---------------------------------------------------------------- a real etcd

children = []


def free_ports(count):
    held = [socket.socket() for _ in range(count)]
    for s in held:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return ports


class Member:
    def __init__(self, folder, name, client, peer, cluster, flags=()):
        self.folder, self.name, self.url = folder, name, f"http://127.0.0.1:{client}"
        peers = f"http://127.0.0.1:{peer}"
        self.command = ["etcd", "--name", name, "--data-dir", os.path.join(folder, "data", name), "--logger", "zap", "--log-level", "error",
                        "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
                        "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", cluster, *flags]

    def start(self):
        die_with_parent = ctypes.CDLL(None).prctl
        self.log = open(os.path.join(self.folder, self.name + ".log"), "ab")
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL,
                                        preexec_fn=lambda: die_with_parent(1, signal.SIGKILL))
        children.append(self.process)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def call(self, path, body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            return json.loads(error.read())
        except OSError as error:  # no answer in time
            return {"error": str(error)}

    def put(self, key, value):
        """What etcd answers: that it is written, or that there is no space. A slow disk may cost a leader its place or a request its time."""
        body = {"key": base64.b64encode(key.encode()).decode(), "value": base64.b64encode(value).decode()}
        for _ in range(15):
            answer = self.call("/v3/kv/put", body)
            if "header" in answer or "space exceeded" in answer.get("error", ""):
                return answer
            time.sleep(1)
        raise SystemExit(f"a write failed: {answer}")

    def must_put(self, key, value):
        answer = self.put(key, value)
        if "header" not in answer:
            raise SystemExit(f"a write failed: {answer}")

    def metrics(self):
        with urllib.request.urlopen(self.url + "/metrics", timeout=60) as answer:
            return answer.read().decode()

    def wait(self, ready=lambda text: "\netcd_server_has_leader 1\n" in text):
        for _ in range(400):
            try:
                text = self.metrics()
                if ready(text):
                    return
            except OSError:
                pass
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise SystemExit(f"etcd is not as it should be: {open(self.log.name).read()[-2000:]}")

    def page(self, folder):
        """Takes a page; its path."""
        path = os.path.join(folder, self.name, f"{time.time():.3f}.txt")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(self.metrics())
        return path

    def status(self):
        command = ["etcdctl", "--endpoints", self.url, "--command-timeout", "60s", "--dial-timeout", "30s", "endpoint", "status", "-w", "json"]
        environment = {**os.environ, "ETCDCTL_API": "3"}
        return json.loads(subprocess.run(command, check=True, capture_output=True, env=environment, timeout=100).stdout)[0]["Status"]


def alone(folder, *flags):
    client, peer = free_ports(2)
    member = Member(folder, "etcd-0", client, peer, f"etcd-0=http://127.0.0.1:{peer}", flags)
    member.start()
    member.wait()
    return member


def step(etcd, folder):
    """A page, and what etcdctl says; again, if etcd wrote meanwhile."""
    before = etcd.status()
    while True:
        page, after = etcd.page(folder), etcd.status()
        if before["dbSize"] == after["dbSize"]:
            return {"page": page, "status": after}
        os.remove(page)
        before = after


def member(folder):
    pages = os.path.join(folder, "pages")
    etcd = alone(folder, "--quota-backend-bytes", "1073741824")

    def write(keys, times):
        for number in range(times):
            etcd.must_put(f"/registry/configmaps/{number % keys}", os.urandom(20000))
        time.sleep(0.2)
    write(20, 60)
    first = etcd.page(pages)
    time.sleep(1.2)  # start times are true to a second: the next start is to be after this page, not always after the second
    write(20, 60)
    second = step(etcd, pages)
    etcd.stop()
    etcd.start()
    etcd.wait()
    write(20, 40)
    third = etcd.page(pages)
    write(20, 20)
    fourth = step(etcd, pages)
    return {"source": pages, "pages": [first, second["page"], third, fourth["page"]], "before": second["status"], "after": fourth["status"]}


def quota(folder):
    """Filled to some size and started with quotas that this size is a given share of; how much a commit adds to the file is nobody's choice.
    Then filled until it refuses."""
    etcd = alone(folder, "--quota-backend-bytes", "1073741824")
    for number in range(80):
        etcd.must_put(f"/registry/secrets/{number}", os.urandom(100_000))
    etcd.stop()
    etcd.start()
    etcd.wait()
    steps = []
    for share in 0.5, 0.77, 0.83, 0.92, 0.97:
        limit = int(etcd.status()["dbSize"] / share)
        etcd.stop()
        etcd.command[-1] = str(limit)
        etcd.start()
        etcd.wait()
        steps.append({"quota": limit, **step(etcd, os.path.join(folder, f"share-{share}"))})
    for number in range(400):
        answer = etcd.put(f"/registry/secrets/more-{number}", os.urandom(20_000))
        if "header" not in answer:
            break
    alarms = {}
    for _ in range(600):  # etcd does not wait for ever until its own alarm is on the disk
        alarms = etcd.call("/v3/maintenance/alarm", {"action": "GET"})
        if alarms.get("alarms"):
            break
        time.sleep(0.1)
    steps.append({"quota": limit, **step(etcd, os.path.join(folder, "refused"))})
    return {"steps": steps, "answer": answer, "alarms": alarms}


def cluster(folder):
    ports = free_ports(6)
    names = ["etcd-0", "etcd-1", "etcd-2"]
    initial = ",".join(f"{name}=http://127.0.0.1:{peer}" for name, peer in zip(names, ports[3:]))
    members = [Member(folder, name, client, peer, initial) for name, client, peer in zip(names, ports, ports[3:])]
    well, ill = os.path.join(folder, "well"), os.path.join(folder, "ill")
    for one in members:
        one.start()
    for one in members:
        one.wait()
    for number in range(50):
        members[number % 3].must_put(f"/k/{number}", b"x")
    for one in members:
        one.wait(lambda text: "etcd_network_peer_round_trip_time_seconds_count" in text)
    while True:
        def leaders():
            said = [(one.name, one.status()) for one in members]
            return {name: status["leader"] == status["header"]["member_id"] for name, status in said}
        leader = leaders()
        taken = [one.page(well) for one in members]
        if leader == leaders():
            break
        for page in taken:
            os.remove(page)
    survivor = next(one for one in members if not leader[one.name])
    survivor.page(ill)
    for one in members:
        if one is not survivor:
            one.kill()
    survivor.wait(lambda text: "\netcd_server_has_leader 0\n" in text)
    survivor.page(ill)
    return {"well": well, "ill": ill, "leader": leader, "survivor": survivor.name}


def end_with_stdin():
    sys.stdin.read()
    for child in children:
        if child.poll() is None:
            child.kill()
    os._exit(1)


def main():
    command, *arguments = sys.argv[1:]
    if command in ("member", "quota", "cluster"):
        threading.Thread(target=end_with_stdin, daemon=True).start()
    try:
        result = {"rows": lambda *a: rows(a), "requests": requests, "member": member, "quota": quota, "cluster": cluster}[command](*arguments)
    finally:
        for child in children:
            child.kill()
            child.wait()
    json.dump(result, sys.stdout)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
