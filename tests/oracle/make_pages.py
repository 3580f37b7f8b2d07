#!/usr/bin/env python3
"""Makes small pages of two apiservers, for prometheus.py: with all that makes counting hard.

    make_pages.py DIR [--seed N] [--calm]

Writes DIR/pages.json (as prometheus.py wants it) and DIR/INSTANCE/N.txt. The same seed makes the same pages.
`one`: starts anew before its sixth page; some counters are then higher on its first page than before.
`two`: a scrape that fails; a series that one page lacks; a counter that falls while the process lives.
Both: series that appear later. With --calm nothing of this: as Prometheus counts, so does plimsoll.
"""
import argparse
import json
import os
import random

PAGES = 8
RESOURCES = [("", "pods", "v1"), ("", "configmaps", "v1"), ("apps", "deployments", "v1"), ("batch", "jobs", "v1")]
REQUESTS = [("GET", "resource"), ("LIST", "cluster"), ("LIST", "namespace"), ("POST", "resource"), ("PUT", "resource"),
            ("PATCH", "resource"), ("APPLY", "resource"), ("DELETE", "resource"), ("DELETE", "namespace"),
            ("WATCH", "cluster"), ("CONNECT", "resource")]
CODES = ["200", "200", "201", "404", "409", "429", "500", "503", "0"]
BOUNDS = {
    "apiserver_request_duration_seconds": [0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1, 2, 10, 60],
    "apiserver_request_sli_duration_seconds": [0.05, 0.1, 0.5, 1, 5, 10, 30, 60],
    "apiserver_response_sizes": [1000, 10000, 100000, 1e6],
    "apiserver_watch_events_sizes": [1024, 8192],
    "apiserver_flowcontrol_request_wait_duration_seconds": [0.005, 0.02, 0.1, 0.5, 1, 15],
    "apiserver_flowcontrol_request_execution_seconds": [0.005, 0.05, 0.5, 5],
    "apiserver_admission_webhook_admission_duration_seconds": [0.005, 0.1, 1],
}


def text(value):
    return f"{value:.17g}" if isinstance(value, float) else str(value)


