//! Tests of queries, by tables.

mod cloud;

use serde_json::{Value, json};

use super::*;
use berth_scheduler_objects::testing::request;

fn ask(
    asked: &Value,
    options: &SchedulerOptions,
    cloud: &Cloud<'_>,
) -> Result<PlacementQuery, String> {
    placement_query(&request(asked), options, cloud).map_err(|error| error.to_string())
}

/// The decoded query without the parameters that every query has.
fn plain(query: &str) -> String {
    let query = query
        .replace("%3A", ":")
        .replace("%2C", ",")
        .replace("%21", "!");
    let query = query.replace("&root_required=!COMPUTE_STATUS_DISABLED", "");
    query.replace("limit=1000&", "")
}

fn spec(extra_specs: &Value) -> Value {
    json!({"flavor": {"vcpus": 2, "memory_mb": 512, "root_gb": 1, "extra_specs": extra_specs}})
}

#[test]
fn a_flavor_becomes_amounts() {
    let flavor = |flavor: Value| json!({"flavor": flavor});
    for (asked, expected) in [
        (
            flavor(
                json!({"vcpus": 2, "memory_mb": 512, "root_gb": 1, "ephemeral_gb": 2, "swap": 1025}),
            ),
            "resources=DISK_GB:5,MEMORY_MB:512,VCPU:2",
        ),
        (
            json!({"flavor": {"root_gb": 9, "swap": 1}, "is_bfv": true}),
            "resources=DISK_GB:1,MEMORY_MB:512,VCPU:1",
        ),
        (
            flavor(json!({"root_gb": 0})),
            "resources=MEMORY_MB:512,VCPU:1",
        ),
        (
            spec(
                &json!({"resources:VCPU": "0", "resources:CUSTOM_GPU": "3", "resources:BOGUS": "1", "resources:VGPU": "x"}),
            ),
            "resources=CUSTOM_GPU:3,DISK_GB:1,MEMORY_MB:512",
        ),
        (
            spec(
                &json!({"resources1:VCPU": "2", "trait1:CUSTOM_A": "required", "trait1:CUSTOM_B": "forbidden"}),
            ),
            "required1=CUSTOM_A,!CUSTOM_B&resources=DISK_GB:1,MEMORY_MB:512&resources1=VCPU:2",
        ),
        (
            spec(
                &json!({"resources_a:VGPU": "1", "resources_b:VGPU": "1", "group_policy": "isolate"}),
            ),
            "group_policy=isolate&resources=DISK_GB:1,MEMORY_MB:512,VCPU:2&resources_a=VGPU:1&resources_b=VGPU:1",
        ),
        (
            spec(&json!({"hw:pmem": "2GB, 4GB,2GB"})),
            "resources=CUSTOM_PMEM_NAMESPACE_2GB:2,CUSTOM_PMEM_NAMESPACE_4GB:1,DISK_GB:1,MEMORY_MB:512,VCPU:2",
        ),
        (
            spec(&json!({"trait:HW_CPU_X86_VMX": "required", "trait:CUSTOM_X": "maybe"})),
            "required=HW_CPU_X86_VMX&resources=DISK_GB:1,MEMORY_MB:512,VCPU:2",
        ),
    ] {
        let got = ask(&asked, &SchedulerOptions::default(), &Cloud::default()).expect(expected);
        assert_eq!(plain(&got.query), expected);
        assert!(!got.pinning_requested);
    }
}

#[test]
fn the_string_is_encoded_and_in_order() {
    let got = ask(&json!({}), &SchedulerOptions::default(), &Cloud::default()).expect("a question");
    assert_eq!(
        got.query,
        "limit=1000&resources=DISK_GB%3A1%2CMEMORY_MB%3A512%2CVCPU%3A1&root_required=%21COMPUTE_STATUS_DISABLED"
    );
}

