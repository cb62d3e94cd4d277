"""nova-compute as the peer of the benchmark: its own code, driven from outside and timed.

    peer.py tracker FILE   Nova's resource tracker, report client, provider tree and libvirt VGPU reshape against the
                           Placement that FILE (JSON, written by the benchmark) names, on the host that FILE describes
    peer.py service FILE   a whole nova-compute with its fake driver: how long it takes to start, what it holds idle

The last line on standard output is a JSON object of the results. Nova is unmodified; what is replaced is what the
benchmark does not have: the hypervisor's answers (a table), the rows of its database, the message bus.
"""
import json
import os
import pathlib
import sys
import time
import types


def resident_mib():
    for line in pathlib.Path('/proc/self/status').read_text().splitlines():
        if line.startswith('VmRSS:'):
            return int(line.split()[1]) / 1024
    return 0.0


def cpu_of(pids):
    """CPU seconds of other processes so far."""
    ticks = 0
    for pid in pids:
        fields = pathlib.Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf('SC_CLK_TCK')


class Stopwatch:
    """Wall and CPU time of a call, and the CPU time that the processes `others` use meanwhile."""

    def __init__(self, others=()):
        self._others = others
        self.wall = self.cpu = self.others_cpu = 0.0

    def _now(self):
        return time.perf_counter(), time.process_time(), cpu_of(self._others)

    def __enter__(self):
        self._began = self._now()
        return self

    def __exit__(self, *_):
        self.wall, self.cpu, self.others_cpu = (now - then for now, then in zip(self._now(), self._began))

    def as_ms(self):
        return {'wall_ms': 1000 * self.wall, 'cpu_ms': 1000 * self.cpu, 'placement_cpu_ms': 1000 * self.others_cpu}


# -- the tracker ------------------------------------------------------------------------------------------------------

def counting_adapter(url, token):
    """A keystoneauth adapter that counts requests and times POST /reshaper."""
    from keystoneauth1 import adapter, session, token_endpoint

    class Counting(adapter.Adapter):
        requests = 0
        reshaper = 0.0

        def request(self, path, method, **kwargs):
            with Stopwatch() as watch:
                answer = super().request(path, method, **kwargs)
            self.requests += 1
            if path.startswith('/reshaper'):
                self.reshaper += watch.wall
            return answer

    login = token_endpoint.Token(url, token)
    return Counting(session.Session(auth=login), service_type='placement', endpoint_override=url, raise_exc=False)


def table_driver(host):
    """LibvirtDriver with its VGPU code; what it would ask of the hypervisor is in `host`."""
    from nova.virt.libvirt import driver

    class TableDriver(driver.LibvirtDriver):
        def __init__(self):
            # Not the parent's: it would look for libvirt.
            self.pgpu_type_default = 'nvidia-558'
            self.was_reshaped = False

        def capabilities_as_traits(self):
            return {}

        def update_provider_tree(self, provider_tree, nodename, allocations=None):
            self.was_reshaped |= allocations is not None
            self._update_provider_tree_for_vgpu(provider_tree, nodename, allocations=allocations)
            provider_tree.update_inventory(nodename, host['root_inventories'])

        def _get_gpu_inventories(self):
            units = host['units_per_gpu']
            whole = {'total': units, 'max_unit': units, 'min_unit': 1, 'step_size': 1, 'reserved': 0,
                     'allocation_ratio': 1.0}
            return {gpu: dict(whole) for gpu in host['gpus']}

        def _get_resource_class_for_device(self, device):
            return 'VGPU'

        # One mediated device per guest, with the guest's own UUID for a name.
        def _get_all_assigned_mediated_devices(self, instance=None):
            return {instance.uuid: instance.uuid}

        def _get_mediated_device_information(self, devname):
            named = driver.libvirt_utils.mdev_name2uuid(devname)
            mdev = named[0] if isinstance(named, tuple) else named
            return {'parent': host['guests'][mdev]}

    return TableDriver()


