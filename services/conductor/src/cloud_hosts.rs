//! What a conductor reads and writes of what the cloud knows of its hosts.
//!
//! [`Hosts`] is all of it, over its database. The trait is the edge at which each transaction with that database can be counted
//! and failed, as the journal's and the agents' are. Callers: `destinations` (has it), `boot`, `undo`, the fault tests.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use berth_hosts::{
    ComputeHost, GroupMember, HostError, Hosts, KeptServerGroup, OwnedGuest, PlacedMember,
    RecordError, SchedulingRecord, ServerGroupError, TableError,
};
use berth_scheduler::HostState;
use berth_scheduler::host_state::Aggregate;
use uuid::Uuid;

/// What a call of [`CloudHosts`] comes to.
pub type HostsAnswer<'a, T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'a>>;

/// The states of hosts, aggregates, server groups, and the records of decisions. Each call is one transaction; each is
/// [`Hosts`]'s of the same name.
pub trait CloudHosts: Send + Sync {
    /// [`Hosts::group`].
    fn group(&self, group: Uuid) -> HostsAnswer<'_, KeptServerGroup, ServerGroupError>;

    /// [`Hosts::placement_aggregates`].
    fn placement_aggregates(&self) -> HostsAnswer<'_, Vec<Arc<Aggregate>>, TableError>;

    /// [`Hosts::host`].
    fn host<'a>(&'a self, host: &'a str) -> HostsAnswer<'a, ComputeHost, HostError>;

    /// [`Hosts::states`].
    fn states<'a>(&'a self, nodes: &'a [Uuid]) -> HostsAnswer<'a, Vec<Arc<HostState>>, TableError>;

    /// [`Hosts::own`].
    fn own(&self, guest: OwnedGuest) -> HostsAnswer<'_, bool, TableError>;

    /// [`Hosts::disown`].
    fn disown(&self, guest: OwnedGuest) -> HostsAnswer<'_, bool, TableError>;

    /// [`Hosts::untold_guests`].
    fn untold_guests(&self) -> HostsAnswer<'_, Vec<OwnedGuest>, TableError>;

    /// [`Hosts::place`].
    fn place<'a>(
        &'a self,
        member: GroupMember,
        generation: i64,
        host: &'a str,
    ) -> HostsAnswer<'a, i64, ServerGroupError>;

    /// [`Hosts::claimed`].
    fn claimed(&self, member: GroupMember) -> HostsAnswer<'_, bool, ServerGroupError>;

    /// [`Hosts::unplace`].
    fn unplace(&self, member: GroupMember) -> HostsAnswer<'_, (), ServerGroupError>;

    /// [`Hosts::untold_members`].
    fn untold_members(&self) -> HostsAnswer<'_, Vec<PlacedMember>, TableError>;

    /// [`Hosts::remove_absent`].
    fn remove_absent<'a>(
        &'a self,
        placed: &'a PlacedMember,
    ) -> HostsAnswer<'a, bool, ServerGroupError>;

    /// [`Hosts::put_record`].
    fn put_record<'a>(
        &'a self,
        request_id: &'a str,
        record: &'a str,
    ) -> HostsAnswer<'a, i64, RecordError>;

    /// [`Hosts::records_of`].
    fn records_of<'a>(
        &'a self,
        request_id: &'a str,
    ) -> HostsAnswer<'a, Vec<SchedulingRecord>, RecordError>;
}

impl CloudHosts for Hosts {
    fn group(&self, group: Uuid) -> HostsAnswer<'_, KeptServerGroup, ServerGroupError> {
        Box::pin(Hosts::group(self, group))
    }

    fn placement_aggregates(&self) -> HostsAnswer<'_, Vec<Arc<Aggregate>>, TableError> {
        Box::pin(Hosts::placement_aggregates(self))
    }

    fn host<'a>(&'a self, host: &'a str) -> HostsAnswer<'a, ComputeHost, HostError> {
        Box::pin(Hosts::host(self, host))
    }

    fn states<'a>(&'a self, nodes: &'a [Uuid]) -> HostsAnswer<'a, Vec<Arc<HostState>>, TableError> {
        Box::pin(Hosts::states(self, nodes))
    }

    fn own(&self, guest: OwnedGuest) -> HostsAnswer<'_, bool, TableError> {
        Box::pin(Hosts::own(self, guest))
    }

    fn disown(&self, guest: OwnedGuest) -> HostsAnswer<'_, bool, TableError> {
        Box::pin(Hosts::disown(self, guest))
    }

    fn untold_guests(&self) -> HostsAnswer<'_, Vec<OwnedGuest>, TableError> {
        Box::pin(Hosts::untold_guests(self))
    }

    fn place<'a>(
        &'a self,
        member: GroupMember,
        generation: i64,
        host: &'a str,
    ) -> HostsAnswer<'a, i64, ServerGroupError> {
        Box::pin(Hosts::place(self, member, generation, host))
    }

    fn claimed(&self, member: GroupMember) -> HostsAnswer<'_, bool, ServerGroupError> {
        Box::pin(Hosts::claimed(self, member))
    }

    fn unplace(&self, member: GroupMember) -> HostsAnswer<'_, (), ServerGroupError> {
        Box::pin(Hosts::unplace(self, member))
    }

    fn untold_members(&self) -> HostsAnswer<'_, Vec<PlacedMember>, TableError> {
        Box::pin(Hosts::untold_members(self))
    }

    fn remove_absent<'a>(
        &'a self,
        placed: &'a PlacedMember,
    ) -> HostsAnswer<'a, bool, ServerGroupError> {
        Box::pin(Hosts::remove_absent(self, placed))
    }

    fn put_record<'a>(
        &'a self,
        request_id: &'a str,
        record: &'a str,
    ) -> HostsAnswer<'a, i64, RecordError> {
        Box::pin(Hosts::put_record(self, request_id, record))
    }

    fn records_of<'a>(
        &'a self,
        request_id: &'a str,
    ) -> HostsAnswer<'a, Vec<SchedulingRecord>, RecordError> {
        Box::pin(Hosts::records_of(self, request_id))
    }
}
