#!/usr/bin/env python3
"""Fills a real etcd with the objects of a large Kubernetes cluster and saves a snapshot of it.

    make_etcd.py --size 2.3GB OUT.db [--seed 5]

Needs etcd and etcdctl on the PATH (`.ci/setup`), and twice the size on the disk while it runs. 2.3 GB are about 700,000 objects: pods,
replica sets, deployments, jobs, Events with leases, node leases, Helm releases, custom resources, policy reports and so on, protobuf as
kube-apiserver stores it, or JSON. Some are written again, some deleted, and a compaction in between leaves history only of what came
later. The same size and seed give the same revisions.

Prints as JSON what is in the file, as counted while it was written: by resource the live keys, their bytes, and the revisions since
the compaction. That is an account independent of whoever reads the file.
"""
import argparse
import functools
import json
import os
import queue
import random
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

from make_profile import varint

BYTES_PER_OBJECT = 3300  # of the file, over this mixture of objects
TXN_BYTES, TXN_OPS = 400_000, 5000
EPOCH = 1_790_000_000


# Protobuf, as far as it is needed.
SMALL = [varint(n) for n in range(1 << 14)]


def data(field, value):
    size = len(value)
    return SMALL[field << 3 | 2] + (SMALL[size] if size < 1 << 14 else varint(size)) + value


def text(field, value):
    return data(field, value.encode())


def number(field, value):
    return SMALL[field << 3] + varint(value)


# gRPC over HTTP/2, as far as it is needed: one call at a time, no TLS. JSON through etcd's gateway takes ten times as long.

class Grpc:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer, self.stream, self.authority = b"", -1, f"127.0.0.1:{port}"
        self.window, self.initial, self.streams = 65535, 65535, {}
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + self.frame(4, 0, 0, b""))

    @staticmethod
    def frame(kind, flags, stream, payload):
        return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload

    def take(self, count):
        while len(self.buffer) < count:
            more = self.socket.recv(1 << 16)
            if not more:
                raise ConnectionError("etcd has closed the connection")
            self.buffer += more
        out, self.buffer = self.buffer[:count], self.buffer[count:]
        return out

    def read(self):
        """(kind, flags, stream, payload) of the next frame; what is about the connection is seen to."""
        head = self.take(9)
        length, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
        stream, payload = int.from_bytes(head[5:], "big") & 0x7FFFFFFF, self.take(length)
        if kind == 4 and not flags & 1:
            for at in range(0, length, 6):
                name, value = struct.unpack_from(">HI", payload, at)
                if name == 4:
                    for known in self.streams:
                        self.streams[known] += value - self.initial
                    self.initial = value
            self.socket.sendall(self.frame(4, 1, 0, b""))
        elif kind == 6 and not flags & 1:
            self.socket.sendall(self.frame(6, 1, 0, payload))
        elif kind == 7:
            raise ConnectionError(f"etcd says go away: {payload!r}")
        elif kind == 8:
            grown = int.from_bytes(payload, "big")
            if stream == 0:
                self.window += grown
            elif stream in self.streams:
                self.streams[stream] += grown
        elif kind == 0 and length:
            self.socket.sendall(self.frame(8, 0, 0, struct.pack(">I", length)))
        return kind, flags, stream, payload

    def call(self, method, message):
        self.stream += 2
        stream, self.streams = self.stream, {self.stream: self.initial}
        headers = {":method": "POST", ":scheme": "http", ":path": f"/etcdserverpb.{method}", ":authority": self.authority,
                   "te": "trailers", "content-type": "application/grpc"}
        packed = b"".join(b"\0" + bytes([len(k)]) + k.encode() + bytes([len(v)]) + v.encode() for k, v in headers.items())
        out = [self.frame(1, 4, stream, packed)]
        body = b"\0" + struct.pack(">I", len(message)) + message
        at, reply, last = 0, b"", False
        while at < len(body):
            room = min(self.window, self.streams[stream])
            if room <= 0:
                self.socket.sendall(b"".join(out))
                out = []
                last = self.read()[:3] in ((1, 5, stream),)
                if last:
                    break
                continue
            piece = body[at:at + min(room, 16384)]
            at += len(piece)
            self.window -= len(piece)
            self.streams[stream] -= len(piece)
            out.append(self.frame(0, 1 if at == len(body) else 0, stream, piece))
        self.socket.sendall(b"".join(out))
        trailers = b""
        while not last:
            kind, flags, of, payload = self.read()
            if of == stream and kind == 0:
                reply += payload
            elif of == stream and kind in (1, 3):
                trailers, last = payload, kind == 3 or bool(flags & 1)
        if not reply:
            raise RuntimeError(f"{method} failed: {trailers!r}")
        return reply[5:]


# Kubernetes' objects.

def time_of(second):
    return number(1, EPOCH + second) + number(2, 0)


