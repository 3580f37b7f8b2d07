#!/usr/bin/env python3
"""Counts what pages of /metrics tell a second time, for tests to compare with `plimsoll traffic`.

    metrics.py SOURCE... [--by verb,resource] [--where 'verb=list']...
    metrics.py --samples FILE...

    metrics.py --many 'verb,resource;verb where verb=list;…' SOURCE...

SOURCE: a bundle, a folder of pages, a page; plain, gzip or zstd (needs the modules prometheus_client and zstandard).
--many prints what all of these come to, in one run: {"breakdowns": {"BY where CONDITION where …": {…}}}. The rules are sections 1 to 4 and 7 of docs/metrics.md, written down here as plainly as possible and without a look at
the Rust. Lines are read by prometheus_client. Prints {"window", "totals", "glance", "tables", "rows"}; nothing is rounded.
Where docs/metrics.md leaves something open, a comment that begins with `Open:` says what is taken here.

--samples prints, for each page, the number of its series and a checksum of them. The checksum is MD5, in hex, of all
series of the page, each written as below and followed by \\n, sorted by bytes:

    NAME, then for each label, sorted by its name: \\x00 LABEL \\x01 VALUE, then \\x00 BITS

all in UTF-8, escapes undone, without blanks between the parts. BITS are the 64 bits of the value as a float64, as 16 small
hex digits from the highest; any NaN is 7ff8000000000000. Name and labels are as on the page (an empty label is kept, `le`
and `quantile` are text). Times and exemplars are left out; of a series that is there twice, the first counts.
"""
import argparse
import gzip
import hashlib
import io
import json
import math
import os
import re
import statistics
import struct
import sys
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cached_property

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from remembered import parse_text

# ---------------------------------------------------------------- which metrics, and their earlier names: section 7

HISTOGRAMS = {  # name -> earlier names
    "apiserver_request_duration_seconds": ["apiserver_request_latencies"],
    "apiserver_request_sli_duration_seconds": ["apiserver_request_slo_duration_seconds"],
    "apiserver_response_sizes": [],
    "apiserver_watch_events_sizes": [],
    "apiserver_flowcontrol_request_wait_duration_seconds": [],
    "apiserver_flowcontrol_request_execution_seconds": [],
    "apiserver_admission_webhook_admission_duration_seconds": [],
}
TELLING = ["process_cpu_seconds_total", "go_memstats_mallocs_total", "go_memstats_alloc_bytes_total",
           "process_network_receive_bytes_total"]  # section 2.1
METRICS = {
    "process_start_time_seconds": [],
    **{name: [] for name in TELLING},
    "kubernetes_build_info": [],
    "apiserver_request_total": ["apiserver_request_count"],
    "apiserver_longrunning_requests": ["apiserver_longrunning_gauge"],
    "apiserver_current_inflight_requests": [],
    "apiserver_flowcontrol_dispatched_requests_total": [],
    "apiserver_flowcontrol_rejected_requests_total": [],
    "apiserver_flowcontrol_current_executing_requests": [],
    "apiserver_flowcontrol_current_inqueue_requests": [],
    "apiserver_flowcontrol_current_executing_seats": ["apiserver_flowcontrol_request_concurrency_in_use"],
    "apiserver_flowcontrol_current_limit_seats": [],
    "apiserver_flowcontrol_nominal_limit_seats": ["apiserver_flowcontrol_request_concurrency_limit"],
    "apiserver_watch_events_total": [],
    "apiserver_resource_objects": ["apiserver_storage_objects", "etcd_object_counts"],
    "apiserver_resource_size_estimate_bytes": [],
    "apiserver_storage_size_bytes": ["apiserver_storage_db_total_size_in_bytes", "etcd_db_total_size_in_bytes"],
    "etcd_mvcc_db_total_size_in_bytes": [],
    "etcd_mvcc_db_total_size_in_use_in_bytes": [],
    "etcd_server_quota_backend_bytes": [],
    "watch_cache_capacity": [],
    "apiserver_watch_cache_initializations_total": ["apiserver_watch_cache_watch_cache_initializations_total"],
    "apiserver_watch_cache_events_received_total": [],
    "apiserver_watch_cache_consistent_read_total": [],
    "apiserver_terminated_watchers_total": [],
    "apiserver_cache_list_total": [],
    "apiserver_cache_list_fetched_objects_total": [],
    "apiserver_storage_list_total": [],
    "apiserver_storage_list_fetched_objects_total": [],
    "apiserver_admission_webhook_rejection_count": [],
    "apiserver_admission_webhook_fail_open_count": [],
    **{f"{name}_{part}": [f"{old}_{part}" for old in earlier]
       for name, earlier in HISTOGRAMS.items() for part in ("bucket", "sum", "count")},
}
COUNTED = {"apiserver_admission_webhook_rejection_count", "apiserver_admission_webhook_fail_open_count"}
GAUGES = {name for name in METRICS if not name.endswith(("_total", "_bucket", "_sum", "_count"))}
OF_STORAGE = {name for name in METRICS if name.startswith(
    ("apiserver_resource_", "apiserver_watch_events", "apiserver_watch_cache", "watch_cache", "apiserver_cache_list",
     "apiserver_storage_list"))}
