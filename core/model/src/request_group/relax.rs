//! One demand less: the question that tells why there is no candidate. What has candidates without a demand fails by it.

use std::fmt;

use super::{GroupPolicy, GroupSuffix, RequestGroups};
use crate::{ResourceClass, Trait};

/// One thing that is asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Demand {
    /// An amount of a class; of the group with this suffix.
    Resource(Option<GroupSuffix>, ResourceClass, u64),
    /// A trait that must be there.
    Required(Option<GroupSuffix>, Trait),
    /// A trait that must not be there.
    Forbidden(Option<GroupSuffix>, Trait),
    /// A trait that the host's own provider must have.
    RootRequired(Trait),
    /// A trait that the host's own provider must not have.
    RootForbidden(Trait),
    /// That groups have providers of their own.
    Isolated,
    /// That it is one certain host.
    Host,
}

impl fmt::Display for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |suffix: &Option<GroupSuffix>| {
            let group = suffix.as_ref();
            group.map_or_else(String::new, |suffix| format!(" in group {suffix}"))
        };
        match self {
            Self::Resource(suffix, class, amount) => write!(f, "{amount} {class}{}", of(suffix)),
            Self::Required(suffix, name) => write!(f, "trait {name}{}", of(suffix)),
            Self::Forbidden(suffix, name) => write!(f, "no trait {name}{}", of(suffix)),
            Self::RootRequired(name) => write!(f, "trait {name} of the host"),
            Self::RootForbidden(name) if *name == Trait::COMPUTE_STATUS_DISABLED => {
                f.write_str("a host that is not disabled")
            }
            Self::RootForbidden(name) => write!(f, "a host without trait {name}"),
            Self::Isolated => f.write_str("a provider of its own for each group"),
            Self::Host => f.write_str("that very host"),
        }
    }
}

/// The question without one of its demands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relaxation {
    /// What is not asked for.
    pub without: Demand,
    /// What still is.
    pub groups: RequestGroups,
}

impl RequestGroups {
    /// The question without one demand at a time, those first that most often are the cause. Those that would ask for nothing
    /// are left out.
    #[must_use]
    pub fn relaxations(&self) -> Vec<Relaxation> {
        let mut demands = Vec::new();
        let unsuffixed = (None, &self.unsuffixed);
        let suffixed = self
            .suffixed
            .iter()
            .map(|(name, g)| (Some(name.clone()), g));
        let groups: Vec<_> = suffixed.chain(std::iter::once(unsuffixed)).collect();
        for (suffix, group) in &groups {
            let required = group.required.iter().cloned();
            demands.extend(required.map(|name| Demand::Required(suffix.clone(), name)));
            let forbidden = group.forbidden.iter().cloned();
            demands.extend(forbidden.map(|name| Demand::Forbidden(suffix.clone(), name)));
        }
        for (suffix, group) in &groups {
            let resources = group.resources.iter();
            demands.extend(
                resources.map(|(class, amount)| {
                    Demand::Resource(suffix.clone(), class.clone(), *amount)
                }),
            );
        }
        demands.extend(self.root_required.iter().cloned().map(Demand::RootRequired));
        demands.extend(
            self.root_forbidden
                .iter()
                .cloned()
                .map(Demand::RootForbidden),
        );
        if self.policy == Some(GroupPolicy::Isolate) {
            demands.push(Demand::Isolated);
        }
        if self.in_tree.is_some() {
            demands.push(Demand::Host);
        }
        let relaxed = demands.into_iter().map(|without| Relaxation {
            groups: self.without(&without),
            without,
        });
        relaxed.filter(|it| it.groups.check().is_ok()).collect()
    }

    fn without(&self, demand: &Demand) -> Self {
        let mut rest = self.clone();
        match demand {
            Demand::Resource(None, class, _) => {
                rest.unsuffixed.resources.remove(class);
            }
            Demand::Required(None, name) => {
                rest.unsuffixed.required.remove(name);
            }
            Demand::Forbidden(None, name) => {
                rest.unsuffixed.forbidden.remove(name);
            }
            Demand::Resource(Some(suffix), class, _) => {
                if let Some(group) = rest.suffixed.get_mut(suffix) {
                    group.resources.remove(class);
                }
            }
            Demand::Required(Some(suffix), name) => {
                if let Some(group) = rest.suffixed.get_mut(suffix) {
                    group.required.remove(name);
                }
            }
            Demand::Forbidden(Some(suffix), name) => {
                if let Some(group) = rest.suffixed.get_mut(suffix) {
                    group.forbidden.remove(name);
                }
            }
            Demand::RootRequired(name) => {
                rest.root_required.remove(name);
            }
            Demand::RootForbidden(name) => {
                rest.root_forbidden.remove(name);
            }
            Demand::Isolated => rest.policy = Some(GroupPolicy::None),
            Demand::Host => rest.in_tree = None,
        }
        // A group without resources cannot be asked for, whatever its traits.
        rest.suffixed.retain(|_, group| !group.resources.is_empty());
        rest
    }
}
