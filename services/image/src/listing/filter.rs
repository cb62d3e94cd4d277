//! The filters of an image list.

use std::cmp::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use berth_http::{Fault, QueryString};

use crate::image::CatalogImage;

/// Query keys that are not filters.
const OTHERS: [&str; 6] = [
    "limit",
    "marker",
    "sort",
    "sort_key",
    "sort_dir",
    "member_status",
];

/// One filter. An image must pass all filters of a query.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ImageFilter {
    /// The attribute of this key has one of these values.
    OneOf(String, Vec<String>),
    Tag(String),
    Hidden(bool),
    SizeMin(u64),
    SizeMax(u64),
    /// Created before, at or after a time, in seconds.
    CreatedAt(Vec<Ordering>, i64),
    Nothing,
}

impl ImageFilter {
    pub(super) fn keeps(&self, image: &CatalogImage) -> bool {
        match self {
            Self::OneOf(key, values) => {
                attribute(image, key).is_some_and(|it| values.contains(&it))
            }
            Self::Tag(tag) => image.tags.contains(tag),
            Self::Hidden(hidden) => image.os_hidden == *hidden,
            Self::SizeMin(least) => image.size.is_some_and(|size| size >= *least),
            Self::SizeMax(most) => image.size.is_some_and(|size| size <= *most),
            Self::CreatedAt(orders, moment) => {
                orders.contains(&seconds(image.created_at).cmp(moment))
            }
            Self::Nothing => false,
        }
    }
}

/// An attribute or property of an image, as text.
fn attribute(image: &CatalogImage, key: &str) -> Option<String> {
    Some(match key {
        "id" => image.id.to_string(),
        "name" => image.name.clone(),
        "status" => "active".to_owned(),
        "container_format" => "bare".to_owned(),
        "disk_format" => image.disk_format.as_str().to_owned(),
        "checksum" => return image.md5.clone(),
        "os_hash_algo" => image.checksum.algorithm.as_str().to_owned(),
        "os_hash_value" => image.checksum.hex.clone(),
        "size" => image.size?.to_string(),
        "min_ram" => image.min_ram.to_string(),
        "min_disk" => image.min_disk.to_string(),
        property => return image.properties.get(property).cloned(),
    })
}

/// Parses the filters of a query string. Except for tags, the last value of a repeated key counts.
pub(super) fn filters(query: &QueryString) -> Result<Vec<ImageFilter>, Fault> {
    if let Some(status) = query.last("member_status")
        && !["pending", "accepted", "rejected", "all"].contains(&status)
    {
        return Err(Fault::bad_request(format!("Invalid status: {status}")));
    }
    let hidden = flag(query, "os_hidden")?.unwrap_or(false);
    let mut filters = vec![ImageFilter::Hidden(hidden)];
    let mut keys: Vec<&str> = query.pairs().map(|(key, _)| key).collect();
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        let value = query.last(key).unwrap_or_default();
        match key {
            "os_hidden" => {}
            "tag" => filters.extend(
                query
                    .all("tag")
                    .map(|it| ImageFilter::Tag(it.trim().to_owned())),
            ),
            key if OTHERS.contains(&key) => {}
            key => filters.extend(filter(query, key, value)?),
        }
    }
    Ok(filters)
}

