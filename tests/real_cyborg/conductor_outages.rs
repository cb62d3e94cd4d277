//! Outages of Cyborg for the conductor: at each request of a boot, of its deletion and of a rollback, before and after
//! its execution; and kills of its process.

use berth_conductor::{Conductor, GuestRunOutcome};
use berth_model::DeviceProfileName;
use http::Method;

use crate::real_cyborg::agent::Agent;
use crate::real_cyborg::cloud::{CUT, Cloud, KILLED, address, new_guest};
use crate::real_cyborg::conductor::{assert_nothing_left, conductor, end, with_profile};
use crate::real_cyborg::gate::{OutageGate, OutagePoint};

/// A boot and its end with the cut.
async fn life(cloud: &Cloud, cut: Option<OutagePoint>) -> OutageGate {
    let gate = OutageGate::new(cut);
    let agent = Agent::new(cloud, cloud.accelerators()).await;
    let accelerators = cloud.accelerators_through(|http| gate.before(http));
    let conductor = conductor(cloud, &agent, accelerators).await;
    let guest = new_guest();
    agent.deliver_events_of(cloud, guest);
    let request = with_profile(guest, "cut");
    conductor.create(&request).await.expect("it is taken");
    let ended = end(&conductor, guest).await;
    assert!(
        matches!(ended, GuestRunOutcome::Active),
        "{cut:?}: {ended:?}"
    );
    let devices = agent.devices(guest).await;
    assert_eq!(devices, [address(CUT)].into(), "{cut:?}");
    conductor.delete(guest).await.expect("it is taken");
    let ended = end(&conductor, guest).await;
    assert!(matches!(ended, GuestRunOutcome::Gone), "{cut:?}: {ended:?}");
    assert!(agent.devices(guest).await.is_empty(), "{cut:?}");
    assert_nothing_left(cloud, guest).await;
    assert_no_requests(cloud, &conductor, "cut").await;
    gate
}

/// A boot that the agent refuses, with the cut: its device is one of Cyborg's fake driver.
async fn refusal(cloud: &Cloud, cut: Option<OutagePoint>) -> OutageGate {
    let gate = OutageGate::new(cut);
    let agent = Agent::new(cloud, cloud.accelerators()).await;
    let accelerators = cloud.accelerators_through(|http| gate.before(http));
    let conductor = conductor(cloud, &agent, accelerators).await;
    let guest = new_guest();
    agent.deliver_events_of(cloud, guest);
    let request = with_profile(guest, "fake-too");
    conductor.create(&request).await.expect("it is taken");
    let ended = end(&conductor, guest).await;
    let GuestRunOutcome::Failed { reason } = ended else {
        panic!("{cut:?}: {ended:?}");
    };
    assert!(reason.contains("TEST_PCI"), "{cut:?}: {reason}");
    assert_nothing_left(cloud, guest).await;
    assert_no_requests(cloud, &conductor, "fake-too").await;
    gate
}

/// Asserts that Cyborg has no request of this profile, after orphaned requests were collected.
async fn assert_no_requests(cloud: &Cloud, conductor: &Conductor, profile: &str) {
    let collected = conductor.collect_orphaned_arqs().await;
    collected.expect("Cyborg answers");
    let profile = DeviceProfileName::new(profile).expect("a name");
    let all = cloud.accelerators().arqs().await.expect("Cyborg answers");
    let left = all.iter().filter(|reported| {
        let arq = reported.arq.as_ref();
        arq.is_ok_and(|arq| arq.device_profile == profile)
    });
    assert_eq!(left.count(), 0, "{all:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_boot_and_its_deletion_survive_an_outage_at_each_request() {
    let cloud = Cloud::shared();
    let whole = life(cloud, None).await;
    let questions = whole.questions();
    for method in [Method::GET, Method::POST, Method::PATCH, Method::DELETE] {
        let what = "a profile, requests made, bound and deleted";
        assert!(questions.contains(&method), "{what}: {questions:?}");
    }
    for cut in whole.cuts() {
        life(cloud, Some(cut)).await;
    }
    cloud.assert_free(CUT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_boot_is_undone_through_an_outage_at_each_request() {
    let cloud = Cloud::shared();
    let whole = refusal(cloud, None).await;
    for cut in whole.cuts() {
        refusal(cloud, Some(cut)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_cyborg_delays_a_boot_and_its_end() {
    let cloud = Cloud::shared();
    let mut api = cloud.cyborg.another_api().expect("a process");
    let agent = Agent::new(cloud, cloud.accelerators()).await;
    let accelerators = cloud.accelerators_at(&format!("{}/v2", api.url()));
    let conductor = conductor(cloud, &agent, accelerators).await;
    let guest = new_guest();
    agent.deliver_events_of(cloud, guest);
    // Nothing listens yet.
    let request = with_profile(guest, "killed");
    conductor.create(&request).await.expect("it is taken");
    let held = conductor.reconcile_guest(guest).await;
    assert!(matches!(held, GuestRunOutcome::Blocked { .. }), "{held:?}");
    tokio::task::block_in_place(|| api.start()).expect("the API starts");
    let active = end(&conductor, guest).await;
    assert!(matches!(active, GuestRunOutcome::Active), "{active:?}");
    assert_eq!(agent.devices(guest).await, [address(KILLED)].into());
    api.kill();
    conductor.delete(guest).await.expect("it is taken");
    let held = conductor.reconcile_guest(guest).await;
    assert!(matches!(held, GuestRunOutcome::Blocked { .. }), "{held:?}");
    tokio::task::block_in_place(|| api.start()).expect("the API starts");
    let gone = end(&conductor, guest).await;
    assert!(matches!(gone, GuestRunOutcome::Gone), "{gone:?}");
    assert_nothing_left(cloud, guest).await;
    cloud.assert_free(KILLED).await;
}
