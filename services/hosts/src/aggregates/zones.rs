//! Availability zones of hosts, and the zone changes that a change of aggregates causes. Pure.

use std::collections::BTreeSet;

use super::HostAggregateError;
use super::aggregate::HostAggregate;

/// A host with a changed availability zone.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ZoneChange {
    pub(super) host: String,
    pub(super) from: String,
    pub(super) to: String,
}

impl ZoneChange {
    /// The error for a host with guests.
    pub(super) fn into_error(self, guests: i64) -> HostAggregateError {
        HostAggregateError::HasGuests {
            host: self.host,
            from: self.from,
            to: self.to,
            guests,
        }
    }
}

/// The zones of a host, in the order of the aggregates.
pub(super) fn zones_of_host<'a>(
    all: &'a [HostAggregate],
    host: &'a str,
) -> impl Iterator<Item = &'a str> {
    let its = all
        .iter()
        .filter(move |aggregate| aggregate.hosts.contains(host));
    its.filter_map(HostAggregate::availability_zone)
}

/// The hosts with different zones in `before` and `after`.
pub(super) fn zone_changes(
    before: &[HostAggregate],
    after: &[HostAggregate],
    default: &str,
) -> Result<Vec<ZoneChange>, HostAggregateError> {
    let all = before.iter().chain(after);
    let hosts: BTreeSet<&String> = all.flat_map(|aggregate| &aggregate.hosts).collect();
    let mut moves = Vec::new();
    for host in hosts {
        let from = zones_of_host(before, host).next().unwrap_or(default);
        let to: BTreeSet<&str> = zones_of_host(after, host).collect();
        let mut to = to.into_iter();
        let one = to.next().unwrap_or(default);
        if let Some(other) = to.next() {
            return Err(HostAggregateError::TwoZones {
                host: host.clone(),
                one: one.to_owned(),
                other: other.to_owned(),
            });
        }
        if from != one {
            moves.push(ZoneChange {
                host: host.clone(),
                from: from.to_owned(),
                to: one.to_owned(),
            });
        }
    }
    Ok(moves)
}

#[cfg(test)]
mod tests {
    use berth_store::SqlTimestamp;
    use uuid::Uuid;

    use super::*;
    use crate::aggregates::AVAILABILITY_ZONE;

    fn aggregate(zone: Option<&str>, hosts: &[&str]) -> HostAggregate {
        let zone = zone.map(|zone| (AVAILABILITY_ZONE.to_owned(), zone.to_owned()));
        HostAggregate {
            id: 1,
            uuid: Uuid::nil(),
            name: "a".to_owned(),
            metadata: zone.into_iter().collect(),
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            created_at: SqlTimestamp::now(),
            updated_at: None,
        }
    }

    /// `a:nova>az1`, or `a:az1+az2` where there would be two.
    fn summary(before: &[HostAggregate], after: &[HostAggregate]) -> String {
        match zone_changes(before, after, "nova") {
            Ok(moves) => {
                let changes = moves
                    .iter()
                    .map(|it| format!("{}:{}>{}", it.host, it.from, it.to));
                changes.collect::<Vec<_>>().join(" ")
            }
            Err(HostAggregateError::TwoZones { host, one, other }) => {
                format!("{host}:{one}+{other}")
            }
            Err(other) => other.to_string(),
        }
    }

    #[test]
    fn a_host_is_in_one_zone_and_goes_from_one_to_another() {
        let none = || aggregate(None, &["a", "b"]);
        let az = |zone, hosts: &[&str]| aggregate(Some(zone), hosts);
        for (before, after, expected) in [
            (vec![], vec![none()], ""),
            (vec![none()], vec![none(), az("az1", &["a"])], "a:nova>az1"),
            (
                vec![az("az1", &["a", "b"])],
                vec![az("az2", &["a", "b"])],
                "a:az1>az2 b:az1>az2",
            ),
            (vec![az("az1", &["a"])], vec![az("az1", &[])], "a:az1>nova"),
            (vec![az("az1", &["a"])], vec![none()], "a:az1>nova"),
            (vec![none()], vec![az("nova", &["a", "b"])], ""),
            (
                vec![az("az1", &["a"])],
                vec![az("az1", &["a"]), az("az1", &["a"])],
                "",
            ),
            (
                vec![az("az1", &["a"])],
                vec![az("az1", &["a"]), az("az2", &["a"])],
                "a:az1+az2",
            ),
            (
                vec![az("az1", &["a"])],
                vec![az("az1", &["a"]), az("az2", &["b"])],
                "b:nova>az2",
            ),
        ] {
            assert_eq!(summary(&before, &after), expected);
        }
    }
}
