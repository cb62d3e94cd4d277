//! Findings, as table tests.

use serde_json::{Value, json};

use super::*;

fn found(document: &Value) -> Vec<String> {
    let catalogue = Catalogue::read(document).expect("a catalogue");
    let findings = lint(&catalogue);
    let json = serde_json::to_string(&findings).expect("findings are JSON");
    let back: Vec<LintFinding> = serde_json::from_str(&json).expect("and come back");
    assert_eq!(back, findings);
    findings.iter().map(ToString::to_string).collect()
}

/// The findings for a flavor with one extra spec, with the capabilities and aggregate filters enabled.
fn of_spec(key: &str, value: &str) -> Vec<String> {
    found(&json!({
        "flavors": [{"name": "f", "extra_specs": {key: value}}],
        "options": {"filter_scheduler": {"enabled_filters": [
            "ComputeCapabilitiesFilter", "AggregateInstanceExtraSpecsFilter"]}},
    }))
}

#[test]
fn extra_specs_are_known_and_have_values_that_someone_can_read() {
    let unknown = "no extra spec has this name, so it is never read";
    for (key, value, expected) in [
        ("hw:cpu_policy", "dedicated", ""),
        (
            "hw:cpu_polcy",
            "dedicated",
            &format!("error: flavor f, hw:cpu_polcy: {unknown}; right would be: hw:cpu_policy"),
        ),
        (
            "hw:mine",
            "1",
            &format!("error: flavor f, hw:mine: {unknown}"),
        ),
        (
            "capabilites:vcpus_total",
            ">= 8",
            &format!(
                "error: flavor f, capabilites:vcpus_total: {unknown}; right would be: capabilities:vcpus_total"
            ),
        ),
        (
            "ours:x",
            "1",
            "note: flavor f, ours:x: no filter reads this scope",
        ),
        (
            "hw:cpu_policy",
            "pinned",
            "error: flavor f, hw:cpu_policy: the value is `pinned`; right would be: one of dedicated, mixed, shared",
        ),
        ("hw:numa_nodes", "2", ""),
        ("hw:numa_mem.1", "512", ""),
        (
            "hw:numa_nodes",
            "two",
            "error: flavor f, hw:numa_nodes: the value is `two`; right would be: a whole number from 1 on",
        ),
        ("hw_rng:allowed", "True", ""),
        ("resources:VGPU", "1", ""),
        ("resources_nic0:CUSTOM_NIC", "0", ""),
        ("resources1:VCPU", "2", ""),
        ("resources1:PGPU", "1", ""),
        (
            "resources1:PGPU",
            "2",
            "error: flavor f, resources1:PGPU: it asks for 2 units of one provider, and each provider of PGPU has one, so no \
             host has them; right would be: 2 groups, as resources1:PGPU=1 and resources2:PGPU=1, and group_policy=none",
        ),
        (
            "resources:CUSTOM_PCI",
            "3",
            "error: flavor f, resources:CUSTOM_PCI: it asks for 3 units of one provider",
        ),
        (
            "hw:cpu_realtime_mask",
            "^0",
            "note: flavor f, hw:cpu_realtime_mask: hosts do not read it: it has an effect only with hw:cpu_realtime",
        ),
        (
            "quota:cpu_limit",
            "512",
            "error: flavor f, quota:cpu_limit: each request by it is refused: quota:cpu_limit is not supported: only hosts of VMware",
        ),
        (
            "hw:tpm_version",
            "2.0",
            "error: flavor f, hw:tpm_version: each request by it is refused: hw:tpm_version is not supported: guests have no TPM",
        ),
        ("hw:mem_encryption", "false", ""),
        ("hw:watchdog_action", "reset", ""),
        ("hw:cpu_max_sockets", "1", ""),
        ("hw:mem_page_size", "2MB", ""),
        (
            "hw:mem_page_size",
            "2 MB",
            "error: flavor f, hw:mem_page_size: each request by it is refused: flavor.extra_specs: hw:mem_page_size is \"2 MB\": expected",
        ),
        ("accel:device_profile", "gpu", ""),
        (
            "hw:mem_encryption_model",
            "intel-sgx",
            "error: flavor f, hw:mem_encryption_model: the value is `intel-sgx`; right would be: one of amd-sev, amd-sev-es, amd-sev-snp, intel-tdx",
        ),
        (
            "resources:VPCU",
            "2",
            "error: flavor f, resources:VPCU: this is not a resource class: ",
        ),
        (
            "resources:VCPU",
            "many",
            "error: flavor f, resources:VCPU: the value is `many`; right would be: a whole number from 0 on",
        ),
        ("trait:HW_CPU_X86_VMX", "required", ""),
        (
            "trait1:HW_CPU_X86_VMX",
            "yes",
            "error: flavor f, trait1:HW_CPU_X86_VMX: the value is `yes`; right would be: one of required, forbidden",
        ),
        (
            "trait:hw_x",
            "required",
            "error: flavor f, trait:hw_x: this is not a trait: ",
        ),
        (
            "pci_passthrough:alias",
            "gpu",
            "error: flavor f, pci_passthrough:alias: each request by it is refused: flavor.extra_specs.pci_passthrough:alias: should be \
             NAME:COUNT",
        ),
        (
            "pci_passthrough:alias",
            "gpu:1",
            "error: flavor f, pci_passthrough:alias: each request by it is refused: flavor.extra_specs.pci_passthrough:alias: there is \
             no alias gpu; [pci] alias of the conductor's host names none; right would be: an alias of [pci] alias, or a device profile",
        ),
        (
            "berth:same_link_group",
            "gpu",
            "error: flavor f, berth:same_link_group: each request by it is refused: flavor.extra_specs.berth:same_link_group: should \
             name aliases of pci_passthrough:alias, with commas between them, and names gpu",
        ),
        (
            "berth:same_link_groups",
            "gpu",
            "error: flavor f, berth:same_link_groups: no extra spec has this name, so it is never read; right would be: \
             berth:same_link_group",
        ),
        (
            "trust:trusted_host",
            "trusted",
            "warning: flavor f, trust:trusted_host: TrustedFilter, which would read it, is not enabled",
        ),
        (
            "capabilities:cpu_inf:model",
            "x",
            "warning: flavor f, capabilities:cpu_inf:model: hosts have no attribute cpu_inf: hosts without a stat \
             of this name are rejected; right would be: capabilities:cpu_info:model",
        ),
        ("group_policy", "isolate", ""),
        (
            "ssd",
            "true",
            "warning: flavor f, ssd: it has no scope: AggregateInstanceExtraSpecsFilter reads it, and so does \
             ComputeCapabilitiesFilter for hosts with a stat of this name; right would be: \
             aggregate_instance_extra_specs:ssd",
        ),
    ] {
        let got = of_spec(key, value).join("\n");
        assert!(
            got.starts_with(expected) && got.is_empty() == expected.is_empty(),
            "{key}: {got}"
        );
    }
}

