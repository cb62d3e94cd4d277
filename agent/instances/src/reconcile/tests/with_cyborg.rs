//! Tests of the reconciler with an accelerator service that accepts no device reports: it queries the bindings instead.

use berth_agent_devices::{DeviceConditions as _, DeviceManagerParts, DeviceOptions};
use berth_agent_journal::SqlJournal;
use berth_client::{AcceleratorClient, AdapterOptions, Auth, HttpService, TransportError};
use berth_model::ResourceClass;
use berth_virt::{DeviceCondition, DeviceOwner, DeviceType, OfferedDevice, OfferedHandle};
use bytes::Bytes;
use http::{Request, Response};

use super::*;
use crate::fault_harness::{self, SimulatedFailure, SimulatedHypervisor};

/// An accelerator service that answers device reports with this status.
fn accelerators_answering(status: u16) -> AcceleratorClient {
    let http = HttpService::new(tower::service_fn(
        move |request: Request<Bytes>| async move {
            assert_eq!(request.uri().path(), "/internal/v1/hosts/compute1/devices");
            let answer = Response::builder().status(status);
            let answer = answer.body(Bytes::from_static(br#"{"devices": []}"#));
            Ok::<_, TransportError>(answer.unwrap())
        },
    ));
    let auth = Auth::none("http://cyborg").unwrap();
    AcceleratorClient::new(http, auth, &AdapterOptions::default())
}

/// A reconciler on a host with device 2 of this owner, whose report was answered with this status.
async fn reconciler(
    harness: &FaultHarness,
    owner: DeviceOwner,
    status: u16,
) -> Reconciler<SimulatedHypervisor, fault_harness::SimulatedResources> {
    let guests = harness.guests();
    let driver = Arc::clone(&guests.inner.context.driver);
    let journal = SqlJournal::in_memory().await.unwrap();
    let devices = DeviceManager::open(DeviceManagerParts {
        driver: Arc::clone(&driver),
        register: journal.devices(),
        journal: Arc::new(journal),
        service: Some(accelerators_answering(status)),
        options: DeviceOptions::default(),
    });
    let devices = devices.await.unwrap();
    let mut view = driver.observe().await.unwrap();
    for node in view.nodes.values_mut() {
        node.devices.push(offered(owner));
    }
    devices.overlay(devices.begin_observation(), &mut view);
    devices.send_reports().await.unwrap();
    Reconciler::new(guests, Some(devices), None)
}

fn offered(owner: DeviceOwner) -> OfferedDevice {
    let address = device(2).parse().unwrap();
    OfferedDevice {
        address,
        vendor_id: 0x10de,
        product_id: 0x1eb8,
        owner,
        device_type: DeviceType::Gpu,
        model: None,
        numa_node: None,
        physical_network: None,
        network_functions: BTreeMap::new(),
        class: ResourceClass::PGPU,
        class_origin: berth_virt::ClassOrigin::Configured,
        traits: BTreeSet::new(),
        handles: vec![OfferedHandle::Function(address)],
        unit: berth_virt::DeviceUnit::Handle,
        unfit_handles: BTreeSet::new(),
        link_group: None,
        one_time_use: false,
        condition: DeviceCondition::Fit,
    }
}

#[tokio::test]
async fn a_request_bound_for_an_unknown_guest_is_reported_to_an_operator() {
    // Cyborg has no route for device reports and answers 405. Devices in [pci] are never reported.
    let cyborgs = [
        (DeviceOwner::Accelerator, 404),
        (DeviceOwner::Accelerator, 405),
        (DeviceOwner::Compute, 500),
    ];
    for (owner, status) in cyborgs {
        let harness = FaultHarness::new().await;
        harness.bind(5, &[2]);
        harness.start_binding(6, &[3]);
        harness.add_failure(SimulatedFailure::Bound(4, "compute2", 7));
        let reconciler = reconciler(&harness, owner, status).await;
        let report = reconciler.find_differences().await.unwrap();
        assert_eq!(report.unknown, Vec::<String>::new());
        let [(finding, age)] = &report.findings[..] else {
            panic!("{owner:?}: {report:?}");
        };
        assert_eq!(
            (finding.code(), finding.subject()),
            ("request_orphan", arq(2).to_string())
        );
        let (remedy, text) = finding.describe(*age);
        assert_eq!(remedy, Remedy::Awaited, "the guest may be being created");
        assert!(!text.contains("delete"), "{text}");
        let (remedy, text) = finding.describe(FINDING_GRACE);
        assert_eq!(remedy, Remedy::Reported);
        let named = [
            device(2),
            guest(5).to_string(),
            format!("request delete {}", arq(2)),
        ];
        assert!(named.iter().all(|name| text.contains(name)), "{text}");
        // The guest's own request is not an orphan.
        harness.bind(1, &[2]);
        harness.journaled(&request(1, &[2])).await;
        assert_eq!(
            found(&reconciler.find_differences().await.unwrap()),
            ["guest_unfinished"]
        );
    }
}

#[tokio::test]
async fn a_service_that_accepts_reports_is_never_queried_for_the_list() {
    let harness = FaultHarness::new().await;
    harness.bind(5, &[2]);
    let reconciler = reconciler(&harness, DeviceOwner::Accelerator, 200).await;
    assert_eq!(
        found(&reconciler.find_differences().await.unwrap()),
        Vec::<&str>::new()
    );
    assert_eq!(harness.query_count(), 0);
}

#[tokio::test]
async fn an_unreadable_list_is_reported_as_unknown() {
    let harness = FaultHarness::new().await;
    harness.add_failure(SimulatedFailure::ServiceAway);
    let reconciler = reconciler(&harness, DeviceOwner::Compute, 404).await;
    let report = reconciler.find_differences().await.unwrap();
    assert_eq!(found(&report), Vec::<&str>::new());
    assert_eq!(report.unknown.len(), 1, "{:?}", report.unknown);
}

/// The list of all requests of all hosts is long, and each host queries it.
#[tokio::test]
async fn periodic_comparisons_use_a_cached_list_and_callers_a_current_one() {
    let harness = FaultHarness::new().await;
    let reconciler = reconciler(&harness, DeviceOwner::Compute, 404).await;
    for asked in [1, 1] {
        reconciler
            .find_differences_with(ListFreshness::MayBeCached)
            .await
            .unwrap();
        assert_eq!(harness.query_count(), asked);
    }
    reconciler.find_differences().await.unwrap();
    reconciler.repair().await.unwrap();
    assert_eq!(harness.query_count(), 3);
    age(&reconciler, FINDING_GRACE);
    reconciler
        .find_differences_with(ListFreshness::MayBeCached)
        .await
        .unwrap();
    assert_eq!(harness.query_count(), 3, "no finding needed a new query");
    // A supposed orphan may have been removed since.
    harness.bind(5, &[2]);
    assert_eq!(
        found(&reconciler.find_differences().await.unwrap()),
        ["request_orphan"]
    );
    reconciler
        .find_differences_with(ListFreshness::MayBeCached)
        .await
        .unwrap();
    assert_eq!(harness.query_count(), 4);
    age(&reconciler, FINDING_GRACE);
    reconciler
        .find_differences_with(ListFreshness::MayBeCached)
        .await
        .unwrap();
    assert_eq!(harness.query_count(), 5);
    age(&reconciler, MAX_LIST_AGE);
    reconciler
        .find_differences_with(ListFreshness::MayBeCached)
        .await
        .unwrap();
    assert_eq!(harness.query_count(), 6);
}

/// Makes the cached list older by `by`.
fn age<D: VirtDriver, R: GuestResources>(reconciler: &Reconciler<D, R>, by: Duration) {
    if let Some((at, _)) = &mut *reconciler.arq_list() {
        *at = at.checked_sub(by).unwrap();
    }
}
