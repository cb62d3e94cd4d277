//! Devices that a flavor requests by alias, from the configuration to the host's agent.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_client::PlacementClient;
use berth_conductor::journal::SqlBootJournal;
use berth_conductor::{BootRequest, Conductor, ConductorError, GuestRunOutcome};
use berth_model::{Inventory, Provider, ProviderName, ProviderUuid, ResourceClass, Trait};
use berth_scheduler::SchedulerOptions;
use berth_scheduler::request::PciAlias;
use berth_tests::boot::{asked, guest, impatient};
use berth_tests::claims::{Claim, claim};
use berth_tests::cloud::Cloud;
use berth_tests::fleet::{Fleet, hosts};
use berth_tests::host::consumer;
use berth_tests::host_states::{self, ReportedHost};
use berth_wire::host_state::PciPool;
use serde_json::{Value, json};
use uuid::Uuid;

const CLASS: &str = "CUSTOM_PCI_10DE_20B7";

fn card(n: u8) -> ProviderUuid {
    Uuid::from_u128(0xca7d_0000 + u128::from(n)).into()
}

/// The second of two hosts has these cards, as its agent would tell it: each with its link group and its number of functions.
async fn fleet(cards: &[(Option<&str>, u32)]) -> Fleet {
    let all = hosts(2, "cell1", 4);
    let fleet = Fleet::over(Cloud::in_process().await, &all).await;
    let host = &all[1];
    let placement = fleet.cloud().placement();
    let name = |text: &str| ProviderName::new(&format!("{}_{text}", host.name)).expect("a name");
    let class: ResourceClass = CLASS.parse().expect("a class");
    placement
        .ensure_resource_class(&class)
        .await
        .expect("a class");
    let mut pools = Vec::new();
    for (n, (group, functions)) in (0..).zip(cards) {
        let parent = match group {
            Some(group) => {
                link_group(&placement, host.root(), name(&format!("link-{group}"))).await
            }
            None => host.root(),
        };
        let made = Provider::child(card(n), name(&format!("0000:8{n}:00.0")), parent);
        let made = placement.create_provider(&made).await.expect("a provider");
        let inventory = Inventory::of(u64::from(*functions)).expect("a number");
        let inventories = BTreeMap::from([(class.clone(), inventory)]);
        let generation = made.generation.expect("a generation");
        placement
            .put_inventories(card(n), generation, &inventories)
            .await
            .expect("inventories");
        let tags = [
            ("dev_type", "type-VF".to_owned()),
            ("rp_uuid", card(n).to_string()),
        ];
        pools.push(PciPool {
            vendor_id: "10de".to_owned(),
            product_id: "20b7".to_owned(),
            numa_node: None,
            count: i64::from(*functions),
            tags: tags.map(|(key, tag)| (key.to_owned(), tag)).into(),
        });
    }
    let mut state = host_states::state(&ReportedHost {
        name: host.name.clone(),
        node: *host.root().as_uuid(),
        vcpus: 4,
        memory_mb: 4096,
        local_gb: 40,
    });
    state.nodes[0].pci_device_pools = Some(pools);
    fleet
        .hosts
        .store_state(&host.name, state)
        .await
        .expect("a state");
    fleet
}

/// The provider of a link group, made once.
async fn link_group(
    placement: &PlacementClient,
    root: ProviderUuid,
    name: ProviderName,
) -> ProviderUuid {
    let group = Provider::child(root.child(&name), name, root);
    if let Some(there) = placement.provider(group.uuid()).await.expect("an answer") {
        return there.uuid();
    }
    let marks = [Trait::CUSTOM_LINK_GROUP].into();
    placement
        .ensure_trait(&Trait::CUSTOM_LINK_GROUP)
        .await
        .expect("a trait");
    let made = placement.create_provider(&group).await.expect("a provider");
    let generation = made.generation.expect("a generation");
    let put = placement.put_traits(made.uuid(), generation, &marks).await;
    put.expect("traits");
    made.uuid()
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
    with_specs(number, &json!({"pci_passthrough:alias": alias}))
}

fn with_specs(number: u32, specs: &Value) -> BootRequest {
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
    let fleet = fleet(&[(None, 2)]).await;
    let conductor = conductor(&fleet, options()).await;
    conductor.create(&with_devices(1, "gpu:2")).await.unwrap();
    let end = conductor.reconcile_guest(guest(1)).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    let built = fleet.agent.guests().remove(&guest(1)).expect("a guest");
    assert_eq!(built.node, "cell1-001");
    let of_card = &built.allocations[card(0).as_uuid()];
    assert_eq!(*of_card, BTreeMap::from([(CLASS.to_owned(), 2)]));
    // Placement has none left.
    conductor.create(&with_devices(2, "gpu:1")).await.unwrap();
    let end = format!("{:?}", conductor.reconcile_guest(guest(2)).await);
    assert!(end.contains("No valid host was found"), "{end}");
    assert!(end.contains(CLASS), "{end}");
}

#[tokio::test]
async fn a_flavor_with_unavailable_devices_is_refused_at_once() {
    let fleet = fleet(&[(None, 2)]).await;
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
    let specs = json!({"pci_passthrough:alias": "gpu:1", "berth:same_link_group": "fpga"});
    let conductor = conductor(&fleet, options()).await;
    let refused = conductor.create(&with_specs(1, &specs)).await;
    let error = refused.expect_err("no alias of the flavor").to_string();
    assert!(error.contains("berth:same_link_group"), "{error}");
}

#[tokio::test]
async fn the_devices_of_a_flavor_are_of_one_link_group() {
    let cards = ["left", "right", "left", "right"];
    let fleet = fleet(&cards.map(|group| (Some(group), 1))).await;
    let conductor = conductor(&fleet, options()).await;
    let linked = json!({"pci_passthrough:alias": "gpu:2", "berth:same_link_group": "gpu"});
    // One device of each link group is free.
    let class: ResourceClass = CLASS.parse().expect("a class");
    let [left, right] = [1, 2].map(|n| Claim::of(consumer(n)).and(card(3 - n as u8), &class, 1));
    let placement = fleet.cloud().placement();
    claim(&placement, vec![left, right]).await;
    conductor.create(&with_specs(1, &linked)).await.unwrap();
    let end = format!("{:?}", conductor.reconcile_guest(guest(1)).await);
    let reason = "no host has 2 free devices in one link group in addition to the rest";
    assert!(end.contains(reason), "{end}");
    // Two of one link group are free, and two of different ones.
    placement.delete_allocations(consumer(2)).await.unwrap();
    conductor.create(&with_specs(2, &linked)).await.unwrap();
    let end = conductor.reconcile_guest(guest(2)).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    let built = fleet.agent.guests().remove(&guest(2)).expect("a guest");
    let has = |n: &u8| built.allocations.contains_key(card(*n).as_uuid());
    assert_eq!((0..4).filter(has).collect::<Vec<u8>>(), [1, 3]);
}
