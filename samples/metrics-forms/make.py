#!/usr/bin/env python3
"""Writes the folders beside it: two pages of metrics as nine versions of Kubernetes would have written them, and one in other notations.

    python3 samples/metrics-forms/make.py  (needs the module zstandard)

All pages come from two of samples/quiet's apiserver-0, 120 seconds apart, cut down to the families in `versions`. README.md says what every version
has and lacks, and where that is known from. expected.json has what must come out of them. Everything is deterministic.
"""
import json
import math
import pathlib
import shutil

import zstandard

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent / "quiet" / "metrics" / "apiserver-0"
TIMES = (1795167787, 1795167907)
FORMS = {"v1.13-names": 13, "v1.16": 16, "v1.20": 20, "v1.22": 22, "v1.25": 25, "v1.27": 27, "v1.30": 30, "v1.33": 33, "v1.36": 36}

# ---------------------------------------------------------------- reading a page, writing a page


def source(time):
    return zstandard.ZstdDecompressor().stream_reader(open(SOURCE / f"{time}.txt.zst", "rb")).read().decode()


def split_labels(text):
    """`a="x",b="y\\n"` as a list of pairs, unescaped."""
    out, i = [], 0
    while i < len(text):
        name, i = text[i:text.index("=", i)], text.index("=", i) + 2
        value = []
        while text[i] != '"':
            if text[i] == "\\":
                i += 1
                value.append({"n": "\n"}.get(text[i], text[i]))
            else:
                value.append(text[i])
            i += 1
        out.append((name, "".join(value)))
        i += 1
        if text[i:i + 1] == ",":
            i += 1
    return out


def parse(text):
    """{family: (type, help, [(sample name, labels, value)])}"""
    families, helps, family = {}, {}, None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            _, _, name, help_text = line.split(" ", 3)
            helps[name] = help_text
        elif line.startswith("# TYPE "):
            _, _, family, kind = line.split(" ")
            families[family] = (kind, helps[family], [])
        elif "{" in line:
            name, rest = line.split("{", 1)
            labels, value = rest.rsplit("} ", 1)
            families[family][2].append((name, dict(split_labels(labels)), float(value)))
        else:
            name, value = line.split(" ")
            families[family][2].append((name, {}, float(value)))
    return families


