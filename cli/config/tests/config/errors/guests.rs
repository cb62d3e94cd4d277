//! Guests, their devices, and the services they need.

use super::{Case, cases};

pub(super) const CASES: &[Case] = cases! {
    "arq_binding_timeout = 0" => ["berth.toml:1:23: arq_binding_timeout: 0 is out of range; write a whole number from 1 to 86400 [BERTH-E0105]"];
    "[pci]\ndevice_spec = \"x\"" => ["berth.toml:2:15: pci.device_spec: a list is wanted, not the text \"x\"; write tables such as [{ address = \"0000:81:00.0\" }] or [{ vendor_id = \"10de\", product_id = \"1eb8\" }] [BERTH-E0104]"];
    "[pci]\ndevice_spec = [\"{\"]" => ["berth.toml:2:16: pci.device_spec: device_spec entry 1: it is not JSON: EOF while parsing an object at line 1 column 1; write tables such as [{ address = \"0000:81:00.0\" }] or [{ vendor_id = \"10de\", product_id = \"1eb8\" }] [BERTH-E0105]"];
    "[[pci.device_spec]]\naddress = \"0000:81:00.0\"\n[[pci.device_spec]]\nvendor_id = 4318" => ["berth.toml:3:1: pci.device_spec: device_spec entry 2: vendor_id: a text in quotes is expected; write tables such as [{ address = \"0000:81:00.0\" }] or [{ vendor_id = \"10de\", product_id = \"1eb8\" }] [BERTH-E0105]"];
    "[[accelerators.device_spec]]\nmanaged = \"yes\"" => ["berth.toml:1:1: accelerators.device_spec: device_spec entry 1: it means every device of the host, the host's own disk and network card among them; name an address, a devname, a vendor_id or a product_id; write tables such as [{ address = \"0000:81:00.0\" }] or [{ vendor_id = \"10de\", product_id = \"1eb8\" }] [BERTH-E0105]"];
    "[pci]\ndevice_spec = [{ vendor_id = \"1234\", product_id = \"1111\" }]\n[accelerators]\ndevice_spec = [{ vendor_id = \"1234\" }]" => ["berth.toml:4:15: accelerators.device_spec: entry 1 and entry 1 of [pci] device_spec match the same devices; a device has one owner: take it out of one of the lists, or make each more specific [BERTH-E0108]"];
    "[pci]\ndevice_spec = [{ address = \"0000:81:00.0\" }]\n[accelerators]\ndevice_spec = [{ vendor_id = \"8086\" }, { address = \"0000:81:00.0\" }]" => ["berth.toml:4:15: accelerators.device_spec: entry 2 matches 0000:81:00.0, which entry 1 of [pci] device_spec matches too; a device has one owner: take it out of one of the lists [BERTH-E0108]"];
    "[pci]\ndevice_spec = [{ devname = \"eth0\" }]\nreport_in_placement = true" => ["berth.toml:2:15: pci.device_spec: entry 1 names a network interface, and these devices are reported to Placement; name the device by its address, or by vendor_id and product_id [BERTH-E0108]"];
    "[pci]\npassthrough_whitelist = []" => ["berth.toml:2:1: pci.passthrough_whitelist: berth does not have this option; write device_spec [BERTH-E0102]"];
    "[accelerators]\nreset_hook = \"bin/x\"" => ["berth.toml:2:14: accelerators.reset_hook: \"bin/x\" is not absolute; write a path that begins with / [BERTH-E0105]"];
    "[[fabric.partitions]]\nid = 1\ndevices = [\"0000:0f:00.0\"]\n[[fabric.partitions]]\nid = 1\ndevices = [\"0000:2d:00.0\"]" => ["berth.toml:4:1: fabric.partitions: partitions entry 2: id: 1 is the ID of entry 1, too; write tables such as [{ id = 1, devices = [\"0000:0f:00.0\", \"0000:2d:00.0\"] }] [BERTH-E0105]"];
    "[fabric]\npartitions = [{ id = 1, devices = [\"0000:0f:00.0\"] }]" => ["berth.toml:2:14: fabric.partitions: no program is named that activates them, so no guest could use these GPUs; set partition_hook in [fabric] [BERTH-E0107]"];
    "[fabric]\npartition_hook = \"bin/x\"" => ["berth.toml:2:18: fabric.partition_hook: \"bin/x\" is not absolute; write a path that begins with / [BERTH-E0105]"];
    "[libvirt]\ncpu_mode = \"custom\"" => ["berth.toml:2:12: libvirt.cpu_mode: a custom processor model needs a name; write cpu_models = [\"Haswell-noTSX\"] in [libvirt] [BERTH-E0107]"];
    "[libvirt]\ncpu_models = [\"Haswell\"]" => ["berth.toml:2:14: libvirt.cpu_models: cpu_mode is not custom, so no named model is used; write cpu_mode = \"custom\" in [libvirt], or remove it [BERTH-E0108]"];
    "[libvirt]\ndisk_cachemodes = [\"file=none\", \"file=writeback\"]" => ["berth.toml:2:19: libvirt.disk_cachemodes: only one cache mode per kind of disk is supported; write file=none or file=writeback [BERTH-E0108]"];
    "[cyborg]\nauth_type = \"none\"" => ["berth.toml:2:13: cyborg.endpoint_override: is not set; auth_type none needs it [BERTH-E0107]"];
    "[glance]\npassword = \"hunter2\"" => ["berth.toml:2:12: glance.password: set, but auth_type is not; write auth_type = \"password\" in [glance] [BERTH-E0107]"];
    "[agent]\nevents_listen = \"0.0.0.0:8775\"" => ["berth.toml:2:17: agent.events_listen: 0.0.0.0:8775 is not on the loopback interface; write a loopback address and port such as \"127.0.0.1:9177\", or \"none\" [BERTH-E0105]"];
    "[agent]\nevents_listen = \"127.0.0.1:8775\"" => ["berth.toml:2:17: agent.events_listen: callers need a token, and no Keystone is named that validates it; set auth_url and an account in [keystone_authtoken], or write events_auth_strategy = \"noauth2\" in [agent] to accept events from every user of this host [BERTH-E0107]"];
    "[conductor_service]\nauth_strategy = \"keystone\"" => ["berth.toml:2:17: conductor_service.auth_strategy: \"keystone\" is not one of the words accepted; write one of noauth2 [BERTH-E0105]"];
    "[agent]\nlisten = \"9178\"" => ["berth.toml:2:10: agent.listen: \"9178\" is not an address and port; write address and port such as \"127.0.0.1:8778\" or \"[::1]:8778\", or \"none\" [BERTH-E0105]"];
    "[agent]\nlisten = \"[::]:9178\"\ntls_cert = \"/c\"" => ["berth.toml:2:10: agent.listen: without tls_key and client_ca no client can connect; write tls_cert, tls_key and client_ca in [agent] [BERTH-E0107]"];
    "[accelerators]\nscrub = \"sometimes\"" => ["berth.toml:2:9: accelerators.scrub: \"sometimes\" is not one of the words accepted; write one of always, never [BERTH-E0105]"];
    "[conductor_service]\nretry_timeout = -1" => ["berth.toml:2:17: conductor_service.retry_timeout: -1 is out of range; write a whole number from 0 to 86400 [BERTH-E0105]"];
    "[conductor_service]\nagents = [\"n2\"]" => ["berth.toml:2:11: conductor_service.agents: \"n2\" names no host before a =; write agents such as [\"compute2=https://192.0.2.11:9178\"] [BERTH-E0105]"];
    "[conductor_service]\nagents = [\"n2=http://h:1\"]" => ["berth.toml:2:11: conductor_service.agents: the scheme \"http\" is not accepted here; write agents such as [\"compute2=https://192.0.2.11:9178\"] [BERTH-E0105]"];
    "[conductor_service]\nagents = [\"n2=https://h:1/v1\"]" => ["berth.toml:2:11: conductor_service.agents: \"https://h:1/v1\" has a path, and an agent's API has none; write agents such as [\"compute2=https://192.0.2.11:9178\"] [BERTH-E0105]"];
    "[conductor_service]\nagents = [\"n2=https://h:1\"]" => ["berth.toml:2:10: conductor_service.agents: agents of other hosts require a client certificate, and none is set; write certfile and keyfile in [agent_client] [BERTH-E0107]"];
    "[conductor_service]\nagents = [\"n2=https://h:1\", \"n2=https://i:1\"]\n[agent_client]\ncertfile = \"/c\"" => ["berth.toml:2:10: conductor_service.agents: host n2 is listed twice; a host has one agent: remove one of the two [BERTH-E0108]"];
    "[agent_client]\nkeyfile = \"/k\"" => ["berth.toml:2:11: agent_client.keyfile: certfile is not set; write certfile in [agent_client], or remove it [BERTH-E0108]"];
    "[conductor_service]\nlisten = \"0.0.0.0:8774\"" => ["berth.toml:2:10: conductor_service.listen: 0.0.0.0:8774 is not on the loopback interface; write a loopback address and port such as \"127.0.0.1:9177\", or \"none\" [BERTH-E0105]"];
};
