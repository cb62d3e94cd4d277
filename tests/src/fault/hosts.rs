//! Fault injection for the hosts database: a conductor's reads and writes of host states, server groups and scheduling
//! records.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use berth_conductor::{CloudHosts, CloudHostsFuture};
use berth_fault_injection::{Boundary, Effect, EffectOutcome, Fault};
use berth_hosts::{
    ComputeHost, GroupMember, HostError, HostTableError, Hosts, OwnedGuest, PlacedMember,
    RecordError, SchedulingRecord, ServerGroupError, StoredServerGroup,
};
use berth_scheduler::HostState;
use berth_scheduler::host_state::Aggregate;
use berth_store::{Disposition, SqlError};
use uuid::Uuid;

use super::stage::{AbandonedEffect, EffectAction};
use super::{FaultStage, busy};

/// The database error of a fault. Only a real driver can create errors with its own causes, but callers distinguish
/// only two kinds: errors after which a store reconnects, and errors after which it must not, because the outcome is
/// unknown or the disk failed.
fn failed(fault: Fault) -> SqlError {
    let disposition = match fault {
        Fault::ConnectionRefused | Fault::Conflict => Disposition::Retry,
        _ => Disposition::Fatal,
    };
    SqlError::Ended { disposition }
}

type OwnedAnswer<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

/// A call that can be repeated, also after its caller stopped waiting, and the answer that replaces its result.
struct RepeatableCall<F, S> {
    hosts: Hosts,
    call: F,
    instead: S,
}

impl<F, S, T, E> EffectAction for RepeatableCall<F, S>
where
    F: Fn(Hosts) -> OwnedAnswer<T, E> + Sync,
    S: Fn(Fault) -> E + Sync,
    T: Send + 'static,
    E: fmt::Display + Send + 'static,
{
    type Value = Result<T, E>;

    async fn perform(&self) -> Self::Value {
        busy((self.call)(self.hosts.clone())).await
    }

    fn outcome(&self, done: &Self::Value) -> EffectOutcome {
        match done {
            Ok(_) => EffectOutcome::Done(String::new()),
            Err(error) => EffectOutcome::Failed(error.to_string()),
        }
    }

    fn result_if_prevented(&self, fault: Fault) -> Self::Value {
        Err((self.instead)(fault))
    }

    fn result_if_failed_after(&self, _: Self::Value, fault: Fault) -> Self::Value {
        Err((self.instead)(fault))
    }

    fn detached(&self) -> AbandonedEffect {
        let call = (self.call)(self.hosts.clone());
        Box::pin(async move {
            let _ = busy(call).await;
        })
    }
}

/// What is known of hosts, behind a stage's gate. Each call is one transaction.
pub struct GatedHosts {
    inner: Hosts,
    stage: FaultStage,
    keeps_members: Arc<AtomicBool>,
}

impl GatedHosts {
    /// Wraps the hosts with the stage's gate. While `keeps_members` is set, members are never removed from a group: a
    /// planted bug.
    #[must_use]
    pub fn around(inner: Hosts, stage: &FaultStage, keeps_members: &Arc<AtomicBool>) -> Self {
        Self {
            inner,
            stage: stage.clone(),
            keeps_members: Arc::clone(keeps_members),
        }
    }

    fn cross<'a, T, E>(
        &'a self,
        crossing: Effect,
        instead: impl Fn(Fault) -> E + Send + Sync + 'a,
        call: impl Fn(Hosts) -> OwnedAnswer<T, E> + Send + Sync + 'a,
    ) -> CloudHostsFuture<'a, T, E>
    where
        T: Send + 'static,
        E: fmt::Display + Send + 'static,
    {
        let hosts = self.inner.clone();
        let asked = RepeatableCall {
            hosts,
            call,
            instead,
        };
        Box::pin(async move { self.stage.cross(&crossing, &asked).await })
    }
}

fn read(operation: &'static str, subject: &str) -> Effect {
    Effect::read(Boundary::Database, operation, subject)
}

fn write(operation: &'static str, subject: impl ToString) -> Effect {
    Effect::write(Boundary::Database, operation, subject.to_string())
}

fn of_group(fault: Fault) -> ServerGroupError {
    failed(fault).into()
}

fn of_record(fault: Fault) -> RecordError {
    failed(fault).into()
}

fn of_table(fault: Fault) -> HostTableError {
    failed(fault).into()
}

