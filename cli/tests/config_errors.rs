//! Broken configurations, and what is said of them: every message names file, line, column and key.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use berth_cli::config::{self, Document, Loaded, Refused, Sources};
use proptest::prelude::*;

/// What resolving this one file gives; the file is called `berth.toml`.
fn resolve(text: &str, environment: &[(&str, &str)]) -> Result<Loaded, Refused> {
    let document = Document {
        name: "berth.toml".to_owned(),
        text: text.to_owned(),
    };
    let environment: Vec<(OsString, OsString)> = environment
        .iter()
        .map(|(name, value)| ((*name).into(), (*value).into()))
        .collect();
    config::resolve(&[document], &environment)
}

fn problems(text: &str, environment: &[(&str, &str)]) -> Vec<String> {
    match resolve(text, environment) {
        Ok(_) => vec!["accepted".to_owned()],
        Err(refused) => refused.problems().iter().map(ToString::to_string).collect(),
    }
}

/// A file and the problems it has, each with its place.
const FILES: &[(&str, &[&str])] = &[
    (
        "host = ",
        &[
            "berth.toml:1:8: this is not TOML: string values must be quoted, expected literal string [BERTH-E0101]",
        ],
    ),
    (
        "host = \"a\"\nhost = \"b\"",
        &["berth.toml:2:1: this is not TOML: duplicate key [BERTH-E0101]"],
    ),
    (
        "[compute\ncpu_shared_set = \"0\"",
        &["berth.toml:1:9: this is not TOML: unclosed table, expected `]` [BERTH-E0101]"],
    ),
    (
        "host = 'a\nstate_path = \"/x\"",
        &["berth.toml:1:10: this is not TOML: invalid literal string, expected `'` [BERTH-E0101]"],
    ),
    (
        "hots = \"a\"",
        &["berth.toml:1:1: hots: unknown option; did you mean host? [BERTH-E0102]"],
    ),
    (
        "Host = \"a\"",
        &["berth.toml:1:1: Host: unknown option; did you mean host? [BERTH-E0102]"],
    ),
    (
        "colour = \"green\"",
        &[
            "berth.toml:1:1: colour: unknown option; see the options at the top level in the reference [BERTH-E0102]",
        ],
    ),
    (
        "cpu_shared_set = \"0-3\"",
        &["berth.toml:1:1: cpu_shared_set: unknown option; it belongs in [compute] [BERTH-E0102]"],
    ),
    (
        "[compute]\ncpu_shraed_set = \"0-3\"",
        &[
            "berth.toml:2:1: compute.cpu_shraed_set: unknown option; did you mean cpu_shared_set? [BERTH-E0102]",
        ],
    ),
    (
        "[compute]\nreserved_host_memory_mb = 1",
        &[
            "berth.toml:2:1: compute.reserved_host_memory_mb: unknown option; it belongs at the top level [BERTH-E0102]",
        ],
    ),
    (
        "[compute]\nreserved_host_memory = 1",
        &[
            "berth.toml:2:1: compute.reserved_host_memory: unknown option; did you mean reserved_host_memory_mb at the top level? [BERTH-E0102]",
        ],
    ),
    (
        "[compue]\ncpu_shared_set = \"0\"",
        &["berth.toml:1:2: compue: unknown section; did you mean [compute]? [BERTH-E0102]"],
    ),
    (
        "[gardening]\nhoe = 1",
        &[
            "berth.toml:1:2: gardening: unknown section; the sections are compute, libvirt, devices, mdev_TYPE, model, placement, placement_service, agent, fake [BERTH-E0102]",
        ],
    ),
    (
        "[[compute]]\ncpu_shared_set = \"0\"",
        &[
            "berth.toml:1:3: compute: this is a section, not an option; write [compute] and the options below [BERTH-E0104]",
        ],
    ),
    (
        "[[gardening]]\nhoe = 1",
        &[
            "berth.toml:1:3: gardening: unknown section; the sections are compute, libvirt, devices, mdev_TYPE, model, placement, placement_service, agent, fake [BERTH-E0102]",
        ],
    ),
    (
        "compute = 5",
        &[
            "berth.toml:1:1: compute: this is a section, not an option; write [compute] and the options below [BERTH-E0104]",
        ],
    ),
    (
        "[compute.cpu_shared_set]\nfirst = 0",
        &[
            "berth.toml:1:1: compute.cpu_shared_set: a text is wanted, not a table; write numbers, ranges and exclusions such as \"0-3,^2,8\" [BERTH-E0104]",
        ],
    ),
    (
        "[host]\nname = \"a\"",
        &[
            "berth.toml:1:1: host: a text is wanted, not a table; write letters, digits, '.', '-' and '_', at most 255 [BERTH-E0104]",
        ],
    ),
    (
        "[DEFAULT]\nhost = \"a\"",
        &[
            "berth.toml:1:2: DEFAULT: berth does not have this section; the options of [DEFAULT] stand at the top level, before the first section [BERTH-E0102]",
        ],
    ),
    (
        "[pci]\ndevice_spec = []",
        &[
            "berth.toml:1:2: pci: this version of berth does not read this section; remove it [BERTH-E0103]",
        ],
    ),
    (
        "arq_binding_timeout = 300",
        &[
            "berth.toml:1:1: arq_binding_timeout: this version of berth does not read this option; remove it [BERTH-E0103]",
        ],
    ),
    (
        "vcpu_pin_set = \"0-3\"",
        &[
            "berth.toml:1:1: vcpu_pin_set: berth does not have this option; write cpu_shared_set in [compute] [BERTH-E0102]",
        ],
    ),
    (
        "[devices]\nenabled_vgpu_types = [\"nvidia-35\"]",
        &[
            "berth.toml:2:1: devices.enabled_vgpu_types: berth does not have this option; write enabled_mdev_types [BERTH-E0102]",
        ],
    ),
    (
        "[vgpu_nvidia-35]\ndevice_addresses = []",
        &[
            "berth.toml:1:2: vgpu_nvidia-35: berth does not have this section; write [mdev_nvidia-35] [BERTH-E0102]",
        ],
    ),
    (
        "[mdev_]\nmax_instances = 1",
        &[
            "berth.toml:1:2: mdev_: this names no mediated device type; write the type's name after mdev_, as in [mdev_nvidia-35] [BERTH-E0102]",
        ],
    ),
    (
        "[\"mdev_a/b\"]\nmax_instances = 1",
        &[
            "berth.toml:1:2: mdev_a/b: this names no mediated device type; write the type's name after mdev_, as in [mdev_nvidia-35] [BERTH-E0102]",
        ],
    ),
    (
        "host = 5",
        &[
            "berth.toml:1:8: host: a text is wanted, not the number 5; write letters, digits, '.', '-' and '_', at most 255 [BERTH-E0104]",
        ],
    ),
    (
        "host = \"\"",
        &[
            "berth.toml:1:8: host: an empty text is no value; write letters, digits, '.', '-' and '_', at most 255 [BERTH-E0105]",
        ],
    ),
    (
        "host = \"a b\"",
        &[
            "berth.toml:1:8: host: \"a b\" is no host name; write letters, digits, '.', '-' and '_', at most 255 [BERTH-E0105]",
        ],
    ),
    (
        "host = 2026-01-01",
        &[
            "berth.toml:1:8: host: no option takes a date or time; write a text in quotes [BERTH-E0104]",
        ],
    ),
    (
        "state_path = \"var/lib\"",
        &[
            "berth.toml:1:14: state_path: \"var/lib\" is not absolute; write a path that begins with / [BERTH-E0105]",
        ],
    ),
    (
        "state_path = \"/var\\u0000/lib\"",
        &[
            "berth.toml:1:14: state_path: the text has control characters; write a path that begins with / [BERTH-E0105]",
        ],
    ),
    (
        "compute_driver = \"libvrit\"",
        &[
            "berth.toml:1:18: compute_driver: \"libvrit\" is not one of the words accepted; did you mean \"libvirt\"? write one of libvirt, fake [BERTH-E0105]",
        ],
    ),
    (
        "compute_driver = \"vmwareapi\"",
        &[
            "berth.toml:1:18: compute_driver: \"vmwareapi\" is not one of the words accepted; write one of libvirt, fake [BERTH-E0105]",
        ],
    ),
    (
        "compute_driver = \"fake\"",
        &[
            "berth.toml:1:18: compute_driver: the fake driver needs a machine; write machine = \"/path/to/machine.toml\" in [fake] [BERTH-E0107]",
        ],
    ),
    (
        "update_resources_interval = -2",
        &[
            "berth.toml:1:29: update_resources_interval: -2 is out of range; write a whole number from -1 to 604800 [BERTH-E0105]",
        ],
    ),
    (
        "update_resources_interval = 60.5",
        &[
            "berth.toml:1:29: update_resources_interval: a whole number is wanted, not the number 60.5; write a whole number from -1 to 604800 [BERTH-E0104]",
        ],
    ),
    (
        "update_resources_interval = \"60\"",
        &[
            "berth.toml:1:29: update_resources_interval: a whole number is wanted, not the text \"60\"; write a whole number from -1 to 604800 [BERTH-E0104]",
        ],
    ),
    (
        "reserved_host_memory_mb = 99999999999999999999",
        &["berth.toml:1:27: reserved_host_memory_mb: the number is too large [BERTH-E0104]"],
    ),
    (
        "reserved_host_cpus = true",
        &[
            "berth.toml:1:22: reserved_host_cpus: a whole number is wanted, not true; write a whole number from 0 to 2147483647 [BERTH-E0104]",
        ],
    ),
    (
        "cpu_allocation_ratio = 0.0",
        &[
            "berth.toml:1:24: cpu_allocation_ratio: 0 is out of range; write a number over 0, at most 10000 [BERTH-E0105]",
        ],
    ),
    (
        "cpu_allocation_ratio = inf",
        &["berth.toml:1:24: cpu_allocation_ratio: the number is not finite [BERTH-E0104]"],
    ),
    (
        "ram_allocation_ratio = -1",
        &[
            "berth.toml:1:24: ram_allocation_ratio: -1 is out of range; write a number over 0, at most 10000 [BERTH-E0105]",
        ],
    ),
    (
        "initial_disk_allocation_ratio = \"1.0\"",
        &[
            "berth.toml:1:33: initial_disk_allocation_ratio: a number is wanted, not the text \"1.0\"; write a number over 0, at most 10000 [BERTH-E0104]",
        ],
    ),
    (
        "[compute]\ncpu_shared_set = \"0-x\"",
        &[
            "berth.toml:2:18: compute.cpu_shared_set: \"0-x\" is no part of a CPU set: numbers 0 to 65535, ranges (4-7) and exclusions (^5), separated by commas, are; an example is \"0-3,^2,8\" [BERTH-E0105]",
        ],
    ),
    (
        "[compute]\ncpu_shared_set = \"^3\"",
        &[
            "berth.toml:2:18: compute.cpu_shared_set: \"^3\" leaves no CPU; write numbers, ranges and exclusions such as \"0-3,^2,8\" [BERTH-E0105]",
        ],
    ),
    (
        "[compute]\ncpu_shared_set = [0, 1]",
        &[
            "berth.toml:2:18: compute.cpu_shared_set: a text is wanted, not a list; write numbers, ranges and exclusions such as \"0-3,^2,8\" [BERTH-E0104]",
        ],
    ),
    (
        "[compute]\ncpu_shared_set = \"0-3\"\ncpu_dedicated_set = \"2-7\"",
        &[
            "berth.toml:3:21: compute.cpu_dedicated_set: CPU 2-3 is in cpu_shared_set too; a CPU is shared or dedicated, not both [BERTH-E0108]",
        ],
    ),
    (
        "reserved_host_cpus = 1\n[compute]\ncpu_dedicated_set = \"2-7\"",
        &[
            "berth.toml:1:22: reserved_host_cpus: not possible together with compute.cpu_dedicated_set; leave the host's CPUs out of cpu_shared_set and cpu_dedicated_set instead [BERTH-E0108]",
        ],
    ),
    (
        "[compute]\nowner_nova = \"yes\"",
        &[
            "berth.toml:2:14: compute.owner_nova: true or false is wanted, not the text \"yes\"; write true or false, without quotes [BERTH-E0104]",
        ],
    ),
    (
        "[compute]\nsharing_providers_max_uuids_per_request = 0",
        &[
            "berth.toml:2:43: compute.sharing_providers_max_uuids_per_request: 0 is out of range; write a whole number from 1 to 10000 [BERTH-E0105]",
        ],
    ),
    (
        "[libvirt]\nconnection_uri = \"qemu+ssh://other/system\"",
        &[
            "berth.toml:2:18: libvirt.connection_uri: \"qemu+ssh://other/system\" is no local libvirt connection URI; write a URI such as \"qemu:///system\" [BERTH-E0105]",
        ],
    ),
    (
        "[libvirt]\nvirt_type = \"xen\"",
        &[
            "berth.toml:2:13: libvirt.virt_type: \"xen\" is not one of the words accepted; write one of kvm, qemu [BERTH-E0105]",
        ],
    ),
    (
        "[devices]\nenabled_mdev_types = \"nvidia-35\"",
        &[
            "berth.toml:2:22: devices.enabled_mdev_types: a list is wanted, not a text; write [\"nvidia-35\"] [BERTH-E0104]",
        ],
    ),
    (
        "[devices]\nenabled_mdev_types = [\"nvidia-35\", 36]",
        &[
            "berth.toml:2:36: devices.enabled_mdev_types: a list of texts is wanted, this element is the number 36; write names as in mdev_supported_types, such as [\"nvidia-35\"] [BERTH-E0104]",
        ],
    ),
    (
        "[devices]\nenabled_mdev_types = [\"nvidia-35\", \"nvidia-35\"]",
        &[
            "berth.toml:2:36: devices.enabled_mdev_types: \"nvidia-35\" stands in the list twice; write it once [BERTH-E0105]",
        ],
    ),
    (
        "[devices]\nenabled_mdev_types = [\"nvidia-35\", \"nvidia-36\"]\n[mdev_nvidia-35]\ndevice_addresses = [\"0000:84:00.0\"]",
        &[
            "berth.toml:2:22: mdev_nvidia-36.device_addresses: 2 types are enabled, so this one needs its GPUs named; write device_addresses = [\"0000:84:00.0\"] in [mdev_nvidia-36] [BERTH-E0107]",
        ],
    ),
    (
        "[devices]\nenabled_mdev_types = [\"a\", \"b\"]\n[mdev_a]\ndevice_addresses = [\"0000:84:00.0\"]\n[mdev_b]\ndevice_addresses = [\"84:00.0\"]",
        &[
            "berth.toml:6:20: mdev_b.device_addresses: 0000:84:00.0 stands in [mdev_a] too; a GPU offers one type [BERTH-E0108]",
        ],
    ),
    (
        "[devices]\nenabled_mdev_types = [\"a\"]\n[mdev_a]\ndevice_addresses = [\n  \"0000:84:00.0\",\n  \"0000:84:00.9\",\n]",
        &[
            "berth.toml:6:3: mdev_a.device_addresses: \"0000:84:00.9\" is no PCI address; write addresses such as [\"0000:84:00.0\"] [BERTH-E0105]",
        ],
    ),
    (
        "[mdev_a]\nmdev_class = \"GPU\"",
        &[
            "berth.toml:2:14: mdev_a.mdev_class: \"GPU\" is not accepted; write \"VGPU\" or a custom class such as \"CUSTOM_GPU_SLICE\" [BERTH-E0105]",
        ],
    ),
    (
        "[mdev_a]\nmax_instances = 0",
        &[
            "berth.toml:2:17: mdev_a.max_instances: 0 is out of range; write a whole number from 1 to 2147483647 [BERTH-E0105]",
        ],
    ),
    (
        "[model]\nvgpu = \"per_gpu\"",
        &[
            "berth.toml:2:8: model.vgpu: \"per_gpu\" is not one of the words accepted; did you mean \"per-gpu\"? write one of root, per-gpu [BERTH-E0105]",
        ],
    ),
    (
        "[placement]\nauth_type = \"pasword\"",
        &[
            "berth.toml:2:13: placement.auth_type: \"pasword\" is not one of the words accepted; did you mean \"password\"? write one of password, v3password, v3applicationcredential, token, v3token, admin_token, none, noauth [BERTH-E0105]",
        ],
    ),
    (
        "[placement]\nauth_type = \"password\"",
        &[
            "berth.toml:2:13: placement.auth_url: is not set; auth_type password needs it [BERTH-E0107]",
            "berth.toml:2:13: placement.password: is not set; auth_type password needs it [BERTH-E0107]",
            "berth.toml:2:13: placement.project_name: is not set; name a project (project_name or project_id) or system_scope [BERTH-E0107]",
            "berth.toml:2:13: placement.username: is not set; auth_type password needs username or user_id [BERTH-E0107]",
        ],
    ),
    (
        "[placement]\nauth_type = \"v3applicationcredential\"\nauth_url = \"https://k\"\napplication_credential_name = \"a\"\napplication_credential_secret = \"s\"",
        &[
            "berth.toml:2:13: placement.username: is not set; application_credential_name needs username or user_id [BERTH-E0107]",
        ],
    ),
    (
        "[placement]\nauth_type = \"none\"",
        &[
            "berth.toml:2:13: placement.endpoint_override: is not set; auth_type none needs it [BERTH-E0107]",
        ],
    ),
    (
        "[placement]\npassword = \"hunter2\"",
        &[
            "berth.toml:2:12: placement.password: set, but auth_type is not; write auth_type = \"password\" in [placement] [BERTH-E0107]",
        ],
    ),
    (
        "[placement]\npassword = 1234",
        &[
            "berth.toml:2:12: placement.password: a text is wanted, not a whole number; write the secret in quotes, on one line [BERTH-E0104]",
        ],
    ),
    (
        "[placement]\npassword = [\"hunter2\"]",
        &[
            "berth.toml:2:12: placement.password: a text is wanted, not a list; write the secret in quotes, on one line [BERTH-E0104]",
        ],
    ),
    (
        "[placement]\nauth_url = \"keystone:5000\"",
        &[
            "berth.toml:2:12: placement.auth_url: this is no URL; write a URL that begins with http:// or https:// [BERTH-E0105]",
        ],
    ),
    (
        "[placement]\nendpoint_override = \"http://user:hunter2@h/\"",
        &[
            "berth.toml:2:21: placement.endpoint_override: user and password do not belong in this URL; write a URL that begins with http:// or https:// [BERTH-E0105]",
        ],
    ),
    (
        "[placement]\nvalid_interfaces = [\"internl\"]",
        &[
            "berth.toml:2:21: placement.valid_interfaces: \"internl\" is not one of the words accepted; did you mean \"internal\"? write a list of: internal, public, admin [BERTH-E0105]",
        ],
    ),
    (
        "[placement]\nauth_type = \"none\"\nendpoint_override = \"http://h\"\nkeyfile = \"/c.pem\"",
        &[
            "berth.toml:2:13: placement.certfile: is not set; keyfile is the key of the certificate in it [BERTH-E0107]",
        ],
    ),
    (
        "[placement]\nos_region_name = \"R\"",
        &[
            "berth.toml:2:1: placement.os_region_name: berth does not have this option; write region_name [BERTH-E0102]",
        ],
    ),
    (
        "[placement_service]\nconnection = \"oracle://u:hunter2@h/d\"",
        &[
            "berth.toml:2:14: placement_service.connection: this is no database URL; write sqlite:PATH with an absolute path [BERTH-E0105]",
        ],
    ),
    (
        "[placement_service]\nlisten = \"8778\"",
        &[
            "berth.toml:2:10: placement_service.listen: \"8778\" is no address and port; write address and port such as \"127.0.0.1:8778\" or \"[::]:8778\" [BERTH-E0105]",
        ],
    ),
    (
        "[placement_database]\nconnection = \"sqlite:/x\"",
        &[
            "berth.toml:1:2: placement_database: berth does not have this section; write connection in [placement_service] [BERTH-E0102]",
        ],
    ),
    (
        "[agent]\nmetrics_listen = \"0.0.0.0:9177\"",
        &[
            "berth.toml:2:18: agent.metrics_listen: 0.0.0.0:9177 is not on the loopback interface; write a loopback address and port such as \"127.0.0.1:9177\" [BERTH-E0105]",
        ],
    ),
    (
        "hots = \"a\"\n[compute]\ncpu_shared_set = \"x\"\nowner_nova = 1",
        &[
            "berth.toml:1:1: hots: unknown option; did you mean host? [BERTH-E0102]",
            "berth.toml:3:18: compute.cpu_shared_set: \"x\" is no part of a CPU set: numbers 0 to 65535, ranges (4-7) and exclusions (^5), separated by commas, are; an example is \"0-3,^2,8\" [BERTH-E0105]",
            "berth.toml:4:14: compute.owner_nova: true or false is wanted, not the number 1; write true or false, without quotes [BERTH-E0104]",
        ],
    ),
];

