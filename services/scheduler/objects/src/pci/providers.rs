//! The providers from which Placement allocated the devices of a request.

use super::Mappings;
use crate::request::{PciRequest, PciRequestOrigin};

/// The source of a request's allocation. Each device that a flavor requests is a request group of its own,
/// `REQUEST_ID-N`.
#[derive(Debug, Clone, Copy)]
pub(super) enum Providers<'a> {
    /// Placement does not track the devices.
    Any,
    /// The groups of a candidate whose suffix has this prefix.
    Groups(&'a Mappings, &'a str),
    /// A comma-separated list in the request itself, which was allocated before.
    Listed(&'a str),
}

impl<'a> Providers<'a> {
    pub(super) fn of(request: &'a PciRequest, mappings: &'a Mappings) -> Self {
        if request.origin == PciRequestOrigin::Port {
            return Self::Any;
        }
        if mappings.is_empty() {
            let listed = request.spec.first().and_then(|spec| spec.get("rp_uuids"));
            let listed = listed.filter(|listed| !listed.is_empty());
            return listed.map_or(Self::Any, |listed| Self::Listed(listed));
        }
        let id = request.request_id.as_deref();
        let id = id.filter(|id| mappings.keys().any(|suffix| suffix.starts_with(id)));
        id.map_or(Self::Any, |id| Self::Groups(mappings, id))
    }

    pub(super) fn is_any(self) -> bool {
        matches!(self, Self::Any)
    }

    /// The number of devices allocated from a provider.
    pub(super) fn devices_of(self, provider: &str) -> i64 {
        let times = match self {
            Self::Any => 0,
            Self::Groups(mappings, id) => {
                let groups = mappings.iter().filter(|(suffix, _)| suffix.starts_with(id));
                let firsts = groups.filter_map(|(_, providers)| providers.first());
                firsts.filter(|first| *first == provider).count()
            }
            Self::Listed(listed) => listed.split(',').filter(|it| *it == provider).count(),
        };
        i64::try_from(times).unwrap_or(i64::MAX)
    }
}
