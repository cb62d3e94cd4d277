//! Diagnoses why Placement has no allocation candidate.
//!
//! [`find_causes`] repeats the query with one demand removed at a time: if that query has candidates, the demand is a
//! cause. If there is no single cause, [`find_shortages`] queries each resource alone.

use berth_client::placement::Candidates;
use berth_client::{PlacementClient, PlacementError};
use berth_model::{CandidatesQuery, QueryDemand};

use crate::boot::{BootError, NoHostReason};

/// Maximum number of queries.
const MAX_QUERIES: usize = 40;

/// Maximum number of reported causes.
const MAX_CAUSES: usize = 5;

/// The demands without which there would be a candidate, at most [`MAX_CAUSES`].
pub(crate) async fn find_causes(
    placement: &PlacementClient,
    asked: &CandidatesQuery,
) -> Result<Vec<QueryDemand>, PlacementError> {
    let mut causes: Vec<QueryDemand> = Vec::new();
    let asked = asked.clone().limited(Some(1));
    for relaxed in asked.relaxations().into_iter().take(MAX_QUERIES) {
        // Removing the only resource of a group removes the whole group. If one of the group's traits or its link
        // group is already a cause, that adds nothing.
        if is_implied(&causes, &relaxed.without) {
            continue;
        }
        let found = match placement.candidates_of(&relaxed.query).await {
            Ok(found) => found,
            // An unknown class or trait: the original query was refused, too.
            Err(PlacementError::Refused(_)) => continue,
            Err(error) => return Err(error),
        };
        if !found.candidates.is_empty() {
            causes.push(relaxed.without);
        }
        if causes.len() == MAX_CAUSES {
            break;
        }
    }
    Ok(causes)
}

/// A resource that no host has in the requested amount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResourceShortage {
    class: String,
    amount: u64,
    /// The largest free amount of one provider; `None` if it suffices but cannot be allocated at once.
    most: Option<u64>,
}

/// The resources that no host has, each queried alone.
pub(crate) async fn find_shortages(
    placement: &PlacementClient,
    asked: &CandidatesQuery,
) -> Result<Vec<ResourceShortage>, PlacementError> {
    let mut shortages: Vec<ResourceShortage> = Vec::new();
    for demand in asked.demands().into_iter().take(MAX_QUERIES) {
        let QueryDemand::Resource(_, class, amount) = demand else {
            continue;
        };
        if shortages.iter().any(|one| one.class == class) {
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
        shortages.push(ResourceShortage {
            class,
            amount,
            most,
        });
    }
    Ok(shortages)
}

/// The largest free amount of a class on one provider.
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

/// The reason for a set of shortages; `None` if it is empty.
pub(crate) fn shortage_reason(shortages: &[ResourceShortage]) -> Option<NoHostReason> {
    let describe = |one: &ResourceShortage| match one.most {
        Some(0) => format!("{} {}: none is free", one.amount, one.class),
        Some(most) => format!("{} {}: at most {most} is free", one.amount, one.class),
        None => format!(
            "{} {}: enough is free, but not in one allocation",
            one.amount, one.class
        ),
    };
    // Without numbers of free resources, which only operators see.
    let wanted = |one: &ResourceShortage| {
        let shortage = match one.most {
            Some(0) => "none is free",
            Some(_) => "too much for any host now",
            None => "enough is free, but not in one allocation",
        };
        format!("{} {}: {shortage}", one.amount, one.class)
    };
    let reason =
        |all: Vec<String>| format!("no host has enough free resources: {}", all.join(", "));
    (!shortages.is_empty()).then(|| {
        let operator = reason(shortages.iter().map(describe).collect());
        NoHostReason::new(operator, reason(shortages.iter().map(wanted).collect()))
    })
}

/// The reason for a set of causes.
pub(crate) fn causes_reason(causes: &[QueryDemand]) -> NoHostReason {
    let reason = |causes: &[String]| match causes {
        [] => "no host satisfies the request, even without any one of its demands".to_owned(),
        [cause] => format!("no host has {cause} in addition to the rest"),
        causes => format!(
            "no host meets all demands; leaving out any of these would give one: {}",
            causes.join(", ")
        ),
    };
    let of_operator: Vec<String> = causes.iter().map(ToString::to_string).collect();
    let mut of_user: Vec<String> = causes.iter().map(demand_of_user).collect();
    of_user.dedup();
    let hint = match causes {
        [] => " (berth provider tree shows the resources of this host)",
        _ => "",
    };
    NoHostReason::new(reason(&of_operator) + hint, reason(&of_user))
}

/// The demand without the UUIDs of aggregates and hosts, which only operators see.
fn demand_of_user(demand: &QueryDemand) -> String {
    match demand {
        QueryDemand::MemberOf(_, aggregates) if aggregates.starts_with('!') => {
            "a place outside of the aggregates for other requests".to_owned()
        }
        QueryDemand::MemberOf(..) => {
            "a place in the aggregates of its availability zone or project".to_owned()
        }
        QueryDemand::InTree(..) => "the name that it asks for".to_owned(),
        other => other.to_string(),
    }
}

/// Converts an error of Placement. A refusal because of an unknown name means that no host can satisfy the request.
pub(crate) fn from_placement(error: PlacementError) -> BootError {
    match unknown_name_reason(&error) {
        Some(why) => BootError::NoValidHost(why.into()),
        None => error.into(),
    }
}

/// The reason if Placement refused the query because it does not know a class or trait.
fn unknown_name_reason(error: &PlacementError) -> Option<String> {
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
        Some(format!("no host ever reported the {kind} {names}"))
    })
}