impl CloudHosts for GatedHosts {
    fn group(&self, group: Uuid) -> CloudHostsFuture<'_, StoredServerGroup, ServerGroupError> {
        self.cross(read("hosts group", ""), of_group, move |hosts| {
            Box::pin(async move { hosts.group(group).await })
        })
    }

    fn placement_aggregates(&self) -> CloudHostsFuture<'_, Vec<Arc<Aggregate>>, HostTableError> {
        self.cross(read("hosts aggregates", ""), of_table, |hosts| {
            Box::pin(async move { hosts.placement_aggregates().await })
        })
    }

    fn host<'a>(&'a self, host: &'a str) -> CloudHostsFuture<'a, ComputeHost, HostError> {
        let of_host = |fault| HostError::Table(of_table(fault));
        self.cross(read("hosts host", ""), of_host, |hosts| {
            let host = host.to_owned();
            Box::pin(async move { hosts.host(&host).await })
        })
    }

    fn states<'a>(
        &'a self,
        nodes: &'a [Uuid],
    ) -> CloudHostsFuture<'a, Vec<Arc<HostState>>, HostTableError> {
        self.cross(read("hosts states", ""), of_table, |hosts| {
            let nodes = nodes.to_vec();
            Box::pin(async move { hosts.states(&nodes).await })
        })
    }

    fn place_member<'a>(
        &'a self,
        member: GroupMember,
        generation: i64,
        host: &'a str,
    ) -> CloudHostsFuture<'a, i64, ServerGroupError> {
        let GroupMember {
            group, instance, ..
        } = member;
        let instead = move |fault| match fault {
            // Another one of the group was quicker.
            Fault::Conflict => ServerGroupError::Changed { group, generation },
            other => of_group(other),
        };
        self.cross(write("hosts place", instance), instead, move |hosts| {
            let host = host.to_owned();
            Box::pin(async move { hosts.place_member(member, generation, &host).await })
        })
    }

    fn claim_guest(&self, guest: OwnedGuest) -> CloudHostsFuture<'_, bool, HostTableError> {
        let crossing = write("hosts own", guest.instance);
        self.cross(crossing, of_table, move |hosts| {
            Box::pin(async move { hosts.claim_guest(guest).await })
        })
    }

    fn release_guest(&self, guest: OwnedGuest) -> CloudHostsFuture<'_, bool, HostTableError> {
        let crossing = write("hosts release_guest", guest.instance);
        self.cross(crossing, of_table, move |hosts| {
            Box::pin(async move { hosts.release_guest(guest).await })
        })
    }

    fn unreported_guests(&self) -> CloudHostsFuture<'_, Vec<OwnedGuest>, HostTableError> {
        self.cross(read("hosts unreported_guests", ""), of_table, |hosts| {
            Box::pin(async move { hosts.unreported_guests().await })
        })
    }

    fn confirm_member(&self, member: GroupMember) -> CloudHostsFuture<'_, bool, ServerGroupError> {
        let crossing = write("hosts claimed", member.instance);
        self.cross(crossing, of_group, move |hosts| {
            Box::pin(async move { hosts.confirm_member(member).await })
        })
    }

    fn unreported_members(&self) -> CloudHostsFuture<'_, Vec<PlacedMember>, HostTableError> {
        self.cross(read("hosts unreported_members", ""), of_table, |hosts| {
            Box::pin(async move { hosts.unreported_members().await })
        })
    }

    fn remove_stale_member<'a>(
        &'a self,
        placed: &'a PlacedMember,
    ) -> CloudHostsFuture<'a, bool, ServerGroupError> {
        if self.keeps_members.load(Ordering::SeqCst) {
            return Box::pin(async { Ok(false) });
        }
        let crossing = write("hosts remove_stale_member", placed.member.instance);
        self.cross(crossing, of_group, |hosts| {
            let placed = placed.clone();
            Box::pin(async move { hosts.remove_stale_member(&placed).await })
        })
    }

    fn remove_member(&self, member: GroupMember) -> CloudHostsFuture<'_, (), ServerGroupError> {
        if self.keeps_members.load(Ordering::SeqCst) {
            return Box::pin(async { Ok(()) });
        }
        let crossing = write("hosts remove_member", member.instance);
        self.cross(crossing, of_group, move |hosts| {
            Box::pin(async move { hosts.remove_member(member).await })
        })
    }

    fn insert_record<'a>(
        &'a self,
        request_id: &'a str,
        record: &'a str,
    ) -> CloudHostsFuture<'a, i64, RecordError> {
        self.cross(
            write("hosts insert_record", request_id),
            of_record,
            |hosts| {
                let (request_id, record) = (request_id.to_owned(), record.to_owned());
                Box::pin(async move { hosts.insert_record(&request_id, &record).await })
            },
        )
    }

    fn records_for_request<'a>(
        &'a self,
        request_id: &'a str,
    ) -> CloudHostsFuture<'a, Vec<SchedulingRecord>, RecordError> {
        self.cross(
            read("hosts records_for_request", request_id),
            of_record,
            |hosts| {
                let request_id = request_id.to_owned();
                Box::pin(async move { hosts.records_for_request(&request_id).await })
            },
        )
    }
}
