//! Benchmarks a startup that reshapes from units on the root to a provider per GPU, and then ticks and a plain restart
//! with the same environment.

use std::time::Duration;

use berth_model::ProviderUuid;
use berth_tests::berth::BerthHome;
use berth_tests::port::free_port;
use berth_virt::VgpuModel;
use serde_json::Value;

use crate::agent::{self, RunningAgent};
use crate::meter::{Meter, MeterSpan, ms};
use crate::nova::{NovaPass, NovaPeer, NovaRun};
use crate::placement::{Api, Placement};
use crate::table::{Figure, Goal, Row, Section};
use crate::{Outcome, host, log};

/// How many ticks are averaged: CPU time of a process is counted in hundredths of a second at worst.
const TICKS: u32 = 200;
/// The number of ticks with an aged tree.
const AGED_TICKS: u32 = 5;
/// A machine file as young as this is read again on each look: a later write could carry the same time.
const MACHINE_IS_YOUNG: Duration = Duration::from_millis(2500);
/// How often the whole is done with the built-in Placement, for a median.
const REPEATS: u32 = 3;

/// All that was measured with one number of guests.
pub(crate) struct Startup {
    pub(crate) guests: u32,
    /// `berth agent` and OpenStack's Placement.
    pub(crate) real: RealRun,
    /// `berth up`.
    pub(crate) built_in: BuiltInRun,
    /// nova-compute and OpenStack's Placement.
    pub(crate) nova: Option<NovaRun>,
}

/// `berth agent` with OpenStack's Placement.
pub(crate) struct RealRun {
    pub(crate) reshape: NovaPass,
    /// Of the reshape's wall time, what POST /reshaper took; both of a run with the client's log on.
    apart_from_post_ms: f64,
    pub(crate) restart: NovaPass,
    pub(crate) tick: NovaPass,
    pub(crate) aged: NovaPass,
}

/// `berth up`: agent and Placement in one process.
pub(crate) struct BuiltInRun {
    pub(crate) reshape: NovaPass,
    pub(crate) tick: NovaPass,
}

impl Startup {
    /// Seeds, starts, ticks, with this many guests.
    pub(crate) fn measure(guests: u32, nova: Option<&NovaPeer>) -> Outcome<Self> {
        log(&format!("{guests} consumers: the built-in Placement"));
        let built_in = built_in_run(guests)?;
        log(&format!(
            "{guests} consumers: filling OpenStack's Placement"
        ));
        let mut placement = Placement::real()?;
        let mut home = agent::home_reporting_to(&placement.api().url)?;
        let root = seed(&mut home, &placement.api(), guests)?;
        placement.keep()?;
        log(&format!("{guests} consumers: OpenStack's Placement"));
        let real = real_run(&mut home, &mut placement, guests, root)?;
        let nova = match nova {
            Some(peer) => {
                log(&format!("{guests} consumers: nova-compute"));
                placement.restore()?;
                let run = peer.tracker(&placement, guests, root)?;
                check(&placement.api(), guests, root)?;
                Some(run)
            }
            None => None,
        };
        Ok(Self {
            guests,
            real,
            built_in,
            nova,
        })
    }
}

/// The host as an old version reported it, with its guests' claims.
pub(crate) fn seed(home: &mut BerthHome, api: &Api, guests: u32) -> Outcome<ProviderUuid> {
    host::write_machine(home, guests, VgpuModel::Root)?;
    RunningAgent::start(home, "agent")?.stop()?;
    let root = host::root(home)?;
    host::claim(api, guests, root)?;
    host::write_machine(home, guests, VgpuModel::PerGpu)?;
    Ok(root)
}

fn check(api: &Api, guests: u32, root: ProviderUuid) -> Outcome<()> {
    if host::is_reshaped(api, guests, root)? {
        Ok(())
    } else {
        Err("after the reshape not every unit is on a GPU's provider".into())
    }
}

