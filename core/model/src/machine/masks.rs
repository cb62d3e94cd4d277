//! Parses which virtual CPUs are pinned: `hw:cpu_policy`, `hw:cpu_dedicated_mask` and `resources:PCPU`.

use std::collections::BTreeSet;

use super::extra_specs::{ExtraSpecs, FlavorExtraSpecError};
use crate::CpuSet;

const POLICY: &str = "hw:cpu_policy";
const MASK: &str = "hw:cpu_dedicated_mask";
const PCPU: &str = "resources:PCPU";
const VCPU: &str = "resources:VCPU";

#[derive(Clone, Copy, PartialEq, Eq)]
enum FlavorCpuPolicy {
    Shared,
    Dedicated,
    Mixed,
}

impl ExtraSpecs<'_> {
    pub(super) fn dedicated(self, vcpus: u32) -> Result<CpuSet, FlavorExtraSpecError> {
        let words = [
            ("shared", FlavorCpuPolicy::Shared),
            ("dedicated", FlavorCpuPolicy::Dedicated),
            ("mixed", FlavorCpuPolicy::Mixed),
        ];
        let policy = match self.word(POLICY, &words)? {
            Some(policy) => match [PCPU, VCPU].into_iter().find(|key| self.get(key).is_some()) {
                Some(key) => {
                    return Err(self.wrong(
                        key,
                        format!("{POLICY} already sets it; remove one of the two"),
                    ));
                }
                None => policy,
            },
            None => self.of_resources(vcpus)?,
        };
        if policy != FlavorCpuPolicy::Mixed && self.get(MASK).is_some() {
            return Err(self.wrong(MASK, format!("has an effect only with {POLICY}=mixed")));
        }
        match policy {
            FlavorCpuPolicy::Shared => Ok(CpuSet::default()),
            FlavorCpuPolicy::Dedicated => Ok(CpuSet::first(vcpus)),
            FlavorCpuPolicy::Mixed => self.mask(vcpus),
        }
    }

    /// The policy that `resources:PCPU` implies.
    fn of_resources(self, vcpus: u32) -> Result<FlavorCpuPolicy, FlavorExtraSpecError> {
        let Some(found) = self.get(PCPU) else {
            return Ok(FlavorCpuPolicy::Shared);
        };
        if self.get(VCPU).is_some() {
            return Err(self.wrong(
                PCPU,
                format!("{VCPU} is set, too; use {POLICY}=mixed instead"),
            ));
        }
        let isolated = self.get("hw:emulator_threads_policy") == Some("isolate");
        let needed = vcpus + u32::from(isolated);
        if found.parse() == Ok(needed) {
            Ok(FlavorCpuPolicy::Dedicated)
        } else {
            Err(self.wrong(
                PCPU,
                format!("a flavor of {vcpus} virtual CPUs takes {needed}"),
            ))
        }
    }

    fn mask(self, vcpus: u32) -> Result<CpuSet, FlavorExtraSpecError> {
        let Some(text) = self.get(MASK) else {
            return Err(self.wrong(
                POLICY,
                format!("mixed needs {MASK}: the virtual CPUs that are pinned, as 0-1, or ^0-1 for all others"),
            ));
        };
        let all = CpuSet::first(vcpus);
        let set = parsed(text, &all).ok_or_else(|| {
            self.wrong(
                MASK,
                "a mask consists of numbers, ranges (0-1) and exclusions (^0-1), separated by commas",
            )
        })?;
        let beyond = set.difference(&all);
        if !beyond.is_empty() {
            return Err(self.wrong(
                MASK,
                format!("the flavor has no virtual CPUs {beyond}; it has {all}"),
            ));
        }
        if set.is_empty() || set == all {
            return Err(self.wrong(
                MASK,
                format!(
                    "a mixed guest has pinned virtual CPUs and others; of {all} it pins {}",
                    if set.is_empty() { "none" } else { "all" }
                ),
            ));
        }
        Ok(set)
    }
}

/// Parses Nova's mask syntax: exclusions may be ranges, and a mask that begins with an exclusion starts from all CPUs.
fn parsed(text: &str, all: &CpuSet) -> Option<CpuSet> {
    let (mut taken, mut excluded) = (BTreeSet::new(), BTreeSet::new());
    for part in text.split(',').map(str::trim) {
        let (set, part) = match part.strip_prefix('^') {
            Some(part) => (&mut excluded, part),
            None => (&mut taken, part),
        };
        if part.is_empty() || part.contains('^') {
            return None;
        }
        set.extend(part.parse::<CpuSet>().ok()?.iter());
    }
    if text.starts_with('^') {
        taken.extend(all.iter());
    }
    Some(taken.difference(&excluded).copied().collect())
}