#[test]
fn demands_have_operators_and_operands_that_can_be_compared() {
    let whole = "so the whole text is what the value should be";
    for (value, expected) in [
        (">= 8", String::new()),
        ("8", String::new()),
        ("x86_64", String::new()),
        ("<in> aes", String::new()),
        ("<or> a <or> b", String::new()),
        ("<all-in> aes mmx", String::new()),
        (">=8", format!("error `>=` and `8` have no blank between them, {whole}; right would be: >= 8")),
        ("==8", format!("error `==` and `8` have no blank between them, {whole}; right would be: == 8")),
        ("=8", format!("error `=` and `8` have no blank between them, {whole}; right would be: = 8")),
        ("s==x y", format!("error `s==` and `x y` have no blank between them, {whole}; right would be: s== x y")),
        ("<in>aes", format!("error `<in>` and `aes` have no blank between them, {whole}; right would be: <in> aes")),
        ("> 8", format!("error `>` is no operator, {whole}; right would be: >= 8")),
        ("<8", format!("error `<` is no operator, {whole}; right would be: <= 8")),
        ("> x", format!("error `>` is no operator, {whole}; right would be: s> x")),
        (">=", "error nothing follows `>=`, so no host matches".to_owned()),
        ("<or>", "error nothing follows `<or>`, so no host matches".to_owned()),
        (">= eight", "error `>=` compares numbers, and `eight` is not a number, so no host matches".to_owned()),
        ("== x", "error `==` compares numbers, and `x` is not a number, so no host matches; right would be: s== x".to_owned()),
        (">= 8 9", "warning only `8` is read of what follows `>=`; right would be: >= 8".to_owned()),
        ("<in> a b", "warning only `a` is read of what follows `<in>`; right would be: <all-in> a b".to_owned()),
    ] {
        for key in ["capabilities:vcpus_total", "aggregate_instance_extra_specs:k"] {
            let got = of_spec(key, value).join("\n");
            let got = got.replacen(&format!(": flavor f, {key}:"), "", 1);
            assert_eq!(got, expected, "{value}");
        }
    }
}

