//! Sanitises texts of other services before they are shown: masks secrets that they repeat, and escapes control
//! characters, which could manipulate a terminal or a log.

use berth_wire::keystone::IdentityErrorDocument;
use berth_wire::{decode, printable};
use bytes::Bytes;

use crate::Secret;

const MASK: &str = "***";

/// The text without the secrets and without control characters.
pub(crate) fn shown<'a>(text: &str, secrets: impl IntoIterator<Item = &'a Secret>) -> String {
    let masked = secrets
        .into_iter()
        .map(Secret::reveal)
        .filter(|secret| !secret.is_empty())
        .fold(text.to_owned(), |text, secret| text.replace(secret, MASK));
    printable(&masked).into_owned()
}

/// A message on one line, its first `longest` characters, without the stop at its end.
pub(crate) fn one_line(message: &str, longest: usize) -> String {
    let message = without_tags(message);
    let words: Vec<_> = message.split_whitespace().collect();
    printable(&words.join(" "))
        .trim_end_matches('.')
        .chars()
        .take(longest)
        .collect()
}

/// The message of a refusal that does not come from the service itself: two shapes of keystonemiddleware,
/// or a proxy's page.
pub(crate) fn other_message(body: &[u8]) -> String {
    decode::<IdentityErrorDocument>(body)
        .map(|document| document.error.message)
        .or_else(|_| decode::<BareMessage>(body).map(|bare| bare.message))
        .unwrap_or_else(|_| page_text(&String::from_utf8_lossy(body)))
}

/// What a page says: its title, else its text. Another service's JSON says nothing to a reader.
fn page_text(page: &str) -> String {
    if page.trim_start().starts_with(['{', '[']) {
        return String::new();
    }
    let title = page
        .split_once("<title>")
        .and_then(|(_, rest)| rest.split_once("</title>"));
    title.map_or_else(|| page.to_owned(), |(title, _)| title.to_owned())
}

/// The text without HTML tags.
fn without_tags(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, tag)) = rest.split_once('<') {
        plain.push_str(before);
        let is_tag = tag.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '!');
        match tag.split_once('>').filter(|_| is_tag) {
            Some((_, after)) => {
                plain.push(' ');
                rest = after;
            }
            None => {
                plain.push('<');
                rest = tag;
            }
        }
    }
    plain + rest
}

#[derive(serde::Deserialize)]
struct BareMessage {
    message: String,
}

/// Masks the token in a body.
pub(crate) fn without(body: Bytes, token: &[u8]) -> Bytes {
    let text = String::from_utf8_lossy(&body);
    match std::str::from_utf8(token) {
        Ok(token) if !token.is_empty() && text.contains(token) => text.replace(token, MASK).into(),
        _ => body,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_that_a_service_repeats_is_masked_and_escapes_lose_their_power() {
        let password = Secret::from("hunter2");
        let text = "wrong password hunter2\u{1b}[31m for berth";
        let shown = shown(text, [&password]);
        assert_eq!(shown, r"wrong password ***\u001b[31m for berth");
    }

    #[test]
    fn the_words_of_what_stands_before_a_service_are_found() {
        for (body, text) in [
            (
                r#"{"error": {"code": 401, "message": "a", "title": "T"}}"#,
                "a",
            ),
            (r#"{"message": "b"}"#, "b"),
            ("<h1>c</h1>", "c"),
            (
                "<html>\n<head><title>413 Too Large</title></head><body>nginx</body></html>",
                "413 Too Large",
            ),
            (r#"{"error_message": "{\"faultcode\": \"Client\"}"}"#, ""),
            ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
        ] {
            let message = other_message(body.as_bytes());
            assert_eq!(one_line(&message, 80), text);
        }
        assert_eq!(one_line("It is\n  not so.", 8), "It is no");
        assert_eq!(one_line("It is\u{1b}so.", 80), r"It is\u001bso");
    }

    #[test]
    fn a_body_that_repeats_the_token_is_masked_and_another_stays_as_it_is() {
        let masked = without(Bytes::from_static(b"token gAAAA is bad"), b"gAAAA");
        assert_eq!(masked, "token *** is bad");
        let other = Bytes::from_static(b"\xffno token");
        assert_eq!(without(other.clone(), b"gAAAA"), other);
    }
}
