#!/usr/bin/env python3
"""A stand-in for the apiservers of a cluster, for tests of `sources::live`: TLS, tokens, faults on demand.

    apiserver.py FOLDER METRICS_A METRICS_B [METRICS_PLAIN]

Makes a CA and certificates in FOLDER (needs the command openssl) and a kubeconfig with a context for each case, starts
servers on free ports of 127.0.0.1, prints {"ports": {...}}, and runs until its standard input ends. METRICS_*: what the
two apiservers (and `plain`; else it serves what `a` does) serve at /metrics: PAGE[,PAGE...], one after the other, the last
one again and again (.zst is unpacked; needs the module zstandard). On a page, @NOW@ is the time when it is served. In place
of a page, @CUT@ ends the connection without an answer, and @401@, @403@, @429@, @500@, @cut@ (half a body), @stuck@ (half a body, and then
nothing for 5 s) and @hang-up@ do what they are called. FOLDER/requests.jsonl gets a line for each request when it is answered.

The servers: `front` is the one the kubeconfigs name (as https://localhost), `a` and `b` are the apiservers behind it.
The certificates of `front` and `a` are for the name localhost only, `b`'s is for 127.0.0.1 only, `elsewhere`'s for
another name. What a user may do, and which apiservers it is told of, depends on the token: see USERS.
"""
import base64
import glob
import gzip
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

# token: (where it is accepted, which addresses the slices name, what is forbidden)
USERS = {
    "sesame": ("front a b elsewhere plain", "a b", ""),
    "sesame-endpoints": ("front a b", "a b", "slices"),
    "sesame-blind": ("front a b", "a b", "slices endpoints"),
    "sesame-one-down": ("front a b", "a closed", ""),
    "sesame-all-down": ("front a b", "closed closed2", ""),
    "sesame-front-only": ("front", "a b", ""),
    "sesame-itself": ("front", "front", ""),
    "sesame-no-metrics": ("front a b", "a b", "metrics"),
    "sesame-no-debug": ("front a b", "a b", "debug"),
    "sesame-plugin": ("front a b", "a b", ""),
    # What the ClusterRole in FOLDER/role.yaml allows.
    "sesame-role": ("front a b", "a b", ""),
}
# Whom TokenReview knows by which token, and what SubjectAccessReview allows a user or a group.
REVIEWED = {
    "sesame-sre": {"username": "sre@example.org", "uid": "1", "groups": ["sre", "system:authenticated"], "extra": {"why": ["incident"]}},
    "sesame-team": {"username": "system:serviceaccount:web:ci", "groups": ["system:serviceaccounts"]},
    "sesame-nobody": {"username": "nobody@example.org"},
}
GRANTED = {
    "sre": [{"path": path, "verb": "get"} for path in ("/metrics", "/api/v1/traffic", "/report")],
    "system:serviceaccount:web:ci": [{"namespace": "kube-system", "verb": "get", "group": "plimsoll.io", "resource": "requests"}],
}
# Objects that are served, most that a page holds, and lists that are empty. Where the sample has objects under a name, they are served.
OBJECTS = os.path.join(os.path.dirname(__file__), "../../samples/list-storm/objects/1795166546")
PAGE = 100
EMPTY = {"persistentvolumeclaims": "", "services": "", "replicationcontrollers": "", "statefulsets": "apps", "daemonsets": "apps", "jobs": "batch",
         "cronjobs": "batch", "validatingwebhookconfigurations": "admissionregistration.k8s.io",
         "mutatingwebhookconfigurations": "admissionregistration.k8s.io"}

lock = threading.Lock()
counts = {}
running = {}
ports = {}
metrics = {}
served = {}
folder = ""


def run(*command):
    subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def certificates():
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    for ca in ["ca", "other-ca"]:
        run("openssl", "req", "-x509", *key, "-keyout", f"{ca}.key", "-out", f"{ca}.crt", "-days", "3650", "-subj", f"/CN={ca}")
    for name, subject, names in [
        ("named", "/CN=kube-apiserver", "DNS:localhost,DNS:kubernetes"),
        ("addressed", "/CN=kube-apiserver", "IP:127.0.0.1"),
        ("elsewhere", "/CN=kube-apiserver", "DNS:elsewhere.test"),
        ("client", "/O=system:masters/CN=jane", None),
    ]:
        with open(f"{folder}/{name}.ext", "w") as f:
            f.write(f"subjectAltName={names}\n" if names else "extendedKeyUsage=clientAuth\n")
        run("openssl", "req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", subject)
        run("openssl", "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
            "-out", f"{name}.crt", "-days", "365", "-extfile", f"{name}.ext")


