//! The conductor's view of hosts and server groups, with fault injection.

use std::sync::Arc;

use berth_conductor::{CloudHosts, CloudHostsFuture};
use berth_hosts::{
    ComputeHost, GroupMember, HostError, HostTableError, Hosts, OwnedGuest, PlacedMember,
    RecordError, SchedulingRecord, ServerGroupError, StoredServerGroup,
};
use berth_scheduler::HostState;
use berth_scheduler::host_state::Aggregate;
use berth_store::{Disposition, SqlError};
use uuid::Uuid;

use super::ConductorEffects;
use super::effects::FaultAnswer;

/// As of a connection that is lost while a transaction is committed: no store runs that again.
fn lost() -> SqlError {
    SqlError::Ended {
        disposition: Disposition::Fatal,
    }
}

impl<T> FaultAnswer for Result<T, HostTableError> {
    fn failed() -> Self {
        Err(lost().into())
    }
}

impl<T> FaultAnswer for Result<T, HostError> {
    fn failed() -> Self {
        Err(HostError::Table(lost().into()))
    }
}

impl<T> FaultAnswer for Result<T, ServerGroupError> {
    fn failed() -> Self {
        Err(lost().into())
    }
}

impl<T> FaultAnswer for Result<T, RecordError> {
    fn failed() -> Self {
        Err(lost().into())
    }
}

pub(super) struct FaultyCloudHosts {
    hosts: Hosts,
    effects: ConductorEffects,
}

impl FaultyCloudHosts {
    pub(super) fn new(hosts: Hosts, effects: ConductorEffects) -> Self {
        Self { hosts, effects }
    }

    fn perform<'a, T: 'a, E: 'a>(
        &'a self,
        what: &str,
        effect: CloudHostsFuture<'a, T, E>,
    ) -> CloudHostsFuture<'a, T, E>
    where
        Result<T, E>: FaultAnswer + Send,
    {
        Box::pin(self.effects.perform(format!("hosts {what}"), effect))
    }
}

impl CloudHosts for FaultyCloudHosts {
    fn group(&self, group: Uuid) -> CloudHostsFuture<'_, StoredServerGroup, ServerGroupError> {
        self.perform("group", CloudHosts::group(&self.hosts, group))
    }

    fn placement_aggregates(&self) -> CloudHostsFuture<'_, Vec<Arc<Aggregate>>, HostTableError> {
        let effect = CloudHosts::placement_aggregates(&self.hosts);
        self.perform("aggregates", effect)
    }

    fn host<'a>(&'a self, host: &'a str) -> CloudHostsFuture<'a, ComputeHost, HostError> {
        self.perform("host", CloudHosts::host(&self.hosts, host))
    }

    fn states<'a>(
        &'a self,
        nodes: &'a [Uuid],
    ) -> CloudHostsFuture<'a, Vec<Arc<HostState>>, HostTableError> {
        self.perform("states", CloudHosts::states(&self.hosts, nodes))
    }

    fn place_member<'a>(
        &'a self,
        member: GroupMember,
        generation: i64,
        host: &'a str,
    ) -> CloudHostsFuture<'a, i64, ServerGroupError> {
        let effect = CloudHosts::place_member(&self.hosts, member, generation, host);
        self.perform("place", effect)
    }

    fn claim_guest(&self, guest: OwnedGuest) -> CloudHostsFuture<'_, bool, HostTableError> {
        self.perform("own", CloudHosts::claim_guest(&self.hosts, guest))
    }

    fn release_guest(&self, guest: OwnedGuest) -> CloudHostsFuture<'_, bool, HostTableError> {
        self.perform(
            "release_guest",
            CloudHosts::release_guest(&self.hosts, guest),
        )
    }

    fn unreported_guests(&self) -> CloudHostsFuture<'_, Vec<OwnedGuest>, HostTableError> {
        let effect = CloudHosts::unreported_guests(&self.hosts);
        self.perform("unreported_guests", effect)
    }

    fn confirm_member(&self, member: GroupMember) -> CloudHostsFuture<'_, bool, ServerGroupError> {
        self.perform("claimed", CloudHosts::confirm_member(&self.hosts, member))
    }

    fn unreported_members(&self) -> CloudHostsFuture<'_, Vec<PlacedMember>, HostTableError> {
        let effect = CloudHosts::unreported_members(&self.hosts);
        self.perform("unreported_members", effect)
    }

    fn remove_stale_member<'a>(
        &'a self,
        placed: &'a PlacedMember,
    ) -> CloudHostsFuture<'a, bool, ServerGroupError> {
        if self.effects.keeps_members() {
            return Box::pin(async { Ok(false) });
        }
        let effect = CloudHosts::remove_stale_member(&self.hosts, placed);
        self.perform("remove_stale_member", effect)
    }

    fn remove_member(&self, member: GroupMember) -> CloudHostsFuture<'_, (), ServerGroupError> {
        if self.effects.keeps_members() {
            return Box::pin(async { Ok(()) });
        }
        self.perform(
            "remove_member",
            CloudHosts::remove_member(&self.hosts, member),
        )
    }

    fn insert_record<'a>(
        &'a self,
        request_id: &'a str,
        record: &'a str,
    ) -> CloudHostsFuture<'a, i64, RecordError> {
        let effect = CloudHosts::insert_record(&self.hosts, request_id, record);
        self.perform("insert_record", effect)
    }

    fn records_for_request<'a>(
        &'a self,
        request_id: &'a str,
    ) -> CloudHostsFuture<'a, Vec<SchedulingRecord>, RecordError> {
        self.perform(
            "records_for_request",
            CloudHosts::records_for_request(&self.hosts, request_id),
        )
    }
}
