//! The query string of GET /resource_providers as a value, and the parts that it shares with GET
//! /allocation_candidates.

use std::collections::BTreeSet;

use berth_http::schema::{is_uuid_like, normal_uuid};
use berth_http::{Fault, Microversion, QueryString};

use crate::microversions;

/// The conditions on a listed provider.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProviderFilters {
    pub(crate) name: Option<String>,
    pub(crate) uuid: Option<String>,
    /// In the tree of this provider.
    pub(crate) in_tree: Option<String>,
    /// Of each set, a member of at least one aggregate.
    pub(crate) member_of: Vec<BTreeSet<String>>,
    /// A member of none of these aggregates.
    pub(crate) forbidden_aggregates: BTreeSet<String>,
    /// Of each set, at least one trait.
    pub(crate) required: Vec<BTreeSet<String>>,
    /// None of these traits.
    pub(crate) forbidden_traits: BTreeSet<String>,
    /// Room for these amounts, by class.
    pub(crate) resources: Vec<(String, i64)>,
}

impl ProviderFilters {
    /// Reads the query string.
    pub(crate) fn parse(query: &QueryString, version: Microversion) -> Result<Self, Fault> {
        let text = |key| {
            query
                .last(key)
                .filter(|value| !value.is_empty())
                .map(str::to_owned)
        };
        let (member_of, forbidden_aggregates) = member_of(query, "", version)?;
        let traits = TraitSets::of_query(query, "required", version)?;
        Ok(Self {
            name: text("name"),
            uuid: text("uuid").map(as_stored),
            in_tree: text("in_tree").map(as_stored),
            member_of,
            forbidden_aggregates,
            required: traits.required,
            forbidden_traits: traits.forbidden,
            resources: match query.last("resources") {
                Some(value) => resources(value)?,
                None => Vec::new(),
            },
        })
    }
}

/// A UUID as it is stored; any other text unchanged.
pub(crate) fn as_stored(uuid: String) -> String {
    normal_uuid(&uuid).unwrap_or(uuid)
}

type TraitSetsQuery = (Vec<BTreeSet<String>>, BTreeSet<String>);

/// The aggregates that `member_of` with this suffix names: required sets, and forbidden ones.
pub(crate) fn member_of(
    query: &QueryString,
    suffix: &str,
    version: Microversion,
) -> Result<TraitSetsQuery, Fault> {
    let key = format!("member_of{suffix}");
    let values: Vec<&str> = query.all(&key).collect();
    if values.len() > 1 && !version.has(microversions::REPEATED_MEMBER_OF) {
        return Err(Fault::bad_request(format!(
            "Multiple {key} parameters are not supported"
        )));
    }
    let (mut required, mut forbidden) = (Vec::new(), BTreeSet::new());
    for value in values {
        match one_member_of(value)? {
            Membership::Required(set) => required.push(set),
            Membership::Forbidden(_) if !version.has(microversions::FORBIDDEN_AGGREGATES) => {
                return Err(Fault::bad_request(format!(
                    "Forbidden {key} parameters are not supported in the specified microversion"
                )));
            }
            Membership::Forbidden(set) => forbidden.extend(set),
        }
    }
    Ok((required, forbidden))
}

enum Membership {
    Required(BTreeSet<String>),
    Forbidden(BTreeSet<String>),
}

fn one_member_of(value: &str) -> Result<Membership, Fault> {
    let several = value
        .strip_prefix("!in:")
        .or_else(|| value.strip_prefix("in:"));
    if value.contains(',') && several.is_none() {
        return Err(Fault::bad_request(format!(
            "Multiple values for 'member_of' must be prefixed with the 'in:' or '!in:' keyword \
             using the valid microversion. Got: {value}"
        )));
    }
    let list = several.or_else(|| value.strip_prefix('!')).unwrap_or(value);
    if let Some(wrong) = list.split(',').find(|uuid| !is_uuid_like(uuid)) {
        return Err(Fault::bad_request(format!(
            "Invalid query string parameters: Expected 'member_of' parameter to contain valid \
             UUID(s). Got: {wrong}"
        )));
    }
    let set = list.split(',').map(|uuid| as_stored(uuid.to_owned()));
    let set: BTreeSet<String> = set.collect();
    Ok(if value.starts_with('!') {
        Membership::Forbidden(set)
    } else {
        Membership::Required(set)
    })
}

/// The required and forbidden traits of a query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TraitSets {
    /// Of each set, at least one.
    pub(crate) required: Vec<BTreeSet<String>>,
    pub(crate) forbidden: BTreeSet<String>,
}

impl TraitSets {
    /// All values of a key.
    pub(crate) fn of_query(
        query: &QueryString,
        key: &str,
        version: Microversion,
    ) -> Result<Self, Fault> {
        let mut values: Vec<&str> = query.all(key).collect();
        if !version.has(microversions::ANY_TRAITS) {
            // Before 1.39 only the last one counts.
            values = values.pop().into_iter().collect();
        }
        let mut sets = Self::default();
        for value in values {
            sets.add(value, version)?;
        }
        Ok(sets)
    }

