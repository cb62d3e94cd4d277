//! Parses the query of a server list: filters and sort order. As in Nova, filters that the caller may not use are
//! ignored.

use std::collections::BTreeSet;

use berth_http::fields::{boolean, bounded};
use berth_http::{ApiRequest, Fault};
use berth_store::SqlTimestamp;
use regex::{Regex, RegexBuilder};

use crate::flavors::SortDirection;
use crate::microversions::{CHANGES_BEFORE, KNOWN_STATUSES, LOCKED_REASON, STRICT, TAGS};
use crate::paging::check_keys;
use crate::servers::{ServerAttribute, ServerFilters, ServerSortKey, ServerSortOrder, TagFilters};
use crate::state::ComputeApi;

/// The query keys that Nova accepts.
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

/// Columns of Nova that are not sort keys: before 2.75 they are ignored. So is `locked` before it became a sort key.
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

/// Nova's statuses. Servers of Berth do not have all of them.
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

/// The maximum size of a compiled regular expression in bytes.
const PROGRAM: usize = 1 << 20;

pub(super) fn is_all_tenants(call: &ApiRequest) -> Result<bool, Fault> {
    match call.query.last("all_tenants") {
        None => Ok(false),
        Some("") => Ok(true),
        Some(text) => {
            boolean(text).ok_or_else(|| wrong("all_tenants", text, "it is neither true nor false"))
        }
    }
}

