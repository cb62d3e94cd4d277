//! The state that a run left, in the audit's format.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_fault_injection::{Boundary, EffectKind, Fault, GateDecision, TraceLine};
use berth_invariants::{
    AgentReport, Device, Exit, Guest, Histories, Journal, LoopLimits, OutputText, Pass,
    PassOutcome, PlacementSnapshot, RefusedReshape, Step, StepBoundary, StepKind, SystemSnapshot,
    TaskOutcome, TaskRecord,
};
use berth_model::ProviderTree;
use berth_tests::worlds::{PlacementRows, tree_of};

use crate::case::{Case, UnderFault};
use crate::scenarios::Situation;

/// What a start with a reshape, its retries and its ticks may send in a minute.
const REQUESTS_PER_MINUTE: usize = 500;
/// The loop's longest pause, and the interval between ticks.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The password that the client logs in with.
const PLANTED: &str = "planted-secret";

/// The worlds of a run; `clean` is Placement after a run without a fault.
pub(crate) fn worlds(situation: &Situation, case: &Case, clean: &PlacementRows) -> SystemSnapshot {
    let placement = PlacementSnapshot::from(&case.end);
    let node = situation.is.name().to_string();
    let trace: Vec<Step> = case.trace.effects().map(step).collect();
    SystemSnapshot {
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
        ..SystemSnapshot::default()
    }
}

fn step(line: &TraceLine) -> Step {
    Step {
        at: line.at,
        task: "node".to_owned(),
        boundary: match line.effect.boundary {
            Boundary::Http => StepBoundary::Http,
            Boundary::Driver => StepBoundary::Driver,
            Boundary::Sysfs => StepBoundary::Sysfs,
            Boundary::Store | Boundary::Database => StepBoundary::Store,
        },
        kind: match line.effect.kind {
            EffectKind::Read => StepKind::Read,
            EffectKind::Write => StepKind::Write,
        },
        operation: line.effect.to_string(),
    }
}

/// The crossings of the last two passes: the unit settles by two ticks without a change. None where the fault struck in
/// one of them: it was borne, and then nothing more was to do.
fn quiet_ticks(case: &Case, trace: &[Step]) -> Option<Vec<Vec<Step>>> {
    let last: Vec<_> = case.history.passes.iter().rev().take(2).collect();
    let quiet_since = last.iter().map(|pass| pass.began).min()?;
    let struck = |line: &TraceLine| line.event.decision() != GateDecision::Proceed;
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
                migrations: guest.also.clone(),
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
        UnderFault::Stopped(berth_tests::unit::Exit::ReshapeFailed, _) => Some(RefusedReshape {
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
        tasks: vec![TaskRecord {
            name: situation.journey.as_str().to_owned(),
            end: end(case),
        }],
        passes: passes(case),
        limits: Some(LoopLimits {
            requests_per_minute: REQUESTS_PER_MINUTE,
            longest_pause: LONGEST_PAUSE,
        }),
        exits: exits(case),
        texts: texts(case),
        secrets: vec![PLANTED.to_owned()],
    }
}

fn end(case: &Case) -> TaskOutcome {
    match (case.settled, case.held.is_empty()) {
        (false, _) => TaskOutcome::Open,
        (true, true) => TaskOutcome::Done,
        (true, false) => TaskOutcome::Held("units without a home".to_owned()),
    }
}

fn passes(case: &Case) -> Vec<Pass> {
    let pass = |pass: &berth_tests::unit::UnitPass| Pass {
        loop_name: format!("life {}", pass.life),
        began: pass.began,
        ended: pass.ended,
        end: match pass.failure {
            None => PassOutcome::Settled,
            Some(_) => PassOutcome::Failed,
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
    // If Placement finds a request malformed, there is a bug, except where it is injected.
    let malformed = GateDecision::Fault(Fault::BadRequest);
    let reported = case
        .trace
        .lines()
        .iter()
        .any(|line| line.event.decision() == malformed);
    let mut exits: Vec<Exit> = case.history.ends.iter().map(exit).collect();
    exits.retain(|exit| !(reported && *exit == Exit::Code(70)));
    exits
}

fn texts(case: &Case) -> Vec<OutputText> {
    let logged = case
        .history
        .ends
        .iter()
        .map(String::as_str)
        .chain(case.history.failures());
    let logged = logged.map(|text| OutputText {
        source: "log".to_owned(),
        text: text.to_owned(),
    });
    let files = case.files.iter();
    let files = files.map(|(name, text)| OutputText {
        source: name.clone(),
        text: text.clone(),
    });
    logged.chain(files).collect()
}

fn reported(case: &Case) -> AgentReport {
    let held = case
        .held
        .iter()
        .map(|held| (held.provider, held.class.clone()));
    AgentReport {
        held: held.collect(),
        ..AgentReport::default()
    }
}

/// The tree that a clean run left: the driver's view, completed by the agent. None if its UUIDs differ between runs;
/// the rows are then compared by name.
fn desired(clean: &PlacementRows, node: &str) -> Option<ProviderTree> {
    let world = PlacementSnapshot::from(clean);
    tree_of(&world, node)
}
