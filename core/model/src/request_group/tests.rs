//! The queries that Nova sends for the same flavor and image, byte for byte, and Berth's additions.

use super::*;
use crate::{CandidatesQuery, DeviceProfileGroup};

/// The input of one case, and the query that Nova 34.0.0 sends for it.
struct NovaQueryCase {
    /// vCPUs, memory in MiB, root and ephemeral disk in GiB, swap in MiB.
    sizes: (u32, u64, u64, u64, u64),
    specs: &'static str,
    image: &'static str,
    /// Whether all compute services report OWNER_NOVA.
    owner: bool,
    limit: Option<u32>,
    query: &'static str,
}

#[rustfmt::skip]
const NOVA: &[NovaQueryCase] = &[
    NovaQueryCase { sizes: (2, 2048, 0, 0, 512), specs: "resources:VCPU=0 os:secure_boot=optional", image: "", owner: false, limit: None,
        query: "resources=DISK_GB%3A1%2CMEMORY_MB%3A2048&root_required=%21COMPUTE_STATUS_DISABLED" },
    NovaQueryCase { sizes: (1, 512, 0, 0, 0), specs: "trait:CUSTOM_WIN=required hw:cpu_policy=dedicated", image: "", owner: false, limit: Some(1000),
        query: "limit=1000&required=CUSTOM_WIN&resources=MEMORY_MB%3A512%2CPCPU%3A1&root_required=%21COMPUTE_STATUS_DISABLED" },
    NovaQueryCase { sizes: (1, 512, 20, 0, 1025), specs: "", image: "", owner: false, limit: Some(1000),
        query: "limit=1000&resources=DISK_GB%3A22%2CMEMORY_MB%3A512%2CVCPU%3A1&root_required=%21COMPUTE_STATUS_DISABLED" },
    NovaQueryCase { sizes: (4, 2048, 0, 0, 512), specs: "group_policy=none hw:maxphysaddr_mode=passthrough", image: "", owner: true, limit: Some(1000),
        query: "group_policy=none&limit=1000&required=COMPUTE_ADDRESS_SPACE_PASSTHROUGH&resources=DISK_GB%3A1%2CMEMORY_MB%3A2048%2CVCPU%3A4&root_required=OWNER_NOVA%2C%21COMPUTE_STATUS_DISABLED" },
    NovaQueryCase { sizes: (4, 2048, 20, 5, 512), specs: "", image: "", owner: true, limit: Some(1000),
        query: "limit=1000&resources=DISK_GB%3A26%2CMEMORY_MB%3A2048%2CVCPU%3A4&root_required=OWNER_NOVA%2C%21COMPUTE_STATUS_DISABLED" },
    NovaQueryCase { sizes: (2, 512, 1, 0, 512), specs: "hw:pmem=2GB,2GB", image: "", owner: true, limit: Some(1000),
        query: "limit=1000&resources=CUSTOM_PMEM_NAMESPACE_2GB%3A2%2CDISK_GB%3A2%2CMEMORY_MB%3A512%2CVCPU%3A2&root_required=OWNER_NOVA%2C%21COMPUTE_STATUS_DISABLED" },
    NovaQueryCase { sizes: (1, 512, 20, 5, 1025), specs: "hw:sound_model=ich9 resources2:CUSTOM_FPGA=1 hw:tpm_model=tpm-crb group_policy=bad", image: "", owner: true, limit: None,
        query: "resources=DISK_GB%3A27%2CMEMORY_MB%3A512%2CVCPU%3A1&resources2=CUSTOM_FPGA%3A1&root_required=OWNER_NOVA%2C%21COMPUTE_STATUS_DISABLED" },
    NovaQueryCase { sizes: (2, 512, 0, 0, 512), specs: "hw:tpm_version=2.0 hw:tpm_secret_security=deployment", image: "hw_firmware_stateless=true hw_cpu_policy=dedicated", owner: true, limit: Some(1000),
        query: "limit=1000&required=COMPUTE_SECURITY_TPM_2_0%2CCOMPUTE_SECURITY_TPM_TIS&resources=DISK_GB%3A1%2CMEMORY_MB%3A512%2CPCPU%3A2&root_required=COMPUTE_SECURITY_TPM_SECRET_SECURITY_DEPLOYMENT%2COWNER_NOVA%2C%21COMPUTE_STATUS_DISABLED" },
    NovaQueryCase { sizes: (1, 2048, 0, 0, 1025), specs: "hw:ephemeral_encryption=true resources_net:CUSTOM_NIC=2 hw:pmem=2GB,4GB hw:ephemeral_encryption_format=luks", image: "", owner: true, limit: Some(1000),
        query: "limit=1000&resources=CUSTOM_PMEM_NAMESPACE_2GB%3A1%2CCUSTOM_PMEM_NAMESPACE_4GB%3A1%2CDISK_GB%3A2%2CMEMORY_MB%3A2048%2CVCPU%3A1&resources_net=CUSTOM_NIC%3A2&root_required=COMPUTE_EPHEMERAL_ENCRYPTION%2CCOMPUTE_EPHEMERAL_ENCRYPTION_LUKS%2COWNER_NOVA%2C%21COMPUTE_STATUS_DISABLED" },
    NovaQueryCase { sizes: (2, 512, 20, 0, 1025), specs: "hw:cpu_thread_policy=prefer trait1:CUSTOM_A=required resources:CUSTOM_GPU=2 hw:tpm_model=tpm-crb", image: "hw_cpu_policy=dedicated hw_firmware_type=uefi", owner: true, limit: Some(1000),
        query: "limit=1000&required1=CUSTOM_A&resources=CUSTOM_GPU%3A2%2CDISK_GB%3A22%2CMEMORY_MB%3A512%2CPCPU%3A2&resources1=&root_required=OWNER_NOVA%2C%21COMPUTE_STATUS_DISABLED" },
    NovaQueryCase { sizes: (1, 2048, 0, 5, 1025), specs: "", image: "", owner: true, limit: Some(1000),
        query: "limit=1000&resources=DISK_GB%3A7%2CMEMORY_MB%3A2048%2CVCPU%3A1&root_required=OWNER_NOVA%2C%21COMPUTE_STATUS_DISABLED" },
    NovaQueryCase { sizes: (2, 512, 1, 0, 0), specs: "trait1:CUSTOM_A=required trait:CUSTOM_WIN=forbidden", image: "", owner: true, limit: Some(1000),
        query: "limit=1000&required=%21CUSTOM_WIN&required1=CUSTOM_A&resources=DISK_GB%3A1%2CMEMORY_MB%3A512%2CVCPU%3A2&resources1=&root_required=OWNER_NOVA%2C%21COMPUTE_STATUS_DISABLED" },
    NovaQueryCase { sizes: (2, 2048, 1, 5, 0), specs: "trait:CUSTOM_WIN=required", image: "", owner: false, limit: Some(1000),
        query: "limit=1000&required=CUSTOM_WIN&resources=DISK_GB%3A6%2CMEMORY_MB%3A2048%2CVCPU%3A2&root_required=%21COMPUTE_STATUS_DISABLED" },
    NovaQueryCase { sizes: (4, 2048, 1, 5, 0), specs: "os:secure_boot=required", image: "", owner: true, limit: Some(1000),
        query: "limit=1000&required=COMPUTE_SECURITY_UEFI_SECURE_BOOT&resources=DISK_GB%3A6%2CMEMORY_MB%3A2048%2CVCPU%3A4&root_required=OWNER_NOVA%2C%21COMPUTE_STATUS_DISABLED" },
    NovaQueryCase { sizes: (4, 512, 0, 0, 1025), specs: "accel:device_profile=dp1 group_policy=isolate resources:VCPU=4", image: "", owner: true, limit: Some(1000),
        query: "group_policy=isolate&limit=1000&resources=DISK_GB%3A2%2CMEMORY_MB%3A512%2CVCPU%3A4&root_required=COMPUTE_ACCELERATORS%2COWNER_NOVA%2C%21COMPUTE_STATUS_DISABLED" },
    NovaQueryCase { sizes: (1, 512, 0, 0, 512), specs: "resources:VCPU=4 hw:ephemeral_encryption_format=luks", image: "hw_firmware_type=uefi", owner: true, limit: Some(1000),
        query: "limit=1000&resources=DISK_GB%3A1%2CMEMORY_MB%3A512%2CVCPU%3A4&root_required=OWNER_NOVA%2C%21COMPUTE_STATUS_DISABLED" },
    NovaQueryCase { sizes: (1, 512, 0, 0, 0), specs: "trait1:CUSTOM_A=required hw:cpu_policy=dedicated", image: "", owner: false, limit: Some(1000),
        query: "limit=1000&required1=CUSTOM_A&resources=MEMORY_MB%3A512%2CPCPU%3A1&resources1=&root_required=%21COMPUTE_STATUS_DISABLED" },
    NovaQueryCase { sizes: (4, 2048, 0, 0, 1), specs: "", image: "hw_firmware_stateless=true", owner: false, limit: None,
        query: "resources=DISK_GB%3A1%2CMEMORY_MB%3A2048%2CVCPU%3A4&root_required=%21COMPUTE_STATUS_DISABLED" },
    NovaQueryCase { sizes: (1, 2048, 0, 0, 512), specs: "", image: "", owner: false, limit: Some(1000),
        query: "limit=1000&resources=DISK_GB%3A1%2CMEMORY_MB%3A2048%2CVCPU%3A1&root_required=%21COMPUTE_STATUS_DISABLED" },
    NovaQueryCase { sizes: (1, 512, 0, 0, 0), specs: "", image: "hw_firmware_type=uefi", owner: true, limit: Some(1000),
        query: "limit=1000&resources=MEMORY_MB%3A512%2CVCPU%3A1&root_required=OWNER_NOVA%2C%21COMPUTE_STATUS_DISABLED" },
    NovaQueryCase { sizes: (4, 2048, 0, 5, 1025), specs: "hw:pci_numa_affinity_policy=required resources:MEMORY_MB=0", image: "", owner: true, limit: Some(1000),
        query: "limit=1000&resources=DISK_GB%3A7%2CVCPU%3A4&root_required=OWNER_NOVA%2C%21COMPUTE_STATUS_DISABLED" },
    NovaQueryCase { sizes: (2, 2048, 0, 0, 1), specs: "", image: "", owner: true, limit: Some(1000),
        query: "limit=1000&resources=DISK_GB%3A1%2CMEMORY_MB%3A2048%2CVCPU%3A2&root_required=OWNER_NOVA%2C%21COMPUTE_STATUS_DISABLED" },
    NovaQueryCase { sizes: (2, 512, 0, 5, 1025), specs: "group_policy=bad resources:CUSTOM_GPU=2 trait:HW_CPU_X86_VMX=forbidden", image: "hw_firmware_type=uefi", owner: false, limit: Some(1),
        query: "limit=1&required=%21HW_CPU_X86_VMX&resources=CUSTOM_GPU%3A2%2CDISK_GB%3A7%2CMEMORY_MB%3A512%2CVCPU%3A2&root_required=%21COMPUTE_STATUS_DISABLED" },
    NovaQueryCase { sizes: (2, 512, 1, 0, 1025), specs: "resources:CUSTOM_GPU=2", image: "", owner: true, limit: Some(1000),
        query: "limit=1000&resources=CUSTOM_GPU%3A2%2CDISK_GB%3A3%2CMEMORY_MB%3A512%2CVCPU%3A2&root_required=OWNER_NOVA%2C%21COMPUTE_STATUS_DISABLED" },
    NovaQueryCase { sizes: (2, 512, 1, 0, 512), specs: "hw:ephemeral_encryption=true", image: "", owner: true, limit: Some(1000),
        query: "limit=1000&resources=DISK_GB%3A2%2CMEMORY_MB%3A512%2CVCPU%3A2&root_required=COMPUTE_EPHEMERAL_ENCRYPTION%2COWNER_NOVA%2C%21COMPUTE_STATUS_DISABLED" },
    NovaQueryCase { sizes: (1, 2048, 0, 5, 0), specs: "hw:pmem=2GB,2GB os:secure_boot=optional", image: "", owner: false, limit: Some(1000),
        query: "limit=1000&resources=CUSTOM_PMEM_NAMESPACE_2GB%3A2%2CDISK_GB%3A5%2CMEMORY_MB%3A2048%2CVCPU%3A1&root_required=%21COMPUTE_STATUS_DISABLED" },
    NovaQueryCase { sizes: (1, 512, 0, 0, 0), specs: "os:secure_boot=required", image: "trait:CUSTOM_IMG=required hw_firmware_stateless=true", owner: false, limit: Some(1000),
        query: "limit=1000&required=COMPUTE_SECURITY_UEFI_SECURE_BOOT%2CCUSTOM_IMG&resources=MEMORY_MB%3A512%2CVCPU%3A1&root_required=%21COMPUTE_STATUS_DISABLED" },
    NovaQueryCase { sizes: (2, 512, 0, 0, 1), specs: "trait2:CUSTOM_B=forbidden hw:pci_numa_affinity_policy=socket", image: "", owner: true, limit: None,
        query: "required=COMPUTE_SOCKET_PCI_NUMA_AFFINITY&required2=%21CUSTOM_B&resources=DISK_GB%3A1%2CMEMORY_MB%3A512%2CVCPU%3A2&resources2=&root_required=OWNER_NOVA%2C%21COMPUTE_STATUS_DISABLED" },
    NovaQueryCase { sizes: (2, 512, 1, 0, 1025), specs: "hw:cpu_thread_policy=isolate", image: "trait:CUSTOM_IMG=required", owner: true, limit: Some(1000),
        query: "limit=1000&required=CUSTOM_IMG%2C%21HW_CPU_HYPERTHREADING&resources=DISK_GB%3A3%2CMEMORY_MB%3A512%2CVCPU%3A2&root_required=OWNER_NOVA%2C%21COMPUTE_STATUS_DISABLED" },
];