LABELS = {"requestKind": "request_kind", "priorityLevel": "priority_level", "flowSchema": "flow_schema", "gitVersion": "git_version"}
PREFIXES = {"minions": "nodes", "services/specs": "services", "services/endpoints": "endpoints",
            "controllers": "replicationcontrollers", "ingress": "ingresses"}  # of keys in etcd
GROUPS = {resource: group for group, resources in {  # of Kubernetes' own resources outside of the core
    "admissionregistration.k8s.io": "mutatingwebhookconfigurations validatingwebhookconfigurations validatingadmissionpolicies"
                                    " validatingadmissionpolicybindings mutatingadmissionpolicies mutatingadmissionpolicybindings",
    "apiextensions.k8s.io": "customresourcedefinitions",
    "apiregistration.k8s.io": "apiservices",
    "apps": "controllerrevisions daemonsets deployments replicasets statefulsets",
    "autoscaling": "horizontalpodautoscalers",
    "batch": "cronjobs jobs",
    "certificates.k8s.io": "certificatesigningrequests clustertrustbundles podcertificaterequests",
    "coordination.k8s.io": "leases leasecandidates",
    "discovery.k8s.io": "endpointslices",
    "flowcontrol.apiserver.k8s.io": "flowschemas prioritylevelconfigurations",
    "internal.apiserver.k8s.io": "storageversions",
    "networking.k8s.io": "ingressclasses ingresses ipaddresses networkpolicies servicecidrs",
    "node.k8s.io": "runtimeclasses",
    "policy": "poddisruptionbudgets",
    "rbac.authorization.k8s.io": "clusterrolebindings clusterroles rolebindings roles",
    "resource.k8s.io": "deviceclasses resourceclaims resourceclaimtemplates resourceslices",
    "scheduling.k8s.io": "priorityclasses",
    "storage.k8s.io": "csidrivers csinodes csistoragecapacities storageclasses volumeattachments volumeattributesclasses",
    "storagemigration.k8s.io": "storageversionmigrations",
}.items() for resource in resources.split()}


def plural(kind):
    """A kind's resource, as Kubernetes guesses it."""
    word = kind.lower()
    if word == "endpoints":
        return word
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "ch", "sh")) else "s")


def today(name, labels):
    """The labels under their names of today."""
    labels = {LABELS.get(k, k) if LABELS.get(k) not in labels else k: v for k, v in labels.items()}
    if name not in OF_STORAGE or "group" in labels and "resource" in labels:
        return labels
    if "group" in labels and "kind" in labels:
        return labels | {"resource": plural(labels["kind"])}
    text = labels.get("resource") or labels.get("resource_prefix") or labels.get("type") or labels.get("kind") or ""
    if text.startswith("/"):
        first, _, rest = text[1:].partition("/")
        if "." in first and rest:
            group, resource = first, rest
        else:
            resource = PREFIXES.get(text[1:], text[1:])
            group = GROUPS.get(resource, "")
    elif text.startswith("*"):
        package, _, kind = text[1:].partition(".")
        resource = plural(kind)
        group = GROUPS.get(resource, "")
        if kind == "Unstructured":  # Open: custom resources have no other name there. Here it is kept.
            resource, group = text, ""
    else:
        resource, _, group = text.partition(".")
    return labels | {"group": group, "resource": resource}


# ---------------------------------------------------------------- one page

def read_text(path):
    with open(path, "rb") as f:
        data = f.read()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    elif data[:4] == b"\x28\xb5\x2f\xfd":
        import zstandard
        data = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True).read()
    return data.decode()


def samples(text):
    """Name, labels, value, time (or None) of every sample. The parser appends `_total` to counters; not to gauges."""
    text = re.sub(r"(?m)^([^#\n].*[ \t}])-0((?:[ \t]+-?\d+)?[ \t\r]*)$", r"\1-0.0\2", text)  # it would read 0
    if text.rstrip().endswith("# EOF"):
        families = parse_openmetrics(text)
    else:
        families = parse_text(re.sub(r"(?m)^([ \t]*#[ \t]*TYPE[ \t]+\S+[ \t]+)counter[ \t\r]*$", r"\1gauge", text))
    for family in families:
        for sample in family.samples:
            yield sample.name, sample.labels, float(sample.value), sample.timestamp


STAMP = re.compile(r"(?:^|.*[-_])(?:(?P<s>\d{9,11}(?:\.\d+)?)|(?P<ms>\d{13})|"
                   r"(?P<date>\d{4}-\d\d-\d\d)[Tt](?P<h>\d\d)[:-](?P<m>\d\d)[:-](?P<sec>\d\d(?:\.\d+)?)"
                   r"(?P<zone>[Zz]|[+-]\d\d[:-]\d\d))")


def micros(seconds):
    return round(Decimal(seconds) * 1_000_000)


def time_in_name(path):
    """Microseconds since 1970, as all times here: a float would be too coarse."""
    name = re.split(r"\.(?:txt|prom|metrics|om|gz|zst)", os.path.basename(path))[0]
    match = STAMP.fullmatch(name)
    if not match:
        return None
    if match["s"]:
        return micros(match["s"])
    if match["ms"]:
        return int(match["ms"]) * 1000
    zone = "+00:00" if match["zone"] in "Zz" else match["zone"][:3] + ":" + match["zone"][4:]
    minute = datetime.fromisoformat(f"{match['date']}T{match['h']}:{match['m']}:00{zone}")
    return micros(int(minute.timestamp())) + micros(match["sec"])


