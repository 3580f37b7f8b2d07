"""Keys and values of Kubernetes in etcd, decoded by hand; what the oracles of `plimsoll etcd` share. No look at the Rust."""
import calendar
import json
import re
import time

from etcd_bolt import fields

ROOTS = ("/registry/", "/kubernetes.io/", "/openshift.io/")
NAMES = {"minions": "nodes", "controllers": "replicationcontrollers", "ingress": "ingresses", "persistentvolumeclaims": "persistentvolumeclaims"}
GROUPS = {
    "admissionregistration.k8s.io": "mutatingwebhookconfigurations validatingwebhookconfigurations validatingadmissionpolicies validatingadmissionpolicybindings "
                                    "mutatingadmissionpolicies mutatingadmissionpolicybindings",
    "apps": "controllerrevisions daemonsets deployments replicasets statefulsets",
    "autoscaling": "horizontalpodautoscalers",
    "batch": "cronjobs jobs",
    "certificates.k8s.io": "certificatesigningrequests clustertrustbundles podcertificaterequests",
    "coordination.k8s.io": "leases leasecandidates",
    "discovery.k8s.io": "endpointslices",
    "flowcontrol.apiserver.k8s.io": "flowschemas prioritylevelconfigurations",
    "internal.apiserver.k8s.io": "storageversions",
    "networking.k8s.io": "ingresses ingressclasses networkpolicies ipaddresses servicecidrs",
    "node.k8s.io": "runtimeclasses",
    "policy": "poddisruptionbudgets podsecuritypolicies",
    "rbac.authorization.k8s.io": "clusterrolebindings clusterroles rolebindings roles",
    "resource.k8s.io": "deviceclasses resourceclaims resourceclaimtemplates resourceslices",
    "scheduling.k8s.io": "priorityclasses",
    "storage.k8s.io": "csidrivers csinodes csistoragecapacities storageclasses volumeattachments volumeattributesclasses",
    "storagemigration.k8s.io": "storageversionmigrations",
}
GROUP_OF = {name: group for group, names in GROUPS.items() for name in names.split()}


class Key:
    """root, group, resource, namespace, name, prefix of a key; `kubernetes` is False for others."""

    def __init__(self, key):
        self.key, self.group, self.resource, self.namespace, self.name, self.kubernetes = key, "", "", "", "", False
        for root in ROOTS:
            if key.startswith(root):
                break
        else:
            parts = key.split("/")
            self.prefix = key if len(parts) < 4 else "/".join(parts[:3]) + "/"
            return
        parts = key[len(root):].split("/")
        if parts[0] == "services" and len(parts) > 2 and parts[1] in ("specs", "endpoints"):
            self.resource, head = {"specs": "services", "endpoints": "endpoints"}[parts[1]], 2
        elif "." in parts[0] and len(parts) > 1:
            self.group, self.resource, head = parts[0], parts[1], 2
        else:
            self.resource, head = NAMES.get(parts[0], parts[0]), 1
            self.group = GROUP_OF.get(self.resource, "")
        rest = parts[head:]
        if not rest:
            self.kubernetes, self.prefix = bool(self.resource), key
            return
        self.kubernetes, self.prefix = True, root + "".join(part + "/" for part in parts[:head])
        if len(rest) > 1:
            self.namespace, self.prefix = rest[0], self.prefix + rest[0] + "/"
            rest = rest[1:]
        self.name = "/".join(rest)


class Object:
    """What a value tells of its object."""

    def __init__(self):
        self.api_version = self.kind = self.uid = self.name = ""
        self.labels, self.owners, self.managed = {}, [], []  # owners: dicts; managed: (manager, bytes, time)
        self.annotation_bytes = self.last_applied_bytes = self.managed_fields_bytes = 0
        self.times, self.read = [], True


LAST = "kubectl.kubernetes.io/last-applied-configuration"


def text(data):
    return bytes(data).decode("utf-8", "replace")


def first(message, number, default=b""):
    return next((value for n, value, _ in fields(message) if n == number), default)


def protobuf(value):
    out = Object()
    unknown = dict((n, v) for n, v, _ in fields(value[4:]))
    kind = dict((n, v) for n, v, _ in fields(unknown.get(1, b"")))
    out.api_version, out.kind = text(kind.get(1, b"")), text(kind.get(2, b""))
    raw = unknown.get(2, b"")
    for number, content, size in fields(first(raw, 1)):
        if number == 1:
            out.name = text(content)
        elif number == 5:
            out.uid = text(content)
        elif number == 8:
            out.times.append(first(content, 1, None))  # A zero time is an empty message.
        elif number in (11, 12):
            pair = dict((n, v) for n, v, _ in fields(content))
            name, content = text(pair.get(1, b"")), pair.get(2, b"")
            if number == 11:
                out.labels[name] = text(content)
            else:
                out.annotation_bytes += size
                if name == LAST:
                    out.last_applied_bytes = len(content)
        elif number == 13:
            ref = dict((n, v) for n, v, _ in fields(content))
            out.owners.append({"kind": text(ref.get(1, b"")), "name": text(ref.get(3, b"")), "uid": text(ref.get(4, b"")), "controller": bool(ref.get(6, 0))})
        elif number == 17:
            entry = dict((n, v) for n, v, _ in fields(content))
            at = first(entry[4], 1, None) if 4 in entry else None
            out.managed.append((text(entry.get(1, b"")), size, at))
            out.managed_fields_bytes += size
    if out.kind == "Lease":
        spec = dict((n, v) for n, v, _ in fields(first(raw, 2)))
        if 4 in spec:
            out.times.append(first(spec[4], 1, None))
    out.times = [at for at in out.times + [at for _, _, at in out.managed] if at is not None]
    return out


