//! Tests of passes after the start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use berth_agent_api::{PassResult, Phase, PlanState};
use berth_agent_devices::{DeviceConditions, MissingProviders, ObservationId};
use berth_model::NodeName;
use berth_store::state_dir::{StateFileError, StateFileFuture, StateFiles};
use berth_virt::{HostEvents, HostView, UnreadableGuest, VgpuModel};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use http::StatusCode;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::service::Agent;
use crate::service::error::ExitReason;
use crate::service::guests::DeviceService;
use crate::service::tests::bench::{Bench, stage, usual, without_timer};
use crate::service::tests::driver::{LOOK, ScriptedDriver, Sight, host};
use crate::service::tests::placement::Weather;

const MINUTE: Duration = Duration::from_mins(1);

#[tokio::test(start_paused = true)]
async fn a_steady_tick_sends_nothing() {
    stage(
        &["a"],
        |agent| agent.live.tracker.association_refresh = None,
        async |bench, _| {
            let (requests, observed) = (bench.placement.requests().len(), bench.driver.observed());
            sleep(MINUTE * 10 + MINUTE / 2).await;
            assert_eq!(bench.placement.requests().len(), requests);
            assert_eq!(bench.driver.observed(), observed + 10, "the timer's passes");
        },
    )
    .await;
}

/// Providers that the accelerator service has reported as missing.
#[derive(Default)]
struct Said(Mutex<MissingProviders>);

impl DeviceConditions for Said {
    fn begin_observation(&self) -> ObservationId {
        ObservationId::default()
    }

    fn overlay(&self, _: ObservationId, _: &mut HostView) {}

