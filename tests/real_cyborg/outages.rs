//! Outages of Cyborg for the agent: at each request of a guest's life, before and after its execution; and kills of its
//! process.

use berth_agent_instances::ReconcileOutcome;
use berth_model::{ArqPhase, ConsumerUuid};
use http::Method;

use crate::real_cyborg::agent::Agent;
use crate::real_cyborg::cloud::{Cloud, address, fake_provider, new_guest, provider};
use crate::real_cyborg::gate::{OutageGate, OutagePoint};

/// The end of a guest's task; a blocked one continues when Cyborg is back.
async fn end(agent: &Agent, guest: ConsumerUuid) -> ReconcileOutcome {
    match agent.guests.reconcile_instance(guest).await {
        ReconcileOutcome::Blocked { .. } => agent.guests.reconcile_instance(guest).await,
        end => end,
    }
}

/// A life with the cut.
async fn life(cloud: &Cloud, cut: Option<OutagePoint>) -> OutageGate {
    let gate = OutageGate::new(cut);
    let accelerators = cloud.accelerators_through(|http| gate.before(http));
    let agent = Agent::new(cloud, accelerators).await;
    let guest = new_guest();
    agent.deliver_events_of(cloud, guest);
    let arq = cloud.bound("pci", guest, provider(6)).await;
    agent.asks_for(guest, &[arq]).await;
    let ended = end(&agent, guest).await;
    assert!(
        matches!(ended, ReconcileOutcome::Settled),
        "{cut:?}: {ended:?}"
    );
    assert_eq!(agent.devices(guest).await, [address(6)].into(), "{cut:?}");
    let asked = agent.guests.delete(guest).await;
    asked.expect("the journal takes it");
    let ended = end(&agent, guest).await;
    assert!(
        matches!(ended, ReconcileOutcome::Gone),
        "{cut:?}: {ended:?}"
    );
    assert!(agent.devices(guest).await.is_empty(), "{cut:?}");
    assert_eq!(cloud.phases(&[arq]).await, [None], "{cut:?}");
    gate
}

/// A refusal with the cut.
async fn refusal(cloud: &Cloud, cut: Option<OutagePoint>) -> OutageGate {
    let gate = OutageGate::new(cut);
    let accelerators = cloud.accelerators_through(|http| gate.before(http));
    let agent = Agent::new(cloud, accelerators).await;
    let guest = new_guest();
    let arq = cloud.bound("fake", guest, fake_provider()).await;
    agent.asks_for(guest, &[arq]).await;
    let ended = end(&agent, guest).await;
    assert!(
        matches!(ended, ReconcileOutcome::Undone { .. }),
        "{cut:?}: {ended:?}"
    );
    let phase = cloud.phases(&[arq]).await[0];
    assert_eq!(phase, Some(ArqPhase::Unbound), "{cut:?}");
    let deleted = cloud.accelerators().delete_arq(arq).await;
    deleted.expect("Cyborg deletes it");
    gate
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_lives_through_an_outage_at_each_question() {
    let cloud = Cloud::shared();
    let whole = life(cloud, None).await;
    let questions = whole.questions();
    assert!(
        questions.contains(&Method::GET) && questions.contains(&Method::DELETE),
        "a poll and a delete: {questions:?}"
    );
    for cut in whole.cuts() {
        life(cloud, Some(cut)).await;
    }
    cloud.assert_free(6).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_guest_gives_its_requests_back_through_an_outage_at_each_question() {
    let cloud = Cloud::shared();
    let whole = refusal(cloud, None).await;
    let questions = whole.questions();
    assert!(
        questions.contains(&Method::GET) && questions.contains(&Method::PATCH),
        "a poll and an unbind: {questions:?}"
    );
    for cut in whole.cuts() {
        refusal(cloud, Some(cut)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_cyborg_delays_a_guest_and_its_end() {
    let cloud = Cloud::shared();
    let mut api = cloud.cyborg.another_api().expect("a process");
    let accelerators = cloud.accelerators_at(&format!("{}/v2", api.url()));
    let agent = Agent::new(cloud, accelerators).await;
    let guest = new_guest();
    let arq = cloud.bound("pci", guest, provider(7)).await;
    // Nothing listens yet.
    agent.asks_for(guest, &[arq]).await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert!(agent.devices(guest).await.is_empty());
    tokio::task::block_in_place(|| api.start()).expect("the API starts");
    agent.runs(guest).await;
    assert_eq!(agent.devices(guest).await, [address(7)].into());
    api.kill();
    agent.guests.delete(guest).await.expect("it is taken");
    let held = agent.guests.reconcile_instance(guest).await;
    assert!(matches!(held, ReconcileOutcome::Blocked { .. }), "{held:?}");
    tokio::task::block_in_place(|| api.start()).expect("the API starts");
    let gone = agent.guests.reconcile_instance(guest).await;
    assert!(matches!(gone, ReconcileOutcome::Gone), "{gone:?}");
    assert_eq!(cloud.phases(&[arq]).await, [None]);
    cloud.assert_free(7).await;
}
