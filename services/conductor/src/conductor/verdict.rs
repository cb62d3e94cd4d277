//! What follows where a boot did not come to its end: it waits, or its attempt is taken back, for the next one or for good. Pure.

use berth_model::Disposition;

use super::ConductorOptions;
use crate::boot::BootError;
use crate::journal::{BootRecord, FailedAttempt, Then};

/// Whether a boot may stand still where it is for longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    Left,
    /// It has stood there for as long as it may.
    Over,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The same step again, later.
    Wait,
    /// The attempt is taken back.
    TakeBack {
        /// As it is written down.
        failed: FailedAttempt,
        then: Then,
    },
}

/// Of an error of a boot, and of how far the boot came until then.
pub(super) fn verdict(
    error: &BootError,
    record: &BootRecord,
    options: &ConductorOptions,
    patience: Patience,
) -> Verdict {
    let more = record.attempt < options.max_attempts;
    let is_retried = error.disposition() == Disposition::Retry;
    // What passes is waited for only where others were tried.
    let is_passing_first = is_retried && error.passes() && more && is_first(record);
    if is_retried && patience == Patience::Left && !is_passing_first {
        return Verdict::Wait;
    }
    let then = match error.disposition() {
        _ if !more => Then::Fail,
        Disposition::Refresh => Then::Again,
        // Another host has another agent; a service that is away is away for all hosts.
        Disposition::Retry if is_passing_first || error.is_of_the_agent() => Then::Again,
        Disposition::Retry | Disposition::Fatal => Then::Fail,
    };
    let reason = match is_retried && !is_passing_first {
        true => {
            let waited = options.patience.as_secs();
            format!("{error} (waited for {waited} s: [conductor_service] retry_timeout)")
        }
        false => error.to_string(),
    };
    let chosen = record.chosen(record.attempt);
    let avoid = chosen.filter(|_| error.blames_the_claim()).map(|chosen| {
        let devices = chosen.devices();
        match devices.is_empty() || error.blames_the_host() {
            true => vec![*chosen.host.as_uuid()],
            false => devices,
        }
    });
    let failed = FailedAttempt {
        node: chosen.map(|chosen| chosen.node.to_string()),
        host: chosen.and_then(|chosen| chosen.host_name.clone()),
        cell: chosen.and_then(|chosen| chosen.cell.clone()),
        reason,
        told: Some(error.told()),
        avoid: avoid.unwrap_or_default(),
        passes: error.passes(),
    };
    Verdict::TakeBack { failed, then }
}

/// Whether nothing that passes by itself was in the way of an earlier attempt.
fn is_first(record: &BootRecord) -> bool {
    record.failures.iter().all(|failed| !failed.passes)
}

#[cfg(test)]
mod tests;
