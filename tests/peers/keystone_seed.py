"""Fills a freshly synced Keystone database with what the tests expect, through Keystone's own application, in process.

Usage: keystone_seed.py ANSWERS_FILE        (OS_KEYSTONE_CONFIG_DIR names the configuration)

Writes as JSON the names, ids and secrets that a test needs. `keystone-manage bootstrap` ran before.
"""

import json
import sys

import webob
from keystone.server.wsgi import initialize_public_application

REGION = "RegionOne"
PASSWORD = "test-only"
# Taken off the command line before Keystone reads that for options of its own.
ANSWERS_FILE = sys.argv.pop(1)
APP = initialize_public_application()


def call(method, path, body=None, token=None):
    request = webob.Request.blank("http://127.0.0.1" + path, method=method)
    if token:
        request.headers["X-Auth-Token"] = token
    if body is not None:
        request.content_type = "application/json"
        request.body = json.dumps(body).encode()
    answer = request.get_response(APP)
    if answer.status_int >= 300:
        sys.exit(f"keystone_seed: {method} {path} answered {answer.status}: {answer.text}")
    return answer


def token(user, project):
    body = {
        "auth": {
            "identity": {
                "methods": ["password"],
                "password": {"user": {"name": user, "domain": {"id": "default"}, "password": PASSWORD}},
            },
            "scope": {"project": {"name": project, "domain": {"id": "default"}}},
        }
    }
    return call("POST", "/v3/auth/tokens", body).headers["X-Subject-Token"]


admin = token("admin", "admin")


def create(noun, **fields):
    return call("POST", f"/v3/{noun}s", {noun: fields}, admin).json[noun]["id"]


roles = {role["name"]: role["id"] for role in call("GET", "/v3/roles", token=admin).json["roles"]}
if "service" not in roles:
    roles["service"] = create("role", name="service")

project = create("project", name="service", domain_id="default")
tenant = create("project", name="tenant", domain_id="default")


def user(name, granted, of=project):
    user_id = create("user", name=name, domain_id="default", password=PASSWORD)
    for role in granted:
        call("PUT", f"/v3/projects/{of}/users/{user_id}/roles/{roles[role]}", token=admin)
    return user_id


users = {
    "placement": user("placement", ["service"]),
    "berth": user("berth", ["admin", "service"]),
    "berth_admin_only": user("berth_admin_only", ["admin"]),
    "cyborg": user("cyborg", ["admin", "service"]),
    "glance": user("glance", ["service"]),
    "neutron": user("neutron", ["admin", "service"]),
    "tenant": user("tenant", ["member"], tenant),
    "tenant_service": user("tenant_service", ["member", "service"], tenant),
}

credential = call(
    "POST",
    f"/v3/users/{users['berth']}/application_credentials",
    {"application_credential": {"name": "berth", "roles": [{"name": "admin"}, {"name": "service"}]}},
    token("berth", "service"),
).json["application_credential"]


def endpoints(service):
    return [
        create("endpoint", service_id=service, interface=interface, region_id=REGION, url="http://127.0.0.1/")
        for interface in ("public", "internal", "admin")
    ]


services = {service["type"]: service["id"] for service in call("GET", "/v3/services", token=admin).json["services"]}
identity = services.get("identity") or create("service", name="keystone", type="identity")
placement = create("service", name="placement", type="placement")
cyborg = create("service", name="cyborg", type="accelerator")
nova = create("service", name="nova", type="compute")
glance = create("service", name="glance", type="image")
neutron = create("service", name="neutron", type="network")

with open(ANSWERS_FILE, "w", encoding="utf-8") as answers:
    json.dump(
        {
            "region": REGION,
            "password": PASSWORD,
            "project": "service",
            "users": users,
            "application_credential_id": credential["id"],
            "application_credential_secret": credential["secret"],
            "identity_endpoints": endpoints(identity),
            "placement_endpoints": endpoints(placement),
            "accelerator_endpoints": endpoints(cyborg),
            "compute_endpoints": endpoints(nova),
            "image_endpoints": endpoints(glance),
            "network_endpoints": endpoints(neutron),
            "tenant": tenant,
        },
        answers,
        indent=1,
    )