/// A variable, its value, and the problems it has.
const VARIABLES: &[(&str, &str, &[&str])] = &[
    (
        "BERTH__HOTS",
        "a",
        &["variable BERTH__HOTS: hots: unknown option; did you mean BERTH__HOST? [BERTH-E0102]"],
    ),
    (
        "BERTH__COMPUTE__CPU_SHRAED_SET",
        "0",
        &[
            "variable BERTH__COMPUTE__CPU_SHRAED_SET: compute.cpu_shraed_set: unknown option; did you mean BERTH__COMPUTE__CPU_SHARED_SET? [BERTH-E0102]",
        ],
    ),
    (
        "BERTH__COMPUE__CPU_SHARED_SET",
        "0",
        &[
            "variable BERTH__COMPUE__CPU_SHARED_SET: compue: unknown section; did you mean BERTH__COMPUTE__CPU_SHARED_SET? [BERTH-E0102]",
        ],
    ),
    (
        "BERTH__COMPUTE__CPU_SHARED_SET",
        "0-x",
        &[
            "variable BERTH__COMPUTE__CPU_SHARED_SET: compute.cpu_shared_set: \"0-x\" is no part of a CPU set: numbers 0 to 65535, ranges (4-7) and exclusions (^5), separated by commas, are; an example is \"0-3,^2,8\" [BERTH-E0105]",
        ],
    ),
    (
        "BERTH__RESERVED_HOST_MEMORY_MB",
        "much",
        &[
            "variable BERTH__RESERVED_HOST_MEMORY_MB: reserved_host_memory_mb: a whole number is wanted, not the text \"much\"; write a whole number from 0 to 2147483647 [BERTH-E0104]",
        ],
    ),
    (
        "BERTH__COMPUTE__OWNER_NOVA",
        "maybe",
        &[
            "variable BERTH__COMPUTE__OWNER_NOVA: compute.owner_nova: true or false is wanted, not the text \"maybe\"; write true or false, without quotes [BERTH-E0104]",
        ],
    ),
    (
        "BERTH__PLACEMENT__PASSWORD",
        "",
        &[
            "variable BERTH__PLACEMENT__PASSWORD: placement.password: an empty text is no value; write the secret in quotes, on one line [BERTH-E0105]",
        ],
    ),
    (
        "BERTH__MDEV_A__DEVICE_ADDRESSES",
        "0000:84:00.0,84",
        &[
            "variable BERTH__MDEV_A__DEVICE_ADDRESSES: mdev_A.device_addresses: \"84\" is no PCI address; write addresses such as [\"0000:84:00.0\"] [BERTH-E0105]",
        ],
    ),
    (
        "BERTH__",
        "a",
        &[
            "variable BERTH__: unknown option; see the options at the top level in the reference [BERTH-E0102]",
        ],
    ),
    (
        "BERTH_DATABASE_URL",
        "hunter2",
        &[
            "variable BERTH_DATABASE_URL: placement_service.connection: this is no database URL; write sqlite:PATH with an absolute path [BERTH-E0105]",
        ],
    ),
];

