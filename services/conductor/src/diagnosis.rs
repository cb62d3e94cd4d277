//! Why there is no candidate: the same question with one demand less at a time. What has candidates then fails by that demand.

use berth_client::{PlacementClient, PlacementError};
use berth_model::{CandidatesQuery, Demand};

use crate::BootError;

/// The most questions that are asked.
const MOST_QUESTIONS: usize = 40;

/// The most causes that are named.
const MOST_CAUSES: usize = 5;

/// The demands without any one of which there would be a candidate, at most [`MOST_CAUSES`].
pub(crate) async fn causes(
    placement: &PlacementClient,
    asked: &CandidatesQuery,
) -> Result<Vec<Demand>, PlacementError> {
    let mut causes: Vec<Demand> = Vec::new();
    let asked = asked.clone().limited(Some(1));
    for relaxed in asked.relaxations().into_iter().take(MOST_QUESTIONS) {
        // Without its only resource a whole group is not asked for: where one of its traits is the cause, that says no more.
        if is_said(&causes, &relaxed.without) {
            continue;
        }
        let found = match placement.candidates_of(&relaxed.query).await {
            Ok(found) => found,
            // A class or trait that Placement does not know: with it, the whole question was refused before.
            Err(PlacementError::Refused(_)) => continue,
            Err(error) => return Err(error),
        };
        if !found.candidates.is_empty() {
            causes.push(relaxed.without);
        }
        if causes.len() == MOST_CAUSES {
            break;
        }
    }
    Ok(causes)
}

/// What the causes come to.
pub(crate) fn sentence(causes: &[Demand]) -> String {
    match causes {
        [] => "no host has what is asked for, nor all but one thing of it (berth provider tree shows what this one has)"
            .to_owned(),
        [cause] => format!("no host has {cause} to give beside the rest"),
        causes => format!(
            "no host has all of it; there would be one without any of these: {}",
            causes
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        ),
    }
}

/// Why Placement answered so: that no host can be right is an answer too.
pub(crate) fn told_by_placement(error: PlacementError) -> BootError {
    match reported_by_nobody(&error) {
        Some(why) => BootError::NoValidHost(why),
        None => error.into(),
    }
}

/// What no host can have, because Placement does not even know its name: it refuses the whole question then.
fn reported_by_nobody(error: &PlacementError) -> Option<String> {
    let PlacementError::Refused(refusal) = error else {
        return None;
    };
    let known = [
        ("No such resource class ", "resource class"),
        ("No such trait(s): ", "trait"),
    ];
    known.into_iter().find_map(|(words, kind)| {
        let (_, names) = refusal.message.split_once(words)?;
        let names = names.trim_end_matches(['.', ' ', '\n']);
        Some(format!(
            "no host ever reported the {kind} {names} that is asked for"
        ))
    })
}

fn is_said(causes: &[Demand], next: &Demand) -> bool {
    let Demand::Resource(Some(group), ..) = next else {
        return false;
    };
    let of_it = |cause: &&Demand| cause.group() == Some(group);
    let mut causes = causes.iter().filter(of_it);
    causes.any(|cause| !matches!(cause, Demand::Resource(..)))
}
