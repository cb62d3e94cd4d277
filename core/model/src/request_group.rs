//! Request groups: the query of GET /allocation_candidates for one instance (microversion 1.36).
//!
//! One group has no suffix: its resources may come from any provider of a tree. Each further group has a suffix, and one provider must
//! have all of its resources; the answer names that provider (`mappings`). Groups come from the flavor and the image
//! ([`RequestGroups::of_flavor`], Nova's rules) and from a device profile ([`RequestGroups::with_device_profile`]). The groups of a
//! device profile have the suffix `device_profile_<N>`, so the ARQs of group N are bound to the provider in the claim.
//!
//! Callers: the conductor (a guest's boot), the scheduler (pre-filters add to the root's traits).

mod flavor;
mod query;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::{DeviceProfileGroups, ProviderUuid, ResourceClass, Trait, TraitDemand};

pub use flavor::{Flavor, FlavorError, FlavorGroups, SkippedSpec};

/// Placement would refuse the request groups.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestGroupsError {
    /// The suffix has invalid characters or an invalid length.
    #[error(
        "{suffix:?} cannot name a request group: 1 to 64 of a-z, A-Z, 0-9, _ and - are allowed"
    )]
    Suffix {
        /// The invalid suffix, at most 80 characters of it.
        suffix: String,
    },
    /// Two groups have the same suffix.
    #[error(
        "request group {suffix} is given twice: the flavor uses the suffix of a group of the device profile"
    )]
    Twice {
        /// The suffix that both groups have.
        suffix: GroupSuffix,
    },
    /// A device profile asks for a class that Placement does not have.
    #[error(
        "group {group} of the device profile asks for {class}, which is not a resource class of Placement (a whole GPU is PGPU, \
         a virtual one VGPU)"
    )]
    Class {
        /// The group, by its place in the profile.
        group: usize,
        /// The class as the device profile writes it.
        class: String,
    },
    /// A group of a device profile has no resources. Cyborg accepts such profiles, but there would be no device to bind.
    #[error(
        "group {group} of the device profile has no resources, so there is no device to bind: create a profile whose group \
         has resources:CLASS=AMOUNT"
    )]
    NoDevice {
        /// The group, by its place in the profile.
        group: usize,
    },
    /// A group has traits and no resources.
    #[error(
        "request group {suffix} has traits and no resources: add resources{suffix}:CLASS=AMOUNT to the flavor"
    )]
    NoResources {
        /// The suffix of the group without resources.
        suffix: GroupSuffix,
    },
    /// There are several groups and no group policy.
    #[error(
        "the flavor has {groups} numbered request groups and no group_policy: set it to none (they may share a provider) or \
         isolate (they may not)"
    )]
    NoPolicy {
        /// The number of groups in the flavor.
        groups: usize,
    },
    /// There are no resources.
    #[error("the request has no resources: the flavor has no VCPU, memory, disk or other resource")]
    Nothing,
}

/// The suffix of a group: 1 to 64 of `[A-Za-z0-9_-]`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupSuffix(String);

impl GroupSuffix {
    /// Checks the text. Fails with [`RequestGroupsError::Suffix`].
    pub fn new(suffix: &str) -> Result<Self, RequestGroupsError> {
        let fits = (1..=64).contains(&suffix.len())
            && suffix
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        if fits {
            Ok(Self(suffix.to_owned()))
        } else {
            let suffix = suffix.chars().take(80).collect();
            Err(RequestGroupsError::Suffix { suffix })
        }
    }

    /// The suffix of a group of a device profile. Its number is the group id of the ARQs.
    #[must_use]
    pub fn of_device_profile(group: u32) -> Self {
        Self(format!("device_profile_{group}"))
    }

    /// The suffix of the group without resources that stands for a link group of a query, counted from 0.
    #[must_use]
    pub fn of_link_group(number: usize) -> Self {
        Self(format!("_link_group_{number}"))
    }

    /// The suffix as text, as it ends the parameters of a query.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for GroupSuffix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether groups with suffixes may share a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupPolicy {
    /// Two groups may get the same provider (`group_policy=none`).
    None,
    /// Each must have a provider of its own.
    Isolate,
}

impl GroupPolicy {
    /// The name in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Isolate => "isolate",
        }
    }
}

/// The demands of one group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestGroup {
    /// Amounts by class, each at least 1.
    pub resources: BTreeMap<ResourceClass, u64>,
    /// Traits that the provider of the group must have.
    pub required: BTreeSet<Trait>,
    /// Traits that the provider of the group must not have.
    pub forbidden: BTreeSet<Trait>,
}

impl RequestGroup {
    /// Whether it has neither resources nor traits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.required.is_empty() && self.forbidden.is_empty()
    }

    fn demand(&mut self, name: Trait, demand: TraitDemand) {
        match demand {
            TraitDemand::Required => self.required.insert(name),
            TraitDemand::Forbidden => self.forbidden.insert(name),
        };
    }
}

/// The whole query for one instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestGroups {
    unsuffixed: RequestGroup,
    suffixed: BTreeMap<GroupSuffix, RequestGroup>,
    /// Sets of request groups. The providers of a set must be below one link group.
    link_groups: Vec<BTreeSet<GroupSuffix>>,
    /// How many of the groups with a suffix come from the flavor.
    of_flavor: usize,
    policy: Option<GroupPolicy>,
    root_required: BTreeSet<Trait>,
    root_forbidden: BTreeSet<Trait>,
    in_tree: Option<ProviderUuid>,
    limit: Option<u32>,
}

