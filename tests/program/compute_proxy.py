"""What openstacksdk's compute proxy does with a cloud, call by call, as its own functional tests do: the routes of the compute API
that Berth serves.

Usage: compute_proxy.py CLOUD IMAGE        (clouds.yaml is where OS_CLIENT_CONFIG_FILE says)

Says each step on a line and ends with 0; the first that is not as it should be ends it with what was there instead.
"""

import sys

import openstack
from openstack import exceptions

PATIENCE = 120


def step(text):
    print(text, flush=True)


def equal(found, wanted, what):
    if found != wanted:
        raise SystemExit(f"{what}: {found!r}, not {wanted!r}")


def refused(kind, call, *arguments, **words):
    try:
        call(*arguments, **words)
    except kind:
        return
    raise SystemExit(f"{call.__name__} {arguments} {words}: it was not refused")


def flavors(connection):
    step("flavors")
    compute, project = connection.compute, connection.current_project_id
    flavor = compute.create_flavor(name="sdk", ram=64, vcpus=1, disk=0, is_public=False)
    equal(compute.get_flavor(flavor.id).name, "sdk", "get_flavor")
    equal(compute.find_flavor("sdk").id, flavor.id, "find_flavor")
    equal([one.name for one in compute.flavors(is_public=False)], ["sdk"], "flavors")
    compute.update_flavor(flavor, description="of the SDK")
    equal(compute.get_flavor(flavor.id).description, "of the SDK", "update_flavor")
    compute.create_flavor_extra_specs(flavor, {"hw:a": "1", "hw:b": "2"})
    equal(compute.fetch_flavor_extra_specs(flavor).extra_specs, {"hw:a": "1", "hw:b": "2"}, "extra specs")
    compute.update_flavor_extra_specs_property(flavor, "hw:a", "3")
    equal(compute.get_flavor_extra_specs_property(flavor, "hw:a"), "3", "extra spec")
    for key in "hw:a", "hw:b":
        compute.delete_flavor_extra_specs_property(flavor, key)
    equal(compute.fetch_flavor_extra_specs(flavor).extra_specs, {}, "extra specs")
    compute.flavor_add_tenant_access(flavor, project)
    refused(exceptions.BadRequestException, compute.flavor_add_tenant_access, flavor, "nobody")
    access = compute.get_flavor_access(flavor)
    equal([one["tenant_id"] for one in access], [project], "access")
    compute.flavor_remove_tenant_access(flavor, project)
    equal(list(compute.get_flavor_access(flavor)), [], "access")
    compute.delete_flavor(flavor)
    equal(compute.find_flavor("sdk"), None, "delete_flavor")
    refused(exceptions.ConflictException, compute.create_flavor, name="tiny", ram=1, vcpus=1, disk=0)


def key_pairs(compute):
    step("key pairs")
    public_key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJW1Vx0qkq5oXk2rYQY2b8m1k9qJH6jJxYzV9o0cQ8aP me"
    compute.create_keypair(name="sdk", public_key=public_key)
    equal([one.name for one in compute.keypairs()], ["sdk"], "keypairs")
    equal(compute.get_keypair("sdk").public_key, public_key, "get_keypair")
    refused(exceptions.ConflictException, compute.create_keypair, name="sdk", public_key=public_key)


def groups(compute):
    step("server groups")
    group = compute.create_server_group(name="sdk", policy="soft-anti-affinity")
    equal(compute.get_server_group(group).policy, "soft-anti-affinity", "policy")
    equal(compute.find_server_group("sdk").id, group.id, "find_server_group")
    equal(len(list(compute.server_groups())), 1, "server_groups")
    return group