def number(value):
    """As Go's %g, which the page is written with."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    sign, digits, exponent = "-" if value < 0 else "", *mantissa(abs(value))
    if exponent < -4 or exponent >= 6:
        return f"{sign}{digits[0]}{'.' + digits[1:] if len(digits) > 1 else ''}e{'-' if exponent < 0 else '+'}{abs(exponent):02}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    whole = digits[:exponent + 1].ljust(exponent + 1, "0")
    return sign + whole + ("." + digits[exponent + 1:] if len(digits) > exponent + 1 else "")


def mantissa(value):
    """The shortest digits that are this float, and the exponent of the first."""
    head, _, power = f"{value!r}".partition("e")
    whole, _, fraction = head.partition(".")
    digits = (whole + fraction).lstrip("0")
    exponent = (len(whole) - 1 if whole.strip("0") else -(len(fraction) - len(fraction.lstrip("0"))) - 1) + int(power or 0)
    return digits.rstrip("0") or "0", exponent


def quote(value):
    return '"' + value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"') + '"'


def pairs(labels):
    """In the order of the names, `le` and `quantile` last."""
    return sorted(labels.items(), key=lambda p: (p[0] in ("le", "quantile"), p[0]))


def write_line(name, labels, value):
    text = ",".join(f"{k}={quote(v)}" for k, v in pairs(labels))
    return f"{name}{{{text}}} {number(value)}" if labels else f"{name} {number(value)}"


def write_page(families):
    out = []
    for name in sorted(families):
        kind, help_text, samples = families[name]
        out += [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"]
        out += [write_line(*sample) for sample in samples]
    return "\n".join(out) + "\n"


# ---------------------------------------------------------------- families: change names, labels, units


def by_series(samples):
    """A histogram or summary: {labels without le, quantile: ({bound: value}, sum, count)}"""
    series = {}
    for name, labels, value in samples:
        bound = labels.get("le", labels.get("quantile"))
        key = tuple(p for p in pairs(labels) if p[0] not in ("le", "quantile"))
        bounds = series.setdefault(key, [{}, 0.0, 0.0])
        if bound is not None:
            bounds[0][float(bound)] = value
        elif name.endswith("_sum"):
            bounds[1] = value
        else:
            bounds[2] = value
    return series


def rebucket(buckets, bounds):
    """The same observations in other buckets: where a bound is new, spread evenly within the old bucket, rounded down."""
    old = sorted(buckets.items())
    out = {}
    for bound in bounds:
        if bound in buckets:
            out[bound] = buckets[bound]
            continue
        below, above = (0.0, 0.0), None
        for item in old:
            if item[0] < bound:
                below = item
            elif above is None:
                above = item
        share = 0 if math.isinf(above[0]) else (bound - below[0]) / (above[0] - below[0])
        out[bound] = math.floor(below[1] + share * (above[1] - below[1]) + 1e-9)
    out[math.inf] = buckets[math.inf]
    return out


def ordered(items):
    """Series as a registry gathers them: by their label values in the order of the label names."""
    return sorted(items, key=lambda item: [v for _, v in item[0]])


def scalar(family, name, relabel=None, kind=None, merge=sum, help_text=None):
    """A counter or gauge under another name. `relabel` gives the new labels, or None for a series that goes."""
    merged = {}
    for _, labels, value in family[2]:
        labels = relabel(dict(labels)) if relabel else labels
        if labels is not None:
            merged.setdefault(tuple(sorted(labels.items())), []).append(value)
    return (kind or family[0], help_text or family[1], [(name, dict(k), float(merge(v))) for k, v in ordered(merged.items())])


def histogram(family, name, relabel=None, bounds=None, scale=1.0, help_text=None):
    merged = {}
    for key, (buckets, total, count) in by_series(family[2]).items():
        labels = relabel(dict(key)) if relabel else dict(key)
        if labels is None:
            continue
        if bounds:
            buckets = rebucket(buckets, bounds)
        into = merged.setdefault(tuple(sorted(labels.items())), [{}, 0.0, 0.0])
        for bound, value in buckets.items():
            into[0][bound] = into[0].get(bound, 0.0) + value
        into[1] += total
        into[2] += count
    samples = []
    for key, (buckets, total, count) in ordered(merged.items()):
        labels = dict(key)
        for bound, value in sorted(buckets.items()):
            samples.append((name + "_bucket", {**labels, "le": number(bound * scale)}, value))
        samples += [(name + "_sum", labels, total * scale), (name + "_count", labels, count)]
    return ("histogram", help_text or family[1], samples)


def summary(family, name, help_text):
    """Quantiles of a histogram, linear within its buckets."""
    samples = []
    for key, (buckets, total, count) in by_series(family[2]).items():
        labels, bounds = dict(key), sorted(buckets.items())
        for q in (0.5, 0.9, 0.99):
            value = math.nan
            if count:
                rank, below = q * count, (0.0, 0.0)
                for bound in bounds:
                    if bound[1] >= rank:
                        value = below[0] if math.isinf(bound[0]) else \
                            below[0] + (bound[0] - below[0]) * (rank - below[1]) / (bound[1] - below[1])
                        break
                    below = bound
            samples.append((name, {**labels, "quantile": number(q)}, float(round(value)) if value == value else value))
        samples += [(name + "_sum", labels, total), (name + "_count", labels, count)]
    return ("summary", help_text, samples)


# ---------------------------------------------------------------- what the versions say

CLUSTER_SCOPED = set("""namespaces nodes persistentvolumes customresourcedefinitions apiservices mutatingadmissionpolicies
    mutatingadmissionpolicybindings mutatingwebhookconfigurations validatingadmissionpolicies validatingadmissionpolicybindings
    validatingwebhookconfigurations certificatesigningrequests flowschemas prioritylevelconfigurations ingressclasses ipaddresses servicecidrs
    runtimeclasses clusterrolebindings clusterroles deviceclasses resourceslices priorityclasses csidrivers csinodes storageclasses
    volumeattachments volumeattributesclasses tokenreviews subjectaccessreviews selfsubjectreviews""".split())
CUSTOM_GROUPS = {"batch.example.com", "platform.example.com", "wgpolicyk8s.io"}
KINDS = """ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolumeClaim PersistentVolume Pod PodTemplate
    ReplicationController ResourceQuota Secret ServiceAccount Service MutatingAdmissionPolicy MutatingAdmissionPolicyBinding
    MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration
    CustomResourceDefinition APIService ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet HorizontalPodAutoscaler CronJob Job
    JobSet CertificateSigningRequest Lease EndpointSlice FlowSchema PriorityLevelConfiguration IngressClass Ingress IPAddress NetworkPolicy
    ServiceCIDR RuntimeClass PinterestService PodDisruptionBudget ClusterRoleBinding ClusterRole RoleBinding Role DeviceClass ResourceClaim
    ResourceClaimTemplate ResourceSlice PriorityClass CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment
    VolumeAttributesClass PolicyReport""".split()


def plural(kind):
    kind = kind.lower()
    if kind == "endpoints":
        return kind
    if kind.endswith("y"):
        return kind[:-1] + "ies"
    return kind + ("es" if kind.endswith("s") else "s")


KIND_OF = {plural(kind): kind for kind in KINDS}
PREFIXES = {"replicationcontrollers": "controllers", "nodes": "minions", "services": "services/specs", "endpoints": "services/endpoints",
            "ingresses": "ingress"}
# requests in seconds: 1.14, 1.23, 1.25 on
BOUNDS_14 = [.05, .1, .15, .2, .25, .3, .35, .4, .45, .5, .6, .7, .8, .9, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10,
             15, 20, 25, 30, 40, 50, 60]
BOUNDS_23 = [.05, .1, .2, .4, .6, .8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60]
BOUNDS_FLOW = [0, .005, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30]  # up to 1.27; 15 came in 1.28 or later
BOUNDS_MICROS = [.125 * 2 ** i for i in range(7)]


def joined(labels):
    """RESOURCE.GROUP, as schema.GroupResource prints it"""
    return labels["resource"] + ("." + labels["group"] if labels["group"] else "")


def go_type(labels):
    """The internal Go type, as watch cache metrics up to 1.25 have it"""
    if labels["group"] in CUSTOM_GROUPS:
        return "*unstructured.Unstructured"
    package = labels["group"].split(".")[0] or "core"
    return f"*{package}.{KIND_OF[labels['resource']]}"


def prefix(labels):
    """The resource's key prefix in the cache; that of custom resources, CRDs and APIServices has the group"""
    group, resource = labels["group"], labels["resource"]
    if group in CUSTOM_GROUPS or group in ("apiextensions.k8s.io", "apiregistration.k8s.io"):
        return f"/{group}/{resource}"
    return "/" + PREFIXES.get(resource, resource)


