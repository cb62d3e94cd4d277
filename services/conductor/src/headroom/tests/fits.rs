//! Clouds of a few providers, and what fits.

use std::collections::{BTreeMap, BTreeSet};

use berth_client::placement::{Candidate, Candidates};
use berth_model::{ProviderUuid, Trait};
use berth_scheduler::select::Scheduler;
use berth_scheduler::{RequestSpec, SchedulerOptions};
use berth_scheduler_cases::hosts_and_request;
use berth_wire::placement::{
    AllocationOnProvider, AllocationRequest, ProviderSummary, ResourceSummary,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::filter_scheduler::CandidateHosts;

/// A class, by a provider's number, and units.
pub(super) type Amount = (u128, &'static str, u64);

/// A cloud: what its providers have free, of which those from [`SHARED`] on are everybody's and the others are the
/// hosts' by tens; and the candidates.
#[derive(Debug, Clone, Default)]
pub(super) struct Cloud {
    pub(super) free: Vec<Amount>,
    pub(super) candidates: Vec<Vec<Amount>>,
}

/// The first provider that shares.
pub(super) const SHARED: u128 = 1000;

fn root(provider: u128) -> u128 {
    match provider < SHARED {
        true => provider / 10 * 10,
        false => provider,
    }
}

impl Cloud {
    /// What Placement would answer.
    pub(super) fn answer(&self) -> Candidates {
        let mut providers: BTreeMap<ProviderUuid, ProviderSummary> = BTreeMap::new();
        for (provider, class, free) in &self.free {
            let summary = providers
                .entry(Uuid::from_u128(*provider).into())
                .or_default();
            // Some is used.
            let units = ResourceSummary {
                capacity: free + 3,
                used: 3,
            };
            summary.resources.insert((*class).to_owned(), units);
            summary.root_provider_uuid = Some(Uuid::from_u128(root(*provider)));
            let shares = *provider >= SHARED;
            let traits = shares.then(|| Trait::MISC_SHARES_VIA_AGGREGATE.to_string());
            summary.traits = Some(traits.into_iter().collect());
        }
        let candidates = self.candidates.iter().map(|amounts| {
            let mut allocations: BTreeMap<Uuid, AllocationOnProvider> = BTreeMap::new();
            for (provider, class, amount) in amounts {
                let taken = allocations.entry(Uuid::from_u128(*provider));
                let taken = taken.or_insert_with(|| AllocationOnProvider {
                    generation: None,
                    resources: BTreeMap::new(),
                });
                taken.resources.insert((*class).to_owned(), *amount);
            }
            Candidate::of_body(&AllocationRequest {
                allocations,
                mappings: None,
            })
            .unwrap()
        });
        Candidates {
            candidates: candidates.collect(),
            providers,
        }
    }

    /// The hosts, all with the given state.
    pub(super) fn hosts(&self, given_state: &Value) -> (Vec<HeadroomHost>, RequestSpec) {
        let found = self.answer();
        let considered = CandidateHosts::new(&found, &BTreeSet::new(), Uuid::nil());
        let hosts = considered.hosts().map(|host| {
            let mut state = given_state.clone();
            state["uuid"] = json!(host.to_string());
            state["host"] = json!(format!("host-{host}"));
            state
        });
        let hosts: Vec<Value> = hosts.collect();
        let flavor = json!({"name": "m1", "vcpus": 1, "memory_mb": 512});
        let case = json!({"id": "it", "hosts": hosts, "request": {"flavor": flavor}});
        let (states, request) = hosts_and_request(&case).unwrap();
        let states = states.into_iter().map(|it| it.state);
        let known = considered.with_states(states.collect()).into_iter();
        let hosts = known.map(|it| HeadroomHost {
            candidates: considered.of(it.host).to_vec(),
            considered: it.considered,
        });
        (hosts.collect(), request)
    }
}

pub(super) fn scheduler(filters: &[&str]) -> Scheduler {
    let mut options = SchedulerOptions::default();
    let filters = filters.iter().map(|name| (*name).to_owned());
    options.filter_scheduler.enabled_filters = filters.collect();
    options.filter_scheduler.max_instances_per_host = 3;
    Scheduler::new(options).unwrap()
}

fn fits(cloud: &Cloud, given_state: &Value, filters: &[&str]) -> (usize, usize) {
    let (hosts, request) = cloud.hosts(given_state);
    let filled = fill_hosts(
        &scheduler(filters),
        &request,
        &hosts,
        FreeResources::from_candidates(&cloud.answer()),
    );
    (filled.hosts, filled.guests.len())
}

fn plain(amounts: &[Amount], candidates: &[&[Amount]]) -> Cloud {
    Cloud {
        free: amounts.to_vec(),
        candidates: candidates.iter().map(|it| it.to_vec()).collect(),
    }
}

#[test]
fn candidates_are_taken_until_no_provider_has_room() {
    for (what, cloud, expected) in [
        ("nothing is named", Cloud::default(), (0, 0)),
        (
            "the scarcest class decides",
            plain(
                &[(10, "VCPU", 8), (10, "MEMORY_MB", 2500)],
                &[&[(10, "VCPU", 1), (10, "MEMORY_MB", 512)]],
            ),
            (1, 4),
        ),
        (
            "each host by itself",
            plain(
                &[(10, "VCPU", 5), (20, "VCPU", 3)],
                &[&[(10, "VCPU", 2)], &[(20, "VCPU", 2)]],
            ),
            (2, 3),
        ),
        (
            "eight GPUs, and CPUs for five guests",
            Cloud {
                free: [(10, "VCPU", 10)]
                    .into_iter()
                    .chain((11..19).map(|gpu| (gpu, "PGPU", 1)))
                    .collect(),
                candidates: (11..19)
                    .map(|gpu| vec![(10, "VCPU", 2), (gpu, "PGPU", 1)])
                    .collect(),
            },
            (1, 5),
        ),
        (
            "a disk that two hosts share is given once",
            plain(
                &[(10, "VCPU", 4), (20, "VCPU", 4), (SHARED, "DISK_GB", 50)],
                &[
                    &[(10, "VCPU", 1), (SHARED, "DISK_GB", 10)],
                    &[(20, "VCPU", 1), (SHARED, "DISK_GB", 10)],
                ],
            ),
            (2, 5),
        ),
        (
            "a provider that shrank has nothing",
            plain(&[(10, "VCPU", 0)], &[&[(10, "VCPU", 1)]]),
            (0, 0),
        ),
        (
            "counting ends",
            plain(&[(10, "VCPU", 1 << 40)], &[&[(10, "VCPU", 1)]]),
            (1, fill::MAX_GUESTS),
        ),
    ] {
        assert_eq!(
            fits(&cloud, &json!({}), &["AllHostsFilter"]),
            expected,
            "{what}"
        );
    }
}

#[test]
fn filters_see_the_guests_that_were_counted_before() {
    let cloud = plain(
        &[(10, "VCPU", 8), (20, "VCPU", 8)],
        &[&[(10, "VCPU", 1)], &[(20, "VCPU", 1)]],
    );
    let given_state = json!({"free_ram_mb": 1024 + 511, "total_ram_mb": 4096, "num_instances": 0});
    for (filters, expected) in [
        (&["AllHostsFilter"][..], (2, 16)),
        // Three are as many as a host may have.
        (&["NumInstancesFilter"], (2, 6)),
        (&["RamFilter"], (2, 4)),
        (&["RamFilter", "NumInstancesFilter"], (2, 4)),
        (&["ComputeFilter"], (2, 16)),
    ] {
        assert_eq!(fits(&cloud, &given_state, filters), expected, "{filters:?}");
    }
    let off = json!({"service": {"disabled": true}});
    assert_eq!(fits(&cloud, &off, &["ComputeFilter"]), (0, 0));
}
