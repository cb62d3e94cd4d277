//! Whether a project may use a network or a port. Neutron does not decide it, because the calls are an administrator's.

use std::collections::BTreeSet;

use berth_wire::neutron::{NetworkRecord, PortRecord};
use uuid::Uuid;

/// The type of objects that policies share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SharedObjectType {
    Network,
    SecurityGroup,
}

impl SharedObjectType {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::SecurityGroup => "security_group",
        }
    }
}

/// The objects that are shared with a project.
///
/// A network's own field `shared` is about the project of the token, which is the service's project, so it says nothing
/// about others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedObjects {
    project: String,
    ids: BTreeSet<Uuid>,
}

impl SharedObjects {
    #[must_use]
    pub fn new(project: &str, ids: BTreeSet<Uuid>) -> Self {
        Self {
            project: project.to_owned(),
            ids,
        }
    }

    #[must_use]
    pub fn ids(&self) -> &BTreeSet<Uuid> {
        &self.ids
    }

    /// Whether the project owns the network, or it is shared with the project.
    #[must_use]
    pub fn may_use_network(&self, network: &NetworkRecord) -> bool {
        is_of_project(&network.tenant_id, &self.project) || self.ids.contains(&network.id)
    }
}

/// Whether the project owns the port. Ports cannot be shared.
#[must_use]
pub fn port_of_project(port: &PortRecord, project: &str) -> bool {
    is_of_project(&port.tenant_id, project)
}

/// An object without an owner is no project's.
fn is_of_project(owner: &str, project: &str) -> bool {
    !owner.is_empty() && owner == project
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(owner: &str, shared: bool) -> NetworkRecord {
        let text = format!(
            r#"{{"id": "11111111-2222-4333-8444-555555555555", "tenant_id": "{owner}", "shared": {shared}}}"#
        );
        berth_wire::decode(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_project_may_use_its_own_networks_and_those_shared_with_it() {
        let none = SharedObjects::new("a", BTreeSet::new());
        let shared = SharedObjects::new("a", BTreeSet::from([network("b", false).id]));
        assert!(none.may_use_network(&network("a", false)));
        assert!(!none.may_use_network(&network("b", false)));
        assert!(shared.may_use_network(&network("b", false)));
        // Shared with the project of the service's account.
        assert!(!none.may_use_network(&network("b", true)));
        assert!(!SharedObjects::new("", BTreeSet::new()).may_use_network(&network("", false)));
    }
}