def without(labels, *names):
    return {k: v for k, v in labels.items() if k not in names}


def scope_and_verb(v, labels):
    """Labels `scope` and `verb` of a request in that version; None where it was not counted."""
    verb, scope = labels["verb"], labels["scope"]
    if not labels["resource"]:
        if v <= 17 or (v <= 25 and not labels["subresource"].startswith("/")):
            return None  # /readyz and its like are counted since 1.18, discovery since 1.26 or 1.27
        return labels
    custom = labels["group"] in CUSTOM_GROUPS
    inner = "cluster" if labels["resource"] in CLUSTER_SCOPED else "namespace"
    if verb == "APPLY" and v < 16:
        verb = "PATCH"
    if v <= 19:
        # the route's verb, and its scope, which was of the kind and not of the request
        if verb == "DELETE" and scope != "resource":
            verb = "DELETECOLLECTION"
        if custom:
            verb = {"POST": "CREATE", "PUT": "UPDATE"}.get(verb, verb)  # the request's verb in capitals
        if scope == "resource":
            scope = inner
    elif custom and scope == "resource":
        # the request's scope: by namespace before by name up to 1.21, a create by its namespace up to 1.24
        if v <= 21 and inner == "namespace":
            scope = "namespace"
            if verb == "GET":
                verb = "LIST"
        elif v <= 24 and verb == "POST":
            scope = inner
    return {**labels, "verb": verb, "scope": scope}


def long_running(v, labels):
    labels = dict(labels)
    if labels["scope"] == "resource" and labels["resource"]:
        if v <= 21 and labels["resource"] not in CLUSTER_SCOPED:
            labels["scope"] = "namespace"
        elif 16 <= v <= 22 and labels["verb"] == "WATCH":
            labels["verb"] = "GET"  # a watch of one object by name
    return without(labels, "group", "version", "component") if v == 13 else labels


