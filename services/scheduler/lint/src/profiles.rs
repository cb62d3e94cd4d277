//! Rules for device profiles' groups.

use berth_model::{DeviceProfileGroup, SAME_LINK_GROUP_KEY};

use super::{
    DeviceProfileEntry, LintCode, LintFinding, LintSeverity, LintSubject, LintSubjectKind,
};
use berth_model::nearest_name;
use berth_scheduler_objects::numbers::int;

/// Classes with one unit per provider: each card is a provider, and one provider serves a group. An FPGA may have
/// several.
pub(super) const ONE_UNIT: [&str; 2] = ["PGPU", "CUSTOM_PCI"];

/// The scopes of keys.
const SCOPES: [&str; 3] = ["resources", "trait", "accel"];

pub(super) fn lint(profile: &DeviceProfileEntry, findings: &mut Vec<LintFinding>) {
    if profile.groups.is_empty() {
        let place = LintSubject {
            kind: LintSubjectKind::DeviceProfile,
            name: profile.name.clone(),
            key: None,
        };
        let text = "it has no group, so it asks for no device";
        findings.push(place.finds(LintSeverity::Error, LintCode::BadValue, text));
    }
    for (number, group) in profile.groups.iter().enumerate() {
        let place = |key: &str| {
            let key = match key {
                "" => format!("groups[{number}]"),
                key => format!("groups[{number}], {key}"),
            };
            LintSubject::new(LintSubjectKind::DeviceProfile, &profile.name, &key)
        };
        let before = findings.len();
        for (key, value) in &group.entries {
            findings.extend(entry(&place(key), key, value));
        }
        let pairs = group
            .entries
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()));
        if findings.len() > before {
            continue;
        }
        if let Err(error) = DeviceProfileGroup::new(pairs) {
            let text = format!("the accelerator service refuses it: {error}");
            findings.push(place("").finds(LintSeverity::Error, LintCode::BadValue, text));
        } else if !group
            .entries
            .keys()
            .any(|key| key.starts_with("resources:"))
        {
            let text = "it asks for no resource, so for no device";
            let found = place("").finds(LintSeverity::Error, LintCode::BadValue, text);
            findings.push(found.hint("resources:CLASS with 1"));
        }
    }
}

fn entry(place: &LintSubject, key: &str, value: &str) -> Option<LintFinding> {
    let (scope, name) = key.split_once(':').unwrap_or((key, ""));
    if !SCOPES.contains(&scope) {
        let text = "keys begin with resources:, trait: or accel:";
        let found = place.finds(LintSeverity::Error, LintCode::UnknownName, text);
        let near = nearest_name(scope, SCOPES).map(|near| format!("{near}:{name}"));
        return Some(found.near(near.as_deref()));
    }
    if scope == "accel" {
        // Other names of this scope are free.
        let near = nearest_name(key, [SAME_LINK_GROUP_KEY]).filter(|near| *near != key)?;
        let text = "nothing reads this name, so the devices may be of different link groups";
        let found = place.finds(LintSeverity::Warning, LintCode::UnknownName, text);
        return Some(found.hint(near));
    }
    let units = int(value).filter(|_| scope == "resources")?;
    if units < 2 || !ONE_UNIT.contains(&name.trim()) {
        return None;
    }
    let text = format!(
        "it asks for {units} units of one provider, and each provider of {name} has one, so no host has them"
    );
    let found = place.finds(LintSeverity::Error, LintCode::OneUnitDevices, text);
    Some(found.hint(format!("{units} groups with {key}=1 each")))
}
