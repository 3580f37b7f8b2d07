"""How this bundle was made; see README.md. Wants etcd, and kube-apiserver, kube-controller-manager and kube-scheduler 1.36 in the folder."""
import concurrent.futures, gzip, http.client, json, os, pathlib, signal, ssl, subprocess, sys, threading, time

TLS = ssl._create_unverified_context()
OUT = pathlib.Path("bundle")
API, ETCD = 36443, 36379
TOKENS = {"admin": ("kubernetes-admin", "system:masters"), "kcm": ("system:kube-controller-manager", "system:masters"), "sched": ("system:kube-scheduler", "")}
POLICY = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: ["system:apiserver"]
- level: RequestResponse
  omitManagedFields: true
  resources: [{group: coordination.k8s.io, resources: [leases]}]
- level: Metadata
"""
SCHEDULER = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: sched.conf}
leaderElection: {leaderElect: true}
"""
processes, logs = {}, []

def start(name, *command):
    log = open(f"{name}.log", "a")
    processes[name] = subprocess.Popen(command, stdout=log, stderr=log)

def call(method, path, body=None, content="application/json"):
    connection = http.client.HTTPSConnection("127.0.0.1", API, context=TLS, timeout=60)
    headers = {"Authorization": "Bearer admin", "User-Agent": "setup/v1.0.0 (linux/amd64)", "Accept": "application/json", "Content-Type": content}
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    data = json.loads(answer.read() or b"{}")
    connection.close()
    if answer.status >= 300 and answer.status != 409:
        print(method, path, answer.status, data.get("message"), flush=True)
    return data

def page(port):
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=TLS, timeout=5)
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    data = answer.read()
    return data if answer.status == 200 else None

PORTS = {"kube-controller-manager-a": 36257, "kube-controller-manager-b": 36258, "kube-scheduler-a": 36259, "kube-scheduler-b": 36260}

def scrape():
    at = int(time.time())
    for name, port in PORTS.items():
        try:
            data = page(port)
        except OSError:
            continue
        if data:
            folder = OUT / "metrics" / name
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{at}.txt").write_bytes(data)

def controllers():
    for name in "ab":
        gates = [] if name == "a" else []
        start(f"kube-controller-manager-{name}", "./kube-controller-manager", "--kubeconfig=kcm.conf", "--use-service-account-credentials=false",
              f"--secure-port={PORTS['kube-controller-manager-' + name]}", "--bind-address=127.0.0.1", "--authentication-skip-lookup", f"--cert-dir=certs-kcm-{name}",
              "--authorization-always-allow-paths=/metrics,/healthz", "--controllers=*,-node-lifecycle-controller,-nodeipam,-service-lb-controller",
              "--service-account-private-key-file=sa.key", "--feature-gates=ControllerManagerReleaseLeaderElectionLockOnExit=true", "--v=1")
        schedule(name)
        time.sleep(3)

def schedule(name):
    start(f"kube-scheduler-{name}", "./kube-scheduler", "--config=sched.yaml", f"--secure-port={PORTS['kube-scheduler-' + name]}",
          "--bind-address=127.0.0.1", "--authentication-skip-lookup", f"--cert-dir=certs-sched-{name}", "--authorization-always-allow-paths=/metrics,/healthz", "--v=1")

def template(app, cpu, **spec):
    container = {"name": "c", "image": f"registry.example/{app}:1", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [container], "automountServiceAccountToken": False, **spec}}

def workload(kind, name, replicas, cpu, **spec):
    api = "/apis/apps/v1/namespaces/shop/" + kind.lower() + "s"
    body = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name, cpu, **spec)}}
    if kind == "StatefulSet":
        body["spec"] |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    call("POST", api, body)

