//! `hw:mem_page_size` and `hw:locked_memory`.

use super::NumaRequestError;
use crate::numbers;
use crate::request::source::FlavorAndImage;

/// Which pages an instance's memory is to be of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageSize {
    /// The host cell's smallest.
    Small,
    /// Any but the host cell's smallest, the largest first.
    Large,
    /// Any, the largest first.
    Any,
    /// Pages of this size in KiB, at least 1.
    Kib(i64),
}

impl PageSize {
    /// The size in KiB, or the negative number that Nova uses for a named size.
    #[must_use]
    pub fn number(self) -> i64 {
        match self {
            Self::Small => -1,
            Self::Large => -2,
            Self::Any => -3,
            Self::Kib(size) => size,
        }
    }
}

/// The requested page size. An image may choose only if the flavor allows it.
pub(super) fn page_size(source: FlavorAndImage<'_>) -> Result<Option<PageSize>, NumaRequestError> {
    let (flavor, image) = source.both("mem_page_size");
    let flavor = flavor
        .map(|text| read("hw:mem_page_size", text))
        .transpose()?;
    match (flavor, image) {
        (size, None) => Ok(size),
        (Some(PageSize::Any | PageSize::Large), Some(text)) => {
            read("hw_mem_page_size", text).map(Some)
        }
        (_, Some(_)) => Err(source.conflict("mem_page_size")),
    }
}

fn read(name: &str, text: &str) -> Result<PageSize, NumaRequestError> {
    match text {
        "any" => return Ok(PageSize::Any),
        "large" => return Ok(PageSize::Large),
        "small" => return Ok(PageSize::Small),
        _ => {}
    }
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let kib = if digits {
        numbers::int(text)
    } else {
        in_kib(text)
    };
    match kib {
        Some(size) if size > 0 => Ok(PageSize::Kib(size)),
        _ => Err(NumaRequestError::Malformed {
            name: name.to_owned(),
            value: text.to_owned(),
            wanted: "small, large, any, or a size of whole KiB such as 2048, 2MB or 1GB",
        }),
    }
}

/// Parses a size with its unit: `2MB`, `1GiB`, `16777216b` (bits). `None` unless it is a whole number of KiB.
fn in_kib(text: &str) -> Option<i64> {
    let letters = text.find(|letter: char| letter.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(letters);
    let (prefix, bits) = match unit.strip_suffix("bit").or_else(|| unit.strip_suffix('b')) {
        Some(prefix) => (prefix, 8.0),
        None => (unit.strip_suffix('B')?, 1.0),
    };
    let power = match prefix.strip_suffix('i').unwrap_or(prefix) {
        "" if prefix.is_empty() => 0,
        prefix => {
            1 + ["K", "M", "G", "T", "P"]
                .iter()
                .position(|it| *it == prefix)?
        }
    };
    let bytes = numbers::float(number)? / bits * 1024_f64.powi(i32::try_from(power).ok()?);
    let kib = bytes.ceil() / 1024.0;
    // Up to here every whole number is a number that a float can be.
    let is_whole = kib.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(&kib);
    #[allow(
        clippy::cast_possible_truncation,
        reason = "a whole number that both types have"
    )]
    is_whole.then_some(kib as i64)
}

/// Locked memory requires an explicit page size.
pub(super) fn locked_memory(source: FlavorAndImage<'_>) -> Result<(), NumaRequestError> {
    let (flavor, image) = source.both("locked_memory");
    let (is_locked, of_image) = (flavor.map(numbers::is_true), image.map(numbers::is_true));
    if let (Some(flavor), Some(image)) = (is_locked, of_image)
        && flavor != image
    {
        return Err(source.conflict("locked_memory"));
    }
    let (size, size_of_image) = source.both("mem_page_size");
    let has_size = size.or(size_of_image).is_some();
    match is_locked.or(of_image) == Some(true) && !has_size {
        true => Err(NumaRequestError::LockedMemoryNeedsPageSize),
        false => Ok(()),
    }
}
