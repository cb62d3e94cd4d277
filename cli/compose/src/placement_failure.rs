//! Failed calls of Placement as failures of a command. The kind of error decides the error number, and so the exit
//! code.

use berth_agent_tracker::propose::ProposeError;
use berth_agent_tracker::startup::StartupError;
use berth_client::{AuthError, Disposition, PlacementError, ServiceCallError};
use berth_output::{ErrorCode, Failure};
use berth_virt::ObserveError;

/// The code of a failed call of Placement.
#[must_use]
pub fn placement_error_code(error: &PlacementError) -> ErrorCode {
    if error.disposition() != Disposition::Fatal {
        return ErrorCode::Unavailable;
    }
    match error {
        PlacementError::Forbidden { .. } => ErrorCode::Forbidden,
        PlacementError::Unauthorized { .. } => ErrorCode::Unauthorized,
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
    failure_of_placement(placement_error_code(&error), &error)
}

/// The failure of a call of Placement, without the operations around it, which the user did not ask for.
pub(crate) fn failure_of_placement(code: ErrorCode, error: &PlacementError) -> Failure {
    match error {
        PlacementError::Call(call) => call_failure(code, call, "placement"),
        _ => with_hint(Failure::new(code, error.what()), error.hint()),
    }
}

/// The failure of a call of a service that gave no answer. `section` has the options of its client.
pub fn call_failure(code: ErrorCode, error: &ServiceCallError, section: &str) -> Failure {
    with_hint(Failure::new(code, error.what()), error.hint(section))
}

fn with_hint(failure: Failure, hint: Option<String>) -> Failure {
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// The failure of a node's startup, real or previewed.
pub fn startup_failure(error: &StartupError) -> Failure {
    match error.placement() {
        _ if error.is_reshape_failed() => Failure::caused(
            ErrorCode::ReshapeFailed,
            "the node's startup would fail",
            error,
        ),
        Some(placement) => failure_of_placement(placement_error_code(placement), placement),
        None => propose_failure(error.propose(), error),
    }
}

/// The failure of a plan that could not be made; the provider files are part of the configuration.
fn propose_failure(
    propose: Option<&ProposeError>,
    error: &(dyn std::error::Error + 'static),
) -> Failure {
    match propose {
        Some(ProposeError::ProviderFiles(_)) => {
            Failure::from_error(ErrorCode::Contradiction, error).hint("berth config check")
        }
        Some(ProposeError::Applied(_)) => Failure::from_error(ErrorCode::State, error),
        _ => Failure::caused(
            ErrorCode::Unavailable,
            "the node's startup would fail",
            error,
        ),
    }
}

/// The failure of an observation.
pub fn observe_failure(error: &ObserveError) -> Failure {
    let code = match error.disposition() {
        Disposition::Fatal => ErrorCode::Driver,
        Disposition::Retry | Disposition::Refresh => ErrorCode::Unavailable,
    };
    let failure = Failure::from_error(code, error);
    match error {
        ObserveError::Unreachable { target, .. } if target.contains(":///") => {
            failure.hint("systemctl enable --now libvirtd; without libvirt: --machine FILE")
        }
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_libvirtd_has_the_command_that_starts_it() {
        let error = ObserveError::Unreachable {
            target: "qemu:///system".to_owned(),
            reason: "Failed to connect socket to '/run/libvirt/libvirt-sock'".to_owned(),
        };
        assert_eq!(
            observe_failure(&error).explain(),
            "error: the hypervisor at qemu:///system does not answer: Failed to connect socket to \
             '/run/libvirt/libvirt-sock' [BERTH-E0301]\n\
             hint: systemctl enable --now libvirtd; without libvirt: --machine FILE\n"
        );
    }
}
