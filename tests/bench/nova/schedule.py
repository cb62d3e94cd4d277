"""Nova's filter scheduler as the peer of the benchmark: its own filters, weighers and consumption, timed.

    schedule.py FILE FILTERS REQUEST INSTANCES [SECONDS]

FILE is a workload that the benchmark wrote: hosts and requests. FILTERS is a comma list, REQUEST the name of one of the file's
requests, for so many instances; after so many SECONDS of CPU time (60) no further instance is begun. No database, no message bus,
no Placement: what is timed runs once for each instance between "the host states are built" and "the claim". The last line on
standard output is a JSON object of the results. Nova is unmodified.
"""
import datetime
import json
import logging
import sys
import time
import warnings


def topology(objects, cells):
    def pages(one):
        return objects.NUMAPagesTopology(size_kb=one['size_kb'], total=one['total'], used=one['used'], reserved=0)

    def cell(one):
        return objects.NUMACell(
            id=one['id'], cpuset=set(one['cpuset']), pcpuset=set(one['pcpuset']), memory=one['memory'],
            cpu_usage=one['cpu_usage'], memory_usage=one['memory_usage'], pinned_cpus=set(one['pinned_cpus']),
            siblings=[set(core) for core in one['siblings']], socket=one['socket'],
            mempages=[pages(size) for size in one['mempages']],
            network_metadata=objects.NetworkMetadata(physnets=set(), tunneled=False))

    return objects.NUMATopology(cells=[cell(one) for one in cells])


def host_state(objects, host, aggregates, now):
    from nova.pci import stats
    from nova.scheduler import host_manager

    state = host_manager.HostState(host['host'], host['node'], host['cell'])
    state.uuid, state.host_ip = host['uuid'], host['host_ip']
    state.total_usable_ram_mb, state.free_ram_mb = host['total_ram_mb'], host['free_ram_mb']
    state.total_usable_disk_gb, state.free_disk_mb = host['total_disk_gb'], host['free_disk_mb']
    state.vcpus_total, state.vcpus_used = host['vcpus_total'], host['vcpus_used']
    state.cpu_allocation_ratio, state.ram_allocation_ratio = host['cpu_ratio'], host['ram_ratio']
    state.disk_allocation_ratio = 1.0
    state.num_instances, state.num_io_ops = host['num_instances'], host['num_io_ops']
    state.failed_builds = host['failed_builds']
    state.hypervisor_type, state.hypervisor_version = 'QEMU', host['hv_version']
    state.hypervisor_hostname, state.stats = host['node'], {}
    state.cpu_info, state.supported_instances = host['cpu_info'], host['supported_instances']
    state.service = host_manager.ReadOnlyDict({
        'disabled': False, 'forced_down': False, 'last_seen_up': now, 'created_at': now,
        'host': host['host'], 'binary': 'nova-compute'})
    state.aggregates = [aggregates[number] for number in host['aggregates']]
    state.instances = {uuid: objects.Instance(uuid=uuid) for uuid in host['instances']}
    state.metrics = objects.MonitorMetricList(objects=[
        objects.MonitorMetric(name=one['name'], value=one['value'], timestamp=now, source='bench')
        for one in host['metrics']])
    state.numa_topology = topology(objects, host['numa']['cells'])
    pools = [objects.PciDevicePool(
        product_id=pool['product_id'], vendor_id=pool['vendor_id'], numa_node=pool['numa_node'],
        count=pool['count'], tags=pool['tags']) for pool in host['pci_pools']]
    state.pci_stats = stats.PciDeviceStats(state.numa_topology, stats=objects.PciDevicePoolList(objects=pools))
    state.allocation_candidates = [{'allocations': {host['uuid']: {'resources': {'VCPU': 1}}},
                                    'mappings': {'': [host['uuid']]}}]
    return state