class Server:
    """One process of an apiserver."""

    def __init__(self, rng, start, calm):
        self.rng, self.start, self.calm = rng, start, calm
        self.counters = {}  # name, labels -> value
        self.known = []     # sorts of requests that are made

    def more(self, name, value=1, /, **labels):
        key = name, tuple(sorted(labels.items()))
        self.counters[key] = self.counters.get(key, 0) + value

    def observe(self, name, value, /, **labels):
        for bound in BOUNDS[name]:
            self.more(name + "_bucket", int(value <= bound), **labels, le=f"{bound:g}")
        self.more(name + "_bucket", **labels, le="+Inf")
        self.more(name + "_sum", value, **labels)
        self.more(name + "_count", **labels)

    def request(self, verb, scope, group, resource, version, code):
        rng = self.rng
        labels = dict(component="apiserver", group=group, resource=resource, scope=scope, subresource="", verb=verb, version=version)
        self.more("apiserver_request_total", **labels, code=code, dry_run="")
        took = rng.lognormvariate(-3.5, 2)
        self.observe("apiserver_request_duration_seconds", took, **labels, dry_run="")
        if verb not in ("WATCH", "CONNECT"):
            self.observe("apiserver_request_sli_duration_seconds", took, **labels)
        if verb == "LIST":
            self.observe("apiserver_response_sizes", float(int(rng.lognormvariate(9, 2))), **labels)
            self.more("apiserver_cache_list_total", group=group, resource=resource, index="")
            self.more("apiserver_cache_list_fetched_objects_total", rng.randrange(200), group=group, resource=resource, index="")
        flow = rng.choice([("system-nodes", "system"), ("service-accounts", "workload-low")])
        flow = dict(flow_schema=flow[0], priority_level=flow[1])
        if code == "429":
            self.more("apiserver_flowcontrol_rejected_requests_total", **flow, reason="queue-full")
        else:
            self.more("apiserver_flowcontrol_dispatched_requests_total", **flow)
            self.observe("apiserver_flowcontrol_request_execution_seconds", took, **flow, type="regular")
        self.observe("apiserver_flowcontrol_request_wait_duration_seconds", rng.lognormvariate(-4, 2), **flow,
                     execute=str(code != "429").lower())

    def run(self, page):
        """What happens before a page is taken."""
        rng = self.rng
        every = [(*request, *resource, code) for request in REQUESTS for resource in RESOURCES for code in sorted(set(CODES))]
        if not self.calm or not self.known:
            self.known += rng.sample(every, 25 if not self.known else 4)
        if self.calm:
            for request in self.known:
                self.request(*request)
        for _ in range(rng.randrange(60, 200)):
            self.request(*rng.choice(self.known))
        for group, resource, version in RESOURCES:
            if self.calm or rng.random() < 0.7:
                self.more("apiserver_watch_cache_events_received_total", rng.randrange(50), group=group, resource=resource)
                for _ in range(rng.randrange(1, 20)):
                    self.more("apiserver_watch_events_total", group=group, resource=resource, version=version)
                    self.observe("apiserver_watch_events_sizes", float(rng.randrange(20000)), group=group, resource=resource, version=version)
        if self.calm or rng.random() < 0.5:
            hook = dict(name="check.example.com", type="validating")
            self.observe("apiserver_admission_webhook_admission_duration_seconds", rng.lognormvariate(-3, 1), **hook,
                         operation="CREATE", rejected="false")
            self.more("apiserver_admission_webhook_rejection_count", **hook, operation="CREATE", error_type="no_error", rejection_code="403")
            self.more("apiserver_admission_webhook_fail_open_count", **hook)
        for name, most in (("process_cpu_seconds_total", 5), ("go_memstats_mallocs_total", 1e6),
                           ("go_memstats_alloc_bytes_total", 1e9), ("process_network_receive_bytes_total", 1e7)):
            self.more(name, round(rng.uniform(0.1, 1) * most, 2))

    def gauges(self):
        rng = self.rng
        yield "process_start_time_seconds", {}, self.start
        for kind in ("mutating", "readOnly"):
            yield "apiserver_current_inflight_requests", {"request_kind": kind}, rng.randrange(20)
        for level, flow in (("system", "system-nodes"), ("workload-low", "service-accounts")):
            yield "apiserver_flowcontrol_nominal_limit_seats", {"priority_level": level}, rng.randrange(10, 100)
            yield "apiserver_flowcontrol_current_limit_seats", {"priority_level": level}, rng.randrange(10, 100)
            for name in ("executing_seats", "executing_requests", "inqueue_requests"):
                yield f"apiserver_flowcontrol_current_{name}", {"flow_schema": flow, "priority_level": level}, rng.randrange(10)
        for group, resource, version in RESOURCES:
            yield "apiserver_resource_objects", {"group": group, "resource": resource}, rng.randrange(-1, 1000)
            yield "apiserver_resource_size_estimate_bytes", {"group": group, "resource": resource}, rng.randrange(-1, 100000)
            yield "watch_cache_capacity", {"group": group, "resource": resource}, 100
            yield "apiserver_longrunning_requests", {"component": "apiserver", "group": group, "resource": resource, "scope": "cluster",
                                                     "subresource": "", "verb": "WATCH", "version": version}, rng.randrange(50)
        yield "apiserver_storage_size_bytes", {"storage_cluster_id": "etcd-0"}, rng.randrange(10**7, 10**8)

    def page(self, without=None):
        """The text of a page. without: a counter that is left out."""
        families = {}
        for name, labels, value in [(*key, value) for key, value in self.counters.items() if key != without]:
            family = next((f for f in BOUNDS if name.startswith(f)), name)
            families.setdefault((family, "histogram" if family in BOUNDS else "counter"), []).append((name, dict(labels), value))
        for name, labels, value in self.gauges():
            families.setdefault((name, "gauge"), []).append((name, labels, value))
        lines = []
        for (family, kind), samples in sorted(families.items(), key=lambda item: item[0]):
            lines += [f"# HELP {family} Made up.", f"# TYPE {family} {kind}"]
            if kind == "histogram":  # each histogram's buckets together, rising
                samples.sort(key=lambda s: (sorted((k, v) for k, v in s[1].items() if k != "le"), s[0],
                                            float(s[1].get("le", 0))))
            for name, labels, value in samples:
                inside = ",".join(f'{k}="{v}"' for k, v in labels.items())
                lines.append(f"{name}{{{inside}}} {text(value)}" if inside else f"{name} {text(value)}")
        return "\n".join(lines) + "\n"


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("dir")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--calm", action="store_true")
    args = arguments.parse_args()
    plan = {}
    for number, name in enumerate(("one", "two")):
        rng = random.Random(args.seed * 2 + number)
        server = Server(rng, 1_700_000_000.25 + number, args.calm)
        os.makedirs(os.path.join(args.dir, name), exist_ok=True)
        plan[name] = []
        for page in range(PAGES):
            without = None
            if not args.calm and name == "one" and page == 5:
                server = Server(rng, 1_700_000_100.5, False)
                for _ in range(2):
                    server.run(page)
            server.run(page)
            if not args.calm and name == "two":
                if page == 3:
                    plan[name].append(None)
                if page == 4:  # seldom made, so that the sum does not fall
                    without = min((key for key in server.counters if key[0] == "apiserver_request_total"),
                                  key=lambda key: (server.counters[key], key))
                if page == 6:
                    for key in server.counters:
                        if key[0] == "apiserver_watch_events_total":
                            server.counters[key] //= 3
            with open(os.path.join(args.dir, name, f"{page}.txt"), "w") as f:
                f.write(server.page(without))
            plan[name].append(f"{name}/{page}.txt")
    with open(os.path.join(args.dir, "pages.json"), "w") as f:
        json.dump(plan, f)


if __name__ == "__main__":
    main()