fn pairs(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split_whitespace().map(|pair| {
        let (key, value) = pair.split_once('=').unwrap();
        (key.to_owned(), value.to_owned())
    });
    pairs.collect()
}

fn flavor(sizes: (u32, u64, u64, u64, u64), specs: &str) -> Flavor {
    let (vcpus, memory_mb, root_gb, ephemeral_gb, swap_mb) = sizes;
    Flavor {
        vcpus,
        memory_mb,
        root_gb,
        ephemeral_gb,
        swap_mb,
        extra_specs: pairs(specs),
    }
}

fn small(specs: &str) -> RequestGroups {
    let flavor = flavor((2, 512, 10, 0, 0), specs);
    let read = RequestGroups::of_flavor(&flavor, &BTreeMap::new()).unwrap();
    assert_eq!(read.skipped, [], "{specs}");
    read.groups
}

fn profile(groups: &[&str]) -> DeviceProfileGroups {
    let groups = groups.iter().map(|group| {
        let pairs = pairs(group);
        let pairs = pairs
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()));
        DeviceProfileGroup::new(pairs).unwrap()
    });
    DeviceProfileGroups::new(groups.collect()).unwrap()
}

/// A query in readable form.
fn decoded(query: &str) -> String {
    query
        .replace("%3A", ":")
        .replace("%2C", ",")
        .replace("%21", "!")
}