DECODER = json.JSONDecoder()
BLANK = re.compile(r"[ \t\r\n]*")


def parts(doc, at):
    """[(name or index, value, raw text)] of the object or list that begins at `at`."""
    out, close, at = [], "]" if doc[at] == "[" else "}", BLANK.match(doc, at + 1).end()
    while doc[at] != close:
        name = len(out)
        if close == "}":
            name, at = DECODER.raw_decode(doc, at)
            at = BLANK.match(doc, BLANK.match(doc, at).end() + 1).end()
        value, end = DECODER.raw_decode(doc, at)
        out.append((name, value, at, end))
        at = BLANK.match(doc, end).end()
        if doc[at] == ",":
            at = BLANK.match(doc, at + 1).end()
    return out


def stamp(value):
    try:
        return calendar.timegm(time.strptime(value[:19], "%Y-%m-%dT%H:%M:%S"))
    except (TypeError, ValueError):
        return None


def json_object(value):
    out, doc = Object(), value.decode()
    top = {name: (content, at, end) for name, content, at, end in parts(doc, BLANK.match(doc).end())}
    string = lambda found: found if isinstance(found, str) else ""
    out.api_version, out.kind = string(top.get("apiVersion", ("",))[0]), string(top.get("kind", ("",))[0])
    if not isinstance(top.get("metadata", (None,))[0], dict):
        return out
    inner = {name: (content, at, end) for name, content, at, end in parts(doc, top["metadata"][1])}
    size = lambda at, end: len(doc[at:end].encode())
    out.uid, out.name = string(inner.get("uid", ("",))[0]), string(inner.get("name", ("",))[0])
    out.labels = {k: v for k, v in (inner.get("labels", (None,))[0] or {}).items() if isinstance(v, str)}
    if isinstance(inner.get("annotations", (None,))[0], dict):
        content, at, end = inner["annotations"]
        out.annotation_bytes = size(at, end)
        out.last_applied_bytes = len(content.get(LAST, "").encode())
    for ref in inner.get("ownerReferences", (None,))[0] or []:
        out.owners.append({"kind": ref.get("kind", ""), "name": ref.get("name", ""), "uid": ref.get("uid", ""), "controller": bool(ref.get("controller"))})
    if isinstance(inner.get("managedFields", (None,))[0], list):
        content, at, end = inner["managedFields"]
        out.managed_fields_bytes = size(at, end)
        for _, entry, start, stop in parts(doc, at):
            out.managed.append((entry.get("manager", ""), size(start, stop), stamp(entry.get("time"))))
    out.times = [at for at in [stamp(inner.get("creationTimestamp", ("",))[0])] + [t for _, _, t in out.managed] if at is not None]
    if out.kind == "Lease":
        renewed = stamp((top.get("spec", ({},))[0] or {}).get("renewTime"))
        out.times += [renewed] if renewed is not None else []
    return out


def decode(value):
    """An Object; with `read` False where the value is neither protobuf nor JSON."""
    try:
        if value.startswith(b"k8s\0"):
            return protobuf(value)
        if value.startswith(b"{"):
            return json_object(value)
    except (ValueError, IndexError, KeyError, TypeError, UnicodeDecodeError, AttributeError):
        pass
    out = Object()
    out.read = False
    return out


ALPHABET = set("bcdfghjklmnpqrstvwxz2456789")
UUID = re.compile(r"(?:^|[-.])[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")


def generated(part):
    if not part:
        return False
    if re.fullmatch(r"v?[0-9]+", part):
        return True
    digit = any(c in "0123456789" for c in part)
    if len(part) >= 8 and digit and set(part) <= set("0123456789abcdef"):
        return True
    if set(part) <= ALPHABET:
        return len(part) == 5 and part != "https" or 8 <= len(part) <= 10 and digit
    return False


def name_prefix(name):
    separator, rest = None, name
    found = UUID.search(rest)
    if found:
        if found.start() == 0 and rest[0] not in "-.":
            return "*"
        separator, rest = rest[found.start()], rest[:found.start()]
    while True:
        at = max(rest.rfind("-"), rest.rfind("."))
        if at <= 0 or not generated(rest[at + 1:]):
            break
        separator, rest = rest[at], rest[:at]
    return rest if separator is None else f"{rest}{separator}*"