#[test]
fn every_broken_file_is_told_with_file_line_column_and_key() {
    for (text, expected) in FILES {
        assert_eq!(&problems(text, &[]), expected, "\n{text}");
    }
}

#[test]
fn every_broken_variable_is_told_by_its_name() {
    for (name, value, expected) in VARIABLES {
        assert_eq!(&problems("", &[(name, value)]), expected, "{name}={value}");
    }
}

#[test]
fn no_message_repeats_a_secret() {
    let secrets = ["password", "application_credential_secret", "token"];
    let shapes = [
        "\"hunter2\\n\"",
        "[\"hunter2\"]",
        "{ a = \"hunter2\" }",
        "\"hunter2",
        "hunter2",
        "'hunter2' x",
    ];
    for (key, shape) in secrets
        .iter()
        .flat_map(|key| shapes.map(|shape| (key, shape)))
    {
        let said = problems(&format!("[placement]\n{key} = {shape}"), &[]).join("\n");
        assert!(
            said.contains("berth.toml:2") && !said.contains("hunter2"),
            "{key} = {shape}: {said}"
        );
    }
}

/// Loads with `--config` and `--config-dir` as given, no environment.
fn load(file: &Path, directory: Option<&Path>) -> Result<Loaded, Refused> {
    let sources = Sources {
        file: Some(file.to_owned()),
        directory: directory.map(Path::to_owned),
        ..Sources::default()
    };
    config::load(&sources)
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::write(at("latin1.toml"), b"host = \"caf\xe9\"").unwrap();
    fs::write(at("large.toml"), vec![b'#'; (1 << 20) + 1]).unwrap();
    fs::create_dir(at("directory.toml")).unwrap();
    for (name, expected) in [
        ("missing.toml", "No such file"),
        ("latin1.toml", "save it as UTF-8"),
        ("large.toml", "at most 1 MiB"),
        ("directory.toml", "is a directory"),
    ] {
        let said = load(&at(name), None).unwrap_err().to_string();
        assert!(
            said.contains(name) && said.contains(expected) && said.contains("BERTH-E0106"),
            "{name}: {said}"
        );
    }
    fs::write(at("good.toml"), "").unwrap();
    let said = load(&at("good.toml"), Some(&at("missing.d")))
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("missing.d") && said.contains("BERTH-E0106"),
        "{said}"
    );
}

