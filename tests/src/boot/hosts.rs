//! What is known of hosts and server groups, behind the crossings.

use std::sync::Arc;

use berth_conductor::{CloudHosts, HostsAnswer};
use berth_hosts::{
    ComputeHost, GroupMember, HostError, Hosts, KeptServerGroup, OwnedGuest, PlacedMember,
    RecordError, SchedulingRecord, ServerGroupError, TableError,
};
use berth_scheduler::HostState;
use berth_scheduler::host_state::Aggregate;
use berth_store::{Disposition, SqlError};
use uuid::Uuid;

use super::Crossings;
use super::crossings::Fails;

/// As of a connection that is lost while a transaction is committed: no store runs that again.
fn lost() -> SqlError {
    SqlError::Ended {
        disposition: Disposition::Fatal,
    }
}

impl<T> Fails for Result<T, TableError> {
    fn failed() -> Self {
        Err(lost().into())
    }
}

impl<T> Fails for Result<T, HostError> {
    fn failed() -> Self {
        Err(HostError::Table(lost().into()))
    }
}

impl<T> Fails for Result<T, ServerGroupError> {
    fn failed() -> Self {
        Err(lost().into())
    }
}

impl<T> Fails for Result<T, RecordError> {
    fn failed() -> Self {
        Err(lost().into())
    }
}

pub(super) struct Seam {
    hosts: Hosts,
    crossings: Crossings,
}

impl Seam {
    pub(super) fn new(hosts: Hosts, crossings: Crossings) -> Self {
        Self { hosts, crossings }
    }

    fn cross<'a, T: 'a, E: 'a>(
        &'a self,
        what: &str,
        effect: HostsAnswer<'a, T, E>,
    ) -> HostsAnswer<'a, T, E>
    where
        Result<T, E>: Fails + Send,
    {
        Box::pin(self.crossings.cross(format!("hosts {what}"), effect))
    }
}

impl CloudHosts for Seam {
    fn group(&self, group: Uuid) -> HostsAnswer<'_, KeptServerGroup, ServerGroupError> {
        self.cross("group", CloudHosts::group(&self.hosts, group))
    }

    fn placement_aggregates(&self) -> HostsAnswer<'_, Vec<Arc<Aggregate>>, TableError> {
        let effect = CloudHosts::placement_aggregates(&self.hosts);
        self.cross("aggregates", effect)
    }

    fn host<'a>(&'a self, host: &'a str) -> HostsAnswer<'a, ComputeHost, HostError> {
        self.cross("host", CloudHosts::host(&self.hosts, host))
    }

    fn states<'a>(&'a self, nodes: &'a [Uuid]) -> HostsAnswer<'a, Vec<Arc<HostState>>, TableError> {
        self.cross("states", CloudHosts::states(&self.hosts, nodes))
    }

    fn place<'a>(
        &'a self,
        member: GroupMember,
        generation: i64,
        host: &'a str,
    ) -> HostsAnswer<'a, i64, ServerGroupError> {
        let effect = CloudHosts::place(&self.hosts, member, generation, host);
        self.cross("place", effect)
    }

    fn own(&self, guest: OwnedGuest) -> HostsAnswer<'_, bool, TableError> {
        self.cross("own", CloudHosts::own(&self.hosts, guest))
    }

    fn disown(&self, guest: OwnedGuest) -> HostsAnswer<'_, bool, TableError> {
        self.cross("disown", CloudHosts::disown(&self.hosts, guest))
    }

    fn untold_guests(&self) -> HostsAnswer<'_, Vec<OwnedGuest>, TableError> {
        let effect = CloudHosts::untold_guests(&self.hosts);
        self.cross("untold_guests", effect)
    }

    fn claimed(&self, member: GroupMember) -> HostsAnswer<'_, bool, ServerGroupError> {
        self.cross("claimed", CloudHosts::claimed(&self.hosts, member))
    }

    fn untold_members(&self) -> HostsAnswer<'_, Vec<PlacedMember>, TableError> {
        let effect = CloudHosts::untold_members(&self.hosts);
        self.cross("untold_members", effect)
    }

    fn remove_absent<'a>(
        &'a self,
        placed: &'a PlacedMember,
    ) -> HostsAnswer<'a, bool, ServerGroupError> {
        if self.crossings.keeps_members() {
            return Box::pin(async { Ok(false) });
        }
        let effect = CloudHosts::remove_absent(&self.hosts, placed);
        self.cross("remove_absent", effect)
    }

    fn unplace(&self, member: GroupMember) -> HostsAnswer<'_, (), ServerGroupError> {
        if self.crossings.keeps_members() {
            return Box::pin(async { Ok(()) });
        }
        self.cross("unplace", CloudHosts::unplace(&self.hosts, member))
    }

    fn put_record<'a>(
        &'a self,
        request_id: &'a str,
        record: &'a str,
    ) -> HostsAnswer<'a, i64, RecordError> {
        let effect = CloudHosts::put_record(&self.hosts, request_id, record);
        self.cross("put_record", effect)
    }

    fn records_of<'a>(
        &'a self,
        request_id: &'a str,
    ) -> HostsAnswer<'a, Vec<SchedulingRecord>, RecordError> {
        self.cross(
            "records_of",
            CloudHosts::records_of(&self.hosts, request_id),
        )
    }
}