def request_spec(objects, asked, instances):
    from nova.virt import hardware

    spec = objects.RequestSpec()
    spec.flavor = objects.Flavor(id=1, flavorid='bench', **asked['flavor'])
    spec.image = objects.ImageMeta.from_dict(asked['image'])
    spec.project_id, spec.user_id = asked['project_id'], 'bench'
    spec.num_instances, spec.availability_zone = instances, None
    spec.ignore_hosts = spec.force_hosts = spec.force_nodes = None
    spec.requested_destination = spec.retry = None
    spec.is_bfv, spec.requested_resources = False, []
    spec.scheduler_hints = {name: value if isinstance(value, list) else [value] for name, value in asked['hints'].items()}
    group = asked['group']
    spec.instance_group = None
    if group:
        rules = {name: str(value) for name, value in group['rules'].items()}
        spec.instance_group = objects.InstanceGroup(
            uuid='00000008-0000-4000-8000-000000000001', hosts=list(group['hosts']), members=list(group['members']), rules=rules)
        spec.instance_group.policies, spec.instance_group.policy = [group['policy']], group['policy']
    spec.pci_requests = None
    if asked['pci_requests']:
        spec.pci_requests = objects.InstancePCIRequests(
            requests=[objects.InstancePCIRequest(**one) for one in asked['pci_requests']])
    spec.numa_topology = hardware.numa_get_constraints(spec.flavor, spec.image)
    return spec


def scheduler(conf, enabled):
    from nova.scheduler import filters, host_manager, manager, weights

    conf.set_override('enabled_filters', enabled, group='filter_scheduler')
    hosts = host_manager.HostManager.__new__(host_manager.HostManager)
    hosts.filter_handler = filters.HostFilterHandler()
    hosts.filter_cls_map = {one.__name__: one for one in hosts.filter_handler.get_all_classes()}
    hosts.filter_obj_map = {}
    hosts.enabled_filters = hosts._choose_host_filters(enabled)
    hosts.weight_handler = weights.HostWeightHandler()
    every = hosts.weight_handler.get_all_classes()
    hosts.weighers = [one() for one in every if one is not weights.BaseHostWeigher]
    itself = manager.SchedulerManager.__new__(manager.SchedulerManager)
    itself.host_manager = hosts
    return itself


def main(file, enabled, name, instances, seconds='60'):
    # As a service that logs at INFO and has nowhere to write it to.
    logging.getLogger().addHandler(logging.NullHandler())
    logging.getLogger().setLevel(logging.INFO)
    warnings.simplefilter('ignore')
    import nova.conf
    from nova import objects
    objects.register_all()
    conf = nova.conf.CONF
    conf([], project='nova', default_config_files=[])

    with open(file, encoding='utf-8') as opened:
        workload = json.load(opened)
    now = datetime.datetime.now(datetime.timezone.utc)
    aggregates = {one['id']: objects.Aggregate(id=one['id'], name=str(one['id']), metadata=one['metadata'], hosts=[])
                  for one in workload['aggregates']}
    hosts = [host_state(objects, host, aggregates, now) for host in workload['hosts']]
    spec = request_spec(objects, workload['requests'][name], int(instances))
    itself = scheduler(conf, enabled.split(','))

    spent, passed = [], None
    for number in range(int(instances)):
        began = time.process_time()
        uuid = '00000007-0000-4000-8000-%012x' % number
        spec.instance_uuid = uuid
        spec.obj_reset_changes(['instance_uuid'])
        hosts = itself._get_sorted_hosts(spec, hosts, number)
        passed = len(hosts) if passed is None else passed
        if not hosts:
            break
        if spec.instance_group is not None:
            spec.instance_group.members.append(uuid)
        itself._consume_selected_host(hosts[0], spec, instance_uuid=uuid)
        spent.append(time.process_time() - began)
        if sum(spent) > float(seconds):
            break
    later = spent[1:]
    print(json.dumps({
        'done': len(spent), 'passed': passed, 'first_ms': 1000 * spent[0] if spent else 0.0,
        'later_ms': 1000 * sum(later) / len(later) if later else 0.0}))


if __name__ == '__main__':
    main(*sys.argv[1:])
