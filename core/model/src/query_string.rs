//! Query strings of URLs.

use std::fmt::Write as _;

/// The query string of these parameters, in this order, percent-encoded.
pub fn query_string<K: AsRef<str>, V: AsRef<str>>(
    parameters: impl IntoIterator<Item = (K, V)>,
) -> String {
    let pairs = parameters.into_iter().map(|(key, value)| {
        let (key, value) = (key.as_ref(), value.as_ref());
        format!("{}={}", percent_encoded(key), percent_encoded(value))
    });
    pairs.collect::<Vec<_>>().join("&")
}

/// The text with all bytes percent-encoded except letters, digits and `-._~` (RFC 3986).
#[must_use]
pub fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a text does not fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_the_unreserved_characters_are_encoded() {
        assert_eq!(percent_encoded("gpu-01.example_a~"), "gpu-01.example_a~");
        assert_eq!(percent_encoded("a b&c=é"), "a%20b%26c%3D%C3%A9");
        assert_eq!(query_string([("a", "1+1"), ("b&", "")]), "a=1%2B1&b%26=");
        assert_eq!(query_string::<&str, &str>([]), "");
    }
}
