#!/usr/bin/env python3
"""Fills a running etcd with what a database may hold that is odd: transactions of many operations, deletes, leases, a compaction, keys of all
kinds, owners in chains and cycles, values that are broken.

    etcd_fill.py PORT
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../benches"))
from make_etcd import Grpc, data, envelope, managed, meta, number, owner, text, time_of  # noqa: E402

NAMES = """web-5d4f6b7c9-x2x4v web-0 web-1 job-29000001 job-29000001-abcde db.example.com app.17f0a2b3c4d5e6f7 v1 v1. api.v2 a-https x-bcdfg -bcdfg deadbeef
cfg-deadbeef cfg-deadbee5 cfg-12345678 a.b-c.d 8f14e45f-ceea-467f-9575-6c4c7d9b1a2b pod-8f14e45f-ceea-467f-9575-6c4c7d9b1a2b pod.8f14e45f-ceea-467f-9575-6c4c7d9b1a2b
X8f14e45f-ceea-467f-9575-6c4c7d9b1a2b sh.helm.release.v1.web.v12 ip-10-0-0-1 long-bcdf2ghjkl-2x4z6 node- -1 1 - . a- a..1 cafe-babe-1 nine-bcdfghjk2 eleven-bcdfghjk245 Bcdf-BCDFG
name-v name-v1 name-v1a kube-root-ca.crt x-00000 x-aaaaa x-9999a""".split()


def ref(kind, name, uid, controller):
    return owner(kind, name, uid, "v1", controller)


class Filler:
    def __init__(self, port):
        self.grpc = Grpc(port)

    def txn(self, *operations):
        self.grpc.call("KV/Txn", b"".join(operations))

    @staticmethod
    def put(key, value, lease=0):
        key = key if isinstance(key, bytes) else key.encode()
        return data(2, data(2, data(1, key) + data(2, value) + (number(3, lease) if lease else b"")))

    @staticmethod
    def delete(key, end=""):
        return data(2, data(3, text(1, key) + (text(2, end) if end else b"")))

    def lease(self, id_):
        self.grpc.call("Lease/LeaseGrant", number(1, 3600) + number(2, id_))

    def revision(self):
        """Of the header (field 1, in it field 3) of an answer."""
        answer, out = self.grpc.call("KV/Range", text(1, "x")), 0
        at = 2
        while at < 2 + answer[1]:
            tag, at = answer[at], at + 1
            value = shift = 0
            while True:
                byte = answer[at]
                value, at, shift = value | (byte & 0x7F) << shift, at + 1, shift + 7
                if byte < 0x80:
                    break
            out = value if tag == 3 << 3 else out
        return out


def pod(name, uid, namespace="web", owners=b"", labels=(), fields=b"", annotations=(), second=0, kind="Pod", api="v1"):
    return envelope(api, kind, meta(name, namespace, uid, second, labels, annotations, owners, fields) + data(2, text(1, "spec")))


def main():
    f = Filler(int(sys.argv[1]))
    put, delete = f.put, f.delete
    for name in ("web", "kube-system", "gone"):
        f.txn(put(f"/registry/namespaces/{name}", envelope("v1", "Namespace", meta(name, "", f"ns-{name}", 1))))
    f.txn(delete("/registry/namespaces/gone"))
    # Names, all in one transaction: one main revision.
    f.txn(*(put(f"/registry/pods/web/{name}", pod(name, f"n{at}", second=at)) for at, name in enumerate(NAMES)))
    # Again and again, deleted, made anew; half of it compacted away.
    for turn in range(6):
        f.txn(put("/registry/configmaps/web/hot", pod("hot", "hot", second=100 + turn, kind="ConfigMap", annotations=[("n", "x" * turn)])),
              put(f"/registry/configmaps/web/old-{turn}", b""))
    f.txn(delete("/registry/configmaps/web/old-0", "/registry/configmaps/web/old-3"))
    f.txn(put("/registry/configmaps/web/last", b"{}"))
    f.grpc.call("KV/Compact", number(1, f.revision()) + number(2, 1))
    f.txn(delete("/registry/configmaps/web/old-3"))
    f.txn(put("/registry/configmaps/web/old-3", b"again"), put("/registry/configmaps/web/old-0", b"again"))
    for turn in range(4):
        f.txn(put("/registry/configmaps/web/hot", pod("hot", "hot", second=4000 + turn, kind="ConfigMap")))
    f.txn(delete("/registry/configmaps/web/hot"), delete("/registry/pods/web/web-", "/registry/pods/web/web."))
    # Leases: used, idle, revoked (their keys get tombstones).
    for id_ in (0x1001, 0x1002, 0x1003, 0x7FFF_FFFF_FFFF_FFFE):
        f.lease(id_)
    f.txn(*(put(f"/registry/events/web/e.{n}", pod(f"e.{n}", f"e{n}", kind="Event"), 0x1001 + n % 2) for n in range(20)), put("/registry/masterleases/10.0.0.1", b"k8s\0", 0x7FFF_FFFF_FFFF_FFFE))
    f.grpc.call("Lease/LeaseRevoke", number(1, 0x1002))
    # Owners: a chain of 20, a cycle, two references, one without a controller, one whose owner is gone, the same name twice.
    f.txn(*(put(f"/registry/example.com/links/web/l{n}", pod(f"l{n}", f"link-{n}", owners=ref("Link", f"l{n + 1}", f"link-{n + 1}", True), kind="Link", api="example.com/v1")) for n in range(20)))
    f.txn(put("/registry/apps/x/y", b"x"), put("/registry/example.com/links/web/l20", pod("l20", "link-20", kind="Link", api="example.com/v1")),
          put("/registry/pods/web/c1", pod("c1", "cycle-1", owners=ref("Pod", "c2", "cycle-2", True))), put("/registry/pods/web/c2", pod("c2", "cycle-2", owners=ref("Pod", "c1", "cycle-1", True))),
          put("/registry/pods/web/self", pod("self", "self", owners=ref("Pod", "self", "self", True))),
          put("/registry/pods/web/two", pod("two", "two", owners=ref("ReplicaSet", "first", "rs-1", False) + ref("ReplicaSet", "second", "rs-2", True))),
          put("/registry/pods/web/none", pod("none", "none", owners=ref("ReplicaSet", "first", "rs-1", False) + ref("ReplicaSet", "second", "rs-2", False))),
          put("/registry/pods/gone/lost", pod("lost", "lost", "gone", ref("ReplicaSet", "was", "no-such", True))),
          put("/registry/replicasets/web/first", pod("first", "rs-1", owners=ref("Deployment", "d", "dep", True), kind="ReplicaSet", api="apps/v1")),
          put("/registry/replicasets/web/second", pod("second", "rs-2", kind="ReplicaSet", api="apps/v1")),
          put("/registry/deployments/web/d", pod("d", "dep", owners=ref("Node", "n1", "node-1", False), kind="Deployment", api="apps/v1")),
          put("/registry/minions/n1", pod("n1", "node-1", "", kind="Node")), put("/registry/pods/web/empty-uid", pod("empty-uid", "", owners=ref("Pod", "nobody", "", True))))
    # Managers, annotations, labels.
    last = json.dumps({"kind": "Pod", "text": "üä<>&\u2028"}, ensure_ascii=False)
    fields = managed("kubelet", "v1", 10, 4, 1) + managed("kubelet", "v1", 20, 9, 2, "status") + managed("", "v1", 5, 2, 3)
    f.txn(put("/registry/pods/web/managed", pod("managed", "managed", fields=fields, labels=[("app", "ü"), ("team", "")], annotations=[("kubectl.kubernetes.io/last-applied-configuration", last), ("a", "b")])),
          put("/registry/pods/web/managed-gone", pod("managed-gone", "mg", fields=managed("ghost", "v1", 9_000, 4, 1), labels=[("app", "x")])))
    f.txn(delete("/registry/pods/web/managed-gone"))
    j = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {
        "name": "w", "uid": "w-1", "creationTimestamp": "2026-11-20T09:23:28Z", "labels": {"app": "a\"b", "n": "ü"}, "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{\"a\":\"<ü>\"}\n", "x": "}]"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "two", "uid": "two", "controller": True}],
        "managedFields": [{"manager": "a", "operation": "Update", "time": "2026-11-20T10:00:00Z", "fieldsV1": {"f:x]": {"k:{\"a\":\"}\"}": {}}}}, {"manager": "b", "fieldsV1": {}}, {"manager": "a"}]},
        "spec": {"metadata": {"managedFields": ["no"]}}}
    forms = {"compact": json.dumps(j, separators=(",", ":")), "pretty": json.dumps(j, indent=2), "utf8": json.dumps(j, ensure_ascii=False) + "\n", "null": '{"apiVersion":null,"kind":"X","metadata":{"labels":null,"annotations":null,"ownerReferences":null,"managedFields":null}}',
             "late": '{"spec":{"a":[1,2,{"metadata":{"uid":"no"}}]},"metadata":{"uid":"late","managedFields":[]},"kind":"Late","apiVersion":"v1"}', "list": "[1,2]", "cut": json.dumps(j)[:-40], "no-object": '{"metadata":7,"kind":5}', "blank": " \n" + json.dumps(j)}
    f.txn(*(put(f"/registry/example.com/widgets/web/{name}", value.encode()) for name, value in forms.items()))
    # Values that can't be read, or aren't to be.
    whole = pod("broken", "broken", fields=fields)
    f.txn(*(put(f"/registry/secrets/web/{name}", value) for name, value in {
        "encrypted": b"k8s:enc:aescbc:v1:key1:" + bytes(range(256)), "kms": b"k8s:enc:kms:v2:x:" + b"\0" * 40, "cut": whole[:60], "only-magic": b"k8s\0", "zeros": bytes(100), "binary": bytes(range(256)), "empty": b"",
        "large": pod("large", "large", annotations=[("blob", "z" * 1_200_000)])}.items()))
    # Keys that are nobody's.
    f.txn(*(put(key, b"v" * n) for n, key in enumerate([
        b"compact_rev_key", b"/", b"//", b"/registry", b"/registry/", b"/registry/pods", b"/registry/pods/", b"/registry/pods//x", b"/registry/pods/web/", b"/registry/pods/web/a/b/c", b"a", b"a/b/c/d", b"/a/b/c/d/e", b"/a/b/c/f",
        b"/kubernetes.io/pods/web/a", b"/openshift.io/routes/web/r", b"/registry/services/specs/web/s", b"/registry/services/endpoints/web/s", b"/registry/services/specs", b"/registry/services/other/x", b"/registry/ranges/serviceips",
        b"/registry/example.com/things", b"/registry/example.com/things/", b"/registry/example.com/things/cluster", b"/registry/apiregistration.k8s.io/apiservices/v1.", b"/registry/ingress/web/i",
        b"/registry/controllers/web/rc", b"/registry/leases/kube-node-lease/n", "/registry/pods/wéb/ü".encode(), b"sp ace", b"tab\tnew\nline", b"/registry/pods/web/se;mi colon"])))
    f.txn(put(b"\xff\xfe/bytes", b"1"))
    f.txn(put("/registry/leases/kube-node-lease/n2", envelope("coordination.k8s.io/v1", "Lease", meta("n2", "kube-node-lease", "l2", 10) + data(2, text(1, "n2") + number(2, 40) + data(4, time_of(9_500)[:6] + b"\x10\x05")))))


if __name__ == "__main__":
    main()
