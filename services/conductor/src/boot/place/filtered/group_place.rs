//! A guest's place in its server group.

use berth_hosts::{GroupMember, KeptServerGroup, ServerGroupError};

use crate::CloudHosts;
use crate::boot::BootError;

/// The guest's place in its server group: written before its claim, so that of any number of guests at once each is placed by a
/// group that has all who came before it.
pub(super) struct GroupPlace<'a> {
    hosts: &'a dyn CloudHosts,
    generation: i64,
    member: GroupMember,
}

impl<'a> GroupPlace<'a> {
    /// Of the group as it was read.
    pub(super) fn new(
        hosts: &'a dyn CloudHosts,
        group: &KeptServerGroup,
        member: GroupMember,
    ) -> Self {
        Self {
            hosts,
            generation: group.generation,
            member,
        }
    }

    /// Whether it could be: not where somebody changed the group since it was read.
    pub(super) async fn put_on(&mut self, host: &str) -> Result<bool, BootError> {
        match self.hosts.place(self.member, self.generation, host).await {
            Ok(next) => {
                self.generation = next;
                Ok(true)
            }
            Err(ServerGroupError::Changed { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