#[test]
fn a_flavor_is_asked_for_in_novas_words() {
    for case in NOVA {
        let flavor = flavor(case.sizes, case.specs);
        let read = RequestGroups::of_flavor(&flavor, &pairs(case.image)).unwrap();
        let mut groups = read.groups.limited(case.limit);
        if case.owner {
            groups = groups.with_root_trait(Trait::OWNER_NOVA);
        }
        assert_eq!(groups.query(), case.query, "{} {}", case.specs, case.image);
    }
}

#[test]
fn each_group_of_a_device_profile_is_a_group_of_that_name() {
    let two = profile(&[
        "resources:FPGA=1 trait:CUSTOM_A=required",
        "resources:CUSTOM_NIC=2 trait:CUSTOM_B=forbidden accel:note=x",
    ]);
    let asked = small("accel:device_profile=two")
        .with_device_profile(&two)
        .unwrap();
    assert_eq!(asked.check(), Ok(()));
    assert_eq!(
        decoded(&asked.query()),
        "group_policy=none&limit=1000&requireddevice_profile_0=CUSTOM_A&requireddevice_profile_1=!CUSTOM_B\
         &resources=DISK_GB:10,MEMORY_MB:512,VCPU:2&resourcesdevice_profile_0=FPGA:1\
         &resourcesdevice_profile_1=CUSTOM_NIC:2&root_required=COMPUTE_ACCELERATORS,!COMPUTE_STATUS_DISABLED"
    );
    // One group needs no policy, and the flavor's policy is preserved.
    let one = small("")
        .with_device_profile(&profile(&["resources:FPGA=1"]))
        .unwrap();
    assert!(!one.query().contains("group_policy"));
    let isolated = small("group_policy=isolate")
        .with_device_profile(&two)
        .unwrap();
    assert!(isolated.query().starts_with("group_policy=isolate&"));
}

