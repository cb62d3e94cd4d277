//! The guest swarm: two to eight concurrent scenarios on a cloud of two hosts with the compute API. A seed determines
//! the order of their effects and a few faults. The safety invariants are checked all the time. Then everything is
//! healed and must become idle, and everything is deleted and must leave nothing.
//!
//! `BERTH_GUEST_SEEDS=FROM..TO` runs those seeds; `make soak` runs a hundred thousand.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use berth_fault_injection::Fault;
use berth_invariants::audit;
use berth_model::SeededRng;
use berth_tests::guest_cloud::{CloudFaultPoint, GuestCloud};
use berth_tests::sample::one_of;
use futures_util::future::join_all;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::scenarios::{GuestOutcome, GuestScenario, delete, server};
use super::servers;
use super::sweep::{FAULTS, virtually};
use crate::sweep::on_all_processors;

/// The default seeds.
const SEEDS: std::ops::Range<u64> = 0..120 / one_of(15) as u64;
/// From this number of seeds on, every scenario must have succeeded at least once, and there must be more faults than
/// seeds.
const MANY: usize = 100;
/// How long a client waits for its scenario.
const PATIENCE: Duration = Duration::from_mins(10);
/// The pause between two checks of the permanent invariants.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Within one pause of this nothing that was true is false: a look while it happens is none.
const MOMENT: Duration = Duration::from_millis(1);

/// What one seed came to.
struct SeedRun {
    struck: Vec<CloudFaultPoint>,
    ends: Vec<(GuestScenario, GuestOutcome)>,
    wrong: Vec<String>,
}

/// One scenario among others.
struct SwarmStory {
    n: u32,
    scenario: GuestScenario,
    profile: &'static str,
    group: Option<Uuid>,
    card: u8,
    pause: Duration,
}

impl SwarmStory {
    fn drawn(n: u32, cloud: &GuestCloud, seeded: &mut SeededRng) -> Self {
        let groups = [None, None, Some(cloud.together), Some(cloud.apart)];
        let cards = cloud.nodes.iter().flat_map(|node| node.cards.clone());
        let cards: Vec<u8> = cards.collect();
        Self {
            n,
            scenario: GuestScenario::ALL[seeded.below(GuestScenario::ALL.len())],
            profile: ["gpu", "two"][seeded.below(2)],
            group: groups[seeded.below(groups.len())],
            card: cards[seeded.below(cards.len())],
            pause: Duration::from_millis(seeded.below(20_000) as u64),
        }
    }

    async fn run_to_end(&self, cloud: &GuestCloud) -> (GuestScenario, GuestOutcome) {
        sleep(self.pause).await;
        let story =
            self.scenario
                .concurrently_with(cloud, self.n, self.profile, self.group, self.card);
        let end = timeout(PATIENCE, story).await;
        (self.scenario, end.unwrap_or(GuestOutcome::Held))
    }
}

/// Looks again and again at what must hold always, until it does not.
async fn broken(cloud: &GuestCloud) -> Vec<String> {
    loop {
        sleep(POLL_INTERVAL).await;
        let mut found = audit(&cloud.worlds(None).await);
        // The worlds are read one after the other: what is so in one look only was changed between two of them.
        for _ in 0..2 {
            if found.is_empty() {
                break;
            }
            sleep(MOMENT).await;
            let again = audit(&cloud.worlds(None).await);
            found.retain(|violation| again.contains(violation));
        }
        if !found.is_empty() {
            return found.iter().map(|it| format!("underway: {it}")).collect();
        }
    }
}

