//! Decides how to continue after a boot attempt failed: retry the step, or undo the attempt and try again or fail.
//! Pure.

use berth_model::Disposition;

use crate::ConductorOptions;
use crate::boot::BootError;
use crate::journal::{AfterUndo, BootRecord, FailedAttempt};

/// Whether a blocked boot may still wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryBudget {
    Remaining,
    /// The retry timeout is over.
    Exhausted,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FailureDecision {
    /// Repeat the step later.
    Wait,
    Undo {
        /// The failed attempt as recorded in the journal.
        failed: FailedAttempt,
        then: AfterUndo,
    },
}

/// Decides after `error`, for a boot with this record.
pub(super) fn decide(
    error: &BootError,
    record: &BootRecord,
    options: &ConductorOptions,
    patience: RetryBudget,
) -> FailureDecision {
    let more = record.attempt < options.max_attempts;
    let is_retried = error.disposition() == Disposition::Retry;
    // For a temporary failure of a device, other candidates are tried first.
    let is_passing_first = is_retried && error.is_temporary() && more && is_first(record);
    if is_retried && patience == RetryBudget::Remaining && !is_passing_first {
        return FailureDecision::Wait;
    }
    let then = match error.disposition() {
        _ if !more => AfterUndo::Fail,
        Disposition::Refresh => AfterUndo::Retry,
        // An unavailable agent affects one host; an unavailable service affects all hosts.
        Disposition::Retry if is_passing_first || error.is_agent_failure() => AfterUndo::Retry,
        Disposition::Retry | Disposition::Fatal => AfterUndo::Fail,
    };
    let reason = match is_retried && !is_passing_first {
        true => {
            let waited = options.retry_timeout.as_secs();
            format!("{error} (timed out after {waited} s: [conductor_service] retry_timeout)")
        }
        false => error.to_string(),
    };
    let chosen = record.chosen(record.attempt);
    let avoid = chosen
        .filter(|_| error.avoids_claimed_devices())
        .map(|chosen| {
            let devices = chosen.devices();
            match devices.is_empty() || error.avoids_host() {
                true => vec![*chosen.host.as_uuid()],
                false => devices,
            }
        });
    let failed = FailedAttempt {
        node: chosen.map(|chosen| chosen.node.to_string()),
        host: chosen.and_then(|chosen| chosen.host_name.clone()),
        cell: chosen.and_then(|chosen| chosen.cell.clone()),
        reason,
        user_message: Some(error.user_message()),
        avoid: avoid.unwrap_or_default(),
        passes: error.is_temporary(),
    };
    FailureDecision::Undo { failed, then }
}

/// Whether no earlier attempt failed for a temporary reason.
fn is_first(record: &BootRecord) -> bool {
    record.failures.iter().all(|failed| !failed.passes)
}

#[cfg(test)]
mod tests;
