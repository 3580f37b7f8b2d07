#!/usr/bin/env python3
"""Writes kinds.txt: how Kubernetes' built-in kinds stand in protobuf, and what their fields are called in JSON.

    generate.py FOLDER... > kinds.txt

A FOLDER holds the Go modules k8s.io/api, apimachinery, apiextensions-apiserver and kube-aggregator of one release as
api/, apimachinery/, ...; the newest release comes first. What a newer release no longer has is taken from the next.

Of generated.proto it takes field numbers and types, of the Go files beside it the struct tags: what a field is called in JSON,
whether it is embedded, a pointer, omitted when empty. Nothing else of those files goes into the table.

A line is a message: its name, then its fields as NAME:NUMBER TYPE RULE, for example

    Lease metadata:1ObjectMeta! spec:2LeaseSpec!

NAME   empty for an embedded message, whose fields stand in the object itself
TYPE   s text, i integer, b boolean, y bytes (base64), d double, or a message; [ before it: list; { before it: map from text
       %time, %strings and so on are messages that have a JSON form of their own
RULE   what to do where the message does not have it, or has zero:
       (none)  leave it out; a number, text or boolean also when it is zero
       *       leave it out, but not when it is there and zero (a pointer)
       !       write zero; an object with its own such fields for a message
       ?       write null
       0       leave it out when the whole message is zero

Behind the messages, lines "= GROUP/VERSION KIND:MESSAGE ..." name the kinds (KIND alone: the message is called the same).
"""

import re
import sys
from pathlib import Path

MODULES = ["api", "apimachinery", "apiextensions-apiserver/pkg/apis", "kube-aggregator/pkg/apis"]
SCALARS = {"string": "s", "int32": "i", "int64": "i", "uint32": "i", "uint64": "i", "bool": "b", "bytes": "y", "double": "d"}
META = "k8s.io.apimachinery.pkg.apis.meta.v1."
# Groups whose kinds are only asked and answered.
NEVER_STORED = ["authentication", "authorization", "imagepolicy", "apidiscovery", "admission", "meta", "testapigroup"]
# Parts of other objects that have metadata of their own.
NO_KINDS = ("TemplateSpec", "VolumeClaimTemplate")
# Messages with a JSON form of their own; known to the reader by these names.
SPECIAL = {
    META + "Time": "%time",
    META + "MicroTime": "%microtime",
    META + "Duration": "%duration",
    META + "FieldsV1": "%raw",
    "k8s.io.apimachinery.pkg.api.resource.Quantity": "%quantity",
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": "%intstr",
    "k8s.io.apimachinery.pkg.runtime.RawExtension": "%raw",
}
for version in ["v1", "v1beta1"]:
    package = f"k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.{version}."
    SPECIAL[package + "JSON"] = "%raw"


def messages_of(proto):
    """Messages of a generated.proto: name to [(number, label, type, name)]."""
    text = re.sub(r"//[^\n]*", "", proto.read_text())
    package = re.search(r"^package ([\w.]+);", text, re.M).group(1)
    found = {}
    for name, body in re.findall(r"^message (\w+) \{(.*?)^\}", text, re.M | re.S):
        fields = []
        for statement in body.split(";"):
            statement = " ".join(statement.split())
            if not statement:
                continue
            m = re.fullmatch(r"(optional|repeated|required) ([\w.]+) (\w+) = (\d+)(?: \[.*\])?", statement)
            if m:
                fields.append((int(m[4]), m[1], m[2], m[3]))
                continue
            m = re.fullmatch(r"map<string, ([\w.]+)> (\w+) = (\d+)", statement)
            if not m:
                sys.exit(f"{proto}: {name}: can't read {statement!r}")
            fields.append((int(m[3]), "map", m[1], m[2]))
        found[name] = fields
    return package, found


def structs_of(folder, root):
    """Struct tags of a folder's Go files: struct to {number: (json name, options, is embedded, Go type)}, and named lists."""
    structs, lists = {}, set()
    for file in sorted(folder.glob("*.go")):
        if file.name.endswith("_test.go") or file.name.startswith(("zz_generated", "generated.pb")):
            continue
        text = file.read_text()
        for name, body in re.findall(r"^type (\w+) struct \{\n(.*?)^\}", text, re.M | re.S):
            fields = {}
            for line in body.splitlines():
                m = re.match(r"\s*((?:\w+ )?)\s*([\w.*\[\]{}]+)\s+`(.*)`", line)
                if not m:
                    continue
                tags = dict(re.findall(r'(\w+):"([^"]*)"', m[3]))
                number = re.match(r"\w+,(\d+)", tags.get("protobuf", ""))
                if number and "json" in tags:
                    json, *options = tags["json"].split(",")
                    fields[int(number[1])] = (json, options, not m[1].strip(), m[2])
            structs[name] = fields
        # A type that is another package's under a name of its own.
        for name, package, other in re.findall(r"^type (\w+) =? ?(\w+)\.(\w+)$", text, re.M):
            path = re.search(rf'^\s*(?:import )?{package} "k8s\.io/([^"]+)"', text, re.M)
            if path:
                structs[name] = structs_of(root / path[1], root)[0].get(other, {})
        for block in re.findall(r"^type \(\n(.*?)^\)", text, re.M | re.S):
            lists.update(re.findall(r"^\t(\w+)\s+\[\]", block, re.M))
        lists.update(re.findall(r"^type (\w+) \[\]", text, re.M))
    return structs, lists


def once(field):
    """A field that the newest release no longer has: it is not there unless the message has it."""
    return (*field[:3], "*" if field[2] in SCALARS.values() else "")


