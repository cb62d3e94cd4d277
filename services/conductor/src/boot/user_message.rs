//! Error messages for users: without names and numbers of hosts, filters, addresses and hypervisor errors.
//!
//! [`BootError::user_message`] gives only the kind of a failure. Errors in the request itself are shown completely.

use berth_client::placement::ClaimError;
use berth_hosts::ServerGroupError;
use berth_model::Disposition;

use super::BootError;

impl BootError {
    /// The message for users.
    pub(crate) fn user_message(&self) -> String {
        let kind = match self {
            Self::NoValidHost(why) => return format!("No valid host was found: {}", why.user),
            Self::HostsNotReported(why) => {
                return format!("No valid host was found yet: {}", why.user);
            }
            // Errors in the user's own request or resources.
            Self::NoProfile(_)
            | Self::Groups(_)
            | Self::Request(_)
            | Self::OwnedByOther(_)
            | Self::GroupBusy(_)
            | Self::GroupPlaceLost
            | Self::ClaimLost
            | Self::NoMapping(_)
            | Self::NoPortMapping { .. }
            | Self::Cancelled
            | Self::PortRefused(_)
            | Self::PortBusy(_)
            | Self::Claim(ClaimError::HoldsOther { .. } | ClaimError::NoAllocations { .. })
            | Self::Group(
                ServerGroupError::NotFound { .. } | ServerGroupError::OtherGroup { .. },
            ) => return self.to_string(),
            Self::NotAccepted(error) => {
                let refusal = error.refusal().map(|it| it.message.as_str());
                let sentence = refusal.filter(|it| !it.is_empty());
                return format!(
                    "the request is not accepted: {}",
                    sentence.unwrap_or("the agent gave no reason")
                );
            }
            // A fatal refusal is about the project's own addresses and quota.
            Self::Network(error)
                if error.disposition() == Disposition::Fatal && error.refusal().is_some() =>
            {
                return error.what();
            }
            Self::Network(_) | Self::PortsUnknown(_) => {
                "the network service did not answer as expected"
            }
            Self::NoNetworkService => "there is no network service",
            Self::PortNotBound(_) => "a port could not be bound to the selected host",
            Self::AllTaken(_) | Self::Claim(ClaimError::Taken(_)) => {
                "No valid host was found: the selected host was claimed by another request"
            }
            Self::Placement(_) | Self::Claim(ClaimError::Placement(_)) => {
                "Placement did not answer as expected"
            }
            Self::Accelerator(_) | Self::ArqsUnknown(_) => {
                "the accelerator service did not answer as expected"
            }
            Self::Journal(_) | Self::Hosts(_) | Self::Group(_) => {
                "the database of hosts and guests is not available"
            }
            Self::Agent(_) | Self::NoAgent(_) => "the selected host did not answer",
            Self::NotBound(_) => "its accelerator requests could not be bound",
            Self::ArqsGone(_) => "its accelerator requests no longer exist",
            Self::NotReady(_) => "its devices were not ready in time",
            Self::NotBuilt(_) | Self::HostCannot(_) => "the selected host could not build it",
            Self::BadImage(_) => "its image is unusable on any host",
        };
        kind.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::NoHostReason;

    /// Messages for operators may contain host names; messages for users never do.
    #[test]
    fn users_see_the_kind_of_a_failure_but_no_host() {
        let on_host = || "compute17: internal error: qemu".to_owned();
        let why = NoHostReason::new(
            "of 1 hosts, ComputeFilter rejected 1 (compute17: it is disabled)".to_owned(),
            "no host with room fits the request".to_owned(),
        );
        for (error, expected) in [
            (
                BootError::NoValidHost(why),
                "No valid host was found: no host with room fits the request",
            ),
            (
                BootError::NotBuilt(on_host()),
                "the selected host could not build it",
            ),
            (
                BootError::HostCannot(on_host()),
                "the selected host could not build it",
            ),
            (
                BootError::NotBound(on_host()),
                "its accelerator requests could not be bound",
            ),
            (
                BootError::NoAgent("compute17".to_owned()),
                "the selected host did not answer",
            ),
            (
                BootError::BadImage(on_host()),
                "its image is unusable on any host",
            ),
        ] {
            assert!(error.to_string().contains("compute17"), "{error}");
            assert_eq!(error.user_message(), expected);
        }
    }
}
