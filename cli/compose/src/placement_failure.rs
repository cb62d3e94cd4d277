//! Failed calls of Placement as failures of a command. The kind of error decides the error number, and so the exit
//! code.

use berth_agent_tracker::startup::StartupError;
use berth_client::{AuthError, Disposition, PlacementError, ServiceCallError};
use berth_output::{ErrorCode, Failure};

/// The code of a failed call of Placement.
#[must_use]
pub fn placement_error_code(error: &PlacementError) -> ErrorCode {
    if error.disposition() != Disposition::Fatal {
        return ErrorCode::Unavailable;
    }
    match error {
        PlacementError::Forbidden { .. } => ErrorCode::Forbidden,
        PlacementError::Unauthorized(_) => ErrorCode::Unauthorized,
        PlacementError::TooOld { .. } => ErrorCode::Microversion,
        PlacementError::NameTaken(_) => ErrorCode::Identity,
        PlacementError::Refused(refusal) if refusal.status.as_u16() == 400 => {
            ErrorCode::RequestRefused
        }
        PlacementError::Refused(refusal) if refusal.status.as_u16() == 409 => ErrorCode::Refused,
        PlacementError::Call(ServiceCallError::Auth(AuthError::Refused {
            status: 401, ..
        })) => ErrorCode::Unauthorized,
        // A certificate that cannot be read, or a request that cannot be built from the options.
        PlacementError::Call(
            ServiceCallError::Transport { .. } | ServiceCallError::AnswerLost { .. },
        )
        | PlacementError::Call(ServiceCallError::Auth(AuthError::Transport { .. })) => {
            ErrorCode::BadValue
        }
        _ => ErrorCode::Endpoint,
    }
}

pub fn placement_failure(error: PlacementError) -> Failure {
    let code = placement_error_code(&error);
    Failure::caused(code, "the request to Placement failed", &error)
}

/// The failure of a node's startup, real or previewed.
pub fn startup_failure(error: &StartupError) -> Failure {
    let code = if error.is_reshape_failed() {
        ErrorCode::ReshapeFailed
    } else {
        error
            .placement()
            .map_or(ErrorCode::Unavailable, placement_error_code)
    };
    Failure::caused(code, "the node's startup would fail", error)
}
