//! Rules for server groups' policies.

use berth_model::nearest_name;
use berth_scheduler::select::GROUP_POLICIES;

use super::enabled::EnabledFeatures;
use super::{LintCode, LintFinding, LintSeverity, LintSubject, LintSubjectKind, ServerGroupEntry};

pub(super) fn lint(
    group: &ServerGroupEntry,
    enabled: &EnabledFeatures,
    findings: &mut Vec<LintFinding>,
) {
    let place = LintSubject::new(LintSubjectKind::ServerGroup, &group.name, "policy");
    let policy = group.policy.as_str();
    let Some((_, _, enforcer)) = GROUP_POLICIES.iter().find(|(name, ..)| *name == policy) else {
        let names = GROUP_POLICIES.map(|(name, ..)| name);
        let text = format!("no filter or weigher sees to `{policy}`");
        let found = place.finds(LintSeverity::Error, LintCode::BadValue, text);
        let wanted = format!("one of {}", names.join(", "));
        findings.push(found.hint(nearest_name(policy, names).map_or(wanted, str::to_owned)));
        return;
    };
    if !enabled.has_filter(enforcer) && !enabled.has_weigher(enforcer) {
        let text = format!("{enforcer}, which would see to it, is not enabled");
        findings.push(place.finds(LintSeverity::Warning, LintCode::Unread, text));
    }
}
