//! What users are told of a boot that came to nothing: no host's name, no address of the cloud's, nothing in a hypervisor's words. What
//! is wrong with the request itself they are told whole.

use std::fmt;

use berth_client::placement::ClaimError;
use berth_hosts::ServerGroupError;

use super::BootError;

/// Why there is no host, for operators and for users. Shown, it is the operators' sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoHostWhy {
    all: String,
    told: String,
}

impl NoHostWhy {
    /// Of a sentence with hosts in it, and the same without.
    #[must_use]
    pub fn new(all: String, told: String) -> Self {
        Self { all, told }
    }
}

/// Of a sentence without hosts.
impl From<String> for NoHostWhy {
    fn from(all: String) -> Self {
        let told = all.clone();
        Self { all, told }
    }
}

impl fmt::Display for NoHostWhy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.all)
    }
}

impl BootError {
    /// What users are told of it.
    pub(crate) fn told(&self) -> String {
        let kind = match self {
            Self::NoValidHost(why) => return format!("No valid host was found: {}", why.told),
            Self::HostsSilent(why) => return format!("No valid host was found yet: {}", why.told),
            // Of the request, or of what the user has already.
            Self::NoProfile(_)
            | Self::Groups(_)
            | Self::Request(_)
            | Self::AllTaken(_)
            | Self::OtherConductors(_)
            | Self::GroupBusy(_)
            | Self::PlaceLost
            | Self::ClaimLost
            | Self::NoMapping(_)
            | Self::Cancelled
            | Self::Claim(ClaimError::HoldsOther { .. })
            | Self::Group(
                ServerGroupError::NotFound { .. } | ServerGroupError::OtherGroup { .. },
            ) => return self.to_string(),
            Self::NotAccepted(error) => {
                let refusal = error.refusal().map(|it| it.message.as_str());
                let sentence = refusal.filter(|it| !it.is_empty());
                return format!(
                    "the request is not accepted: {}",
                    sentence.unwrap_or("it does not say why")
                );
            }
            Self::Claim(ClaimError::Taken(_)) => {
                "No valid host was found: what was chosen was taken meanwhile"
            }
            Self::Placement(_) | Self::Claim(ClaimError::Placement(_)) => {
                "Placement did not answer as hoped"
            }
            Self::Accelerator(_) | Self::RequestsUnknown(_) => {
                "the accelerator service did not answer as hoped"
            }
            Self::Journal(_) | Self::Hosts(_) | Self::Group(_) => {
                "what is known of hosts and guests could not be read or written"
            }
            Self::Agent(_) | Self::NoAgent(_) => "the host that was chosen did not answer",
            Self::NotBound(_) => "its accelerator requests could not be bound",
            Self::RequestsGone(_) => "its accelerator requests are not there any more",
            Self::NotReady(_) => "its devices were not ready in time",
            Self::NotBuilt(_) | Self::HostCannot(_) => {
                "the host that was chosen could not build it"
            }
            Self::BadImage(_) => "its image cannot be used, by any host",
        };
        kind.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use berth_model::NodeName;

    use super::*;

    /// What operators are told may name hosts, what users are told never does.
    #[test]
    fn users_are_told_the_kind_of_a_failure_and_no_host() {
        let on_host = || "compute17: internal error: qemu".to_owned();
        let node = NodeName::new("compute17").unwrap();
        let why = NoHostWhy::new(
            "of 1 hosts, ComputeFilter rejected 1 (compute17: it is disabled)".to_owned(),
            "of 1 hosts, ComputeFilter rejected 1".to_owned(),
        );
        for (error, told) in [
            (
                BootError::NoValidHost(why),
                "No valid host was found: of 1 hosts, ComputeFilter rejected 1",
            ),
            (
                BootError::NotBuilt(on_host()),
                "the host that was chosen could not build it",
            ),
            (
                BootError::HostCannot(on_host()),
                "the host that was chosen could not build it",
            ),
            (
                BootError::NotBound(on_host()),
                "its accelerator requests could not be bound",
            ),
            (
                BootError::NoAgent(node),
                "the host that was chosen did not answer",
            ),
            (
                BootError::BadImage(on_host()),
                "its image cannot be used, by any host",
            ),
        ] {
            assert!(error.to_string().contains("compute17"), "{error}");
            assert_eq!(error.told(), told);
        }
    }
}
