//! Cyborg's API answers, but a service behind it is down: its conductor, which creates and binds requests, or its
//! database.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use berth_agent_api::instances as api;
use berth_agent_instances::ReconcileOutcome as GuestEnd;
use berth_client::{AcceleratorClient, HttpService};
use berth_conductor::{Conductor, ConductorOptions, GuestRunOutcome};
use berth_model::{ArqPhase, ArqUuid, ConsumerUuid};
use berth_tests::boot::impatient;
use berth_tests::peer::{Away, CyborgApi};
use bytes::Bytes;
use http::uri::Authority;
use http::{Method, Request, Uri};
use tower::service_fn;

use crate::real_cyborg::agent::Agent;
use crate::real_cyborg::cloud::{ADRIFT, Cloud, ROWLESS, address, new_guest, provider};
use crate::real_cyborg::conductor::{assert_nothing_left, conductor_with, end, with_profile};

/// How long callers wait for Cyborg here; one request may take two seconds.
const SHORT: Duration = Duration::from_secs(8);
/// Nothing that is to end takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// The way to an API behind which something is away, for some questions and as long as it is.
struct OutageProxy {
    _api: CyborgApi,
    to: Authority,
    is_away: Arc<AtomicBool>,
}

impl OutageProxy {
    fn start(cloud: &Cloud, away: Away) -> Self {
        let api = tokio::task::block_in_place(|| {
            let mut api = cloud.cyborg.crippled_api(away).expect("a process");
            api.start().expect("the API starts");
            api
        });
        let url: Uri = api.url().parse().expect("a URL");
        Self {
            to: url.authority().expect("an address").clone(),
            _api: api,
            is_away: Arc::new(AtomicBool::new(true)),
        }
    }

    /// A client of Cyborg that sends requests of these methods through the proxy.
    fn client(&self, cloud: &Cloud, methods: &'static [Method]) -> AcceleratorClient {
        let (to, is_away) = (self.to.clone(), Arc::clone(&self.is_away));
        cloud.accelerators_through(move |http| {
            HttpService::new(service_fn(move |mut request: Request<Bytes>| {
                if is_away.load(Ordering::Relaxed) && methods.contains(request.method()) {
                    let mut parts = request.uri().clone().into_parts();
                    parts.authority = Some(to.clone());
                    *request.uri_mut() = Uri::from_parts(parts).expect("a URL");
                }
                let http = http.clone();
                async move { http.send(request).await }
            }))
        })
    }

    /// What was away is back.
    fn ends(&self) {
        self.is_away.store(false, Ordering::Relaxed);
    }
}

const ALL: &[Method] = &[Method::GET, Method::POST, Method::PATCH, Method::DELETE];

/// A conductor that takes a boot back when a service has been away for so long.
async fn conductor(cloud: &Cloud, agent: &Agent, accelerators: AcceleratorClient) -> Conductor {
    let http = HttpService::in_process::<_, Body, _>(api::routes(&agent.guests), 8 << 20);
    let options = ConductorOptions {
        poll_interval: Duration::from_millis(50),
        retry_timeout: SHORT,
        ..impatient()
    };
    conductor_with(cloud, http, accelerators, options).await
}

