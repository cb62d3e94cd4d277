//! Where the accelerator service takes no report of the host's devices, the comparison asks it what is bound here.

use berth_agent_devices::{DeviceConditions as _, DeviceOptions, DevicesParts};
use berth_agent_journal::SqlJournal;
use berth_client::{AcceleratorClient, AdapterOptions, Auth, HttpService, TransportError};
use berth_model::ResourceClass;
use berth_virt::{DeviceCondition, DeviceOwner, DeviceType, OfferedDevice, OfferedHandle};
use bytes::Bytes;
use http::{Request, Response};

use super::*;
use crate::stage::{self, Hypervisor, Mishap};

/// An accelerator service that answers a report of devices so, and is asked nothing else.
fn told(status: u16) -> AcceleratorClient {
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

/// A comparison on a host with the device 2 of this owner, whose report the service answered so.
async fn reconciler(
    stage: &Stage,
    owner: DeviceOwner,
    status: u16,
) -> Reconciler<Hypervisor, stage::Devices> {
    let guests = stage.guests();
    let driver = Arc::clone(&guests.inner.context.driver);
    let journal = SqlJournal::in_memory().await.unwrap();
    let devices = Devices::open(DevicesParts {
        driver: Arc::clone(&driver),
        register: journal.devices(),
        journal: Arc::new(journal),
        service: Some(told(status)),
        options: DeviceOptions::default(),
    });
    let devices = devices.await.unwrap();
    let mut view = driver.observe().await.unwrap();
    for node in view.nodes.values_mut() {
        node.devices.push(offered(owner));
    }
    devices.overlay(devices.begin_look(), &mut view);
    devices.tell().await.unwrap();
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
        class: ResourceClass::PGPU,
        class_origin: berth_virt::ClassOrigin::Said,
        traits: BTreeSet::new(),
        handles: vec![OfferedHandle::Function(address)],
        unit: berth_virt::DeviceUnit::Handle,
        set_aside: BTreeSet::new(),
        one_time_use: false,
        condition: DeviceCondition::Fit,
    }
}

#[tokio::test]
async fn a_request_that_is_bound_here_for_nobody_is_found_and_told_to_an_operator() {
    // Nothing takes devices there, and Cyborg says so by 405; those of [pci] are not told to begin with.
    let cyborgs = [
        (DeviceOwner::Accelerator, 404),
        (DeviceOwner::Accelerator, 405),
        (DeviceOwner::Compute, 500),
    ];
    for (owner, status) in cyborgs {
        let stage = Stage::new().await;
        stage.bind(5, &[2]);
        stage.start_binding(6, &[3]);
        stage.comes(Mishap::Bound(4, "compute2", 7));
        let reconciler = reconciler(&stage, owner, status).await;
        let looked = reconciler.look().await.unwrap();
        assert_eq!(looked.unknown, Vec::<String>::new());
        let [(finding, age)] = &looked.findings[..] else {
            panic!("{owner:?}: {looked:?}");
        };
        assert_eq!(
            (finding.code(), finding.subject()),
            ("request_orphan", arq(2).to_string())
        );
        let (remedy, text) = finding.told(*age);
        assert_eq!(remedy, Remedy::Awaited, "it may be one that is being made");
        assert!(!text.contains("delete"), "{text}");
        let (remedy, text) = finding.told(GRACE);
        assert_eq!(remedy, Remedy::Reported);
        let named = [
            device(2),
            guest(5).to_string(),
            format!("request delete {}", arq(2)),
        ];
        assert!(named.iter().all(|it| text.contains(it)), "{text}");
        // The guest's own is no orphan.
        stage.bind(1, &[2]);
        stage.journaled(&request(1, &[2])).await;
        assert_eq!(
            found(&reconciler.look().await.unwrap()),
            ["guest_unfinished"]
        );
    }
}

#[tokio::test]
async fn a_service_that_takes_the_report_is_never_asked_for_a_list() {
    let stage = Stage::new().await;
    stage.bind(5, &[2]);
    let reconciler = reconciler(&stage, DeviceOwner::Accelerator, 200).await;
    assert_eq!(found(&reconciler.look().await.unwrap()), Vec::<&str>::new());
    assert_eq!(stage.questions(), 0);
}

#[tokio::test]
async fn a_list_that_does_not_come_is_told_as_unknown() {
    let stage = Stage::new().await;
    stage.comes(Mishap::ServiceAway);
    let reconciler = reconciler(&stage, DeviceOwner::Compute, 404).await;
    let looked = reconciler.look().await.unwrap();
    assert_eq!(found(&looked), Vec::<&str>::new());
    assert_eq!(looked.unknown.len(), 1, "{:?}", looked.unknown);
}

/// A list of all requests of all hosts is long, and each host asks for it.
#[tokio::test]
async fn the_clock_takes_a_list_that_is_not_old_and_a_person_one_of_now() {
    let stage = Stage::new().await;
    let reconciler = reconciler(&stage, DeviceOwner::Compute, 404).await;
    for asked in [1, 1] {
        reconciler.look_by(Wanted::NowAndThen).await.unwrap();
        assert_eq!(stage.questions(), asked);
    }
    reconciler.look().await.unwrap();
    reconciler.repair().await.unwrap();
    assert_eq!(stage.questions(), 3);
    age(&reconciler, GRACE);
    reconciler.look_by(Wanted::NowAndThen).await.unwrap();
    assert_eq!(stage.questions(), 3, "nothing seemed wrong");
    // What seems to be an orphan may have been ended by somebody since.
    stage.bind(5, &[2]);
    assert_eq!(found(&reconciler.look().await.unwrap()), ["request_orphan"]);
    reconciler.look_by(Wanted::NowAndThen).await.unwrap();
    assert_eq!(stage.questions(), 4);
    age(&reconciler, GRACE);
    reconciler.look_by(Wanted::NowAndThen).await.unwrap();
    assert_eq!(stage.questions(), 5);
    age(&reconciler, LIST_AGE);
    reconciler.look_by(Wanted::NowAndThen).await.unwrap();
    assert_eq!(stage.questions(), 6);
}

/// The list is older by so much.
fn age<D: VirtDriver, R: GuestResources>(reconciler: &Reconciler<D, R>, by: Duration) {
    if let Some((at, _)) = &mut *reconciler.listed() {
        *at = at.checked_sub(by).unwrap();
    }
}
