"""What oslo.policy says to rules: whether callers pass.

Usage: oslo_rules.py CASES_FILE

The file is a JSON list of objects: `rules` by their names, `rule`, the one that is asked for, `creds` and `target`. Writes a
JSON list of true, false or, where the rule cannot be asked, null.
"""

import json
import logging
import sys

from oslo_config import cfg
from oslo_policy import policy

logging.disable(logging.CRITICAL)
CONF = cfg.ConfigOpts()
CONF([])


def answer(case):
    enforcer = policy.Enforcer(CONF, use_conf=False)
    enforcer.set_rules(policy.Rules.from_dict(case["rules"]), use_conf=False)
    try:
        return bool(enforcer.enforce(case["rule"], case["target"], case["creds"]))
    except Exception:
        return None


with open(sys.argv[1], encoding="utf-8") as cases:
    json.dump([answer(case) for case in json.load(cases)], sys.stdout)