def hosts(compute):
    step("hypervisors, services, zones")
    hypervisors = list(compute.hypervisors(details=True))
    equal(len(hypervisors), 1, "hypervisors")
    shown = compute.get_hypervisor(hypervisors[0])
    equal(shown.name, hypervisors[0].name, "get_hypervisor")
    equal(compute.find_hypervisor(shown.name).id, shown.id, "find_hypervisor")
    service = next(iter(compute.services(binary="nova-compute")))
    disabled = compute.disable_service(service, disabled_reason="of the SDK")
    equal((disabled.status, disabled.disabled_reason), ("disabled", "of the SDK"), "disable_service")
    equal(compute.update_service_forced_down(service, forced=True).is_forced_down, True, "forced down")
    compute.update_service_forced_down(service, forced=False)
    equal(compute.enable_service(service).status, "enabled", "enable_service")
    equal([zone.name for zone in compute.availability_zones()], ["nova"], "availability_zones")
    step("aggregates")
    aggregate = compute.create_aggregate(name="sdk")
    compute.add_host_to_aggregate(aggregate, service.host)
    compute.set_aggregate_metadata(aggregate, {"rack": "7"})
    shown = compute.get_aggregate(aggregate)
    equal((shown.hosts, shown.metadata["rack"]), ([service.host], "7"), "get_aggregate")
    zone = next(one for one in compute.availability_zones(details=True) if one.name == "nova")
    equal(list(zone.hosts), [service.host], "the zone's hosts")
    compute.update_aggregate(aggregate, name="sdk-2")
    equal(compute.find_aggregate("sdk-2").id, aggregate.id, "update_aggregate")
    compute.remove_host_from_aggregate(aggregate, service.host)
    compute.delete_aggregate(aggregate)
    equal(list(compute.aggregates()), [], "delete_aggregate")
    return service


def servers(connection, image, group):
    compute = connection.compute
    step("servers")
    flavor = compute.find_flavor("tiny")
    asked = {"flavor_id": flavor.id, "image_id": image, "networks": "none"}
    hints = {"group": group.id}
    server = compute.create_server(name="sdk", key_name="sdk", metadata={"a": "1"}, scheduler_hints=hints, **asked)
    server = compute.wait_for_server(server, wait=PATIENCE)
    equal((server.name, server.status, server.key_name), ("sdk", "ACTIVE", "sdk"), "create_server")
    equal(list(compute.get_server_group(group).member_ids), [server.id], "members of the group")
    equal(compute.find_server("sdk").id, server.id, "find_server")
    equal([one.id for one in compute.servers(name="sdk", details=False)], [server.id], "servers")
    step("its name, metadata, tags")
    compute.update_server(server, name="sdk-2", description="two")
    equal(compute.get_server(server).description, "two", "update_server")
    compute.set_server_metadata(server, b="2")
    equal(compute.get_server_metadata(server).metadata, {"a": "1", "b": "2"}, "metadata")
    compute.delete_server_metadata(server, ["a"])
    equal(compute.get_server_metadata(server).metadata, {"b": "2"}, "metadata")
    tagged = compute.get_server(server)
    tagged.set_tags(compute, ["one", "two"])
    tagged.remove_tag(compute, "one")
    equal(list(tagged.fetch_tags(compute).tags), ["two"], "tags")
    equal([one.id for one in compute.servers(tags="two")], [server.id], "servers by tag")
    equal(list(compute.server_interfaces(server)), [], "ports")
    equal(list(compute.volume_attachments(server)), [], "volumes")
    step("what is done with it")
    for act, status in [
        (compute.stop_server, "SHUTOFF"),
        (compute.start_server, "ACTIVE"),
        (compute.pause_server, "PAUSED"),
        (compute.unpause_server, "ACTIVE"),
        (lambda one: compute.rescue_server(one, image_ref=image), "RESCUE"),
        (compute.unrescue_server, "ACTIVE"),
    ]:
        act(server)
        compute.wait_for_server(server, status=status, wait=PATIENCE)
    for kind in "SOFT", "HARD":
        compute.reboot_server(server, kind)
        settled(compute, server, "reboot", "SOFT HARD".split().index(kind) + 1)
        compute.wait_for_server(server, wait=PATIENCE)
    compute.rebuild_server(server, image=image, name="sdk-3")
    settled(compute, server, "rebuild", 1)
    equal(compute.wait_for_server(server, wait=PATIENCE).name, "sdk-3", "rebuild_server")
    compute.lock_server(server, locked_reason="of the SDK")
    equal(compute.get_server(server).is_locked, True, "lock_server")
    compute.unlock_server(server)
    equal("output" in compute.get_server_console_output(server), True, "console output")
    done = [one.action for one in compute.server_actions(server)]
    for action in "create", "stop", "start", "pause", "unpause", "rescue", "unrescue", "reboot", "rebuild":
        if action not in done:
            raise SystemExit(f"{action} is not among what was done: {done}")
    created = next(one for one in compute.server_actions(server) if one.action == "create")
    equal(compute.get_server_action(created.request_id, server).action, "create", "get_server_action")
    step("its end")
    compute.delete_server(server)
    compute.wait_for_delete(server, wait=PATIENCE)
    equal(list(compute.servers()), [], "servers")
    several = compute.create_server(name="many", min_count=2, max_count=2, **asked)
    equal(several.id is not None, True, "several")
    names = lambda: sorted(one.name for one in compute.servers(details=False))
    equal(names(), ["many-1", "many-2"], "their names")
    for one in compute.servers():
        compute.delete_server(one)
        compute.wait_for_delete(one, wait=PATIENCE)
    step("one that fits nowhere")
    compute.update_quota_set(connection.current_project_id, ram=-1)
    compute.create_flavor(name="vast", ram=1 << 30, vcpus=1, disk=0)
    vast = compute.create_server(name="vast", **{**asked, "flavor_id": compute.find_flavor("vast").id})
    refused(exceptions.ResourceFailure, compute.wait_for_server, vast, wait=PATIENCE)
    fault = compute.get_server(vast).fault
    equal((fault["code"], "No valid host" in fault["message"]), (500, True), f"fault {fault}")
    compute.delete_server(vast)
    compute.wait_for_delete(vast, wait=PATIENCE)