    pub(crate) fn add(&mut self, value: &str, version: Microversion) -> Result<(), Fault> {
        match value.strip_prefix("in:") {
            Some(list) => self.required.push(any_of(value, list, version)?),
            None => all_of(value, version, &mut self.required, &mut self.forbidden)?,
        }
        Ok(())
    }
}

fn any_of(value: &str, list: &str, version: Microversion) -> Result<BTreeSet<String>, Fault> {
    let refuse = |text: String| {
        Err(Fault::bad_request(format!(
            "Invalid query string parameters: {text}"
        )))
    };
    if !version.has(microversions::ANY_TRAITS) {
        return refuse(format!(
            "The format 'in:HW_CPU_X86_VMX,CUSTOM_MAGIC' only supported since microversion 1.39. \
             Got: {value}"
        ));
    }
    let traits: BTreeSet<String> = list.split(',').map(|name| name.trim().to_owned()).collect();
    if traits.contains("") {
        return refuse(format!(
            "Expected 'required' parameter value of the form: in:HW_CPU_X86_VMX,CUSTOM_MAGIC. \
             Got an empty trait in: {value}"
        ));
    }
    if traits.iter().any(|name| name.starts_with('!')) {
        return refuse(format!(
            "The format 'in:HW_CPU_X86_VMX,CUSTOM_MAGIC' does not support forbidden traits. \
             Got: {value}"
        ));
    }
    Ok(traits)
}

fn all_of(
    value: &str,
    version: Microversion,
    required: &mut Vec<BTreeSet<String>>,
    forbidden: &mut BTreeSet<String>,
) -> Result<(), Fault> {
    let may_forbid = version.has(microversions::FORBIDDEN_TRAITS);
    let refuse = |form: &str, got: String| {
        Err(Fault::bad_request(format!(
            "Invalid query string parameters: Expected 'required' parameter value of the form: \
             {form}. {got}"
        )))
    };
    for name in value.split(',').map(str::trim) {
        // Any number of marks counts as one.
        let bare = name.trim_start_matches('!');
        if bare.is_empty() {
            let form = if may_forbid {
                "HW_CPU_X86_VMX,!CUSTOM_MAGIC"
            } else {
                "HW_CPU_X86_VMX,CUSTOM_MAGIC"
            };
            return refuse(form, format!("Got an empty trait in: {value}"));
        }
        if bare == name {
            required.push(BTreeSet::from([name.to_owned()]));
        } else if may_forbid {
            forbidden.insert(bare.to_owned());
        } else {
            return refuse("HW_CPU_X86_VMX,CUSTOM_MAGIC", format!("Got: {value}"));
        }
    }
    Ok(())
}

/// `CLASS:AMOUNT,CLASS:AMOUNT`.
pub(crate) fn resources(value: &str) -> Result<Vec<(String, i64)>, Fault> {
    let badly_formed = |got: &str| {
        Fault::bad_request(format!(
            "Badly formed resources parameter. Expected resources query string parameter in \
             form: ?resources=VCPU:2,MEMORY_MB:1024. Got: {got}."
        ))
    };
    if value.trim().is_empty() {
        return Err(badly_formed("empty string"));
    }
    let mut wanted: Vec<(String, i64)> = Vec::new();
    for part in value.split(',') {
        let mut pieces = part.split(':');
        let (Some(class), Some(amount), None) = (pieces.next(), pieces.next(), pieces.next())
        else {
            return Err(badly_formed(part));
        };
        let Ok(number) = amount.trim().parse::<i64>() else {
            return Err(Fault::bad_request(format!(
                "Requested resource {class} expected positive integer amount. Got: {amount}."
            )));
        };
        if number < 1 {
            return Err(Fault::bad_request(format!(
                "Requested resource {class} requires amount >= 1. Got: {number}."
            )));
        }
        wanted.retain(|(known, _)| known != class);
        wanted.push((class.to_owned(), number));
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(query: &str, minor: u16) -> Result<ProviderFilters, Fault> {
        ProviderFilters::parse(&QueryString::parse(query)?, Microversion::new(1, minor))
    }

    #[test]
    fn before_any_traits_only_the_last_required_counts() {
        let filters = parse("required=A&required=B", 38).unwrap();
        assert_eq!(filters.required, [BTreeSet::from(["B".to_owned()])]);
        let filters = parse("required=A&required=in:B,C", 39).unwrap();
        assert_eq!(filters.required.len(), 2);
    }

    #[test]
    fn any_number_of_marks_forbids() {
        let filters = parse("required=!!!A, B", 22).unwrap();
        assert_eq!(filters.forbidden_traits, BTreeSet::from(["A".to_owned()]));
        assert_eq!(filters.required, [BTreeSet::from(["B".to_owned()])]);
    }

    #[test]
    fn of_a_class_named_twice_the_last_amount_counts() {
        let filters = parse("resources=VCPU:1,VGPU:2,VCPU:3", 39).unwrap();
        let expected = [("VGPU".to_owned(), 2), ("VCPU".to_owned(), 3)];
        assert_eq!(filters.resources, expected);
    }

    proptest! {
        #[test]
        fn no_query_string_panics(text in ".{0,60}", minor in 0..=39_u16) {
            for key in ["required", "member_of", "resources", "in_tree", "name"] {
                parse(&format!("{key}={text}"), minor).ok();
            }
            parse(&text, minor).ok();
        }
    }
}
