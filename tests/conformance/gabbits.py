"""OpenStack Placement's own test-suite against a Placement at any URL.

The suite is what the wheel of openstack-placement ships: files of gabbi tests, each a request and what its answer must be. There
they run in one process with the service; here every request goes to a socket, and what the tests find in the database is put there
over the API (trees.txt).

Usage: gabbits.py list                 each file, how the service must be configured for it, and its number of tests
       gabbits.py run URL FILE...      one or more files of the same configuration; the service must be empty before each
       gabbits.py                      the same for a program: a JSON object {"url", "file"} in each line of the standard input,
                                       for each a list of [test, why it failed or null] in a line of the standard output

Configurations: `default`, `legacy-rbac` and `cors` honour the deprecated policy defaults, `secure-rbac` and `open-policy` do not;
`open-policy` allows each rule but admin_api to everybody; `cors` allows the origin http://valid.example.com and the header
openstack-api-version. All take tokens at their own word (noauth2).
"""

import http.client
import json
import os
import pathlib
import shlex
import sys
import unittest
import urllib.parse
import uuid

import httpx
import placement
import yaml
from gabbi import fixture, handlers, httpclient, suitemaker, utils

FILES = pathlib.Path(placement.__file__).parent / "tests/functional/gabbits"
CONFIGURATIONS = {
    "LegacyRBACPolicyFixture": "legacy-rbac",
    "SecureRBACPolicyFixture": "secure-rbac",
    "OpenPolicyFixture": "open-policy",
    "CORSFixture": "cors",
}
# Names of things that tests make themselves.
NEW = """RP_UUID RP_NAME RP_UUID1 RP_NAME1 RP_UUID2 RP_NAME2 ALT_RP_UUID ALT_RP_NAME PARENT_PROVIDER_UUID ALT_PARENT_PROVIDER_UUID
    PROJECT_ID PROJECT_ID_ALT ADMIN_PROJECT_ID SERVICE_PROJECT_ID USER_ID USER_ID_ALT ALT_USER_ID
    INSTANCE_UUID MIGRATION_UUID CONSUMER_UUID""".split()
CUSTOM = {"CUSTOM_RES_CLASS": "CUSTOM_IRON_NFV", "CUSTOM_RES_CLASS1": "CUSTOM_IRON_NFV1", "CUSTOM_RES_CLASS2": "CUSTOM_IRON_NFV2"}


class Connection:
    """What gabbi sends by, in place of its own: that one refuses to send a `content-length` that is no number, which a test
    wants, and makes a client for each request."""

    def __init__(self):
        self.open = {}

    def request(self, absolute_uri, method, body, headers, redirect=False, timeout=60):
        where = urllib.parse.urlsplit(absolute_uri)
        path, query = (urllib.parse.quote(part, safe="/%~:@!$&'()*+,;=?") for part in (where.path or "/", where.query))
        target = f"{path}?{query}" if query else path
        sent = {name.lower(): str(value) for name, value in headers.items()}
        sent = {"accept": "*/*", "host": where.netloc, **sent}
        body = body.encode() if isinstance(body, str) else body
        if body or method in ("POST", "PUT", "PATCH"):
            sent.setdefault("content-length", str(len(body or b"")))
        for again in (True, False):
            connection = self.open.get(where.netloc)
            fresh = connection is None
            if fresh:
                connection = self.open[where.netloc] = http.client.HTTPConnection(where.netloc, timeout=timeout)
            try:
                connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
                for name, value in sent.items():
                    connection.putheader(name, value.encode())
                connection.endheaders(body or None)
                answer = connection.getresponse()
                content = answer.read()
                break
            except (http.client.HTTPException, OSError):
                connection.close()
                del self.open[where.netloc]
                # One that had waited may have been closed at the other end meanwhile.
                if fresh or not again:
                    raise
        if answer.will_close:
            connection.close()
            del self.open[where.netloc]
        told = httpx.Headers(answer.getheaders())
        told.update({"status": str(answer.status), "reason": answer.reason, "http_protocol_version": "HTTP/1.1"})
        return told, content