#[test]
fn a_demand_that_no_aggregate_meets_or_no_filter_reads_is_reported() {
    let document = |aggregates: Value, filters: &[&str]| {
        json!({
            "flavors": [{"name": "f", "properties": {"aggregate_instance_extra_specs:ssd": "true"}}],
            "aggregates": aggregates,
            "options": {"filter_scheduler.enabled_filters": filters},
        })
    };
    let filter = "AggregateInstanceExtraSpecsFilter";
    let place = "flavor f, aggregate_instance_extra_specs:ssd";
    let with = |key: &str| json!([{"name": "a", "metadata": {key: "true"}}]);
    assert_eq!(found(&document(with("ssd"), &[filter])), [""; 0]);
    assert_eq!(
        found(&document(with("sds"), &[filter]))[0],
        format!(
            "error: {place}: no aggregate has ssd, so {filter} rejects every host; right would be: sds"
        )
    );
    assert_eq!(
        found(&document(with("ssd"), &["RamFilter"])),
        [
            format!("warning: {place}: {filter}, which would read it, is not enabled"),
            format!("warning: aggregate a, ssd: {filter}, which would read it, is not enabled"),
        ]
    );
}

#[test]
fn keys_of_aggregates_are_read_by_a_filter_and_their_numbers_are_numbers() {
    let all = json!([
        "AggregateCoreFilter",
        "AggregateNumInstancesFilter",
        "AggregateImagePropertiesIsolation"
    ]);
    for (key, value, expected) in [
        ("cpu_allocation_ratio", "4.0", ""),
        (
            "cpu_alocation_ratio",
            "4.0",
            "error: aggregate a, cpu_alocation_ratio: no key of this name is ever read; right would be: cpu_allocation_ratio",
        ),
        (
            "cpu_allocation_ratio",
            "4,0",
            "error: aggregate a, cpu_allocation_ratio: `4,0` is no number, so on its hosts no aggregate overrides the \
             option; right would be: a number",
        ),
        (
            "max_instances_per_host",
            "5.5",
            "error: aggregate a, max_instances_per_host: `5.5` is no number, so on its hosts no aggregate overrides the \
             option; right would be: a whole number",
        ),
        (
            "ram_weight_multiplier",
            "high",
            "error: aggregate a, ram_weight_multiplier: `high` is no number, so on its hosts no aggregate overrides the \
             option; right would be: a number",
        ),
        (
            "ram_weight_multiplier",
            "inf",
            "warning: aggregate a, ram_weight_multiplier: `inf` is not finite, so on its hosts the option may hold \
             instead; right would be: a finite number",
        ),
        (
            "ram_allocation_ratio",
            "2",
            "warning: aggregate a, ram_allocation_ratio: AggregateRamFilter, which would read it, is not enabled",
        ),
        (
            "filter_tenant_id_2",
            "p",
            "warning: aggregate a, filter_tenant_id_2: AggregateMultiTenancyIsolation, which would read it, is not enabled",
        ),
        (
            "availability_zone",
            "a,b",
            "warning: aggregate a, availability_zone: a zone is one name: Placement's aggregates are compared with all of it",
        ),
        ("availability_zone", "a", ""),
        ("os_distro", "windows", ""),
        (
            "trait:CUSTOM_X",
            "required",
            "warning: aggregate a, trait:CUSTOM_X: [scheduler] enable_isolated_aggregate_filtering, which would read it, is not enabled",
        ),
        (
            "rack",
            "1",
            "note: aggregate a, rack: no filter or weigher reads it, and no flavor of the file asks for it",
        ),
    ] {
        let got = found(&json!({
            "aggregates": [{"name": "a", "metadata": {key: value}}],
            "options": {"filter_scheduler": {"enabled_filters": all}},
        }));
        assert_eq!(got.join("\n"), expected, "{key}={value}");
    }
}

