#!/usr/bin/env python3
"""Derives the version table of one Nova release from the installed package, or compares it with the table of this repository.

Usage:  nova_release.py 34.0.0            writes core/nova/releases/nova-34.json and core/nova/tests/nova/fields-34.json
        nova_release.py 34.0.0 --check    writes nothing; fails with the difference

Nova is installed from PyPI into a virtual environment, in a temporary folder that is removed at the end. NOVA_PYTHON names the
Python of an environment that has Nova already. A new release also needs its row in core/nova/src/release.rs.
"""

import difflib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TABLES = ROOT / "core/nova/releases"
FIELDS = ROOT / "core/nova/tests/nova"
# Passed to a child of this script that runs in the environment with Nova.
DERIVE = "--derive"


def objects():
    """Version, child objects and fields of each object, without the payloads of notifications."""
    from nova import objects as nova_objects
    from nova.objects import base
    from oslo_versionedobjects import fields as ovo

    nova_objects.register_all()
    found, fields = {}, {}
    for name, classes in sorted(base.NovaObjectRegistry.obj_classes().items()):
        kind = classes[0]
        if kind.OBJ_PROJECT_NAMESPACE != "nova" or name.endswith(("Payload", "PayloadBase", "Notification", "EventType")):
            continue
        children = [
            field.objname
            for field in kind.fields.values()
            if isinstance(field, (ovo.ObjectField, ovo.ListOfObjectsField)) and field.objname != name
        ]
        found[name] = {"version": kind.VERSION}
        if children:
            found[name]["children"] = list(dict.fromkeys(children))
        fields[name] = {field: describe(kind.fields[field]) for field in sorted(kind.fields)}
    for name in found:
        assert set(closure(found, name)) == set(tree(name)), name
    return found, fields


def tree(name):
    from oslo_versionedobjects import base

    return base.obj_tree_get_versions(name)


def closure(found, name):
    """The manifest of an object as Berth computes it from the direct children."""
    seen, waiting = [], [name]
    while waiting:
        one = waiting.pop()
        if one not in seen:
            seen.append(one)
            waiting.extend(found[one].get("children", []))
    return seen


def describe(field):
    """The type of a field: the class of oslo.versionedobjects, or the object's name; a question mark if null is allowed."""
    name = getattr(field, "objname", None) or type(field).__name__.removesuffix("Field")
    return name + ("?" if field.nullable else "")


class RecordedClient:
    """Takes the place of the RPC client and writes down what each function of the compute RPC API would send."""

    def __init__(self):
        self.methods = {}
        self.version = None

    def client(self, _context):
        return self

    def prepare(self, version=None, **_options):
        self.version = version
        return self

    def can_send_version(self, _version):
        return True

    def send(self, kind, method, arguments):
        version = [int(part) for part in self.version.split(".")]
        entry = self.methods.setdefault(method, {"version": version, "kinds": set(), "arguments": {}})
        entry["version"] = max(entry["version"], version)
        entry["kinds"].add(kind)
        entry["arguments"].update(dict.fromkeys(arguments))

    def call(self, _context, method, **arguments):
        self.send("call", method, arguments)

    def cast(self, _context, method, **arguments):
        self.send("cast", method, arguments)


class Anything(str):
    """An argument of any kind: it is true, and has every attribute and every item."""

    def __bool__(self):
        return True

    def __getattr__(self, _name):
        return Anything()

    def __getitem__(self, _key):
        return Anything()


def compute_methods():
    """Each method of the compute RPC API: version, call or cast, and the arguments as they are sent."""
    import inspect

    import nova.conf
    from nova.compute import rpcapi
    from oslo_messaging.rpc import client as oslo_client

    # Functions of the API read timeouts, which oslo.messaging registers with its first real client.
    nova.conf.CONF.register_opts(oslo_client._client_opts)
    client = rpcapi._ROUTER = RecordedClient()
    api = rpcapi.ComputeAPI()
    rpcapi._compute_host = lambda *_: "host"
    for name, function in inspect.getmembers(api, inspect.ismethod):
        parameters = list(inspect.signature(function).parameters)
        if name.startswith("_") or not parameters or parameters[0] not in ("ctxt", "context", "ctx"):
            continue
        if name in ("supports_numa_live_migration", "get_client", "prepare_for_alt_rpcserver"):
            continue
        function(None, **{parameter: Anything() for parameter in parameters[1:]})
        flags = [parameter for parameter in parameters if parameter in ("cast", "do_cast")]
        if flags:
            function(None, **{parameter: Anything() for parameter in parameters[1:] if parameter not in flags}, **{flags[0]: False})
    return {
        name: {
            "version": ".".join(map(str, entry["version"])),
            "kinds": sorted(entry["kinds"]),
            "arguments": list(entry["arguments"]),
        }
        for name, entry in sorted(client.methods.items())
    }


