//! Relaxations are correct and minimal: compared with the chain run without those filters.

use std::num::NonZero;

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::hosts;
use crate::diagnosis::{Plans, diagnose_plans};
use berth_scheduler::filters::FilterPlan;
use berth_scheduler_objects::host_state::{AllocationCandidate, ConsideredHost};
use berth_scheduler_objects::reason::Reason;

const NAMES: [&str; 6] = ["A", "B", "C", "D", "E", "F"];

/// Six filters. A host's stat `A` determines the verdict of `A`: 0 passes, 1 rejects; for `B` and `D` it lists the
/// candidates that they keep.
fn plans() -> Vec<(&'static str, FilterPlan<'static>)> {
    let plan = |name: &'static str| match name {
        "B" | "D" => FilterPlan::each(move |host: &mut ConsideredHost| {
            let kept = |candidate: &AllocationCandidate| candidate.mappings.contains_key(name);
            let keep = host.keep(|_, candidate| kept(candidate).then_some(()).ok_or(()));
            keep.map_err(|_| Reason::ServiceForcedDown)
        }),
        _ => FilterPlan::each(move |host: &mut ConsideredHost| {
            match host.state.stats.contains_key(name) {
                true => Err(Reason::ServiceForcedDown),
                false => Ok(()),
            }
        }),
    };
    NAMES.map(|name| (name, plan(name))).into()
}

fn any_host() -> impl Strategy<Value = ConsideredHost> {
    let rejecting = prop::collection::vec(any::<bool>(), NAMES.len());
    let candidates = prop::collection::vec(any::<(bool, bool)>(), 0..4);
    (rejecting, candidates).prop_map(|(rejecting, candidates)| {
        let stats = NAMES.iter().zip(rejecting).filter(|(_, it)| *it);
        let stats: Map<String, Value> = stats
            .map(|(name, _)| ((*name).to_owned(), json!(1)))
            .collect();
        let candidate = |(b, d): (bool, bool)| {
            let kept = [("B", b), ("D", d)].into_iter().filter(|(_, it)| *it);
            let mappings: BTreeMap<String, Vec<String>> = kept
                .map(|(name, _)| (name.to_owned(), Vec::new()))
                .collect();
            AllocationCandidate {
                mappings,
                ..AllocationCandidate::default()
            }
        };
        let mut host = hosts(&json!([{ "stats": stats }])).remove(0);
        host.candidates = Arc::from(candidates.into_iter().map(candidate).collect::<Vec<_>>());
        host
    })
}

/// The number of hosts that pass without these filters.
fn passing_without(plans: &Plans<'_>, these: &[ConsideredHost], without: &[&str]) -> usize {
    let asked = || plans.iter().filter(|(name, _)| !without.contains(name));
    let passes = |host: &&ConsideredHost| {
        let mut host = (*host).clone();
        asked().all(|(_, plan)| plan.check(&mut host).is_ok())
    };
    these.iter().filter(passes).count()
}

/// All sets of this size.
fn sets(many: usize) -> Vec<Vec<&'static str>> {
    let all = (0..1_u32 << NAMES.len())
        .filter(|bits| bits.count_ones() == u32::try_from(many).unwrap_or(0));
    let of = |bits: u32| {
        let places = NAMES
            .iter()
            .enumerate()
            .filter(|(at, _)| bits & (1 << at) != 0);
        places.map(|(_, name)| *name).collect()
    };
    all.map(of).collect()
}

proptest! {
    #[test]
    fn a_relaxation_gives_so_many_hosts_and_no_part_of_it_does(
        these in prop::collection::vec(any_host(), 1..6),
    ) {
        let plans = plans();
        let diagnosis = diagnose_plans(NonZero::<usize>::MIN, &plans, &these).expect("few filters");
        prop_assert_eq!(diagnosis.passing, passing_without(&plans, &these, &[]));
        for one in &diagnosis.relaxations {
            let without: Vec<&str> = one.without.iter().map(AsRef::as_ref).collect();
            prop_assert_eq!(passing_without(&plans, &these, &without), one.hosts);
            prop_assert_eq!(one.nearest.verdicts.len(), without.len());
            for left_out in 0..without.len() {
                let mut part = without.clone();
                part.remove(left_out);
                prop_assert_eq!(passing_without(&plans, &these, &part), 0, "{:?}", part);
            }
        }
        // No set is smaller than the smallest recorded one; if none is recorded, there is none.
        let least = diagnosis.relaxations.first().map_or(4, |one| one.without.len());
        if diagnosis.passing == 0 {
            let smaller = (1..least).flat_map(sets);
            for set in smaller {
                prop_assert_eq!(passing_without(&plans, &these, &set), 0, "{:?}", set);
            }
            prop_assert_eq!(diagnosis.nearest.is_some(), diagnosis.relaxations.is_empty());
        }
        for one in &diagnosis.filters {
            prop_assert!(one.alone <= one.rejects && one.rejects <= these.len());
        }
    }
}

#[test]
fn a_filter_that_takes_away_what_another_needs_stands_in_the_way_too() {
    let candidate = |name: &str| AllocationCandidate {
        mappings: [(name.to_owned(), Vec::new())].into(),
        ..AllocationCandidate::default()
    };
    let mut these = hosts(&json!([{}]));
    these[0].candidates = Arc::from([candidate("B"), candidate("D")]);
    let diagnosis = diagnose_plans(NonZero::<usize>::MIN, &plans(), &these).expect("few filters");
    let found = diagnosis.relaxations.iter().map(|one| {
        let verdict = &one.nearest.verdicts[0];
        (one.without.join(" "), one.hosts, verdict.reason.is_some())
    });
    let found: Vec<_> = found.collect();
    assert_eq!(
        found,
        [("B".to_owned(), 1, false), ("D".to_owned(), 1, true)]
    );
}

#[test]
fn a_hundred_thousand_hosts_are_diagnosed() {
    let one = hosts(&json!([
        {"stats": {"A": 1, "C": 1}}, {"stats": {"A": 1, "C": 1, "E": 1}}, {"stats": {"C": 1, "E": 1, "F": 1}},
    ]));
    let keeps = AllocationCandidate {
        mappings: [("B".to_owned(), Vec::new()), ("D".to_owned(), Vec::new())].into(),
        ..AllocationCandidate::default()
    };
    let candidates: Arc<[AllocationCandidate]> = Arc::from([keeps]);
    let many = one.iter().cycle().take(100_000).map(|host| ConsideredHost {
        candidates: candidates.clone(),
        ..host.clone()
    });
    let many: Vec<_> = many.collect();
    let diagnosis = diagnose_plans(NonZero::<usize>::MIN, &plans(), &many).expect("few filters");
    let found = diagnosis
        .relaxations
        .iter()
        .map(|one| (one.without.join(" "), one.hosts));
    let found: Vec<_> = found.collect();
    assert_eq!(
        found,
        [("A C".to_owned(), 33_334), ("C E F".to_owned(), 33_333)]
    );
}
