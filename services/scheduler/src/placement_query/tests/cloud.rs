//! Tests of queries that depend on the cloud's aggregates, zones and hosts.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use super::super::{Cloud, ComputeNodeRef, ResourceGroup};
use super::{ask, plain};
use crate::host_state::Aggregate;
use crate::options::SchedulerOptions;

fn aggregate(uuid: &str, metadata: &[(&str, &str)]) -> Arc<Aggregate> {
    let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    Arc::new(Aggregate {
        uuid: Some(uuid.to_owned()),
        name: String::new(),
        metadata: metadata.iter().map(own).collect::<BTreeMap<_, _>>(),
    })
}

#[test]
fn aggregates_are_asked_for_by_project_zone_and_trait() {
    let aggregates = [
        aggregate("z1", &[("availability_zone", "az1")]),
        aggregate("z2", &[("availability_zone", "az1,az2")]),
        aggregate("t2", &[("filter_tenant_id_b", "p1")]),
        aggregate(
            "t1",
            &[("filter_tenant_id", "p1"), ("trait:CUSTOM_X", "required")],
        ),
        aggregate(
            "x",
            &[
                ("x_filter_tenant_id", "p1"),
                ("trait:CUSTOM_X", "forbidden"),
            ],
        ),
    ];
    let cloud = Cloud {
        aggregates: &aggregates,
        ..Cloud::default()
    };
    let mut options = SchedulerOptions::default();
    options.scheduler.limit_tenants_to_placement_aggregate = true;
    options.scheduler.placement_aggregate_required_for_tenants = true;
    options.scheduler.enable_isolated_aggregate_filtering = true;
    let resources = "resources=DISK_GB:1,MEMORY_MB:512,VCPU:1";
    for (asked, expected) in [
        (json!({}), "member_of=!in:t1&member_of=in:t1,t2&"),
        (
            json!({"availability_zone": "az1"}),
            "member_of=!in:t1&member_of=in:t1,t2&member_of=in:z1&",
        ),
        (
            json!({"availability_zone": "az2"}),
            "member_of=!in:t1&member_of=in:t1,t2&",
        ),
        (
            json!({"image": {"properties": {"trait:CUSTOM_X": "required"}}}),
            "member_of=in:t1,t2&required=CUSTOM_X&",
        ),
    ] {
        let got = ask(&asked, &options, &cloud).expect(expected);
        assert_eq!(plain(&got.query), format!("{expected}{resources}"));
    }
    let error = ask(&json!({"project_id": "p9"}), &options, &cloud).expect_err("no aggregate");
    assert!(error.contains("filter_tenant_id for project p9"), "{error}");
}

/// The query's `member_of`, or the error.
fn members(zone: &str, aggregates: &[Arc<Aggregate>], default: Option<&str>) -> String {
    let cloud = Cloud {
        aggregates,
        default_availability_zone: default,
        ..Cloud::default()
    };
    let asked = ask(
        &json!({"availability_zone": zone}),
        &SchedulerOptions::default(),
        &cloud,
    );
    match asked {
        Err(error) => error,
        Ok(got) => {
            let query = plain(&got.query);
            let rest = query.strip_suffix("resources=DISK_GB:1,MEMORY_MB:512,VCPU:1");
            rest.expect("the flavor's").to_owned()
        }
    }
}

#[test]
fn a_zone_that_is_asked_for_is_one_that_there_is() {
    let aggregates = [
        aggregate("z1", &[("availability_zone", "az1")]),
        aggregate("z2", &[("availability_zone", "az1, az2")]),
        aggregate("n", &[("availability_zone", "nova")]),
        aggregate("o", &[("other", "az9")]),
    ];
    for (zone, expected) in [
        ("", ""),
        ("az1", "member_of=in:z1,z2&"),
        ("az2", "member_of=in:z2&"),
        // Hosts without a zone aggregate are in the default zone, too.
        ("nova", "member_of=!in:z1,z2&"),
        (
            "az9",
            "there is no availability zone az9; there are az1, az2, nova",
        ),
        (
            "AZ1",
            "there is no availability zone AZ1; there are az1, az2, nova",
        ),
    ] {
        assert_eq!(members(zone, &aggregates, Some("nova")), expected, "{zone}");
    }
    let alone = "there is no availability zone az1; there is home";
    assert_eq!(members("az1", &[], Some("home")), alone);
    assert_eq!(members("home", &[], Some("home")), "");
    let many: Vec<_> = (10..40)
        .map(|at| aggregate("z", &[("availability_zone", &format!("a{at}"))]))
        .collect();
    let listed = members("az1", &many, Some("nova"));
    assert!(listed.ends_with("a28, a29 and 11 more"), "{listed}");
    // Nova's pre-filter ignores an unknown zone.
    assert_eq!(members("az9", &aggregates, None), "");
}

#[test]
fn one_image_property_without_a_trait_drops_all_of_them() {
    let mut options = SchedulerOptions::default();
    options.scheduler.image_metadata_prefilter = true;
    options.scheduler.query_placement_for_image_type_support = true;
    for (image, expected) in [
        (
            json!({"disk_format": "qcow2", "properties": {"hw_disk_bus": "virtio", "hw_vif_model": "ne2k_pci"}}),
            "COMPUTE_IMAGE_TYPE_QCOW2,COMPUTE_NET_VIF_MODEL_NE2K_PCI,COMPUTE_STORAGE_BUS_VIRTIO,!COMPUTE_STATUS_DISABLED",
        ),
        (
            json!({"disk_format": "bogus", "properties": {"hw_disk_bus": "virtio", "hw_viommu_model": "intel"}}),
            "!COMPUTE_STATUS_DISABLED",
        ),
    ] {
        let got = ask(&json!({"image": image}), &options, &Cloud::default()).expect(expected);
        let query = got.query.replace("%2C", ",").replace("%21", "!");
        assert!(
            query.ends_with(&format!("&root_required={expected}")),
            "{query}"
        );
    }
}

