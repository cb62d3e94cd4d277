//! Places a guest in its server group by compare-and-swap.

use berth_hosts::{GroupMember, ServerGroupError, StoredServerGroup};

use crate::CloudHosts;
use crate::boot::BootError;

/// A guest's placement in its server group. It is written before the claim, so that concurrent boots of the
/// group see each other.
pub(super) struct GroupPlacement<'a> {
    hosts: &'a dyn CloudHosts,
    generation: i64,
    member: GroupMember,
}

impl<'a> GroupPlacement<'a> {
    /// For a group with the generation that was read.
    pub(super) fn new(
        hosts: &'a dyn CloudHosts,
        group: &StoredServerGroup,
        member: GroupMember,
    ) -> Self {
        Self {
            hosts,
            generation: group.generation,
            member,
        }
    }

    /// Places the guest on a host. Returns `false` if the group was changed since it was read.
    pub(super) async fn set_host(&mut self, host: &str) -> Result<bool, BootError> {
        match self
            .hosts
            .place_member(self.member, self.generation, host)
            .await
        {
            Ok(next) => {
                self.generation = next;
                Ok(true)
            }
            Err(ServerGroupError::Changed { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