def kubeconfig():
    def data(name):
        with open(f"{folder}/{name}", "rb") as f:
            return base64.b64encode(f.read()).decode()

    front = f"https://localhost:{ports['front']}"
    ca = {"certificate-authority-data": data("ca.crt")}
    clusters = {
        "lab": {"server": front, **ca},
        "prefixed": {"server": front + "/k8s/clusters/c-1/", **ca},
        "other-ca": {"server": front, "certificate-authority": "other-ca.crt"},
        "system-ca": {"server": front},
        "elsewhere": {"server": f"https://localhost:{ports['elsewhere']}", **ca},
        "server-name": {"server": f"https://localhost:{ports['elsewhere']}", "tls-server-name": "elsewhere.test", **ca},
        "insecure": {"server": front, "insecure-skip-tls-verify": True},
        "down": {"server": f"https://localhost:{ports['closed']}", **ca},
        "no-such-host": {"server": "https://no-such-host.invalid", **ca},
        "plain": {"server": f"http://127.0.0.1:{ports['plain']}"},
        "not-tls": {"server": f"https://127.0.0.1:{ports['plain']}", **ca},
        "silent": {"server": f"https://127.0.0.1:{ports['silent']}", **ca},
        "proxied": {"server": front, "proxy-url": f"http://us:er@127.0.0.1:{ports['proxy']}", **ca},
        "bad-proxy": {"server": front, "proxy-url": "https://us:er@127.0.0.1:1", **ca},
        "unpacked": {"server": front, "disable-compression": True, **ca},
    }
    # Names without the secret, so that a test can look for it in messages.
    users = {token.removeprefix("sesame-").replace("sesame", "full"): {"token": token} for token in USERS}
    users["stranger"] = {"token": "wrong-sesame"}
    users["jane"] = {"client-certificate-data": data("client.crt"), "client-key-data": data("client.key")}
    users["bad-key"] = {"client-certificate-data": data("client.crt"), "client-key-data": base64.b64encode(b"sesame").decode()}
    users["token-file"] = {"tokenFile": "token"}
    with open(f"{folder}/token", "w") as f:
        f.write("sesame")

    def plugin(name, script):
        with open(f"{folder}/{name}", "w") as f:
            f.write("#!/bin/sh\n" + script)
        os.chmod(f"{folder}/{name}", 0o755)
        users[name] = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": f"./{name}",
                                "args": ["--secret", "sesame-argument"], "interactiveMode": "Never"}}

    credential = '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":%s}\n'
    status = '{"token":"sesame-plugin","expirationTimestamp":"2100-01-01T00:00:00Z"}'
    certificate = json.dumps({"clientCertificateData": open(f"{folder}/client.crt").read(),
                              "clientKeyData": open(f"{folder}/client.key").read()})
    plugin("plugin-token", f"echo run >> '{folder}/plugin-token.runs'\ncat <<'END'\n{credential % status}END\n")
    plugin("plugin-certificate", f"cat <<'END'\n{credential % certificate}END\n")
    plugin("plugin-fails", "echo sesame-stdout\necho 'first line' >&2\necho 'no session: eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.x.y' >&2\nexit 3\n")
    plugin("plugin-garbage", "echo '{\"token\": \"sesame'\n")
    plugin("plugin-is-gone", "")
    os.remove(f"{folder}/plugin-is-gone")

    contexts = {name: (name, "full") for name in clusters}
    contexts.update({user: ("lab", user) for user in users})
    contexts.update({"plain-anonymous": ("plain", "nobody"), "anonymous": ("lab", "nobody")})
    with open(f"{folder}/kubeconfig", "w") as f:
        json.dump({
            "apiVersion": "v1", "kind": "Config", "current-context": "lab",
            "clusters": [{"name": name, "cluster": cluster} for name, cluster in clusters.items()],
            "users": [{"name": name, "user": user} for name, user in users.items()],
            "contexts": [{"name": name, "context": {"cluster": c, "user": u}} for name, (c, u) in contexts.items()],
        }, f, indent=1)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 1.0  # an idle connection is closed soon, so that tests meet that

    def setup(self):
        context = self.server.context
        if context:
            self.request.settimeout(5)
            self.request = context.wrap_socket(self.request, server_side=True)
        super().setup()

    def log_message(self, *arguments):
        pass

    def answer(self, code, body=b"", kind="application/json", headers=()):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.status = code
        if "gzip" in self.headers.get("Accept-Encoding", "") and len(body) > 1000:
            body = gzip.compress(body, 1)
            headers = [*headers, ("Content-Encoding", "gzip")]
        self.note()  # before it is sent: whoever gets it may look for the note at once
        self.send_response(code)
        for name, value in [("Content-Type", kind), ("Content-Length", str(len(body))), *headers]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, code, message):
        self.answer(code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code})

    def do_POST(self):
        """TokenReview and SubjectAccessReview, by REVIEWED and GRANTED."""
        self.status, self.start, self.beside, self.noted = 0, time.time(), 1, False
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        if token not in USERS:
            return self.refuse(401, "Unauthorized")
        if token == "sesame-role":
            missing = lacks(self.path, "create")
            if missing:
                return self.refuse(403, f'forbidden: User "jane" cannot {missing}')
        if self.headers.get("Content-Type") != "application/json":
            return self.refuse(415, "the body of the request was in an unknown format")
        kind, spec = body["kind"], body["spec"]
        if (self.path, kind, body["apiVersion"]) == ("/apis/authentication.k8s.io/v1/tokenreviews", "TokenReview", "authentication.k8s.io/v1"):
            user = REVIEWED.get(spec["token"])
            return self.answer(201, {**body, "status": {"authenticated": True, "user": user} if user else {"user": {}, "error": "invalid bearer token"}})
        if (self.path, kind, body["apiVersion"]) == ("/apis/authorization.k8s.io/v1/subjectaccessreviews", "SubjectAccessReview",
                                                     "authorization.k8s.io/v1"):
            asked = spec.get("nonResourceAttributes") or spec["resourceAttributes"]
            allowed = any(asked == granted for group in [spec["user"], *spec.get("groups", [])] for granted in GRANTED.get(group, []))
            return self.answer(201, {**body, "status": {"allowed": allowed}})
        self.refuse(404, "the server could not find the requested resource")

    def do_GET(self):
        start = time.time()
        name = self.server.called
        with lock:
            running[name] = running.get(name, 0) + 1
            beside = running[name]
        self.status, self.start, self.beside, self.noted = 0, start, beside, False
        try:
            self.route(name)
        finally:
            self.note()
            with lock:
                running[name] -= 1

    def note(self):
        """Writes down the request, once."""
        if self.noted:
            return
        self.noted = True
        line = {"server": self.server.called, "path": self.path, "status": self.status, "start": self.start, "beside": self.beside,
                "agent": self.headers.get("User-Agent"), "encoding": self.headers.get("Accept-Encoding"),
                "user": self.headers.get("Impersonate-User"), "groups": self.headers.get_all("Impersonate-Group"),
                "host": self.headers.get("Host"), "authorization": self.headers.get("Authorization") is not None}
        with lock:
            with open(f"{folder}/requests.jsonl", "a") as f:
                f.write(json.dumps(line) + "\n")

    def route(self, name):
        url = urlsplit(self.path)
        path = url.path
        if path.startswith("/k8s/clusters/c-1/"):
            path = path[len("/k8s/clusters/c-1"):] if name == "front" else "/not-here"
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        certificate = self.request.getpeercert() if self.server.context else None
        where, addresses, forbidden = USERS.get(token, ("", "a b", ""))
        if certificate:
            where, addresses = "front a b", "a b"
        if name not in where.split() and not (name == "plain" and not token):
            return self.refuse(401, "Unauthorized")
        if self.headers.get("Impersonate-User") == "root":
            return self.refuse(403, 'users "root" is forbidden: User "jane" cannot impersonate resource "users" in API group ""')
        if token == "sesame-role":
            missing = lacks(path)
            if missing:
                return self.refuse(403, f'forbidden: User "jane" cannot {missing}')
        if path == "/version":
            return self.answer(200, {"major": "1", "minor": "36", "gitVersion": "v1.36.0"})
        if path == "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices":
            if "slices" in forbidden:
                return self.refuse(403, 'endpointslices.discovery.k8s.io is forbidden: User "jane" cannot list resource')
            slices = [{"metadata": {"name": f"kubernetes-{to}"}, "addressType": "IPv4",
                       "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}],
                       "ports": [{"name": "https", "port": ports[to], "protocol": "TCP"}]} for to in addresses.split()]
            assert query["labelSelector"] == "kubernetes.io/service-name=kubernetes"
            return self.answer(200, {"kind": "EndpointSliceList", "apiVersion": "discovery.k8s.io/v1", "metadata": {}, "items": slices})
        if path == "/api/v1/namespaces/default/endpoints/kubernetes":
            if "endpoints" in forbidden:
                return self.refuse(403, 'endpoints "kubernetes" is forbidden: User "jane" cannot get resource')
            subsets = [{"addresses": [{"ip": "127.0.0.1"}], "ports": [{"name": "https", "port": ports[to]}]} for to in addresses.split()]
            return self.answer(200, {"kind": "Endpoints", "apiVersion": "v1", "metadata": {"name": "kubernetes"}, "subsets": subsets})
        if path.startswith(("/api/v1/", "/apis/")) and self.listed(path, query):
            return None
        if path == "/metrics":
            if "metrics" in forbidden:
                return self.refuse(403, 'forbidden: User "jane" cannot get path "/metrics"')
            page = self.page(name if name in metrics else "a")
            fault = page.strip(b"@").decode() if page.startswith(b"@") else ""
            if fault in ("401", "403"):
                return self.refuse(int(fault), "not now")
            if fault and fault != "CUT":
                return self.fault(fault, {"after": "1"})
            if page == b"@CUT@":
                self.close_connection = True
                return self.connection.close()
            return self.answer(200, page, "text/plain; version=0.0.4")
        if path == "/debug/pprof/heap":
            # Profiles are packed by themselves; HTTP knows nothing of it.
            heaps = sorted(glob.glob(os.path.join(os.path.dirname(__file__), "../../samples/quiet/heap/*.pb.gz")))
            with open(heaps[-1 if name == "b" else 0], "rb") as file:
                return self.answer(200, file.read(), "application/octet-stream")
        if path.startswith("/debug/api_priority_and_fairness/"):
            if "debug" in forbidden:
                return self.refuse(403, f'forbidden: User "jane" cannot get path "{path}"')
            page = path.rsplit("/", 1)[1] + ("" if "includeRequestDetails" in query or "requests" not in path else "_plain")
            files = sorted(glob.glob(os.path.join(os.path.dirname(__file__), f"../../samples/apf-dumps/apf/apiserver-0/{page}-*.txt*")))
            if files:
                return self.answer(200, content(files[-1]), "text/plain; charset=utf-8")
        if path == "/whoami":
            subject = dict(pair for part in certificate["subject"] for pair in part) if certificate else {}
            return self.answer(200, subject.get("commonName", "a token").encode(), "text/plain")
        if path.startswith("/fault/"):
            return self.fault(path.removeprefix("/fault/"), query)
        self.refuse(404, "the server could not find the requested resource")

    def listed(self, path, query):
        """A page of a list, if it is one of the sample's."""
        resource = path.rsplit("/", 1)[1]
        file = os.path.join(OBJECTS, resource + ".json.zst")
        if "metrics.k8s.io" in path:
            return False
        if os.path.exists(file):
            whole = json.loads(content(file))
        elif resource in EMPTY and EMPTY[resource] in path:
            whole = {"kind": "List", "apiVersion": "v1", "metadata": {}, "items": None}
        else:
            return False
        # A server that knows only an older version of a group.
        if resource in ("flowschemas", "prioritylevelconfigurations") and "/v1/" in path:
            return False
        start = int(query.get("continue", "0/").split("/")[0])
        # The file `expired` in the folder says how often a further page of pods has expired.
        expired = os.path.join(folder, "expired")
        if start and resource == "pods" and os.path.exists(expired):
            with lock:
                counts["expired"] = counts.get("expired", 0) + 1
            if counts["expired"] <= int(open(expired).read()):
                self.refuse(410, "The provided continue parameter is too old")
                return True
        items = whole["items"] or []
        page = items[start:start + min(PAGE, int(query.get("limit", len(items) or 1)))]
        if page and resource == "pods":
            page[0] = {**page[0], "spec": {**page[0]["spec"], "containers": [
                {**container, "env": [{"name": "PASSWORD", "value": "sesame-hidden"}], "args": ["--token=sesame-hidden"]}
                for container in page[0]["spec"]["containers"]]}}
        last = start + len(page) >= len(items)
        # A token may hold what a URL may not.
        metadata = {"resourceVersion": "9338", **({} if last else {"continue": f"{start + len(page)}/+&="})}
        self.answer(200, {**whole, "metadata": metadata, "items": page or None})
        return True

    def page(self, name):
        """The next page of a sequence."""
        with lock:
            at = served[name] = served.get(name, -1) + 1
        return metrics[name][min(at, len(metrics[name]) - 1)].replace(b"@NOW@", b"%.3f" % time.time())

    def fault(self, fault, query):
        # `times` of requests with one `key` fail; after that all is well.
        with lock:
            seen = counts[query.get("key")] = counts.get(query.get("key"), 0) + 1
        if seen > int(query.get("times", 1 << 30)):
            return self.answer(200, b"well again", "text/plain")
        if fault in ("429", "503"):
            after = [("Retry-After", query["after"])] if "after" in query else []
            return self.answer(int(fault), b"too many requests", "text/plain", after)
        if fault == "500":
            return self.refuse(500, "etcd is \x1b[31mslow, and you sent " + self.headers.get("Authorization", "nothing"))
        if fault == "slowly":
            time.sleep(0.3)
            return self.answer(200, b"at last", "text/plain")
        self.close_connection = True
        if fault == "cut":
            self.send_response(200)
            self.send_header("Content-Length", "5000")
            self.end_headers()
            self.wfile.write(b"x" * 1234)
        elif fault == "cut-gzip":
            packed = gzip.compress(os.urandom(5000))[:3000]
            self.send_response(200)
            self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(packed)))
            self.end_headers()
            self.wfile.write(packed)
        elif fault == "stuck":
            self.send_response(200)
            self.send_header("Content-Length", "5000")
            self.end_headers()
            self.wfile.write(b"x" * 777)
            time.sleep(5)
        elif fault == "hang-up":
            self.connection.close()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, called, certificate):
        super().__init__(("127.0.0.1", 0), Handler)
        self.called = called
        self.context = None
        if certificate:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(f"{folder}/{certificate}.crt", f"{folder}/{certificate}.key")
            self.context.load_verify_locations(f"{folder}/ca.crt")
            self.context.verify_mode = ssl.CERT_OPTIONAL
        ports[called] = self.server_address[1]
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # clients that leave are what is tested


