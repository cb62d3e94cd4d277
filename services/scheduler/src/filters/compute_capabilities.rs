//! `ComputeCapabilitiesFilter`: rejects hosts whose attributes do not match the flavor's extra specs.
//!
//! For example, the extra spec `capabilities:cpu_info:features = "<in> aes"` is checked as follows:
//!
//! ```text
//! path         cpu_info -> features            the key without its scope, split at ":"
//! host         cpu_info = {"model": "Nehalem", "features": ["aes", "mmx"]}
//! host value   ['aes', 'mmx']                  as text, in Python's form
//! requirement  <in> aes                        the text contains "aes"
//! verdict      pass
//! ```
//!
//! The first part of a path is an attribute of the host state. If there is no such attribute, or it is null, it is a key
//! of the host's `stats`. A host without a value at the path is rejected.
//!
//! The scope, which is the text before the first `:` of the key, decides which extra specs this filter checks:
//!
//! | key | checked |
//! |---|---|
//! | `capabilities:PATH` | for each host |
//! | `NAME`, without a scope | if `NAME` is an attribute of host states, or a stat of this host; otherwise the host passes |
//! | `hw:maxphysaddr_bits` | as `capabilities:cpu_info:maxphysaddr:bits` = `>= VALUE`; an extra spec with that key is ignored then |
//! | any other scope | never |

use super::{Filter, FilterPlan, Runs};
use crate::extra_specs::{Requirement, UnreadableRequirement};
use crate::host_state::{Attribute, AttributeValue, Capability, CapabilityRef, ConsideredHost};
use crate::options::SchedulerOptions;
use crate::reason::Reason;
use crate::request::RequestSpec;

pub(super) struct ComputeCapabilitiesFilter;

impl Filter for ComputeCapabilitiesFilter {
    fn name(&self) -> &'static str {
        "ComputeCapabilitiesFilter"
    }

    fn runs(&self) -> Runs {
        Runs::ONCE
    }

    fn plan<'a>(&'a self, request: &'a RequestSpec, _: &'a SchedulerOptions) -> FilterPlan<'a> {
        let mut requirements: Vec<CapabilityRequirement> = Vec::new();
        let bits = request.flavor.extra_specs.get("hw:maxphysaddr_bits");
        requirements.extend(bits.map(|bits| {
            CapabilityRequirement::new(BITS, &format!(">= {bits}"), Applicability::Always)
        }));
        for (key, text) in &request.flavor.extra_specs {
            match key.split_once(':') {
                Some(("capabilities", path)) if bits.is_none() || path != BITS => {
                    requirements.push(CapabilityRequirement::new(
                        path,
                        text,
                        Applicability::Always,
                    ));
                }
                Some(_) => {}
                None => requirements.push(CapabilityRequirement::new(
                    key,
                    text,
                    Applicability::IfKnown,
                )),
            }
        }
        if requirements.is_empty() {
            return FilterPlan::PassAll;
        }
        FilterPlan::each(move |host: &mut ConsideredHost| {
            requirements
                .iter()
                .try_for_each(|requirement| requirement.check(host))
        })
    }
}

/// The path that `hw:maxphysaddr_bits` checks.
const BITS: &str = "cpu_info:maxphysaddr:bits";

/// The requirement of one extra spec.
struct CapabilityRequirement {
    /// The complete path, for reasons.
    path: String,
    /// The attribute that the first part names; `None` if it can only be a stat.
    attribute: Option<Attribute>,
    /// The first part of the path.
    first: String,
    /// The other parts of the path.
    fields: Vec<String>,
    requirement: Requirement,
    applies: Applicability,
}

/// The hosts to which a requirement applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Applicability {
    Always,
    /// Hosts that have an attribute or a stat with the first part of the path.
    IfKnown,
}

impl CapabilityRequirement {
    fn new(path: &str, text: &str, applies: Applicability) -> Self {
        let mut parts = path.split(':');
        let first = parts.next().unwrap_or_default();
        Self {
            path: path.to_owned(),
            attribute: Attribute::named(first),
            first: first.to_owned(),
            fields: parts.map(str::to_owned).collect(),
            requirement: Requirement::new(text),
            applies,
        }
    }

