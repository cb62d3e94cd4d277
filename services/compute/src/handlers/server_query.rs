//! What the query of a list of servers asks for. What others may not filter by is passed over, as Nova does.

use std::collections::BTreeSet;

use berth_http::{Call, Fault};
use berth_store::Moment;
use regex::RegexBuilder;

use crate::fields::{boolean, bounded};
use crate::flavors::Order;
use crate::microversions::{CHANGES_BEFORE, LOCKED_REASON, STRICT, TAGS};
use crate::paging::check_keys;
use crate::router::Api;
use crate::servers::{Filters, ServerSortKey, Sorting, TagFilters};

/// What Nova lets such a query have.
const QUERY: [&str; 44] = [
    "limit",
    "marker",
    "sort_key",
    "sort_dir",
    "all_tenants",
    "name",
    "status",
    "flavor",
    "image",
    "reservation_id",
    "ip",
    "ip6",
    "changes-since",
    "changes-before",
    "tags",
    "tags-any",
    "not-tags",
    "not-tags-any",
    "locked",
    "deleted",
    "uuid",
    "host",
    "node",
    "hypervisor_hostname",
    "project_id",
    "tenant_id",
    "user_id",
    "vm_state",
    "task_state",
    "power_state",
    "availability_zone",
    "key_name",
    "description",
    "access_ip_v4",
    "access_ip_v6",
    "config_drive",
    "created_at",
    "hostname",
    "launch_index",
    "launched_at",
    "progress",
    "root_device_name",
    "terminated_at",
    "soft_deleted",
];

/// The largest program that a regular expression may become, in bytes.
const PROGRAM: usize = 1 << 20;

/// Whether servers of all projects are asked for.
pub(super) fn is_all_tenants(call: &Call) -> Result<bool, Fault> {
    match call.query.last("all_tenants") {
        None => Ok(false),
        Some("") => Ok(true),
        Some(text) => {
            boolean(text).ok_or_else(|| wrong("all_tenants", text, "it is neither true nor false"))
        }
    }
}

/// The list that is asked for.
pub(super) fn asked(api: &Api, call: &Call) -> Result<(Filters, Sorting), Fault> {
    if call.version.has(STRICT) {
        check_keys(call, &QUERY)?;
    }
    let text = |key: &str| call.query.last(key).map(str::to_owned);
    let mut filters = Filters {
        name: pattern(call, "name")?,
        statuses: call.query.all("status").map(str::to_uppercase).collect(),
        flavor: text("flavor").map(|flavor| last_part(&flavor)),
        image: text("image").map(|image| last_part(&image)),
        reservation_id: text("reservation_id"),
        changes_since: moment(call, "changes-since")?,
        has_address: ["ip", "ip6"]
            .iter()
            .any(|key| call.query.last(key).is_some_and(|ip| !ip.is_empty())),
        ..Filters::default()
    };
    if call.version.has(CHANGES_BEFORE) {
        filters.changes_before = moment(call, "changes-before")?;
    }
    if call.version.has(LOCKED_REASON) {
        filters.locked = flag(call, "locked")?;
    }
    if call.version.has(TAGS) {
        filters.tags = TagFilters {
            all: words(call, "tags"),
            any: words(call, "tags-any"),
            not_all: words(call, "not-tags"),
            not_any: words(call, "not-tags-any"),
        };
    }
    let is_admin = api.is_admin(call);
    if is_admin {
        for_operators(call, &mut filters)?;
    }
    Ok((filters, sorting(call, is_admin)?))
}

