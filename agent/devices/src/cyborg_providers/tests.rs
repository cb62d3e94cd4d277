//! Tests of reports and overlays for a device whose provider Cyborg created.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use berth_agent_journal::SqlJournal;
use berth_agent_tracker::KnownTrees;
use berth_client::{AcceleratorClient, AdapterOptions, Auth, HttpService, TransportError};
use berth_model::{Inventory, Provider, ProviderName, ProviderUuid, ResourceClass, Trait};
use berth_virt::{
    ClassOrigin, DeviceCondition, DeviceOwner, DeviceType, DeviceUnit, HostEvents, HypervisorInfo,
    NodeCpus, NodeDisk, NodeView, ObserveError, OfferedDevice, OfferedHandle, PciInPlacement,
    ResourceModel,
};
use bytes::Bytes;
use http::{Request, Response};
use serde_json::Value;
use uuid::Uuid;

use super::*;
use crate::devices::{DeviceConditions as _, DeviceManagerParts, DeviceOptions};

/// A driver that is never asked to observe.
struct IdleDriver;

impl VirtDriver for IdleDriver {
    fn name(&self) -> &'static str {
        "host"
    }

    async fn observe(&self) -> Result<HostView, ObserveError> {
        std::future::pending().await
    }

    fn watch(&self) -> HostEvents {
        Box::pin(futures_util::stream::pending())
    }
}

type ReportLog = Arc<Mutex<Vec<Value>>>;

/// An accelerator service without data that records the reports.
fn service() -> (AcceleratorClient, ReportLog) {
    let reports = ReportLog::default();
    let record = Arc::clone(&reports);
    let http = HttpService::new(tower::service_fn(move |request: Request<Bytes>| {
        let body = serde_json::from_slice(request.body()).unwrap_or_default();
        record.lock().unwrap().push(body);
        let answer = Response::new(Bytes::from_static(br#"{"devices": []}"#));
        std::future::ready(Ok::<_, TransportError>(answer))
    }));
    let auth = Auth::none("http://accelerator").unwrap();
    (
        AcceleratorClient::new(http, auth, &AdapterOptions::default()),
        reports,
    )
}

async fn devices(service: AcceleratorClient, trees: &KnownTrees) -> DeviceManager<IdleDriver> {
    let journal = SqlJournal::in_memory().await.unwrap();
    let parts = DeviceManagerParts {
        driver: Arc::new(IdleDriver),
        register: journal.devices(),
        journal: Arc::new(journal),
        service: Some(service),
        options: DeviceOptions::default(),
    };
    DeviceManager::open(parts)
        .await
        .unwrap()
        .with_trees(trees.clone())
}

fn node() -> NodeName {
    NodeName::new("compute1.example.org").unwrap()
}

/// The node with a graphics card without a configured class.
fn view() -> HostView {
    let address = "0000:84:00.0".parse().unwrap();
    let card = OfferedDevice {
        address,
        vendor_id: 0x10de,
        product_id: 0x1eb8,
        owner: DeviceOwner::Accelerator,
        device_type: DeviceType::Gpu,
        model: None,
        numa_node: None,
        physical_network: None,
        network_functions: BTreeMap::new(),
        class: ResourceClass::PGPU,
        class_origin: ClassOrigin::Default,
        traits: BTreeSet::new(),
        handles: vec![OfferedHandle::Function(address)],
        unit: DeviceUnit::Handle,
        unfit_handles: BTreeSet::new(),
        link_group: None,
        one_time_use: false,
        condition: DeviceCondition::Fit,
    };
    let observation = NodeView {
        uuid: None,
        cpus: NodeCpus::default(),
        memory_mib: 1024,
        disk: NodeDisk::Local { gib: 10 },
        cells: Vec::new(),
        gpus: Vec::new(),
        functions: Vec::new(),
        devices: vec![card],
        pci: PciInPlacement::default(),
        customs: Vec::new(),
        encryption_contexts: BTreeMap::new(),
        traits: BTreeSet::new(),
        capabilities: berth_virt::NodeCapabilities::default(),
        guests: BTreeMap::new(),
        unreadable: BTreeMap::new(),
        model: ResourceModel::default(),
    };
    HostView {
        hypervisor: HypervisorInfo {
            kind: "none".into(),
            version: "1".into(),
            hostname: "host".into(),
        },
        nodes: BTreeMap::from([(node(), observation)]),
    }
}

/// The node's tree with the card's provider as Cyborg created it.
fn tree() -> ProviderTree {
    let root = Uuid::from_u128(1).into();
    let mut tree = ProviderTree::new(Provider::root(root, node().root_name().clone()));
    let name = ProviderName::new("compute1_0000:84:00.0").unwrap();
    let mut child = Provider::child(ProviderUuid::of_deployable(&name), name, root);
    let class = ResourceClass::new("CUSTOM_PCI").unwrap();
    child.inventories.insert(class, Inventory::of(1).unwrap());
    let trait_names = ["OWNER_CYBORG", "CUSTOM_PCI_PRODUCT_ID_1EB8"];
    child.traits = trait_names.map(|name| Trait::new(name).unwrap()).into();
    tree.insert(child).unwrap();
    tree
}

#[tokio::test]
async fn a_device_is_reported_once_the_provider_tree_is_known_with_cyborgs_class() {
    let (client, reports) = service();
    let trees = KnownTrees::default();
    let devices = devices(client, &trees).await;
    devices.overlay(devices.begin_observation(), &mut view());
    devices.send_reports().await.unwrap();
    assert_eq!(*reports.lock().unwrap(), [] as [Value; 0]);

    trees.set([(node(), Arc::new(tree()))].into_iter());
    devices.wait_for_tree().await;
    devices.send_reports().await.unwrap();
    let bodies = reports.lock().unwrap().clone();
    let [body] = &bodies[..] else {
        panic!("{bodies:?}")
    };
    let deployable = &body["devices"][0]["deployables"][0];
    let made = ProviderUuid::of_deployable(&ProviderName::new("compute1_0000:84:00.0").unwrap());
    assert_eq!(deployable["rp_uuid"], made.to_string());
    assert_eq!(deployable["name"], "compute1.example.org_0000:84:00.0");
    assert_eq!(deployable["resource_class"], "CUSTOM_PCI");
    assert_eq!(
        deployable["traits"],
        serde_json::json!(["CUSTOM_PCI_PRODUCT_ID_1EB8"])
    );

    // The next observation gets the overlay, too, without another log line.
    let mut next = view();
    devices.overlay(devices.begin_observation(), &mut next);
    assert_eq!(next.nodes[&node()].devices[0].class.as_str(), "CUSTOM_PCI");
    devices.send_reports().await.unwrap();
    assert_eq!(reports.lock().unwrap().len(), 1);
}
