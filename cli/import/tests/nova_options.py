"""Writes cli/import/src/nova_34.tsv: every option of Nova 34 and of the libraries that nova-compute loads.

Run it in a virtual environment with nova==34.0.0: `python nova_options.py > src/nova_34.tsv`. A line is group, name, type, flags, the
deprecated names as GROUP/NAME separated by spaces, and the default if it is a short text. Flags: m repeated keys are kept, s secret.
"""

import json
import subprocess
import sys

NAMESPACES = [
    "nova.conf", "oslo.log", "oslo.messaging", "oslo.policy", "oslo.privsep", "oslo.service.periodic_task", "oslo.service.service",
    "oslo.db", "oslo.db.concurrency", "oslo.cache", "oslo.middleware", "oslo.concurrency", "oslo.reports", "oslo.versionedobjects",
    "oslo.limit", "keystonemiddleware.auth_token", "osprofiler", "os_vif",
]
TYPES = {
    "string value": "text", "list value": "list", "boolean value": "flag", "integer value": "whole", "floating point value": "decimal",
    "dict value": "dict", "multi valued": "text", "port value": "whole", "host address value": "text", "URI value": "text",
    "ip address value": "text", "host domain value": "text", "hostname value": "text", "unknown value": "text",
}


def rows():
    command = ["oslo-config-generator", "--format", "json"]
    for namespace in NAMESPACES:
        command += ["--namespace", namespace]
    data = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    for group, content in data["options"].items():
        for option in content["opts"]:
            name = (option["dest"] or option["name"]).replace("-", "_")
            flags = ("m" if option["type"] == "multi valued" else "") + ("s" if option["secret"] else "")
            old = {
                f"{each['group'] or group}/{(each['name'] or name).replace('-', '_')}" for each in option["deprecated_opts"]
            } - {f"{group}/{name}"}
            kind = TYPES.get(option["type"], "text")
            default = option["sample_default"] or option["default"]
            # Nova computes it from its place in the file system; all packages set this one.
            default = "/var/lib/nova" if default == "$pybasedir" else default
            plain = isinstance(default, str) and kind == "text" and len(default) < 80 and default.isprintable() and default[:1] != "<"
            yield "\t".join([group, name, kind, flags or "-", " ".join(sorted(old)) or "-", default if plain and default else "-"])


sys.stdout.write("\n".join(sorted(set(rows()))) + "\n")
