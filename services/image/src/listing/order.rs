//! In which order images are listed.

use std::cmp::Ordering;

use berth_http::{Fault, Query};

use crate::image::Image;

const KEYS: [(&str, Key); 8] = [
    ("name", Key::Name),
    ("status", Key::Status),
    ("container_format", Key::ContainerFormat),
    ("disk_format", Key::DiskFormat),
    ("size", Key::Size),
    ("id", Key::Id),
    ("created_at", Key::CreatedAt),
    ("updated_at", Key::UpdatedAt),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
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
enum Direction {
    Ascending,
    Descending,
}

/// Keys with their directions, the first first; images that are the same by all of them stand by when they came and by id.
#[derive(Debug)]
pub(super) struct Order(Vec<(Key, Direction)>);

impl Order {
    /// Of `sort=KEY:DIR,KEY`, or of `sort_key` and `sort_dir`.
    pub(super) fn of(query: &Query) -> Result<Self, Fault> {
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
            .map_or(Direction::Descending, |(_, last)| *last);
        for key in [Key::CreatedAt, Key::Id] {
            if order.iter().all(|(known, _)| *known != key) {
                order.push((key, last));
            }
        }
        Ok(Self(order))
    }

    /// Which of two stands first.
    pub(super) fn compare(&self, one: &Image, other: &Image) -> Ordering {
        let keys = self.0.iter();
        keys.fold(Ordering::Equal, |decided, (key, direction)| {
            decided.then_with(|| {
                let order = key.compare(one, other);
                match direction {
                    Direction::Ascending => order,
                    Direction::Descending => order.reverse(),
                }
            })
        })
    }
}

impl Key {
    fn compare(self, one: &Image, other: &Image) -> Ordering {
        match self {
            Self::Name => one.name.cmp(&other.name),
            // All images have the same.
            Self::Status | Self::ContainerFormat => Ordering::Equal,
            Self::DiskFormat => one.disk_format.as_str().cmp(other.disk_format.as_str()),
            Self::Size => one.size.cmp(&other.size),
            Self::Id => one.id.cmp(&other.id),
            Self::CreatedAt | Self::UpdatedAt => one.created_at.cmp(&other.created_at),
        }
    }
}

fn sorted_by(sort: &str) -> Result<Vec<(Key, Direction)>, Fault> {
    let pairs = sort.split(',').map(|pair| {
        let (name, way) = pair.split_once(':').unwrap_or((pair, ""));
        let way = match way.trim() {
            "" => Direction::Descending,
            way => direction(way)?,
        };
        Ok((key(name.trim())?, way))
    });
    pairs.collect()
}

fn by_lists(keys: &[&str], directions: &[&str]) -> Result<Vec<(Key, Direction)>, Fault> {
    let keys = match keys {
        [] => vec![Key::CreatedAt],
        keys => keys.iter().map(|it| key(it)).collect::<Result<_, _>>()?,
    };
    let directions: Vec<Direction> = match directions {
        [] => vec![Direction::Descending],
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

fn key(name: &str) -> Result<Key, Fault> {
    let found = KEYS.iter().find(|(known, _)| *known == name);
    found.map(|(_, key)| *key).ok_or_else(|| {
        let known = KEYS.map(|(known, _)| known).join(", ");
        Fault::bad_request(format!(
            "Invalid sort key: {name}. It must be one of the following: {known}."
        ))
    })
}

fn direction(word: &str) -> Result<Direction, Fault> {
    match word {
        "asc" => Ok(Direction::Ascending),
        "desc" => Ok(Direction::Descending),
        _ => Err(Fault::bad_request(format!(
            "Invalid sort direction: {word}"
        ))),
    }
}
