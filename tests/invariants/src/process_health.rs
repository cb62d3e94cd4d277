//! S13: no panic, no unknown exit code, no secret in a text.

use crate::{Exit, InvariantId, SystemSnapshot, Violation};

/// The documented exit codes except 70, which reports a bug and so violates the invariant.
pub const EXIT_CODES: [i32; 10] = [0, 1, 2, 64, 69, 73, 74, 75, 76, 78];

/// How the runtime announces a panic.
const PANIC: &str = "panicked at";

pub(crate) fn s13(snapshot: &SystemSnapshot) -> Vec<Violation> {
    let histories = &snapshot.histories;
    let exits = histories.exits.iter().filter_map(|exit| match exit {
        Exit::Code(code) if EXIT_CODES.contains(code) => None,
        Exit::Code(code) => Some(format!("a process ended with exit code {code}")),
        Exit::Signal(signal) => Some(format!("a process died of signal {signal}")),
        Exit::Killed => None,
    });
    let panics = histories
        .texts
        .iter()
        .filter(|text| text.text.contains(PANIC))
        .map(|text| format!("{} tells of a panic", text.source));
    let secrets = histories.texts.iter().flat_map(|text| {
        let planted = histories.secrets.iter().zip(1..);
        planted
            .filter(|(secret, _)| !secret.is_empty() && text.text.contains(secret.as_str()))
            .map(|(_, number)| format!("{} holds planted secret {number}", text.source))
    });
    exits
        .chain(panics)
        .chain(secrets)
        .map(|finding| Violation::of(InvariantId::S13, finding))
        .collect()
}