#[test]
fn what_placement_would_refuse_is_refused_with_the_remedy() {
    let refused = |groups: RequestGroups| groups.check().unwrap_err().to_string();
    for (specs, sentence) in [
        (
            "trait_net:CUSTOM_A=required",
            "add resources_net:CLASS=AMOUNT",
        ),
        ("resources1:VGPU=1 resources2:FPGA=1", "set it to none"),
        (
            "resources:VCPU=0 resources:MEMORY_MB=0 resources:DISK_GB=0",
            "the request has no resources",
        ),
    ] {
        let message = refused(small(specs));
        assert!(message.contains(sentence), "{specs}: {message}");
    }
    let gpu = small("").with_device_profile(&profile(&["resources:GPU=1"]));
    assert!(gpu.unwrap_err().to_string().contains("a whole GPU is PGPU"));
    for none in ["accel:note=x", "trait:CUSTOM_A=required"] {
        let asked = small("").with_device_profile(&profile(&["resources:FPGA=1", none]));
        let message = asked.unwrap_err().to_string();
        assert!(
            message.contains("group 1 of the device profile has no resources"),
            "{message}"
        );
    }
    let twice = small("resourcesdevice_profile_0:FPGA=1");
    let twice = twice.with_device_profile(&profile(&["resources:FPGA=1"]));
    assert!(
        twice
            .unwrap_err()
            .to_string()
            .contains("device_profile_0 is given twice")
    );
}

