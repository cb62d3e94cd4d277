//! Label values of `berth_reshapes_total`.

use berth_client::ExchangeOutcome;
use http::StatusCode;

/// Result of a reshape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReshapeResult {
    /// Inventory and allocations were moved.
    Done,
    /// It would be invalid and was not sent.
    Refused,
    Failed,
    /// There was no response, or something changed meanwhile; a new plan is made.
    Interrupted,
}

impl ReshapeResult {
    pub(super) const ALL: [ReshapeResult; 4] = [
        ReshapeResult::Done,
        ReshapeResult::Refused,
        ReshapeResult::Failed,
        ReshapeResult::Interrupted,
    ];

    /// Result of a response to POST /reshaper.
    pub(super) fn of(outcome: ExchangeOutcome) -> Self {
        match outcome {
            ExchangeOutcome::Answered(status) if status.is_success() => ReshapeResult::Done,
            ExchangeOutcome::Answered(StatusCode::CONFLICT | StatusCode::UNAUTHORIZED)
            | ExchangeOutcome::Failed(_) => ReshapeResult::Interrupted,
            ExchangeOutcome::Answered(status) if status.is_server_error() => {
                ReshapeResult::Interrupted
            }
            ExchangeOutcome::Answered(_) => ReshapeResult::Failed,
        }
    }

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            ReshapeResult::Done => "done",
            ReshapeResult::Refused => "refused",
            ReshapeResult::Failed => "failed",
            ReshapeResult::Interrupted => "interrupted",
        }
    }
}
