//! The node swarm: several nodes in one cloud, with one effect at a time in the order of a seed, and a few faults each.
//! The same seed must give the same trace, and every unit must be on the right provider.

use std::future::ready;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_fault_injection::{
    DeterministicScheduler, Effect, EffectOutcome, EffectPhase, Fault, Gate, GateDecision,
    GateFuture, RecordingGate, SchedulerState, Trace,
};
use berth_model::{ProviderUuid, ResourceClass, SeededRng};
use berth_tests::claims::{Claim, claim, neighbours};
use berth_tests::cloud::{Cloud, Snapshot};
use berth_tests::fault::{FaultStage, GatedDriver, GatedFiles, GatedHttp, HarnessClock};
use berth_tests::host::{Host, consumer};
use berth_tests::node::{COMPUTE_ID, MemoryFiles, Node, ViewDriver};
use berth_tests::unit::{Unit, UnitEnd, UnitHistory};
use berth_tests::worlds::PlacementRows;
use berth_virt::VgpuModel;
use futures_util::future::join_all;

const NODES: u32 = 3;
const SEEDS: u64 = 12;

struct SwarmCast {
    snapshot: Snapshot,
    hosts: Vec<(Host, ProviderUuid)>,
}

/// Three hosts of the old model, with two guests each; the first has the new one already.
async fn cast() -> SwarmCast {
    let cloud = Cloud::in_process().await;
    let placement = cloud.placement();
    neighbours(&placement).await;
    let mut hosts = Vec::new();
    for n in 0..NODES {
        let host = Host::new(&format!("gpu-{n}")).gpu(4).gpu(4);
        let host = host.guest(10 * n, &[0]).guest(10 * n + 1, &[1]);
        let old = host.clone().modelled(|model| model.vgpu = VgpuModel::Root);
        let node = Node::with_files(&old, Arc::new(MemoryFiles::default()));
        node.start(&cloud).await.unwrap();
        let root = node.root().await;
        let claims = [10 * n, 10 * n + 1].map(|n| {
            Claim::of(consumer(n))
                .and_a_guest(root)
                .and(root, &ResourceClass::VGPU, 1)
        });
        claim(&placement, claims.into()).await;
        hosts.push((host, root));
    }
    SwarmCast {
        snapshot: Snapshot::take(cloud.store().unwrap()).await,
        hosts,
    }
}

/// Runs all of them at once.
fn run(cast: &SwarmCast, seed: u64) -> (Trace, PlacementRows) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let clock = HarnessClock::begin();
        let cloud = Cloud::of(cast.snapshot).await.behind_keystone(&clock);
        let (turns, mut seeded) = (DeterministicScheduler::seeded(seed), SeededRng::new(seed));
        let first = {
            let clock = clock.clone();
            RecordingGate::new(
                RandomFaults::of(seeded.next_u64()),
                "",
                Arc::new(move || clock.elapsed()),
            )
        };
        let mut acts = Vec::new();
        for (n, (host, root)) in cast.hosts.iter().enumerate() {
            let recorded =
                first.for_task(RandomFaults::of(seeded.next_u64()), &format!("node {n}"));
            let task_gate = turns.task_gate(Arc::new(recorded) as Arc<dyn Gate>);
            let stage = FaultStage::with_clock(Arc::new(task_gate.clone()), clock.clone());
            let files = MemoryFiles::default();
            files.put(COMPUTE_ID, &root.to_string());
            let unit = Unit {
                driver: Arc::new(GatedDriver::around(
                    Arc::new(ViewDriver::new(host.view())),
                    &stage,
                    None,
                )),
                name: host.name().clone(),
                options: Default::default(),
                files: Arc::new(GatedFiles::around(Arc::new(files), &stage)),
                cloud: cloud.decorated(|http| GatedHttp::around(http, &stage)),
            };
            acts.push((unit, stage, task_gate, Mutex::new(UnitHistory::default())));
        }
        let runs = acts.iter().map(|(unit, stage, task_gate, history)| {
            let lives = unit.run(|| stage.killed(), &|| {}, history);
            stage.run(
                || turns.state() != SchedulerState::Running,
                task_gate.run(lives),
            )
        });
        let all = pin!(join_all(runs));
        let rests = tokio::time::timeout(Duration::from_mins(90), all)
            .await
            .unwrap();
        assert!(
            rests
                .iter()
                .all(|rest| matches!(rest, UnitEnd::Settled { .. })),
            "{rests:?}"
        );
        (first.trace(), cloud.rows().await)
    })
}

/// Faults that pass by themselves.
const PASSING: [Fault; 10] = [
    Fault::InternalError,
    Fault::ConnectionRefused,
    Fault::AnswerLost,
    Fault::Twice,
    Fault::Late,
    Fault::Conflict,
    Fault::Kill,
    Fault::Hang,
    Fault::Stale,
    Fault::TokenExpired,
];

/// Fails some crossings, a handful at most, as the seed decides.
struct RandomFaults(Mutex<(SeededRng, usize)>);

impl RandomFaults {
    fn of(seed: u64) -> Self {
        Self(Mutex::new((SeededRng::new(seed), 4)))
    }

    fn decide(&self, crossing: &Effect, moment: EffectPhase) -> GateDecision {
        let mut state = self.0.lock().unwrap();
        let (seeded, left) = &mut *state;
        let fault = PASSING[seeded.below(PASSING.len())];
        let is_login = crossing.operation.ends_with("/auth/tokens");
        if *left > 0 && !is_login && seeded.below(12) == 0 && fault.applies(crossing, moment) {
            *left -= 1;
            return GateDecision::Fault(fault);
        }
        GateDecision::Proceed
    }
}

impl Gate for RandomFaults {
    fn before<'a>(&'a self, crossing: &'a Effect) -> GateFuture<'a> {
        Box::pin(ready(self.decide(crossing, EffectPhase::Before)))
    }

    fn after<'a>(&'a self, crossing: &'a Effect, _: &'a EffectOutcome) -> GateFuture<'a> {
        Box::pin(ready(self.decide(crossing, EffectPhase::After)))
    }
}

#[test]
fn the_same_seed_twice_gives_the_same_trace_and_every_unit_is_where_it_belongs() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let cast = runtime.block_on(cast());
    let mut struck = 0;
    let mut fingerprints = std::collections::BTreeSet::new();
    for seed in 0..SEEDS {
        let (trace, rows) = run(&cast, seed);
        let (again, _) = run(&cast, seed);
        assert_eq!(trace.to_string(), again.to_string(), "seed {seed}");
        struck += trace
            .lines()
            .iter()
            .filter(|line| line.event.decision() != GateDecision::Proceed)
            .count();
        fingerprints.insert(trace.fingerprint());
        for (n, (host, _)) in (0..).zip(&cast.hosts) {
            for (guest, gpu) in [(10 * n, 0), (10 * n + 1, 1)] {
                let expected = [
                    (format!("{} MEMORY_MB", host.name()), 256),
                    (format!("{} VCPU", host.name()), 1),
                    (format!("{} VGPU", host.gpu_provider(gpu)), 1),
                ];
                assert_eq!(
                    rows.held_by(consumer(guest)),
                    expected.into(),
                    "seed {seed}"
                );
            }
        }
    }
    assert!(struck > 40, "{struck} faults are too few to show anything");
    assert_eq!(
        fingerprints.len() as u64,
        SEEDS,
        "different seeds take different turns"
    );
}
