//! Maps libvirt errors to [`GuestError`].

use berth_model::ConsumerUuid;
use berth_virt::GuestError;
use virt::error::{Error, ErrorDomain, ErrorNumber};

use crate::connection::ConnectionError;

pub(super) fn is(error: &Error, number: ErrorNumber) -> bool {
    error.code().is_known_and(|code| code == number)
}

/// Whether libvirt refused or cannot do it now. A device in use by another guest has no error number of its
/// own, only a message.
pub(super) fn refused(uuid: ConsumerUuid, call: &'static str) -> impl FnOnce(Error) -> GuestError {
    move |error| {
        let mut reason = error.message().to_owned();
        // The host lacks ebtables or nft, or its kernel their modules.
        let is_filter = |domain| matches!(domain, ErrorDomain::Nwfilter | ErrorDomain::Firewall);
        if error.domain().is_known_and(is_filter) {
            reason.push_str("; nwfilter = \"none\" in [libvirt] switches the network filter off");
        }
        let number = |number| is(&error, number);
        if reason.contains(" is in use by ") {
            GuestError::DeviceBusy { uuid, reason }
        } else if [
            ErrorNumber::Rpc,
            ErrorNumber::SystemError,
            // Another call for the same guest is in progress.
            ErrorNumber::OperationTimeout,
        ]
        .into_iter()
        .any(number)
        {
            GuestError::Unreachable {
                target: "libvirt".to_owned(),
                reason: format!("{call}: {reason}"),
            }
        } else if number(ErrorNumber::OperationInvalid) {
            GuestError::Changed { uuid, call, reason }
        } else {
            GuestError::Refused { uuid, call, reason }
        }
    }
}

impl From<ConnectionError> for GuestError {
    fn from(error: ConnectionError) -> Self {
        match error {
            ConnectionError::TimedOut { uri, call, limit } => GuestError::TimedOut {
                target: uri,
                call,
                limit,
            },
            ConnectionError::Open { uri, source } => GuestError::Unreachable {
                target: uri,
                reason: source.message().to_owned(),
            },
            other => GuestError::Unreachable {
                target: "libvirt".to_owned(),
                reason: other.to_string(),
            },
        }
    }
}