def node(number):
    name = f"node-{number:02}"
    capacity = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": "2026-11-22T00:00:00Z", "lastTransitionTime": "2026-11-22T00:00:00Z"}]
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "abc"[number % 3]}
    call("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
    # What TaintNodesByCondition put there the controller that is left out would take away.
    call("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, "application/merge-patch+json")
    call("PATCH", f"/api/v1/nodes/{name}/status", {"status": {"capacity": capacity, "allocatable": capacity, "conditions": conditions}}, "application/merge-patch+json")

def holder(lease):
    return call("GET", f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{lease}")["spec"].get("holderIdentity")

TRUTH = {"handovers": []}

def end(component, how):
    """Ends the leader of a component, and waits until another leads. Which process leads its metrics tell."""
    leader = next(name for name in PORTS if name.startswith(component) and processes[name].poll() is None and f'leader_election_master_status{{name="{component}"}} 1' in page(PORTS[name]).decode())
    before = holder(component)
    at = time.time()
    processes[leader].send_signal(how)
    processes[leader].wait()
    while (now := holder(component)) in (before, "", None):
        time.sleep(0.1)
    TRUTH["handovers"].append({"lease": component, "process": leader, "signal": how.name, "at": at, "after_s": round(time.time() - at, 2), "from": before, "to": now})
    print(TRUTH["handovers"][-1], flush=True)

def main():
    for name, (user, groups) in TOKENS.items():
        config = {"apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [{"name": "k", "cluster": {"server": f"https://127.0.0.1:{API}", "insecure-skip-tls-verify": True}}],
                  "users": [{"name": "u", "user": {"token": name}}], "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}]}
        pathlib.Path(f"{name}.conf").write_text(json.dumps(config))
    pathlib.Path("tokens.csv").write_text("".join(f'{name},{user},{user},"{groups}"\n' for name, (user, groups) in TOKENS.items()))
    pathlib.Path("policy.yaml").write_text(POLICY)
    pathlib.Path("sched.yaml").write_text(SCHEDULER)
    subprocess.run("openssl genrsa -out sa.key 2048", shell=True, check=True, capture_output=True)
    (OUT / "audit" / "apiserver-0").mkdir(parents=True, exist_ok=True)
    start("etcd", "etcd", "--data-dir", "etcd-data", "--listen-client-urls", f"http://127.0.0.1:{ETCD}", "--advertise-client-urls", f"http://127.0.0.1:{ETCD}",
          "--listen-peer-urls", "http://127.0.0.1:36380", "--initial-advertise-peer-urls", "http://127.0.0.1:36380", "--initial-cluster", "default=http://127.0.0.1:36380")
    start("apiserver", "./kube-apiserver", f"--etcd-servers=http://127.0.0.1:{ETCD}", f"--secure-port={API}", "--bind-address=127.0.0.1", "--cert-dir=certs-api", "--token-auth-file=tokens.csv",
          "--authorization-mode=RBAC", "--service-account-issuer=https://x", "--service-account-key-file=sa.key", "--service-account-signing-key-file=sa.key", "--disable-admission-plugins=ServiceAccount",
          "--audit-policy-file=policy.yaml", f"--audit-log-path={OUT}/audit/apiserver-0/audit.log", "--audit-log-maxsize=0", "--service-cluster-ip-range=10.0.0.0/16", "--v=1")
    while True:
        try:
            if "kube-system" in json.dumps(call("GET", "/api/v1/namespaces")):
                break
        except OSError:
            pass
        time.sleep(0.5)
    print("apiserver is up", flush=True)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(node, range(40)))
    call("POST", "/api/v1/namespaces", {"metadata": {"name": "shop"}})
    controllers()
    time.sleep(15)
    over = threading.Event()
    def scraping():
        while not over.is_set():
            scrape()
            over.wait(5)
    thread = threading.Thread(target=scraping)
    thread.start()
    begin = time.time()
    TRUTH["begin"] = begin
    time.sleep(20)
    # What fits: deployments, a set whose pods each have labels of their own, pods apart from one another, pods spread.
    workload("Deployment", "web", 120, "50m")
    workload("StatefulSet", "store", 15, "50m")
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {"matchLabels": {"app": "apart"}}, "topologyKey": "kubernetes.io/hostname"}]}}
    workload("Deployment", "apart", 50, "10m", affinity=apart)
    spread = [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "spread"}}}]
    workload("Deployment", "spread", 30, "10m", topologySpreadConstraints=spread)
    time.sleep(25)
    # What does not fit any more, and what is not to be looked at.
    workload("Deployment", "large", 150, "1500m")
    workload("Deployment", "elsewhere", 40, "100m", nodeSelector={"disk": "nvme"})
    workload("StatefulSet", "wide", 20, "3500m")
    workload("Deployment", "gated", 12, "50m", schedulingGates=[{"name": "example.com/quota"}])
    workload("Deployment", "other", 8, "50m", schedulerName="batch-scheduler")
    time.sleep(30)
    end("kube-scheduler", signal.SIGKILL)
    time.sleep(10)
    # More at once than a controller that may send 20 requests a second gets done.
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: workload("Deployment", f"job-{n:03}", 4, "1m"), range(120)))
    time.sleep(60)
    end("kube-controller-manager", signal.SIGTERM)
    time.sleep(15)
    # The scheduler that was killed comes back, so that the other can be ended as well.
    schedule("a" if processes["kube-scheduler-a"].poll() is not None else "b")
    time.sleep(15)
    end("kube-scheduler", signal.SIGTERM)
    time.sleep(15)
    over.set()
    thread.join()
    scrape()
    TRUTH["end"] = time.time()
    (OUT / "objects").mkdir(exist_ok=True)
    pods = call("GET", "/api/v1/pods")
    for pod in pods["items"]:
        pod |= {"apiVersion": "v1", "kind": "Pod"}
        pod["metadata"].pop("managedFields", None)
    (OUT / "objects" / f"pods-{int(time.time())}.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": pods["items"]}))
    pathlib.Path("truth.json").write_text(json.dumps(TRUTH, indent=1))

try:
    main()
finally:
    for process in reversed(processes.values()):
        if process.poll() is None:
            process.kill()
