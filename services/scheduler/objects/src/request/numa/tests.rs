use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::request::{ImageProperties, NumaAffinityPolicy, RequestFlavor, RequestImage};

fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

/// Of a flavor with 4 CPUs and 1024 MiB.
fn derive(
    specs: &[(&str, &str)],
    properties: &[(&str, &str)],
) -> Result<Option<InstanceNumaTopology>, NumaRequestError> {
    let flavor = RequestFlavor {
        vcpus: 4,
        memory_mb: 1024,
        extra_specs: texts(specs),
        ..RequestFlavor::default()
    };
    let image = RequestImage {
        properties: ImageProperties::unread(texts(properties)),
        ..RequestImage::default()
    };
    InstanceNumaTopology::derive(&flavor, Some(&image))
}

fn cell<const S: usize, const D: usize>(
    cpuset: [u16; S],
    pcpuset: [u16; D],
    memory: i64,
) -> InstanceNumaCell {
    InstanceNumaCell {
        cpuset: cpuset.into(),
        pcpuset: pcpuset.into(),
        memory,
    }
}

#[test]
fn cells_are_what_flavor_and_image_say() {
    for (specs, properties, cells) in [
        (
            &[("hw:numa_nodes", "2")][..],
            &[][..],
            vec![cell([0, 1], [], 512), cell([2, 3], [], 512)],
        ),
        (
            &[],
            &[("hw_numa_nodes", "1")],
            vec![cell([0, 1, 2, 3], [], 1024)],
        ),
        (
            &[
                ("hw:numa_nodes", "2"),
                ("hw:numa_cpus.0", "0-2"),
                ("hw:numa_cpus.1", "3"),
                ("hw:numa_mem.0", "768"),
                ("hw:numa_mem.1", "256"),
            ],
            &[],
            vec![cell([0, 1, 2], [], 768), cell([3], [], 256)],
        ),
        (
            &[("hw:cpu_policy", "dedicated")],
            &[],
            vec![cell([], [0, 1, 2, 3], 1024)],
        ),
        (
            &[
                ("hw:cpu_policy", "mixed"),
                ("hw:cpu_dedicated_mask", "^0-1"),
            ],
            &[("hw_numa_nodes", "2")],
            vec![cell([0, 1], [], 512), cell([], [2, 3], 512)],
        ),
        (
            &[
                ("hw:cpu_policy", "mixed"),
                ("hw:cpu_realtime", "yes"),
                ("hw:cpu_realtime_mask", "^0"),
            ],
            &[("hw_cpu_realtime_mask", "3")],
            vec![cell([0, 1, 2], [3], 1024)],
        ),
        (
            &[("resources:PCPU", "4")],
            &[],
            vec![cell([], [0, 1, 2, 3], 1024)],
        ),
        (
            &[("hw:pmem", " , 6GB")],
            &[],
            vec![cell([0, 1, 2, 3], [], 1024)],
        ),
    ] {
        let derived = derive(specs, properties).expect("a good flavor");
        let derived = derived.map(|it| it.cells).unwrap_or_default();
        assert_eq!(derived, cells, "{specs:?} {properties:?}");
    }
    for none in [
        &[][..],
        &[("hw:cpu_policy", "shared"), ("hw:pmem", " ,")],
        &[("hw:numa_cpus.0", "0-3")],
        &[("hw:emulator_threads_policy", "share")],
    ] {
        assert_eq!(derive(none, &[]), Ok(None), "{none:?}");
    }
}

#[test]
fn page_sizes_have_units() {
    for (spec, property, expected) in [
        ("small", "", PageSize::Small),
        ("any", "", PageSize::Any),
        ("large", "2MB", PageSize::Kib(2048)),
        ("any", "1048576", PageSize::Kib(1_048_576)),
        ("4", "", PageSize::Kib(4)),
        ("1GiB", "", PageSize::Kib(1_048_576)),
        ("16384Kb", "", PageSize::Kib(2048)),
        ("2097152B", "", PageSize::Kib(2048)),
    ] {
        let derived = derive(
            &[("hw:mem_page_size", spec)],
            &[("hw_mem_page_size", property)],
        );
        let pagesize = derived.expect("a good size").and_then(|it| it.pagesize);
        assert_eq!(pagesize, Some(expected), "{spec} {property}");
    }
}