def stamp(second):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(EPOCH + second))


def pairs(field, items):
    return b"".join(data(field, text(1, k) + text(2, v)) for k, v in items)


@functools.lru_cache(4096)
def fields_v1(count, seed):
    """What a writer owns, of about count × 34 bytes."""
    names = random.Random(seed)
    leaf = ["image", "imagePullPolicy", "name", "resources", "terminationMessagePath", "terminationMessagePolicy", "securityContext"]
    out = {"f:metadata": {"f:labels": {".": {}, "f:app.kubernetes.io/name": {}}}}
    rest = out.setdefault("f:spec", {})
    for n in range(count):
        rest.setdefault(f'k:{{"name":"{names.choice(leaf)}-{n // 6}"}}', {".": {}})[f"f:{leaf[n % 7]}"] = {}
    return json.dumps(out, separators=(",", ":")).encode()


def managed(manager, api, second, count, seed, sub=""):
    return data(17, text(1, manager) + text(2, "Apply" if manager.startswith("argocd") else "Update") + text(3, api) + data(4, time_of(second))
                + text(6, "FieldsV1") + data(7, data(1, fields_v1(count, seed))) + text(8, sub))


def owner(kind, name, uid, api, controller=True):
    return data(13, text(1, kind) + text(3, name) + text(4, uid) + text(5, api) + number(6, controller) + number(7, True))


def meta(name, namespace, uid, second, labels=(), annotations=(), owners=b"", fields=b"", generate="", generation=0):
    return data(1, text(1, name) + text(2, generate) + text(3, namespace) + b"\x22\0" + text(5, uid) + b"\x32\0" + number(7, generation)
                + data(8, time_of(second)) + pairs(11, labels) + pairs(12, annotations) + owners + fields)


def envelope(api, kind, raw):
    return b"k8s\0" + data(1, text(1, api) + text(2, kind)) + data(2, raw) + b"\x1a\0\x22\0"


def json_object(api, kind, name, namespace, uid, second, body, manager, owners=(), labels=None, count=20):
    fields = [{"apiVersion": api, "fieldsType": "FieldsV1", "fieldsV1": json.loads(fields_v1(count, count)), "manager": manager,
               "operation": "Update", "time": stamp(second)}]
    metadata = {"creationTimestamp": stamp(second), "generation": 1, "labels": labels or {}, "managedFields": fields, "name": name,
                "namespace": namespace, "uid": uid}
    if owners:
        metadata["ownerReferences"] = [{"apiVersion": a, "blockOwnerDeletion": True, "controller": True, "kind": k, "name": n, "uid": u}
                                       for k, n, u, a in owners]
    if not namespace:
        del metadata["namespace"]
    value = {"apiVersion": api, "kind": kind, "metadata": metadata, **body}
    return (json.dumps(value, separators=(",", ":"), ensure_ascii=False) + "\n").encode()


WORDS = ("payment checkout search catalog basket ledger fraud notify render image stream index batch report export import sync proxy edge "
         "cache queue worker api web admin auth token mail user order stock price quote route geo map feed rank model train infer score").split()


BOOK = " ".join(random.Random(7).choices(WORDS, k=150_000))


def prose(rng, size):
    at = int(rng.random() * (len(BOOK) - size))
    return BOOK[at:at + size]


