//! What a run left, as the audit's worlds.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_model::ProviderTree;
use berth_model::audit::{
    Device, Exit, Guest, Histories, Journal, JourneyEnd, JourneyRow, Limits, Pass, PassEnd,
    PlacementWorld, Refusal, Reported, Step, StepEffect, StepSeam, Text, Worlds,
};
use berth_seam::{Effect, Fault, Release, Seam, TraceLine};
use berth_tests::worlds::{PlacementRows, tree_of};

use crate::case::{Case, UnderFault};
use crate::journeys::Situation;

/// What a start with a reshape, its retries and its ticks may send in a minute.
const REQUESTS_PER_MINUTE: usize = 500;
/// The loop's longest pause, and the interval between ticks.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The password that the client logs in with.
const PLANTED: &str = "planted-secret";

/// The worlds of a run; `clean` is Placement after a run without a fault.
pub(crate) fn worlds(situation: &Situation, case: &Case, clean: &PlacementRows) -> Worlds {
    let placement = PlacementWorld::from(&case.end);
    let node = situation.is.name().to_string();
    let trace: Vec<Step> = case.trace.crossings().map(step).collect();
    Worlds {
        guests: guests(situation),
        devices: devices(situation),
        journals: vec![Journal {
            name: node.clone(),
            open: Vec::new(),
        }],
        histories: histories(situation, case),
        desired: desired(clean, &node)
            .filter(|tree| placement.providers.contains_key(&tree.root().uuid()))
            .into_iter()
            .map(|tree| (node.clone(), tree))
            .collect(),
        reported: reported(case),
        quiet_ticks: quiet_ticks(case, &trace),
        trace,
        placement,
        ..Worlds::default()
    }
}

fn step(line: &TraceLine) -> Step {
    Step {
        at: line.at,
        journey: "node".to_owned(),
        seam: match line.crossing.seam {
            Seam::Http => StepSeam::Http,
            Seam::Driver => StepSeam::Driver,
            Seam::Sysfs => StepSeam::Sysfs,
            Seam::Store | Seam::Database => StepSeam::Store,
        },
        effect: match line.crossing.effect {
            Effect::Read => StepEffect::Read,
            Effect::Write => StepEffect::Write,
        },
        operation: line.crossing.to_string(),
    }
}

/// The crossings of the last two passes: the unit settles by two ticks without a change. None where the fault struck in
/// one of them: it was borne, and then nothing more was to do.
fn quiet_ticks(case: &Case, trace: &[Step]) -> Option<Vec<Vec<Step>>> {
    let last: Vec<_> = case.history.passes.iter().rev().take(2).collect();
    let quiet_since = last.iter().map(|pass| pass.began).min()?;
    let struck = |line: &TraceLine| line.event.release() != Release::Proceed;
    let mut lines = case.trace.lines().iter();
    if lines.any(|line| struck(line) && line.at >= quiet_since) {
        return None;
    }
    let ticks = last.iter().map(|pass| {
        let of = trace.iter().filter(|step| {
            step.at >= pass.began && step.at <= pass.ended && !is_aged_refresh(step)
        });
        of.cloned().collect()
    });
    Some(ticks.collect())
}

/// What is read every five minutes although nothing changed.
fn is_aged_refresh(step: &Step) -> bool {
    ["?in_tree", "?member_of"]
        .iter()
        .any(|query| step.operation.contains(query))
}

fn guests(situation: &Situation) -> BTreeMap<berth_model::ConsumerUuid, Guest> {
    let view = situation.is.view();
    let mut guests = BTreeMap::new();
    for (node, seen) in &view.nodes {
        for (consumer, guest) in &seen.guests {
            let guest = Guest {
                node: node.to_string(),
                also: guest.also.clone(),
                devices: guest
                    .mdevs
                    .iter()
                    .map(|mdev| mdev.uuid.to_string())
                    .collect(),
            };
            guests.insert(*consumer, guest);
        }
    }
    guests
}

fn devices(situation: &Situation) -> Vec<Device> {
    let of = |(consumer, guest): (berth_model::ConsumerUuid, Guest)| {
        let device = move |name| Device {
            name,
            owners: [consumer].into(),
        };
        guest.devices.into_iter().map(device)
    };
    guests(situation).into_iter().flat_map(of).collect()
}

fn histories(situation: &Situation, case: &Case) -> Histories {
    let refused = match &case.under_fault {
        UnderFault::Stopped(berth_tests::unit::Exit::ReshapeFailed, _) => Some(Refusal {
            before: (&situation.before).into(),
            after: (&case.then).into(),
        }),
        _ => None,
    };
    Histories {
        began: Some((&situation.before).into()),
        requests: case.testimony.writes.clone(),
        generations: Vec::new(),
        reshapes: case.testimony.reshapes.clone(),
        refusals: refused.into_iter().collect(),
        journeys: vec![JourneyRow {
            name: situation.journey.as_str().to_owned(),
            end: end(case),
        }],
        passes: passes(case),
        limits: Some(Limits {
            requests_per_minute: REQUESTS_PER_MINUTE,
            longest_pause: LONGEST_PAUSE,
        }),
        exits: exits(case),
        texts: texts(case),
        secrets: vec![PLANTED.to_owned()],
    }
}

fn end(case: &Case) -> JourneyEnd {
    match (case.settled, case.held.is_empty()) {
        (false, _) => JourneyEnd::Open,
        (true, true) => JourneyEnd::Done,
        (true, false) => JourneyEnd::Held("units without a home".to_owned()),
    }
}

fn passes(case: &Case) -> Vec<Pass> {
    let pass = |pass: &berth_tests::unit::Pass| Pass {
        loop_name: format!("life {}", pass.life),
        began: pass.began,
        ended: pass.ended,
        end: match pass.failure {
            None => PassEnd::Settled,
            Some(_) => PassEnd::Failed,
        },
    };
    case.history.passes.iter().map(pass).collect()
}

/// Ends are `CODE: REASON`, or say what killed.
fn exits(case: &Case) -> Vec<Exit> {
    let exit = |end: &String| match end.split_once(':').map(|(code, _)| code.parse()) {
        Some(Ok(code)) => Exit::Code(code),
        _ => Exit::Killed,
    };
    // Placement that finds a request malformed means a bug: here it was told to.
    let malformed = Release::Fault(Fault::BadRequest);
    let told = case
        .trace
        .lines()
        .iter()
        .any(|line| line.event.release() == malformed);
    let mut exits: Vec<Exit> = case.history.ends.iter().map(exit).collect();
    exits.retain(|exit| !(told && *exit == Exit::Code(70)));
    exits
}

fn texts(case: &Case) -> Vec<Text> {
    let said = case
        .history
        .ends
        .iter()
        .map(String::as_str)
        .chain(case.history.failures());
    let said = said.map(|text| Text {
        source: "log".to_owned(),
        text: text.to_owned(),
    });
    let files = case.files.iter();
    let files = files.map(|(name, text)| Text {
        source: name.clone(),
        text: text.clone(),
    });
    said.chain(files).collect()
}

fn reported(case: &Case) -> Reported {
    let held = case
        .held
        .iter()
        .map(|held| (held.provider, held.class.clone()));
    Reported {
        held: held.collect(),
        ..Reported::default()
    }
}

/// The tree that a clean run left: what the driver wants and the agent completes. None where its UUIDs are made anew in
/// each run; there the rows are compared by name.
fn desired(clean: &PlacementRows, node: &str) -> Option<ProviderTree> {
    let world = PlacementWorld::from(clean);
    tree_of(&world, node)
}