#[test]
fn what_cannot_be_derived_is_refused_by_name() {
    for (specs, properties, sentence) in [
        (
            &[("hw:numa_nodes", "2")][..],
            &[("hw_numa_nodes", "2")][..],
            "hw_numa_nodes: the image says \"2\", and may not where the flavor's hw:numa_nodes is \"2\"",
        ),
        (
            &[("hw:numa_nodes", "0")],
            &[],
            "hw:numa_nodes: should be a whole number from 1 on, and is \"0\"",
        ),
        (
            &[("hw:numa_nodes", "3")],
            &[],
            "hw:numa_nodes: 4 CPUs and 1024 MiB cannot be parted evenly into 3 cells; say hw:numa_cpus.N and hw:numa_mem.N",
        ),
        (
            &[("hw:numa_nodes", "2"), ("hw:numa_cpus.0", "0-3")],
            &[],
            "hw:numa_cpus.N and hw:numa_mem.N: should both be said for each of 2 cells, and are for 1 and 0 of them",
        ),
        (
            &[
                ("hw:numa_nodes", "1"),
                ("hw:numa_cpus.0", "0-4"),
                ("hw:numa_mem.0", "1024"),
            ],
            &[],
            "hw:numa_cpus.0: has CPU 4, and the flavor has 4 CPUs, from 0 on",
        ),
        (
            &[
                ("hw:numa_nodes", "1"),
                ("hw:numa_cpus.0", "0-4000000000"),
                ("hw:numa_mem.0", "1024"),
            ],
            &[],
            "hw:numa_cpus.0: should be a list of CPUs such as 0-3,^2,8, each below 65536, and is \"0-4000000000\"",
        ),
        (
            &[
                ("hw:numa_nodes", "2"),
                ("hw:numa_cpus.0", "0-2"),
                ("hw:numa_mem.0", "512"),
                ("hw:numa_cpus.1", "2-3"),
                ("hw:numa_mem.1", "512"),
            ],
            &[],
            "hw:numa_cpus.1: has CPU 2, which another cell has already",
        ),
        (
            &[
                ("hw:numa_nodes", "1"),
                ("hw:numa_cpus.0", "0,1"),
                ("hw:numa_mem.0", "1024"),
            ],
            &[],
            "hw:numa_cpus.N: CPUs 2-3 are in no cell",
        ),
        (
            &[
                ("hw:numa_nodes", "1"),
                ("hw:numa_cpus.0", "0-3"),
                ("hw:numa_mem.0", "512"),
            ],
            &[],
            "hw:numa_mem.N: are 512 MiB together, and should be the flavor's 1024 MiB",
        ),
        (
            &[("hw:cpu_policy", "exclusive")],
            &[],
            "hw:cpu_policy: should be dedicated or shared or mixed, and is \"exclusive\"",
        ),
        (
            &[("hw:cpu_policy", "shared")],
            &[("hw_cpu_policy", "dedicated")],
            "hw_cpu_policy: the image says \"dedicated\", and may not where the flavor's hw:cpu_policy is \"shared\"",
        ),
        (
            &[
                ("hw:cpu_policy", "dedicated"),
                ("hw:cpu_thread_policy", "require"),
            ],
            &[("hw_cpu_thread_policy", "isolate")],
            "hw_cpu_thread_policy: the image says \"isolate\", and may not where the flavor's hw:cpu_thread_policy is \"require\"",
        ),
        (
            &[],
            &[("hw_cpu_thread_policy", "isolate")],
            "hw_cpu_thread_policy: needs hw:cpu_policy to be dedicated or mixed",
        ),
        (
            &[("hw:cpu_policy", "mixed")],
            &[],
            "hw:cpu_policy: mixed needs either hw:cpu_dedicated_mask or hw:cpu_realtime with hw:cpu_realtime_mask",
        ),
        (
            &[("hw:cpu_policy", "mixed"), ("hw:cpu_dedicated_mask", "0-3")],
            &[],
            "hw:cpu_dedicated_mask: should leave some of the flavor's 4 CPUs in and some out, and none beyond; it is \"0-3\"",
        ),
        (
            &[("hw:cpu_dedicated_mask", "0")],
            &[],
            "hw:cpu_dedicated_mask: needs hw:cpu_policy to be mixed",
        ),
        (
            &[("hw:mem_page_size", "2MB")],
            &[("hw_mem_page_size", "large")],
            "hw_mem_page_size: the image says \"large\", and may not where the flavor's hw:mem_page_size is \"2MB\"",
        ),
        (
            &[],
            &[("hw_mem_page_size", "large")],
            "hw_mem_page_size: the image says \"large\", and may not where the flavor's hw:mem_page_size is not set",
        ),
        (
            &[("hw:mem_page_size", "100B")],
            &[],
            "hw:mem_page_size: should be small, large, any, or a size of whole KiB such as 2048, 2MB or 1GB, and is \"100B\"",
        ),
        (
            &[("hw:locked_memory", "true")],
            &[],
            "hw:locked_memory: needs hw:mem_page_size",
        ),
        (
            &[
                ("resources:PCPU", "4"),
                ("hw:emulator_threads_policy", "isolate"),
            ],
            &[],
            "resources:PCPU: should be 5 (the flavor's CPUs, and one more for isolated emulator threads), and is 4",
        ),
        (
            &[("resources:VCPU", "4"), ("hw:cpu_policy", "shared")],
            &[],
            "hw:cpu_policy: cannot be said together with resources:VCPU or resources:PCPU",
        ),
    ] {
        let refused = derive(specs, properties).map_err(|error| error.to_string());
        assert_eq!(
            refused,
            Err(sentence.to_owned()),
            "{specs:?} {properties:?}"
        );
    }
}

