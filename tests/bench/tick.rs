//! The rows of the tick: without a change, and without a change but with an expired tree cache.

use crate::startup::Startup;
use crate::table::{Figure, Goal, Row, Section};

/// The steady tick, on each Placement.
pub(crate) fn steady(startups: &[Startup]) -> Section {
    let mut rows = Vec::new();
    for startup in startups {
        let guests = startup.guests;
        let real = &startup.real.tick;
        let nova = startup.nova.as_ref().map(|nova| nova.tick());
        rows.push(Row {
            what: format!("{guests} consumers: requests"),
            peer: nova.as_ref().map(|nova| Figure::Count(nova.requests)),
            ours: Figure::Count(real.requests),
            goal: Some(Goal::AtMost(Figure::Count(1.0))),
        });
        rows.push(Row {
            what: format!("{guests} consumers: CPU"),
            peer: nova.as_ref().map(|nova| Figure::Ms(nova.cpu_ms)),
            ours: Figure::Ms(real.cpu_ms),
            goal: Some(Goal::AtMost(Figure::Ms(2.0))),
        });
        rows.push(Row {
            what: format!("{guests} consumers: wall"),
            peer: nova.as_ref().map(|nova| Figure::Ms(nova.wall_ms)),
            ours: Figure::Ms(real.wall_ms),
            goal: None,
        });
        rows.push(Row {
            what: format!("{guests} consumers: CPU with the Placement built in"),
            peer: nova.map(|nova| Figure::Ms(nova.cpu_ms + nova.placement_cpu_ms)),
            ours: Figure::Ms(startup.built_in.tick.cpu_ms),
            goal: Some(Goal::AtMost(Figure::Ms(2.0))),
        });
    }
    Section {
        title: "Steady tick",
        note: "Per tick, over many that were asked for one after the other on the agent's admin socket, the asking included. \
               The peer is nova-compute's resource tracker and report client, the hypervisor's and the database's part left \
               out; both report to the same OpenStack Placement on SQLite. With the Placement built in the process is \
               `berth up`, and the peer's figure is tracker and Placement together.",
        rows,
    }
}

/// The tick that reads the tree again.
pub(crate) fn aged(startups: &[Startup]) -> Section {
    let mut rows = Vec::new();
    for startup in startups {
        let guests = startup.guests;
        let (aged, nova) = (
            &startup.real.aged,
            startup.nova.as_ref().map(|nova| &nova.aged),
        );
        rows.push(Row {
            what: format!("{guests} consumers: requests"),
            peer: nova.map(|nova| Figure::Count(nova.requests)),
            ours: Figure::Count(aged.requests),
            goal: Some(Goal::AtMost(Figure::Count(2.0))),
        });
        rows.push(Row {
            what: format!("{guests} consumers: CPU"),
            peer: nova.map(|nova| Figure::Ms(nova.cpu_ms)),
            ours: Figure::Ms(aged.cpu_ms),
            goal: None,
        });
        rows.push(Row {
            what: format!("{guests} consumers: Placement's CPU"),
            peer: nova.map(|nova| Figure::Ms(nova.placement_cpu_ms)),
            ours: Figure::Ms(aged.placement_cpu_ms),
            goal: None,
        });
    }
    Section {
        title: "Aged refresh",
        note: "The tick on which `resource_provider_association_refresh` (300 s) is over; here it is one second, and the ticks are \
               further apart. One read of the whole tree, and nothing else where its generations are the known ones.",
        rows,
    }
}
