//! A guest's place in its server group.

use berth_hosts::{KeptServerGroup, ServerGroupError};
use uuid::Uuid;

use crate::CloudHosts;
use crate::boot::BootError;

/// The guest's place in its server group: written before its claim, so that of any number of guests at once each is placed by a
/// group that has all who came before it.
pub(super) struct GroupPlace<'a> {
    hosts: &'a dyn CloudHosts,
    group: Uuid,
    generation: i64,
    guest: Uuid,
}

impl<'a> GroupPlace<'a> {
    /// Of the group as it was read.
    pub(super) fn new(hosts: &'a dyn CloudHosts, group: &KeptServerGroup, guest: Uuid) -> Self {
        Self {
            hosts,
            group: group.uuid,
            generation: group.generation,
            guest,
        }
    }

    /// Whether it could be: not where somebody changed the group since it was read.
    pub(super) async fn put_on(&mut self, host: &str) -> Result<bool, BootError> {
        let Self {
            hosts,
            group,
            generation,
            guest,
        } = self;
        match hosts.place(*group, *generation, *guest, host).await {
            Ok(next) => {
                *generation = next;
                Ok(true)
            }
            Err(ServerGroupError::Changed { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
