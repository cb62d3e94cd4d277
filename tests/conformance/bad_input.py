"""Hooks for schemathesis: what it makes up is put where there is something. A provider's uuid that is well-formed becomes that
of a provider which is there, and most names of classes those of classes that are; what is malformed stays so.

The providers are those that tests/conformance/bad_input.rs plants: 00000000-0000-0000-0000-000000000001 and on.
"""

import re
import zlib

import schemathesis

UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")
KEY = re.compile(r"[0-9a-fA-F-]{36}\Z")
NAME = re.compile(r"[A-Z0-9_]{1,255}\Z")
CLASSES = ["VCPU", "MEMORY_MB", "DISK_GB", "VGPU", "PCPU"]
PROVIDERS = [f"00000000-0000-0000-0000-{n:012x}" for n in range(1, 7)]


def pick(known, text):
    """One of the known, or one time in eight the text itself; the same for the same text."""
    at = zlib.crc32(text.encode("utf-8", "surrogatepass"))
    return text if at % 8 == 0 else known[at // 8 % len(known)]


def known(text):
    return pick(PROVIDERS, text) if isinstance(text, str) and UUID.match(text) else text


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    if not path_parameters:
        return path_parameters
    found = dict(path_parameters)
    if "uuid" in found:
        found["uuid"] = known(found["uuid"])
    name = found.get("resource_class")
    if isinstance(name, str) and NAME.match(name):
        found["resource_class"] = pick(CLASSES, name)
    return found


@schemathesis.hook
def map_query(context, query):
    if not isinstance(query, dict):
        return query
    found = dict(query)
    for name, value in query.items():
        if name.startswith("resources") and isinstance(value, str):
            parts = re.fullmatch(r"[A-Z0-9_]+:[0-9]+(,[A-Z0-9_]+:[0-9]+)*", value) and value.split(",")
            if parts:
                pairs = [part.split(":") for part in parts]
                found[name] = ",".join(f"{pick(CLASSES, one)}:{amount[:3]}" for one, amount in pairs)
        elif name.startswith("in_tree"):
            found[name] = known(value)
    return found


@schemathesis.hook
def map_body(context, body):
    return placed(body, "")


def placed(value, under):
    if isinstance(value, list):
        return [placed(item, under) for item in value]
    if not isinstance(value, dict):
        return value
    found = {}
    for key, inner in value.items():
        at = key
        if under in ("inventories", "allocations", "resources") and isinstance(key, str):
            if KEY.match(key):
                at = pick(PROVIDERS, key)
            elif NAME.match(key):
                at = pick(CLASSES, key)
        if key == "resource_provider_generation" and isinstance(inner, int):
            inner = inner % 8
        found[at] = placed(inner, key if isinstance(key, str) and not KEY.match(key) else under)
    return found