class Page:
    """`values`: name of today -> {labels: value}."""

    def __init__(self, path):
        read = {}
        latest = None
        names = "|".join(n for name, earlier in METRICS.items() for n in [name, *earlier])
        wanted = re.compile(rf'\s*(?:#\s*\w+\s+)?\{{?\s*"?(?:{names})')
        text = read_text(path)
        if not text.rstrip().endswith("# EOF"):  # to be quicker: the lines that matter, and any that give a time
            text = "".join(line + "\n" for line in text.split("\n")
                           if wanted.match(line) or line.count(" ") > 1 and re.search(r" -?\d{10,}\s*$", line))
        openmetrics = text.rstrip().endswith("# EOF")
        for name, labels, value, at in samples(text):
            short = name.removesuffix("_total")
            if openmetrics and short != name and (short in COUNTED or short == "apiserver_request_count"):
                name = short
            if at is not None:
                latest = max(micros(float(at)), latest or 0)
            read.setdefault(name, {}).setdefault(tuple(sorted(labels.items())), value)
        self.values = {}
        for name, earlier in METRICS.items():
            for found in [name, *earlier]:
                if found in read:  # of several, the first
                    scale = 1e-6 if found.startswith("apiserver_request_latencies") else 1
                    self.values[name] = values = {}
                    for labels, value in read[found].items():
                        labels = today(name, dict(labels))
                        if scale != 1 and "le" in labels:
                            labels["le"] = repr(float(labels["le"]) * scale)
                        key = tuple(sorted(labels.items()))
                        values.setdefault(key, value * scale if name.endswith("_sum") else value)
                    break
        self.path = path
        self.time = time_in_name(path) or latest or os.stat(path).st_mtime_ns // 1000
        starts = self.values.get("process_start_time_seconds")
        self.start = micros(next(iter(starts.values()))) if starts else None
        self.telling = {name: sum(self.values[name].values()) for name in TELLING if name in self.values}
        self.version = next((dict(labels).get("git_version", "") for labels in self.values.get("kubernetes_build_info", {})), "")


# ---------------------------------------------------------------- whose page it is: section 1

PLAIN = {"audit", "audits", "log", "logs", "apiserver", "kube-apiserver", "kubernetes", "forms", "damage", "metrics"}


def looks_like_pages(path):
    with open(path, "rb") as f:
        magic = f.read(2)
    return magic in (b"\x1f\x8b", b"\x28\xb5", b"# ") or re.search(r"\.(txt|prom|metrics|om)", os.path.basename(path))


def find_pages(source):
    """(cluster, instance, folder, path) of every page."""
    cluster = ""
    above = os.path.abspath(source)
    while not cluster and above != "/":
        if os.path.exists(os.path.join(above, "bundle.yaml")):
            match = re.search(r"(?m)^cluster: *(\S+)", open(os.path.join(above, "bundle.yaml")).read())
            cluster = match[1] if match else ""
        above = os.path.dirname(above)
    if os.path.isfile(source):
        paths = [source]
        root = os.path.dirname(os.path.abspath(source))
    else:
        root = os.path.abspath(source)
        inner = os.path.join(source, "metrics")
        paths = [os.path.join(folder, name) for folder, _, names in os.walk(inner if os.path.isdir(inner) else source)
                 for name in names if not name.startswith(".")]
        paths = [path for path in paths if looks_like_pages(path)]
    for path in paths:
        folder = os.path.dirname(os.path.abspath(path))
        # Open: `called like the folder (as for audit logs)`. Here: if the folder is below SOURCE or in one with a plain name,
        # and has no plain name itself.
        named = folder != root or os.path.basename(os.path.dirname(folder)) in PLAIN
        instance = os.path.basename(folder)
        yield cluster, instance if named and instance not in PLAIN else "", folder, path


class Process:
    def __init__(self, page):
        self.start, self.pages, self.telling = None, [], {}
        self.add(page)

    def add(self, page):
        self.pages.append(page)
        self.telling |= page.telling
        if self.start is None:
            self.start = page.start

    @property
    def begin(self):
        return self.pages[0].time if self.start is None else min(self.start, self.pages[0].time)

    @property
    def last(self):
        return self.pages[-1].time

    def takes(self, page):
        if page.start is not None and self.start is not None and abs(page.start - self.start) > 2_000_000:
            return False
        # Open: a process of which no page names a start yet, and a page that does. Here it fits if it can: a process is
        # not older than its pages.
        if page.start is not None and self.start is None and page.start > self.pages[0].time + 2_000_000:
            return False
        return all(page.telling.get(name, math.inf) >= value for name, value in self.telling.items())

    def distance(self, page):
        """Open: what is near. Here: the start, then the counters, relative to their values."""
        starts = abs(page.start - self.start) if page.start is not None and self.start is not None else 0
        both = [(value, page.telling[name]) for name, value in self.telling.items() if name in page.telling]
        return starts, sum((b - a) / b for a, b in both if b), -self.last