def lacks(path, verb=None):
    """What the role does not allow of a GET of `path`, or of another verb; nothing if it does. (kubernetes.io/docs/reference/access-authn-authz/rbac)"""
    import yaml
    with open(f"{folder}/role.yaml") as f:
        rules = yaml.safe_load(f)["rules"]
    parts = path.strip("/").split("/")
    if parts[0] not in ("api", "apis") or len(parts) < 3:
        allowed = any(path == url or url.endswith("*") and path.startswith(url[:-1]) for rule in rules for url in rule.get("nonResourceURLs", [])
                      if "get" in rule["verbs"])
        return None if allowed or path == "/version" else f'get path "{path}"'
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    verb = verb or ("list" if len(rest) == 1 else "get")
    allowed = any(group in rule.get("apiGroups", []) and rest[0] in rule.get("resources", []) and verb in rule["verbs"] for rule in rules)
    return None if allowed else f'{verb} resource "{rest[0]}" in API group "{group}"'


def proxy(listener):
    """An HTTP proxy that knows CONNECT, for the user us:er only."""
    def serve(client):
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(4096)
        if base64.b64encode(b"us:er") not in head:
            client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            return client.close()
        host, port = head.split()[1].decode().rsplit(":", 1)
        with lock:
            counts["proxied"] = counts.get("proxied", 0) + 1
            with open(f"{folder}/proxied", "w") as f:
                f.write(str(counts["proxied"]))
        server = socket.create_connection(("127.0.0.1", int(port)))
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")

        def pump(source, sink):
            try:
                while data := source.recv(65536):
                    sink.sendall(data)
                sink.shutdown(socket.SHUT_WR)
            except OSError:
                pass
        threading.Thread(target=pump, args=(client, server), daemon=True).start()
        pump(server, client)

    while True:
        client, _ = listener.accept()
        threading.Thread(target=serve, args=(client,), daemon=True).start()


def content(page):
    if page.startswith("@"):
        return page.encode()
    with open(page, "rb") as f:
        data = f.read()
    if page.endswith(".zst"):
        import zstandard
        data = zstandard.ZstdDecompressor().decompressobj().decompress(data)
    return data


def main():
    global folder
    folder, *pages = sys.argv[1:]
    for name, sequence in zip(["a", "b", "plain"], pages):
        metrics[name] = [content(page) for page in sequence.split(",")]
    certificates()
    for called, certificate in [("front", "named"), ("a", "named"), ("b", "addressed"), ("elsewhere", "elsewhere"), ("plain", None)]:
        Server(called, certificate)
    held = [socket.socket() for _ in range(4)]
    for called, listener in zip(["closed", "closed2", "silent", "proxy"], held):
        listener.bind(("127.0.0.1", 0))  # bound and not listening: refuses connections, and nobody else gets the port
        ports[called] = listener.getsockname()[1]
    held[2].listen(16)  # never accepts
    held[3].listen(16)
    threading.Thread(target=proxy, args=(held[3],), daemon=True).start()
    kubeconfig()
    print(json.dumps({"ports": ports}), flush=True)
    sys.stdin.read()
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