#[test]
fn a_group_of_a_device_profile_asks_for_what_a_provider_has() {
    for (groups, expected) in [
        (
            json!([{"resources:FPGA": "1", "trait:CUSTOM_A": "required"}]),
            "",
        ),
        (json!([{"resources:VGPU": 2}]), ""),
        (
            json!([{"resources:FPGA": "1"}, {"resources:PGPU": 2}]),
            "error: device profile p, groups[1], resources:PGPU: it asks for 2 units of one provider, and each provider of \
             PGPU has one, so no host has them; right would be: 2 groups with resources:PGPU=1 each",
        ),
        (
            json!([{"resouces:FPGA": "1"}]),
            "error: device profile p, groups[0], resouces:FPGA: keys begin with resources:, trait: or accel:; right would \
             be: resources:FPGA",
        ),
        (
            json!([{"resources:PGPU": 1, "accel:same_link_group": "a", "accel:note": "b"}]),
            "",
        ),
        (
            json!([{"resources:PGPU": 1, "accel:same_link_groups": "a"}]),
            "warning: device profile p, groups[0], accel:same_link_groups: nothing reads this name, so the devices may be of different \
             link groups; right would be: accel:same_link_group",
        ),
        (
            json!([{"resources:FPGA": "1", "trait:CUSTOM_A": "maybe"}]),
            "error: device profile p, groups[0]: the accelerator service refuses it: ",
        ),
        (
            json!([{"trait:CUSTOM_A": "required"}]),
            "error: device profile p, groups[0]: it asks for no resource, so for no device; right would be: resources:CLASS with 1",
        ),
        (
            json!([]),
            "error: device profile p: it has no group, so it asks for no device",
        ),
    ] {
        let got = found(&json!({"device_profiles": [{"name": "p", "groups": groups}]})).join("\n");
        assert!(
            got.starts_with(expected) && got.is_empty() == expected.is_empty(),
            "{groups}: {got}"
        );
    }
}

#[test]
fn images_have_properties_that_are_known() {
    for (name, value, expected) in [
        ("hw_disk_bus", "virtio", ""),
        ("architecture", "amd64", ""),
        ("ours", "x", ""),
        (
            "hw_disk_bsu",
            "virtio",
            "error: image i, hw_disk_bsu: no property has this name, so no filter reads it; right would be: hw_disk_bus",
        ),
        (
            "cinder_encryption_key_id",
            "8f2b",
            "error: image i, cinder_encryption_key_id: each request with it is refused: Direct booting of an image uploaded",
        ),
        (
            "img_signature",
            "x",
            "error: image i, img_signature: each request with it is refused: img_signature is not supported: hosts do not verify",
        ),
        (
            "hw_colour_of_case",
            "red",
            "error: image i, hw_colour_of_case: no property has this name, so no filter reads it",
        ),
        (
            "hw_firmware_type",
            "efi",
            "error: image i, hw_firmware_type: each request with it is refused: the value is `efi`; right would be: ",
        ),
        (
            "hw_machine_type",
            "i440",
            "error: image i, hw_machine_type: each request with it is refused: the value is `i440`: expected q35, pc, ",
        ),
    ] {
        let got =
            found(&json!({"images": [{"name": "i", "properties": {name: value}}]})).join("\n");
        assert!(
            got.starts_with(expected) && got.is_empty() == expected.is_empty(),
            "{name}: {got}"
        );
    }
}

