//! What the query of a list of servers asks for. What others may not filter by is passed over, as Nova does.

use std::collections::BTreeSet;

use berth_http::{Call, Fault};
use berth_store::Moment;
use regex::{Regex, RegexBuilder};

use crate::fields::{boolean, bounded};
use crate::flavors::Order;
use crate::microversions::{CHANGES_BEFORE, KNOWN_STATUSES, LOCKED_REASON, STRICT, TAGS};
use crate::moments::moment_of;
use crate::paging::check_keys;
use crate::router::Api;
use crate::servers::{Attribute, Filters, ServerSortKey, Sorting, TagFilters};

/// What Nova lets such a query have.
const QUERY: [&str; 51] = [
    "limit",
    "marker",
    "sort_key",
    "sort_dir",
    "all_tenants",
    "name",
    "display_name",
    "status",
    "flavor",
    "image",
    "image_ref",
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
    "display_description",
    "access_ip_v4",
    "access_ip_v6",
    "auto_disk_config",
    "config_drive",
    "created_at",
    "hostname",
    "launch_index",
    "launched_at",
    "kernel_id",
    "locked_by",
    "progress",
    "ramdisk_id",
    "root_device_name",
    "terminated_at",
    "soft_deleted",
];

/// What Nova has columns for and does not sort by: below 2.75 it passes them over, and `locked` where there is no such key yet.
const PASSED_OVER: [&str; 22] = [
    "architecture",
    "cell_name",
    "cleaned",
    "default_ephemeral_device",
    "default_swap_device",
    "deleted",
    "deleted_at",
    "disable_terminate",
    "ephemeral_gb",
    "ephemeral_key_uuid",
    "id",
    "key_data",
    "launched_on",
    "locked",
    "memory_mb",
    "os_type",
    "reservation_id",
    "root_gb",
    "shutdown_terminate",
    "user_data",
    "vcpus",
    "vm_mode",
];