#[test]
fn dedicated_cpus_are_asked_for_twice() {
    let mut options = SchedulerOptions::default();
    for (specs, first, fallback) in [
        (
            json!({"hw:cpu_policy": "dedicated"}),
            "PCPU:2",
            Some("VCPU:2"),
        ),
        (
            json!({"hw:cpu_policy": "dedicated", "hw:emulator_threads_policy": "isolate"}),
            "PCPU:3",
            Some("VCPU:2"),
        ),
        (
            json!({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0"}),
            "PCPU:1,VCPU:1",
            None,
        ),
        (json!({"hw:cpu_policy": "shared"}), "VCPU:2", None),
    ] {
        let whole = |cpus: &str| format!("resources=DISK_GB:1,MEMORY_MB:512,{cpus}");
        let got = ask(&spec(&specs), &options, &Cloud::default()).expect(first);
        assert_eq!(plain(&got.query), whole(first));
        let got_fallback = got.fallback_query.as_deref().map(plain);
        assert_eq!(got_fallback, fallback.map(whole), "{first}");
        assert_eq!(got.pinning_requested, fallback.is_some());
    }
    options.workarounds.disable_fallback_pcpu_query = true;
    let dedicated = spec(&json!({"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "isolate"}));
    let got = ask(&dedicated, &options, &Cloud::default()).expect("a question");
    assert_eq!(got.fallback_query, None);
    assert!(plain(&got.query).contains("required=!HW_CPU_HYPERTHREADING&"));
}

#[test]
fn flavor_and_image_become_traits() {
    let uefi = |more: Value| {
        let mut properties = json!({"hw_firmware_type": "uefi"});
        for (key, value) in more.as_object().expect("an object") {
            properties[key] = value.clone();
        }
        properties
    };
    for (specs, image, name, value) in [
        (
            json!({"hw:tpm_version": "2.0", "hw:tpm_model": "tpm-crb"}),
            json!({}),
            "required",
            "COMPUTE_SECURITY_TPM_2_0,COMPUTE_SECURITY_TPM_CRB",
        ),
        (
            json!({"hw:tpm_version": "1.2"}),
            json!({}),
            "root_required",
            "COMPUTE_SECURITY_TPM_SECRET_SECURITY_USER,!COMPUTE_STATUS_DISABLED",
        ),
        (
            json!({"os:secure_boot": "required"}),
            json!({}),
            "required",
            "COMPUTE_SECURITY_UEFI_SECURE_BOOT",
        ),
        (
            json!({"hw:maxphysaddr_mode": "emulate"}),
            json!({}),
            "required",
            "COMPUTE_ADDRESS_SPACE_EMULATED",
        ),
        (
            json!({"hw:pci_numa_affinity_policy": "socket"}),
            json!({}),
            "required",
            "COMPUTE_SOCKET_PCI_NUMA_AFFINITY",
        ),
        (
            json!({}),
            uefi(json!({"hw_firmware_stateless": "true"})),
            "required",
            "COMPUTE_SECURITY_STATELESS_FIRMWARE",
        ),
        (
            json!({"hw:mem_encryption": "true"}),
            uefi(json!({})),
            "required",
            "HW_CPU_X86_AMD_SEV",
        ),
        (
            json!({"hw:mem_encryption": "1"}),
            uefi(json!({})),
            "resources",
            "DISK_GB:1,MEMORY_MB:512,MEM_ENCRYPTION_CONTEXT:1,VCPU:2",
        ),
        (
            json!({"hw:mem_encryption": "1", "hw:mem_encryption_model": "intel-tdx"}),
            uefi(json!({"hw_firmware_stateless": "true", "hw_video_model": "none"})),
            "required",
            "COMPUTE_SECURITY_STATELESS_FIRMWARE,HW_CPU_X86_INTEL_TDX",
        ),
        (
            json!({}),
            json!({"trait:CUSTOM_IMG": "required"}),
            "required",
            "CUSTOM_IMG",
        ),
        (
            json!({"accel:device_profile": "dp"}),
            json!({}),
            "root_required",
            "COMPUTE_ACCELERATORS,!COMPUTE_STATUS_DISABLED",
        ),
        (
            json!({"hw:virtio_packed_ring": "yes"}),
            json!({}),
            "root_required",
            "COMPUTE_NET_VIRTIO_PACKED,!COMPUTE_STATUS_DISABLED",
        ),
        (
            json!({"hw:ephemeral_encryption": "true", "hw:ephemeral_encryption_format": "luks"}),
            json!({}),
            "root_required",
            "COMPUTE_EPHEMERAL_ENCRYPTION,COMPUTE_EPHEMERAL_ENCRYPTION_LUKS,!COMPUTE_STATUS_DISABLED",
        ),
        (
            json!({"hw:sound_model": "virtio"}),
            json!({}),
            "root_required",
            "COMPUTE_SOUND_MODEL_VIRTIO,!COMPUTE_STATUS_DISABLED",
        ),
    ] {
        let mut asked = spec(&specs);
        asked["image"] = json!({"properties": image});
        let got = ask(&asked, &SchedulerOptions::default(), &Cloud::default()).expect(value);
        let query = got
            .query
            .replace("%3A", ":")
            .replace("%2C", ",")
            .replace("%21", "!");
        let parameter = format!("{name}={value}");
        assert!(
            query.split('&').any(|it| it == parameter),
            "{parameter} {query}"
        );
    }
}

#[test]
fn what_contradicts_itself_is_not_asked() {
    for (specs, image, sentence) in [
        (
            json!({"hw:mem_encryption": "true"}),
            json!({}),
            "hw:mem_encryption needs an image with hw_firmware_type=uefi",
        ),
        (
            json!({"hw:mem_encryption": "true", "hw:mem_encryption_model": "intel-tdx"}),
            json!({"hw_firmware_type": "uefi", "hw_firmware_stateless": "yes"}),
            "hw:mem_encryption needs an image with hw_video_model=none, and this one has no such property",
        ),
        (
            json!({"hw:mem_encryption": "true"}),
            json!({"hw_mem_encryption": "false"}),
            "the flavor has hw:mem_encryption=true, and",
        ),
        (
            json!({"hw:tpm_version": "1.2", "hw:tpm_model": "tpm-crb"}),
            json!({}),
            "hw:tpm_model tpm-crb needs",
        ),
        (
            json!({"hw:tpm_version": "3.0"}),
            json!({}),
            "hw:tpm_version should be one of 1.2, 2.0, and is 3.0",
        ),
        (
            json!({"os:secure_boot": "required"}),
            json!({"os_secure_boot": "disabled"}),
            "the flavor has os:secure_boot=required, and",
        ),
        (
            json!({"hw:sound_model": "gramophone"}),
            json!({}),
            "hw:sound_model should be one of ",
        ),
    ] {
        let mut asked = spec(&specs);
        asked["image"] = json!({"properties": image});
        let error =
            ask(&asked, &SchedulerOptions::default(), &Cloud::default()).expect_err(sentence);
        assert!(error.starts_with(sentence), "{error}");
    }
    let error = ask(
        &json!({"image": null}),
        &SchedulerOptions::default(),
        &Cloud::default(),
    );
    assert!(
        error
            .expect_err("no image")
            .starts_with("the request has no image")
    );
}

#[test]
fn so_many_devices_of_an_alias_are_asked_for_as_a_host_may_have() {
    let mut options = SchedulerOptions::default();
    options.filter_scheduler.pci_in_placement = true;
    for (count, is_good) in [
        (1, true),
        (1000, true),
        (1001, false),
        (0, false),
        (-1, false),
    ] {
        let asked = json!({"pci_requests": [{"count": count, "alias_name": "a", "request_id": "r",
            "spec": [{"vendor_id": "8086", "product_id": "1520"}]}]});
        let refused = ask(&asked, &options, &Cloud::default()).err();
        let sentence =
            format!("the PCI alias a asks for {count} devices; should be from 1 to 1000");
        assert_eq!(refused, (!is_good).then_some(sentence), "{count}");
    }
}