def versions(page, v):
    """The page of `page` that Kubernetes 1.`v` would have written."""
    out = {}

    def put(name, family):
        if family[2]:
            out[name] = family

    def request_labels(labels, client=False, dry_run=True):
        labels = scope_and_verb(v, labels)
        if labels is None:
            return None
        who = labels.pop("system_client", "")
        if client:
            if v <= 17:
                labels["client"] = f"{who or 'kubectl'}/v1.{v}.0 (linux/amd64) kubernetes/0000000"
            if v <= 20:
                kind = "application/vnd.kubernetes.protobuf" if who else "application/json"
                labels["contentType"] = kind + (";stream=watch" if labels["verb"] == "WATCH" else "")
        if not dry_run:
            labels.pop("dry_run", None)
        return without(labels, "group", "version", "component", "dry_run") if v == 13 else labels

    requests, durations = page["apiserver_request_total"], page["apiserver_request_duration_seconds"]
    if v >= 14:
        put("apiserver_request_total", scalar(requests, "apiserver_request_total", lambda x: request_labels(x, client=True)))
        put("apiserver_request_duration_seconds", histogram(durations, "apiserver_request_duration_seconds", request_labels,
                                                            BOUNDS_14 if v < 23 else BOUNDS_23 if v < 25 else None))
    if v <= 16:
        old = "" if v == 13 else "(Deprecated) "
        put("apiserver_request_count", scalar(
            requests, "apiserver_request_count", lambda x: request_labels(x, client=True, dry_run=False),
            help_text=old + "Counter of apiserver requests broken out for each verb, API resource, client, and HTTP response contentType and code."))
        micros = histogram(durations, "apiserver_request_latencies", lambda x: request_labels(x, dry_run=False), BOUNDS_MICROS, 1e6,
                           old + "Response latency distribution in microseconds for each verb, resource and subresource.")
        put("apiserver_request_latencies", micros)
        put("apiserver_request_latencies_summary", summary(micros, "apiserver_request_latencies_summary",
                                                           old + "Response latency summary in microseconds for each verb, resource and subresource."))
    sli = page["apiserver_request_sli_duration_seconds"]
    if 23 <= v <= 27:
        put("apiserver_request_slo_duration_seconds", histogram(sli, "apiserver_request_slo_duration_seconds", request_labels))
    if v >= 26:
        put("apiserver_request_sli_duration_seconds", histogram(sli, "apiserver_request_sli_duration_seconds", request_labels))
    put("apiserver_response_sizes", histogram(page["apiserver_response_sizes"], "apiserver_response_sizes", request_labels))

    running = page["apiserver_longrunning_requests"]
    if v <= 23:
        put("apiserver_longrunning_gauge", scalar(running, "apiserver_longrunning_gauge", lambda x: long_running(v, x)))
        put("apiserver_registered_watchers", scalar(
            running, "apiserver_registered_watchers",
            lambda x: {"group": x["group"], "version": x["version"], "kind": KIND_OF[x["resource"]]} if x["verb"] == "WATCH" else None,
            help_text="[ALPHA] Number of currently registered watchers for a given resources"))
    if v >= 23:
        put("apiserver_longrunning_requests", scalar(running, "apiserver_longrunning_requests", lambda x: long_running(v, x)))
    kind_label = "requestKind" if v <= 18 else "request_kind"
    put("apiserver_current_inflight_requests", scalar(page["apiserver_current_inflight_requests"], "apiserver_current_inflight_requests",
                                                      lambda x: {kind_label: x["request_kind"]}))
    if v >= 19:
        put("apiserver_current_inqueue_requests", page["apiserver_current_inqueue_requests"])
        put("apiserver_requested_deprecated_apis", page["apiserver_requested_deprecated_apis"])
        put("apiserver_tls_handshake_errors_total", page["apiserver_tls_handshake_errors_total"])

    def watch_kind(labels):
        return labels if v >= 34 else {**without(labels, "resource"), "kind": KIND_OF[labels["resource"]]}
    if v >= 16:
        put("apiserver_watch_events_total", scalar(page["apiserver_watch_events_total"], "apiserver_watch_events_total", watch_kind))
        put("apiserver_watch_events_sizes", histogram(page["apiserver_watch_events_sizes"], "apiserver_watch_events_sizes", watch_kind))

    # API Priority and Fairness: on by default since 1.20
    def flow(name, first, last=99, new_name=None, limited=False):
        if first <= v <= last:
            full = "apiserver_flowcontrol_" + name
            into = "apiserver_flowcontrol_" + (new_name or name)

            def relabel(labels):
                if limited and v <= 27 and labels["priority_level"] == "exempt":
                    return None
                return labels if v >= 24 else without(labels, "type")
            if page[full][0] == "histogram":
                put(into, histogram(page[full], into, relabel, BOUNDS_FLOW if v <= 27 and "_seconds" in name else None))
            else:
                put(into, scalar(page[full], into, relabel))
    for name in ("dispatched_requests_total", "current_executing_requests", "current_inqueue_requests",
                 "request_wait_duration_seconds", "request_execution_seconds"):
        flow(name, 20)
    flow("nominal_limit_seats", 20, 30, "request_concurrency_limit", limited=True)
    flow("current_executing_seats", 22, 31, "request_concurrency_in_use")
    flow("current_executing_seats", 28)
    flow("current_inqueue_seats", 29)
    for name in ("nominal_limit_seats", "current_limit_seats", "lower_limit_seats", "upper_limit_seats"):
        flow(name, 26, limited=True)

    # what is stored
    objects = page["apiserver_storage_objects"]
    if v <= 22:
        put("etcd_object_counts", scalar(objects, "etcd_object_counts",
                                         help_text="[ALPHA] Number of stored objects at the time of last check split by kind."))
    if v >= 21:
        put("apiserver_storage_objects", objects)
    if v >= 34:
        put("apiserver_resource_objects", page["apiserver_resource_objects"])
        put("apiserver_resource_size_estimate_bytes", page["apiserver_resource_size_estimate_bytes"])
    size = page["apiserver_storage_size_bytes"]

    def endpoint(_):
        return {"endpoint": "https://127.0.0.1:2379"}
    if 19 <= v <= 25:
        put("etcd_db_total_size_in_bytes", scalar(size, "etcd_db_total_size_in_bytes", endpoint))
    if 26 <= v <= 28:
        put("apiserver_storage_db_total_size_in_bytes", scalar(size, "apiserver_storage_db_total_size_in_bytes", endpoint))
    if v >= 28:
        put("apiserver_storage_size_bytes", scalar(
            size, "apiserver_storage_size_bytes", lambda x: x if v >= 30 else {"cluster": x["storage_cluster_id"]}))

    # watch cache and etcd
    def resource(value):
        return lambda labels: labels if v >= 34 else {**without(labels, "group"), "resource": value(labels)}

    def stored(name, first, value, last=99, new_name=None, merge=sum, label="resource", kind=None):
        if first <= v <= last:
            change = resource(value)

            def relabel(labels):
                labels = change(labels)
                if v < 34 and label != "resource":
                    labels[label] = labels.pop("resource")
                return labels
            put(new_name or name, scalar(page[name], new_name or name, relabel, merge=merge, kind=kind))
    cached = go_type if v <= 25 else joined
    stored("apiserver_init_events_total", 14, cached)
    stored("watch_cache_capacity", 21, cached, merge=max)
    stored("watch_cache_capacity_increase_total", 19, cached)
    stored("apiserver_watch_cache_initializations_total", 25, cached)
    stored("apiserver_watch_cache_events_dispatched_total", 24, cached)
    stored("apiserver_watch_cache_events_received_total", 27, cached)
    stored("apiserver_watch_cache_consistent_read_total", 31, prefix)
    for name in ("apiserver_cache_list_total", "apiserver_cache_list_fetched_objects_total", "apiserver_cache_list_returned_objects_total"):
        stored(name, 23, prefix, label="resource_prefix")
    for name in ("", "_fetched_objects", "_evaluated_objects", "_returned_objects"):
        stored(f"apiserver_storage_list{name}_total", 23, joined)
    stored("apiserver_storage_events_received_total", 27, joined)
    stored("etcd_bookmark_total", 36, joined)
    stored("etcd_bookmark_total", 20, cached, 35, "etcd_bookmark_counts", kind="gauge")
    if v >= 28:
        def counted(labels):
            if v >= 34:
                return labels
            kind = "/registry" + prefix(labels) + "/" if labels["operation"] == "listWithCount" else joined(labels)
            return {"operation": labels["operation"], "type": kind}
        put("etcd_requests_total", scalar(page["etcd_requests_total"], "etcd_requests_total", counted))

    # of the process
    for name in ("authenticated_user_requests", "apiserver_audit_event_total", "process_cpu_seconds_total", "process_start_time_seconds",
                 "process_resident_memory_bytes", "process_open_fds", "go_memstats_mallocs_total", "go_memstats_alloc_bytes_total",
                 "go_memstats_heap_inuse_bytes", "go_goroutines", "go_info", "apiserver_admission_step_admission_duration_seconds_summary"):
        put(name, page[name])
    if v >= 33:
        put("process_network_receive_bytes_total", page["process_network_receive_bytes_total"])
        put("process_network_transmit_bytes_total", page["process_network_transmit_bytes_total"])

    def build(labels):
        labels.update(git_version=f"v1.{v}.0", minor=str(v))
        if v <= 18:
            for old in ("git_version", "git_commit", "git_tree_state", "build_date", "go_version"):
                first, *rest = old.split("_")
                labels[first + "".join(part.title() for part in rest)] = labels.pop(old)
        return labels
    put("kubernetes_build_info", scalar(page["kubernetes_build_info"], "kubernetes_build_info", build))
    if v <= 20:  # stability levels are written since 1.16, all ALPHA up to 1.20
        out = {name: (kind, stability(name, text, v), samples) for name, (kind, text, samples) in out.items()}
    return out