async fn run(seed: u64) -> SeedRun {
    let cloud = GuestCloud::with_api().await;
    let mut seeded = SeededRng::new(seed);
    let count = 2 + u32::try_from(seeded.below(7)).unwrap();
    let faults: &'static [Fault] = &FAULTS;
    let (at_most, one_in) = (1 + seeded.below(8), 20 + seeded.below(100));
    let order = seeded.next_u64();
    cloud.effects.arm_seeded(order, faults, at_most, one_in);
    let stories: Vec<_> = (1..=count)
        .map(|n| SwarmStory::drawn(n, &cloud, &mut seeded))
        .collect();
    let run_to_end = join_all(stories.iter().map(|story| story.run_to_end(&cloud)));
    let (ends, mut wrong) = tokio::select! {
        ends = run_to_end => (ends, Vec::new()),
        wrong = broken(&cloud) => (Vec::new(), wrong),
    };
    let struck = cloud.effects.struck();
    if wrong.is_empty() {
        cloud.effects.heal();
        cloud.hardware.meets(None);
        cloud.plug_in_again();
        wrong = cloud.rests(None).await;
        for n in 1..=count {
            delete(&cloud, n).await;
            servers::delete(&cloud, &server(n)).await;
        }
        cloud.as_at_first();
        let mut left = cloud.rests(None).await;
        left.extend(cloud.left_over().await);
        wrong.extend(left.into_iter().map(|line| format!("afterwards: {line}")));
    }
    cloud.end();
    SeedRun {
        struck,
        ends,
        wrong,
    }
}

fn seeds() -> Vec<u64> {
    let asked = std::env::var("BERTH_GUEST_SEEDS").ok();
    let range = asked.as_deref().map_or(SEEDS, |text| {
        let (from, to) = text.split_once("..").expect("FROM..TO");
        from.parse().expect("a number")..to.parse().expect("a number")
    });
    range.collect()
}

/// What all seeds came to.
#[derive(Default)]
struct SwarmFindings {
    seeds: usize,
    struck: BTreeMap<Fault, usize>,
    ends: BTreeMap<GuestScenario, BTreeMap<&'static str, usize>>,
    wrong: Vec<String>,
}

impl SwarmFindings {
    fn count(&mut self, seed: u64, ran: SeedRun) {
        self.seeds += 1;
        for point in &ran.struck {
            *self.struck.entry(point.fault).or_default() += 1;
        }
        for (scenario, end) in ran.ends {
            let ends = self.ends.entry(scenario).or_default();
            *ends.entry(end.as_str()).or_default() += 1;
        }
        if !ran.wrong.is_empty() {
            let struck: Vec<String> = ran.struck.iter().map(ToString::to_string).collect();
            let text = format!("seed {seed}: {:#?} after {struck:#?}", ran.wrong);
            println!("{text}");
            self.wrong.push(text);
        }
        if self.seeds.is_multiple_of(500) {
            println!(
                "so far {}, of which {} failed",
                self.seeds,
                self.wrong.len()
            );
        }
    }
}

#[test]
fn concurrent_scenarios_leave_nothing_after_any_faults() {
    let (seeds, findings) = (seeds(), Mutex::new(SwarmFindings::default()));
    on_all_processors(&seeds, |seed| {
        let ran = virtually(run(*seed));
        findings.lock().unwrap().count(*seed, ran);
    });
    let findings = findings.into_inner().unwrap();
    let struck: usize = findings.struck.values().sum();
    println!(
        "{} cases\n{struck} faults: {:?}",
        findings.seeds, findings.struck
    );
    println!("ends: {:?}", findings.ends);
    println!("{} kills", findings.struck.get(&Fault::Kill).unwrap_or(&0));
    let (count, of) = (findings.wrong.len(), seeds.len());
    let first: Vec<_> = findings.wrong.into_iter().take(5).collect();
    assert!(count == 0, "{count} of {of} seeds: {}", first.join("\n"));
    if of >= MANY {
        assert!(struck > of, "too few faults to show anything");
        for scenario in GuestScenario::ALL {
            let done = findings
                .ends
                .get(&scenario)
                .and_then(|ends| ends.get("done"));
            assert!(
                done.is_some(),
                "no {} came to a good end",
                scenario.as_str()
            );
        }
    }
}