const TWO_PAIRS: [&str; 4] = [
    "resources:PGPU=1 accel:same_link_group=left",
    "resources:PGPU=1 accel:same_link_group=right",
    "resources:PGPU=1 accel:same_link_group=left",
    "resources:FPGA=1",
];

#[test]
fn groups_of_a_device_profile_with_one_label_are_below_one_link_group() {
    let asked = small("").with_device_profile(&profile(&TWO_PAIRS)).unwrap();
    assert_eq!(asked.check(), Ok(()));
    let query = decoded(&asked.query());
    for part in [
        "group_policy=none&",
        "&required_link_group_0=CUSTOM_LINK_GROUP&required_link_group_1=CUSTOM_LINK_GROUP&resources=",
        "&same_subtree=_link_group_0,device_profile_0,device_profile_2\
         &same_subtree=_link_group_1,device_profile_1",
    ] {
        assert!(query.contains(part), "{part}: {query}");
    }
    assert_eq!(
        CandidatesQuery::read(&asked.query()).unwrap(),
        CandidatesQuery::from(&asked)
    );
    let alone = profile(&["resources:PGPU=1 accel:same_link_group=x"]);
    let alone = small("").with_device_profile(&alone).unwrap().query();
    assert!(alone.starts_with("group_policy=none&"), "{alone}");
    let taken = small("resources_link_group_1:VGPU=1");
    let taken = taken.with_device_profile(&profile(&TWO_PAIRS));
    let message = taken.unwrap_err().to_string();
    assert!(
        message.contains("_link_group_1 is given twice"),
        "{message}"
    );
}

#[test]
fn a_link_group_is_one_demand_that_can_be_left_out() {
    let asked = small("").with_device_profile(&profile(&TWO_PAIRS)).unwrap();
    let relaxed = CandidatesQuery::from(&asked).relaxations();
    let words: Vec<_> = relaxed.iter().map(|it| it.without.to_string()).collect();
    let links = [
        "2 free devices in one link group",
        "1 free device in one link group",
    ];
    assert_eq!(words[..2], links);
    assert!(
        words.iter().all(|word| !word.contains("CUSTOM_LINK_GROUP")),
        "{words:?}"
    );
    let without = relaxed[0].query.query();
    assert!(!without.contains("_link_group_0"), "{without}");
    assert!(without.contains("resourcesdevice_profile_2"), "{without}");
    assert!(relaxed[0].without.names("CUSTOM_LINK_GROUP"));
    // The last device of a link group takes the group along.
    let fewer = |word: &str| {
        let found = relaxed.iter().find(|it| it.without.to_string() == word);
        found.unwrap().query.query()
    };
    let right = fewer("1 PGPU in group device_profile_1");
    assert!(
        !right.contains("_link_group_1") && right.contains("_link_group_0"),
        "{right}"
    );
    let left = fewer("1 PGPU in group device_profile_0");
    assert!(left.contains("_link_group_0%2Cdevice_profile_2"), "{left}");
}

#[test]
fn what_nova_skips_is_reported_by_its_key() {
    for (spec, reason) in [
        ("group_policy=bad", "neither none nor isolate"),
        ("trait:CUSTOM_A=maybe", "neither required nor forbidden"),
        ("trait:custom=required", "is not a trait"),
        ("resources:GPU=1", "not a standard class"),
        ("resources:VGPU=one", "is not an amount"),
        ("resources:VGPU=-1", "is not an amount"),
        ("resources1.5:VGPU=1", "cannot name a request group"),
    ] {
        let flavor = flavor((1, 1, 0, 0, 0), spec);
        let read = RequestGroups::of_flavor(&flavor, &BTreeMap::new()).unwrap();
        let message = read.skipped[0].to_string();
        let key = spec.split('=').next().unwrap();
        assert!(
            message.starts_with(key) && message.contains(reason),
            "{message}"
        );
        assert_eq!(read.groups, small_of((1, 1, 0, 0, 0)), "{spec}");
    }
}

