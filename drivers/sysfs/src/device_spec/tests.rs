use berth_model::PciAddress;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn function(address: &str, sriov: Sriov) -> PciFunction {
    PciFunction {
        address: address.parse().unwrap(),
        vendor: 0x8086,
        device: 0x10ca,
        class: 0x02_0000,
        driver: None,
        numa_node: None,
        iommu_group: Some(1),
        sriov,
    }
}

fn one(value: Value) -> DeviceSpec {
    DeviceSpec::read(1, &value).unwrap().remove(0)
}

fn refused(value: Value) -> DeviceSpecError {
    DeviceSpec::read(3, &value).unwrap_err()
}

#[test]
fn an_address_means_what_nova_means_by_it() {
    for (address, means, not) in [
        (json!("0000:0a:00.1"), "0000:0a:00.1", "0000:0a:00.2"),
        (json!("0a:00.1"), "0001:0a:00.1", "0000:0b:00.1"),
        (json!("*:0a:00.*"), "0003:0a:00.7", "0000:0a:01.0"),
        (json!(":0a:00."), "0003:0a:00.7", "0000:0a:01.0"),
        (json!("*:*:*.7"), "0003:0a:00.7", "0000:0a:01.0"),
        (json!(".7"), "0003:0a:00.7", "0000:0a:01.0"),
        (json!("0:a:0.1"), "0000:0a:00.1", "0000:0a:00.0"),
        (
            json!({"bus": "0a", "function": "[0-3]"}),
            "0000:0a:1f.3",
            "0000:0a:1f.4",
        ),
        (
            json!({"domain": ".*", "bus": "0a|0b", "slot": "01"}),
            "0000:0b:01.0",
            "0000:0b:02.0",
        ),
        // Python's re.match: the beginning is enough.
        (json!({"bus": "0"}), "0000:0a:00.0", "0000:1a:00.0"),
        (
            json!({"domain": "0000", "bus": "*"}),
            "0000:ff:00.0",
            "0001:ff:00.0",
        ),
    ] {
        let spec = one(json!({ "address": address }));
        assert!(
            spec.means(&function(means, Sriov::None), &[]),
            "{address} {means}"
        );
        assert!(
            !spec.means(&function(not, Sriov::None), &[]),
            "{address} {not}"
        );
    }
}

#[test]
fn a_physical_functions_address_means_its_virtual_functions() {
    let physical: PciAddress = "0a:00.0".parse().unwrap();
    let virtual_one = function("0a:10.1", Sriov::Virtual { physical });
    assert!(one(json!({"address": "0000:0a:00.0"})).means(&virtual_one, &[]));
    assert!(!one(json!({"address": "0000:0b:00.0"})).means(&virtual_one, &[]));
    let by_product = json!({"address": "0000:0a:00.0", "product_id": "10c9"});
    assert!(
        !one(by_product).means(&virtual_one, &[]),
        "the product must be its own"
    );
}

#[test]
fn ids_are_hexadecimal_with_or_without_a_prefix_or_any() {
    let nic = function("0a:00.0", Sriov::None);
    for (vendor, means) in [("8086", true), ("0x8086", true), ("10DE", false)] {
        assert_eq!(
            one(json!({"vendor_id": vendor})).means(&nic, &[]),
            means,
            "{vendor}"
        );
    }
    assert!(one(json!({"vendor_id": "*", "product_id": "10ca"})).means(&nic, &[]));
}