class Instance:
    """Processes that follow one another."""

    def __init__(self, cluster, name, chain, folder_first):
        self.cluster, self.name, self.chain = cluster, name, chain
        self.pages = [page for process in chain for page in process.pages]
        self.last = self.pages[-1]
        for number, process in enumerate(chain):
            process.from_zero = process.start > folder_first if process.start is not None else number > 0
        self.is_apiserver = any("apiserver_request_total" in page.values for page in self.pages)
        version = next((page.version for page in reversed(self.pages) if page.version), "")
        match = re.match(r"v?1\.(\d+)", version)
        # Labels mean what they meant in this version.
        self.deletes_one = bool(match) and int(match[1]) < 20

    def count(self, in_full):
        """All increases. in_full: there is one page only."""
        self.increases = {}  # name -> {labels: increase}
        self.pieces = []     # (name, labels, from, to, difference)
        first = self.chain[0]
        self.begin = first.begin if first.from_zero or in_full else first.pages[0].time
        self.seconds = (self.last.time - self.begin) / 1e6
        if in_full and first.start is None:
            self.seconds = 0
        before = None
        for process in self.chain:
            known = {}  # (name, labels) -> value, time
            for number, page in enumerate(process.pages):
                for name, values in page.values.items():
                    if name in GAUGES:
                        continue
                    sums = self.increases.setdefault(name, {})
                    for labels, value in values.items():
                        if (name, labels) in known:
                            old, since = known[name, labels]
                            difference = value - old if value >= old else value
                        elif number > 0:
                            difference, since = value, process.pages[number - 1].time
                        elif process.from_zero or in_full:
                            since = process.begin if process.start is not None or before is None else before
                            difference = value
                        else:
                            difference, since = 0, page.time
                        known[name, labels] = value, page.time
                        sums[labels] = sums.get(labels, 0) + difference
                        if difference and name in SPREAD:
                            self.pieces.append((name, labels, since, page.time, difference))
            before = process.last


SPREAD = {"apiserver_request_total", "apiserver_flowcontrol_dispatched_requests_total",
          "apiserver_flowcontrol_rejected_requests_total"}


def instances_of(folder_pages):
    cluster, name, pages = folder_pages
    processes = []
    for page in sorted(pages, key=lambda page: page.time):
        fits = [process for process in processes if process.takes(page)]
        if fits:
            min(fits, key=lambda process: process.distance(page)).add(page)
        else:
            processes.append(Process(page))
    chains = []
    for process in sorted(processes, key=lambda process: process.begin):
        # Open: a process that could continue several. Here: that one which was seen last.
        ended = [chain for chain in chains if chain[-1].last < process.begin + 2_000_000]
        if ended:
            max(ended, key=lambda chain: chain[-1].last).append(process)
        else:
            chains.append([process])
    first = min(page.time for page in pages)
    return [Instance(cluster, name if len(chains) == 1 else f"{name}#{number + 1}", chain, first)
            for number, chain in enumerate(chains)]


# ---------------------------------------------------------------- numbers: section 2

def quantile(q, buckets):
    """Of {upper bound: cumulative count}; as Prometheus' histogram_quantile."""
    bounds = sorted(buckets)
    if len(bounds) < 2 or bounds[-1] != math.inf:
        return None
    counts = []
    for bound in bounds:
        counts.append(max(buckets[bound], counts[-1] if counts else buckets[bound]))
    if not counts[-1] > 0:
        return None
    rank = q * counts[-1]
    at = next((i for i, count in enumerate(counts[:-1]) if count >= rank), len(counts) - 1)
    if at == len(counts) - 1:
        return bounds[-2]
    if at == 0:
        return bounds[0] * rank / counts[0] if bounds[0] > 0 else bounds[0]
    return bounds[at - 1] + (bounds[at] - bounds[at - 1]) * (rank - counts[at - 1]) / (counts[at] - counts[at - 1])


def divide(a, b):
    return None if a is None or not b else a / b


def times(a, factor):
    return None if a is None else a * factor


class Series(dict):
    """Labels, and the instance that has them."""