/// The end of a boot that is blocked meanwhile.
async fn failed(conductor: &Conductor, guest: ConsumerUuid) -> String {
    let begun = Instant::now();
    loop {
        match conductor.reconcile_guest(guest).await {
            GuestRunOutcome::Failed { reason } => return reason,
            held @ GuestRunOutcome::Blocked { .. } => {
                assert!(begun.elapsed() < PATIENCE, "{held:?}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Nothing of the guest is anywhere, and the function can be had.
async fn assert_undone(cloud: &Cloud, conductor: &Conductor, guest: ConsumerUuid, at: usize) {
    conductor
        .collect_orphaned_arqs()
        .await
        .expect("Cyborg answers");
    assert_nothing_left(cloud, guest).await;
    cloud.assert_free(at).await;
}

/// A guest of the agent's with requests that cannot be bound.
async fn asked(
    cloud: &Cloud,
    agent: &Agent,
    profile: &str,
    at: usize,
    binding: &AcceleratorClient,
) -> (ConsumerUuid, Vec<ArqUuid>) {
    let guest = new_guest();
    agent.deliver_events_of(cloud, guest);
    let arqs = cloud.requests(profile).await;
    agent.asks_for(guest, &arqs).await;
    let binding_of = berth_model::Binding {
        hostname: crate::real_cyborg::cloud::NODE.to_owned(),
        device_rp: provider(at),
        instance: guest,
    };
    let bindings = arqs.iter().map(|arq| (*arq, binding_of.clone())).collect();
    let refused = binding.bind_arqs(&bindings).await;
    assert!(refused.is_err(), "it cannot be bound");
    (guest, arqs)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_cyborgs_conductor_a_guest_is_waited_for_until_the_time_is_up_and_nothing_is_left()
{
    let cloud = Cloud::shared();
    let detour = OutageProxy::start(cloud, Away::Conductor);
    // The API answers questions, and what changes something asks the conductor.
    let changes: &[Method] = &[Method::POST, Method::PATCH];
    let agent = Agent::waiting(cloud, detour.client(cloud, changes), SHORT).await;

    let (guest, arqs) = asked(
        cloud,
        &agent,
        "adrift",
        ADRIFT,
        &detour.client(cloud, changes),
    )
    .await;
    let reason = agent.refuses(guest).await;
    assert!(reason.contains("(arq_binding_timeout)"), "{reason}");
    assert!(reason.contains("(Initial)"), "{reason}");
    assert_eq!(cloud.phases(&arqs).await, [Some(ArqPhase::Initial)]);
    agent.deletes(guest).await;
    let deleted = cloud.accelerators().delete_arq(arqs[0]).await;
    deleted.expect("Cyborg deletes it");
    cloud.assert_free(ADRIFT).await;

    // At each question of a boot: no requests are made, none is bound, none is unbound.
    for away in [&[Method::POST][..], &[Method::PATCH]] {
        let client = detour.client(cloud, away);
        let conductor = conductor(cloud, &agent, client).await;
        let guest = new_guest();
        agent.deliver_events_of(cloud, guest);
        let request = with_profile(guest, "adrift");
        conductor.create(&request).await.expect("it is taken");
        let reason = failed(&conductor, guest).await;
        assert!(reason.contains("with 500"), "{away:?}: {reason}");
        assert!(reason.contains("Timed out waiting"), "{away:?}: {reason}");
        assert_undone(cloud, &conductor, guest, ADRIFT).await;
    }

    // The service returns in time.
    let client = detour.client(cloud, changes);
    let conductor = conductor(cloud, &agent, client).await;
    let guest = new_guest();
    agent.deliver_events_of(cloud, guest);
    let request = with_profile(guest, "adrift");
    conductor.create(&request).await.expect("it is taken");
    let held = conductor.reconcile_guest(guest).await;
    assert!(matches!(held, GuestRunOutcome::Blocked { .. }), "{held:?}");
    detour.ends();
    let active = end(&conductor, guest).await;
    assert!(matches!(active, GuestRunOutcome::Active), "{active:?}");
    assert_eq!(agent.devices(guest).await, [address(ADRIFT)].into());
    conductor.delete(guest).await.expect("it is taken");
    let gone = end(&conductor, guest).await;
    assert!(matches!(gone, GuestRunOutcome::Gone), "{gone:?}");
    assert_undone(cloud, &conductor, guest, ADRIFT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_cyborgs_database_nothing_is_started_and_nothing_is_left_when_it_is_back() {
    let cloud = Cloud::shared();
    let detour = OutageProxy::start(cloud, Away::Database);
    let agent = Agent::waiting(cloud, detour.client(cloud, ALL), SHORT).await;
    let (guest, arqs) = asked(
        cloud,
        &agent,
        "rowless",
        ROWLESS,
        &detour.client(cloud, ALL),
    )
    .await;
    // Its requests cannot be read, so it is unknown whether something must be released.
    let held = agent.guests.reconcile_instance(guest).await;
    let GuestEnd::Blocked { reason } = held else {
        panic!("{held:?}");
    };
    assert!(agent.devices(guest).await.is_empty(), "{reason}");
    detour.ends();
    let reason = agent.refuses(guest).await;
    assert!(reason.contains("(arq_binding_timeout)"), "{reason}");
    assert_eq!(cloud.phases(&arqs).await, [Some(ArqPhase::Initial)]);
    agent.deletes(guest).await;
    let deleted = cloud.accelerators().delete_arq(arqs[0]).await;
    deleted.expect("Cyborg deletes it");

    let detour = OutageProxy {
        is_away: Arc::new(AtomicBool::new(true)),
        ..detour
    };
    let conductor = conductor(cloud, &agent, detour.client(cloud, ALL)).await;
    let guest = new_guest();
    agent.deliver_events_of(cloud, guest);
    let request = with_profile(guest, "rowless");
    conductor.create(&request).await.expect("it is taken");
    let reason = failed(&conductor, guest).await;
    assert!(reason.contains("retry_timeout"), "{reason}");
    assert!(reason.contains("Can't connect to MySQL"), "{reason}");
    detour.ends();
    assert_undone(cloud, &conductor, guest, ROWLESS).await;
}
