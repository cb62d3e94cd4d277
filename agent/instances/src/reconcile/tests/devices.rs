//! Tests of the reconciler's findings about devices, and of its repairs.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_agent_devices::DeviceManager;
use berth_agent_devices::report::{Advice, wanted_device};
use berth_agent_devices::test_card::{NAME, TestCard, devices, mdev, offered, uuid};
use berth_agent_images::InstancesPath;
use berth_agent_journal::{NamedDevice as _, Quarantine, QuarantinedBy};
use berth_model::NodeName;
use berth_virt::guest_spec::HostPath;
use berth_virt::{OfferedHandle, PreparedDevice, Preparer};

use crate::accelerators::Accelerators;
use crate::external_events::ExternalEvents;
use crate::files::GuestFiles;
use crate::guests::{Guests, GuestsParts};
use crate::host_resources::HostResources;
use crate::manager::{FindingObserver, GuestManager as _};
use crate::reconcile::finding::FINDING_GRACE;
use crate::reconcile::kind::FindingKind;
use crate::reconcile::{ReconcileReport, Reconciler};

/// The findings of the last comparison.
#[derive(Default)]
struct CountedFindings(Mutex<Vec<FindingKind>>);

impl FindingObserver for CountedFindings {
    fn findings(&self, kinds: Vec<FindingKind>) {
        *self.0.lock().unwrap() = kinds;
    }
}

/// Later comparisons do not find the removed device, so the comparison that removed it reports it, once.
#[tokio::test]
async fn a_removed_mediated_device_is_reported_by_the_comparison_that_removed_it() {
    let (_, devices) = devices("SELECT 1").await;
    let orphan = mdev(1);
    let driver = Arc::clone(devices.driver());
    driver.mdevs.lock().unwrap().insert(uuid(&orphan));
    let node = NodeName::new("compute1").unwrap();
    let seen = vec![offered(vec![orphan.clone()])];
    let advice = Advice {
        release_counts: [(orphan.name(), 0)].into(),
        ..Advice::default()
    };
    devices.assume(node, seen, advice);
    let reconciler = reconciler(&devices);
    let report = reconciler.find_differences().await.unwrap();
    assert_eq!(
        codes(report),
        [],
        "a comparison without repair removes nothing"
    );
    let repaired = reconciler.repair().await.unwrap();
    assert_eq!(codes(repaired), [("mdev_orphan", orphan.name())]);
    assert_eq!(codes(reconciler.repair().await.unwrap()), []);
}

/// The reconciler of a host with these devices and no instances.
fn reconciler(devices: &DeviceManager<TestCard>) -> Reconciler<TestCard, HostResources<TestCard>> {
    let driver = Arc::clone(devices.driver());
    let folder = InstancesPath::new(HostPath::new("/nonexistent").unwrap());
    let files = GuestFiles::below(folder);
    let guests = Guests::new(GuestsParts {
        journal: Arc::clone(devices.journal()),
        driver: Arc::clone(&driver),
        resources: Arc::new(HostResources::new(driver, files)),
        accelerators: Accelerators {
            client: None,
            events: ExternalEvents::default(),
            binding_timeout: Duration::from_secs(1),
        },
        boot_id: "boot".to_owned(),
        max_concurrent_builds: 10,
    });
    Reconciler::new(guests, Some(devices.clone()), None)
}

fn codes(found: ReconcileReport) -> Vec<(&'static str, String)> {
    let found = found.findings.into_iter();
    found
        .map(|(finding, _)| (finding.code(), finding.subject()))
        .collect()
}

/// A device of an instance whose journal record was lost, and whose spawn was interrupted before the guest was defined.
#[tokio::test]
async fn a_leftover_device_of_an_unknown_guest_is_reclaimed_after_the_grace_period() {
    let (register, devices) = devices("SELECT 1").await;
    let function = OfferedHandle::Function(NAME.parse().unwrap());
    let left = |handle: &OfferedHandle, by| PreparedDevice {
        wanted: wanted_device(handle),
        by,
        group_members: BTreeSet::new(),
    };
    let [ours, anothers, quarantined] = [1, 2, 3].map(mdev);
    let driver = Arc::clone(devices.driver());
    let there = [&ours, &anothers, &quarantined].map(uuid);
    *driver.mdevs.lock().unwrap() = there.into();
    *driver.prepared.lock().unwrap() = vec![
        left(&function, Preparer::Berth),
        left(&ours, Preparer::Berth),
        left(&anothers, Preparer::Another),
        left(&quarantined, Preparer::Berth),
    ];
    let why = Quarantine::new("no", QuarantinedBy::Operator);
    register
        .quarantine(&quarantined.name(), &why)
        .await
        .unwrap();
    devices.refresh().await.unwrap();
    let reconciler = reconciler(&devices);
    let counted = Arc::new(CountedFindings::default());
    reconciler.set_finding_observer(counted.clone());
    let counts = |code: &str, count: usize| {
        let kinds = counted.0.lock().unwrap();
        let found = kinds.iter().filter(|kind| kind.code() == code).count();
        assert_eq!(found, count, "{code} in {kinds:?}");
    };
    let found = [
        ("device_left", function.name()),
        ("mdev_orphan", ours.name()),
    ];
    // An instance that is being removed causes this state briefly.
    for _ in 0..2 {
        assert_eq!(codes(reconciler.find_differences().await.unwrap()), found);
        assert_eq!(codes(reconciler.repair().await.unwrap()), found);
    }
    assert_eq!(driver.prepared.lock().unwrap().len(), 4);
    counts("mdev_orphan", 0);
    reconciler.age_findings(FINDING_GRACE);
    assert_eq!(codes(reconciler.repair().await.unwrap()), found);
    counts("mdev_orphan", 1);
    counts("guest_stuck", 0);
    assert_eq!(codes(reconciler.find_differences().await.unwrap()), []);
    counts("mdev_orphan", 0);
    let prepared = driver.prepared.lock().unwrap();
    let stays: Vec<_> = prepared
        .iter()
        .map(|device| device.wanted.device.name())
        .collect();
    assert_eq!(stays, [anothers.name(), quarantined.name()]);
}