class Store:
    """All pages. A question names a metric and says which series: a function of their labels (all, if none)."""

    def __init__(self, sources):
        found = sorted(set(page for source in sources for page in find_pages(source)), key=lambda found: found[3])
        folders = {}
        with ProcessPoolExecutor() as pool:
            pages = pool.map(Page, [found[3] for found in found])
            for (cluster, instance, folder, _), page in zip(found, pages):
                folders.setdefault(folder, (cluster, instance, []))[2].append(page)
        self.instances = [instance for folder in folders.values() for instance in instances_of(folder)]
        self.apiservers = [instance for instance in self.instances if instance.is_apiserver]
        self.since_start = all(len(instance.pages) == 1 for instance in self.apiservers or self.instances)
        for instance in self.instances:
            instance.count(self.since_start and len(instance.pages) == 1)

    def has(self, name):
        return any(name in page.values for instance in self.instances for page in instance.pages)

    def series(self, name, which=None):
        """(instance, labels, increase) of every series."""
        for instance in self.instances:
            for key, increase in instance.increases.get(name, {}).items():
                labels = Series(key)
                labels.instance = instance
                if which is None or which(labels):
                    yield instance, labels, increase

    def increase(self, name, which=None):
        """None if the metric is on no page. 0 if it is there and the series is not: a counter begins on first use."""
        return sum(increase for _, _, increase in self.series(name, which)) if self.has(name) else None

    def rate(self, name, which=None):
        if not self.has(name) or not any(instance.seconds > 0 for instance in self.instances):
            return None
        return sum(increase / instance.seconds for instance, _, increase in self.series(name, which) if instance.seconds > 0)

    def buckets(self, name, which=None):
        sums = {}
        for _, labels, increase in self.series(name + "_bucket", which):
            bound = float(labels["le"])
            sums[bound] = sums.get(bound, 0) + increase
        return sums

    def quantile(self, q, name, which=None):
        return quantile(q, self.buckets(name, which))

    def gauges(self, name, which=None):
        """(instance, labels, value) on the last pages."""
        for instance in self.instances:
            for key, value in instance.last.values.get(name, {}).items():
                labels = dict(key)
                if not math.isnan(value) and (which is None or which(labels)):
                    yield instance, labels, value

    def gauge(self, name, which=None, fold=sum):
        values = [value for _, _, value in self.gauges(name, which)]
        return fold(values) if values else None

    @cached_property
    def slot(self):
        """Length of a slot, in microseconds."""
        distances = [b.time - a.time for instance in self.apiservers for a, b in zip(instance.pages, instance.pages[1:])]
        return statistics.median_high(distances) if distances else None

    def peak(self, pieces):
        """Of (from, to, difference)."""
        if not self.slot:
            return None
        origin = min(instance.pages[0].time for instance in self.apiservers)
        slots = {}
        for begin, end, difference in pieces:
            begin, end = begin - origin, end - origin
            at = begin // self.slot
            while at * self.slot < end:
                inside = min(end, (at + 1) * self.slot) - max(begin, at * self.slot)
                slots[at] = slots.get(at, 0) + difference * inside / (end - begin)
                at += 1
        return max(slots.values(), default=0) / self.slot * 1e6


# ---------------------------------------------------------------- traffic: section 3

VERBS = {"POST": "create", "PUT": "update", "APPLY": "patch", "WATCHLIST": "watch"}
WRITES = {"create", "update", "patch", "delete", "deletecollection"}


def verb_of(labels, instance):
    verb = labels.get("verb", "")
    if not labels.get("resource"):
        return verb.lower()
    if verb == "DELETE":
        return "delete" if labels.get("scope") == "resource" or instance.deletes_one else "deletecollection"
    return VERBS.get(verb, verb.lower())


def scope_of(labels):
    return {"resource": "object", "": "nonresource"}.get(labels.get("scope", ""), labels.get("scope"))


LABEL_DIMS = ("resource", "group", "version", "subresource", "component", "code")
REQUEST_DIMS = ("verb", *LABEL_DIMS, "scope")
APF_DIMS = ("flow_schema", "priority_level")
DIMS = (*REQUEST_DIMS, "instance", "cluster", *APF_DIMS)


def dimension(dim, instance, labels):
    if dim == "instance":
        return instance.name
    if dim == "cluster":
        return instance.cluster
    if dim == "verb":
        return verb_of(labels, instance)
    if dim == "scope":
        return scope_of(labels)
    return labels.get(dim, "")


def code_class(labels):
    code = labels.get("code", "")
    if not code.isdigit():
        return None
    code = int(code)
    if code == 0 or code >= 500:
        return "errors"
    if code == 429:
        return "throttled"
    return "client_errors" if code >= 400 else None


def is_short(labels):
    return labels.get("verb") not in ("WATCH", "WATCHLIST", "CONNECT")


def is_no_watch(labels):
    return labels.get("type") != "watch"


def running_as(labels):
    """Long-running requests: a GET of a resource is a watch of one object."""
    if labels.get("verb") == "GET" and labels.get("resource") and not labels.get("subresource"):
        return labels | {"verb": "WATCH"}
    return labels


class Row:
    def __init__(self):
        self.requests = self.errors = self.client_errors = self.throttled = self.rps = 0
        self.open = None  # until a gauge tells
        self.buckets, self.pieces = {}, []


