//! Measures the idle agent: its memory and the size of its file, and the time from its start to its first report.

use std::fs;
use std::time::Duration;

use berth_tests::berth::{self, BerthHome};
use berth_tests::peer::Libvirtd;
use berth_virt::VgpuModel;

use crate::agent::{self, RunningAgent};
use crate::meter::ms;
use crate::nova::{NovaPeer, NovaService};
use crate::placement::Placement;
use crate::table::{Figure, Goal, Row, Section};
use crate::{Outcome, host, log};

/// Longer than threads of the blocking pool (10 s) and kept connections wait for work.
const IDLE: Duration = Duration::from_secs(12);
/// How often a start is repeated, for the one in the middle.
const STARTS: usize = 5;

pub(crate) fn measure(nova: Option<&NovaPeer>) -> Outcome<Section> {
    log("idle");
    let placement = Placement::real()?;
    let nova = nova.map(|peer| peer.service(&placement)).transpose()?;
    let url = placement.api().url;
    let mut rows = Vec::new();
    for (what, guests) in [
        ("fake driver, no guests", 0),
        ("fake driver, 100 guests", 100),
    ] {
        let mut home = agent::home_reporting_to(&url)?;
        host::write_machine(&home, guests, VgpuModel::PerGpu)?;
        rows.push(memory(what, &mut home, "agent", nova.as_ref(), Some(15.0))?);
        // The next one is another host of the same name.
        forget(&placement, &home)?;
    }
    let mut home = agent::home_with_placement("127.0.0.1:0")?;
    host::write_machine(&home, 0, VgpuModel::PerGpu)?;
    rows.push(memory(
        "fake driver, `berth up`",
        &mut home,
        "up",
        None,
        None,
    )?);
    rows.push(memory_with_libvirt(
        "test driver of libvirt",
        "test:///default",
        &url,
        nova.as_ref(),
    )?);
    match Libvirtd::start() {
        Ok(libvirtd) => rows.push(memory_with_libvirt(
            "libvirtd",
            &libvirtd.uri(),
            &url,
            nova.as_ref(),
        )?),
        Err(error) => log(&format!("libvirtd is left out: {error}")),
    }
    rows.extend(starts(&placement, nova.as_ref())?);
    rows.push(Row {
        what: "size of the program".to_owned(),
        peer: None,
        #[expect(clippy::cast_precision_loss, reason = "a file of less than 2^52 bytes")]
        ours: Figure::Mib(fs::metadata(berth::program()?)?.len() as f64 / f64::from(1 << 20)),
        goal: None,
    });
    Ok(Section {
        title: "Idle memory, start",
        note: "Resident memory of the shipped binary 12 s after its start, and the time from before its process is there \
               until its first report has landed in OpenStack's Placement (`berth up`: in its own, on an empty \
               database). The peer is a whole nova-compute with its fake driver, one provider, without message bus and \
               libvirt.",
        rows,
    })
}

fn memory(
    what: &str,
    home: &mut BerthHome,
    command: &str,
    nova: Option<&NovaService>,
    most: Option<f64>,
) -> Outcome<Row> {
    let agent = RunningAgent::start(home, command)?;
    agent.tick()?;
    std::thread::sleep(IDLE);
    let ours = Figure::Mib(agent.meter().resident_mib());
    agent.stop()?;
    Ok(Row {
        what: format!("idle memory: {what}"),
        peer: nova.map(|nova| Figure::Mib(nova.idle_mib)),
        ours,
        goal: most.map(|most| Goal::AtMost(Figure::Mib(most))),
    })
}

fn memory_with_libvirt(
    what: &str,
    uri: &str,
    url: &str,
    nova: Option<&NovaService>,
) -> Outcome<Row> {
    let mut home = agent::home(&format!(
        "compute_driver = \"libvirt\"\nstate_path = \"@HOME@/state\"\nhost = \"bench-{}\"\n[libvirt]\nconnection_uri = \"{uri}\"\n\
         [agent]\nadmin_socket = \"@HOME@/agent.sock\"\n\
         [placement]\nauth_type = \"admin_token\"\nendpoint = \"{url}\"\ntoken = \"admin\"\n",
        what.split(' ').next().unwrap_or_default()
    ))?;
    memory(what, &mut home, "agent", nova, Some(30.0))
}

fn starts(placement: &Placement, nova: Option<&NovaService>) -> Outcome<Vec<Row>> {
    let [mut one, mut nine, mut built_in] = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..STARTS {
        for (vgpu, times) in [(VgpuModel::Root, &mut one), (VgpuModel::PerGpu, &mut nine)] {
            let mut home = agent::home_reporting_to(&placement.api().url)?;
            host::write_machine(&home, 0, vgpu)?;
            times.push(start(&mut home, "agent")?);
            forget(placement, &home)?;
        }
        let mut home = agent::home_with_placement("127.0.0.1:0")?;
        host::write_machine(&home, 0, VgpuModel::PerGpu)?;
        built_in.push(start(&mut home, "up")?);
    }
    let row = |what: &str, peer: Option<Figure>, ours: Vec<Duration>, goal: Option<f64>| Row {
        what: format!("start to first report: {what}"),
        peer,
        ours: Figure::Ms(middle(ours)),
        goal: goal.map(|most| Goal::AtMost(Figure::Ms(most))),
    };
    let started = nova.map(|nova| Figure::Ms(nova.start.wall_ms));
    let imported = nova.map(|nova| Figure::Ms(nova.start.wall_ms + nova.import.wall_ms));
    Ok(vec![
        row(
            "new host of one provider (the peer without its imports)",
            started,
            one,
            Some(200.0),
        ),
        row("new host of nine providers", None, nine, None),
        row(
            "`berth up`, nine providers (the peer with its imports)",
            imported,
            built_in,
            Some(200.0),
        ),
    ])
}

fn start(home: &mut BerthHome, command: &str) -> Outcome<Duration> {
    let agent = RunningAgent::start(home, command)?;
    let wall = agent.startup.wall;
    agent.stop()?;
    Ok(wall)
}

fn middle(mut all: Vec<Duration>) -> f64 {
    all.sort();
    all.get(all.len() / 2).map_or(0.0, |middle| ms(*middle))
}

/// Deletes the host's tree.
fn forget(placement: &Placement, home: &BerthHome) -> Outcome<()> {
    let root = host::root(home)?.to_string();
    let api = placement.api();
    let tree = api.get(&format!("/resource_providers?in_tree={root}"))?;
    let all = tree["resource_providers"].as_array().into_iter().flatten();
    let mut all: Vec<&str> = all
        .filter_map(|provider| provider["uuid"].as_str())
        .collect();
    // Children first.
    all.sort_by_key(|uuid| *uuid == root);
    all.into_iter()
        .try_for_each(|uuid| api.delete(&format!("/resource_providers/{uuid}")))
}