#[test]
fn no_cell_is_without_memory_or_cpus() {
    for (mem, value) in [
        (
            ["-1000", "2024"],
            "hw_numa_mem.0: should be a number of MiB from 1 on, and is \"-1000\"",
        ),
        (
            ["1024", "0"],
            "hw_numa_mem.1: should be a number of MiB from 1 on, and is \"0\"",
        ),
    ] {
        let properties = [
            ("hw_numa_nodes", "2"),
            ("hw_numa_cpus.0", "0-1"),
            ("hw_numa_cpus.1", "2-3"),
            ("hw_numa_mem.0", mem[0]),
            ("hw_numa_mem.1", mem[1]),
        ];
        let refused = derive(&[], &properties).map_err(|error| error.to_string());
        assert_eq!(refused, Err(value.to_owned()));
    }
    for (vcpus, memory_mb, refused) in [
        (0, 1024, NumaRequestError::Vcpus { vcpus: 0 }),
        (65_536, 1024, NumaRequestError::Vcpus { vcpus: 65_536 }),
        (4, 0, NumaRequestError::Memory { memory_mb: 0 }),
        (4, -1024, NumaRequestError::Memory { memory_mb: -1024 }),
    ] {
        let flavor = RequestFlavor {
            vcpus,
            memory_mb,
            extra_specs: texts(&[("hw:numa_nodes", "2")]),
            ..RequestFlavor::default()
        };
        assert_eq!(InstanceNumaTopology::derive(&flavor, None), Err(refused));
    }
}

#[test]
fn a_trait_of_threads_is_a_thread_policy() {
    for (value, policy) in [
        ("required", CpuThreadPolicy::Require),
        ("forbidden", CpuThreadPolicy::Isolate),
    ] {
        let specs = [
            ("hw:cpu_policy", "dedicated"),
            ("trait:HW_CPU_HYPERTHREADING", value),
        ];
        let derived = derive(&specs, &[]).expect("a good flavor");
        assert_eq!(derived.and_then(|it| it.cpu_thread_policy), Some(policy));
    }
}

#[test]
fn devices_are_near_as_flavor_or_image_says() {
    let policy = |spec: &str, property: &str| {
        let flavor = RequestFlavor {
            extra_specs: texts(&[("hw:pci_numa_affinity_policy", spec)]),
            ..RequestFlavor::default()
        };
        let image = RequestImage {
            properties: ImageProperties::unread(texts(&[(
                "hw_pci_numa_affinity_policy",
                property,
            )])),
            ..RequestImage::default()
        };
        pci_numa_affinity_policy(&flavor, Some(&image))
    };
    assert_eq!(policy("", ""), Ok(None));
    assert_eq!(policy("socket", ""), Ok(Some(NumaAffinityPolicy::Socket)));
    assert_eq!(
        policy("", "required"),
        Ok(Some(NumaAffinityPolicy::Required))
    );
    assert!(policy("socket", "required").is_err() && policy("near", "").is_err());
}

#[test]
fn a_topology_is_reported_as_nova_reports_it() {
    let specs = [
        ("hw:cpu_policy", "dedicated"),
        ("hw:mem_page_size", "large"),
        ("hw:emulator_threads_policy", "isolate"),
    ];
    let derived = derive(&specs, &[]).expect("a good flavor");
    assert_eq!(
        json!(derived),
        json!({"emulator_threads_policy": "isolate", "cells": [{
            "id": 0, "cpuset": [], "pcpuset": [0, 1, 2, 3], "memory": 1024, "pagesize": -2,
            "cpu_policy": "dedicated", "cpu_thread_policy": null}]})
    );
}