    fn check(&self, host: &ConsideredHost) -> Result<(), Reason> {
        let is_known =
            || self.attribute.is_some() || host.state.stats.contains_key(self.first.as_str());
        if self.applies == Applicability::IfKnown && !is_known() {
            return Ok(());
        }
        // A path may name all of `stats` or `limits`; then the text of the whole map is compared.
        let found = self.find(host).map(AttributeValue::into_plain);
        let value = found.as_ref().and_then(AttributeValue::value);
        let Some(value) = value.filter(|value| *value != CapabilityRef::Null) else {
            return Err(Reason::CapabilityMissing {
                capability: self.path.clone(),
                requirement: self.requirement.text().to_owned(),
            });
        };
        match self.requirement.holds_for(value) {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.reason(value, None)),
            Err(error) => Err(self.reason(value, Some(error))),
        }
    }

    /// The host's value at the path; `None` if it has none.
    fn find<'a>(&self, host: &'a ConsideredHost) -> Option<AttributeValue<'a>> {
        let attribute = self.attribute.map(|attribute| attribute.of(host));
        let stat = || host.state.stats.get(self.first.as_str());
        let mut found = match attribute.filter(|value| !value.is_null()) {
            Some(found) => found,
            None => AttributeValue::Value(stat()?.view()),
        };
        for field in &self.fields {
            found = step(found, field)?;
        }
        Some(found)
    }

    fn reason(
        &self,
        value: CapabilityRef<'_>,
        unreadable: Option<UnreadableRequirement>,
    ) -> Reason {
        let capability = self.path.clone();
        let value = value.text().into_owned();
        let requirement = self.requirement.text().to_owned();
        match unreadable {
            None => Reason::CapabilityMismatch {
                capability,
                value,
                requirement,
            },
            Some(error) => Reason::CapabilityUnreadable {
                capability,
                value,
                requirement,
                unreadable: error.to_string(),
            },
        }
    }
}

/// The value of one field. If `found` is text, it is parsed as JSON first.
fn step<'a>(found: AttributeValue<'a>, field: &str) -> Option<AttributeValue<'a>> {
    let parsed = |text: &str| serde_json::from_str(text).ok().map(AttributeValue::made);
    let found = match found {
        AttributeValue::CpuInfo(info) => AttributeValue::Value(info.value()?.view()),
        AttributeValue::Value(CapabilityRef::Text(text)) => parsed(text)?,
        AttributeValue::Made(made) => match made.as_ref() {
            Capability::Text(text) => parsed(text)?,
            _ => AttributeValue::Made(made),
        },
        AttributeValue::Service(_) => return None,
        other => other,
    };
    found.get(field).filter(|value| !value.is_null())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::filters::testing::verdicts;
    use crate::options::SchedulerOptions;

    /// Each case has the verdicts for the three hosts; an empty text means that the host passes.
    #[test]
    fn hosts_with_other_capabilities_than_the_flavor_requires_are_rejected() {
        let cpu_info = json!({"model": "Nehalem", "features": ["aes", "mmx"], "n": null,
            "maxphysaddr": {"bits": 46}});
        let hosts = json!([
            {"free_ram_mb": 2048, "cpu_info": cpu_info.to_string(), "hv_version": 8_000_000,
             "stats": {"a": {"b": 1.5}, "flag": true, "text": "{\"c\": 2}"}},
            {"free_ram_mb": 1024, "cpu_info": "no JSON"},
            {"free_ram_mb": 512, "stats": {"hypervisor_version": "9", "free_ram_mb": "4096"}},
        ]);
        let (missing, no) = ("capability_missing", "capability_mismatch");
        let bad = "capability_unreadable";
        for (specs, expected) in [
            (json!({"capabilities:free_ram_mb": ">= 1024"}), ["", "", no]),
            (json!({"free_ram_mb": "s== 512"}), [no, no, ""]),
            (
                json!({"capabilities:cpu_info:features": "<in> aes"}),
                ["", missing, missing],
            ),
            (
                json!({"capabilities:cpu_info:features": "s== ['aes',"}),
                [no, missing, missing],
            ),
            (json!({"capabilities:cpu_info:n": "None"}), [missing; 3]),
            (json!({"capabilities:cpu_info:model:x": "1"}), [missing; 3]),
            (
                json!({"capabilities:cpu_info": "<in> JSON"}),
                [no, "", missing],
            ),
            (
                json!({"capabilities:hypervisor_version": ">= 9"}),
                ["", missing, ""],
            ),
            (json!({"hypervisor_version": "9"}), [no, missing, ""]),
            (json!({"capabilities:a:b": "1.5"}), ["", missing, missing]),
            (
                json!({"capabilities:stats:a:b": "1.5"}),
                ["", missing, missing],
            ),
            (
                json!({"capabilities:text:c": "= 2"}),
                ["", missing, missing],
            ),
            (json!({"capabilities:flag": "True"}), ["", missing, missing]),
            (json!({"flag": "= 1"}), [bad, "", ""]),
            (json!({"nosuch": "1"}), ["", "", ""]),
            (json!({"capabilities:nosuch": "1"}), [missing; 3]),
            (
                json!({"capabilities:service:disabled": "False"}),
                [missing; 3],
            ),
            (json!({"hw:maxphysaddr_bits": "46"}), ["", missing, missing]),
            (
                json!({"hw:maxphysaddr_bits": "47", "capabilities:cpu_info:maxphysaddr:bits": "46"}),
                [no, missing, missing],
            ),
            (
                json!({"Capabilities:free_ram_mb": "0", "hw:free_ram_mb": "0"}),
                ["", "", ""],
            ),
            (json!({"capabilities:free_ram_mb": ">= lots"}), [bad; 3]),
        ] {
            let request = json!({"flavor": {"extra_specs": specs}});
            let name = "ComputeCapabilitiesFilter";
            let got = verdicts(name, &SchedulerOptions::default(), &request, &hosts);
            assert_eq!(got, expected, "{specs}");
        }
    }
}
