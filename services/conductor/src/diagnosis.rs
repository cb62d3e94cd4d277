//! Why there is no candidate: the same question with one demand less at a time. What has candidates then fails by that demand.

use berth_client::{PlacementClient, PlacementError};
use berth_model::RequestGroups;

/// The most questions that are asked.
const MOST_QUESTIONS: usize = 40;

/// The most causes that are named.
const MOST_CAUSES: usize = 5;

/// A sentence.
pub(crate) async fn why_none(
    placement: &PlacementClient,
    groups: &RequestGroups,
) -> Result<String, PlacementError> {
    let mut causes = Vec::new();
    for relaxed in groups.relaxations().into_iter().take(MOST_QUESTIONS) {
        let asked = relaxed.groups.limited(Some(1));
        let found = match placement.allocation_candidates(&asked).await {
            Ok(found) => found,
            // A class or trait that Placement does not know: with it, the whole question was refused before.
            Err(PlacementError::Refused(_)) => continue,
            Err(error) => return Err(error),
        };
        if !found.candidates.is_empty() {
            causes.push(relaxed.without.to_string());
        }
        if causes.len() == MOST_CAUSES {
            break;
        }
    }
    Ok(match causes.as_slice() {
        [] => "no host has what is asked for, nor all but one thing of it (berth provider tree shows what this one has)"
            .to_owned(),
        [cause] => format!("no host has {cause} to give beside the rest"),
        causes => format!(
            "no host has all of it; there would be one without any of these: {}",
            causes.join(", ")
        ),
    })
}
