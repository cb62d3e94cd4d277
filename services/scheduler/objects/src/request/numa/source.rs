//! Reads the NUMA and CPU settings of flavor and image.

use super::NumaRequestError;
use crate::numbers;
use crate::request::source::FlavorAndImage;

impl<'a> FlavorAndImage<'a> {
    /// Parses the values of `NAME` in flavor and image; each must be one of these words.
    pub(super) fn both_of<T: Copy>(
        self,
        name: &str,
        words: &[(&'static str, T)],
    ) -> Result<(Option<T>, Option<T>), NumaRequestError> {
        let (spec, property) = self.both(name);
        Ok((
            one_of(format!("hw:{name}"), spec, words)?,
            one_of(format!("hw_{name}"), property, words)?,
        ))
    }

    /// The error for different values of `NAME` in flavor and image.
    pub(super) fn conflict(self, name: &str) -> NumaRequestError {
        let (spec, property) = self.both(name);
        NumaRequestError::Conflict {
            spec: format!("hw:{name}"),
            flavor: spec.unwrap_or_default().to_owned(),
            property: format!("hw_{name}"),
            image: property.unwrap_or_default().to_owned(),
        }
    }

    /// The values of `NAME.0`, `NAME.1`, ... as far as they go without a gap.
    pub(super) fn numbered(
        self,
        name: &str,
    ) -> Result<Option<Vec<IndexedValue<'a>>>, NumaRequestError> {
        let specs: Vec<_> = count_up(&format!("hw:{name}"), |it| {
            self.flavor.extra_specs.get(it).map(String::as_str)
        });
        let image = self.image.map(|image| &image.properties);
        let properties: Vec<_> = count_up(&format!("hw_{name}"), |it| {
            image.and_then(|all| all.get(it))
        });
        match (specs.is_empty(), properties.is_empty()) {
            (true, true) => Ok(None),
            (false, true) => Ok(Some(specs)),
            (true, false) => Ok(Some(properties)),
            (false, false) => Err(NumaRequestError::Conflict {
                flavor: specs[0].1.to_owned(),
                spec: specs.into_iter().next().map(|it| it.0).unwrap_or_default(),
                image: properties[0].1.to_owned(),
                property: properties
                    .into_iter()
                    .next()
                    .map(|it| it.0)
                    .unwrap_or_default(),
            }),
        }
    }
}

/// A name with its number, and its value.
pub(super) type IndexedValue<'a> = (String, &'a str);

fn count_up<'a>(name: &str, get: impl Fn(&str) -> Option<&'a str>) -> Vec<IndexedValue<'a>> {
    let names = (0..MAX_CELLS).map(|cell| format!("{name}.{cell}"));
    names
        .map_while(|name| get(&name).map(|value| (name, value)))
        .collect()
}

/// No instance has more cells by name.
const MAX_CELLS: usize = 128;

/// Parses one of these words; `None` without a value.
pub(super) fn one_of<T: Copy>(
    name: String,
    value: Option<&str>,
    words: &[(&'static str, T)],
) -> Result<Option<T>, NumaRequestError> {
    let Some(value) = value else { return Ok(None) };
    match words.iter().find(|(word, _)| *word == value) {
        Some((_, found)) => Ok(Some(*found)),
        None => Err(NumaRequestError::Unknown {
            name,
            value: value.to_owned(),
            words: words.iter().map(|(word, _)| *word).collect(),
        }),
    }
}

/// A whole number as OpenStack reads one.
pub(super) fn number(
    name: &str,
    value: &str,
    wanted: &'static str,
) -> Result<i64, NumaRequestError> {
    numbers::int(value).ok_or_else(|| NumaRequestError::Malformed {
        name: name.to_owned(),
        value: value.to_owned(),
        wanted,
    })
}
