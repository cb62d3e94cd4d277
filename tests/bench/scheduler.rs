//! Benchmarks filtering and weighing: Berth's next to Nova's, on the same hosts and requests, without Placement and
//! without a database.

mod workload;

use std::fs;
use std::process::Command;

use berth_tests::scratch::Scratch;
use serde::Deserialize;

use crate::nova::NovaPeer;
use crate::table::{Figure, Goal, Row, Section};
use crate::{Outcome, log};

/// Nova's filters by default.
const DEFAULT: [&str; 5] = [
    "ComputeFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
];
/// In addition, all that Nova has.
const MORE: [&str; 17] = [
    "AllHostsFilter",
    "IsolatedHostsFilter",
    "AggregateMultiTenancyIsolation",
    "AggregateTypeAffinityFilter",
    "AggregateInstanceExtraSpecsFilter",
    "AggregateImagePropertiesIsolation",
    "NumInstancesFilter",
    "AggregateNumInstancesFilter",
    "IoOpsFilter",
    "AggregateIoOpsFilter",
    "DifferentHostFilter",
    "SameHostFilter",
    "SimpleCIDRAffinityFilter",
    "JsonFilter",
    "MetricsFilter",
    "PciPassthroughFilter",
    "NUMATopologyFilter",
];

/// Hosts, and how many instances of one request are placed on them; Nova is asked up to this many hosts.
const SIZES: [(usize, u32); 3] = [(1_000, 100), (10_000, 100), (100_000, 1)];
const NOVA_HOSTS: usize = 10_000;
/// What we may take of what Nova takes, for each host and instance.
const PART: f64 = 500.0;

/// What telling may take of a request: so many times what it takes without.
const RECORDED: f64 = 1.2;

#[derive(Debug, Clone, Copy, Deserialize)]
struct SchedulerRun {
    /// Instances that were placed.
    done: u32,
    /// Hosts that passed the filters for the first one.
    passed: usize,
    /// CPU time of the first one, in ms.
    first_ms: f64,
    /// Of each of the others.
    later_ms: f64,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct BerthScheduler {
    #[serde(flatten)]
    ran: SchedulerRun,
    /// Of the first one, where no record of it is kept.
    bare_ms: f64,
    /// Of the first one, with a record and an explanation.
    recorded_ms: f64,
    /// Of one for which there is no host, where no record of it is kept.
    none_ms: f64,
    /// Of one for which there is no host, with a record, a diagnosis and an explanation.
    diagnosed_ms: f64,
}

impl SchedulerRun {
    /// The time of a complete request, measured with the requests that found a host.
    fn whole(&self, instances: u32) -> f64 {
        self.first_ms + f64::from(instances - 1) * self.later_ms
    }
}

pub(crate) fn measure(nova: Option<&NovaPeer>) -> Outcome<[Section; 2]> {
    let (mut rows, mut recorded) = (Vec::new(), Vec::new());
    for (hosts, instances) in SIZES {
        log(&format!("the scheduler, {hosts} hosts"));
        let folder = Scratch::new()?;
        let file = folder.join("workload.json");
        fs::write(&file, workload::workload(hosts).to_string())?;
        let all: Vec<&str> = DEFAULT.into_iter().chain(MORE).collect();
        for (filters, request) in [(&DEFAULT[..], "plain"), (&all[..], "rich")] {
            let arguments = [
                file.display().to_string(),
                filters.join(","),
                request.to_owned(),
                instances.to_string(),
            ];
            let ours = berth(&arguments)?;
            let peer = match nova {
                Some(nova) if hosts <= NOVA_HOSTS => {
                    let ran = nova.script("schedule.py", &arguments)?;
                    Some(serde_json::from_value::<SchedulerRun>(ran)?)
                }
                _ => None,
            };
            if let Some(peer) = peer
                && peer.passed != ours.ran.passed
            {
                let (theirs, ours) = (peer.passed, ours.ran.passed);
                return Err(
                    format!("{request}: {theirs} hosts pass Nova's filters, ours {ours}").into(),
                );
            }
            let with = format!("{hosts} hosts, {} filters, {request}", filters.len());
            // The goal applies to the rich request; the plain one is shown for comparison.
            let goal = (request == "rich").then_some(Goal::PartOfPeer(PART));
            rows.extend(compared(&with, hosts, instances, peer, ours.ran, goal));
            recorded.extend(explained(&with, ours));
        }
    }
    Ok([
        Section {
            title: "Filters and weighers",
            note: "CPU time between \"the host states are there\" and \"the claim\", of one request for so many instances, all hosts distinct, \
                   13 weighers. The peer is Nova 34's filter scheduler, which is given a minute for each request; a whole request of its is its \
                   first instance and the mean of the others it came to. Both let the same number of hosts pass, or there is no table; ours has \
                   the same answer with one thread, two, and one for each processor.",
            rows,
        },
        Section {
            title: "Explanations",
            note: "CPU time of a request for one instance. The peer is our own scheduler without a record of how hosts fared.",
            rows: recorded,
        },
    ])
}

fn compared(
    with: &str,
    hosts: usize,
    instances: u32,
    peer: Option<SchedulerRun>,
    ours: SchedulerRun,
    goal: Option<Goal>,
) -> Vec<Row> {
    let row = |what: &str, of: &dyn Fn(&SchedulerRun) -> Figure| Row {
        what: format!("{with}: {what}"),
        peer: peer.as_ref().map(of),
        ours: of(&ours),
        goal: goal.filter(|_| peer.is_some()),
    };
    let many = f64::from(u32::try_from(hosts).unwrap_or(u32::MAX));
    let mut rows = vec![
        row("first instance", &|ran| Figure::Ms(ran.first_ms)),
        Row {
            goal: None,
            ..row("first instance, each host", &|ran| {
                Figure::Us(ran.first_ms * 1_000.0 / many)
            })
        },
    ];
    if instances > 1 {
        rows.push(row("each other", &|ran| Figure::Ms(ran.later_ms)));
        rows.push(row(&format!("{instances} instances"), &|ran| {
            Figure::Ms(ran.whole(instances))
        }));
    }
    rows
}

/// What it takes to say why.
fn explained(with: &str, ours: BerthScheduler) -> Vec<Row> {
    let row = |what: &str, bare: f64, recorded: f64, goal| Row {
        what: format!("{with}: {what}"),
        peer: Some(Figure::Ms(bare)),
        ours: Figure::Ms(recorded),
        goal,
    };
    let goal = Some(Goal::TimesPeer(RECORDED));
    let (bare, none) = (ours.bare_ms, ours.none_ms);
    vec![
        row("a record is kept", bare, ours.ran.first_ms, goal),
        row("and explained", bare, ours.recorded_ms, goal),
        row("no host, diagnosed", none, ours.diagnosed_ms, None),
    ]
}

/// Our scheduler, by the program that `run.sh` built of `services/scheduler/cases/examples/workload.rs`.
fn berth(arguments: &[String]) -> Outcome<BerthScheduler> {
    let program = std::env::var_os("BERTH_WORKLOAD")
        .ok_or("BERTH_WORKLOAD names no program (run.sh builds it)")?;
    let output = Command::new(program).args(arguments).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let ours: BerthScheduler = serde_json::from_slice(&output.stdout)?;
    match ours.ran.done {
        0 => Err("no instance was placed".into()),
        _ => Ok(ours),
    }
}
