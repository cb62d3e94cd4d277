mod oracle;
mod random;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::env;

use super::*;
use crate::host_state::HostState;
use crate::testing;
use random::Case;

/// A host with only cells and devices.
fn host(numa: NumaTopology, pci: Option<PciPools>) -> HostState {
    let mut hosts = testing::hosts(&serde_json::json!([{}]));
    let host = hosts.pop().expect("there is one");
    HostState {
        numa: Some(numa),
        pci,
        ..HostState::clone(&host.state)
    }
}

/// The result as one code.
fn word(found: &Result<(), NumaReason>) -> String {
    match found {
        Ok(()) => "fits".to_owned(),
        Err(reason) => serde_json::to_value(reason).expect("it is JSON")["constraint"].to_string(),
    }
}

fn agrees(number: u64) -> String {
    let Case {
        numa,
        pci,
        request,
        mappings,
        limits,
        packing,
    } = random::case(number);
    let mut host = host(numa, pci);
    let before = host.numa.clone().expect("it has cells");
    let found = oracle::find(&host, &request, &mappings, limits, packing);
    let ask = NumaAsk::new(&request).expect("it asks for cells");
    let offer = Offer {
        numa: &before,
        pci: host.pci.as_ref(),
        limits,
        mappings: &mappings,
    };
    let fits = ask.fit(offer);
    assert_eq!(
        fits.is_ok(),
        found.is_some(),
        "case {number}: {fits:?} {found:?}"
    );
    let took = ask.take(offer, packing);
    assert_eq!(took.is_ok(), found.is_some(), "case {number}: {took:?}");
    let Some(found) = found else {
        return word(&fits);
    };
    let counted = host.consume_numa_and_pci(&request, &mappings, limits, packing);
    assert_eq!(counted, Ok(()), "case {number}");
    let after = host.numa.expect("it has cells");
    assert_eq!(took.map(|(after, _)| after).as_ref(), Ok(&after));
    let instance = request.numa_topology.as_ref().expect("it asks for cells");
    for (place, cell) in after.cells.iter().enumerate() {
        let pinned: BTreeSet<u16> = cell.pinned_cpus.iter().collect();
        assert_eq!(pinned, found.pinned[place], "case {number}, cell {place}");
        let pages = cell.mempages.iter().map(|it| (it.size_kb, it.used));
        let pages: BTreeMap<i64, i64> = pages.collect();
        assert_eq!(pages, found.pages[place], "case {number}, cell {place}");
        let on_it = found.cells.iter().position(|it| *it == place);
        let of = on_it.map(|at| &instance.cells[at]);
        let memory = before.cells[place].memory_usage + of.map_or(0, |it| it.memory);
        assert_eq!(cell.memory_usage, memory, "case {number}, cell {place}");
        let shared = i64::try_from(of.map_or(0, |it| it.cpuset.len())).expect("few");
        let cpus = before.cells[place].cpu_usage + shared;
        assert_eq!(cell.cpu_usage, cpus, "case {number}, cell {place}");
    }
    let left = host
        .pci
        .map(|pools| pools.iter().map(|pool| pool.count).collect());
    assert_eq!(left, found.devices, "case {number}");
    word(&fits)
}

#[test]
fn the_search_agrees_with_the_oracle() {
    let cases = env::var("BERTH_NUMA_CASES").map_or(3_000, |it| it.parse().expect("a number"));
    let mut words = BTreeMap::<String, u32>::new();
    for number in 0..cases {
        *words.entry(agrees(number)).or_default() += 1;
    }
    println!("{words:?}");
    // The cases are useful only if both outcomes are frequent.
    for word in [
        "fits",
        "\"pci\"",
        "\"physnet\"",
        "\"tunnel\"",
        "\"cells_contend\"",
    ] {
        assert!(words.contains_key(word), "no case: {word}");
    }
    assert!(u64::from(words["fits"]) * 10 > cases, "{words:?}");
}