fn filter(query: &QueryString, key: &str, value: &str) -> Result<Option<ImageFilter>, Fault> {
    Ok(match key {
        "visibility" => match value {
            "" | "public" | "all" => None,
            "community" | "private" | "shared" => Some(ImageFilter::Nothing),
            _ => {
                let what = format!("Invalid visibility value: {value}");
                return Err(Fault::bad_request(what));
            }
        },
        // All of them are.
        "protected" => match flag(query, "protected")? {
            Some(false) => Some(ImageFilter::Nothing),
            _ => None,
        },
        "changes-since" => {
            let what = "There is no changes-since filter; use updated_at=gte:TIME.";
            return Err(Fault::bad_request(what));
        }
        "size_min" => Some(ImageFilter::SizeMin(bytes(key, value)?)),
        "size_max" => Some(ImageFilter::SizeMax(bytes(key, value)?)),
        "created_at" | "updated_at" => Some(came(key, value)?),
        "id" | "name" | "status" | "container_format" | "disk_format" => {
            let values = match value.strip_prefix("in:") {
                Some(list) => listed(list)?,
                None => vec![value.to_owned()],
            };
            Some(ImageFilter::OneOf(key.to_owned(), values))
        }
        _ => Some(ImageFilter::OneOf(key.to_owned(), vec![value.to_owned()])),
    })
}

fn flag(query: &QueryString, key: &str) -> Result<Option<bool>, Fault> {
    match query.last(key).map(str::to_lowercase).as_deref() {
        None => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(other) => Err(Fault::bad_request(format!(
            "Invalid value '{other}' for '{key}' filter. Valid values are 'true' or 'false'."
        ))),
    }
}

fn bytes(key: &str, value: &str) -> Result<u64, Fault> {
    match value.trim().parse::<i128>() {
        // Less than nothing is nothing.
        Ok(bytes) => Ok(u64::try_from(bytes.max(0)).unwrap_or(u64::MAX)),
        Err(_) => Err(Fault::bad_request(format!(
            "{key} has to be a number of bytes, and {value} is none."
        ))),
    }
}

/// `OPERATOR:TIME`, or a time.
fn came(key: &str, value: &str) -> Result<ImageFilter, Fault> {
    use Ordering::{Equal, Greater, Less};
    let (orders, time) = match value.split_once(':') {
        Some(("eq", time)) => (vec![Equal], time),
        Some(("neq", time)) => (vec![Less, Greater], time),
        Some(("gt", time)) => (vec![Greater], time),
        Some(("gte", time)) => (vec![Greater, Equal], time),
        Some(("lt", time)) => (vec![Less], time),
        Some(("lte", time)) => (vec![Less, Equal], time),
        _ => (vec![Equal], value),
    };
    let text = time.trim();
    let text = text.strip_suffix('Z').unwrap_or(text);
    let text = text.strip_suffix("+00:00").unwrap_or(text);
    let moment = parse_seconds(text).ok_or_else(|| {
        Fault::bad_request(format!(
            "{key}: {value} is none of eq:, neq:, gt:, gte:, lt: and lte: with a time as 2026-11-23T10:00:00Z."
        ))
    })?;
    Ok(ImageFilter::CreatedAt(orders, moment))
}

/// Seconds since 1970, the precision that Glance shows.
fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// The seconds of a time as text. All times before 1970 are one second before it: no image is older.
fn parse_seconds(text: &str) -> Option<i64> {
    match text.split_at_checked(4)? {
        // The parser reads no years before 1970.
        (year, rest) if year.parse::<u16>().ok()? < 1970 => {
            let in_leap_year = format!("1972{rest}");
            let time = humantime::parse_rfc3339_weak(&in_leap_year).ok();
            time.map(|_| -1)
        }
        _ => humantime::parse_rfc3339_weak(text).ok().map(seconds),
    }
}

/// The values of an `in:` filter: separated by commas, in quotes if they contain commas.
fn listed(list: &str) -> Result<Vec<String>, Fault> {
    let mut values = vec![String::new()];
    let mut is_quoted = false;
    for character in list.chars() {
        match (character, values.last_mut()) {
            ('"', _) => is_quoted = !is_quoted,
            (',', _) if !is_quoted => values.push(String::new()),
            (other, Some(value)) => value.push(other),
            (_, None) => {}
        }
    }
    match is_quoted {
        true => Err(Fault::bad_request(format!(
            "Invalid filter value {list}. The quote is not closed."
        ))),
        false => Ok(values),
    }
}