#[test]
fn what_no_host_boots_is_named() {
    let found = |flavor: Value| {
        found(&json!({"flavors": [flavor], "device_profiles": [
            {"name": "gpu", "groups": [{"resources:PGPU": "1"}]}]}))
    };
    for (flavor, expected) in [
        (json!({"name": "f", "swap": 0}), ""),
        (json!({"name": "f", "Swap": ""}), ""),
        (json!({"name": "f", "swap": 512}), ""),
        (
            json!({"name": "f", "extra_specs": {"accel:device_profile": "gpu"}}),
            "",
        ),
        (
            json!({"name": "f", "extra_specs": {"accel:device_profile": "gup"}}),
            "error: flavor f, accel:device_profile: each request by it is refused: there is no device profile gup; right would be: gpu",
        ),
        (
            json!({"name": "f", "vcpus": 4, "ram": 1024, "extra_specs": {"hw:cpu_sockets": "2"}}),
            "",
        ),
        (
            json!({"name": "f", "vcpus": 3, "ram": 1024, "extra_specs": {"hw:cpu_max_sockets": "1", "hw:cpu_max_cores": "2"}}),
            "",
        ),
        (
            json!({"name": "f", "vcpus": 4, "ram": 1024, "extra_specs": {"hw:cpu_max_sockets": "1", "hw:cpu_max_cores": "2",
                "hw:cpu_max_threads": "1"}}),
            "error: flavor f: each request by it is refused: flavor.extra_specs: hw:cpu_max_sockets is \"1\": 4 virtual CPUs are not \
             a product of at most 1 sockets, 2 cores and 1 threads",
        ),
        (
            json!({"name": "f", "vcpus": 2, "ram": 1025, "extra_specs": {"hw:mem_page_size": "2MB"}}),
            "error: flavor f: each request by it is refused: flavor.extra_specs: hw:mem_page_size is \"2MB\": the 1025 MiB of a \
             cell are not whole pages",
        ),
    ] {
        let got = found(flavor.clone()).join("\n");
        assert_eq!(got, expected, "{flavor}");
    }
}

#[test]
fn server_groups_have_a_policy_that_a_filter_enforces() {
    for (policy, option, expected) in [
        ("affinity", "x", ""),
        ("soft-anti-affinity", "x", ""),
        (
            "anti-afinity",
            "x",
            "error: server group g, policy: no filter or weigher sees to `anti-afinity`; right would be: anti-affinity",
        ),
        (
            "near",
            "x",
            "error: server group g, policy: no filter or weigher sees to `near`; right would be: one of affinity, \
             anti-affinity, soft-affinity, soft-anti-affinity",
        ),
        ("affinity", "enabled_filters", ""),
        (
            "anti-affinity",
            "enabled_filters",
            "warning: server group g, policy: ServerGroupAntiAffinityFilter, which would see to it, is not enabled",
        ),
        (
            "soft-affinity",
            "weight_classes",
            "warning: server group g, policy: ServerGroupSoftAffinityWeigher, which would see to it, is not enabled",
        ),
    ] {
        let names = match option {
            "enabled_filters" => json!(["ServerGroupAffinityFilter"]),
            _ => json!(["RAMWeigher"]),
        };
        let options = match option {
            "x" => json!({}),
            option => json!({"filter_scheduler": {option: names}}),
        };
        let got =
            found(&json!({"server_groups": [{"name": "g", "policy": policy}], "options": options}));
        assert_eq!(got.join("\n"), expected, "{policy}");
    }
}

#[test]
fn fewer_candidates_than_hosts_are_reported_where_the_file_says_how_many_there_are() {
    let limited = |limit: u64, hosts: Option<u64>| {
        let options = json!({"scheduler": {"max_placement_results": limit}});
        match hosts {
            Some(hosts) => found(&json!({"options": options, "hosts": hosts})),
            None => found(&json!({"options": options})),
        }
    };
    assert_eq!(
        limited(100, Some(101)),
        [
            "note: option [scheduler] max_placement_results: of 101 hosts 100 at most are looked at for a request, so one \
             that fits may not be found; right would be: 101 at least"
        ]
    );
    assert_eq!(limited(100, Some(100)), [""; 0]);
    assert_eq!(limited(1, None), [""; 0]);
}

#[test]
fn a_flavor_whose_cells_cannot_be_is_reported() {
    let got = found(
        &json!({"flavors": [{"name": "f", "vcpus": 2, "ram": 512, "disk": 1,
        "properties": {"hw:numa_nodes": 3}}]}),
    );
    assert_eq!(got.len(), 1, "{got:?}");
    assert!(
        got[0].starts_with("error: flavor f: each request by it is refused: "),
        "{got:?}"
    );
}