def bare_tracker(host, driver, client):
    """ResourceTracker with what it needs to report, and no database."""
    from nova.compute import resource_tracker

    class BareTracker(resource_tracker.ResourceTracker):
        def __init__(self):
            self.host, self.driver, self.reportclient = host['name'], driver, client
            self.provider_tree, self.provider_configs, self.absent_providers = None, {}, set()
            self.tracked_migrations = {}
            no_pools = types.SimpleNamespace(has_remote_managed_device_pools=lambda: False)
            self.pci_tracker = types.SimpleNamespace(pci_devs=[], pci_stats=no_pools)

        def _sync_compute_service_disabled_trait(self, context, traits):
            pass

    return BareTracker()


def tracker(host):
    import nova.conf
    from nova import context, objects
    from nova.scheduler.client import report
    nova.conf.CONF([], project='nova', default_config_files=[])
    objects.register_all()
    admin = context.get_admin_context()
    node = types.SimpleNamespace(hypervisor_hostname=host['name'], uuid=host['root'])

    def fresh():
        adapter = counting_adapter(host['url'], host['token'])
        client = report.SchedulerReportClient(adapter=adapter)
        return adapter, client, bare_tracker(host, table_driver(host), client)

    def timed(adapter, tracking, startup):
        adapter.requests, adapter.reshaper = 0, 0.0
        with Stopwatch(host['placement_pids']) as watch:
            tracking._update_to_placement(admin, node, startup)
        return {**watch.as_ms(), 'requests': adapter.requests, 'reshaper_ms': 1000 * adapter.reshaper}

    adapter, client, tracking = fresh()
    results = {'startup': timed(adapter, tracking, True), 'reshaped': tracking.driver.was_reshaped}
    results['ticks'] = [timed(adapter, tracking, False) for _ in range(host['ticks'])]
    client._association_refresh_time.clear()
    results['aged'] = timed(adapter, tracking, False)
    adapter, _, tracking = fresh()
    results['restart'] = timed(adapter, tracking, True)
    return results


# -- the whole service ------------------------------------------------------------------------------------------------

SERVICE = '''
[DEFAULT]
host = bench-nova
compute_driver = fake.MediumFakeDriver
transport_url = fake:///
state_path = {dir}
my_ip = 127.0.0.1
log_file = {dir}/nova.log
use_stderr = false
[database]
connection = sqlite:///{dir}/nova.sqlite
[placement]
auth_type = admin_token
endpoint = {url}
endpoint_override = {url}
token = {token}
[oslo_concurrency]
lock_path = {dir}/locks
'''


def service(setup):
    config_file = os.path.join(setup['dir'], 'nova.conf')
    pathlib.Path(config_file).write_text(SERVICE.format(**setup))
    sys.argv = ['nova-compute', '--config-file', config_file]
    with Stopwatch() as importing:
        from nova.cmd import compute  # noqa: F401  what the nova-compute program imports
        import nova.conf
        from nova import config, objects, service as nova_service
        from nova.compute import rpcapi
        from nova.db import migration
        from oslo_log import log
    config.parse_args(sys.argv)
    log.setup(nova.conf.CONF, 'nova')
    objects.register_all()
    # Outside of what is timed: a deployment's database is there before its services.
    migration.db_sync(database='main')
    with Stopwatch() as starting:
        server = nova_service.Service.create(
            binary='nova-compute', topic=rpcapi.RPC_TOPIC, topic_alt=rpcapi.RPC_TOPIC_ALT)
        server.start()
    time.sleep(setup['idle_s'])
    return {'import': importing.as_ms(), 'start': starting.as_ms(), 'idle_mib': resident_mib()}


def main():
    what, file = sys.argv[1:]
    setup = json.loads(pathlib.Path(file).read_text())
    results = {'tracker': tracker, 'service': service}[what](setup)
    print(json.dumps(results), flush=True)
    # nova-compute's threads need not be waited for.
    os._exit(0)


if __name__ == '__main__':
    main()