fn real_run(
    home: &mut BerthHome,
    placement: &mut Placement,
    guests: u32,
    root: ProviderUuid,
) -> Outcome<RealRun> {
    let (agent, reshape) = start(home, "agent", &placement.meter())?;
    check(&placement.api(), guests, root)?;
    std::thread::sleep(MACHINE_IS_YOUNG);
    let tick = ticks(&agent, &placement.meter(), TICKS, Duration::ZERO)?;
    agent.stop()?;

    let config = std::fs::read_to_string(home.config_file())?;
    home.configure(&format!(
        "{config}\n[compute]\nresource_provider_association_refresh = 1\n"
    ))?;
    let (agent, restart) = start(home, "agent", &placement.meter())?;
    let aged = ticks(
        &agent,
        &placement.meter(),
        AGED_TICKS,
        Duration::from_millis(1100),
    )?;
    agent.stop()?;

    placement.restore()?;
    let apart_from_post_ms = apart_from_post(home)?;
    Ok(RealRun {
        reshape,
        apart_from_post_ms,
        restart,
        tick,
        aged,
    })
}

/// The run in the middle by its CPU time.
fn built_in_run(guests: u32) -> Outcome<BuiltInRun> {
    let mut runs = (0..REPEATS)
        .map(|_| built_in_once(guests))
        .collect::<Outcome<Vec<_>>>()?;
    runs.sort_by(|a, b| a.reshape.cpu_ms.total_cmp(&b.reshape.cpu_ms));
    Ok(runs.swap_remove(runs.len() / 2))
}

fn built_in_once(guests: u32) -> Outcome<BuiltInRun> {
    let listen = format!("127.0.0.1:{}", free_port()?);
    let mut home = agent::home_with_placement(&listen)?;
    let api = Api {
        url: format!("http://{listen}"),
    };
    host::write_machine(&home, guests, VgpuModel::Root)?;
    let agent = RunningAgent::start(&mut home, "up")?;
    let root = host::root(&home)?;
    host::claim(&api, guests, root)?;
    agent.stop()?;
    host::write_machine(&home, guests, VgpuModel::PerGpu)?;

    let none = Meter::none();
    let (agent, reshape) = start(&mut home, "up", &none)?;
    check(&api, guests, root)?;
    std::thread::sleep(MACHINE_IS_YOUNG);
    let tick = ticks(&agent, &none, TICKS, Duration::ZERO)?;
    agent.stop()?;
    Ok(BuiltInRun { reshape, tick })
}

/// Starts an agent; what its startup took, from before its process was there.
fn start(
    home: &mut BerthHome,
    command: &str,
    placement: &Meter,
) -> Outcome<(RunningAgent, NovaPass)> {
    let before = placement.mark();
    let agent = RunningAgent::start(home, command)?;
    let placement = placement.since(&before);
    let startup = NovaPass::new(agent.startup, placement, agent.requests()?, 1);
    Ok((agent, startup))
}

fn ticks(
    agent: &RunningAgent,
    placement: &Meter,
    count: u32,
    pause: Duration,
) -> Outcome<NovaPass> {
    let meter = agent.meter();
    let (requests, theirs) = (agent.requests()?, placement.mark());
    let mut ours = MeterSpan::default();
    for _ in 0..count {
        std::thread::sleep(pause);
        let before = meter.mark();
        agent.tick()?;
        let spent = meter.since(&before);
        ours.wall += spent.wall;
        ours.cpu += spent.cpu;
    }
    Ok(NovaPass::new(
        ours,
        placement.since(&theirs),
        agent.requests()? - requests,
        count,
    ))
}

/// The reshape once more, with the client's log on: its wall time without POST /reshaper.
fn apart_from_post(home: &mut BerthHome) -> Outcome<f64> {
    home.set_env("RUST_LOG", "berth_client::call=debug");
    // The agent must not report to a closed socket.
    home.set_env("NOTIFY_SOCKET", "");
    let config = home.config_file();
    let mut arguments = vec!["agent", "--once", "--log-format", "json", "--config"];
    arguments.push(config.to_str().ok_or("the home's path is text")?);
    let began = std::time::Instant::now();
    let done = home.run(arguments)?;
    let wall = began.elapsed();
    if done.code != 0 {
        return Err(format!(
            "berth agent --once ended with {}:\n{}",
            done.code, done.stderr
        )
        .into());
    }
    let lines = done
        .stderr
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let posts = lines.filter(|line| line["fields"]["route"] == "/reshaper");
    let post: Duration = posts
        .filter_map(|line| duration(line["fields"]["duration"].as_str()?))
        .sum();
    if post.is_zero() {
        return Err(format!("berth agent --once sent no reshape:\n{}", done.stderr).into());
    }
    Ok(ms(wall.saturating_sub(post)))
}

