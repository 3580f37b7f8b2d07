#!/usr/bin/env python3
"""Lets a real Prometheus (2.42, as `prometheus` on PATH) scrape given pages, and asks it questions.

    prometheus.py --pages FILE.json --out DIR [--queries QUERIES.json]

FILE.json: {"INSTANCE": [PATH or null, …], …}. At its k-th scrape an instance gives page k (plain or .zst; a relative path is
one beside FILE.json), or answers 503 where there is null, and after the last page. One scrape is one second. Prometheus
must have stored each page once. The pages are then written to DIR/INSTANCE/UNIXSECONDS.txt by the times that Prometheus
stored them with. All is over within 60 seconds, and nothing is left running.

process_start_time_seconds is put on the clock of the replay: 30 s before the instance's first page; if it changes later,
half a second before the page that has the new one. So which page belongs to which process stays as it was.

QUERIES.json: {"NAME": "PROMQL", …}. Prints {"NAME": [{"metric": {…}, "value": number or null}, …], …}. In a query stand for

    {start} {end} {range}   seconds of the first and last page of all instances, and the time between (as 1234ms)
    {seconds}               by instance: seconds as in section 2 of docs/metrics.md
    {gauge:SELECTOR}        by series: the value on each instance's last page
    {plain:SELECTOR}        by series: increase() between each instance's first and last page
    {increase:SELECTOR}     by series: the increase by the rules of docs/metrics.md
    {rate:SELECTOR}         {increase:SELECTOR} ÷ {seconds}

Prometheus' increase() extrapolates to the ends of the range, drops the first value of a series, and takes a series of a new
process whose value is not below the old one for continued. So {increase:…} is put together of what is exact: for each process,
for its first page A and last page B of a series, increase() from A to B (there is a sample at either end: nothing to
extrapolate), and the value at A if it is not the first page of the process or the process counts from 0. That is a term
for each pair of pages: for up to 10 pages of a process.
"""
import argparse
import ctypes
import http.server
import io
import json
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

# Seconds. What is asked is much to compute, and a busy machine may take long for it; a scrape that comes late is a wrong one.
SCRAPING = 60
ANSWERS = 600
START = re.compile(rb"(?m)^process_start_time_seconds ([^ \n]+)")


def fail(why):
    sys.exit(f"prometheus.py: {why}")


# ---------------------------------------------------------------- what is scraped

class Target:
    """Gives the next page at every call."""

    def __init__(self, pages):
        self.pages = pages
        self.asked = 0
        self.served = []
        self.starts = {}  # on the page -> on the clock of the replay
        self.lock = threading.Lock()

    def next(self):
        with self.lock:
            number, self.asked = self.asked, self.asked + 1
            page = self.pages[number] if number < len(self.pages) else None
            if page is None:
                return None
            match = START.search(page)
            if match:
                before = 0.5 if self.served else 30
                start = self.starts.setdefault(match[1], f"{time.time() - before:.3f}".encode())
                page = page[:match.start(1)] + start + page[match.end(1):]
            self.served.append((start if match else None, page))
            return page


def serve(targets):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            target = targets.get(urllib.parse.unquote(self.path[1:]))
            page = target.next() if target else None
            self.send_response(503 if page is None else 200)
            openmetrics = page is not None and page.rstrip().endswith(b"# EOF")
            self.send_header("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8" if openmetrics
                             else "text/plain; version=0.0.4; charset=utf-8")
            self.end_headers()
            self.wfile.write(page or b"")

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


# ---------------------------------------------------------------- Prometheus

class Prometheus:
    def __init__(self, port, instances, folder):
        program = shutil.which("prometheus") or fail("there is no `prometheus` on PATH (Debian: apt install prometheus)")
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
            "scrape_configs": [{
                "job_name": "pages", "honor_timestamps": False,
                "static_configs": [{"targets": [f"127.0.0.1:{port}"],
                                    "labels": {"instance": name, "__metrics_path__": "/" + urllib.parse.quote(name)}}
                                   for name in instances],
            }],
        }
        with open(os.path.join(folder, "prometheus.yml"), "w") as f:
            json.dump(config, f)  # JSON is YAML
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.log = os.path.join(folder, "log")

        def die_with_parent():
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)

        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [program, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                 f"--web.listen-address={self.address}", "--log.level=warn"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent)

    def stop(self):
        self.process.kill()
        self.process.wait()

    def check(self):
        if self.process.poll() is not None:
            fail(f"prometheus has ended with {self.process.returncode}:\n" + open(self.log).read()[-2000:])

    def ask(self, query, at):
        """The result of an instant query."""
        body = urllib.parse.urlencode({"query": query, "time": at}).encode()
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://{self.address}/api/v1/query", body, timeout=ANSWERS) as answer:
                return json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as e:
            fail(f"{query[:500]}: {e.read().decode()[:1000]}")


# ---------------------------------------------------------------- what is asked

def seconds(ms):
    return f"{ms // 1000}.{ms % 1000:03}"