class Api:
    """The requests that put things into a Placement."""

    def __init__(self, connection, url):
        self.connection, self.url = connection, url

    def ask(self, method, path, body=None, version="1.37"):
        headers = {"x-auth-token": "admin", "accept": "application/json", "openstack-api-version": f"placement {version}"}
        if body is not None:
            headers["content-type"] = "application/json"
        text = "" if body is None else json.dumps(body)
        told, content = self.connection.request(self.url + path, method, text, headers)
        if not told["status"].startswith("2"):
            raise RuntimeError(f"{method} {path}: {told['status']}: {content[:500]!r}")
        return json.loads(content) if content else None

    def at_generation(self, provider, more):
        known = self.ask("GET", f"/resource_providers/{provider}")
        return {"resource_provider_generation": known["generation"], **more}

    def provider(self, name, parent, own):
        body = {"name": name, "uuid": own, **({"parent_provider_uuid": parent} if parent else {})}
        self.ask("POST", "/resource_providers", body)

    def aggregates(self, provider, aggregates):
        # At a version where it leaves the provider's generation alone.
        self.ask("PUT", f"/resource_providers/{provider}/aggregates", aggregates, version="1.18")

    def inventory(self, provider, name, total, more):
        self.custom("resource_classes", name)
        body = {"resource_class": name, "total": total, "max_unit": total, **more}
        self.ask("POST", f"/resource_providers/{provider}/inventories", self.at_generation(provider, body))

    def traits(self, provider, names):
        for name in names:
            self.custom("traits", name)
        self.ask("PUT", f"/resource_providers/{provider}/traits", self.at_generation(provider, {"traits": names}))

    def custom(self, kind, name):
        if name.startswith("CUSTOM_"):
            self.ask("PUT", f"/{kind}/{name}")

    def allocation(self, provider, resources, user, project):
        consumer = str(uuid.uuid4())
        held = {provider: {"resources": resources}}
        # At a version that knows no consumer types: it has none.
        body = {"allocations": held, "user_id": user, "project_id": project, "consumer_generation": None}
        self.ask("PUT", f"/allocations/{consumer}", body)
        return consumer