def stability(name, text, v):
    if text.startswith("["):
        text = text.partition("] ")[2]
    elif not name.startswith("apiserver_"):
        return text
    return text if v < 16 else f"[ALPHA] {text}"


# ---------------------------------------------------------------- other notations of one page

SMALL = """apiserver_request_total apiserver_longrunning_requests apiserver_current_inflight_requests apiserver_response_sizes
    apiserver_storage_objects apiserver_storage_size_bytes apiserver_flowcontrol_nominal_limit_seats apiserver_watch_events_total
    authenticated_user_requests process_start_time_seconds process_cpu_seconds_total go_memstats_mallocs_total go_info
    apiserver_admission_step_admission_duration_seconds_summary kubernetes_build_info""".split()


def small(page):
    """Some families of the page of 1.36, all their series."""
    return {name: page[name] for name in SMALL}


def open_number(value):
    """As the OpenMetrics encoder of Go writes floats: always with a point or an exponent"""
    text = number(value)
    return text if any(c in text for c in ".eNI") else text + ".0"


def openmetrics(page, time):
    """OpenMetrics 1.0 as Go's expfmt writes it; units, times of creation, exemplars, and escapes besides."""
    page = dict(page)
    kind, help_text, samples = page["apiserver_request_total"]
    odd = {"code": "404", "component": "", "dry_run": "", "group": "", "resource": "", "scope": "", "version": "", "verb": "GET",
           "subresource": '/a\\b"c\nd # {e="f"} 1'}
    page["apiserver_request_total"] = (kind, help_text, samples + [("apiserver_request_total", odd, 7.0)])
    start = page["process_start_time_seconds"][2][0][2]
    out = []
    for name in sorted(page):
        kind, help_text, samples = page[name]
        family = name.removesuffix("_total") if kind == "counter" else name
        help_text = help_text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
        out += [f"# HELP {family} {help_text}", f"# TYPE {family} {kind}"]
        for unit in ("seconds", "bytes"):
            if family.endswith("_" + unit):
                out.append(f"# UNIT {family} {unit}")
        created = None
        for sample, labels, value in samples:
            series = tuple(p for p in pairs(labels) if p[0] not in ("le", "quantile"))
            if kind == "counter":
                sample = family + "_total"
            labels = {k: open_number(float(v)) if k in ("le", "quantile") else v for k, v in labels.items()}
            text = ",".join(f"{k}={quote(v)}" for k, v in pairs(labels))
            line = f"{sample}{{{text}}} {open_number(value)}" if labels else f"{sample} {open_number(value)}"
            if sample.endswith("_bucket") and value and labels["le"] == "10000.0":
                line += f' # {{trace_id="4bf92f3577b34da6a3ce929d0e0e4736"}} 9321.0 {time - 3}.125'
            elif family == "apiserver_request" and labels["verb"] == "GET" and labels["code"] == "404":
                line += ' # {trace_id="a \\"b\\" }, c",span_id=""} 1.0'
            out.append(line)
            if created != series and (kind == "counter" or sample.endswith("_count")) and family in ("apiserver_request", "apiserver_response_sizes"):
                text = ",".join(f"{k}={quote(v)}" for k, v in series)
                out.append(f"{family}_created{{{text}}} {open_number(start)}")
                created = series
    return "\n".join(out) + "\n# EOF\n"


