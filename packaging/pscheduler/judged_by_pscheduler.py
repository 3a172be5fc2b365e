#!/usr/bin/env python3
"""Whether JSON is what pScheduler's own test classes take. Standard input: a list of [what, JSON], where what is
enumeration, throughput-spec, throughput-result, disk-to-disk-spec or disk-to-disk-result. Argument: a checkout of
pScheduler. Needs jsonschema; prints what is wrong, a line each."""

import importlib.util
import json
import pathlib
import sys

checkout = pathlib.Path(sys.argv[1])


def loaded(name, path):
    spec = importlib.util.spec_from_file_location(name, checkout / path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


# The whole package needs a database and more; its validator stands alone.
pscheduler = loaded("pscheduler", "python-pscheduler/pscheduler/pscheduler/jsonval.py")
tests = {
    name: loaded(name, f"pscheduler-test-{name}/{name}/validate.py") for name in ("throughput", "disk-to-disk")
}


def judged(what, value):
    if what == "enumeration":
        schema = {
            "type": "object",
            "properties": {"it": {"$ref": "#/pScheduler/PluginEnumeration/Tool"}},
            "required": ["it"],
        }
        return pscheduler.json_validate({"it": value}, schema)
    name, _, kind = what.rpartition("-")
    return tests[name].spec_is_valid(value) if kind == "spec" else tests[name].result_is_valid(value)


wrong = 0
for what, value in json.load(sys.stdin):
    valid, why = judged(what, value)
    if not valid:
        wrong += 1
        print(f"{what}: {why}")
sys.exit(1 if wrong else 0)
