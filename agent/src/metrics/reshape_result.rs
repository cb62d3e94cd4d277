//! What `berth_reshapes_total` says of a reshape.

use berth_client::ExchangeOutcome;
use http::StatusCode;

/// What came of a reshape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReshapeResult {
    /// Inventory and allocations moved.
    Done,
    /// It would not have been lawful; nothing was sent.
    Refused,
    Failed,
    /// It got no answer, or something was changed meanwhile; it is planned anew.
    Interrupted,
}

impl ReshapeResult {
    pub(super) const ALL: [ReshapeResult; 4] = [
        ReshapeResult::Done,
        ReshapeResult::Refused,
        ReshapeResult::Failed,
        ReshapeResult::Interrupted,
    ];

    /// What the answer to POST /reshaper means.
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
