//! Rules for images' properties.

use std::collections::BTreeSet;

use super::{ImageEntry, LintCode, LintFinding, LintSeverity, LintSubject, LintSubjectKind};
use berth_model::{
    GuestMachine, GuestMachineError, check_image_property, known_image_property, nearest_name,
};
use berth_scheduler_objects::request::ImageProperties;

/// How properties begin that Nova reads.
const PREFIXES: [&str; 4] = ["hw_", "img_", "os_", "trait"];

pub(super) fn lint(image: &ImageEntry, findings: &mut Vec<LintFinding>) {
    let before = findings.len();
    lint_each(image, findings);
    let wrong: BTreeSet<_> = findings[before..]
        .iter()
        .filter_map(|it| it.place.key.clone())
        .collect();
    lint_machine(image, &wrong, findings);
}

/// The first value that no host can build, without the properties that are wrong by themselves.
fn lint_machine(image: &ImageEntry, wrong: &BTreeSet<String>, findings: &mut Vec<LintFinding>) {
    let mut rest = image.properties.clone();
    rest.retain(|name, _| !wrong.contains(name));
    if let Err(GuestMachineError::Image { key, reason }) = GuestMachine::check_image(&rest)
        && let Some(value) = rest.get(&key)
    {
        let place = LintSubject::new(LintSubjectKind::Image, &image.name, &key);
        let text = format!("each request with it is refused: the value is `{value}`: {reason}");
        findings.push(place.finds(LintSeverity::Error, LintCode::BadValue, text));
    }
}

fn lint_each(image: &ImageEntry, findings: &mut Vec<LintFinding>) {
    for (name, value) in &image.properties {
        let place = LintSubject::new(LintSubjectKind::Image, &image.name, name);
        let one = [(name.clone(), value.clone())].into();
        if let Err(error) = ImageProperties::new(one) {
            let text = format!("each request with it is refused: the value is `{value}`");
            let found = place.finds(LintSeverity::Error, LintCode::BadValue, text);
            findings.push(found.hint(error.should_be));
        }
        let is_known = ImageProperties::names().any(|it| it == name)
            || name == "vmware_adaptertype"
            || name.starts_with("trait:")
            || name.starts_with("hw_numa_cpus.")
            || name.starts_with("hw_numa_mem.");
        let refused = check_image_property(name, value).err();
        if let Some(refused) = &refused
            && (is_known || known_image_property(name).is_some())
        {
            let text = format!("each request with it is refused: {refused}");
            findings.push(place.finds(LintSeverity::Error, LintCode::Unsupported, text));
            continue;
        }
        if is_known {
            continue;
        }
        let near = nearest_name(name, ImageProperties::names());
        let is_ours = PREFIXES.iter().any(|it| name.starts_with(it));
        let text = "no property has this name, so no filter reads it";
        match near {
            Some(near) => {
                let found = place.finds(LintSeverity::Error, LintCode::UnknownName, text);
                findings.push(found.hint(near));
            }
            None if refused.is_some() => {
                findings.push(place.finds(LintSeverity::Error, LintCode::UnknownName, text));
            }
            None if is_ours => {
                findings.push(place.finds(LintSeverity::Warning, LintCode::UnknownName, text));
            }
            // Users may define properties of their own.
            None => {}
        }
    }
}
