//! [`CloudHosts`]: the operations that a conductor uses on the database of hosts.
//!
//! Implemented by [`Hosts`]. Fault tests wrap the trait to count transactions and to make them fail, as they do with
//! the journal and the agents.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use berth_hosts::{
    ComputeHost, GroupMember, HostError, HostTableError, Hosts, OwnedGuest, PlacedMember,
    RecordError, SchedulingRecord, ServerGroupError, StoredServerGroup,
};
use berth_scheduler::HostState;
use berth_scheduler::host_state::Aggregate;
use uuid::Uuid;

/// Future returned by the methods of [`CloudHosts`].
pub type CloudHostsFuture<'a, T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'a>>;

/// Host states, aggregates, server groups and scheduling records. Each call is one transaction, and is documented at
/// the method of [`Hosts`] of the same name.
pub trait CloudHosts: Send + Sync {
    fn group(&self, group: Uuid) -> CloudHostsFuture<'_, StoredServerGroup, ServerGroupError>;

    fn placement_aggregates(&self) -> CloudHostsFuture<'_, Vec<Arc<Aggregate>>, HostTableError>;

    fn host<'a>(&'a self, host: &'a str) -> CloudHostsFuture<'a, ComputeHost, HostError>;

    fn states<'a>(
        &'a self,
        nodes: &'a [Uuid],
    ) -> CloudHostsFuture<'a, Vec<Arc<HostState>>, HostTableError>;

    fn claim_guest(&self, guest: OwnedGuest) -> CloudHostsFuture<'_, bool, HostTableError>;

    fn release_guest(&self, guest: OwnedGuest) -> CloudHostsFuture<'_, bool, HostTableError>;

    fn unreported_guests(&self) -> CloudHostsFuture<'_, Vec<OwnedGuest>, HostTableError>;

    fn place_member<'a>(
        &'a self,
        member: GroupMember,
        generation: i64,
        host: &'a str,
    ) -> CloudHostsFuture<'a, i64, ServerGroupError>;

    fn confirm_member(&self, member: GroupMember) -> CloudHostsFuture<'_, bool, ServerGroupError>;

    fn remove_member(&self, member: GroupMember) -> CloudHostsFuture<'_, (), ServerGroupError>;

    fn unreported_members(&self) -> CloudHostsFuture<'_, Vec<PlacedMember>, HostTableError>;

    fn remove_stale_member<'a>(
        &'a self,
        placed: &'a PlacedMember,
    ) -> CloudHostsFuture<'a, bool, ServerGroupError>;

    fn insert_record<'a>(
        &'a self,
        request_id: &'a str,
        record: &'a str,
    ) -> CloudHostsFuture<'a, i64, RecordError>;

    fn records_for_request<'a>(
        &'a self,
        request_id: &'a str,
    ) -> CloudHostsFuture<'a, Vec<SchedulingRecord>, RecordError>;
}

impl CloudHosts for Hosts {
    fn group(&self, group: Uuid) -> CloudHostsFuture<'_, StoredServerGroup, ServerGroupError> {
        Box::pin(Hosts::group(self, group))
    }

    fn placement_aggregates(&self) -> CloudHostsFuture<'_, Vec<Arc<Aggregate>>, HostTableError> {
        Box::pin(Hosts::placement_aggregates(self))
    }

    fn host<'a>(&'a self, host: &'a str) -> CloudHostsFuture<'a, ComputeHost, HostError> {
        Box::pin(Hosts::host(self, host))
    }

    fn states<'a>(
        &'a self,
        nodes: &'a [Uuid],
    ) -> CloudHostsFuture<'a, Vec<Arc<HostState>>, HostTableError> {
        Box::pin(Hosts::states(self, nodes))
    }

    fn claim_guest(&self, guest: OwnedGuest) -> CloudHostsFuture<'_, bool, HostTableError> {
        Box::pin(Hosts::claim_guest(self, guest))
    }

    fn release_guest(&self, guest: OwnedGuest) -> CloudHostsFuture<'_, bool, HostTableError> {
        Box::pin(Hosts::release_guest(self, guest))
    }

    fn unreported_guests(&self) -> CloudHostsFuture<'_, Vec<OwnedGuest>, HostTableError> {
        Box::pin(Hosts::unreported_guests(self))
    }

    fn place_member<'a>(
        &'a self,
        member: GroupMember,
        generation: i64,
        host: &'a str,
    ) -> CloudHostsFuture<'a, i64, ServerGroupError> {
        Box::pin(Hosts::place_member(self, member, generation, host))
    }

    fn confirm_member(&self, member: GroupMember) -> CloudHostsFuture<'_, bool, ServerGroupError> {
        Box::pin(Hosts::confirm_member(self, member))
    }

    fn remove_member(&self, member: GroupMember) -> CloudHostsFuture<'_, (), ServerGroupError> {
        Box::pin(Hosts::remove_member(self, member))
    }

    fn unreported_members(&self) -> CloudHostsFuture<'_, Vec<PlacedMember>, HostTableError> {
        Box::pin(Hosts::unreported_members(self))
    }

    fn remove_stale_member<'a>(
        &'a self,
        placed: &'a PlacedMember,
    ) -> CloudHostsFuture<'a, bool, ServerGroupError> {
        Box::pin(Hosts::remove_stale_member(self, placed))
    }

    fn insert_record<'a>(
        &'a self,
        request_id: &'a str,
        record: &'a str,
    ) -> CloudHostsFuture<'a, i64, RecordError> {
        Box::pin(Hosts::insert_record(self, request_id, record))
    }

    fn records_for_request<'a>(
        &'a self,
        request_id: &'a str,
    ) -> CloudHostsFuture<'a, Vec<SchedulingRecord>, RecordError> {
        Box::pin(Hosts::records_for_request(self, request_id))
    }
}