    fn take_missing(&self) -> MissingProviders {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    fn changes(&self) -> HostEvents {
        stream::pending().boxed()
    }

    fn run(
        &self,
        _: Option<watch::Receiver<u64>>,
        shutdown: CancellationToken,
    ) -> BoxFuture<'static, ()> {
        shutdown.cancelled_owned().boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_placement_was_seen_without_is_made_again_however_long_the_cache_lives() {
    let said = Arc::<Said>::default();
    let devices = Arc::clone(&said) as Arc<dyn DeviceConditions>;
    let prepare = |agent: &mut Agent<_>| {
        agent.live.tracker.association_refresh = None;
        agent.devices = Some(DeviceService {
            devices,
            routes: Router::new(),
            ends: None,
        });
    };
    stage(&["a"], prepare, async |bench, running| {
        let lost = bench.placement.uuid("a").unwrap().parse().unwrap();
        bench.placement.remove("a");
        running.tick().await;
        assert!(!bench.placement.has("a"), "the cache still has it");
        let missing = BTreeMap::from([(NodeName::new("a").unwrap(), BTreeSet::from([lost]))]);
        *said.0.lock().unwrap() = missing.clone();
        running.tick().await;
        assert_eq!(bench.placement.inventory("a", "MEMORY_MB", "total"), 16_384);
        // The service has not checked again: one read, no change.
        *said.0.lock().unwrap() = missing;
        let outcome = running.tick().await;
        assert_eq!(outcome.nodes[0].1.result, PassResult::InSync);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_events_gives_one_pass_and_an_event_during_it_one_more() {
    stage(&["a"], without_timer, async |bench, _| {
        let before = bench.driver.observed();
        for _ in 0..100 {
            bench.driver.event();
        }
        bench.driver.hold();
        sleep(MINUTE).await;
        assert_eq!(bench.driver.observed(), before + 1, "one for the burst");
        for _ in 0..100 {
            bench.driver.event();
        }
        sleep(MINUTE).await;
        assert_eq!(bench.driver.observed(), before + 1, "one at a time");
        bench.driver.release();
        sleep(MINUTE).await;
        assert_eq!(
            bench.driver.observed(),
            before + 2,
            "one for the events meanwhile"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_cannot_be_read_is_named_until_it_can_be() {
    stage(&["a"], usual, async |bench, running| {
        let odd = UnreadableGuest {
            name: "instance-7".to_owned(),
            reason: "a guest is not XML".to_owned(),
        };
        bench.driver.change(|view| {
            let uuid = uuid::Uuid::from_u128(7).into();
            let node = view.nodes.values_mut().next().unwrap();
            node.unreadable.insert(uuid, odd);
            node.memory_mib = 20_000;
        });
        running.tick().await;
        assert_eq!(bench.placement.inventory("a", "MEMORY_MB", "total"), 20_000);
        assert_eq!(running.codes(), ["unreadable-guests"]);
        let sentence = running.state().summary(Instant::now());
        for word in ["in sync", "instance-7", "a guest is not XML"] {
            assert!(sentence.contains(word), "{sentence}");
        }
        bench.driver.change(|view| {
            view.nodes
                .values_mut()
                .for_each(|node| node.unreadable.clear());
        });
        running.tick().await;
        assert!(running.codes().is_empty());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_changed_is_reported_and_the_plan_is_kept_for_readers() {
    stage(&["a"], usual, async |bench, running| {
        bench.driver.set_memory(20_000);
        let outcome = running.tick().await;
        assert_eq!(outcome.nodes[0].1.result, PassResult::Updated);
        assert!(
            outcome.nodes[0].1.text.contains("MEMORY_MB"),
            "{}",
            outcome.nodes[0].1.text
        );
        assert_eq!(bench.placement.inventory("a", "MEMORY_MB", "total"), 20_000);
        let outcome = running.tick().await;
        assert_eq!(outcome.nodes[0].1.result, PassResult::InSync);
        let state = running.state();
        let change = state
            .nodes
            .values()
            .next()
            .unwrap()
            .last_change
            .clone()
            .unwrap();
        assert_eq!(change.providers.changed, ["a"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn placement_away_later_leaves_the_service_ready_and_shows_one_finding() {
    stage(&["a", "b", "c"], usual, async |bench, running| {
        bench.messages();
        bench.placement.set(Weather::Refused);
        bench.driver.set_memory(20_000);
        sleep(MINUTE * 10).await;
        assert_eq!(running.codes(), ["placement-away"]);
        let state = running.state();
        assert_eq!(state.phase, Phase::Running);
        assert!(
            state
                .summary(Instant::now())
                .starts_with("Placement does not answer: ")
        );
        let plans: Vec<_> = state.nodes.values().map(|node| node.plan).collect();
        assert_eq!(
            plans,
            [PlanState::Unknown; 3],
            "the state in Placement is not known"
        );
        assert!(
            bench
                .messages()
                .iter()
                .any(|line| line.starts_with("STATUS=Placement does not answer: "))
        );
        bench.placement.set(Weather::Fine);
        running.healed().await;
        assert!(running.codes().is_empty());
        assert_eq!(bench.placement.inventory("c", "MEMORY_MB", "total"), 20_000);
        assert!(
            bench
                .messages()
                .last()
                .is_some_and(|line| line.as_str() == "STATUS=in sync: 3 nodes")
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_role_taken_away_later_is_named_and_tried_again() {
    stage(&["a"], usual, async |bench, running| {
        bench
            .placement
            .set(Weather::Status("PUT ", StatusCode::FORBIDDEN));
        bench.driver.set_memory(20_000);
        sleep(MINUTE * 5).await;
        assert_eq!(running.codes(), ["placement-refuses"]);
        assert!(
            bench
                .metrics
                .render()
                .contains("berth_plan_state{state=\"update\"} 1")
        );
        assert!(running.state().summary(Instant::now()).contains("role add"));
        bench.placement.set(Weather::Fine);
        running.healed().await;
        assert!(running.codes().is_empty());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_hypervisor_away_later_leaves_everything_as_it_is() {
    stage(&["a"], usual, async |bench, running| {
        for sight in [Sight::Away, Sight::Misconfigured] {
            bench.driver.show(sight);
            sleep(MINUTE * 10).await;
            assert_eq!(running.codes(), ["hypervisor-away"]);
            assert_eq!(running.state().phase, Phase::Running);
            assert!(running.tick().await.unobserved.is_some());
        }
        assert_eq!(bench.placement.inventory("a", "VCPU", "total"), 8);
        bench.driver.show(Sight::View(host(&["a"])));
        assert!(running.tick().await.unobserved.is_none());
        assert!(running.codes().is_empty());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_needed_reshape_ends_the_service() {
    let bench = Bench::with(host(&["a"]));
    let (ended, ()) = bench
        .run(bench.agent(), async |running| {
            running.started().await;
            bench.driver.change(|view| {
                view.nodes
                    .values_mut()
                    .for_each(|node| node.model.vgpu = VgpuModel::PerGpu)
            });
            bench.driver.event();
            sleep(MINUTE).await;
        })
        .await;
    assert_eq!(ended.unwrap_err().reason(), ExitReason::ReshapeNeeded);
    assert!(
        !bench
            .placement
            .requests()
            .iter()
            .any(|line| line.contains("/reshaper"))
    );
    let status = bench
        .messages()
        .into_iter()
        .rfind(|line| line.starts_with("STATUS="))
        .unwrap();
    assert!(status.contains("must be reshaped"), "{status}");
    assert!(
        bench
            .metrics
            .render()
            .contains("berth_plan_state{state=\"reshape_needed\"} 1")
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_does_not_wait_for_the_pause_after_a_failure() {
    stage(&["a"], without_timer, async |bench, running| {
        bench.placement.set(Weather::Refused);
        bench.driver.set_memory(20_000);
        bench.driver.event();
        running
            .until("five failures", |state| {
                state.nodes.values().any(|node| node.failures >= 5)
            })
            .await;
        bench.placement.set(Weather::Fine);
        let before = Instant::now();
        assert_eq!(running.tick().await.nodes[0].1.result, PassResult::Updated);
        assert!(before.elapsed() <= LOOK * 2, "{:?}", before.elapsed());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_is_said_and_changes_nothing() {
    stage(
        &["a"],
        |agent| agent.files = Arc::new(Full(Arc::clone(&agent.files))),
        async |bench, running| {
            let error = running.try_disable("new GPU").await.unwrap_err();
            assert!(
                berth_agent_tracker::error_chain::sentence(&error)
                    .contains("disabled.json is full"),
                "{error:?}"
            );
            assert_eq!(running.codes(), ["state-files"]);
            assert!(running.state().disabled.is_none());
            assert!(!bench.placement.has_trait("a", "COMPUTE_STATUS_DISABLED"));
        },
    )
    .await;
}

/// State files on a disk with space for the node's UUID only.
struct Full(Arc<dyn StateFiles>);

impl StateFiles for Full {
    fn path(&self, name: &str) -> String {
        self.0.path(name)
    }
    fn read<'a>(&'a self, name: &'a str) -> StateFileFuture<'a, Option<Vec<u8>>> {
        self.0.read(name)
    }
    fn write<'a>(&'a self, name: &'a str, _content: &'a [u8]) -> StateFileFuture<'a, ()> {
        let (path, source) = (self.path(name), std::io::ErrorKind::StorageFull.into());
        Box::pin(async move { Err(StateFileError::DiskFull { path, source }) })
    }
    fn create<'a>(&'a self, name: &'a str, content: &'a [u8]) -> StateFileFuture<'a, ()> {
        self.0.create(name, content)
    }
    fn remove<'a>(&'a self, name: &'a str) -> StateFileFuture<'a, ()> {
        self.0.remove(name)
    }
}

#[tokio::test(start_paused = true)]
async fn an_ended_stream_of_events_is_said_and_the_timer_goes_on() {
    stage(&["a"], usual, async |bench, running| {
        bench.driver.end_events();
        let observed = bench.driver.observed();
        sleep(MINUTE * 2 + MINUTE / 2).await;
        assert_eq!(running.codes(), ["host-events-lost"]);
        assert_eq!(bench.driver.observed(), observed + 2);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn disabling_is_reported_at_once_and_survives_a_restart() {
    const DISABLED: &str = "COMPUTE_STATUS_DISABLED";
    let bench = Bench::with(host(&["a"]));
    let (ended, ()) = bench
        .run(bench.agent(), async |running| {
            running.started().await;
            running.set_disabled(Some("new GPU")).await;
            assert!(bench.placement.has_trait("a", DISABLED));
            assert!(
                running
                    .state()
                    .summary(Instant::now())
                    .ends_with("; disabled: new GPU")
            );
        })
        .await;
    ended.unwrap();
    let (ended, ()) = bench
        .run(bench.agent(), async |running| {
            running.started().await;
            assert_eq!(running.state().disabled.as_ref().unwrap().reason, "new GPU");
            assert!(bench.placement.has_trait("a", DISABLED));
            running.set_disabled(None).await;
            assert!(!bench.placement.has_trait("a", DISABLED));
        })
        .await;
    ended.unwrap();
    assert!(!bench.state_file("disabled.json").exists());
}

#[tokio::test]
async fn what_the_cloud_says_disables_the_host_beside_its_own_operator_and_survives_a_restart() {
    const DISABLED: &str = "COMPUTE_STATUS_DISABLED";
    let bench = Bench::with(host(&["a"]));
    // A journal is opened by another thread, and the paused clock does not wait for it.
    let told = bench.host_state().await;
    tokio::time::pause();
    let tells = |mut agent: Agent<ScriptedDriver>| {
        agent.host_state = Some(told.clone());
        agent
    };
    let (ended, ()) = bench
        .run(tells(bench.agent()), async |running| {
            running.started().await;
            running.set_disabled_in_cloud(Some("moved")).await;
            assert!(bench.placement.has_trait("a", DISABLED));
            let sentence = running.state().summary(Instant::now());
            assert!(
                sentence.ends_with("; disabled in the cloud: moved"),
                "{sentence}"
            );
            // Enabling one of the two does not enable the host.
            running.set_disabled(Some("new GPU")).await;
            running.set_disabled(None).await;
            assert!(bench.placement.has_trait("a", DISABLED));
        })
        .await;
    ended.unwrap();
    let (ended, ()) = bench
        .run(tells(bench.agent()), async |running| {
            running.started().await;
            let known = running.state().disabled_in_cloud.clone().unwrap();
            assert_eq!(known.reason, "moved");
            assert!(bench.placement.has_trait("a", DISABLED));
            running.set_disabled_in_cloud(None).await;
            assert!(!bench.placement.has_trait("a", DISABLED));
            running.set_disabled_in_cloud(Some("moved again")).await;
        })
        .await;
    ended.unwrap();
    // An agent that no longer reports the host state must not keep the last setting of the cloud.
    let (ended, ()) = bench
        .run(bench.agent(), async |running| {
            running.started().await;
            assert_eq!(running.state().disabled_in_cloud, None);
            assert!(!bench.placement.has_trait("a", DISABLED));
        })
        .await;
    ended.unwrap();
    assert!(!bench.state_file("disabled-in-cloud.json").exists());
}
