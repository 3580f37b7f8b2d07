#!/usr/bin/env python3
"""Decides requests by the CEL of ValidatingAdmissionPolicies, with celpy: what an apiserver would say.

    policies.py MANIFESTS.json < CASES

MANIFESTS.json is a List as `plimsoll guard policies -o json` prints it. CASES is a list of {"policy", "request": {"user", "groups",
"operation", "group", "resource", "subresource", "options"}, "object", "oldObject", "namespaceObject", "params"}. Prints for each "allow", "deny" or
"not asked"; what can't be evaluated ends it, as failurePolicy Fail would deny for a fault of ours.
"""
import json
import sys

import celpy
from celpy import celtypes

lists = json.load(open(sys.argv[1]))["items"]
policies = {one["metadata"]["name"]: one["spec"] for one in lists if one["kind"] == "ValidatingAdmissionPolicy"}
environment = celpy.Environment()
compiled = {}


def evaluate(text, context):
    if text not in compiled:
        # Kubernetes has the strings library of CEL; this one has not.
        split = lambda text, by: celtypes.ListType([celtypes.StringType(part) for part in text.split(by)])
        compiled[text] = environment.program(environment.compile(text), functions={"split": split})
    return compiled[text].evaluate(context)


def matches(rule, request):
    resource = request["resource"] + (f"/{request['subresource']}" if request["subresource"] else "")
    has = lambda wanted, one: one in wanted or "*" in wanted
    # `*` is all resources, and no subresources.
    by_name = resource in rule["resources"] or "*" in rule["resources"] and not request["subresource"]
    return has(rule["apiGroups"], request["group"]) and has(rule["operations"], request["operation"]) and by_name


def decide(case):
    spec, request = policies[case["policy"]], case["request"]
    constraints = spec["matchConstraints"]
    if not any(matches(rule, request) for rule in constraints["resourceRules"]):
        return "not asked"
    if any(matches(rule, request) for rule in constraints.get("excludeResourceRules", [])):
        return "not asked"
    asked = {"operation": request["operation"], "userInfo": {"username": request["user"], "groups": request["groups"]}, "options": request.get("options") or {}}
    given = {"object": case["object"], "oldObject": case["oldObject"], "namespaceObject": case["namespaceObject"], "params": case["params"], "request": asked}
    context = {name: celpy.json_to_cel(value) for name, value in given.items()}
    # A variable may name those before it.
    variables = celtypes.MapType({})
    for variable in spec["variables"]:
        variables[celtypes.StringType(variable["name"])] = evaluate(variable["expression"], {**context, "variables": variables})
    for validation in spec["validations"]:
        if not evaluate(validation["expression"], {**context, "variables": variables}):
            return "deny"
    return "allow"


json.dump([decide(case) for case in json.load(sys.stdin)], sys.stdout)