/// Parses filters and sort order.
pub(super) fn parse_list_query(
    api: &ComputeApi,
    call: &ApiRequest,
) -> Result<(ServerFilters, ServerSortOrder), Fault> {
    if call.version.has(STRICT) {
        check_keys(call, &QUERY)?;
    }
    let is_admin = api.is_admin(call);
    let text = |key: &str| call.query.last(key).map(str::to_owned);
    let statuses: BTreeSet<String> = call.query.all("status").map(str::to_uppercase).collect();
    // This service knows no addresses, so a filter by address matches nothing.
    let has_address = ["ip", "ip6"]
        .iter()
        .any(|key| call.query.last(key).is_some_and(|ip| !ip.is_empty()));
    let mut filters = ServerFilters {
        name: pattern(call, "name")?,
        nothing: has_address || !can_be(call, &statuses, is_admin)?,
        statuses,
        flavor: text("flavor").map(|flavor| last_part(&flavor)),
        image: text("image").map(|image| last_part(&image)),
        reservation_id: text("reservation_id"),
        changes_since: moment(call, "changes-since")?,
        ..ServerFilters::default()
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

/// Whether a server can have one of these statuses.
fn can_be(call: &ApiRequest, statuses: &BTreeSet<String>, is_admin: bool) -> Result<bool, Fault> {
    if statuses.is_empty() {
        return Ok(true);
    }
    let mut known = statuses.iter().filter(|it| STATUSES.contains(&it.as_str()));
    match (known.next(), known.next()) {
        (None, _) if call.version.has(KNOWN_STATUSES) => {
            let text: Vec<&str> = statuses.iter().map(String::as_str).collect();
            let reason = "unknown status";
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

/// Refuses an interval that ends before it starts.
pub(super) fn check_span(
    since: Option<SqlTimestamp>,
    before: Option<SqlTimestamp>,
) -> Result<(), Fault> {
    match (since, before) {
        (Some(since), Some(before)) if before < since => Err(Fault::bad_request(
            "The value of changes-since must be less than or equal to changes-before.",
        )),
        _ => Ok(()),
    }
}

fn for_operators(call: &ApiRequest, filters: &mut ServerFilters) -> Result<(), Fault> {
    let text = |key: &str| call.query.last(key).map(str::to_owned);
    // Deleted servers are not kept, and there is no soft deletion.
    filters.nothing |= flag(call, "deleted")?.unwrap_or(false);
    flag(call, "soft_deleted")?;
    filters.attributes = attributes(call)?;
    filters.host = text("host");
    filters.node = text("node").or(text("hypervisor_hostname"));
    // Without all_tenants only the caller's project is listed anyway.
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
        filters.uuid = Some(uuid.map_err(|_| wrong("uuid", text, "it is not a UUID"))?);
    }
    if let Some(text) = call.query.last("power_state") {
        let number = text.parse();
        filters.power_state =
            Some(number.map_err(|_| {
                wrong("power_state", text, "it is not the number of a power state")
            })?);
    }
    Ok(())
}

/// Query keys, each with the filter it creates.
type SortKeys<T, const N: usize> = [(&'static str, fn(T) -> ServerAttribute); N];

/// Parses the filters by further attributes.
fn attributes(call: &ApiRequest) -> Result<Vec<ServerAttribute>, Fault> {
    let mut attributes = Vec::new();
    let patterns: SortKeys<Regex, 7> = [
        ("hostname", ServerAttribute::Hostname),
        ("access_ip_v4", ServerAttribute::AccessIpV4),
        ("access_ip_v6", ServerAttribute::AccessIpV6),
        ("root_device_name", ServerAttribute::RootDevice),
        ("locked_by", ServerAttribute::LockedBy),
        ("kernel_id", |_| ServerAttribute::Nothing),
        ("ramdisk_id", |_| ServerAttribute::Nothing),
    ];
    for (key, of) in patterns {
        attributes.extend(pattern(call, key)?.map(of));
    }
    let moments: SortKeys<SqlTimestamp, 3> = [
        ("created_at", ServerAttribute::CreatedAt),
        ("launched_at", ServerAttribute::LaunchedAt),
        ("terminated_at", |_| ServerAttribute::Nothing),
    ];
    for (key, of) in moments {
        attributes.extend(moment(call, key)?.map(of));
    }
    let numbers: SortKeys<i64, 2> = [
        ("launch_index", ServerAttribute::LaunchIndex),
        ("progress", ServerAttribute::Progress),
    ];
    for (key, of) in numbers {
        if let Some(text) = call.query.last(key) {
            let number = text.parse();
            attributes.push(of(
                number.map_err(|_| wrong(key, text, "it is not a whole number"))?
            ));
        }
    }
    let flags: SortKeys<bool, 2> = [
        ("config_drive", ServerAttribute::ConfigDrive),
        ("auto_disk_config", ServerAttribute::AutoDiskConfig),
    ];
    for (key, of) in flags {
        // In Nova the attribute is empty without a config drive.
        let given = match call.query.last(key) {
            Some("") => Some(false),
            _ => flag(call, key)?,
        };
        attributes.extend(given.map(of));
    }
    Ok(attributes)
}

fn sorting(call: &ApiRequest, is_admin: bool) -> Result<ServerSortOrder, Fault> {
    let mut orders = call.query.all("sort_dir");
    let mut keys = Vec::new();
    for word in call.query.all("sort_key") {
        let order = match orders.next() {
            None | Some("desc") => SortDirection::Descending,
            Some("asc") => SortDirection::Ascending,
            Some(other) => return Err(wrong("sort_dir", other, "it is asc or desc")),
        };
        let is_late = word == "locked" && call.version.has(LOCKED_REASON);
        if !call.version.has(STRICT) && !is_late && PASSED_OVER.contains(&word) {
            continue;
        }
        let key = ServerSortKey::parse(word)
            .ok_or_else(|| wrong("sort_key", word, "servers cannot be sorted by this key"))?;
        if key.is_operator_only() && !is_admin {
            let word = bounded(word);
            return Err(Fault::forbidden(format!(
                "Only administrators can sort servers by {word}"
            )));
        }
        keys.push((key, order));
    }
    if keys.is_empty() {
        let order = match orders.next() {
            None | Some("desc") => SortDirection::Descending,
            Some("asc") => SortDirection::Ascending,
            Some(other) => return Err(wrong("sort_dir", other, "it is asc or desc")),
        };
        keys.push((ServerSortKey::CreatedAt, order));
    }
    Ok(ServerSortOrder(keys))
}

fn pattern(call: &ApiRequest, key: &str) -> Result<Option<Regex>, Fault> {
    let Some(text) = call.query.last(key) else {
        return Ok(None);
    };
    let built = RegexBuilder::new(text).size_limit(PROGRAM).build();
    // The regex crate is built without Unicode tables: classes such as \d only work for ASCII.
    let built = built.or_else(|_| {
        RegexBuilder::new(text)
            .unicode(false)
            .size_limit(PROGRAM)
            .build()
    });
    built
        .map(Some)
        .map_err(|_| wrong(key, text, "it is not a supported regular expression"))
}

pub(super) fn moment(call: &ApiRequest, key: &str) -> Result<Option<SqlTimestamp>, Fault> {
    let Some(text) = call.query.last(key) else {
        return Ok(None);
    };
    SqlTimestamp::from_iso8601(text).map(Some).ok_or_else(|| {
        let reason = "it is not a time such as 2026-11-23T07:56:44Z or 2026-11-23T09:56:44+02:00";
        wrong(key, text, reason)
    })
}

fn flag(call: &ApiRequest, key: &str) -> Result<Option<bool>, Fault> {
    let Some(text) = call.query.last(key) else {
        return Ok(None);
    };
    let flag = boolean(text).ok_or_else(|| wrong(key, text, "it is neither true nor false"));
    flag.map(Some)
}

fn words(call: &ApiRequest, key: &str) -> BTreeSet<String> {
    let lists = call.query.all(key).flat_map(|list| list.split(','));
    lists
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The id. Clients may give a URL that ends with it.
pub(super) fn last_part(text: &str) -> String {
    let text = text.trim_end_matches('/');
    text.rsplit('/').next().unwrap_or(text).to_owned()
}

/// A 400 that names the query key, its value and the reason.
pub(super) fn wrong(key: &str, text: &str, reason: &str) -> Fault {
    Fault::bad_request(format!(
        "Invalid input for query parameters {key}. Value: {}. {reason}",
        bounded(text)
    ))
}
