import http.client, json, ssl, time, socket, threading
# How audit.log.zst was made; see README.md.
ctx = ssl._create_unverified_context()
def call(method, path, body=None, token="ctl", agent="controller/v1.2.0 (linux/amd64)", source="127.0.0.1", ctype="application/json", timeout=30):
    c = http.client.HTTPSConnection("127.0.0.1", 36443, context=ctx, source_address=(source, 0), timeout=timeout)
    h = {"Authorization": "Bearer " + token, "User-Agent": agent, "Accept": "application/json"}
    if body is not None:
        h["Content-Type"] = ctype
        body = json.dumps(body)
    try:
        c.request(method, path, body, h)
        r = c.getresponse(); data = r.read()
        try: data = json.loads(data)
        except Exception: pass
        return r.status, data
    except (socket.timeout, TimeoutError, http.client.RemoteDisconnected):
        return None, None
    finally:
        c.close()
admin = dict(token="admintoken", agent="kubectl/v1.36.2 (linux/amd64) kubernetes/0000000")
print(call("POST", "/api/v1/namespaces", {"metadata": {"name": "ops"}}, **admin)[0])
cm = "/api/v1/namespaces/ops/configmaps"
st, obj = call("POST", cm, {"metadata": {"name": "state"}, "data": {"a": "1"}}); print(st)
# PUT of what is there: changes nothing, 6 times
for _ in range(6):
    st, obj = call("PUT", cm + "/state", obj); time.sleep(0.05)
print("put", st, obj["metadata"]["resourceVersion"])
# a PUT without a version that changes nothing
o = json.loads(json.dumps(obj)); del o["metadata"]["resourceVersion"]; print(call("PUT", cm + "/state", o)[0], call("PUT", cm + "/state", o)[0])
# PATCH that changes nothing after the first
for i in range(6):
    st, p = call("PATCH", cm + "/state", {"data": {"b": "2"}}, ctype="application/merge-patch+json"); time.sleep(0.05)
print("patch", st, p["metadata"]["resourceVersion"])
# that changes each time
for i in range(4):
    st, p = call("PATCH", cm + "/state", {"data": {"c": str(i)}}, ctype="application/merge-patch+json")
# dry run
for i in range(3):
    call("PATCH", cm + "/state?dryRun=All", {"data": {"d": "x"}}, ctype="application/merge-patch+json")
# server-side apply of the same
for i in range(5):
    st, p = call("PATCH", cm + "/applied?fieldManager=ops", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"k": "v"}}, ctype="application/apply-patch+yaml")
print("apply", st)
# conflict, exists, forbidden-like
old = json.loads(json.dumps(obj)); print("conflict", call("PUT", cm + "/state", old)[0]); print("exists", [call("POST", cm, {"metadata": {"name": "state"}})[0] for _ in range(3)])
# pods and LISTs with bodies
for i in range(30):
    call("POST", "/api/v1/namespaces/ops/pods", {"metadata": {"name": f"p{i}", "labels": {"n": str(i % 3)}}, "spec": {"nodeName": f"n{i % 3}", "automountServiceAccountToken": False, "containers": [{"name": "c", "image": "i"}]}}, **admin)
ag = dict(token="agent", agent="node-agent/v2.0.0 (linux/amd64)")
for i in range(3):
    for n in range(3):
        call("GET", f"/api/v1/pods?fieldSelector=spec.nodeName%3Dn{n}", source=f"127.0.0.{10 + n}", **ag)
        call("GET", "/api/v1/pods", source=f"127.0.0.{10 + n}", **ag)
call("GET", "/api/v1/namespaces/ops/pods?labelSelector=n%3D1&resourceVersion=0", **ag)
st, page = call("GET", "/api/v1/pods?limit=20", **ag)
print(call("GET", "/api/v1/pods?limit=20&continue=" + page["metadata"]["continue"], **ag)[0])
# a version that the cache does not have
print("behind", call("GET", "/api/v1/pods?resourceVersion=999999999&resourceVersionMatch=NotOlderThan", **ag)[0])
# a deadline of its own: the same with timeout=1s
st, d = call("GET", "/api/v1/pods?resourceVersion=999999998&timeout=1s", **ag); print("deadline", st, d)
# a client that goes away while it waits
for i in range(3):
    print("gone", call("GET", "/api/v1/pods?resourceVersion=999999997", timeout=0.5, **ag)[0])
# etcd stands still: requests that read from it wait
import os, signal
pid = int(open("etcd.pid").read())
os.kill(pid, signal.SIGSTOP)
ts = [threading.Thread(target=call, args=("GET", cm + "/state?timeout=2s"), kwargs=ag) for _ in range(2)]
ts += [threading.Thread(target=call, args=("GET", cm + f"/state{i}"), kwargs=dict(ag, timeout=1)) for i in range(3)]
ts += [threading.Thread(target=call, args=("POST", cm, {"metadata": {"name": f"left{i}"}}), kwargs=dict(ag, timeout=1)) for i in range(2)]
ts += [threading.Thread(target=call, args=("POST", cm + "?timeout=2s", {"metadata": {"name": f"late{i}"}}), kwargs=dict(ag)) for i in range(2)]
[t.start() for t in ts]; [t.join() for t in ts]
os.kill(pid, signal.SIGCONT); time.sleep(2)
# leases: two replicas
L = "/apis/coordination.k8s.io/v1/namespaces/ops/leases"
def now(): return time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
st, lease = call("POST", L, {"metadata": {"name": "controller"}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": now()}}); print("lease", st)
for i in range(4):
    lease["spec"]["renewTime"] = now(); st, lease = call("PUT", L + "/controller", lease, source="127.0.0.2"); time.sleep(0.5)
time.sleep(3)
lease["spec"]["holderIdentity"] = "b"
for i in range(4):
    lease["spec"]["renewTime"] = now(); st, lease = call("PUT", L + "/controller", lease, source="127.0.0.3"); time.sleep(0.5)
print("lease", st)
# deprecated
for i in range(3): call("GET", "/api/v1/endpoints", agent="old-ingress/v0.9 (linux/amd64)", token="agent")
call("GET", "/api/v1/componentstatuses", agent="old-ingress/v0.9 (linux/amd64)", token="agent")
# discovery and other paths
for p in ["/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1", "/apis/", "/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1", "/version", "/healthz", "/readyz?verbose", "/livez/ping", "/metrics", "/swagger.json", "/", "/nothing", "//api//v1", "/apisx", "/api/v1/nonsense"]:
    print(p, call("GET", p, **admin)[0], end=" ")
