//! The four reshapes, with one consumer, ten and many (a hundred, in `make soak` a thousand).

use berth_tests::claims::{Claim, join, neighbours};
use berth_tests::cloud::Cloud;
use berth_tests::peer::{PlacementSettings, RealPlacement};
use berth_tests::sample::up_to;

use crate::real_placement::agent::{Agent, AgentProcess};
use crate::real_placement::holdings::{assert_held, check_consumers, claims, expected, post};
use crate::real_placement::upgrade::{Upgrade, Version};

/// What follows an upgrade.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterUpgrade {
    Nothing,
    /// The old version is installed again.
    Back,
}

fn count(requests: &[String], line: &str) -> usize {
    requests.iter().filter(|request| *request == line).count()
}

/// The start after the machine is modelled differently: one POST, and all of it is read once.
async fn upgrade(agent: &Agent, cloud: &Cloud, consumers: usize) -> AgentProcess {
    let _ = cloud.take_requests();
    let life = agent.start(cloud).await;
    assert_eq!(life.started.reshapes.len(), 1);
    let requests = cloud.take_requests();
    assert_eq!(count(&requests, "POST /reshaper"), 1, "{requests:?}");
    let read = count(&requests, "GET /allocations/{consumer}");
    assert_eq!(read, consumers, "each consumer is read once");
    life
}

/// Nothing is left to do, and it costs at most the one question about units that are held.
async fn two_quiet_ticks(agent: &Agent, cloud: &Cloud, life: &mut AgentProcess) {
    let _ = cloud.take_requests();
    for _ in 0..2 {
        let ticked = agent.tick(life).await;
        assert!(ticked.changed.is_empty(), "{}", ticked.changed);
        let requests = cloud.take_requests();
        assert!(requests.len() <= 1, "{requests:?}");
        assert!(requests.iter().all(|request| request.starts_with("GET ")));
        assert_eq!(ticked.held, life.started.held);
    }
}

async fn reshapes(
    upgrading: Upgrade,
    guests: u32,
    settings: PlacementSettings,
    then: AfterUpgrade,
) {
    let placement = RealPlacement::lease(settings).expect("Placement starts");
    let cloud = Cloud::at(&placement.url());
    let [old, new] = [Version::Old, Version::New].map(|it| upgrading.machine(guests, it));
    let neighbours = neighbours(&cloud.placement()).await;
    let agent = Agent::new(&old, upgrading.node());
    agent.start(&cloud).await;
    let root = agent.root().await;
    join(&cloud.placement(), root, neighbours.aggregate).await;
    let [before, after] = [(Version::Old, &old), (Version::New, &new)]
        .map(|(version, machine)| claims(upgrading, version, machine, root, &neighbours));
    post(&placement, &before);
    assert_held(&placement, &expected(&before));

    agent.show(&new);
    let mut life = upgrade(&agent, &cloud, before.len()).await;
    assert_held(&placement, &expected(&after));
    check_consumers(&placement, sample(&after));
    let held: Vec<_> = life
        .started
        .held
        .iter()
        .map(|held| (held.class.as_str(), held.used))
        .collect();
    assert_eq!(held, stranded(upgrading, guests));
    two_quiet_ticks(&agent, &cloud, &mut life).await;
    if then == AfterUpgrade::Back {
        agent.show(&old);
        let mut life = upgrade(&agent, &cloud, before.len()).await;
        assert_held(&placement, &expected(&before));
        assert_eq!(life.started.held, []);
        two_quiet_ticks(&agent, &cloud, &mut life).await;
    }
}

/// Units of the guest that was never here which have no place in the new model.
fn stranded(upgrade: Upgrade, guests: u32) -> &'static [(&'static str, u64)] {
    match upgrade {
        _ if guests < 10 => &[],
        Upgrade::VgpuPerGpu => &[("VGPU", 3)],
        Upgrade::NumaCells => &[("MEMORY_MB", 99), ("VCPU", 1)],
        Upgrade::ClassRenamed | Upgrade::Pcpu => &[],
    }
}

/// All of few, some of many.
fn sample(claims: &[Claim]) -> impl Iterator<Item = &Claim> {
    claims.iter().step_by(claims.len().div_ceil(20))
}

async fn one_and_ten(upgrade: Upgrade) {
    for guests in [1, 10] {
        reshapes(
            upgrade,
            guests,
            PlacementSettings::default(),
            AfterUpgrade::Back,
        )
        .await;
    }
}

async fn many(upgrade: Upgrade) {
    reshapes(
        upgrade,
        up_to(1000, 100),
        PlacementSettings::default(),
        AfterUpgrade::Nothing,
    )
    .await;
}

#[tokio::test]
async fn a_few_guests_virtual_gpus_move_to_their_gpus_and_back() {
    one_and_ten(Upgrade::VgpuPerGpu).await;
}

#[tokio::test]
async fn many_guests_virtual_gpus_move_to_their_gpus() {
    many(Upgrade::VgpuPerGpu).await;
}

#[tokio::test]
async fn a_few_guests_move_to_their_numa_cells_and_back() {
    one_and_ten(Upgrade::NumaCells).await;
}

#[tokio::test]
async fn many_guests_move_to_their_numa_cells() {
    many(Upgrade::NumaCells).await;
}

#[tokio::test]
async fn a_few_guests_cards_take_their_class_s_standard_name_and_its_old_one_back() {
    one_and_ten(Upgrade::ClassRenamed).await;
}

#[tokio::test]
async fn many_guests_cards_take_their_class_s_standard_name() {
    many(Upgrade::ClassRenamed).await;
}

#[tokio::test]
async fn a_few_guests_pinned_cpus_become_pcpu_and_vcpu_again() {
    one_and_ten(Upgrade::Pcpu).await;
}

#[tokio::test]
async fn many_guests_pinned_cpus_become_pcpu() {
    many(Upgrade::Pcpu).await;
}

#[tokio::test]
async fn every_upgrade_is_the_same_on_mariadb() {
    for upgrade in Upgrade::ALL {
        reshapes(
            upgrade,
            10,
            PlacementSettings::on_mariadb(),
            AfterUpgrade::Nothing,
        )
        .await;
    }
}
