//! The sort order of an image list.

use std::cmp::Ordering;

use berth_http::{Fault, QueryString};

use crate::image::CatalogImage;

const KEYS: [(&str, ImageSortKey); 8] = [
    ("name", ImageSortKey::Name),
    ("status", ImageSortKey::Status),
    ("container_format", ImageSortKey::ContainerFormat),
    ("disk_format", ImageSortKey::DiskFormat),
    ("size", ImageSortKey::Size),
    ("id", ImageSortKey::Id),
    ("created_at", ImageSortKey::CreatedAt),
    ("updated_at", ImageSortKey::UpdatedAt),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ImageSortKey {
    Name,
    Status,
    ContainerFormat,
    DiskFormat,
    Size,
    Id,
    CreatedAt,
    UpdatedAt,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SortDirection {
    Ascending,
    Descending,
}

/// Sort keys with directions, the most significant first. Ties are broken by creation time and id.
#[derive(Debug)]
pub(super) struct ImageSortOrder(Vec<(ImageSortKey, SortDirection)>);

impl ImageSortOrder {
    /// Of `sort=KEY:DIR,KEY`, or of `sort_key` and `sort_dir`.
    pub(super) fn of(query: &QueryString) -> Result<Self, Fault> {
        let (keys, directions) = (query.all("sort_key"), query.all("sort_dir"));
        let keys: Vec<&str> = keys.map(str::trim).collect();
        let directions: Vec<&str> = directions.map(str::trim).collect();
        let mut order = match query.last("sort") {
            Some(_) if !keys.is_empty() || !directions.is_empty() => {
                let both = "sort cannot be combined with sort_key and sort_dir";
                return Err(Fault::bad_request(both));
            }
            Some(sort) => sorted_by(sort)?,
            None => by_lists(&keys, &directions)?,
        };
        let last = order
            .last()
            .map_or(SortDirection::Descending, |(_, last)| *last);
        for key in [ImageSortKey::CreatedAt, ImageSortKey::Id] {
            if order.iter().all(|(known, _)| *known != key) {
                order.push((key, last));
            }
        }
        Ok(Self(order))
    }

    pub(super) fn compare(&self, one: &CatalogImage, other: &CatalogImage) -> Ordering {
        let keys = self.0.iter();
        keys.fold(Ordering::Equal, |decided, (key, direction)| {
            decided.then_with(|| {
                let order = key.compare(one, other);
                match direction {
                    SortDirection::Ascending => order,
                    SortDirection::Descending => order.reverse(),
                }
            })
        })
    }
}

impl ImageSortKey {
    fn compare(self, one: &CatalogImage, other: &CatalogImage) -> Ordering {
        match self {
            Self::Name => one.name.cmp(&other.name),
            // These are the same for all images.
            Self::Status | Self::ContainerFormat => Ordering::Equal,
            Self::DiskFormat => one.disk_format.as_str().cmp(other.disk_format.as_str()),
            Self::Size => one.size.cmp(&other.size),
            Self::Id => one.id.cmp(&other.id),
            Self::CreatedAt | Self::UpdatedAt => one.created_at.cmp(&other.created_at),
        }
    }
}

fn sorted_by(sort: &str) -> Result<Vec<(ImageSortKey, SortDirection)>, Fault> {
    let pairs = sort.split(',').map(|pair| {
        let (name, way) = pair.split_once(':').unwrap_or((pair, ""));
        let way = match way.trim() {
            "" => SortDirection::Descending,
            way => direction(way)?,
        };
        Ok((key(name.trim())?, way))
    });
    pairs.collect()
}

fn by_lists(
    keys: &[&str],
    directions: &[&str],
) -> Result<Vec<(ImageSortKey, SortDirection)>, Fault> {
    let keys = match keys {
        [] => vec![ImageSortKey::CreatedAt],
        keys => keys.iter().map(|it| key(it)).collect::<Result<_, _>>()?,
    };
    let directions: Vec<SortDirection> = match directions {
        [] => vec![SortDirection::Descending],
        all => all
            .iter()
            .map(|it| direction(it))
            .collect::<Result<_, _>>()?,
    };
    match directions.as_slice() {
        [one] => Ok(keys.into_iter().map(|key| (key, *one)).collect()),
        all if all.len() == keys.len() => Ok(keys.into_iter().zip(directions).collect()),
        _ => Err(Fault::bad_request(
            "Number of sort dirs does not match the number of sort keys",
        )),
    }
}

fn key(name: &str) -> Result<ImageSortKey, Fault> {
    let found = KEYS.iter().find(|(known, _)| *known == name);
    found.map(|(_, key)| *key).ok_or_else(|| {
        let known = KEYS.map(|(known, _)| known).join(", ");
        Fault::bad_request(format!(
            "Invalid sort key: {name}. It must be one of the following: {known}."
        ))
    })
}

fn direction(word: &str) -> Result<SortDirection, Fault> {
    match word {
        "asc" => Ok(SortDirection::Ascending),
        "desc" => Ok(SortDirection::Descending),
        _ => Err(Fault::bad_request(format!(
            "Invalid sort direction: {word}"
        ))),
    }
}
