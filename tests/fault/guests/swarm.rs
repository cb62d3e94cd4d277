//! Two to eight journeys at once, their crossings in an order that a seed decides, a handful of them struck; then everything is
//! healed and must come to rest.

use std::time::Duration;

use berth_seam::{Fault, Seeded};
use berth_tests::guest_cloud::GuestCloud;
use futures_util::future::join_all;

use super::journeys::{boot, delete};
use super::sweep::{FAULTS, virtually};
use crate::sweep::on_all_processors;

/// How many seeds there are where nothing is said (`BERTH_GUEST_SEEDS=FROM..TO`).
const SEEDS: u64 = 24;

/// What each run of one seed came to; nothing where all is well.
async fn run(seed: u64) -> Result<usize, String> {
    let cloud = GuestCloud::new().await;
    let mut seeded = Seeded::new(seed);
    let journeys = 2 + seeded.below(7);
    let faults: &'static [Fault] = &FAULTS;
    cloud.crossings.arm_seeded(seeded.draw(), faults, 6, 60);
    let stories = (1..=journeys).map(|n| {
        let n = u32::try_from(n).unwrap();
        let profile = ["gpu", "two"][seeded.below(2)];
        let ends = seeded.below(2) == 0;
        let pause = Duration::from_millis(seeded.below(5_000) as u64);
        let cloud = cloud.clone();
        async move {
            tokio::time::sleep(pause).await;
            boot(&cloud, n, profile).await;
            if ends {
                delete(&cloud, n).await;
            }
        }
    });
    let stories: Vec<_> = stories.collect();
    let boots = seeded.below(3) == 0;
    let host = async {
        if boots {
            tokio::time::sleep(Duration::from_secs(4)).await;
            cloud.boot_host().await;
        }
    };
    tokio::join!(join_all(stories), host);
    let struck = cloud.crossings.struck();
    cloud.crossings.heal();
    let mut wrong = cloud.rests(None).await;
    for n in 1..=journeys {
        delete(&cloud, u32::try_from(n).unwrap()).await;
    }
    wrong.extend(cloud.rests(None).await);
    cloud.end();
    match wrong.is_empty() {
        true => Ok(struck.len()),
        false => {
            let struck: Vec<String> = struck.iter().map(ToString::to_string).collect();
            Err(format!("seed {seed}: {wrong:#?} after {struck:#?}"))
        }
    }
}

fn seeds() -> Vec<u64> {
    let asked = std::env::var("BERTH_GUEST_SEEDS").ok();
    let range = asked.as_deref().map_or(0..SEEDS, |text| {
        let (from, to) = text.split_once("..").expect("FROM..TO");
        from.parse().expect("a number")..to.parse().expect("a number")
    });
    range.collect()
}

#[test]
#[ignore = "on demand: cargo test -p berth-tests --test fault journeys_at_once -- --ignored"]
fn journeys_at_once_leave_nothing_whatever_strikes_them() {
    let wrong = std::sync::Mutex::new(Vec::new());
    let struck = std::sync::atomic::AtomicUsize::new(0);
    let seeds = seeds();
    on_all_processors(&seeds, |seed| match virtually(run(*seed)) {
        Ok(faults) => {
            struck.fetch_add(faults, std::sync::atomic::Ordering::Relaxed);
        }
        Err(text) => wrong.lock().unwrap().push(text),
    });
    let wrong = wrong.into_inner().unwrap();
    let (count, of) = (wrong.len(), seeds.len());
    let first: Vec<_> = wrong.into_iter().take(5).collect();
    assert!(count == 0, "{count} of {of} seeds: {}", first.join("\n"));
    assert!(struck.into_inner() > of, "too few faults to show anything");
}
