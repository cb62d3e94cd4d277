//! The top level, and sections that are none.

use super::Case;

pub(super) const CASES: &[Case] = super::cases! {
    "hots = \"a\"" => ["berth.toml:1:1: hots: unknown option; did you mean host? [BERTH-E0102]"];
    "Host = \"a\"" => ["berth.toml:1:1: Host: unknown option; did you mean host? [BERTH-E0102]"];
    "colour = \"green\"" => ["berth.toml:1:1: colour: unknown option; see the options at the top level in the reference [BERTH-E0102]"];
    "cpu_shared_set = \"0-3\"" => ["berth.toml:1:1: cpu_shared_set: unknown option; it belongs in [compute] [BERTH-E0102]"];
    "[compue]\ncpu_shared_set = \"0\"" => ["berth.toml:1:2: compue: unknown section; did you mean [compute]? [BERTH-E0102]"];
    "[gardening]\nhoe = 1" => ["berth.toml:1:2: gardening: unknown section; berth config show lists all options with their sections [BERTH-E0102]"];
    "[[compute]]\ncpu_shared_set = \"0\"" => ["berth.toml:1:3: compute: this is a section, not an option; write [compute] and the options below [BERTH-E0104]"];
    "[[gardening]]\nhoe = 1" => ["berth.toml:1:3: gardening: unknown section; berth config show lists all options with their sections [BERTH-E0102]"];
    "compute = 5" => ["berth.toml:1:1: compute: this is a section, not an option; write [compute] and the options below [BERTH-E0104]"];
    "[host]\nname = \"a\"" => ["berth.toml:1:1: host: a text is wanted, not a table; write letters, digits, '.', '-' and '_', at most 255 [BERTH-E0104]"];
    "[DEFAULT]\nhost = \"a\"" => ["berth.toml:1:2: DEFAULT: berth does not have this section; the options of [DEFAULT] are at the top level, before the first section [BERTH-E0102]"];
    "[metrics]\nweight = 1" => ["berth.toml:2:1: metrics.weight: unknown option; see the options in [metrics] in the reference [BERTH-E0102]"];
    "[spice]\nserver_listen = \"0.0.0.0\"" => ["berth.toml:1:2: spice: Nova's section without an equivalent in berth; remove it [BERTH-E0103]"];
    "[libvirt]\nlive_migration_uri = \"qemu+ssh://%s/system\"" => ["berth.toml:2:1: libvirt.live_migration_uri: Nova's option without an equivalent in berth; remove it [BERTH-E0103]"];
    "sync_power_state_interval = 300" => ["berth.toml:1:1: sync_power_state_interval: this version of berth does not read this option; remove it [BERTH-E0103]"];
    "vcpu_pin_set = \"0-3\"" => ["berth.toml:1:1: vcpu_pin_set: berth does not have this option; write cpu_dedicated_set (for hw:cpu_policy=dedicated) or cpu_shared_set (for all others) in [compute] [BERTH-E0102]"];
    "[vgpu_nvidia-35]\ndevice_addresses = []" => ["berth.toml:1:2: vgpu_nvidia-35: berth does not have this section; write [mdev_nvidia-35] [BERTH-E0102]"];
    "[mdev_]\nmax_instances = 1" => ["berth.toml:1:2: mdev_: this names no mediated device type; write the type's name after mdev_, as in [mdev_nvidia-35] [BERTH-E0102]"];
    "[\"mdev_a/b\"]\nmax_instances = 1" => ["berth.toml:1:2: mdev_a/b: this names no mediated device type; write the type's name after mdev_, as in [mdev_nvidia-35] [BERTH-E0102]"];
    "[scheduler_plugin_]\nprogram = \"/a\"" => ["berth.toml:1:2: scheduler_plugin_: this names no plugin of the scheduler; write the plugin's name after scheduler_plugin_: letters, digits and '_', the first a letter, 64 at most [BERTH-E0102]"];
    "[scheduler_plugin_rack-power]\nprogram = \"/a\"" => ["berth.toml:1:2: scheduler_plugin_rack-power: this names no plugin of the scheduler; write the plugin's name after scheduler_plugin_: letters, digits and '_', the first a letter, 64 at most [BERTH-E0102]"];
    "[scheduler_plugin_NAME]\nprogram = \"/a\"" => ["berth.toml:1:2: scheduler_plugin_NAME: this names no plugin of the scheduler; write the plugin's name after scheduler_plugin_: letters, digits and '_', the first a letter, 64 at most [BERTH-E0102]"];
    "[filter_scheduler]\nenabled_filters = [\"a\"]\n[scheduler_plugin_a]\non_failure = \"pass\"" => ["berth.toml:4:14: scheduler_plugin_a.program: program is not set; write program = \"/PATH/OF/THE/PROGRAM\" in [scheduler_plugin_a] [BERTH-E0107]"];
    "[scheduler_plugin_a]\nprogram = \"a\"\non_failure = \"maybe\"\ntime_budget = 0" => [
        "berth.toml:2:11: scheduler_plugin_a.program: \"a\" is not absolute; write a path that begins with / [BERTH-E0105]",
        "berth.toml:3:14: scheduler_plugin_a.on_failure: \"maybe\" is not one of the words accepted; write one of pass, reject [BERTH-E0105]",
        "berth.toml:4:15: scheduler_plugin_a.time_budget: 0 is out of range; write a number of seconds from 0.1 to 60 [BERTH-E0105]"
    ];
    "host = 5" => ["berth.toml:1:8: host: a text is wanted, not the number 5; write letters, digits, '.', '-' and '_', at most 255 [BERTH-E0104]"];
    "host = \"\"" => ["berth.toml:1:8: host: the text is empty; write letters, digits, '.', '-' and '_', at most 255 [BERTH-E0105]"];
    "host = \"a b\"" => ["berth.toml:1:8: host: \"a b\" is not a host name; write letters, digits, '.', '-' and '_', at most 255 [BERTH-E0105]"];
    "host = 2026-01-01" => ["berth.toml:1:8: host: no option takes a date or time; write a text in quotes [BERTH-E0104]"];
    "my_ip = \"gpu-01\"" => ["berth.toml:1:9: my_ip: \"gpu-01\" is not an IP address; write an address such as \"192.0.2.17\" or \"2001:db8::17\" [BERTH-E0105]"];
    "report_interval = 0" => ["berth.toml:1:19: report_interval: 0 is out of range; write a whole number from 1 to 3600 [BERTH-E0105]"];
    "compute_monitors = [\"cpu\"]" => ["berth.toml:1:21: compute_monitors: \"cpu\" is not one of the words accepted; write a list of: cpu.virt_driver [BERTH-E0105]"];
    "[conductor]\nendpoint_override = \"http://h:8780\"" => ["berth.toml:2:21: conductor.endpoint_override: set, but auth_type is not; write auth_type = \"none\" in [conductor] [BERTH-E0107]"];
    "state_path = \"var/lib\"" => ["berth.toml:1:14: state_path: \"var/lib\" is not absolute; write a path that begins with / [BERTH-E0105]"];
    "state_path = \"/var\\u0000/lib\"" => ["berth.toml:1:14: state_path: the text has control characters; write a path that begins with / [BERTH-E0105]"];
    "compute_driver = \"libvrit\"" => ["berth.toml:1:18: compute_driver: \"libvrit\" is not one of the words accepted; did you mean \"libvirt\"? write one of libvirt, fake, or exec:/PATH/OF/A/PROGRAM [BERTH-E0105]"];
    "compute_driver = \"vmwareapi\"" => ["berth.toml:1:18: compute_driver: \"vmwareapi\" is not one of the words accepted; write one of libvirt, fake, or exec:/PATH/OF/A/PROGRAM [BERTH-E0105]"];
    "compute_driver = \"exec:driver\"" => ["berth.toml:1:18: compute_driver: \"exec:driver\" is not the absolute path of a program; write one of libvirt, fake, or exec:/PATH/OF/A/PROGRAM [BERTH-E0105]"];
    "compute_driver = \"exec\"" => ["berth.toml:1:18: compute_driver: \"exec\" is not one of the words accepted; write one of libvirt, fake, or exec:/PATH/OF/A/PROGRAM [BERTH-E0105]"];
    "compute_driver = \"fake\"" => ["berth.toml:1:18: compute_driver: the fake driver needs a machine; write machine = \"/path/to/machine.toml\" in [fake] [BERTH-E0107]"];
    "update_resources_interval = -2" => ["berth.toml:1:29: update_resources_interval: -2 is out of range; write a whole number from -1 to 604800 [BERTH-E0105]"];
    "update_resources_interval = 60.5" => ["berth.toml:1:29: update_resources_interval: a whole number is wanted, not the number 60.5; write a whole number from -1 to 604800 [BERTH-E0104]"];
    "update_resources_interval = \"60\"" => ["berth.toml:1:29: update_resources_interval: a whole number is wanted, not the text \"60\"; write a whole number from -1 to 604800 [BERTH-E0104]"];
    "reserved_host_memory_mb = 99999999999999999999" => ["berth.toml:1:27: reserved_host_memory_mb: the number is too large [BERTH-E0104]"];
    "reserved_host_cpus = true" => ["berth.toml:1:22: reserved_host_cpus: a whole number is wanted, not true; write a whole number from 0 to 2147483647 [BERTH-E0104]"];
    "[libvirt]\ncpu_model = \"Haswell\"" => ["berth.toml:2:1: libvirt.cpu_model: berth does not have this option; write cpu_models, a list, in [libvirt] [BERTH-E0102]"];
    "[filter_scheduler]\nenabled_filters = \"AvailabilityZoneFilter, ComputeFilter\"" => ["berth.toml:2:19: filter_scheduler.enabled_filters: a list is wanted, not a text; write [\"AvailabilityZoneFilter\", \"ComputeFilter\"] [BERTH-E0104]"];
    "initial_cpu_allocation_ratio = 0.0" => ["berth.toml:1:32: initial_cpu_allocation_ratio: 0 is out of range; write a number over 0, at most 10000 [BERTH-E0105]"];
    "cpu_allocation_ratio = inf" => ["berth.toml:1:24: cpu_allocation_ratio: the number is not finite [BERTH-E0104]"];
    "ram_allocation_ratio = -1" => ["berth.toml:1:24: ram_allocation_ratio: -1 is out of range; write a number from 0 to 10000 [BERTH-E0105]"];
    "initial_disk_allocation_ratio = \"1.0\"" => ["berth.toml:1:33: initial_disk_allocation_ratio: a number is wanted, not the text \"1.0\"; write a number over 0, at most 10000 [BERTH-E0104]"];
    "reserved_host_cpus = 1\n[compute]\ncpu_dedicated_set = \"2-7\"" => ["berth.toml:1:22: reserved_host_cpus: not possible together with compute.cpu_dedicated_set; leave the host's CPUs out of cpu_shared_set and cpu_dedicated_set instead [BERTH-E0108]"];
    "[placement_database]\nconnection = \"sqlite:/x\"" => ["berth.toml:1:2: placement_database: berth does not have this section; write connection in [placement_service] [BERTH-E0102]"];
    "hots = \"a\"\n[compute]\ncpu_shared_set = \"x\"\nowner_nova = 1" => ["berth.toml:1:1: hots: unknown option; did you mean host? [BERTH-E0102]", "berth.toml:3:18: compute.cpu_shared_set: \"x\" is no part of a CPU set: numbers 0 to 65535, ranges (4-7) and exclusions (^5), separated by commas, are; an example is \"0-3,^2,8\" [BERTH-E0105]", "berth.toml:4:14: compute.owner_nova: true or false is wanted, not the number 1; write true or false, without quotes [BERTH-E0104]"];
    "[model]\nvgpu = \"per_gpu\"" => ["berth.toml:2:8: model.vgpu: \"per_gpu\" is not one of the words accepted; did you mean \"per-gpu\"? write one of root, per-gpu [BERTH-E0105]"];
};