def traffic(store, by, conditions):
    """Totals and rows."""
    asked = {*by, *(dim for dim, _, _ in conditions)}
    apf = bool(asked & set(APF_DIMS))
    if apf and asked & set(REQUEST_DIMS):
        sys.exit("flow_schema and priority_level do not go with " + " ".join(asked & set(REQUEST_DIMS)))
    counters = (["apiserver_flowcontrol_dispatched_requests_total", "apiserver_flowcontrol_rejected_requests_total"]
                if apf else ["apiserver_request_total"])
    latency = "apiserver_flowcontrol_request_execution_seconds" if apf else "apiserver_request_duration_seconds"
    running = "apiserver_flowcontrol_current_executing_requests" if apf else "apiserver_longrunning_requests"
    with_code = "code" in asked
    rows = {}
    total = Row()

    def place(instance, labels):
        """The rows that a series falls into."""
        for dim, operator, value in conditions:
            of_series = dimension(dim, instance, labels)
            holds = bool(re.search(value, of_series)) if "~" in operator else of_series == value
            if holds == operator.startswith("!"):
                return []
        key = tuple(dimension(dim, instance, labels) for dim in by)
        return [total, rows.setdefault(key, Row())]

    for name in counters:
        for instance, labels, increase in store.series(name):
            for row in place(instance, labels):
                row.requests += increase
                if instance.seconds > 0:
                    row.rps += increase / instance.seconds
                kind = ("throttled" if "rejected" in name else None) if apf else code_class(labels)
                if kind:
                    setattr(row, kind, getattr(row, kind) + increase)
        for instance in store.instances:
            for piece, key, begin, end, difference in instance.pieces:
                if piece == name:
                    for row in place(instance, dict(key)):
                        row.pieces.append((begin, end, difference))
    if not with_code:
        for instance, labels, increase in store.series(latency + "_bucket", is_no_watch if apf else is_short):
            bound = float(labels["le"])
            for row in place(instance, labels):
                row.buckets[bound] = row.buckets.get(bound, 0) + increase
        for instance, labels, value in store.gauges(running):
            for row in place(instance, labels if apf else running_as(labels)):
                row.open = (row.open or 0) + value

    counted = any(store.has(name) for name in counters)
    timed = any(instance.seconds > 0 for instance in store.instances)

    def fields(row):
        requests = row.requests if counted else None
        return {
            "requests": requests,
            "open": row.open,
            "rps": row.rps if counted and timed else None,
            "errors": row.errors if counted and not apf else None,
            "client_errors": row.client_errors if counted and not apf else None,
            "throttled": row.throttled if counted else None,
            "error_rate": divide(row.errors, requests) if not apf else None,
            **{f"p{q}_ms": times(quantile(q / 100, row.buckets), 1000) for q in (50, 90, 99)},
            "peak_rps": store.peak(row.pieces) if counted and not store.since_start else None,
        }

    kept = [dict(zip(by, key)) | fields(row) | {"share": divide(row.requests, total.requests)}
            for key, row in sorted(rows.items()) if row.requests or row.open]
    return fields(total), kept


# ---------------------------------------------------------------- at a glance: section 4

def is_list(labels):
    return labels.get("verb") == "LIST"


def is_watch(labels):
    return running_as(labels).get("verb") in ("WATCH", "WATCHLIST")


def failed(labels):
    return code_class(labels) == "errors"


def throttled(labels):
    return code_class(labels) == "throttled"


def objects(store, name):
    """(group, resource) -> the largest of the instances."""
    largest = {}
    for _, labels, value in store.gauges(name):
        if value >= 0:
            key = labels["group"], labels["resource"]
            largest[key] = max(value, largest.get(key, value))
    return largest


def either(store, *names):
    return next((name for name in names if any(True for _ in store.gauges(name))), names[0])


def glance(store):
    requests = "apiserver_request_total"
    duration = "apiserver_request_duration_seconds"

    def latency(verbs):
        def which(labels):
            return bool(labels.get("resource")) and verb_of(labels, labels.instance) in verbs
        return {f"p{q}_ms": times(store.quantile(q / 100, duration, which), 1000) for q in (50, 99)}

    def inflight(kind):
        return store.gauge("apiserver_current_inflight_requests", lambda labels: labels.get("request_kind") == kind)

    size = "etcd_mvcc_db_total_size_in_bytes"
    limit = either(store, "apiserver_flowcontrol_current_limit_seats", "apiserver_flowcontrol_nominal_limit_seats")
    starts = [instance.chain[-1].start for instance in store.apiservers if instance.chain[-1].start is not None]
    counts = objects(store, "apiserver_resource_objects")
    return {
        "qps": store.rate(requests),
        "error_rate": divide(store.increase(requests, failed), store.increase(requests)),
        "throttled": store.increase(requests, throttled),
        "throttled_per_s": store.rate(requests, throttled),
        "latency": {"get": latency({"get"}), "list": latency({"list"}), "write": latency(WRITES)},
        "inflight": {"read_only": inflight("readOnly"), "mutating": inflight("mutating")},
        "inflight_limit": store.gauge("apiserver_flowcontrol_nominal_limit_seats"),
        "seats": {"in_use": store.gauge("apiserver_flowcontrol_current_executing_seats"), "limit": store.gauge(limit)},
        "watches": store.gauge("apiserver_longrunning_requests", is_watch),
        "watch_events_per_s": store.rate("apiserver_watch_events_total"),
        "watch_bytes_per_s": store.rate("apiserver_watch_events_sizes_sum"),
        "list_bytes_per_s": store.rate("apiserver_response_sizes_sum", is_list),
        "list_size": {f"p{q}_bytes": store.quantile(q / 100, "apiserver_response_sizes", is_list) for q in (50, 99)},
        "objects": sum(counts.values()) if counts else None,
        "watch_cache": {
            "capacity": store.gauge("watch_cache_capacity"),
            "initializations": store.increase("apiserver_watch_cache_initializations_total"),
            "terminated_watchers": store.increase("apiserver_terminated_watchers_total"),
            "fallbacks": store.increase("apiserver_watch_cache_consistent_read_total",
                                        lambda labels: labels.get("fallback") == "true"),
        },
        "storage": {
            "bytes": store.gauge(either(store, size, "apiserver_storage_size_bytes"), fold=max),
            "in_use_bytes": store.gauge("etcd_mvcc_db_total_size_in_use_in_bytes", fold=max),
            "quota_bytes": store.gauge("etcd_server_quota_backend_bytes", fold=min),
        },
        "oldest_start": min(starts) / 1e6 if starts else None,
        "restarts": sum(len(instance.chain) - 1 for instance in store.apiservers),
    }