def utf8_names(page):
    """Prometheus 3: names and label names in quotes, where they need it and where they do not."""
    out = []
    for name in sorted(page):
        kind, help_text, samples = page[name]
        quoted = name in ("apiserver_request_total", "apiserver_longrunning_requests", "process_cpu_seconds_total")
        head = quote(name) if quoted else name
        out += [f"# HELP {head} {help_text}", f"# TYPE {head} {kind}"]
        for sample, labels, value in samples:
            if quoted:
                inside = ",".join([quote(sample)] + [f"{quote(k) if k == 'verb' else k}={quote(v)}" for k, v in pairs(labels)])
                out.append(f"{{{inside}}} {number(value)}")
            else:
                out.append(write_line(sample, labels, value))
    out += ['# HELP "http.server.requests" Requests, by OpenTelemetry\'s names.', '# TYPE "http.server.requests" counter',
            '{"http.server.requests", "http.request.method"="GET", code="200"} 5',
            '{"http.server.requests","http.request.method"="LIST","k8s.ns/π"="a,b}c"} 6',
            '# TYPE "größe in bytes" gauge', '{"größe in bytes"} 1e+06', '{"größe in bytes", zone="x", } 2e+06 1795167787000']
    return "\n".join(out) + "\n"


HOSTILE = ['}', ',', '=', '"', '\\', '\n', '} 5', '",verb="DELETE', '{}', '\\n', '\\\\"', 'ä/日本/🚀', '\u202e\x1b[31m', '\t \r', '# HELP x', ' ',
           'le="+Inf"', '<script>', "'"]


def hostile_labels(page):
    """Paths that were asked for, as label `subresource`: whatever a client sends."""
    page = dict(page)
    kind, help_text, samples = page["apiserver_request_total"]
    more = [("apiserver_request_total", {"code": "404", "component": "", "dry_run": "", "group": "", "resource": "", "scope": "",
                                         "subresource": path, "verb": "GET", "version": ""}, float(i)) for i, path in enumerate(HOSTILE, 1)]
    page["apiserver_request_total"] = (kind, help_text + " \\\\ \\n {x=\"y\"} 1", samples + more)
    return write_page(page)


