//! Rules for aggregates' metadata.

use super::enabled::EnabledFeatures;
use super::extra_specs::demanded;
use super::{
    AggregateEntry, Catalogue, LintCode, LintFinding, LintSeverity, LintSubject, LintSubjectKind,
};
use berth_model::nearest_name;
use berth_scheduler::weighers;
use berth_scheduler_objects::numbers::{float, int};
use berth_scheduler_objects::request::ImageProperties;

/// The keys that filters read, with the filters and the type of the values.
const KEYS: [(&str, &[&str], MetadataValues); 8] = [
    ("availability_zone", &[], MetadataValues::Zone),
    (
        "cpu_allocation_ratio",
        &["AggregateCoreFilter"],
        MetadataValues::Number,
    ),
    (
        "disk_allocation_ratio",
        &["AggregateDiskFilter"],
        MetadataValues::Number,
    ),
    (
        "ram_allocation_ratio",
        &["AggregateRamFilter"],
        MetadataValues::Number,
    ),
    (
        "filter_tenant_id",
        &["AggregateMultiTenancyIsolation"],
        MetadataValues::Any,
    ),
    (
        "instance_type",
        &["AggregateTypeAffinityFilter"],
        MetadataValues::Any,
    ),
    (
        "max_instances_per_host",
        &["AggregateNumInstancesFilter"],
        MetadataValues::Whole,
    ),
    (
        "max_io_ops_per_host",
        &["AggregateIoOpsFilter"],
        MetadataValues::Whole,
    ),
];

const OF_IMAGES: &str = "AggregateImagePropertiesIsolation";
const OF_FLAVORS: &str = "AggregateInstanceExtraSpecsFilter";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MetadataValues {
    Any,
    Number,
    Multiplier,
    Whole,
    Zone,
}

pub(super) fn lint(
    aggregate: &AggregateEntry,
    catalogue: &Catalogue,
    enabled: &EnabledFeatures,
    findings: &mut Vec<LintFinding>,
) {
    for (key, value) in &aggregate.metadata {
        let place = LintSubject::new(LintSubjectKind::Aggregate, &aggregate.name, key);
        let known = KEYS.iter().find(|(name, ..)| name == key);
        let multiplier = weighers::ALL
            .iter()
            .find(|one| one.multiplier().key() == key);
        let is_tenant = key.starts_with("filter_tenant_id");
        if let Some((_, filters, values)) = known.or_else(|| {
            KEYS.iter()
                .find(|it| it.0 == "filter_tenant_id")
                .filter(|_| is_tenant)
        }) {
            findings.extend(void(&place, value, *values));
            let is_read = filters.is_empty()
                || filters.iter().any(|filter| enabled.has_filter(filter))
                || is_tenant && enabled.limits_tenants;
            findings.extend(unread(&place, is_read, &filters.join(" or ")));
        } else if let Some(weigher) = multiplier {
            findings.extend(void(&place, value, MetadataValues::Multiplier));
            findings.extend(unread(
                &place,
                enabled.has_weigher(weigher.name()),
                weigher.name(),
            ));
        } else if is_of_plugin(key, catalogue) {
            findings.extend(void(&place, value, MetadataValues::Multiplier));
        } else {
            findings.extend(of_requests(&place, key, catalogue, enabled));
        }
    }
}

/// Whether the key overrides a plugin's multiplier.
fn is_of_plugin(key: &str, catalogue: &Catalogue) -> bool {
    let name = key.strip_suffix("_weight_multiplier");
    let mut weighers = catalogue.plugins.iter().filter(|it| it.kind.is_weigher());
    name.is_some_and(|name| weighers.any(|it| it.name == name))
}

/// A key that images or flavors may request.
fn of_requests(
    place: &LintSubject,
    key: &str,
    catalogue: &Catalogue,
    enabled: &EnabledFeatures,
) -> Option<LintFinding> {
    let of_image = |name: &str| ImageProperties::names().any(|it| it == name);
    let property = match &enabled.image_namespace {
        Some(prefix) => key.strip_prefix(prefix.as_str()),
        None => Some(key),
    };
    let is_property = enabled.has_filter(OF_IMAGES) && property.is_some_and(of_image);
    let is_demanded = demanded(catalogue).any(|it| it == key);
    if is_property || is_demanded && enabled.has_filter(OF_FLAVORS) {
        return None;
    }
    if key.starts_with("trait:") {
        return unread(
            place,
            enabled.isolates_aggregates,
            "[scheduler] enable_isolated_aggregate_filtering",
        );
    }
    match is_demanded {
        true => unread(place, false, OF_FLAVORS),
        false => Some(unknown(place, key)),
    }
}

fn unknown(place: &LintSubject, key: &str) -> LintFinding {
    let multipliers = weighers::ALL.iter().map(|one| one.multiplier().key());
    let names = KEYS.iter().map(|(name, ..)| *name).chain(multipliers);
    if let Some(near) = nearest_name(key, names) {
        let text = "no key of this name is ever read";
        return place
            .finds(LintSeverity::Error, LintCode::UnknownName, text)
            .hint(near);
    }
    let property = ImageProperties::names().find(|it| *it == key);
    let text = match property {
        Some(_) => {
            format!("{OF_IMAGES}, which would read it, is not enabled, and no flavor asks for it")
        }
        None => "no filter or weigher reads it, and no flavor of the file asks for it".to_owned(),
    };
    place.finds(LintSeverity::Note, LintCode::Unread, text)
}

fn unread(place: &LintSubject, is_read: bool, by: &str) -> Option<LintFinding> {
    let text = || format!("{by}, which would read it, is not enabled");
    (!is_read).then(|| place.finds(LintSeverity::Warning, LintCode::Unread, text()))
}

/// A value because of which no aggregate overrides the option on its hosts.
fn void(place: &LintSubject, value: &str, values: MetadataValues) -> Option<LintFinding> {
    let wanted = match values {
        MetadataValues::Any => return None,
        MetadataValues::Zone if value.contains(',') => {
            let text = "a zone is one name: Placement's aggregates are compared with all of it";
            return Some(place.finds(LintSeverity::Warning, LintCode::BadValue, text));
        }
        MetadataValues::Zone => return None,
        MetadataValues::Number | MetadataValues::Multiplier => {
            float(value).is_none().then_some("a number")
        }
        MetadataValues::Whole => int(value).is_none().then_some("a whole number"),
    };
    if let Some(wanted) = wanted {
        let text =
            format!("`{value}` is no number, so on its hosts no aggregate overrides the option");
        return Some(
            place
                .finds(LintSeverity::Error, LintCode::VoidOverride, text)
                .hint(wanted),
        );
    }
    if float(value).is_none_or(f64::is_finite) {
        return None;
    }
    let (code, text) = match values {
        MetadataValues::Multiplier => (
            LintCode::VoidOverride,
            format!("`{value}` is not finite, so on its hosts the option may hold instead"),
        ),
        _ => (
            LintCode::BadValue,
            format!("`{value}` is read as a number, and makes no difference between hosts"),
        ),
    };
    let found = place.finds(LintSeverity::Warning, code, text);
    Some(found.hint("a finite number"))
}
