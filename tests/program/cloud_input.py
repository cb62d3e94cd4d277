"""Hooks for schemathesis: what it makes up for the compute and the Identity API is put where there is something. BERTH_KNOWN is
a JSON object: under the name of a part of a path or of a field, the values that are there. One time in four what was made up stays.
BERTH_ANSWERS is a file: at the end a JSON object is written to it, how many answers had which status.
"""

import atexit
import collections
import itertools
import json
import os
import zlib

import schemathesis

LOGINS = itertools.count()
KNOWN = json.loads(os.environ["BERTH_KNOWN"])
ANSWERS = collections.Counter()


def pick(name, made_up):
    """One of the known, or one time in four what was made up; the same for the same text."""
    known = KNOWN.get(name)
    if not known or not isinstance(made_up, str):
        return made_up
    at = zlib.crc32(made_up.encode("utf-8", "surrogatepass"))
    return made_up if at % 4 == 0 else known[at // 4 % len(known)]


def placed(value):
    if isinstance(value, list):
        return [placed(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: placed(pick(key, inner)) for key, inner in value.items()}


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    return placed(path_parameters) if path_parameters else path_parameters


@schemathesis.hook
def map_query(context, query):
    return placed(query) if isinstance(query, dict) else query


@schemathesis.hook
def map_body(context, body):
    return placed(body)


@schemathesis.hook
def before_call(context, case, kwargs):
    """Wrong passwords are looked at later and later: most of what would be one is a wrong token."""
    try:
        identity = case.body["auth"]["identity"]
        if "password" in identity["methods"] and next(LOGINS) % 16:
            identity["methods"] = ["token"]
    except (AttributeError, KeyError, TypeError):
        pass


@schemathesis.hook
def after_call(context, case, response):
    ANSWERS[response.status_code] += 1


@atexit.register
def tell():
    with open(os.environ["BERTH_ANSWERS"], "w") as file:
        json.dump(ANSWERS, file)