def special_values(page):
    """Every spelling of a number, and values that are none."""
    text = write_page(page)
    text += """# HELP plimsoll_test_value Values in all spellings that Go's ParseFloat takes and a writer may use.
# TYPE plimsoll_test_value gauge
plimsoll_test_value{as="NaN"} NaN
plimsoll_test_value{as="+Inf"} +Inf
plimsoll_test_value{as="-Inf"} -Inf
plimsoll_test_value{as="Inf"} Inf
plimsoll_test_value{as="nan"} nan
plimsoll_test_value{as="+inf"} +inf
plimsoll_test_value{as="-0"} -0
plimsoll_test_value{as="1e+06"} 1e+06
plimsoll_test_value{as="1E6"} 1E6
plimsoll_test_value{as="1e-7"} 1e-7
plimsoll_test_value{as=".5"} .5
plimsoll_test_value{as="5."} 5.
plimsoll_test_value{as="+5"} +5
plimsoll_test_value{as="007"} 007
plimsoll_test_value{as="18446744073709551616"} 18446744073709551616
plimsoll_test_value{as="1e400"} 1.7976931348623157e+308
plimsoll_test_value{as="small"} 5e-324
# HELP plimsoll_test_no_seconds A summary without observations, a histogram with an infinite one.
# TYPE plimsoll_test_no_seconds summary
plimsoll_test_no_seconds{quantile="0.5"} NaN
plimsoll_test_no_seconds_sum 0
plimsoll_test_no_seconds_count 0
# HELP plimsoll_test_seconds A histogram.
# TYPE plimsoll_test_seconds histogram
plimsoll_test_seconds_bucket{le="1"} 1
plimsoll_test_seconds_bucket{le="+Inf"} 2
plimsoll_test_seconds_sum +Inf
plimsoll_test_seconds_count 2
"""
    # a failed count of objects, and one that never was
    text = text.replace('apiserver_storage_objects{resource="events"}', 'apiserver_storage_objects{resource="events"} -1\n#', 1)
    return text.replace('apiserver_storage_objects{resource="pods"}', 'apiserver_storage_objects{resource="pods"} NaN\n#', 1)


def with_timestamps(page, time):
    """Every sample with its time in milliseconds, as the federation of Prometheus writes them; the last is the page's."""
    lines = write_page(page).splitlines()
    count = 0
    for i, line in enumerate(lines):
        if not line.startswith("#"):
            lines[i] = f"{line} {time * 1000 - 5000 + count % 5001}"
            count += 1
    last = max(i for i, line in enumerate(lines) if not line.startswith("#"))
    lines[last] = lines[last].rsplit(" ", 1)[0] + f" {time * 1000}"
    return "\n".join(lines) + "\n"


def tabs(page):
    """Blanks and tabs wherever the text format takes them, commas after the last label, and comments of no meaning."""
    out = ["", "# a comment", "#", "#nothing", "# HELPER is no keyword"]
    for i, line in enumerate(write_page(page).splitlines()):
        if line.startswith("# HELP"):
            out.append(line.replace("# HELP ", "#\tHELP \t", 1).replace(" ", "\t", 1) if i % 4 == 0 else line)
        elif line.startswith("# TYPE"):
            out.append("#  TYPE\t" + "\t ".join(line.split(" ")[2:]))
        elif "{" in line:
            name, rest = line.split("{", 1)
            labels, value = rest.rsplit("} ", 1)
            if i % 3 == 0:
                labels = " , ".join(f"{k} = {quote(v)}" for k, v in split_labels(labels))
                out.append(f"  {name} {{ {labels} , }}\t{value}")
            elif i % 3 == 1:
                out.append(f"{name}\t{{{labels},}} \t {value}  ")
            else:
                out.append(f"\t{name}{{{labels}}}{' ' * 3}{value}\t")
        else:
            out.append("\t".join(line.split(" ")))
    return "\n".join(out) + "\n"


# ---------------------------------------------------------------- what must come out