fn is_implied(causes: &[QueryDemand], next: &QueryDemand) -> bool {
    let QueryDemand::Resource(Some(group), ..) = next else {
        return false;
    };
    let of_it = |cause: &&QueryDemand| match cause {
        QueryDemand::LinkGroup(groups) => groups.contains(group.as_str()),
        cause => cause.group() == Some(group),
    };
    let mut causes = causes.iter().filter(of_it);
    causes.any(|cause| !matches!(cause, QueryDemand::Resource(..)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_that_no_host_has_are_named_with_the_most_that_is_free() {
        let one = |class: &str, amount, most| ResourceShortage {
            class: class.to_owned(),
            amount,
            most,
        };
        let shortages = [
            one("MEMORY_MB", 999_999, Some(65_024)),
            one("VCPU", 64, Some(16)),
            one("PGPU", 1, Some(0)),
            one("DISK_GB", 5, None),
        ];
        assert_eq!(
            shortage_reason(&shortages)
                .map(|it| it.to_string())
                .as_deref(),
            Some(
                "no host has enough free resources: 999999 MEMORY_MB: at most 65024 is free, 64 VCPU: at most 16 is free, \
                 1 PGPU: none is free, 5 DISK_GB: enough is free, but not in one allocation"
            )
        );
        assert_eq!(
            shortage_reason(&shortages)
                .map(|reason| BootError::NoValidHost(reason).user_message())
                .as_deref(),
            Some(
                "No valid host was found: no host has enough free resources: 999999 MEMORY_MB: too much for any host now, \
                 64 VCPU: too much for any host now, 1 PGPU: none is free, 5 DISK_GB: enough is free, but not in one \
                 allocation"
            )
        );
        assert_eq!(shortage_reason(&[]), None);
    }

    #[test]
    fn the_message_for_users_names_no_aggregate_and_no_provider() {
        const UUIDS: [&str; 2] = [
            "0d0f40a5-4d3c-4b3c-9a57-6f9c8e8e0001",
            "0d0f40a5-4d3c-4b3c-9a57-6f9c8e8e0002",
        ];
        let demands = [
            QueryDemand::MemberOf(None, UUIDS[0].to_owned()),
            QueryDemand::MemberOf(None, format!("in:{},{}", UUIDS[0], UUIDS[1])),
            QueryDemand::MemberOf(None, format!("!{}", UUIDS[0])),
            QueryDemand::MemberOf(None, format!("!in:{},{}", UUIDS[0], UUIDS[1])),
            QueryDemand::InTree(None, UUIDS[0].to_owned()),
        ];
        let (one, all) = (demands.chunks(1), demands.chunks(demands.len()));
        for causes in one.chain(all) {
            let error = BootError::NoValidHost(causes_reason(causes));
            let (operator, user) = (error.to_string(), error.user_message());
            assert!(operator.contains(UUIDS[0]), "{operator}");
            assert!(!UUIDS.iter().any(|uuid| user.contains(uuid)), "{user}");
        }
        let known = QueryDemand::Required(None, "CUSTOM_FAST".to_owned());
        let reason = causes_reason(&[demands[1].clone(), demands[0].clone(), known]);
        assert_eq!(
            BootError::NoValidHost(reason).user_message(),
            "No valid host was found: no host meets all demands; leaving out any of these would give one: a place in \
             the aggregates of its availability zone or project, trait CUSTOM_FAST"
        );
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