fn small_of(sizes: (u32, u64, u64, u64, u64)) -> RequestGroups {
    RequestGroups::of_flavor(&flavor(sizes, ""), &BTreeMap::new())
        .unwrap()
        .groups
}

#[test]
fn a_flavor_that_contradicts_itself_or_the_image_is_refused() {
    for (specs, image, sentence) in [
        (
            "hw:cpu_policy=shared",
            "hw_cpu_policy=dedicated",
            "may not ask for dedicated",
        ),
        ("hw:cpu_policy=mine", "", "shared, dedicated or mixed"),
        ("hw:cpu_policy=mixed", "", "hw:cpu_dedicated_mask"),
        (
            "hw:cpu_policy=mixed hw:cpu_dedicated_mask=0-4",
            "",
            "hw:cpu_dedicated_mask",
        ),
        (
            "hw:cpu_thread_policy=many",
            "",
            "prefer, isolate or require",
        ),
        ("hw:mem_encryption=true", "", "needs hw_firmware_type uefi"),
        ("hw:tpm_version=3", "", "1.2 or 2.0"),
    ] {
        let flavor = flavor((4, 512, 0, 0, 0), specs);
        let refused = RequestGroups::of_flavor(&flavor, &pairs(image)).unwrap_err();
        assert!(refused.to_string().contains(sentence), "{specs}: {refused}");
    }
}

#[test]
fn some_cpus_of_a_guest_may_be_its_own() {
    for (mask, amounts) in [
        ("0-1", "PCPU:2,VCPU:2"),
        ("^0", "PCPU:3,VCPU:1"),
        ("0,3,^3", "PCPU:1,VCPU:3"),
    ] {
        let specs = format!("hw:cpu_policy=mixed hw:cpu_dedicated_mask={mask}");
        let flavor = flavor((4, 512, 0, 0, 0), &specs);
        let groups = RequestGroups::of_flavor(&flavor, &BTreeMap::new())
            .unwrap()
            .groups;
        let query = decoded(&groups.query());
        assert!(
            query.contains(&format!("resources=MEMORY_MB:512,{amounts}&")),
            "{query}"
        );
    }
}

#[test]
fn each_demand_can_be_left_out_and_nothing_else_changes() {
    let two = profile(&[
        "resources:FPGA=1 trait:CUSTOM_A=required",
        "resources:PGPU=1",
    ]);
    let asked = small("group_policy=isolate trait:HW_X=forbidden accel:device_profile=two");
    let asked = asked.with_device_profile(&two).unwrap();
    let asked = CandidatesQuery::from(&asked.in_tree_of(uuid::Uuid::from_u128(7).into()));
    let relaxed = asked.relaxations();
    let words: Vec<_> = relaxed.iter().map(|it| it.without.to_string()).collect();
    assert_eq!(
        words,
        [
            "trait CUSTOM_A in group device_profile_0",
            "no trait HW_X",
            "1 FPGA in group device_profile_0",
            "1 PGPU in group device_profile_1",
            "10 DISK_GB",
            "512 MEMORY_MB",
            "2 VCPU",
            "trait COMPUTE_ACCELERATORS of the host",
            "a host that is not disabled",
            "a provider of its own for each group",
            "exactly the host 00000000-0000-0000-0000-000000000007",
        ]
    );
    for it in &relaxed {
        assert_ne!(it.query, asked, "{}", it.without);
    }
    // A group that loses its only resource is left out.
    let fpga = relaxed[2].query.query();
    assert!(!fpga.contains("device_profile_0"), "{fpga}");
}

#[test]
fn the_question_of_a_boot_is_the_same_in_both_forms() {
    for case in NOVA {
        let Ok(read) = CandidatesQuery::read(case.query) else {
            continue;
        };
        let mut parts: Vec<_> = case.query.split('&').collect();
        let again = read.query();
        let mut written: Vec<_> = again.split('&').collect();
        parts.sort_unstable();
        written.sort_unstable();
        assert_eq!(written, parts);
    }
}