#[test]
fn what_plugins_declare_counts() {
    let manifest = json!({
        "schema": berth_scheduler_objects::plugin::SCHEMA, "name": "rack", "kind": "both",
        "extra_specs": [{"name": "rack:power_w", "type": "integer"}, {"name": "tier", "type": "string", "enum": ["a", "b"]}],
    });
    for (flavor, aggregate, enabled, expected) in [
        (
            json!({"rack:power_w": 300, "tier": "a"}),
            json!({"rack_weight_multiplier": "2"}),
            "rack",
            "",
        ),
        (
            json!({"rack:power_w": "much"}),
            json!({}),
            "rack",
            "error: flavor f, rack:power_w: the value is `much`, and the plugin rack reads it; right would be: a whole number",
        ),
        (
            json!({"tier": "c"}),
            json!({}),
            "rack",
            "error: flavor f, tier: the value is `c`, and the plugin rack reads it; right would be: one of a, b",
        ),
        (
            json!({"rack:pwoer_w": "300"}),
            json!({}),
            "rack",
            "error: flavor f, rack:pwoer_w: no extra spec has this name, so it is never read; right would be: rack:power_w",
        ),
        (
            json!({}),
            json!({"rack_weight_multiplier": "x"}),
            "rack",
            "error: aggregate g, rack_weight_multiplier: `x` is no number, so on its hosts no aggregate overrides the option; \
             right would be: a number",
        ),
    ] {
        let got = found(&json!({
            "flavors": [{"name": "f", "extra_specs": flavor}],
            "aggregates": [{"name": "g", "metadata": aggregate}],
            "options": {"filter_scheduler": {"enabled_filters": [enabled], "weight_classes": ["rack"]}},
            "plugins": [manifest],
        }));
        assert_eq!(got.join("\n"), expected);
    }
}

#[test]
fn a_document_that_is_none_is_refused_by_its_place() {
    for (document, expected) in [
        (
            json!([]),
            "it should be an object with flavors, aggregates, device_profiles, images, server_groups, options, plugins, hosts, and is a list",
        ),
        (
            json!({"flavor": []}),
            "there is no list flavor; there are flavors, aggregates, device_profiles, images, server_groups, options, plugins, hosts; is flavors meant?",
        ),
        (
            json!({"flavors": {}}),
            "flavors: should be a list, and is an object",
        ),
        (
            json!({"flavors": [{"name": "a"}, 42]}),
            "flavors[1]: should be an object, and is 42",
        ),
        (
            json!({"hosts": "many"}),
            "hosts: should be how many hosts there are, a whole number",
        ),
        (
            json!({"flavors": [{"name": "a"}, {}]}),
            "flavors[1]: missing field `name`",
        ),
        (
            json!({"images": [{"name": "i", "properties": {"a": []}}]}),
            "images[0]: a: should be a text",
        ),
        (
            json!({"options": {"x": 1}}),
            "options.x: should be a group of options, or `group.option`",
        ),
        (
            json!({"options": {"filter_scheduler.ram_weight_multiplier": "x"}}),
            "options.filter_scheduler.ram_weight_multiplier: invalid type: string \"x\", expected f64",
        ),
        (
            json!({"plugins": [{"schema": "x", "name": "rack", "kind": "both"}]}),
            "plugins[0]: its manifest should have the schema berth-scheduler-plugin/1, and has x",
        ),
    ] {
        let error = Catalogue::read(&document)
            .map(|_| ())
            .map_err(|error| error.to_string());
        assert_eq!(error, Err(expected.to_owned()));
    }
    let long = "x".repeat(100_000);
    for document in [
        json!(long),
        json!({long.clone(): []}),
        json!({"flavors": long}),
        json!({"flavors": [long]}),
        json!({"flavors": [{"name": "a", "vcpus": long}]}),
        json!({"options": {long.clone(): 1}}),
    ] {
        let error = Catalogue::read(&document).expect_err("no catalogue");
        let bytes = error.to_string().len();
        assert!(bytes < 2_000, "{bytes} bytes");
    }
}
