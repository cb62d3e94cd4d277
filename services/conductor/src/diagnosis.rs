//! Why there is no candidate: the same question with one demand less at a time. What has candidates then fails by that demand.

use berth_client::placement::Candidates;
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

/// A resource of which no host has as much by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Beyond {
    class: String,
    amount: u64,
    /// The most that one provider has free; none where it is no less, so that it is not given at once.
    most: Option<u64>,
}

/// The resources that no host has, each asked for alone: where several are, no single demand is the cause.
pub(crate) async fn beyond_all(
    placement: &PlacementClient,
    asked: &CandidatesQuery,
) -> Result<Vec<Beyond>, PlacementError> {
    let mut beyond: Vec<Beyond> = Vec::new();
    for demand in asked.demands().into_iter().take(MOST_QUESTIONS) {
        let Demand::Resource(_, class, amount) = demand else {
            continue;
        };
        if beyond.iter().any(|one| one.class == class) {
            continue;
        }
        let ask =
            async |amount: u64| match CandidatesQuery::read(&format!("resources={class}:{amount}"))
            {
                Ok(query) => placement.candidates_of(&query).await.map(Some),
                Err(_) => Ok(None),
            };
        match ask(amount).await {
            Ok(Some(found)) if found.candidates.is_empty() => {}
            Ok(_) | Err(PlacementError::Refused(_)) => continue,
            Err(error) => return Err(error),
        }
        let least = ask(1).await?.unwrap_or_default();
        let most = Some(most_free(&least, &class)).filter(|most| *most < amount);
        beyond.push(Beyond {
            class,
            amount,
            most,
        });
    }
    Ok(beyond)
}

/// The most of a class that one provider has free.
fn most_free(found: &Candidates, class: &str) -> u64 {
    let of_class = found
        .providers
        .values()
        .filter_map(|it| it.resources.get(class));
    of_class
        .map(|it| it.capacity.saturating_sub(it.used))
        .max()
        .unwrap_or(0)
}

/// What those come to; none where there is none.
pub(crate) fn beyond_sentence(beyond: &[Beyond]) -> Option<String> {
    let told = |one: &Beyond| match one.most {
        Some(most) => format!("{} {}: the most is {most}", one.amount, one.class),
        None => format!(
            "{} {}: as much is free, and not to be had at once",
            one.amount, one.class
        ),
    };
    let all: Vec<String> = beyond.iter().map(told).collect();
    (!all.is_empty()).then(|| format!("no host has free what is asked for: {}", all.join(", ")))
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
        Some(why) => BootError::NoValidHost(why.into()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_that_no_host_has_are_named_with_the_most_that_is_free() {
        let one = |class: &str, amount, most| Beyond {
            class: class.to_owned(),
            amount,
            most,
        };
        let beyond = [
            one("MEMORY_MB", 999_999, Some(65_024)),
            one("VCPU", 64, Some(16)),
            one("DISK_GB", 5, None),
        ];
        assert_eq!(
            beyond_sentence(&beyond).as_deref(),
            Some(
                "no host has free what is asked for: 999999 MEMORY_MB: the most is 65024, 64 VCPU: the most is 16, \
                 5 DISK_GB: as much is free, and not to be had at once"
            )
        );
        assert_eq!(beyond_sentence(&[]), None);
    }

    #[test]
    fn the_most_that_is_free_is_that_of_one_provider() {
        let provider = |capacity: u64, used: u64| {
            let body =
                serde_json::json!({"resources": {"VCPU": {"capacity": capacity, "used": used}}});
            berth_wire::decode(body.to_string().as_bytes()).expect("a summary")
        };
        let uuid = |number| uuid::Uuid::from_u128(number).into();
        let found = Candidates {
            providers: [
                (uuid(1), provider(16, 12)),
                (uuid(2), provider(8, 1)),
                (uuid(3), provider(4, 9)),
            ]
            .into(),
            ..Candidates::default()
        };
        assert_eq!(most_free(&found, "VCPU"), 7);
        assert_eq!(most_free(&found, "MEMORY_MB"), 0);
    }
}