def settled(compute, server, action, times):
    """Waits until an action was asked for so often and no task is left."""

    def is_so():
        asked = [one for one in compute.server_actions(server) if one.action == action]
        return len(asked) >= times and compute.get_server(server).task_state is None

    for _ in openstack.utils.iterate_timeout(PATIENCE, f"{action} of {server.id}", wait=0.2):
        if is_so():
            return


def waits(connection, image):
    """The cloud layer, and so Ansible, deletes an active server that is in no network."""
    step("create_server of the cloud layer waits for a server in a network")
    for name, more in (("waits", {}), ("waits-without-floating-ip", {"auto_ip": False})):
        server = connection.create_server(name, image=image, flavor="tiny", wait=True, timeout=PATIENCE, **more)
        equal((server.status, list(server.addresses)), ("ACTIVE", ["default"]), name)
        equal(connection.get_server(name).id, server.id, "it is still there")
        connection.delete_server(name, wait=True, timeout=PATIENCE)


def quotas(connection):
    step("limits and quotas")
    compute = connection.compute
    project = connection.current_project_id
    equal(compute.get_limits().absolute.instances, 10, "limits")
    quota = compute.get_quota_set(project)
    equal((quota.instances, quota.cores, quota.ram), (10, 20, -1), "quotas")
    compute.update_quota_set(project, instances=3, key_pairs=7)
    quota = compute.get_quota_set(project, usage=True)
    equal((quota.instances, quota.key_pairs, quota.usage["instances"]), (3, 7, 0), "new quotas")
    equal(compute.get_quota_set_defaults(project).instances, 10, "default quotas")
    refused(exceptions.BadRequestException, compute.update_quota_set, "nobody", instances=1)
    compute.revert_quota_set(project)
    quota = compute.get_quota_set(project)
    equal((quota.instances, quota.ram), (10, 51200), "the default quotas again")


def main(cloud, image):
    connection = openstack.connect(cloud=cloud)
    compute = connection.compute
    compute.create_flavor(name="tiny", ram=64, vcpus=1, disk=0)
    flavors(connection)
    key_pairs(compute)
    group = groups(compute)
    hosts(compute)
    servers(connection, image, group)
    waits(connection, image)
    quotas(connection)
    compute.delete_keypair("sdk")
    compute.delete_server_group(group)
    step("done")


main(*sys.argv[1:])