def sections():
    """The lines of trees.txt by their heading: depth and words."""
    found = {}
    for line in pathlib.Path(__file__).with_name("trees.txt").read_text().splitlines():
        text = line.strip()
        if text.startswith("["):
            lines = found[text.strip("[]")] = []
        elif text and not text.startswith("#"):
            lines.append(((len(line) - len(text)) // 4, shlex.split(text)))
    return found


def lines_of(name, trees):
    """Those of one heading, with the trees of others that it takes over."""
    for depth, words in trees[name]:
        if not words[0].startswith("<"):
            yield depth, words
            continue
        within = False
        for deeper, others in lines_of(words[0][1:], trees):
            within = others[0] == words[1] if deeper == 0 else within
            if within:
                yield depth + deeper, others


def plant(name, api):
    """Puts the trees of a fixture into the service, and their uuids where the tests look."""
    rest, above = [], []
    fresh = lambda variable: os.environ.setdefault(variable, str(uuid.uuid4()))
    for depth, words in lines_of(name, sections()):
        own, aggregates = str(uuid.uuid4()), [fresh(word[1:]) for word in words if word[0] == "@"]
        if words[0][0] == "@":
            continue
        os.environ.update({word[1:]: own for word in words if word[0] == "$"})
        del above[depth:]
        api.provider(words[0], above[-1] if above else None, own)
        above.append(own)
        if aggregates:
            api.aggregates(own, aggregates)
        rest.append((own, words[1:]))
    for own, words in rest:
        for word in words:
            if word[0] not in "$@+-":
                total, *more = word.split("=", 1)[1].split(",")
                more = {key: json.loads(value) for key, value in (one.split("=") for one in more)}
                api.inventory(own, word.split("=", 1)[0], int(total), more)
        traits = [word[1:] for word in words if word[0] == "+"]
        if traits:
            api.traits(own, traits)
        for word in words:
            if word[0] == "-":
                held, count = word[1:].split("=")
                api.allocation(own, {held: int(count)}, "numafx-user", "numafx-project")


def plant_allocations(api):
    """One provider, two consumers of one user and one of another."""
    known = os.environ
    own = known["RP_UUID"]
    api.provider(known["RP_NAME"], None, own)
    api.inventory(own, "DISK_GB", 2048, {"step_size": 10, "min_unit": 10, "max_unit": 1000})
    api.inventory(own, "VCPU", 10, {})
    for variable, user, resources in (
        ("CONSUMER_0", "USER_ID", {"DISK_GB": 1000}),
        ("CONSUMER_ID", "USER_ID", {"VCPU": 6}),
        ("ALT_CONSUMER_ID", "ALT_USER_ID", {"DISK_GB": 20, "VCPU": 1}),
    ):
        known[variable] = api.allocation(own, resources, known[user], known["PROJECT_ID"])


class Fixtures:
    """Whatever fixture a file names, for the service at one URL."""

    def __init__(self, api):
        self.api = api

    def __getattr__(self, name):
        if name != "APIFixture" and name not in CONFIGURATIONS and name not in sections():
            raise RuntimeError(f"{name}: trees.txt does not have it")
        api = self.api

        class Planted(fixture.GabbiFixture):
            def start_fixture(self):
                if name == "AllocationFixture":
                    plant_allocations(api)
                elif name in sections():
                    plant(name, api)

        return Planted


class Outcome(unittest.TestResult):
    """Each test with why it failed, or nothing."""

    def __init__(self):
        super().__init__()
        self.tests = []

    def tell(self, test, why):
        self.tests.append([test.test_data["name"] if hasattr(test, "test_data") else str(test), why])

    def addSuccess(self, test):
        self.tell(test, None)

    def addFailure(self, test, error):
        self.tell(test, str(error[1]) or repr(error[1]))

    def addError(self, test, error):
        self.tell(test, repr(error[1]))

    def addSkip(self, test, reason):
        self.tell(test, f"skipped: {reason}")

    def addExpectedFailure(self, test, error):
        self.tell(test, None)

    def addUnexpectedSuccess(self, test):
        self.tell(test, "it was expected to fail")


def run(url, name):
    """The tests of one file, on a service that is empty."""
    before = set(os.environ)
    os.environ.update({variable: str(uuid.uuid4()) for variable in NEW}, **CUSTOM)
    where = urllib.parse.urlsplit(url)
    connection = Connection()
    httpclient.get_http = lambda **_: connection
    suite = suitemaker.test_suite_from_dict(
        unittest.TestLoader(),
        name,
        utils.load_yaml(yaml_file=str(FILES / f"{name}.yaml")),
        str(FILES),
        where.hostname,
        where.port,
        Fixtures(Api(connection, url.rstrip("/"))),
        None,
        prefix=where.path.rstrip("/"),
        handlers=[handler() for handler in handlers.RESPONSE_HANDLERS],
    )
    outcome = Outcome()
    try:
        suite.run(outcome)
    except Exception as error:  # A fixture that could not be planted fails all that rest on it.
        outcome.tests.append(["its fixtures", repr(error)])
    # The next file is not to find what this one left.
    for variable in set(os.environ) - before:
        del os.environ[variable]
    return outcome.tests


def all_files():
    for path in sorted(FILES.glob("*.yaml")):
        content = yaml.safe_load(path.read_text())
        first = (content.get("fixtures") or [""])[0]
        yield {"file": path.stem, "configuration": CONFIGURATIONS.get(first, "default"), "tests": len(content["tests"])}


def main(words):
    if words == ["list"]:
        print(json.dumps(list(all_files())))
    elif len(words) > 2 and words[0] == "run":
        failed = 0
        for name in words[2:]:
            tests = run(words[1], name.removesuffix(".yaml"))
            print(f"{name}: {sum(why is None for _, why in tests)} of {len(tests)}", flush=True)
            for test, why in tests:
                failed += why is not None
                if why is not None:
                    print(f"    {test}: {why}")
        return 1 if failed else 0
    elif not words:
        for line in sys.stdin:
            asked = json.loads(line)
            print(json.dumps(run(asked["url"], asked["file"])), flush=True)
    else:
        print(__doc__, file=sys.stderr)
        return 64
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