/// A duration as `{:?}` writes it.
fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|c: char| c != '.' && !c.is_ascii_digit())?);
    let scale = match unit {
        "s" => 1.0,
        "ms" => 1e-3,
        "µs" => 1e-6,
        "ns" => 1e-9,
        _ => return None,
    };
    Some(Duration::from_secs_f64(number.parse::<f64>().ok()? * scale))
}

/// The rows of `berth up` next to those of nova-compute and OpenStack's Placement.
pub(crate) fn built_in(startups: &[Startup]) -> Section {
    let mut rows = Vec::new();
    for startup in startups.iter().filter(|startup| startup.guests > 0) {
        let (guests, ours) = (startup.guests, &startup.built_in.reshape);
        let nova = startup.nova.as_ref().map(|nova| &nova.startup);
        // The promise is about the large one; a small one is the start of a process.
        let goal = (guests >= 1000).then_some(Goal::PartOfPeer(100.0));
        rows.push(Row {
            what: format!("{guests} consumers: wall"),
            peer: nova.map(|nova| Figure::Ms(nova.wall_ms)),
            ours: Figure::Ms(ours.wall_ms),
            goal,
        });
        rows.push(Row {
            what: format!("{guests} consumers: CPU, agent and Placement"),
            peer: nova.map(|nova| Figure::Ms(nova.cpu_ms + nova.placement_cpu_ms)),
            ours: Figure::Ms(ours.cpu_ms),
            goal,
        });
    }
    Section {
        title: "Startup reshape, Placement built in",
        note: "`berth up` from before its process is there until it says READY, the whole start included. The peer is \
               nova-compute's tracker from the call on (its imports are not counted) and OpenStack's Placement on SQLite.",
        rows,
    }
}

/// The rows of `berth agent` and nova-compute on the same Placement.
pub(crate) fn real(startups: &[Startup]) -> Section {
    let mut rows = Vec::new();
    for startup in startups.iter().filter(|startup| startup.guests > 0) {
        let (guests, ours) = (startup.guests, &startup.real.reshape);
        let nova = startup.nova.as_ref().map(|nova| &nova.startup);
        let restart = startup.nova.as_ref().map(|nova| &nova.restart);
        let mut row = |what: &str, peer: Option<Figure>, ours: Figure, goal: Option<Goal>| {
            let what = format!("{guests} consumers: {what}");
            rows.push(Row {
                what,
                peer,
                ours,
                goal,
            });
        };
        let apart = nova.map(|nova| Figure::Ms(nova.wall_ms - nova.reshaper_ms));
        let goal = (guests >= 1000).then_some(Goal::PartOfPeer(2.0));
        row(
            "wall",
            nova.map(|nova| Figure::Ms(nova.wall_ms)),
            Figure::Ms(ours.wall_ms),
            None,
        );
        row(
            "wall without POST /reshaper",
            apart,
            Figure::Ms(startup.real.apart_from_post_ms),
            goal,
        );
        row(
            "CPU",
            nova.map(|nova| Figure::Ms(nova.cpu_ms)),
            Figure::Ms(ours.cpu_ms),
            None,
        );
        let theirs = nova.map(|nova| Figure::Ms(nova.placement_cpu_ms));
        row(
            "Placement's CPU",
            theirs,
            Figure::Ms(ours.placement_cpu_ms),
            None,
        );
        let goal = nova.map(|nova| Goal::AtMost(Figure::Count(nova.requests)));
        row(
            "requests",
            nova.map(|nova| Figure::Count(nova.requests)),
            Figure::Count(ours.requests),
            goal,
        );
        let (theirs, ours) = (
            restart.map(|run| Figure::Count(run.requests)),
            startup.real.restart.requests,
        );
        row(
            "requests of a restart without a reshape",
            theirs,
            Figure::Count(ours),
            None,
        );
    }
    Section {
        title: "Startup reshape, OpenStack's Placement",
        note: "`berth agent` and nova-compute's tracker against the same Placement (two workers, SQLite), each on the rows as they \
               were before. Ours counts the whole start of the process until READY; the row without POST /reshaper is of a run \
               of its own with `--once` and the client's log on, which is how long the POST took is known.",
        rows,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_reads_back_as_it_was_written() {
        for whole in [
            Duration::from_millis(8_612),
            Duration::from_micros(1_500),
            Duration::from_nanos(730),
        ] {
            assert_eq!(duration(&format!("{whole:?}")), Some(whole));
        }
        assert_eq!(duration("fast"), None);
    }
}