def keys(store, dims, counters, gauges):
    """Values of the dims of all series that counted something, or that a last page has."""
    found = {tuple(labels.get(dim, "") for dim in dims)
             for name, which in counters for _, labels, increase in store.series(name, which) if increase}
    found |= {tuple(labels.get(dim, "") for dim in dims)
              for name, which in gauges for _, labels, _ in store.gauges(name, which)}
    return sorted(found)


def priority_levels(store):
    apf = "apiserver_flowcontrol_"
    rows = []
    for level, in keys(store, ["priority_level"],
                       [(apf + "dispatched_requests_total", None), (apf + "rejected_requests_total", None)],
                       [(apf + "current_executing_seats", None), (apf + "current_limit_seats", None),
                        (apf + "nominal_limit_seats", None), (apf + "current_executing_requests", None),
                        (apf + "current_inqueue_requests", None)]):
        def here(labels):
            return labels.get("priority_level") == level

        def waited(labels):
            return here(labels) and labels.get("execute") == "true"
        seats = store.gauge(apf + "current_executing_seats", here)
        limit = store.gauge(either(store, apf + "current_limit_seats", apf + "nominal_limit_seats"), here)
        rows.append({
            "priority_level": level, "seats": seats, "limit": limit,
            "nominal": store.gauge(apf + "nominal_limit_seats", here), "utilization": divide(seats, limit),
            "executing": store.gauge(apf + "current_executing_requests", here),
            "queued": store.gauge(apf + "current_inqueue_requests", here),
            "dispatched_per_s": store.rate(apf + "dispatched_requests_total", here),
            "rejected": store.increase(apf + "rejected_requests_total", here),
            **{f"wait_p{q}_ms": times(store.quantile(q / 100, apf + "request_wait_duration_seconds", waited), 1000)
               for q in (50, 99)},
        })
    return rows


def object_table(store):
    counts = objects(store, "apiserver_resource_objects")
    sizes = objects(store, "apiserver_resource_size_estimate_bytes")
    return [{"group": key[0], "resource": key[1], "objects": counts.get(key), "bytes": sizes.get(key)}
            for key in sorted({*counts, *sizes}) if counts.get(key) or sizes.get(key)]  # Open: whether empty ones are there.


def lists(store):
    rows = []
    for group, resource in keys(store, ["group", "resource"], [("apiserver_request_total", is_list)], []):
        def here(labels):
            return labels.get("group", "") == group and labels.get("resource", "") == resource

        def listed(labels):
            return here(labels) and is_list(labels)
        fetched = [store.increase(f"apiserver_{where}_list_fetched_objects_total", here) for where in ("cache", "storage")]
        rows.append({
            "group": group, "resource": resource,
            "lists_per_s": store.rate("apiserver_request_total", listed),
            "bytes_per_s": store.rate("apiserver_response_sizes_sum", listed),
            "p99_bytes": store.quantile(0.99, "apiserver_response_sizes", listed),
            "p99_ms": times(store.quantile(0.99, "apiserver_request_duration_seconds", listed), 1000),
            "cache_per_s": store.rate("apiserver_cache_list_total", here),
            "etcd_objects_per_s": store.rate("apiserver_storage_list_fetched_objects_total", here),
            "fetched_per_list": None if fetched == [None, None] else
            divide(sum(value or 0 for value in fetched), store.increase("apiserver_request_total", listed)),
        })
    return rows


def watches(store):
    rows = []
    received, sent = "apiserver_watch_cache_events_received_total", "apiserver_watch_events_total"
    running, capacity = "apiserver_longrunning_requests", "watch_cache_capacity"
    for group, resource in keys(store, ["group", "resource"], [(sent, None), (received, None)], [(running, is_watch)]):
        def here(labels):
            return labels.get("group", "") == group and labels.get("resource", "") == resource
        came, went = store.rate(received, here), store.rate(sent, here)
        histories = []
        for instance in store.instances:
            size = [value for of, _, value in store.gauges(capacity, here) if of is instance]
            events = sum(increase for of, _, increase in store.series(received, here) if of is instance)
            if size and events and instance.seconds > 0:
                histories.append(sum(size) / (events / instance.seconds))
        watchers = store.gauge(running, lambda labels: here(labels) and is_watch(labels))
        if not (watchers or came or went):
            continue
        rows.append({
            "group": group, "resource": resource, "watchers": watchers, "events_in_per_s": came, "events_out_per_s": went,
            "bytes_out_per_s": store.rate("apiserver_watch_events_sizes_sum", here), "fan_out": divide(went, came),
            "capacity": store.gauge(capacity, here), "history_s": min(histories, default=None),
        })
    return rows