#[test]
fn a_request_for_one_host_looks_in_its_tree() {
    let compute = |host: &str, nodename: &str, uuid: &str| ComputeNodeRef {
        host: host.to_owned(),
        nodename: nodename.to_owned(),
        uuid: uuid.to_owned(),
        cell: "c1".to_owned(),
    };
    let computes = [
        compute("a", "a1", "u1"),
        compute("a", "a2", "u2"),
        compute("b", "b", "u3"),
    ];
    let cloud = Cloud {
        computes: &computes,
        ..Cloud::default()
    };
    let tree = |uuid: &str| format!("in_tree={uuid}&limit=1000&");
    for (asked, begins) in [
        (json!({"force_hosts": ["b"]}), tree("u3")),
        (json!({"force_nodes": ["a2"]}), tree("u2")),
        (json!({"force_hosts": ["a"]}), "resources=".to_owned()),
        (
            json!({"requested_destination": {"host": "a", "node": "a1"}}),
            tree("u1"),
        ),
        (
            json!({"requested_destination": {"cell": "c1"}}),
            "limit=1000&".to_owned(),
        ),
        (json!({"hints": {"group": "g"}}), "resources=".to_owned()),
        (json!({"hints": {"same_host": []}}), "resources=".to_owned()),
    ] {
        let got = ask(&asked, &SchedulerOptions::default(), &cloud).expect(&begins);
        assert!(got.query.starts_with(&begins), "{begins} {}", got.query);
    }
    let error = ask(
        &json!({"force_hosts": ["c"]}),
        &SchedulerOptions::default(),
        &cloud,
    );
    assert_eq!(
        error.expect_err("no such host"),
        "there is no compute node with host c and node (any)"
    );
}

#[test]
fn groups_from_elsewhere_keep_their_suffix() {
    let port = ResourceGroup {
        resources: [("NET_BW_EGR_KILOBIT_PER_SEC".to_owned(), 100)].into(),
        required_traits: ["CUSTOM_PHYSNET".to_owned()].into(),
        ..ResourceGroup::default()
    };
    let groups = [("port".to_owned(), port.clone())];
    let cloud = Cloud {
        groups: &groups,
        all_computes_report_owner_trait: true,
        ..Cloud::default()
    };
    let mut options = SchedulerOptions::default();
    options.filter_scheduler.pci_in_placement = true;
    let asked = json!({"pci_requests": [
        {"count": 2, "alias_name": "gpu", "request_id": "r-1",
         "spec": [{"vendor_id": "10de", "product_id": "1eb8", "traits": "HW_GPU_CUDA_SDK_V10_0,big one"}]},
        {"count": 1, "alias_name": null, "request_id": "r-2", "spec": [{"vendor_id": "8086"}]},
    ]});
    let got = ask(&asked, &options, &cloud).expect("a question");
    assert_eq!(
        plain(&got.query),
        "group_policy=none\
         &requiredport=CUSTOM_PHYSNET\
         &requiredr-1-0=CUSTOM_BIG_ONE,HW_GPU_CUDA_SDK_V10_0,OWNER_NOVA\
         &requiredr-1-1=CUSTOM_BIG_ONE,HW_GPU_CUDA_SDK_V10_0,OWNER_NOVA\
         &resources=DISK_GB:1,MEMORY_MB:512,VCPU:1\
         &resourcesport=NET_BW_EGR_KILOBIT_PER_SEC:100\
         &resourcesr-1-0=CUSTOM_PCI_10DE_1EB8:1\
         &resourcesr-1-1=CUSTOM_PCI_10DE_1EB8:1\
         &root_required=OWNER_NOVA,!COMPUTE_STATUS_DISABLED"
    );
    // Devices of these aliases are below one link group, and groups from elsewhere below another.
    let mut asked = asked;
    asked["flavor"]["extra_specs"] =
        json!({"pci_passthrough:alias": "gpu:2", "berth:same_link_group": "gpu"});
    let link_groups = [["port".to_owned()].into()];
    let same_subtrees = [["r-1-1".to_owned(), "port".to_owned()].into()];
    let cloud = Cloud {
        link_groups: &link_groups,
        same_subtrees: &same_subtrees,
        ..cloud
    };
    let got = ask(&asked, &options, &cloud).expect("a question");
    let query = plain(&got.query);
    for part in [
        "&required_link_group_0=CUSTOM_LINK_GROUP&required_link_group_1=CUSTOM_LINK_GROUP&requiredport=",
        "&same_subtree=_link_group_0,port&same_subtree=_link_group_1,r-1-0,r-1-1&same_subtree=port,r-1-1",
    ] {
        assert!(query.contains(part), "{part}: {query}");
    }
    asked["flavor"]["extra_specs"]["resources_link_group_1:VGPU"] = json!("1");
    let error = ask(&asked, &options, &cloud).expect_err("twice");
    assert_eq!(error, "two request groups have the suffix _link_group_1");
    asked["flavor"]["extra_specs"] = json!({"berth:same_link_group": "gpu"});
    let error = ask(&asked, &options, &cloud).expect_err("not requested");
    assert!(error.contains("berth:same_link_group"), "{error}");
    let twice = [("port".to_owned(), port.clone()), ("port".to_owned(), port)];
    let cloud = Cloud {
        groups: &twice,
        ..Cloud::default()
    };
    let error = ask(&json!({}), &options, &cloud).expect_err("twice");
    assert_eq!(error, "two request groups have the suffix port");
}
