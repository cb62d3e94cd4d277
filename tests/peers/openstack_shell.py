"""OpenStack's command line client, many commands in one process: to start it takes a second, a command does not.

Usage: openstack_shell.py [cyborgclient]        (clouds.yaml is looked for in the working directory)

Reads the words of a command from each line of the standard input, a JSON list, and writes a JSON object for each to the
standard output: `code`, as the shell would have ended with, `out` and `err`, what it wrote.

From its release 10.4 on python-openstackclient has commands of its own for accelerators and leaves those of
python-cyborgclient aside. With `cyborgclient` they are taken, as by the releases before.
"""

import contextlib
import io
import json
import logging
import sys

from openstackclient import shell
from openstackclient.common import clientmanager


def accelerator_plugin(name):
    """Leaves one module for accelerators, whichever the shell would have chosen."""
    if name == "cyborgclient":
        from cyborgclient.osc import plugin

        others = [module for module in shell.IGNORED_MODULES if module != "cyborgclient.osc.v2"]
        shell.IGNORED_MODULES = (*others, "openstackclient.accelerator.v2")
    else:
        from openstackclient.accelerator import client as plugin
    modules = clientmanager.PLUGIN_MODULES
    modules[:] = [plugin if module.API_NAME == plugin.API_NAME else module for module in modules]
    client = clientmanager.clientmanager.ClientCache(plugin.make_client)
    setattr(clientmanager.clientmanager.ClientManager, plugin.API_NAME, client)


def run(words):
    # A process has one client of each service; another command may be about another cloud or version.
    for cached in vars(clientmanager.clientmanager.ClientManager).values():
        if isinstance(cached, clientmanager.clientmanager.ClientCache):
            cached._handle = None
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = shell.main(words)
        except SystemExit as end:
            code = end.code
    # The shell gives its loggers the streams of this command, and the next one would write there, too.
    for name in [None, *logging.root.manager.loggerDict]:
        logging.getLogger(name).handlers.clear()
    return {"code": code or 0, "out": out.getvalue(), "err": err.getvalue()}


accelerator_plugin(*(sys.argv[1:] or [None]))
for line in sys.stdin:
    print(json.dumps(run(json.loads(line))), flush=True)