/// The statuses of Nova, most of which servers can have here.
const STATUSES: [&str; 19] = [
    "ACTIVE",
    "BUILD",
    "DELETED",
    "ERROR",
    "HARD_REBOOT",
    "MIGRATING",
    "PASSWORD",
    "PAUSED",
    "REBOOT",
    "REBUILD",
    "RESCUE",
    "RESIZE",
    "REVERT_RESIZE",
    "SHELVED",
    "SHELVED_OFFLOADED",
    "SHUTOFF",
    "SOFT_DELETED",
    "SUSPENDED",
    "VERIFY_RESIZE",
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
    let is_admin = api.is_admin(call);
    let text = |key: &str| call.query.last(key).map(str::to_owned);
    let statuses: BTreeSet<String> = call.query.all("status").map(str::to_uppercase).collect();
    // No server has an address that is known here.
    let has_address = ["ip", "ip6"]
        .iter()
        .any(|key| call.query.last(key).is_some_and(|ip| !ip.is_empty()));
    let mut filters = Filters {
        name: pattern(call, "name")?,
        nothing: has_address || !can_be(call, &statuses, is_admin)?,
        statuses,
        flavor: text("flavor").map(|flavor| last_part(&flavor)),
        image: text("image").map(|image| last_part(&image)),
        reservation_id: text("reservation_id"),
        changes_since: moment(call, "changes-since")?,
        ..Filters::default()
    };
    if call.version.has(CHANGES_BEFORE) {
        filters.changes_before = moment(call, "changes-before")?;
        check_span(filters.changes_since, filters.changes_before)?;
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
    if is_admin {
        for_operators(call, &mut filters)?;
    }
    Ok((filters, sorting(call, is_admin)?))
}

/// Whether a server can be in one of these statuses.
fn can_be(call: &Call, statuses: &BTreeSet<String>, is_admin: bool) -> Result<bool, Fault> {
    if statuses.is_empty() {
        return Ok(true);
    }
    let mut known = statuses.iter().filter(|it| STATUSES.contains(&it.as_str()));
    match (known.next(), known.next()) {
        (None, _) if call.version.has(KNOWN_STATUSES) => {
            let text: Vec<&str> = statuses.iter().map(String::as_str).collect();
            let reason = "no server has such a status";
            Err(wrong("status", &text.join(", "), reason))
        }
        (None, _) => Ok(false),
        (Some(only), None) if only == "DELETED" => match is_admin {
            true => Ok(false),
            false => Err(Fault::forbidden(
                "Only administrators may list deleted instances",
            )),
        },
        _ => Ok(true),
    }
}

/// Refuses a span that ends before it begins.
pub(super) fn check_span(since: Option<Moment>, before: Option<Moment>) -> Result<(), Fault> {
    match (since, before) {
        (Some(since), Some(before)) if before < since => Err(Fault::bad_request(
            "The value of changes-since must be less than or equal to changes-before.",
        )),
        _ => Ok(()),
    }
}

fn for_operators(call: &Call, filters: &mut Filters) -> Result<(), Fault> {
    let text = |key: &str| call.query.last(key).map(str::to_owned);
    // None that is gone is kept, and none is ever half gone, so that soft_deleted adds none.
    filters.nothing |= flag(call, "deleted")?.unwrap_or(false);
    flag(call, "soft_deleted")?;
    filters.attributes = attributes(call)?;
    filters.host = text("host");
    filters.node = text("node").or(text("hypervisor_hostname"));
    // Of the caller's own project there is no other to choose.
    if is_all_tenants(call)? {
        filters.project_id = text("project_id").or(text("tenant_id"));
    }
    filters.user_id = text("user_id");
    filters.vm_state = text("vm_state");
    filters.task_state = text("task_state");
    filters.zone = text("availability_zone");
    filters.key_name = text("key_name");
    if filters.name.is_none() {
        filters.name = pattern(call, "display_name")?;
    }
    if filters.image.is_none() {
        filters.image = text("image_ref").map(|image| last_part(&image));
    }
    filters.description = match pattern(call, "description")? {
        None => pattern(call, "display_description")?,
        given => given,
    };
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

/// The keys of attributes of one kind, each with the attribute it asks for.
type Keys<T, const N: usize> = [(&'static str, fn(T) -> Attribute); N];

/// What is asked of a server besides, by the value that it has.
fn attributes(call: &Call) -> Result<Vec<Attribute>, Fault> {
    let mut asked = Vec::new();
    let patterns: Keys<Regex, 7> = [
        ("hostname", Attribute::Hostname),
        ("access_ip_v4", Attribute::AccessIpV4),
        ("access_ip_v6", Attribute::AccessIpV6),
        ("root_device_name", Attribute::RootDevice),
        ("locked_by", Attribute::LockedBy),
        ("kernel_id", |_| Attribute::Nothing),
        ("ramdisk_id", |_| Attribute::Nothing),
    ];
    for (key, of) in patterns {
        asked.extend(pattern(call, key)?.map(of));
    }
    let moments: Keys<Moment, 3> = [
        ("created_at", Attribute::CreatedAt),
        ("launched_at", Attribute::LaunchedAt),
        ("terminated_at", |_| Attribute::Nothing),
    ];
    for (key, of) in moments {
        asked.extend(moment(call, key)?.map(of));
    }
    let numbers: Keys<i64, 2> = [
        ("launch_index", Attribute::LaunchIndex),
        ("progress", Attribute::Progress),
    ];
    for (key, of) in numbers {
        if let Some(text) = call.query.last(key) {
            let number = text.parse();
            asked.push(of(
                number.map_err(|_| wrong(key, text, "it is no whole number"))?
            ));
        }
    }
    let flags: Keys<bool, 2> = [
        ("config_drive", Attribute::ConfigDrive),
        ("auto_disk_config", Attribute::AutoDiskConfig),
    ];
    for (key, of) in flags {
        // Nova has an empty text where there is no config drive.
        let given = match call.query.last(key) {
            Some("") => Some(false),
            _ => flag(call, key)?,
        };
        asked.extend(given.map(of));
    }
    Ok(asked)
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
        let is_late = word == "locked" && call.version.has(LOCKED_REASON);
        if !call.version.has(STRICT) && !is_late && PASSED_OVER.contains(&word) {
            continue;
        }
        let key = ServerSortKey::of_word(word)
            .ok_or_else(|| wrong("sort_key", word, "servers are not sorted by that"))?;
        if key.is_for_operators() && !is_admin {
            let word = bounded(word);
            return Err(Fault::forbidden(format!(
                "Only administrators can sort servers by {word}"
            )));
        }
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

fn pattern(call: &Call, key: &str) -> Result<Option<Regex>, Fault> {
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

/// The moment that is asked for by this key.
pub(super) fn moment(call: &Call, key: &str) -> Result<Option<Moment>, Fault> {
    let Some(text) = call.query.last(key) else {
        return Ok(None);
    };
    moment_of(text).map(Some).ok_or_else(|| {
        let reason = "it is no moment as 2026-11-23T07:56:44Z or 2026-11-23T09:56:44+02:00 is";
        wrong(key, text, reason)
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

/// A 400 that names what was asked, how, and what is wrong with it.
pub(super) fn wrong(key: &str, text: &str, reason: &str) -> Fault {
    Fault::bad_request(format!(
        "Invalid input for query parameters {key}. Value: {}. {reason}",
        bounded(text)
    ))
}