class Cluster:
    """Gives out (resource, key, build, lease) without end; build(turn) is the value, a little different each turn."""

    def __init__(self, seed, objects):
        self.rng = random.Random(seed)
        self.nodes = max(3, objects // 300)
        self.namespaces = max(5, objects // 700)
        self.second, self.event, self.lease = 0, 0, 0

    def uid(self):
        bits = f"{self.rng.getrandbits(128):032x}"
        return f"{bits[:8]}-{bits[8:12]}-4{bits[13:16]}-a{bits[17:20]}-{bits[20:]}"

    def suffix(self, count):
        return "".join(self.rng.choices("bcdfghjklmnpqrstvwxz2456789", k=count))

    def start(self):
        for n in range(self.nodes):
            name, uid = f"ip-10-{n >> 16 & 255}-{n >> 8 & 255}-{n & 255}.eu-central-1.compute.internal", self.uid()
            yield "minions", f"/registry/minions/{name}", functools.partial(self.node, name, uid, self.second, n), 0
            yield "leases", f"/registry/leases/kube-node-lease/{name}", functools.partial(self.node_lease, name, uid, self.uid(), self.second), 0
        for n in range(self.namespaces):
            name, uid = self.namespace(n), self.uid()
            raw = meta(name, "", uid, self.second, [("kubernetes.io/metadata.name", name)], fields=managed("kubectl-create", "v1", self.second, 4, 1))
            value = envelope("v1", "Namespace", raw + data(2, text(1, "kubernetes")) + data(3, text(1, "Active")))
            yield "namespaces", f"/registry/namespaces/{name}", lambda turn, value=value: value, 0
            yield from self.account(name, "default")
            yield from self.root_ca(name)
        for group, plural in CUSTOM + [("wgpolicyk8s.io", "policyreports")]:
            name = f"{plural}.{group}"
            body = {"spec": {"group": group, "names": {"kind": plural[:-1].capitalize(), "plural": plural}, "scope": "Namespaced",
                             "versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"description": prose(self.rng, 30_000), "type": "object"}},
                                           "served": True, "storage": True}]}}
            value = json_object("apiextensions.k8s.io/v1", "CustomResourceDefinition", name, "", self.uid(), self.second, body, "helm")
            yield "customresourcedefinitions", f"/registry/apiextensions.k8s.io/customresourcedefinitions/{name}", lambda turn, value=value: value, 0

    def namespace(self, n):
        return "default" if n == 0 else "kube-system" if n == 1 else f"team-{n:04d}"

    def some_namespace(self):
        # A few have much, most have little.
        return self.namespace(int(self.namespaces * self.rng.random() ** 2.5))

    def __iter__(self):
        yield from self.start()
        while True:
            self.second += 7
            yield from self.application()

    # Single kinds.

    def node(self, name, uid, second, n, turn):
        images = b"".join(data(8, text(1, f"registry.example.com/team/{WORDS[i % len(WORDS)]}@sha256:{n * 977 + i:064x}")
                               + text(1, f"registry.example.com/team/{WORDS[i % len(WORDS)]}:v{i}") + number(2, 90_000_000 + i * 1_000_003)) for i in range(40))
        conditions = b"".join(data(4, text(1, kind) + text(2, status) + data(3, time_of(second + turn * 300)) + data(4, time_of(second)) + text(5, reason)
                                   + text(6, "kubelet has sufficient resources available"))
                              for kind, status, reason in [("MemoryPressure", "False", "KubeletHasSufficientMemory"), ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
                                                           ("PIDPressure", "False", "KubeletHasSufficientPID"), ("Ready", "True", "KubeletReady")])
        labels = [("kubernetes.io/hostname", name), ("node.kubernetes.io/instance-type", "m6i.4xlarge"), ("topology.kubernetes.io/zone", f"eu-central-1{'abc'[n % 3]}")]
        raw = meta(name, "", uid, second, labels, [("csi.volume.kubernetes.io/nodeid", f'{{"ebs.csi.aws.com":"i-{n:017x}"}}')],
                   fields=managed("kubelet", "v1", second, 40, 2) + managed("kubelet", "v1", second + turn, 60, 3, "status"))
        return envelope("v1", "Node", raw + data(2, text(3, f"aws:///i-{n:017x}")) + data(3, conditions + images))

    def node_lease(self, name, node_uid, uid, second, turn):
        raw = meta(name, "kube-node-lease", uid, second, owners=owner("Node", name, node_uid, "v1", False), fields=managed("kubelet", "coordination.k8s.io/v1", second, 6, 4))
        spec = text(1, name) + number(2, 40) + data(4, number(1, EPOCH + second + 10 * turn) + number(2, 123_456_000))
        return envelope("coordination.k8s.io/v1", "Lease", raw + data(2, spec))

    def account(self, namespace, name):
        raw = meta(name, namespace, self.uid(), self.second)
        value = envelope("v1", "ServiceAccount", raw)
        yield "serviceaccounts", f"/registry/serviceaccounts/{namespace}/{name}", lambda turn: value, 0

    def root_ca(self, namespace):
        raw = meta("kube-root-ca.crt", namespace, self.uid(), self.second, annotations=[("kubernetes.io/description", prose(self.rng, 200))],
                   fields=managed("kube-controller-manager", "v1", self.second, 3, 5))
        value = envelope("v1", "ConfigMap", raw + pairs(2, [("ca.crt", "-----BEGIN CERTIFICATE-----\n" + "MIIC" * 260)]))
        yield "configmaps", f"/registry/configmaps/{namespace}/kube-root-ca.crt", lambda turn: value, 0

    def config(self, namespace, name, app):
        rng = self.rng
        size = 200_000 + rng.randrange(200_000) if rng.random() < 0.0008 else int(300 + rng.expovariate(1 / 700))
        inner = [("application.yaml", prose(rng, size))]
        last = json.dumps({"apiVersion": "v1", "data": dict(inner), "kind": "ConfigMap", "metadata": {"annotations": {}, "name": name, "namespace": namespace}}, separators=(",", ":"))
        annotations = [("kubectl.kubernetes.io/last-applied-configuration", last)] if rng.random() < 0.4 and size < 100_000 else []
        uid, second, manager = self.uid(), self.second, rng.choice(["kubectl-client-side-apply", "helm", "argocd-controller"])

        def build(turn):
            raw = meta(name, namespace, uid, second, [("app", app)], annotations, fields=managed(manager, "v1", second + turn, 3, 6))
            return envelope("v1", "ConfigMap", raw + pairs(2, inner + ([("reloaded", str(turn))] if turn else [])))
        yield "configmaps", f"/registry/configmaps/{namespace}/{name}", build, 0

    def secret(self, namespace, name, app):
        raw = meta(name, namespace, self.uid(), self.second, [("app", app)], fields=managed("external-secrets", "v1", self.second, 5, 7))
        body = raw + b"".join(data(2, text(1, k) + data(2, self.rng.randbytes(n))) for k, n in [("tls.crt", 900 + self.rng.randrange(800)), ("tls.key", 1675)])
        value = envelope("v1", "Secret", body + text(3, "kubernetes.io/tls"))
        yield "secrets", f"/registry/secrets/{namespace}/{name}", lambda turn: value, 0

    def helm(self, namespace, app):
        # Helm keeps ten releases; a release is gzip in base64, so no text.
        for version in range(1, 1 + self.rng.choice([2, 5, 10])):
            name, packed = f"sh.helm.release.v1.{app}.v{version}", self.rng.randbytes(3_000 + self.rng.randrange(12_000)).hex().encode()
            labels = [("modifiedAt", str(EPOCH + self.second)), ("name", app), ("owner", "helm"), ("status", "superseded"), ("version", str(version))]
            raw = meta(name, namespace, self.uid(), self.second, labels, fields=managed("helm", "v1", self.second, 6, 8))
            value = envelope("v1", "Secret", raw + data(2, text(1, "release") + data(2, packed)) + text(3, "helm.sh/release.v1"))
            yield "secrets", f"/registry/secrets/{namespace}/{name}", lambda turn, value=value: value, 0

    def template(self, app):
        rng = self.rng
        containers = b""
        for n in range(rng.choice([1, 1, 1, 2])):
            env = b"".join(data(7, text(1, f"{rng.choice(WORDS).upper()}_{i}") + text(2, prose(rng, 30))) for i in range(rng.randrange(4, 14)))
            mounts = b"".join(data(9, text(1, f"vol-{i}") + number(2, True) + text(3, f"/etc/{app}/{i}") + text(4, "")) for i in range(3))
            limits = b"".join(data(f, text(1, k) + data(2, text(1, v))) for f, k, v in [(1, "cpu", "2"), (1, "memory", "2Gi"), (2, "cpu", "250m"), (2, "memory", "512Mi")])
            containers += data(2, text(1, f"{app}-{n}") + text(2, f"registry.example.com/team/{app}:v{rng.randrange(999)}") + text(5, "") + data(6, text(1, "http") + number(2, 0) + number(3, 8080) + text(4, "TCP") + text(5, ""))
                               + env + data(8, limits) + mounts + text(13, "/dev/termination-log") + text(14, "IfNotPresent"))
        volumes = b"".join(data(1, text(1, f"vol-{i}") + data(2, data(19, data(1, text(1, f"{app}-config"))))) for i in range(3))
        return volumes + containers + text(3, "Always") + number(4, 30) + text(6, "ClusterFirst")

    def pod(self, namespace, name, labels, owners, spec, writers):
        rng = self.rng
        node, uid, second, ip = rng.randrange(self.nodes), self.uid(), self.second, f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(1, 255)}"
        host = f"ip-10-{node >> 16 & 255}-{node >> 8 & 255}-{node & 255}.eu-central-1.compute.internal"

        def build(turn):
            raw = meta(name, namespace, uid, second, labels, [("prometheus.io/scrape", "true"), ("checksum/config", uid.replace("-", "") * 2)], owners,
                       managed("kube-controller-manager", "v1", second, writers, 9) + managed("kubelet", "v1", second + turn, 14, 10, "status"),
                       generate=name.rsplit("-", 1)[0] + "-")
            conditions = b"".join(data(2, text(1, k) + text(2, "True") + data(3, b"") + data(4, time_of(second + turn)) + text(5, "") + text(6, ""))
                                  for k in ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"])
            status = data(8, text(1, name) + data(2, data(2, data(1, time_of(second + turn)))) + number(4, 1) + number(5, turn) + text(6, "registry.example.com/team/app:v1")
                          + text(7, "registry.example.com/team/app@sha256:" + uid.replace("-", "") * 2) + text(8, "containerd://" + uid.replace("-", "") * 2))
            body = data(2, spec + text(8, "default") + text(10, host)) + data(3, text(1, "Running") + conditions + text(5, "10.0.0.1") + text(6, ip) + data(7, time_of(second)) + status * (1 + (turn > 2)))
            return envelope("v1", "Pod", raw + body)
        return uid, ("pods", f"/registry/pods/{namespace}/{name}", build, 0)

    def event_of(self, namespace, name, uid, reason):
        self.event += 1
        event, own, second = f"{name}.{0x17f0000000000000 + self.event * 7919:x}", self.uid(), self.second
        involved = text(1, "Pod") + text(2, namespace) + text(3, name) + text(4, uid) + text(5, "v1") + text(6, "") + text(7, "spec.containers{app}")
        message = prose(self.rng, 60 + self.rng.randrange(150))

        def build(turn):
            raw = meta(event, namespace, own, second, fields=managed("kubelet", "v1", second, 7, 11))
            return envelope("v1", "Event", raw + data(2, involved) + text(3, reason) + text(4, message) + data(5, text(1, "kubelet") + text(2, "node"))
                            + data(6, time_of(second)) + data(7, time_of(second + turn)) + number(8, 1 + turn) + text(9, "Normal") + text(14, "") + text(15, ""))
        if self.event % 1000 == 1:
            self.lease += 1
        return "events", f"/registry/events/{namespace}/{event}", build, self.lease

    def workload(self, kind, namespace, name, uid, labels, owners, spec, replicas, annotations=()):
        second = self.second

        def build(turn):
            raw = meta(name, namespace, uid, second, labels, annotations, owners, managed("argocd-controller", "apps/v1", second, 24, 12)
                       + managed("kube-controller-manager", "apps/v1", second + turn, 12, 13, "status"), generation=1 + turn)
            body = number(1, replicas) + data(2, pairs(1, labels)) + data(3, data(1, text(1, "") + pairs(11, labels)) + data(2, spec))
            return envelope("apps/v1", kind, raw + data(2, body) + data(3, number(1, replicas) + number(2, turn)))
        plural = kind.lower() + "s"
        return plural, f"/registry/{plural}/{namespace}/{name}", build, 0

    # What belongs together.

    def application(self):
        rng = self.rng
        namespace, app = self.some_namespace(), f"{rng.choice(WORDS)}-{rng.choice(WORDS)}-{self.suffix(4)}"
        labels = [("app", app), ("app.kubernetes.io/managed-by", rng.choice(["Helm", "argocd"])), ("team", f"t{rng.randrange(40)}")]
        yield from self.account(namespace, app)
        yield from self.config(namespace, f"{app}-config", app)
        yield from self.config(namespace, f"{app}-env", app)
        yield from self.secret(namespace, f"{app}-tls", app)
        yield from self.secret(namespace, f"{app}-token", app)
        if rng.random() < 0.03:
            yield from self.helm(namespace, app)
        binding = envelope("rbac.authorization.k8s.io/v1", "RoleBinding", meta(app, namespace, self.uid(), self.second, labels)
                           + data(2, text(1, "ServiceAccount") + text(2, "") + text(3, app) + text(4, namespace)) + data(3, text(1, "rbac.authorization.k8s.io") + text(2, "Role") + text(3, app)))
        yield "rolebindings", f"/registry/rolebindings/{namespace}/{app}", lambda turn: binding, 0
        top = []
        if rng.random() < 0.25:
            uid = self.uid()
            body = {"spec": {"source": {"repoURL": f"https://git.example.com/{app}", "path": "deploy", "helm": {"values": prose(rng, 1500)}}}, "status": {"history": prose(rng, 2000)}}
            value = json_object("argoproj.io/v1", "Rollout", app, namespace, uid, self.second, body, "argocd-controller", labels=dict(labels), count=60)
            yield "rollouts", f"/registry/argoproj.io/rollouts/{namespace}/{app}", lambda turn: value, 0
            top = [("Rollout", app, uid, "argoproj.io/v1")]
        spec = self.template(app)
        if rng.random() < 0.12:
            yield from self.cron(namespace, app, labels, spec)
        else:
            yield from self.deployment(namespace, app, labels, spec, top)
        service, service_uid = app, self.uid()
        raw = meta(service, namespace, service_uid, self.second, labels, fields=managed("helm", "v1", self.second, 12, 14))
        value = envelope("v1", "Service", raw + data(2, data(1, text(1, "http") + text(2, "TCP") + number(3, 80)) + pairs(2, labels) + text(3, "172.20.1.1") + text(4, "ClusterIP")))
        yield "services", f"/registry/services/specs/{namespace}/{service}", lambda turn, value=value: value, 0
        name, uid, second = f"{app}-{self.suffix(5)}", self.uid(), self.second

        def slice_(turn):
            raw = meta(name, namespace, uid, second, labels + [("kubernetes.io/service-name", service)], owners=owner("Service", service, service_uid, "v1"),
                       fields=managed("kube-controller-manager", "discovery.k8s.io/v1", second + turn, 8, 15))
            ends = b"".join(data(2, text(1, f"10.{i}.{turn}.7") + data(2, number(1, True)) + text(6, f"node-{i}") + data(4, text(1, "Pod") + text(2, namespace) + text(3, f"{app}-{i}"))) for i in range(6 + turn))
            return envelope("discovery.k8s.io/v1", "EndpointSlice", raw + ends + data(3, text(1, "http") + text(2, "TCP") + number(3, 8080)) + text(4, "IPv4"))
        yield "endpointslices", f"/registry/endpointslices/{namespace}/{name}", slice_, 0
        for group, plural in rng.sample(CUSTOM, 2):
            kind, name = plural[:-1].capitalize(), f"{app}-{plural[:4]}"
            body = {"spec": {"selector": dict(labels), "interval": "30s", "text": prose(rng, 300 + rng.randrange(1200))}, "status": {"conditions": [{"type": "Ready", "status": "True", "message": prose(rng, 80)}]}}
            owners = [("Service", service, service_uid, "v1")] if plural == "servicemonitors" else []
            value = json_object(f"{group}/v1", kind, name, namespace, self.uid(), self.second, body, rng.choice(["helm", "argocd-controller", "operator"]), owners, dict(labels), count=8)
            yield plural, f"/registry/{group}/{plural}/{namespace}/{name}", lambda turn, value=value: value, 0

    def deployment(self, namespace, app, labels, spec, top):
        rng = self.rng
        uid = self.uid()
        yield self.workload("Deployment", namespace, app, uid, labels, b"".join(owner(*o) for o in top), spec, 6, [("deployment.kubernetes.io/revision", "4")])
        for old in range(rng.choice([1, 2, 4, 7])):
            hash_ = self.suffix(10)
            name, set_uid = f"{app}-{hash_}", self.uid()
            owners = owner("Deployment", app, uid, "apps/v1")
            own = labels + [("pod-template-hash", hash_)]
            replicas = rng.choice([2, 3, 6, 10]) if old == 0 else 0
            yield self.workload("ReplicaSet", namespace, name, set_uid, own, owners, spec, replicas)
            for _ in range(replicas):
                yield from self.pod_and_more(namespace, f"{name}-{self.suffix(5)}", own, owner("ReplicaSet", name, set_uid, "apps/v1"), spec, rng.choice([12, 18, 24]))

    def cron(self, namespace, app, labels, spec):
        uid, second = self.uid(), self.second
        raw = meta(app, namespace, uid, second, labels, fields=managed("argocd-controller", "batch/v1", second, 40, 16))
        job_spec = data(4, data(1, text(1, "")) + data(2, spec))
        value = envelope("batch/v1", "CronJob", raw + data(2, text(1, "*/5 * * * *") + text(3, "Forbid") + data(5, data(1, text(1, "")) + data(2, job_spec))))
        yield "cronjobs", f"/registry/cronjobs/{namespace}/{app}", lambda turn: value, 0
        for n in range(6):
            name, job_uid = f"{app}-{29_000_000 + n}", self.uid()
            raw = meta(name, namespace, job_uid, second, labels, owners=owner("CronJob", app, uid, "batch/v1"), fields=managed("kube-controller-manager", "batch/v1", second, 25, 17))
            job = envelope("batch/v1", "Job", raw + data(2, number(1, 1) + number(2, 1) + job_spec) + data(3, number(5, 1)))
            yield "jobs", f"/registry/jobs/{namespace}/{name}", lambda turn, job=job: job, 0
            yield from self.pod_and_more(namespace, f"{name}-{self.suffix(5)}", labels + [("job-name", name)], owner("Job", name, job_uid, "batch/v1"), spec, 30)

    def pod_and_more(self, namespace, name, labels, owners, spec, writers):
        uid, pod = self.pod(namespace, name, labels, owners, spec, writers)
        yield pod
        for reason in self.rng.sample(["Scheduled", "Pulled", "Created", "Started", "Unhealthy", "BackOff", "Killing"], self.rng.choice([2, 3, 5, 7])):
            yield self.event_of(namespace, name, uid, reason)
        if self.rng.random() < 0.17:
            results = [{"category": "Pod Security Standards", "message": prose(self.rng, 90), "policy": f"policy-{n}", "result": "pass", "rule": "autogen", "scored": True, "source": "kyverno"} for n in range(self.rng.randrange(4, 14))]
            body = {"results": results, "scope": {"kind": "Pod", "name": name, "namespace": namespace, "uid": uid}, "summary": {"pass": len(results)}}
            value = json_object("wgpolicyk8s.io/v1alpha2", "PolicyReport", uid, namespace, self.uid(), self.second, body, "reports-controller", [("Pod", name, uid, "v1")], count=24)
            yield "policyreports", f"/registry/wgpolicyk8s.io/policyreports/{namespace}/{uid}", lambda turn: value, 0


CUSTOM = [("cert-manager.io", "certificates"), ("monitoring.coreos.com", "servicemonitors"), ("kafka.strimzi.io", "kafkatopics"), ("networking.istio.io", "virtualservices")]
AGAIN = {"pods": 0.12, "leases": 1.0, "events": 0.1, "endpointslices": 0.2, "minions": 0.5, "deployments": 0.15, "replicasets": 0.04, "configmaps": 0.03}


def operations(seed, objects):
    """("put", resource, key, value, lease), ("delete", resource, key), ("compact",). A key that is written again is so within some thousand operations."""
    rng, later, count = random.Random(seed + 1), [], 0
    delay = max(20, min(4000, objects // 50))
    for resource, key, build, lease in Cluster(seed, objects):
        yield "put", resource, key, build(0), lease
        count += 1
        if count == objects * 45 // 100:
            yield ("compact",)
        if rng.random() < AGAIN.get(resource, 0):
            later.append((resource, key, build, lease, 1, rng.choice([1, 1, 2, 4, 12] if resource != "events" else [1, 2])))
        elif resource in ("pods", "events", "jobs") and rng.random() < 0.05:
            later.append((resource, key, build, lease, 0, 0))
        while len(later) > delay or (count >= objects and later):
            at = rng.randrange(len(later))
            later[at], later[-1] = later[-1], later[at]
            resource, key, build, lease, turn, turns = later.pop()
            if turns == 0:
                yield "delete", resource, key
                continue
            yield "put", resource, key, build(turn), lease
            # Not all turns at once, else nothing would lie between them.
            if turn < turns and count < objects:
                later.append((resource, key, build, lease, turn + 1, turns))
        if count >= objects:
            return


def length_of(field, size):
    return len(varint(field << 3)) + len(varint(size)) + size


class Account:
    """What etcd should have, by the rules of its key space."""

    def __init__(self):
        self.revision, self.keys = 1, {}

    def put(self, resource, key, value, lease):
        old = self.keys.get(key)
        create, version = (old[1], old[2] + 1) if old and old[0] else (self.revision, 1)
        size = length_of(1, len(key)) + sum(len(varint(n)) + 1 for n in (create, self.revision, version)) + (length_of(5, len(value)) if value else 0)
        size += 1 + len(varint(lease)) if lease else 0
        fields = managed_bytes(value)
        past = old[3] + [(old[4], 0)] if old else []
        self.keys[key] = (True, create, version, past, 17 + size, resource, len(value), fields)

    def delete(self, key):
        old = self.keys[key]
        self.keys[key] = (False, 0, 0, old[3] + [(old[4], 0)], 18 + length_of(1, len(key)), old[5], 0, 0)

    def compact(self):
        for key in list(self.keys):
            entry = self.keys[key]
            if entry[0]:
                self.keys[key] = (*entry[:3], [], *entry[4:])
            else:
                del self.keys[key]

    def report(self):
        names = ["keys", "live_bytes", "key_bytes", "max_object_bytes", "managed_fields_bytes", "revisions", "tombstones", "history_bytes"]
        out = {}
        for key, (alive, _, _, past, entry, resource, size, fields) in self.keys.items():
            row = out.setdefault(resource, dict.fromkeys(names, 0))
            deletes = sum(1 for _, gone in past if gone) + (not alive)
            row["revisions"] += len(past) + 1
            row["tombstones"] += deletes
            row["history_bytes"] += sum(bytes_ for bytes_, _ in past) + (0 if alive else entry)
            if alive:
                row["keys"] += 1
                row["live_bytes"] += size
                row["key_bytes"] += len(key)
                row["managed_fields_bytes"] += fields
                row["max_object_bytes"] = max(row["max_object_bytes"], size)
        return dict(sorted(out.items()))


def managed_bytes(value):
    """Bytes of metadata.managedFields: of protobuf the whole fields, of JSON the value."""
    if value[:1] == b"{":
        start = value.index(b'"managedFields":') + 16
        end = value.index(b'],"name":', start) + 1
        return end - start
    at, found = 4, 0

    def read_varint(at):
        result = shift = 0
        while True:
            byte = value[at]
            result |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if byte < 0x80:
                return result, at

    def field(at):
        tag, at = read_varint(at)
        size, at = read_varint(at)
        # A number has no bytes behind it.
        return tag >> 3, at, at + (size if tag & 7 else 0)
    _, _, at = field(at)  # TypeMeta
    _, at, _ = field(at)  # raw
    _, at, end = field(at)  # ObjectMeta
    while at < end:
        start = at
        number_, _, at = field(at)
        if number_ == 17:
            found += at - start
    return found


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def size_of(text_):
    match = re.fullmatch(r"([\d.]+)\s*(kB|MB|GB)", text_)
    if not match:
        raise argparse.ArgumentTypeError(f"{text_}: not like 2.3GB")
    return int(float(match[1]) * {"kB": 1e3, "MB": 1e6, "GB": 1e9}[match[2]])


def requests(seed, objects, account, out):
    """Puts (method, message) on the queue, and counts."""
    try:
        ops, size, keys, leases = [], 0, set(), 0

        def flush():
            nonlocal ops, size, keys
            if ops:
                out.put(("KV/Txn", b"".join(ops)))
                account.revision += 1
            ops, size, keys = [], 0, set()

        account.revision = 2  # of the next transaction
        for kind, *rest in operations(seed, objects):
            if kind == "compact":
                flush()
                out.put(("KV/Compact", number(1, account.revision - 1) + number(2, True)))
                account.compact()
                continue
            if rest[1] in keys:  # A key may stand once in a transaction.
                flush()
            if kind == "put":
                resource, key, value, lease = rest
                if lease > leases:
                    leases = lease
                    out.put(("Lease/LeaseGrant", number(1, 360_000) + number(2, 0x694D_0000_0000 + lease)))
                lease = 0x694D_0000_0000 + lease if lease else 0
                account.put(resource, key, value, lease)
                message = text(1, key) + data(2, value) + (number(3, lease) if lease else b"")
                ops.append(data(2, data(2, message)))
            else:
                account.delete(rest[1])
                ops.append(data(2, data(3, text(1, rest[1]))))
            size += len(ops[-1])
            keys.add(rest[1])
            if size >= TXN_BYTES or len(ops) >= TXN_OPS:
                flush()
        flush()
        # Leases that hold nothing, as a client leaves them that grants and forgets.
        for n in range(objects // 7000):
            out.put(("Lease/LeaseGrant", number(1, 360_000) + number(2, 0x694D_1000_0000 + n)))
        out.put(None)
    except BaseException as error:  # to the thread that waits
        out.put(error)
        raise


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=size_of, required=True, help="of the file, about: 100MB, 2.3GB, 8GB")
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("out", metavar="OUT.db")
    args = parser.parse_args()
    objects = args.size // BYTES_PER_OBJECT
    for program in ("etcd", "etcdctl"):
        if not shutil.which(program):
            sys.exit(f"make_etcd.py: no {program} on the PATH; run .ci/setup")
    folder = tempfile.mkdtemp(prefix=".etcd-", dir=os.path.dirname(os.path.abspath(args.out)))
    client, peer = free_port(), free_port()
    url, start = f"http://127.0.0.1:{client}", time.time()
    etcd = subprocess.Popen(
        ["etcd", "--data-dir", os.path.join(folder, "data"), "--listen-client-urls", url, "--advertise-client-urls", url,
         "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--quota-backend-bytes", str(64 << 30), "--max-txn-ops", str(TXN_OPS + 10),
         "--max-request-bytes", str(8 << 20), "--snapshot-count", "1000", "--experimental-compaction-batch-limit", "100000",
         "--experimental-backend-bbolt-freelist-type", "map", "--log-level", "error", "--heartbeat-interval", "1000", "--election-timeout", "10000"],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    errors = []
    threading.Thread(target=lambda: errors.extend(etcd.stderr), daemon=True).start()
    try:
        etcdctl = ["etcdctl", "--endpoints", url, "--dial-timeout", "10s", "--command-timeout", "3600s"]
        environment = {**os.environ, "ETCDCTL_API": "3"}
        while subprocess.run([*etcdctl, "endpoint", "health"], env=environment, capture_output=True).returncode:
            if etcd.poll() is not None or time.time() - start > 60:
                sys.exit("make_etcd.py: etcd does not start:\n" + "".join(errors[-10:]))
            time.sleep(0.2)
        grpc, account, waiting = Grpc(client), Account(), queue.Queue(8)
        threading.Thread(target=requests, args=(args.seed, objects, account, waiting), daemon=True).start()
        sent, told = 0, time.time()
        while (item := waiting.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            grpc.call(*item)
            sent += len(item[1])
            if time.time() - told > 10:
                told = time.time()
                print(f"{sent / 1e6:,.0f} MB written in {told - start:.0f} s", file=sys.stderr, flush=True)
        part = args.out + ".part"
        subprocess.run([*etcdctl, "snapshot", "save", part], env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.replace(part, args.out)
        rows = account.report()
        totals = {name: (max if name == "max_object_bytes" else sum)(row[name] for row in rows.values()) for name in next(iter(rows.values()))}
        json.dump({"file_bytes": os.path.getsize(args.out), "revision": account.revision - 1, "leases": {"used": max(0, account_leases(account)), "empty": objects // 7000},
                   "seconds": round(time.time() - start), "totals": totals, "rows": rows}, sys.stdout, indent=1)
        print()
    finally:
        etcd.kill()
        etcd.wait()
        shutil.rmtree(folder, ignore_errors=True)


def account_leases(account):
    return -(-sum(1 for key in account.keys if key.startswith("/registry/events/")) // 1000)


if __name__ == "__main__":
    main()