def webhooks(store):
    hook = "apiserver_admission_webhook_"
    rows = []
    for name, kind, operation in keys(store, ["name", "type", "operation"],
                                      [(hook + "admission_duration_seconds_count", None), (hook + "rejection_count", None)], []):
        def named(labels):
            return labels.get("name") == name and labels.get("type") == kind

        def here(labels):
            return named(labels) and labels.get("operation", "") == operation
        rows.append({
            "name": name, "type": kind, "operation": operation,
            "calls_per_s": store.rate(hook + "admission_duration_seconds_count", here),
            **{f"p{q}_ms": times(store.quantile(q / 100, hook + "admission_duration_seconds", here), 1000) for q in (50, 99)},
            "rejections": store.increase(hook + "rejection_count", here),
            "failed_open": store.increase(hook + "fail_open_count", named),
        })
    return rows


def slo(store):
    requests, sli = "apiserver_request_total", "apiserver_request_sli_duration_seconds"
    rows = []
    if not store.has(sli + "_count"):
        return rows
    for name, verbs, scope, bound in (("write", WRITES, None, 1), ("read-object", {"get", "list"}, "object", 1),
                                      ("read-namespace", {"get", "list"}, "namespace", 30),
                                      ("read-cluster", {"get", "list"}, "cluster", 30)):
        def here(labels):
            return (bool(labels.get("resource")) and verb_of(labels, labels.instance) in verbs
                    and scope in (None, scope_of(labels))
                    and labels.get("subresource", "") not in ("proxy", "exec", "attach", "log", "portforward"))
        count = store.increase(requests, here)
        buckets = store.buckets(sli, here)
        # Nothing was slow where nothing was asked for.
        slow = store.increase(sli + "_count", here) - buckets[bound] if bound in buckets else None if buckets else 0
        errors = store.increase(requests, lambda labels: here(labels) and failed(labels))
        bad = divide(None if slow is None or errors is None else slow + errors, count)
        rows.append({"class": name, "bound_s": bound, "requests": count, "slow": slow, "errors": errors,
                     "good_share": None if bad is None else 1 - bad, "burn_rate": times(bad, 100)})
    return rows


# ---------------------------------------------------------------- what is printed

def rfc3339(at):
    return (datetime(1970, 1, 1) + timedelta(microseconds=at)).isoformat(timespec="microseconds") + "Z"


def checksum(path):
    series = {}
    for name, labels, value, _ in samples(read_text(path)):
        text = name + "".join(f"\0{k}\1{v}" for k, v in sorted(labels.items()))
        bits = "7ff8000000000000" if math.isnan(value) else struct.pack(">d", value).hex()
        series.setdefault(text.encode(), bits.encode())
    lines = sorted(name + b"\0" + bits + b"\n" for name, bits in series.items())
    return {"path": path, "samples": len(lines), "checksum": hashlib.md5(b"".join(lines)).hexdigest()}


def parsed(by, where):
    """Dims, and conditions as (dim, operator, value)."""
    by = by.split(",") if by else []
    conditions = []
    for text in where:
        match = re.fullmatch(r"([a-z_]+)(==|=~|!=|!~|=)(.*)", text)
        if not match:
            sys.exit(f"metrics.py: no condition: {text}")
        conditions.append(match.groups())
    for dim in [*by, *(dim for dim, _, _ in conditions)]:
        if dim not in DIMS:
            sys.exit(f"metrics.py: no dimension {dim}; there are: {' '.join(DIMS)}")
    return by, conditions


def report(store, by, conditions, more):
    totals, rows = traffic(store, by, conditions)
    shown = store.apiservers or store.instances
    begin, end = min(instance.begin for instance in shown), max(instance.last.time for instance in shown)
    return {
        "window": {"from": rfc3339(begin), "to": rfc3339(end), "seconds": (end - begin) / 1e6},
        "since_start": store.since_start,
        "instances": [{"cluster": instance.cluster, "instance": instance.name, "pages": len(instance.pages),
                       "processes": len(instance.chain), "seconds": instance.seconds} for instance in store.instances],
        "totals": totals, **more, "rows": rows,
    }


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--by", default="verb,resource")
    arguments.add_argument("--where", action="append", default=[], metavar="DIM=VALUE")
    arguments.add_argument("--many")
    arguments.add_argument("--samples", action="store_true")
    arguments.add_argument("sources", nargs="+", metavar="SOURCE")
    args = arguments.parse_args()
    if args.samples:
        with ProcessPoolExecutor() as pool:
            json.dump(list(pool.map(checksum, args.sources)), sys.stdout, indent=1)
        print()
        return
    store = Store(args.sources)
    if not store.instances:
        sys.exit("metrics.py: no pages in " + " ".join(args.sources))
    more = {"glance": glance(store),
            "tables": {"priority_levels": priority_levels(store), "objects": object_table(store), "lists": lists(store),
                       "watches": watches(store), "webhooks": webhooks(store), "slo": slo(store)}}
    if args.many:
        asked = {text: text.split(" where ") for text in args.many.split(";")}
        answer = {"breakdowns": {text: report(store, *parsed(by, where), more) for text, (by, *where) in asked.items()}}
    else:
        answer = report(store, *parsed(args.by, args.where), more)
    json.dump(answer, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
