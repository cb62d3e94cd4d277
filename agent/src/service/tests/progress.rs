//! Tests that distinguish slow from hanging tasks by the configured time limit of a request.

use std::sync::Arc;
use std::time::Duration;

use berth_agent_tracker::disabled::FILE;
use berth_store::state_dir::{StateFileFuture, StateFiles};
use berth_virt::VgpuModel;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::service::tests::bench::{Bench, stage, usual};
use crate::service::tests::driver::{ScriptedObservation, host};
use crate::service::tests::placement::PlacementBehaviour;

const MINUTE: Duration = Duration::from_mins(1);
/// The file of the node's UUID.
const COMPUTE_ID: &str = "compute_id";

#[tokio::test(start_paused = true)]
async fn the_watchdog_is_petted_while_there_is_progress_and_only_then() {
    stage(&["a"], usual, async |bench, running| {
        bench.messages();
        let notifications = bench.notifications_within(MINUTE * 10).await;
        let pets = notifications
            .iter()
            .filter(|line| *line == "WATCHDOG=1")
            .count();
        assert!((19..=21).contains(&pets), "twice a minute: {pets}");
        bench.driver.show(ScriptedObservation::Hang);
        bench.notifications_within(MINUTE * 20).await;
        assert_eq!(running.codes(), ["no-progress"]);
        let notifications = bench.notifications_within(MINUTE * 10).await;
        assert!(
            !notifications.contains(&"WATCHDOG=1".to_owned()),
            "{notifications:?}"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_may_take_an_hour_is_no_hang() {
    let bench = Bench::with(host(&["a"]));
    let mut agent = bench.agent();
    agent.placement = bench.placement.client(&bench.metrics, MINUTE * 60);
    let (ended, ()) = bench
        .run(agent, async |running| {
            running.started().await;
            bench
                .placement
                .set(PlacementBehaviour::Held("PUT ".to_owned()));
            bench.driver.set_memory(20_000);
            sleep(MINUTE * 50).await;
            assert!(!running.codes().contains(&"no-progress"));
            bench.placement.set(PlacementBehaviour::Fine);
            running.tick().await;
            assert_eq!(bench.placement.inventory("a", "MEMORY_MB", "total"), 20_000);
        })
        .await;
    ended.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_pass_of_many_slow_requests_goes_on() {
    let mut view = host(&["a"]);
    let node = view.nodes.values_mut().next().unwrap();
    node.model.vgpu = VgpuModel::PerGpu;
    let gpu = node.gpus[0].clone();
    node.gpus = (0..32)
        .map(|slot| {
            let mut gpu = gpu.clone();
            gpu.address = format!("0000:84:{slot:02x}.0").parse().unwrap();
            gpu
        })
        .collect();
    let bench = Bench::with(view);
    // Each request may take a minute; three for each GPU exceed the time limit of one request.
    bench
        .placement
        .set(PlacementBehaviour::Slow(Duration::from_secs(50)));
    let (ended, ()) = bench
        .run(bench.agent(), async |running| {
            let notifications = bench.notifications_within(MINUTE * 30).await;
            let pets = notifications
                .iter()
                .filter(|line| *line == "WATCHDOG=1")
                .count();
            assert!((59..=61).contains(&pets), "twice a minute: {pets}");
            assert!(running.codes().is_empty(), "{:?}", running.codes());
            assert!(
                running
                    .state()
                    .nodes
                    .values()
                    .all(|node| node.last.is_none()),
                "the first pass is still running"
            );
            running.started().await;
        })
        .await;
    ended.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_hangs_is_seen_soon_where_requests_are_short() {
    let bench = Bench::with(host(&["a"]));
    let mut agent = bench.agent();
    agent.placement = bench
        .placement
        .client(&bench.metrics, Duration::from_secs(1));
    agent.files = Arc::new(Stuck::of(COMPUTE_ID, agent.files));
    let (ended, ()) = bench
        .run(agent, async |running| {
            bench.notifications_within(MINUTE * 5).await;
            assert_eq!(running.codes(), ["no-progress"]);
            let notifications = bench.notifications_within(MINUTE * 5).await;
            assert!(
                !notifications.contains(&"WATCHDOG=1".to_owned()),
                "{notifications:?}"
            );
        })
        .await;
    ended.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_start_whose_first_file_hangs_says_so_begins_nothing_and_goes_on_when_it_comes() {
    let bench = Bench::with(host(&["a"]));
    let mut agent = bench.agent();
    let stuck = Arc::new(Stuck::of(FILE, agent.files));
    agent.files = stuck.clone();
    let (ended, ()) = bench
        .run(agent, async |running| {
            let notifications = bench.notifications_within(MINUTE * 2).await;
            assert_eq!(running.codes(), ["no-progress"]);
            let status = notifications
                .iter()
                .rfind(|line| line.starts_with("STATUS="));
            assert!(status.unwrap().contains(FILE), "{status:?}");
            assert_eq!(bench.driver.observed(), 0);
            let notifications = bench.notifications_within(MINUTE * 2).await;
            let asks = notifications
                .iter()
                .any(|line| line.starts_with("EXTEND_TIMEOUT"));
            assert!(
                !asks,
                "the service manager gets no more extensions: {notifications:?}"
            );
            stuck.free();
            running.started().await;
            assert!(running.codes().is_empty(), "{:?}", running.codes());
        })
        .await;
    ended.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_operators_change_that_hangs_on_the_disk_is_reported_and_holds_when_it_is_written() {
    let bench = Bench::with(host(&["a"]));
    let mut agent = bench.agent();
    let stuck = Arc::new(Stuck::of(FILE, agent.files));
    stuck.free();
    agent.files = stuck.clone();
    let (ended, ()) = bench
        .run(agent, async |running| {
            running.started().await;
            stuck.hang();
            let asked = running.set_disabled(Some("new GPU"));
            let seen = async {
                bench.notifications_within(MINUTE * 2).await;
                assert_eq!(running.codes(), ["no-progress"]);
                assert!(running.state().disabled.is_none());
                stuck.free();
            };
            tokio::join!(asked, seen);
            assert!(running.codes().is_empty(), "{:?}", running.codes());
            assert!(bench.placement.has_trait("a", "COMPUTE_STATUS_DISABLED"));
        })
        .await;
    ended.unwrap();
}

/// State files on a disk that does not answer for one of them.
struct Stuck {
    name: &'static str,
    files: Arc<dyn StateFiles>,
    hangs: watch::Sender<bool>,
}

impl Stuck {
    fn of(name: &'static str, files: Arc<dyn StateFiles>) -> Self {
        let (hangs, _) = watch::channel(true);
        Self { name, files, hangs }
    }

    fn hang(&self) {
        self.hangs.send_replace(true);
    }

    fn free(&self) {
        self.hangs.send_replace(false);
    }

    async fn wait(&self, name: &str) {
        if name == self.name {
            let mut hangs = self.hangs.subscribe();
            hangs.wait_for(|hangs| !hangs).await.unwrap();
        }
    }
}

impl StateFiles for Stuck {
    fn path(&self, name: &str) -> String {
        self.files.path(name)
    }
    fn read<'a>(&'a self, name: &'a str) -> StateFileFuture<'a, Option<Vec<u8>>> {
        Box::pin(async move {
            self.wait(name).await;
            self.files.read(name).await
        })
    }
    fn write<'a>(&'a self, name: &'a str, content: &'a [u8]) -> StateFileFuture<'a, ()> {
        Box::pin(async move {
            self.wait(name).await;
            self.files.write(name, content).await
        })
    }
    fn create<'a>(&'a self, name: &'a str, content: &'a [u8]) -> StateFileFuture<'a, ()> {
        self.files.create(name, content)
    }
    fn remove<'a>(&'a self, name: &'a str) -> StateFileFuture<'a, ()> {
        self.files.remove(name)
    }
}
