//! Devices that a flavor requests by alias, from the configuration to the host's agent.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_conductor::journal::SqlBootJournal;
use berth_conductor::{BootRequest, Conductor, ConductorError, GuestRunOutcome};
use berth_model::{Inventory, Provider, ProviderName, ProviderUuid, ResourceClass};
use berth_scheduler::SchedulerOptions;
use berth_scheduler::request::PciAlias;
use berth_tests::boot::{asked, guest, impatient};
use berth_tests::cloud::Cloud;
use berth_tests::fleet::{Fleet, hosts};
use berth_tests::host_states::{self, ReportedHost};
use berth_wire::host_state::PciPool;
use serde_json::json;
use uuid::Uuid;

const CLASS: &str = "CUSTOM_PCI_10DE_20B7";

fn card() -> ProviderUuid {
    Uuid::from_u128(0xca7d).into()
}

/// A host with one card of two functions, as its agent would tell it.
async fn fleet() -> Fleet {
    let all = hosts(2, "cell1", 4);
    let fleet = Fleet::over(Cloud::in_process().await, &all).await;
    let host = &all[1];
    let placement = fleet.cloud().placement();
    let name = ProviderName::new("cell1-001_0000:81:00.0").expect("a name");
    let made = placement
        .create_provider(&Provider::child(card(), name, host.root()))
        .await
        .expect("a provider");
    let class: ResourceClass = CLASS.parse().expect("a class");
    placement
        .ensure_resource_class(&class)
        .await
        .expect("a class");
    let inventories = BTreeMap::from([(class, Inventory::of(2).expect("two"))]);
    let generation = made.generation.expect("a generation");
    placement
        .put_inventories(card(), generation, &inventories)
        .await
        .expect("inventories");
    let mut state = host_states::state(&ReportedHost {
        name: host.name.clone(),
        node: *host.root().as_uuid(),
        vcpus: 4,
        memory_mb: 4096,
        local_gb: 40,
    });
    let tags = [
        ("dev_type", "type-VF".to_owned()),
        ("rp_uuid", card().to_string()),
    ];
    state.nodes[0].pci_device_pools = Some(vec![PciPool {
        vendor_id: "10de".to_owned(),
        product_id: "20b7".to_owned(),
        numa_node: None,
        count: 2,
        tags: tags.map(|(key, tag)| (key.to_owned(), tag)).into(),
    }]);
    fleet
        .hosts
        .store_state(&host.name, state)
        .await
        .expect("a state");
    fleet
}

fn options() -> SchedulerOptions {
    let mut options = SchedulerOptions::default();
    let alias =
        json!({"name": "gpu", "vendor_id": "10de", "product_id": "20b7", "device_type": "type-VF"});
    options.pci.alias = vec![PciAlias::read(&alias).expect("an alias")];
    options.filter_scheduler.pci_in_placement = true;
    let filters = &mut options.filter_scheduler.enabled_filters;
    filters.push("PciPassthroughFilter".to_owned());
    filters.push("NUMATopologyFilter".to_owned());
    options
}

fn with_devices(number: u32, alias: &str) -> BootRequest {
    let specs = json!({"pci_passthrough:alias": alias});
    asked(&json!({
        "uuid": guest(number).to_string(),
        "name": "vm",
        "flavor": {"name": "one", "vcpus": 1, "ram_mb": 512, "disk_gb": 1, "extra_specs": specs},
    }))
}

async fn conductor(fleet: &Fleet, options: SchedulerOptions) -> Conductor {
    let journal = SqlBootJournal::in_memory().await.expect("memory");
    fleet.conductor_of(Arc::new(journal), options, impatient())
}

#[tokio::test]
async fn a_guest_gets_the_devices_that_its_flavors_alias_means() {
    let fleet = fleet().await;
    let conductor = conductor(&fleet, options()).await;
    conductor.create(&with_devices(1, "gpu:2")).await.unwrap();
    let end = conductor.reconcile_guest(guest(1)).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    let built = fleet.agent.guests().remove(&guest(1)).expect("a guest");
    assert_eq!(built.node, "cell1-001");
    let of_card = &built.allocations[card().as_uuid()];
    assert_eq!(*of_card, BTreeMap::from([(CLASS.to_owned(), 2)]));
    // Placement has none left.
    conductor.create(&with_devices(2, "gpu:1")).await.unwrap();
    let end = format!("{:?}", conductor.reconcile_guest(guest(2)).await);
    assert!(end.contains("No valid host was found"), "{end}");
    assert!(end.contains(CLASS), "{end}");
}

#[tokio::test]
async fn a_flavor_with_unavailable_devices_is_refused_at_once() {
    let fleet = fleet().await;
    let mut without = options();
    without.filter_scheduler.pci_in_placement = false;
    for (options, alias, expected) in [
        (options(), "fpga:1", "there is no alias fpga"),
        (options(), "gpu", "should be NAME:COUNT"),
        (without, "gpu:1", "pci_in_placement = true"),
        (
            SchedulerOptions::default(),
            "gpu:1",
            "there is no alias gpu",
        ),
    ] {
        let conductor = conductor(&fleet, options).await;
        let refused = conductor.create(&with_devices(1, alias)).await;
        let Err(ConductorError::Spec(error)) = refused else {
            panic!("{alias}: {refused:?}");
        };
        assert!(error.to_string().contains(expected), "{alias}: {error}");
    }
}