/// The limit of candidates (Nova's `max_placement_results`).
pub const DEFAULT_CANDIDATES: u32 = 1000;

impl Default for RequestGroups {
    fn default() -> Self {
        Self {
            unsuffixed: RequestGroup::default(),
            suffixed: BTreeMap::new(),
            link_groups: Vec::new(),
            of_flavor: 0,
            policy: None,
            root_required: BTreeSet::new(),
            // A host that takes no new guests is never a candidate.
            root_forbidden: BTreeSet::from([Trait::COMPUTE_STATUS_DISABLED]),
            in_tree: None,
            limit: Some(DEFAULT_CANDIDATES),
        }
    }
}

impl RequestGroups {
    /// The group without a suffix: its resources may come from any provider of a tree.
    #[must_use]
    pub fn unsuffixed(&self) -> &RequestGroup {
        &self.unsuffixed
    }

    /// The groups with a suffix; one provider must have all resources of a group.
    pub fn suffixed(&self) -> impl Iterator<Item = (&GroupSuffix, &RequestGroup)> {
        self.suffixed.iter()
    }

    /// Sets of request groups. The providers of a set must be below one link group.
    #[must_use]
    pub fn link_groups(&self) -> &[BTreeSet<GroupSuffix>] {
        &self.link_groups
    }

    /// Whether groups with suffixes may share a provider, if given.
    #[must_use]
    pub fn policy(&self) -> Option<GroupPolicy> {
        self.policy
    }

    /// Traits that the tree's root must have.
    pub fn root_required(&self) -> impl Iterator<Item = &Trait> {
        self.root_required.iter()
    }

    /// Traits that the tree's root must not have.
    pub fn root_forbidden(&self) -> impl Iterator<Item = &Trait> {
        self.root_forbidden.iter()
    }

    /// The provider at the root of the tree that must have all resources (`in_tree`).
    #[must_use]
    pub fn in_tree(&self) -> Option<ProviderUuid> {
        self.in_tree
    }

    /// The limit of candidates; `None`: all candidates.
    #[must_use]
    pub fn limit(&self) -> Option<u32> {
        self.limit
    }

    /// Adds the groups of a device profile, group N with the suffix `device_profile_N`. Groups with the same
    /// [`crate::DeviceProfileGroup::same_link_group`] get devices of one link group. Fails if the profile has a
    /// class that Placement does not have, or the flavor uses one of the suffixes.
    pub fn with_device_profile(
        mut self,
        profile: &DeviceProfileGroups,
    ) -> Result<Self, RequestGroupsError> {
        let mut link_groups: BTreeMap<&str, BTreeSet<GroupSuffix>> = BTreeMap::new();
        for (index, asked) in profile.as_slice().iter().enumerate() {
            let mut group = RequestGroup::default();
            for (name, amount) in asked.resources() {
                let class = ResourceClass::new(name).map_err(|_| RequestGroupsError::Class {
                    group: index,
                    class: name.to_owned(),
                })?;
                *group.resources.entry(class).or_insert(0) += u64::from(amount);
            }
            if group.resources.is_empty() {
                return Err(RequestGroupsError::NoDevice { group: index });
            }
            for (name, demand) in asked.traits() {
                group.demand(name.clone(), demand);
            }
            let suffix = GroupSuffix(format!("device_profile_{index}"));
            if self.suffixed.contains_key(&suffix) {
                return Err(RequestGroupsError::Twice { suffix });
            }
            if let Some(label) = asked.same_link_group() {
                let of_label = link_groups.entry(label).or_default();
                of_label.insert(suffix.clone());
            }
            self.suffixed.insert(suffix, group);
        }
        for suffixes in link_groups.into_values() {
            let suffix = GroupSuffix::of_link_group(self.link_groups.len());
            if self.suffixed.contains_key(&suffix) {
                return Err(RequestGroupsError::Twice { suffix });
            }
            self.link_groups.push(suffixes);
        }
        // Only the flavor's groups count: a flavor with at most one group never needed a policy.
        let suffixed = self.suffixed.len() + self.link_groups.len();
        if self.policy.is_none() && suffixed >= 2 && self.of_flavor < 2 {
            self.policy = Some(GroupPolicy::None);
        }
        Ok(self)
    }

    /// Requires this trait of the root of the tree.
    #[must_use]
    pub fn with_root_trait(mut self, name: Trait) -> Self {
        self.root_required.insert(name);
        self
    }

    /// Restricts the query to the tree of one provider.
    #[must_use]
    pub fn in_tree_of(mut self, provider: ProviderUuid) -> Self {
        self.in_tree = Some(provider);
        self
    }

    /// Sets the limit of candidates; `None`: all candidates.
    #[must_use]
    pub fn limited(mut self, limit: Option<u32>) -> Self {
        self.limit = limit;
        self
    }

    /// Checks that Placement accepts the query. Fails with the first reason why Placement would refuse it.
    pub fn check(&self) -> Result<(), RequestGroupsError> {
        if let Some((suffix, _)) = self.suffixed.iter().find(|(_, g)| g.resources.is_empty()) {
            let suffix = suffix.clone();
            return Err(RequestGroupsError::NoResources { suffix });
        }
        if self.of_flavor >= 2 && self.policy.is_none() {
            let groups = self.of_flavor;
            return Err(RequestGroupsError::NoPolicy { groups });
        }
        if self.unsuffixed.resources.is_empty() && self.suffixed.is_empty() {
            return Err(RequestGroupsError::Nothing);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
