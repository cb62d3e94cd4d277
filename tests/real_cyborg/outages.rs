//! Cyborg goes away: at each question of a guest's life, before it is done and after, and killed as a process.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use berth_agent::guest::JourneyEnd;
use berth_client::{HttpService, TransportError};
use berth_model::ConsumerUuid;
use bytes::Bytes;
use http::{Method, Request};
use tower::service_fn;

use crate::agent::Agent;
use crate::cloud::{Cloud, address, fake_provider, new_guest, provider};

/// The way to Cyborg, cut once: at the n-th question, before it arrives or after it was done.
#[derive(Clone)]
struct Gate {
    asked: Arc<AtomicUsize>,
    /// Whether each question was one that changes something.
    changes: Arc<Mutex<Vec<bool>>>,
    cut: Option<(usize, bool)>,
}

impl Gate {
    fn new(cut: Option<(usize, bool)>) -> Self {
        Self {
            asked: Arc::default(),
            changes: Arc::default(),
            cut,
        }
    }

    /// Where an outage may strike: before each question, and after each that changes something.
    fn cuts(&self) -> Vec<(usize, bool)> {
        let changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let sides = changes.iter().enumerate().flat_map(|(at, changes)| {
            let after = changes.then_some((at, true));
            [Some((at, false)), after]
        });
        sides.flatten().collect()
    }

    fn before(&self, http: HttpService) -> HttpService {
        let gate = self.clone();
        HttpService::new(service_fn(move |request: Request<Bytes>| {
            let (gate, http) = (gate.clone(), http.clone());
            async move {
                // Keystone is asked through it, too.
                if !request.uri().path().starts_with("/v2/") {
                    return http.send(request).await;
                }
                let at = gate.asked.fetch_add(1, Ordering::Relaxed);
                let changes = request.method() != Method::GET;
                gate.changes
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(changes);
                match gate.cut {
                    Some((cut, false)) if at == cut => Err(TransportError::Refused {
                        peer: "cyborg".to_owned(),
                    }),
                    Some((cut, true)) if at == cut => {
                        http.send(request).await.ok();
                        Err(TransportError::Closed {
                            reason: "connection reset by peer".to_owned(),
                        })
                    }
                    _ => http.send(request).await,
                }
            }
        }))
    }
}

/// The end of a guest's journey; one that stands still goes on when Cyborg is back.
async fn end(agent: &Agent, guest: ConsumerUuid) -> JourneyEnd {
    match agent.guests.journey(guest).await {
        JourneyEnd::Held { .. } => agent.guests.journey(guest).await,
        end => end,
    }
}

/// A life with the cut; where others may strike.
async fn life(cloud: &Cloud, cut: Option<(usize, bool)>) -> Vec<(usize, bool)> {
    let gate = Gate::new(cut);
    let agent = Agent::new(cloud.accelerators_through(|http| gate.before(http))).await;
    let guest = new_guest();
    agent.hears_of(cloud, guest);
    let arq = cloud.bound("pci", guest, provider(6)).await;
    agent.asks_for(guest, &[arq]).await;
    let ended = end(&agent, guest).await;
    assert!(matches!(ended, JourneyEnd::Settled), "{cut:?}: {ended:?}");
    assert_eq!(agent.devices(guest).await, [address(6)].into(), "{cut:?}");
    let asked = agent.guests.delete(guest).await;
    asked.expect("the journal takes it");
    let ended = end(&agent, guest).await;
    assert!(matches!(ended, JourneyEnd::Gone), "{cut:?}: {ended:?}");
    assert!(agent.devices(guest).await.is_empty(), "{cut:?}");
    assert_eq!(cloud.phases(&[arq]).await, [None], "{cut:?}");
    gate.cuts()
}

/// A refusal with the cut; where others may strike.
async fn refusal(cloud: &Cloud, cut: Option<(usize, bool)>) -> Vec<(usize, bool)> {
    let gate = Gate::new(cut);
    let agent = Agent::new(cloud.accelerators_through(|http| gate.before(http))).await;
    let guest = new_guest();
    let arq = cloud.bound("fake", guest, fake_provider()).await;
    agent.asks_for(guest, &[arq]).await;
    let ended = end(&agent, guest).await;
    assert!(
        matches!(ended, JourneyEnd::Undone { .. }),
        "{cut:?}: {ended:?}"
    );
    let phase = cloud.phases(&[arq]).await[0];
    assert_eq!(phase, Some(berth_model::ArqPhase::Unbound), "{cut:?}");
    let deleted = cloud.accelerators().delete_arq(arq).await;
    deleted.expect("Cyborg deletes it");
    gate.cuts()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "not seen to pass yet"]
async fn a_guest_lives_through_an_outage_at_each_question() {
    let cloud = Cloud::shared();
    let cuts = life(cloud, None).await;
    assert!(
        cuts.len() > 2,
        "a wait, a look before the end, a delete: {cuts:?}"
    );
    for cut in cuts {
        life(cloud, Some(cut)).await;
    }
    cloud.assert_free(6).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "not seen to pass yet"]
async fn a_refused_guest_gives_its_requests_back_through_an_outage_at_each_question() {
    let cloud = Cloud::shared();
    let cuts = refusal(cloud, None).await;
    let least = "a question, a look before the unbind, the unbind";
    assert!(cuts.len() > 2, "{least}: {cuts:?}");
    for cut in cuts {
        refusal(cloud, Some(cut)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "not seen to pass yet"]
async fn a_killed_cyborg_delays_a_guest_and_its_end() {
    let cloud = Cloud::shared();
    let mut api = cloud.cyborg.another_api().expect("a process");
    let agent = Agent::new(cloud.accelerators_at(&format!("{}/v2", api.url()))).await;
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
    let held = agent.guests.journey(guest).await;
    assert!(matches!(held, JourneyEnd::Held { .. }), "{held:?}");
    tokio::task::block_in_place(|| api.start()).expect("the API starts");
    let gone = agent.guests.journey(guest).await;
    assert!(matches!(gone, JourneyEnd::Gone), "{gone:?}");
    assert_eq!(cloud.phases(&[arq]).await, [None]);
    cloud.assert_free(7).await;
}