def states():
    """Nova's words for states, statuses and external events."""
    from nova.objects import external_event
    from nova.objects import fields as nova_fields

    def words(enum):
        return sorted(value for key, value in vars(enum).items() if key.isupper() and isinstance(value, str) and key != "_UNUSED")

    return {
        "vm_states": words(nova_fields.InstanceState),
        "task_states": words(nova_fields.InstanceTaskState),
        "external_events": sorted(external_event.EVENT_NAMES),
        "pci_device_statuses": words(nova_fields.PciDeviceStatus),
    }


def derive():
    from importlib import metadata

    from nova import baserpc
    from nova.compute import manager
    from nova.conductor import manager as conductor
    from nova.objects import service
    from nova.scheduler import manager as scheduler

    found, fields = objects()
    table = {
        "release": metadata.version("nova"),
        "service_version": service.SERVICE_VERSION,
        "oldest_service_version": service.SERVICE_VERSION_ALIASES[service.OLDEST_SUPPORTED_SERVICE_VERSION],
        "rpc": {
            "baseapi": baserpc.BaseRPCAPI.target.version,
            "compute": manager.ComputeManager.target.version,
            "compute_task": conductor.ComputeTaskManager.target.version,
            "conductor": conductor.ConductorManager.target.version,
            "scheduler": scheduler.SchedulerManager.target.version,
        },
        "objects": found,
        "compute_methods": compute_methods(),
    }
    json.dump({"table": table, "fields": {"objects": fields, "words": states()}}, sys.stdout)


def rows(value):
    """JSON with one line for each entry of the second level, so that a release's changes can be read as a diff."""
    lines = []
    for key, entry in value.items():
        if isinstance(entry, dict) and any(isinstance(one, (dict, list)) for one in entry.values()):
            inner = ",\n".join(f"    {json.dumps(name)}: {json.dumps(one)}" for name, one in entry.items())
            lines.append(f"  {json.dumps(key)}: {{\n{inner}\n  }}")
        else:
            lines.append(f"  {json.dumps(key)}: {json.dumps(entry)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def derived(python):
    answer = subprocess.run([python, __file__, DERIVE], check=True, stdout=subprocess.PIPE, text=True)
    # Libraries may print before the answer, which is the last line.
    return json.loads(answer.stdout.splitlines()[-1])


def installed(release, folder):
    """The Python of a new virtual environment with this release of Nova."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = os.path.join(folder, "bin/python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", f"nova=={release}"], check=True)
    return python


def main():
    if sys.argv[1:] == [DERIVE]:
        return derive()
    release = next((word for word in sys.argv[1:] if re.fullmatch(r"\d+(\.\d+)*", word)), None)
    if release is None or set(sys.argv[1:]) - {release, "--check"}:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        answer = derived(os.environ.get("NOVA_PYTHON") or installed(release, folder))
    if answer["table"]["release"] != release:
        sys.exit(f"nova {answer['table']['release']} is installed there, not {release}")
    number = release.split(".")[0]
    differs = False
    for path, text in (
        (TABLES / f"nova-{number}.json", rows(answer["table"])),
        (FIELDS / f"fields-{number}.json", rows(answer["fields"])),
    ):
        if "--check" not in sys.argv:
            path.write_text(text)
            continue
        old = path.read_text() if path.exists() else ""
        difference = list(difflib.unified_diff(old.splitlines(True), text.splitlines(True), str(path), f"nova {release}"))
        sys.stdout.writelines(difference)
        differs |= bool(difference)
    if differs:
        sys.exit(f"the table of Nova {number} differs from the installed package")


if __name__ == "__main__":
    main()
