//! Which candidate is tried first.

use berth_client::placement::Candidate;
use berth_model::{NodeName, ProviderUuid};

use crate::BootRequest;

/// A host with the candidates that Placement found on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCandidates {
    /// The host's own provider.
    pub host: ProviderUuid,
    /// Its node.
    pub node: NodeName,
    /// Its candidates; each is tried before the host is given up.
    pub candidates: Vec<Candidate>,
}

/// Who says which host and which of its candidates come first. What is left out is not tried.
pub trait Scheduler: Send + Sync {
    /// The hosts, best first, each with its candidates, best first.
    fn order(&self, request: &BootRequest, hosts: Vec<HostCandidates>) -> Vec<HostCandidates>;
}

/// Hosts as Placement answered them; of a host's candidates each guest begins at another one, so that guests that are asked for
/// at the same time do not all want the same device.
#[derive(Debug, Clone, Copy, Default)]
pub struct AsAnswered;

impl Scheduler for AsAnswered {
    fn order(&self, request: &BootRequest, mut hosts: Vec<HostCandidates>) -> Vec<HostCandidates> {
        let uuid = request.uuid();
        let throw = uuid.as_uuid().as_bytes().iter().fold(0usize, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(usize::from(*byte))
        });
        for host in &mut hosts {
            let count = host.candidates.len();
            if count > 0 {
                host.candidates.rotate_left(throw % count);
            }
        }
        hosts
    }
}
