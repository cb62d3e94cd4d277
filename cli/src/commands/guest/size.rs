//! Sizes on the command line: `2048`, `2G`, `512MiB`.

/// Reads a size in MiB; a number without a unit is in MiB.
pub(super) fn mebibytes(text: &str) -> Result<u64, String> {
    size(text, 20)
        .ok_or_else(|| "expected a number of MiB such as 2048, or a size such as 2G".to_owned())
}

/// Reads a size in GiB; a number without a unit is in GiB.
pub(super) fn gibibytes(text: &str) -> Result<u64, String> {
    size(text, 30).ok_or_else(|| {
        "expected a number of GiB such as 10, or a size such as 10G or 1T".to_owned()
    })
}

/// A size in units of 2 to the power of `unit` bytes; `None` if it is not a whole number of them.
fn size(text: &str, unit: u32) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let suffix = text[digits.len()..].to_ascii_lowercase();
    let number: u64 = digits.trim_end().parse().ok()?;
    let exponent = match suffix.as_str() {
        "" => unit,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    match exponent.checked_sub(unit) {
        Some(larger) => number.checked_mul(1 << larger),
        None => {
            let per_unit = 1 << (unit - exponent);
            number.is_multiple_of(per_unit).then_some(number / per_unit)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_may_have_a_unit() {
        for (text, mib) in [("2048", 2048), ("2G", 2048), ("2GiB", 2048), ("512m", 512)] {
            assert_eq!(mebibytes(text), Ok(mib), "{text}");
        }
        for (text, gib) in [("10", 10), ("10G", 10), ("1T", 1024), ("2048M", 2)] {
            assert_eq!(gibibytes(text), Ok(gib), "{text}");
        }
    }

    #[test]
    fn a_size_that_is_none_is_refused_with_an_example() {
        for text in ["two", "", "G", "2X", "-1", "1.5G", "99999999999999999T"] {
            assert_eq!(
                mebibytes(text).unwrap_err(),
                "expected a number of MiB such as 2048, or a size such as 2G",
                "{text}"
            );
        }
        assert!(gibibytes("1500M").unwrap_err().contains("10G or 1T"));
    }
}
