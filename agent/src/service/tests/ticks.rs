//! Tests of the agent's main loop after its start: what timer, events, requests and failures cause.
//!
//! [`stage`] starts an agent on a [`Bench`] with the named nodes, and runs the test's script concurrently with it. The
//! driver is a [`ScriptedDriver`], which returns a [`ScriptedObservation`]; Placement is a fake in memory, whose failures
//! are [`PlacementBehaviour`]s. The clock is paused, so minutes pass at once. The timer's interval is one minute.

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
use crate::service::tests::driver::{OBSERVATION_TIME, ScriptedDriver, ScriptedObservation, host};
use crate::service::tests::placement::PlacementBehaviour;

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

/// The device conditions of an accelerator service that reports these providers as missing from Placement.
#[derive(Default)]
struct ReportedMissingProviders(Mutex<MissingProviders>);

impl DeviceConditions for ReportedMissingProviders {
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
async fn a_provider_that_the_accelerator_service_misses_is_created_again_although_it_is_cached() {
    let reported = Arc::<ReportedMissingProviders>::default();
    let devices = Arc::clone(&reported) as Arc<dyn DeviceConditions>;
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
        *reported.0.lock().unwrap() = missing.clone();
        running.tick().await;
        assert_eq!(bench.placement.inventory("a", "MEMORY_MB", "total"), 16_384);
        // The service has not checked again: one read, no change.
        *reported.0.lock().unwrap() = missing;
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
async fn an_unreadable_guest_is_a_finding_until_it_can_be_read() {
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
        for text in ["in sync", "instance-7", "a guest is not XML"] {
            assert!(sentence.contains(text), "{sentence}");
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
async fn a_change_is_reported_and_the_state_shows_the_last_plan() {
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
async fn an_unreachable_placement_after_the_start_is_one_finding_and_the_service_stays_ready() {
    stage(&["a", "b", "c"], usual, async |bench, running| {
        bench.messages();
        bench.placement.set(PlacementBehaviour::Refused);
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
        bench.placement.set(PlacementBehaviour::Fine);
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
async fn a_missing_role_after_the_start_is_a_finding_and_the_update_is_retried() {
    stage(&["a"], usual, async |bench, running| {
        bench
            .placement
            .set(PlacementBehaviour::Status("PUT ", StatusCode::FORBIDDEN));
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
        bench.placement.set(PlacementBehaviour::Fine);
        running.healed().await;
        assert!(running.codes().is_empty());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_hypervisor_after_the_start_changes_nothing_in_placement() {
    stage(&["a"], usual, async |bench, running| {
        for observation in [
            ScriptedObservation::Away,
            ScriptedObservation::Misconfigured,
        ] {
            bench.driver.show(observation);
            sleep(MINUTE * 10).await;
            assert_eq!(running.codes(), ["hypervisor-away"]);
            assert_eq!(running.state().phase, Phase::Running);
            assert!(running.tick().await.unobserved.is_some());
        }
        assert_eq!(bench.placement.inventory("a", "VCPU", "total"), 8);
        bench.driver.show(ScriptedObservation::View(host(&["a"])));
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
async fn a_requested_tick_does_not_wait_for_the_delay_after_failures() {
    stage(&["a"], without_timer, async |bench, running| {
        bench.placement.set(PlacementBehaviour::Refused);
        bench.driver.set_memory(20_000);
        bench.driver.event();
        running
            .until("five failures", |state| {
                state.nodes.values().any(|node| node.failures >= 5)
            })
            .await;
        bench.placement.set(PlacementBehaviour::Fine);
        let before = Instant::now();
        assert_eq!(running.tick().await.nodes[0].1.result, PassResult::Updated);
        assert!(
            before.elapsed() <= OBSERVATION_TIME * 2,
            "{:?}",
            before.elapsed()
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_is_a_finding_and_changes_nothing() {
    stage(
        &["a"],
        |agent| agent.files = Arc::new(FullDisk(Arc::clone(&agent.files))),
        async |bench, running| {
            let error = running.try_disable("new GPU").await.unwrap_err();
            assert!(
                berth_model::error_chain(&error).contains("disabled.json is full"),
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
struct FullDisk(Arc<dyn StateFiles>);

impl StateFiles for FullDisk {
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
async fn an_ended_event_stream_is_a_finding_and_the_timer_continues() {
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
async fn a_host_disabled_in_the_cloud_stays_disabled_after_a_restart_and_when_its_operator_enables_it()
 {
    const DISABLED: &str = "COMPUTE_STATUS_DISABLED";
    let bench = Bench::with(host(&["a"]));
    // A journal is opened by another thread, and the paused clock does not wait for it.
    let host_state = bench.host_state().await;
    tokio::time::pause();
    let with_host_state = |mut agent: Agent<ScriptedDriver>| {
        agent.host_state = Some(host_state.clone());
        agent
    };
    let (ended, ()) = bench
        .run(with_host_state(bench.agent()), async |running| {
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
        .run(with_host_state(bench.agent()), async |running| {
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
