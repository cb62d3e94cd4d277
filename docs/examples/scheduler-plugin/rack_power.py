#!/usr/bin/python3
"""A plugin of Berth's scheduler: no host gets more guests than its rack has power for.

An aggregate says what its hosts may draw (metadata `power_w`, watts for each host) and where they are (`row`). A flavor says what
a guest of it draws (extra spec `rack:power_w`) and, if it matters, in which row it must be (`rack:row`). CPUs that guests have
already count as 10 watts each. Hosts with more power left are preferred.
"""

import json
import sys

SCHEMA = "berth-scheduler-plugin/1"
WATTS_OF_CPU = 10

MANIFEST = {
    "schema": SCHEMA,
    "name": "rack_power",
    "kind": "both",
    "extra_specs": [
        {"name": "rack:power_w", "type": "integer", "description": "What a guest draws, in watts."},
        {"name": "rack:row", "type": "string", "enum": ["north", "south"], "description": "The row it must be in."},
    ],
}


def answer(host, asked, row):
    metadata = {}
    for aggregate in host["aggregates"]:
        metadata.update(aggregate["metadata"])
    if row is not None and metadata.get("row") != row:
        return {"verdict": "reject", "code": "wrong_row", "reason": f"it is not in the row {row}"}
    try:
        left = int(metadata.get("power_w", "1000")) - WATTS_OF_CPU * host["vcpus_used"]
    except ValueError:
        return {"verdict": "reject", "code": "bad_metadata", "reason": f"its power_w is {metadata['power_w']!r}"}
    if left < asked:
        reason = f"it has {left} W left, and {asked} W are asked for"
        return {"verdict": "reject", "code": "no_power", "reason": reason}
    return {"verdict": "pass", "weight": left}


def main():
    if sys.argv[1:] == ["--manifest"]:
        json.dump(MANIFEST, sys.stdout)
        return
    question = json.load(sys.stdin)
    if question["schema"] != SCHEMA:
        sys.exit(f"the question is a {question['schema']}, and this plugin knows {SCHEMA}")
    specs = question["request"]["flavor"]["extra_specs"]
    asked = int(specs.get("rack:power_w", "0"))
    hosts = {host["uuid"]: answer(host, asked, specs.get("rack:row")) for host in question["hosts"]}
    json.dump({"schema": SCHEMA, "hosts": hosts}, sys.stdout)


if __name__ == "__main__":
    main()