#[test]
fn novas_json_texts_are_taken_one_table_or_a_list() {
    let text = json!(r#"{"vendor_id": "8086", "trusted": "true", "physical_network": "net1"}"#);
    let spec = one(text);
    assert_eq!(spec.tags().trusted, Some(true));
    assert_eq!(spec.tags().physical_network.as_deref(), Some("net1"));
    let list = json!(r#"[{"vendor_id": "8086"}, {"vendor_id": "10de"}]"#);
    assert_eq!(DeviceSpec::read(1, &list).unwrap().len(), 2);
}

#[test]
fn a_tag_may_be_null_and_physical_network_is_then_there_without_a_name() {
    let text = json!(r#"{"vendor_id": "15b3", "physical_network": null, "trusted": null}"#);
    let tags = one(text).tags().clone();
    assert_eq!(tags.physical_network.as_deref(), Some(""));
    assert_eq!(tags.trusted, None);
    let empty = one(json!({"vendor_id": "15b3", "physical_network": ""}));
    assert_eq!(empty.tags(), &tags);
    // An address or an identifier that is null would match every device.
    for key in ["address", "vendor_id", "product_id", "devname"] {
        assert_eq!(refused(json!({"vendor_id": "15b3", key: null})).key, key);
    }
}

#[test]
fn tags_are_read_as_nova_reads_them() {
    let spec = one(json!({
        "vendor_id": "8086", "managed": "no", "live_migratable": "yes", "one_time_use": true,
        "remote_managed": "false", "resource_class": "gpu-a100", "traits": "big, HW_GPU_API_VULKAN,CUSTOM_X",
    }));
    let tags = spec.tags();
    assert_eq!(
        (
            tags.managed,
            tags.live_migratable,
            tags.one_time_use,
            tags.remote_managed,
            tags.trusted
        ),
        (Some(false), Some(true), Some(true), Some(false), None)
    );
    assert_eq!(
        tags.resource_class.as_ref().unwrap().as_str(),
        "CUSTOM_GPU_A100"
    );
    let names: Vec<_> = tags.traits.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["CUSTOM_BIG", "CUSTOM_X", "HW_GPU_API_VULKAN"]);
    let standard = one(json!({"vendor_id": "8086", "resource_class": "pgpu"}));
    assert_eq!(standard.tags().resource_class, Some(ResourceClass::PGPU));
}

use berth_model::ResourceClass;

#[test]
fn virtual_functions_are_counted_in_a_number_or_in_novas_text() {
    for (written, count) in [(json!(4), Some(4)), (json!("16"), Some(16))] {
        let spec = one(json!({"vendor_id": "8086", "num_vfs": written}));
        assert_eq!(spec.tags().num_vfs, count);
    }
    for wrong in [
        json!(0),
        json!(-1),
        json!("many"),
        json!(65_536),
        json!(1.5),
    ] {
        let entry = json!({"vendor_id": "8086", "num_vfs": wrong});
        let error = DeviceSpec::read(1, &entry).unwrap_err().to_string();
        assert!(
            error.contains("num_vfs") && error.contains("65535"),
            "{error}"
        );
    }
}

#[test]
fn a_vgpu_type_is_a_number_also_as_mediated_devices_have_it() {
    for written in [json!(558), json!("558"), json!("nvidia-558")] {
        let spec = one(json!({"vendor_id": "10de", "vgpu_type": written}));
        assert_eq!(spec.tags().vgpu_type, Some(558));
    }
    for wrong in [json!(0), json!("A40-8Q"), json!(true), json!(-5)] {
        let entry = json!({"vendor_id": "10de", "vgpu_type": wrong});
        let error = DeviceSpec::read(1, &entry).unwrap_err().to_string();
        assert!(
            error.contains("vgpu_type") && error.contains("creatable_vgpu_types"),
            "{error}"
        );
    }
}

#[test]
fn an_entry_that_could_mean_the_hosts_own_devices_by_mistake_is_refused() {
    for (entry, key, words) in [
        (json!({}), "", "every device"),
        (json!({"physical_network": "net1"}), "", "every device"),
        (json!({"address": "*:*:*.*"}), "", "every device"),
        (
            json!({"address": {"bus": ".*"}, "vendor_id": "*"}),
            "",
            "every device",
        ),
        (json!({"adress": "0a:00.0"}), "adress", "unknown key"),
        (
            json!({"address": "0a:00.0", "devname": "eth0"}),
            "devname",
            "not by both",
        ),
        (json!({"address": "1:2:3:4.5"}), "address", "more parts"),
        (json!({"address": "0a:20.0"}), "address", "slot is * or"),
        (json!({"address": "0a:00.8"}), "address", "function is * or"),
        (
            json!({"address": "0a:00.0.0"}),
            "address",
            "function is * or",
        ),
        (json!({"address": "g:00.0"}), "address", "bus is * or"),
        (json!({"address": 7}), "address", "is expected"),
        (
            json!({"address": {"bus": "["}}),
            "address.bus",
            "not a regular expression",
        ),
        (
            json!({"address": {"bus": "(a{1000}){1000}"}}),
            "address.bus",
            "not a regular expression",
        ),
        (
            json!({"address": {"buss": "0a"}}),
            "address.buss",
            "are known",
        ),
        (json!({"vendor_id": 8086}), "vendor_id", "in quotes"),
        (json!({"vendor_id": "80866"}), "vendor_id", "is not an id"),
        (json!({"vendor_id": "+808"}), "vendor_id", "is not an id"),
        (
            json!({"vendor_id": "8086", "managed": "maybe"}),
            "managed",
            "yes or no",
        ),
        (
            json!({"vendor_id": "8086", "resource_class": ""}),
            "resource_class",
            "empty",
        ),
        (
            json!({"vendor_id": "8086", "link_group": "NVLink 0"}),
            "link_group",
            "1 to 32 of a-z, 0-9 and -",
        ),
        (json!({"devname": ""}), "devname", "empty"),
        (json!("not json"), "", "it is not JSON"),
        (json!("7"), "", "a table"),
        (json!(7), "", "a table"),
    ] {
        let error = refused(entry.clone());
        let text = error.to_string();
        assert!(error.key == key && text.contains(words), "{entry}: {text}");
        assert!(text.starts_with("device_spec entry 3: "), "{text}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(address in any::<String>(), bus in any::<String>(), id in any::<String>()) {
        let _ = DeviceSpec::read(1, &json!({"address": address, "vendor_id": id}));
        let _ = DeviceSpec::read(1, &json!({"address": {"bus": bus}}));
        let _ = DeviceSpec::read(1, &json!(address));
    }
}

#[test]
fn a_key_stands_once() {
    for (text, message) in [
        (
            r#"{"address": "0a:00.0", "address": "0b:00.0"}"#,
            "\"address\" occurs twice",
        ),
        (
            r#"[{"address": {"bus": "0a", "bus": "0b"}}]"#,
            "\"bus\" occurs twice",
        ),
        (r#"{"address": "#, "it is not JSON"),
    ] {
        let refused = refused(json!(text)).to_string();
        assert!(refused.contains(message), "{refused}");
    }
    assert!(
        one(json!(r#"{"address": "0000:0a:00.0", "trusted": "true"}"#))
            .single()
            .is_some()
    );
}