#[test]
fn fragments_are_read_in_order_and_errors_of_all_files_come_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let fragments = at("berth.d");
    fs::create_dir(&fragments).unwrap();
    fs::write(at("berth.toml"), "host = \"a\"\nreserved_host_cpus = 1").unwrap();
    fs::write(fragments.join("20-b.toml"), "host = \"c\"").unwrap();
    fs::write(
        fragments.join("10-a.toml"),
        "host = \"b\"\nreserved_host_disk_mb = 7",
    )
    .unwrap();
    fs::write(fragments.join(".hidden.toml"), "nonsense").unwrap();
    fs::write(fragments.join("notes.txt"), "nonsense").unwrap();
    let loaded = load(&at("berth.toml"), Some(&fragments)).unwrap();
    assert_eq!(loaded.config.host.as_deref(), Some("c"));
    assert_eq!(
        (
            loaded.config.reserved_host_cpus,
            loaded.config.reserved_host_disk_mb
        ),
        (1, 7)
    );

    fs::write(at("berth.toml"), "hots = 1").unwrap();
    fs::write(fragments.join("20-b.toml"), "reserved_host_cpus = -1").unwrap();
    let refused = load(&at("berth.toml"), Some(&fragments)).unwrap_err();
    assert_eq!(refused.problems().len(), 2, "{refused}");
}