class Questions:
    """`times`: instance -> times of its pages (ms); `processes`: instance -> for each process the times of its pages."""

    def __init__(self, processes):
        self.processes = processes
        self.times = {name: [t for process in chain for t in process] for name, chain in processes.items()}
        self.start = min(times[0] for times in self.times.values())
        self.end = max(times[-1] for times in self.times.values())

    @staticmethod
    def of(selector, instance):
        name, labels = re.fullmatch(r"\s*([a-zA-Z_:][\w:]*)\s*(?:\{(.*)\})?\s*", selector, re.S).groups()
        return f'{name}{{{labels + "," if labels else ""}instance={json.dumps(instance)}}}'

    def gauge(self, selector):
        return " or ".join(f"{self.of(selector, name)} @ {seconds(times[-1])}" for name, times in self.times.items())

    def plain(self, selector):
        return " or ".join(f"increase({self.of(selector, name)}[{times[-1] - times[0]}ms] @ {seconds(times[-1])})"
                           for name, times in self.times.items() if len(times) > 1)

    def increase(self, selector):
        terms = []
        for name, chain in self.processes.items():
            x = self.of(selector, name)
            for number, pages in enumerate(chain):
                def unless_there(first, last):
                    """Nothing if the series is on one of these pages."""
                    if first > last:
                        return ""
                    return f" unless present_over_time({x}[{max(1, pages[last] - pages[first])}ms] @ {seconds(pages[last])})"
                for a, at in enumerate(pages):
                    if a > 0 or number > 0:
                        terms.append(f"{x} @ {seconds(at)}" + unless_there(0, a - 1))
                    for b in range(a + 1, len(pages)):
                        terms.append(f"increase({x}[{pages[b] - at}ms] @ {seconds(pages[b])})"
                                     f" and {x} @ {seconds(at)} and {x} @ {seconds(pages[b])}"
                                     + unless_there(0, a - 1) + unless_there(b + 1, len(pages) - 1))
        parts = (f'label_replace({term}, "part", "{number}", "", "")' for number, term in enumerate(terms))
        return f"sum without (part) ({' or '.join(parts)})"

    def seconds(self):
        up = "up{instance=%s}"
        return " or ".join(
            f"sum by (instance) (timestamp({up % json.dumps(name)} @ {seconds(times[-1])})"
            f" - timestamp({up % json.dumps(name)} @ {seconds(times[0])}))" for name, times in self.times.items())

    def rate(self, selector):
        return f"{self.increase(selector)} / on (instance) group_left () ({self.seconds()})"

    def write(self, query):
        """The query with all that stands in braces put in."""
        query = query.replace("{start}", seconds(self.start)).replace("{end}", seconds(self.end))
        query = query.replace("{range}", f"{self.end - self.start}ms").replace("{seconds}", f"({self.seconds()})")
        while match := re.search(r"\{(gauge|plain|increase|rate):", query):
            depth, quoted, at = 1, False, match.end()
            while depth:
                quoted ^= query[at] == '"' and query[at - 1] != "\\"
                depth += 0 if quoted else {"{": 1, "}": -1}.get(query[at], 0)
                at += 1
            query = f"{query[:match.start()]}({getattr(self, match[1])(query[match.end():at - 1])}){query[at:]}"
        return query


# ---------------------------------------------------------------- one run

def read(path):
    if not path.endswith(".zst"):
        return open(path, "rb").read()
    import zstandard
    with open(path, "rb") as f:
        return zstandard.ZstdDecompressor().stream_reader(io.BytesIO(f.read()), read_across_frames=True).read()


def stored(prometheus, targets):
    """Instance -> times (ms) at which Prometheus stored its pages."""
    now = time.time()
    found = {series["metric"]["instance"]: series["values"] for series in prometheus.ask("up[10m]", now)}
    times = {}
    for name, target in targets.items():
        ups = [value == "1" for _, value in found.get(name, [])]
        wanted = [page is not None for page in target.pages]
        if ups[:len(wanted)] != wanted or any(ups[len(wanted):]):
            fail(f"{name}: the pages were to be stored as {wanted}, and were as {ups}:\n" + open(prometheus.log).read()[-2000:])
        times[name] = [round(at * 1000) for (at, _), up in zip(found[name], ups) if up]
    return times


def limit(what, seconds):
    """Ends this program if it is not through within `seconds`."""
    signal.signal(signal.SIGALRM, lambda *_: fail(f"not {what} within {seconds} seconds"))
    signal.alarm(seconds)


def run(args, folder):
    with open(args.pages) as f:
        files = json.load(f)
    beside = os.path.dirname(os.path.abspath(args.pages))
    targets = {name: Target([path and read(os.path.join(beside, path)) for path in paths]) for name, paths in files.items()}
    queries = {}
    if args.queries:
        with open(args.queries) as f:
            queries = json.load(f)

    server = serve(targets)
    prometheus = Prometheus(server.server_address[1], targets, folder)
    try:
        while any(target.asked <= len(target.pages) for target in targets.values()):
            prometheus.check()
            time.sleep(0.05)
        time.sleep(0.2)
        times = stored(prometheus, targets)
        limit("answered", ANSWERS)
        processes = {}
        for name, target in targets.items():
            os.makedirs(os.path.join(args.out, name), exist_ok=True)
            chain, last = processes.setdefault(name, []), object()
            for at, (start, page) in zip(times[name], target.served):
                with open(os.path.join(args.out, name, f"{seconds(at)}.txt"), "wb") as f:
                    f.write(page)
                if start != last:
                    chain.append([])
                chain[-1].append(at)
                last = start
        questions = Questions(processes)
        results = {}
        for name, query in queries.items():
            answer = prometheus.ask(questions.write(query), seconds(questions.end))
            results[name] = [{"metric": {k: v for k, v in sample["metric"].items() if k != "job"},
                              "value": float(sample["value"][1]) if math.isfinite(float(sample["value"][1])) else None}
                             for sample in answer]
        return results
    finally:
        prometheus.stop()
        server.shutdown()


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--pages", required=True)
    arguments.add_argument("--out", required=True)
    arguments.add_argument("--queries")
    args = arguments.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: fail("terminated"))
    limit("scraped", SCRAPING)
    with tempfile.TemporaryDirectory() as folder:
        results = run(args, folder)
    json.dump(results, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
