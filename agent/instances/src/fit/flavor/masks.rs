//! Which virtual CPUs are pinned.

use std::collections::BTreeSet;

use berth_virt::CpuSet;

use crate::fit::flavor::extra_specs::{ExtraSpecs, FlavorError};

const POLICY: &str = "hw:cpu_policy";
const MASK: &str = "hw:cpu_dedicated_mask";
const PCPU: &str = "resources:PCPU";
const VCPU: &str = "resources:VCPU";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Policy {
    Shared,
    Dedicated,
    Mixed,
}

impl ExtraSpecs<'_> {
    /// The virtual CPUs that are pinned.
    pub(super) fn dedicated(self, vcpus: u32) -> Result<CpuSet, FlavorError> {
        let words = [
            ("shared", Policy::Shared),
            ("dedicated", Policy::Dedicated),
            ("mixed", Policy::Mixed),
        ];
        let policy = match self.word(POLICY, &words)? {
            Some(policy) => match [PCPU, VCPU].into_iter().find(|key| self.get(key).is_some()) {
                Some(key) => {
                    return Err(self.wrong(
                        key,
                        format!("{POLICY} says it already; one of the two is enough"),
                    ));
                }
                None => policy,
            },
            None => self.of_resources(vcpus)?,
        };
        if policy != Policy::Mixed && self.get(MASK).is_some() {
            return Err(self.wrong(MASK, format!("means something only with {POLICY}=mixed")));
        }
        match policy {
            Policy::Shared => Ok(CpuSet::default()),
            Policy::Dedicated => Ok(CpuSet::first(vcpus)),
            Policy::Mixed => self.mask(vcpus),
        }
    }

    /// The policy that `resources:PCPU` stands for.
    fn of_resources(self, vcpus: u32) -> Result<Policy, FlavorError> {
        let Some(found) = self.get(PCPU) else {
            return Ok(Policy::Shared);
        };
        if self.get(VCPU).is_some() {
            return Err(self.wrong(
                PCPU,
                format!("{VCPU} is there too; {POLICY}=mixed is for that"),
            ));
        }
        let isolated = self.get("hw:emulator_threads_policy") == Some("isolate");
        let needed = vcpus + u32::from(isolated);
        if found.parse() == Ok(needed) {
            Ok(Policy::Dedicated)
        } else {
            Err(self.wrong(
                PCPU,
                format!("a flavor of {vcpus} virtual CPUs takes {needed}"),
            ))
        }
    }

    fn mask(self, vcpus: u32) -> Result<CpuSet, FlavorError> {
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
                "numbers, ranges (0-1) and exclusions (^0-1), separated by commas, are a mask",
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

/// Nova's masks, in which exclusions may be ranges, and one that begins with an exclusion is of all.
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