#[test]
fn a_secret_everyone_can_read_is_a_warning() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("berth.toml");
    fs::write(&file, "[placement_service]\nconnection = \"sqlite:/a\"").unwrap();
    let with_mode = |mode| {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        load(&file, None)
            .unwrap()
            .warnings
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert_eq!(with_mode(0o640), "");
    let said = with_mode(0o644);
    assert!(
        said.contains("berth.toml:2:14: placement_service.connection")
            && said.contains("chmod o-r"),
        "{said}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        let _ = problems(&text, &[]);
    }

    #[test]
    fn any_toml_like_text_is_read_or_refused(
        lines in proptest::collection::vec(
            "(\\[[a-z_]{1,12}\\]|\\[mdev_[a-z-]{0,5}\\]|[a-z_]{1,24} = (-?[0-9]{1,20}|true|\"[^\"\\n]{0,12}\"|\\[[0-9,\"a-z ]{0,10}\\]|[0-9]\\.[0-9]|\\{ a = 1 \\}))",
            0..12,
        ),
    ) {
        for line in problems(&lines.join("\n"), &[]) {
            prop_assert!(line == "accepted" || line.contains("[BERTH-E01"), "{}", line);
        }
    }

    #[test]
    fn any_value_of_any_option_is_read_or_refused_by_name(
        index in 0..config::table::OPTIONS.len(),
        value in "(-?[0-9]{1,20}|[0-9]{1,3}\\.[0-9]|true|inf|nan|1979-05-27|\"[^\"\\\\]{0,20}\"|\\[\"[a-z0-9:.-]{0,12}\"\\]|\\[\\]|\\[\\[1\\]\\]|\\{ a = 1 \\})",
    ) {
        let row = &config::table::OPTIONS[index];
        let section = row.section.replace("TYPE", "nvidia-35");
        let head = if section.is_empty() { String::new() } else { format!("[{section}]\n") };
        for line in problems(&format!("{head}{} = {value}", row.key), &[]) {
            prop_assert!(line == "accepted" || line.contains("not TOML") || line.contains(row.key) || row.section == "placement", "{}", line);
            prop_assert!(!line.contains("bug"), "{}", line);
        }
    }

    #[test]
    fn any_variable_is_read_or_refused(name in "BERTH_[A-Za-z_é-]{0,40}", value in "\\PC{0,40}") {
        let _ = problems("", &[(&name, &value)]);
    }
}