fn for_operators(call: &Call, filters: &mut Filters) -> Result<(), Fault> {
    let text = |key: &str| call.query.last(key).map(str::to_owned);
    filters.deleted = flag(call, "deleted")?.unwrap_or(false);
    filters.host = text("host");
    filters.node = text("node").or(text("hypervisor_hostname"));
    filters.project_id = text("project_id").or(text("tenant_id"));
    filters.user_id = text("user_id");
    filters.vm_state = text("vm_state");
    filters.task_state = text("task_state");
    filters.zone = text("availability_zone");
    filters.key_name = text("key_name");
    filters.description = pattern(call, "description")?;
    if let Some(text) = call.query.last("uuid") {
        let uuid = text.parse();
        filters.uuid = Some(uuid.map_err(|_| wrong("uuid", text, "it is no UUID"))?);
    }
    if let Some(text) = call.query.last("power_state") {
        let number = text.parse();
        filters.power_state =
            Some(number.map_err(|_| wrong("power_state", text, "it is no number of a state"))?);
    }
    Ok(())
}

fn sorting(call: &Call, is_admin: bool) -> Result<Sorting, Fault> {
    let mut orders = call.query.all("sort_dir");
    let mut keys = Vec::new();
    for word in call.query.all("sort_key") {
        let order = match orders.next() {
            None | Some("desc") => Order::Descending,
            Some("asc") => Order::Ascending,
            Some(other) => return Err(wrong("sort_dir", other, "it is asc or desc")),
        };
        let key = ServerSortKey::of_word(word)
            .filter(|key| is_admin || !key.is_for_operators())
            .ok_or_else(|| wrong("sort_key", word, "servers are not sorted by that"))?;
        keys.push((key, order));
    }
    if keys.is_empty() {
        let order = match orders.next() {
            None | Some("desc") => Order::Descending,
            Some("asc") => Order::Ascending,
            Some(other) => return Err(wrong("sort_dir", other, "it is asc or desc")),
        };
        keys.push((ServerSortKey::CreatedAt, order));
    }
    Ok(Sorting(keys))
}

fn pattern(call: &Call, key: &str) -> Result<Option<regex::Regex>, Fault> {
    let Some(text) = call.query.last(key) else {
        return Ok(None);
    };
    let built = RegexBuilder::new(text).size_limit(PROGRAM).build();
    // Classes such as \d are known here by their ASCII characters alone.
    let built = built.or_else(|_| {
        RegexBuilder::new(text)
            .unicode(false)
            .size_limit(PROGRAM)
            .build()
    });
    built
        .map(Some)
        .map_err(|_| wrong(key, text, "it is no regular expression that is read here"))
}

fn moment(call: &Call, key: &str) -> Result<Option<Moment>, Fault> {
    let Some(text) = call.query.last(key) else {
        return Ok(None);
    };
    let utc = text.trim_end_matches('Z');
    let utc = utc
        .strip_suffix("+00:00")
        .or(utc.strip_suffix(" 00:00"))
        .unwrap_or(utc);
    let plain = utc.replacen('T', " ", 1);
    let plain = match plain.len() {
        10 => format!("{plain} 00:00:00"),
        16 => format!("{plain}:00"),
        _ => plain,
    };
    plain.parse().map(Some).map_err(|_| {
        wrong(
            key,
            text,
            "it is no moment as 2026-11-23T07:56:44Z is, in UTC",
        )
    })
}

fn flag(call: &Call, key: &str) -> Result<Option<bool>, Fault> {
    let Some(text) = call.query.last(key) else {
        return Ok(None);
    };
    let said = boolean(text).ok_or_else(|| wrong(key, text, "it is neither true nor false"));
    said.map(Some)
}

fn words(call: &Call, key: &str) -> BTreeSet<String> {
    let lists = call.query.all(key).flat_map(|list| list.split(','));
    lists
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// An id, where a URL was given, its last part.
pub(super) fn last_part(text: &str) -> String {
    let text = text.trim_end_matches('/');
    text.rsplit('/').next().unwrap_or(text).to_owned()
}

fn wrong(key: &str, text: &str, reason: &str) -> Fault {
    Fault::bad_request(format!(
        "Invalid input for query parameters {key}. Value: {}. {reason}",
        bounded(text)
    ))
}
