#!/usr/bin/env python3
"""Makes large audit logs for benchmarks from the sample log list-storm/apiserver-0.

    make_logs.py repeat --size 1GB OUT|-    the sample over and over: fresh audit ids, later times
    make_logs.py fleet  --size 1GB OUT|-    the same events as of 10,000 nodes, 2,000 users, 500 namespaces
    make_logs.py fleet  --nodes 100 --users 300 --rate 200 --seconds 3600 OUT|-    another fleet, so long

Sizes: bytes, or with kB MB GB (powers of 1000) or KiB MiB GiB; whole lines up to that size. The same size, mode
and seed give the same bytes, and a smaller size a beginning of the larger. Needs the module zstandard or the
program zstd. A gigabyte takes some seconds; OUT `-` is standard output, for a pipe:

    make_logs.py repeat --size 10GB - | zstd -T0 -3 > big.log.zst
"""
import argparse
import heapq
import json
import os
import pathlib
import random
import re
import subprocess
import sys
from bisect import bisect
from datetime import datetime, timezone
from itertools import accumulate

SAMPLE = pathlib.Path(__file__).resolve().parent.parent / "samples/list-storm/audit/apiserver-0/audit.log.zst"
CHUNK = 4 << 20


def sample():
    try:
        import zstandard
        return zstandard.ZstdDecompressor().stream_reader(open(SAMPLE, "rb")).read()
    except ImportError:
        return subprocess.run(["zstd", "-dcq", str(SAMPLE)], check=True, capture_output=True).stdout


class Sink:
    """Takes whole lines, writes them in chunks, ends at the size."""

    def __init__(self, out, size):
        self.file = sys.stdout.buffer if out == "-" else open(out, "wb")
        self.left = size
        self.held = []
        self.bytes = 0

    def take(self, lines):
        """Lines as one piece of bytes; False when the size is reached."""
        if len(lines) > self.left:
            end = lines.rfind(b"\n", 0, self.left) + 1
            self.held.append(lines[:end])
            self.left = 0
            return False
        self.left -= len(lines)
        self.held.append(lines)
        self.bytes += len(lines)
        if self.bytes >= CHUNK:
            self.file.write(b"".join(self.held))
            self.held, self.bytes = [], 0
        return True

    def close(self):
        self.file.write(b"".join(self.held))
        self.file.flush()


def seconds_of(text):
    return int(datetime.fromisoformat(text[:19].decode() + "+00:00").timestamp())


