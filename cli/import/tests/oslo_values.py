"""What oslo.config reads from configuration files: a value, that there is none, or an error.

Usage: oslo_values.py CASES_FILE

The file is JSON: `options`, lines as those of src/nova_34.tsv, and `cases`, each a list of the texts of its files. Writes a JSON list with
one entry a case: null if oslo.config refuses a file, else a list with one entry an option: `["set", VALUE]`, `["unset"]` or `["error"]`.
"""

import json
import os
import sys
import tempfile

from oslo_config import cfg

KINDS = {"text": cfg.StrOpt, "flag": cfg.BoolOpt, "whole": cfg.IntOpt, "decimal": cfg.FloatOpt, "list": cfg.ListOpt, "dict": cfg.DictOpt}


def options(lines):
    for line in lines:
        group, name, kind, flags, former, default = line.split("\t")
        former = [each.split("/") for each in former.split(" ") if each != "-"]
        former = [cfg.DeprecatedOpt(old, group=old_group) for old_group, old in former]
        kind = cfg.MultiStrOpt if "m" in flags else KINDS[kind]
        yield group, kind(name, default=None if default == "-" else default, deprecated_opts=former)


def value(conf, group, option):
    try:
        group = None if group == "DEFAULT" else group
        found = conf[option.name] if group is None else conf[group][option.name]
        place = conf.get_location(option.name, group)
        return ["set", found] if place and place.location.is_user_controlled else ["unset"]
    except (Exception, RecursionError):
        return ["error"]


def answer(declared, texts, folder):
    names = []
    for number, text in enumerate(texts):
        names.append(os.path.join(folder, f"{number}.conf"))
        with open(names[-1], "w", encoding="utf-8", newline="") as file:
            file.write(text)
    conf = cfg.ConfigOpts()
    for group, option in declared:
        conf.register_opt(option, None if group == "DEFAULT" else group)
    try:
        conf([], project="x", default_config_files=names, default_config_dirs=[])
    except Exception:
        return None
    return [value(conf, group, option) for group, option in declared]


with open(sys.argv[1], encoding="utf-8") as file:
    asked = json.load(file)
declared = list(options(asked["options"]))
with tempfile.TemporaryDirectory() as folder:
    json.dump([answer(declared, texts, folder) for texts in asked["cases"]], sys.stdout)