def facts(pages, times):
    """What sections 3 and 4 of docs/metrics.md make of these pages, in few lines of Python: increases from the first to the last page."""
    first, last = pages[0], pages[-1]

    def total(page, name, want=lambda labels: True, suffix=""):
        family = page.get(name)
        found = [value for sample, labels, value in family[2] if sample == name + suffix and want(labels)] if family else []
        return sum(found) if family else None

    def increase(name, want=lambda labels: True, suffix=""):
        if name not in last:
            return None
        return total(last, name, want, suffix) - ((total(first, name, want, suffix) or 0) if len(pages) > 1 else 0)

    def either(*names):
        return next((name for name in names if name in last), None)

    def exact(value):
        return None if value is None else int(value) if float(value).is_integer() else round(value, 6)
    counter = either("apiserver_request_total", "apiserver_request_count")
    durations = either("apiserver_request_duration_seconds", "apiserver_request_latencies")
    running = either("apiserver_longrunning_requests", "apiserver_longrunning_gauge")
    objects = either("apiserver_resource_objects", "apiserver_storage_objects", "etcd_object_counts")
    limit = either("apiserver_flowcontrol_nominal_limit_seats", "apiserver_flowcontrol_request_concurrency_limit")
    seats = either("apiserver_flowcontrol_current_executing_seats", "apiserver_flowcontrol_request_concurrency_in_use")
    size = either("apiserver_storage_size_bytes", "apiserver_storage_db_total_size_in_bytes", "etcd_db_total_size_in_bytes")
    kind = {"readOnly": "read_only", "mutating": "mutating"}
    found = {
        "time": times[-1],
        "seconds": times[-1] - times[0] if len(times) > 1 else None,
        "process_start": exact(total(last, "process_start_time_seconds")),
        "requests": exact(increase(counter)),
        "resource_requests": exact(increase(counter, lambda x: x["resource"])),
        "errors": exact(increase(counter, lambda x: x["code"] == "0" or x["code"] >= "500")),
        "client_errors": exact(increase(counter, lambda x: "400" <= x["code"] < "500" and x["code"] != "429")),
        "throttled": exact(increase(counter, lambda x: x["code"] == "429")),
        "requests_by_resource_and_code": {},
        "timed_resource_requests": exact(increase(durations, lambda x: x["resource"] and x["verb"] not in ("WATCH", "CONNECT"), "_count"))
        if durations else None,
        "open": exact(total(last, running)) if running else None,
        "watches": exact(total(last, running, lambda x: x["verb"] == "WATCH")) if running else None,
        "inflight": {kind[labels.get("request_kind") or labels["requestKind"]]: exact(value)
                     for _, labels, value in last["apiserver_current_inflight_requests"][2]},
        "inflight_limit": exact(total(last, limit)) if limit else None,
        "seats_in_use": exact(total(last, seats)) if seats else None,
        "flow_dispatched": exact(increase("apiserver_flowcontrol_dispatched_requests_total")),
        "objects": exact(sum(value for _, _, value in last[objects][2] if value >= 0)) if objects else None,
        "storage_bytes": exact(total(last, size)) if size else None,
        "watch_events": exact(increase("apiserver_watch_events_total")),
        "list_bytes": exact(increase("apiserver_response_sizes", lambda x: x["verb"] == "LIST", "_sum")),
        "watch_cache_capacity": exact(total(last, "watch_cache_capacity")),
        "slo_requests": exact(increase(either("apiserver_request_sli_duration_seconds", "apiserver_request_slo_duration_seconds") or "-",
                                       lambda x: x["resource"] and x["verb"] not in ("WATCH", "CONNECT"), "_count")),
    }
    rows = {}
    for sign, page in ((-1, first), (1, last)) if len(pages) > 1 else ((1, last),):
        for _, labels, value in page[counter][2]:
            if labels["resource"]:
                key = f"{labels['resource']} {labels['code']}"
                rows[key] = rows.get(key, 0) + sign * value
    found["requests_by_resource_and_code"] = {key: exact(value) for key, value in sorted(rows.items()) if value}
    return found


def main():
    pages = {time: parse(source(time)) for time in TIMES}
    expected = {}

    def write(form, names, texts, found):
        folder = HERE / form
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "apiserver").mkdir(parents=True)
        for name, text in zip(names, texts):
            data = text if isinstance(text, bytes) else text.encode()
            if name.endswith(".zst"):
                data = zstandard.ZstdCompressor(level=19).compress(data)
            (folder / "apiserver" / name).write_bytes(data)
        expected[form] = {"files": [f"{form}/apiserver/{name}" for name in names], **found}

    for form, v in FORMS.items():
        made = [versions(pages[time], v) for time in TIMES]
        texts = [write_page(page) for page in made]
        if [parse(text) for text in texts] != made:
            raise SystemExit(f"{form}: what was written is not what is read")
        write(form, [f"{time}.txt.zst" for time in TIMES], texts, {"version": f"1.{v}", **facts(made, TIMES)})
    for key in ("resource_requests", "timed_resource_requests", "objects", "open", "inflight", "requests_by_resource_and_code"):
        if len({json.dumps(found[key]) for found in expected.values()}) != 1:
            raise SystemExit(f"{key} should be the same in all versions")

    time = TIMES[-1]
    page = small(versions(pages[time], 36))
    text, found = write_page(page), {"version": "1.36", **facts([page], [time])}
    name = f"{time}.txt"
    more = {"requests": found["requests"] + 7, "client_errors": found["client_errors"] + 7}
    write("openmetrics", [name], [openmetrics(page, time)], {**found, **more, "odd_path": '/a\\b"c\nd # {e="f"} 1'})
    write("utf8-names", [name], [utf8_names(page)], found)
    added = sum(range(1, len(HOSTILE) + 1))
    write("hostile-labels", [name], [hostile_labels(page)],
          {**found, "requests": found["requests"] + added, "client_errors": found["client_errors"] + added,
           "requests_by_path": {path: i for i, path in enumerate(HOSTILE, 1)}})
    stored = {labels["resource"]: value for _, labels, value in page["apiserver_storage_objects"][2]}
    write("special-values", [name], [special_values(page)], {**found, "objects": int(found["objects"] - stored["events"] - stored["pods"])})
    write("timestamps", ["page.txt"], [with_timestamps(page, time)], found)
    write("blank-lines", [name], ["\n\n" + text.replace("# HELP", "\n \n# HELP") + "\n\n"], found)
    write("crlf", [name], [text.replace("\n", "\r\n")], found)
    write("tabs", [name], [tabs(page)], found)
    # with a last family that no fact comes from: whoever drops a line without its end loses none
    write("no-final-newline", [name], [text + write_page({"workqueue_depth": pages[time]["workqueue_depth"]})[:-1]], found)
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
