//! Rules for server groups' policies.

use super::options::Enabled;
use super::{Code, Finding, Kind, LintSeverity, Place, ServerGroupEntry};
use berth_model::nearest_name;

/// The filters and weighers that enforce each policy.
pub(super) const POLICIES: [(&str, SeenTo); 4] = [
    ("affinity", SeenTo::Filter("ServerGroupAffinityFilter")),
    (
        "anti-affinity",
        SeenTo::Filter("ServerGroupAntiAffinityFilter"),
    ),
    (
        "soft-affinity",
        SeenTo::Weigher("ServerGroupSoftAffinityWeigher"),
    ),
    (
        "soft-anti-affinity",
        SeenTo::Weigher("ServerGroupSoftAntiAffinityWeigher"),
    ),
];

/// How a policy is enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SeenTo {
    Filter(&'static str),
    Weigher(&'static str),
}

impl SeenTo {
    pub(super) fn is_enabled(self, enabled: &Enabled) -> bool {
        match self {
            Self::Filter(name) => enabled.has_filter(name),
            Self::Weigher(name) => enabled.has_weigher(name),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Filter(name) | Self::Weigher(name) => name,
        }
    }
}

pub(super) fn lint(group: &ServerGroupEntry, enabled: &Enabled, findings: &mut Vec<Finding>) {
    let place = Place::new(Kind::ServerGroup, &group.name, "policy");
    let policy = group.policy.as_str();
    let Some((_, seen_to)) = POLICIES.iter().find(|(name, _)| *name == policy) else {
        let names = POLICIES.map(|(name, _)| name);
        let text = format!("no filter or weigher sees to `{policy}`");
        let found = place.finds(LintSeverity::Error, Code::BadValue, text);
        let wanted = format!("one of {}", names.join(", "));
        findings.push(found.mend(nearest_name(policy, names).map_or(wanted, str::to_owned)));
        return;
    };
    if !seen_to.is_enabled(enabled) {
        let text = format!("{}, which would see to it, is not enabled", seen_to.name());
        findings.push(place.finds(LintSeverity::Warning, Code::Unread, text));
    }
}