class Clock(dict):
    """Second since 1970 -> b'2026-11-20T09:18:00'."""

    def __missing__(self, second):
        self[second] = text = datetime.fromtimestamp(second, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S").encode()
        return text


# ---------------------------------------------------------------- repeat

HOLES = re.compile(rb'(?<="auditID":")([0-9a-f]{8})(?=-)|(?<="requestReceivedTimestamp":")([0-9T:-]{19})|(?<="stageTimestamp":")([0-9T:-]{19})')


def repeat(sink):
    """Every line is cut at the first 8 digits of its audit id and at the seconds of its two times."""
    text = sample()
    pieces, ids, times = [], [], []  # pieces[1::2] are the holes; (index into pieces, value) of each
    at = 0
    for line in re.finditer(rb"[^\n]*\n", text):
        holes = list(HOLES.finditer(text, line.start(), line.end()))
        if [bool(h[1]) + 2 * bool(h[2]) + 3 * bool(h[3]) for h in holes] != [1, 2, 3]:
            sys.exit(f"a line of the sample is not of the expected form: {line[0][:200]!r}")
        for hole in holes:
            pieces.append(text[at:hole.start()])
            (ids if hole[1] else times).append((len(pieces), int(hole[1], 16) if hole[1] else seconds_of(hole[0])))
            pieces.append(hole[0])
            at = hole.end()
    pieces.append(text[at:])

    stage_seconds = [seconds_of(m[3]) for m in HOLES.finditer(text) if m[3]]
    period = max(stage_seconds) - min(stage_seconds) + 1
    clock = Clock()
    turn = 0
    while True:
        # Distinct for every turn below 2^32, for the multiplier is odd; the other 96 bits tell the events apart.
        mask = turn * 0x9E3779B1 & 0xFFFFFFFF
        for place, value in ids:
            pieces[place] = b"%08x" % (value ^ mask)
        shift = turn * period
        for place, value in times:
            pieces[place] = clock[value + shift]
        if not sink.take(b"".join(pieces)):
            return
        clock.clear()
        turn += 1


# ---------------------------------------------------------------- fleet

NODES, USERS, NAMESPACES, PRODUCTS = 10_000, 2_000, 500, 60
MICROS_PER_BYTE = 1.8  # 1 GB in 30 minutes

# What kubelets do, in hundredths of their traffic: (verb, resource, subresource) of sample events.
KUBELET = {
    ("update", "leases", None): 56, ("get", "pods", None): 9, ("patch", "pods", "status"): 9, ("get", "nodes", None): 6,
    ("patch", "nodes", "status"): 4, ("create", "serviceaccounts", "token"): 4, ("watch", "configmaps", None): 5,
    ("watch", "pods", None): 2, ("watch", "nodes", None): 1, ("watch", "services", None): 1, ("delete", "pods", None): 2,
    ("get", "leases", None): 1,
}
SHARE_KUBELET, SHARE_ACCOUNT = 0.62, 0.33  # the rest is the control plane's

WORDS = ("cert external-dns ingress-nginx argocd flux prometheus alertmanager grafana loki promtail fluent-bit vector "
         "otel-collector jaeger tempo velero kyverno gatekeeper falco trivy istiod linkerd cilium calico coredns metrics-server "
         "keda karpenter cluster-autoscaler vpa descheduler node-problem-detector csi-provisioner csi-attacher csi-snapshotter "
         "longhorn rook minio strimzi eck-operator postgres-operator redis-operator rabbitmq-operator vault external-secrets "
         "sealed-secrets reloader tekton jenkins gitlab-runner actions-runner knative crossplane cluster-api kubevirt backstage "
         "kubecost goldilocks kured sloth").split()


def go_json(value):
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


class Template:
    """A line of the sample with marks of the form @name@ where values go."""

    def __init__(self, event):
        text = go_json(event) + "\n"
        parts = re.split(r"@([a-z]+)@", text)
        self.format = "%b".join(part.replace("%", "%%") for part in parts[::2]).encode()
        self.names = parts[1::2]
        self.watch = event["verb"] == "watch"
        # A watch that fails ends at once, others when the client's time is up.
        timeout = re.search(r"[?&]timeoutSeconds=(\d+)", event["requestURI"])
        self.life = 0.002 if event.get("responseStatus", {}).get("code", 0) >= 400 else int(timeout[1]) if timeout else 450
        # The end of a watch is the line of its start with another stage.
        self.end = self.format.replace(b'"stage":"ResponseStarted"', b'"stage":"ResponseComplete"')


def marked(event):
    event = json.loads(json.dumps(event))
    event.update(auditID="@id@", requestReceivedTimestamp="@received@", stageTimestamp="@at@")
    return event


def replace_all(event, pairs):
    """Replaces whole words everywhere in the event's text."""
    text = json.dumps(event, ensure_ascii=False)
    for old, new in pairs:
        text = re.sub(rf"(?<![\w.-]){re.escape(old)}(?![\w-])", lambda _: new, text)
    return json.loads(text)


def mark_object(event):
    """Marks namespace and name of the object in the reference and in the URI."""
    ref = event.get("objectRef", {})
    path, question, query = event["requestURI"].partition("?")
    for field in ("name", "namespace"):
        old = ref.get(field)
        if old and f"/{old}" in path and "@" not in old and not old.startswith("kube-"):
            path = re.sub(rf"/{re.escape(old)}(?=/|$)", f"/@{field}@", path)
            ref[field] = f"@{field}@"
    event["requestURI"] = path + question + query
    return event


def templates():
    """(kubelet templates by kind, service account templates, control plane templates)."""
    kubelet, account, plane = {kind: [] for kind in KUBELET}, [], []
    for line in sample().decode().splitlines():
        if '"ResponseComplete"' in line and '"verb":"watch"' in line:
            continue
        event = json.loads(line)
        user, ref = event["user"]["username"], event.get("objectRef", {})
        if event["stage"] == "ResponseStarted" and event["verb"] != "watch":
            continue
        if user.startswith("system:node:"):
            kind = (event["verb"], ref.get("resource"), ref.get("subresource"))
            if kind in kubelet and len(kubelet[kind]) < 24:
                node = user.removeprefix("system:node:")
                event = replace_all(marked(event), [(node, "@node@")])
                event["user"].update(username="system:node:@node@", uid="@node@", groups=["system:nodes", "system:authenticated"])
                event.update(sourceIPs=["@nodeip@"], userAgent="kubelet/v1.36.0 (linux/amd64) kubernetes/a1b2c3d")
                kubelet[kind].append(Template(mark_object(event)))
        elif user.startswith("system:serviceaccount:") and ":kube-system:" not in user:
            event = marked(event)
            event["user"].update(username="system:serviceaccount:@home@:@account@", uid="@uid@", groups=[
                "system:serviceaccounts", "system:serviceaccounts:@home@", "system:authenticated"])
            event["user"]["extra"] = {"authentication.kubernetes.io/node-name": ["@on@"],
                                      "authentication.kubernetes.io/pod-name": ["@account@-7d9c5b6f4-x2x9z"]}
            event.update(sourceIPs=["@podip@"], userAgent="@agent@")
            account.append(Template(mark_object(event)))
        elif user.startswith("system:") and event["verb"] != "watch":
            plane.append(Template(marked(event)))
    missing = [kind for kind, found in kubelet.items() if not found]
    if missing:
        sys.exit(f"the sample has no {missing}")
    return kubelet, account, plane


def fleet(sink, seed, nodes=NODES, users=USERS, rate=None, seconds=None):
    rng = random.Random(seed)
    kubelet, account, plane = templates()

    node_names = [b"node-%05d" % n for n in range(nodes)]
    node_ips = [b"10.%d.%d.%d" % (64 + n // 65536, n // 256 % 256, n % 256) for n in range(nodes)]
    spaces = [b"team-%02d-%s" % (n // 10, (b"dev", b"test", b"prod", b"batch", b"web", b"data", b"jobs", b"ci", b"api", b"ops")[n % 10])
              for n in range(NAMESPACES)]
    products = [word.encode() for word in WORDS[:PRODUCTS]]
    assert len(set(products)) == PRODUCTS
    accounts = []
    for n in range(users):
        product = products[n * 7 % PRODUCTS] if n < PRODUCTS else rng.choice(products)
        version = b"v%d.%d.%d" % (rng.randrange(3), rng.randrange(30), rng.randrange(6))
        agent = b"%s/%s (linux/amd64) kubernetes/%07x" % (product, version, rng.getrandbits(28))
        accounts.append({
            "home": spaces[n % NAMESPACES], "account": b"%s-%d" % (product, n // NAMESPACES), "agent": agent,
            "uid": b"%08x-0000-4000-8000-%012x" % (rng.getrandbits(32), n),
            "podips": [(b"10.%d.%d.%d" % (128 + rng.randrange(64), rng.randrange(256), rng.randrange(1, 255)),
                        node_names[rng.randrange(nodes)]) for _ in range(1 + rng.randrange(3))],
        })
    # A few accounts do most of the work.
    weights = list(accumulate(1 / (1 + n) ** 0.8 for n in range(users)))
    busy = [accounts[bisect(weights, (i + 0.5) / 65536 * weights[-1])] for i in range(65536)]
    rng.shuffle(busy)
    latencies = [min(30_000_000, int(rng.lognormvariate(8.0, 1.1))) + 400 for _ in range(65536)]
    objects = [b"obj-%d" % n for n in range(2000)]

    # One cycle of 4096 turns says who is next, so that the shares hold however short the log is.
    cycle = []
    kinds = [kind for kind, share in KUBELET.items() for _ in range(share)]
    for n in range(4096):
        share = n / 4096
        if share < SHARE_KUBELET:
            cycle.append(("kubelet", rng.choice(kubelet[kinds[n % len(kinds)]])))
        elif share < SHARE_KUBELET + SHARE_ACCOUNT:
            cycle.append(("account", rng.choice(account)))
        else:
            cycle.append(("plane", rng.choice(plane)))
    rng.shuffle(cycle)

    clock = Clock()
    stamp = b"%b.%06dZ"
    now = 1_795_166_280 * 1_000_000
    last = None if seconds is None else now + seconds * 1_000_000
    pending = []  # (end, number, text of the end before its stageTimestamp is known)
    random_bits, random_float = rng.getrandbits, rng.random
    values = {}
    number = node = 0
    batch, batch_bytes = [], 0
    while True:
        for who, template in cycle:
            number += 1
            bits = random_bits(48)
            if who == "kubelet":
                node = (node + 7919) % nodes  # every node once in nodes turns, in no order
                values["node"], values["nodeip"] = node_names[node], node_ips[node]
                values["namespace"], values["name"] = spaces[bits % NAMESPACES], objects[(bits >> 12) % 2000]
            elif who == "account":
                actor = busy[bits & 65535]
                values["home"], values["account"], values["agent"], values["uid"] = (
                    actor["home"], actor["account"], actor["agent"], actor["uid"])
                values["podip"], values["on"] = actor["podips"][(bits >> 16) % len(actor["podips"])]
                values["namespace"] = actor["home"] if bits >> 20 & 3 else spaces[(bits >> 24) % NAMESPACES]
                values["name"] = objects[(bits >> 36) % 2000]
            received = now - latencies[bits >> 32]
            high, low = random_bits(64), random_bits(64)
            values["id"] = b"%08x-%04x-4%03x-%04x-%012x" % (high >> 32, high >> 16 & 0xFFFF, high & 0xFFF,
                                                          0x8000 | low >> 50, low & 0xFFFFFFFFFFFF)
            values["received"] = stamp % (clock[received // 1_000_000], received % 1_000_000)
            values["at"] = stamp % (clock[now // 1_000_000], now % 1_000_000)
            line = template.format % tuple([values[name] for name in template.names])
            batch.append(line)
            size = len(line)
            if template.watch:
                values["at"] = b"%b"  # the other values hold no %, but the line may
                end = template.end.replace(b"%%", b"%%%%") % tuple([values[name] for name in template.names])
                heapq.heappush(pending, (now + int(template.life * (0.9 + 0.2 * random_float()) * 1_000_000), number, end))
            while pending and pending[0][0] <= now:
                line = heapq.heappop(pending)[2] % (stamp % (clock[now // 1_000_000], now % 1_000_000))
                batch.append(line)
                size += len(line)
            batch_bytes += size
            now += int((size * MICROS_PER_BYTE if rate is None else 1_000_000 / rate) * (0.5 + random_float()))
            if last is not None and now >= last:
                sink.take(b"".join(batch))
                return
            if batch_bytes > CHUNK:
                if not sink.take(b"".join(batch)):
                    return
                batch, batch_bytes = [], 0
                if len(clock) > 100_000:
                    clock.clear()


def size_of(text):
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(?:([kKMGT])(i?)B?|B)?", text)
    if not match:
        raise argparse.ArgumentTypeError(f"not a size: {text}")
    power = " kMGT".index((match[2] or " ").replace("K", "k"))
    return int(float(match[1]) * (1024 if match[3] else 1000) ** power)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("mode", choices=["repeat", "fleet"])
    arguments.add_argument("--size", type=size_of, default=size_of("1GB"))
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--nodes", type=int, default=NODES)
    arguments.add_argument("--users", type=int, default=USERS)
    arguments.add_argument("--rate", type=float, help="requests a second of a fleet")
    arguments.add_argument("--seconds", type=int, help="ends a fleet after so long")
    arguments.add_argument("out", metavar="OUT|-")
    args = arguments.parse_args()
    sink = Sink(args.out, args.size)
    try:
        repeat(sink) if args.mode == "repeat" else fleet(sink, args.seed, args.nodes, args.users, args.rate, args.seconds)
        sink.close()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