class Table:
    def __init__(self):
        self.messages = {}  # full name to {number: (json, type, rule)}
        self.kinds = {}  # group/version to kinds
        self.lists = set()
        self.was = []  # messages of fields whose type has changed: the new, the old

    def add(self, root):
        for module in MODULES:
            for proto in sorted((root / module).rglob("generated.proto")):
                package, found = messages_of(proto)
                structs, lists = structs_of(proto.parent, root)
                for name, fields in found.items():
                    full = f"{package}.{name}"
                    if name in lists and [f[1:3] for f in fields] == [("repeated", "string")] and name not in structs:
                        self.lists.add(full)
                    is_old = full in self.messages
                    own = self.messages.setdefault(full, {})
                    for number, label, kind, proto_name in fields:
                        if full in SPECIAL:
                            continue
                        field = self.field(full, package, structs.get(name, {}), number, label, kind, proto_name)
                        if number not in own:
                            own[number] = once(field) if is_old else field
                        elif own[number][2] != field[2]:
                            self.was.append((own[number][2], field[2]))
                self.name_kinds(proto.parent, package, found)

    def field(self, full, package, struct, number, label, kind, proto_name):
        if kind in SCALARS:
            ref = SCALARS[kind]
        else:
            ref = kind.lstrip(".") if "." in kind else f"{package}.{kind}"
        tag = struct.get(number)
        if tag is None:
            return (proto_name, label, ref, "?none")
        json, options, embedded, go = tag
        if "inline" in options or (not json and embedded):
            if not embedded or label != "optional":
                sys.exit(f"{full}.{proto_name}: inline but not embedded")
            return ("", label, ref, "" if go.startswith("*") else "!")
        omit = "omitempty" in options
        many = label in ("repeated", "map") or kind == "bytes"
        if go.startswith("*") or many:
            rule = ("" if many or ref not in SCALARS.values() else "*") if omit else "?"
        elif "omitzero" in options:
            rule = "0"
        elif ref in SCALARS.values():
            rule = "" if omit else "!"
        else:
            rule = "!"
        return (json, label, ref, rule)

    def name_kinds(self, folder, package, found):
        register = folder / "register.go"
        group = re.search(r'GroupName\s*=\s*"([^"]*)"', register.read_text()) if register.exists() else None
        if not group or group[1].split(".")[0] in NEVER_STORED:
            return
        group_version = f"{group[1]}/{folder.name}".lstrip("/")
        for name in found:
            metadata = self.messages[f"{package}.{name}"].get(1)
            if metadata and metadata[0] == "metadata" and metadata[2] == META + "ObjectMeta" and not name.endswith(NO_KINDS):
                self.kinds.setdefault(group_version, {})[name] = f"{package}.{name}"

    def write(self, out):
        for new, old in self.was:
            for number, field in self.messages.get(old, {}).items():
                self.messages.get(new, {}).setdefault(number, once(field))
        # A named list is a message in protobuf and a list in JSON. It is null or left out by its own rule.
        reached, todo = {}, [kind for kinds in self.kinds.values() for kind in kinds.values()] + [META + "ObjectMeta"]
        while todo:
            full = todo.pop()
            if full in reached or full in SPECIAL or full in self.lists:
                continue
            reached[full] = self.messages[full]
            todo += [ref for _, _, ref, _ in self.messages[full].values() if "." in ref]
        for full, fields in reached.items():
            wrapper = full.split(".")[-1].startswith("JSONSchemaPropsOr")
            for number, field in fields.items():
                if field[3] == "?none":
                    if not wrapper:
                        sys.exit(f"{full}: no struct tag for field {number}")
                    fields[number] = (*field[:3], "")
        # Messages that say the same under one name are one.
        names = {full: full for full in reached}
        short = lambda full: full.split(".")[-1]
        while True:
            seen, merged = {}, {}
            for full in sorted(reached, key=lambda full: ("beta" in full or "alpha" in full, full)):
                if names[full] != full:
                    continue
                said = (short(full), tuple(sorted((n, (j, l, names.get(r, r), w)) for n, (j, l, r, w) in reached[full].items())))
                if said in seen:
                    merged[full] = seen[said]
                else:
                    seen[said] = full
            if not merged:
                break
            names = {full: merged.get(to, to) for full, to in names.items()}
        called, taken = {}, set()
        for full in sorted(set(names.values()), key=lambda full: ("beta" in full or "alpha" in full, "core.v1" not in full, full)):
            name, parts = short(full), full.split(".")
            if name in taken:
                name = f"{name}@{parts[-3]}/{parts[-2]}"
            taken.add(name)
            called[full] = name
        for full in sorted(called, key=called.get):
            fields = []
            for number, (json, label, ref, rule) in sorted(reached[full].items()):
                if ref in self.lists:
                    mark = "%strings"
                else:
                    mark = SPECIAL.get(ref) or (called[names[ref]] if ref in names else ref)
                before = {"repeated": "[", "map": "{"}.get(label, "")
                fields.append(f"{json}:{number}{before}{mark}{rule}")
            print(" ".join([called[full], *fields]), file=out)
        for group_version, kinds in sorted(self.kinds.items()):
            line = [kind if called[names[full]] == kind else f"{kind}:{called[names[full]]}" for kind, full in sorted(kinds.items())]
            print(" ".join(["=", group_version, *line]), file=out)


table = Table()
for folder in sys.argv[1:]:
    table.add(Path(folder))
releases = " ".join(Path(folder).name for folder in sys.argv[1:])
print(f"# Made by generate.py of k8s.io/api and its siblings, {releases}: facts of the wire format only.")
table.write(sys.stdout)
