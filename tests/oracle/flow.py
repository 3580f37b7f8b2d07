"""Which FlowSchema a request matches, a second time: written from the words of the API (kubectl explain flowschema.spec.rules), and
without a look at the Rust. One thing the words don't tell and kube-apiserver 1.36 does: a path that is named stands for all paths
below it too.

A set is made of the objects that kubectl get -o json writes: load([FILE, ...]) gives schemas in the order in which they are asked.
"""
import json
import urllib.parse


def load(files):
    schemas, levels = [], set()
    for name in files:
        data = open(name, "rb").read()
        if data[:4] == b"\x28\xb5\x2f\xfd":
            import zstandard
            data = zstandard.ZstdDecompressor().decompressobj().decompress(data)
        for item in json.loads(data)["items"]:
            if item["kind"] == "FlowSchema":
                schemas.append(item)
            elif item["kind"] == "PriorityLevelConfiguration":
                levels.add(item["metadata"]["name"])
    schemas = [s for s in schemas if s["spec"]["priorityLevelConfiguration"]["name"] in levels]
    return sorted(schemas, key=lambda s: (s["spec"]["matchingPrecedence"], s["metadata"]["name"]))


def wanted(value, choices):
    return choices == ["*"] or value in choices


def is_subject(subject, user, groups):
    if subject["kind"] == "User":
        return subject["user"]["name"] in ("*", user)
    if subject["kind"] == "Group":
        return subject["group"]["name"] == "*" or subject["group"]["name"] in groups
    account = subject["serviceAccount"]
    parts = user.split(":")
    if len(parts) != 4 or parts[:2] != ["system", "serviceaccount"] or parts[2] != account["namespace"]:
        return False
    return account["name"] in ("*", parts[3])


def is_resource(rule, event, ref):
    name = ref["resource"] + ("/" + ref["subresource"] if ref.get("subresource") else "")
    in_place = wanted(ref["namespace"], rule.get("namespaces", [])) if ref.get("namespace") else rule.get("clusterScope", False)
    return (wanted(event["verb"], rule["verbs"]) and wanted(name, rule["resources"])
            and wanted(ref.get("apiGroup", ""), rule["apiGroups"]) and in_place)


def is_path(rule, event):
    path = urllib.parse.unquote(event["requestURI"].split("?")[0])
    if not wanted(event["verb"], rule["verbs"]):
        return False
    for given in rule["nonResourceURLs"]:
        below = given.rstrip("*")
        if given == "*" or path == given or path.startswith(below if below.endswith("/") else below + "/"):
            return True
    return False


def match(schemas, event):
    """(FlowSchema, priority level); both empty where API Priority and Fairness does not take the request."""
    ref = event.get("objectRef") or {}
    user = event.get("impersonatedUser") or event.get("user") or {}
    if not user.get("username"):
        return "", ""  # not authenticated: it ended before
    lasts = (event["verb"] == "proxy" or ref.get("subresource") in ("attach", "exec", "log", "portforward", "proxy")
             or event["requestURI"].startswith("/debug/pprof/"))
    if lasts and event["verb"] != "watch":
        return "", ""
    for schema in schemas:
        for rule in schema["spec"].get("rules") or []:
            if not any(is_subject(s, user["username"], user.get("groups") or []) for s in rule["subjects"]):
                continue
            if ref.get("resource"):
                found = any(is_resource(r, event, ref) for r in rule.get("resourceRules") or [])
            else:
                found = any(is_path(r, event) for r in rule.get("nonResourceRules") or [])
            if found:
                return schema["metadata"]["name"], schema["spec"]["priorityLevelConfiguration"]["name"]
    return "catch-all", "catch-all"
