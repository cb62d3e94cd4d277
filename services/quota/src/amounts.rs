//! [`QuotaAmounts`]: what servers use, and how many more of them the limits of a project allow. Pure.

use std::collections::BTreeMap;
use std::fmt::Display;

use berth_wire::guest::FlavorBody;
use serde::Serialize;

use crate::limits::{QuotaLimit, QuotaLimits, QuotaResource};

/// What a guest claims, by the name of the resource class (`VGPU`).
pub type GuestResources = BTreeMap<String, u64>;

/// Amounts that a project uses or requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct QuotaAmounts {
    pub instances: u64,
    /// Processors of all of them.
    pub cores: u64,
    /// Memory of all of them in MiB.
    pub ram_mb: u64,
    /// What all of them claim, by resource class. No part of a quota hook's question.
    #[serde(skip)]
    pub classes: GuestResources,
}

impl QuotaAmounts {
    /// The amounts of one server. Without `resources`, the classes that every flavor has are counted.
    #[must_use]
    pub fn of_server(flavor: &FlavorBody, resources: Option<GuestResources>) -> Self {
        let plain = || {
            let disk_gb = flavor
                .disk_gb
                .saturating_add(flavor.ephemeral_gb)
                .saturating_add(flavor.swap_mb.div_ceil(1024));
            let all = [
                ("VCPU", flavor.vcpus.into()),
                ("MEMORY_MB", flavor.ram_mb),
                ("DISK_GB", disk_gb),
            ];
            all.map(|(class, amount)| (class.to_owned(), amount)).into()
        };
        Self {
            instances: 1,
            cores: flavor.vcpus.into(),
            ram_mb: flavor.ram_mb,
            classes: resources.unwrap_or_else(plain),
        }
    }

    /// Adds the amounts of `count` servers.
    pub fn add(&mut self, count: u64, each: &Self) {
        let sum = |known: u64, each: u64| known.saturating_add(each.saturating_mul(count));
        self.instances = sum(self.instances, each.instances);
        self.cores = sum(self.cores, each.cores);
        self.ram_mb = sum(self.ram_mb, each.ram_mb);
        for (class, amount) in &each.classes {
            let known = self.classes.entry(class.clone()).or_default();
            *known = sum(*known, *amount);
        }
    }

    /// The amount of a resource that servers use; 0 for all others.
    #[must_use]
    pub fn of(&self, resource: &QuotaResource) -> u64 {
        match resource {
            QuotaResource::Instances => self.instances,
            QuotaResource::Cores => self.cores,
            QuotaResource::Ram => self.ram_mb,
            QuotaResource::Class(class) => self
                .classes
                .get(class.as_str())
                .copied()
                .unwrap_or_default(),
            QuotaResource::MetadataItems
            | QuotaResource::KeyPairs
            | QuotaResource::ServerGroups
            | QuotaResource::ServerGroupMembers => 0,
        }
    }
}

/// A limit that a request would exceed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExceededQuota {
    pub resource: QuotaResource,
    /// The requested amount, or the least and the largest one.
    pub requested: String,
    pub used: u64,
    pub limit: u64,
}

/// The request exceeds limits of the project.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "Quota exceeded for {names}: Requested {}, but already used {} of {} {names}",
    list(.0, |it| it.requested.clone()), list(.0, |it| it.used), list(.0, |it| it.limit), names = list(.0, |it| it.resource.name())
)]
pub struct QuotaExceeded(pub Vec<ExceededQuota>);

fn list<T: Display>(all: &[ExceededQuota], of: impl Fn(&ExceededQuota) -> T) -> String {
    let all: Vec<String> = all.iter().map(|one| of(one).to_string()).collect();
    all.join(", ")
}

/// How many servers a request gets: as many as the limits allow, up to `most`.
///
/// Errors: there is room for fewer than `least`, which Nova refuses too.
pub fn server_count(
    limits: &QuotaLimits,
    used: &QuotaAmounts,
    each: &QuotaAmounts,
    (least, most): (u32, u32),
) -> Result<u32, QuotaExceeded> {
    let room = |resource: &QuotaResource, limit: QuotaLimit| match (limit, each.of(resource)) {
        (QuotaLimit::Unlimited, _) | (_, 0) => u64::MAX,
        (QuotaLimit::AtMost(limit), amount) => limit.saturating_sub(used.of(resource)) / amount,
    };
    let rooms = limits
        .of_servers()
        .map(|(resource, limit)| room(&resource, limit));
    let allowed = rooms.min().unwrap_or(u64::MAX);
    if allowed >= u64::from(least) {
        return Ok(u32::try_from(allowed).unwrap_or(u32::MAX).min(most));
    }
    let exceeded = limits.of_servers().filter_map(|(resource, limit)| {
        let QuotaLimit::AtMost(limit) = limit else {
            return None;
        };
        if room(&resource, QuotaLimit::AtMost(limit)) >= u64::from(most) {
            return None;
        }
        let requested = match resource {
            QuotaResource::Instances if least != most => format!("{least}-{most}"),
            _ => each.of(&resource).saturating_mul(most.into()).to_string(),
        };
        Some(ExceededQuota {
            requested,
            used: used.of(&resource),
            limit,
            resource,
        })
    });
    Err(QuotaExceeded(exceeded.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(instances: u64, cores: u64, vgpus: u64) -> QuotaAmounts {
        QuotaAmounts {
            instances,
            cores,
            ram_mb: 512 * instances,
            classes: [("VGPU".to_owned(), vgpus)].into(),
        }
    }

    fn limits() -> QuotaLimits {
        let vgpu = "class:VGPU".parse().unwrap();
        QuotaLimits::default().with(vgpu, QuotaLimit::AtMost(2))
    }

    #[test]
    fn as_many_servers_are_made_as_there_is_room_for_between_least_and_most() {
        for (used, each, asked, count) in [
            (amounts(0, 0, 0), amounts(1, 1, 0), (1, 10), 10),
            (amounts(7, 7, 0), amounts(1, 1, 0), (1, 10), 3),
            (amounts(0, 0, 0), amounts(1, 8, 0), (2, 5), 2),
            (amounts(0, 0, 1), amounts(1, 1, 1), (1, 5), 1),
            // More is used than allowed, but not more is requested of it.
            (amounts(3, 3, 9), amounts(1, 1, 0), (1, 1), 1),
        ] {
            let found = server_count(&limits(), &used, &each, asked);
            assert_eq!(found, Ok(count), "{used:?} {each:?}");
        }
    }

    #[test]
    fn a_refusal_is_novas_sentence_and_names_each_exceeded_limit() {
        let refused = server_count(&limits(), &amounts(10, 16, 0), &amounts(1, 8, 0), (1, 1));
        assert_eq!(
            refused.unwrap_err().to_string(),
            "Quota exceeded for cores, instances: Requested 8, 1, but already used 16, 10 of 20, 10 cores, instances"
        );
        let refused = server_count(&limits(), &amounts(0, 0, 2), &amounts(1, 1, 1), (1, 3));
        assert_eq!(
            refused.unwrap_err().to_string(),
            "Quota exceeded for class:VGPU: Requested 3, but already used 2 of 2 class:VGPU"
        );
        let refused = server_count(&limits(), &amounts(9, 0, 0), &amounts(1, 1, 0), (2, 3));
        assert_eq!(
            refused.unwrap_err().to_string(),
            "Quota exceeded for instances: Requested 2-3, but already used 9 of 10 instances"
        );
    }
}
