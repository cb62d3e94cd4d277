//! The server reconciler: continues all work that was recorded but not finished. This covers servers not yet handed
//! over to the conductor, boots and deletions with an unobserved end, and actions. It runs periodically and after a
//! restart.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use berth_conductor::journal::{BootGoal, JournalError};
use berth_conductor::{BootRequest, ConductorError};
use berth_model::ConsumerUuid;
use berth_wire::conductor::CreateGuest;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::compute::Compute;
use crate::instance_actions::ActionOutcome;
use crate::servers::{ConductorHandoff, ServerError, ServerRecord, ServerSelection};

/// How often old records are deleted.
const TIDY_INTERVAL: Duration = Duration::from_hours(1);

/// The state of the aggregate mirror.
#[derive(Default)]
struct MirrorSchedule {
    last_run: Option<Instant>,
    failing: bool,
}

impl MirrorSchedule {
    /// Mirrors the aggregates if it is due.
    async fn run_if_due(&mut self, compute: &Compute) {
        let interval = compute.inner.options.mirror_interval;
        if self.last_run.is_some_and(|at| at.elapsed() < interval) {
            return;
        }
        let mirrored = compute.mirror_in_time().await;
        self.last_run = Some(Instant::now());
        // Logs only the first failure in a row.
        let is_first_failure = mirrored.is_err() && !self.failing;
        self.failing = mirrored.is_err();
        match mirrored {
            Err(error) if is_first_failure => tracing::warn!(
                error = &error as &dyn std::error::Error,
                "mirroring host aggregates to Placement failed; retrying"
            ),
            Ok(providers @ 1..) => {
                tracing::info!(providers, "host aggregates mirrored to Placement");
            }
            Ok(_) | Err(_) => {}
        }
    }
}

impl Compute {
    /// Runs the reconciler until `stop` resolves, then waits for running tasks.
    pub async fn run_reconciler(&self, stop: impl Future<Output = ()>) {
        // The healer is a task of its own: a slow network service delays no server. It ends with the set.
        let mut healer = JoinSet::new();
        let compute = self.clone();
        healer.spawn(async move { compute.heal_network_info().await });
        self.reconcile_until(stop).await;
        healer.shutdown().await;
        self.inner.server_tasks.stop().await;
        self.inner.action_tasks.stop().await;
    }

    async fn reconcile_until(&self, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        let mut failing = false;
        let mut mirror = MirrorSchedule::default();
        let mut tidied: Option<Instant> = None;
        let mut adopted = false;
        self.log_lost_servers().await;
        loop {
            mirror.run_if_due(self).await;
            if tidied.is_none_or(|at| at.elapsed() >= TIDY_INTERVAL) {
                tidied = Some(Instant::now());
                if let Err(error) = self.delete_old_actions().await {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "deleting old records failed"
                    );
                }
            }
            let reconciled = match adopted {
                true => Ok(()),
                false => self.adopt().await,
            };
            adopted = reconciled.is_ok();
            let reconciled = match reconciled {
                Ok(()) => self.reconcile().await.map(drop),
                Err(error) => Err(error),
            };
            match reconciled {
                Ok(()) => failing = false,
                Err(error) => {
                    // Logs only the first failure in a row.
                    if !std::mem::replace(&mut failing, true) {
                        tracing::warn!(
                            error = &error as &dyn std::error::Error,
                            "reconciling servers failed"
                        );
                    }
                }
            }
            tokio::select! {
                () = &mut stop => break,
                () = sleep(self.inner.options.reconcile_interval) => {}
            }
        }
    }

    /// Starts a task for every server with unfinished work; returns their number.
    pub async fn reconcile(&self) -> Result<usize, ServerError> {
        let mut tx = self.tables.read().await?;
        let open = crate::servers::list(&mut tx, ServerSelection::Open).await?;
        drop(tx);
        let own = |server: &&ServerRecord| !self.is_owned_by_another(server);
        for server in open.iter().filter(own) {
            let is_due = self.inner.retries.is_due(server.uuid, Instant::now());
            if server.task.is_some() && is_due && !self.inner.action_tasks.is_active(&server.uuid) {
                self.start_action_task(server.uuid);
            }
            if !self.inner.server_tasks.is_active(&server.uuid) {
                self.start_task(server.uuid);
            }
        }
        for server in self.pending_drive_updates().await? {
            let is_due = self.inner.retries.is_due(server, Instant::now());
            if is_due && !self.inner.action_tasks.is_active(&server) {
                self.start_action_task(server);
            }
        }
        Ok(open.len())
    }

    /// Starts a task for a server.
    pub(crate) fn start_task(&self, uuid: Uuid) {
        let compute = self.clone();
        self.inner
            .server_tasks
            .spawn_if_idle(uuid, move |turn| async move {
                // Held until the task is done.
                let _turn = turn;
                if let Err(error) = compute.advance(uuid).await {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        server = %uuid,
                        "server is stuck; retrying"
                    );
                }
            });
    }

    /// Continues the work on a server as far as possible now.
    pub(crate) async fn continue_work(&self, uuid: Uuid) -> Result<(), ServerError> {
        let _turn = self.inner.server_tasks.lock(uuid).await;
        self.advance(uuid).await
    }

    async fn advance(&self, uuid: Uuid) -> Result<(), ServerError> {
        let server = match self.server(uuid).await {
            Err(ServerError::NotFound { .. }) => return Ok(()),
            server => server?,
        };
        if self.is_owned_by_another(&server) {
            return Ok(());
        }
        // No journal has the guest of such a row.
        let is_ownerless = server.owner.is_none() && server.handoff != ConductorHandoff::Accepted;
        let server = match is_ownerless {
            true => self.take_ownership(uuid).await?,
            false => server,
        };
        match &server.handoff {
            _ if server.deleting => self.delete_guest(&server).await,
            ConductorHandoff::Pending { request } => self.hand_over(&server, request).await,
            ConductorHandoff::Accepted => self.observe(&server).await,
            ConductorHandoff::Refused { .. } => Ok(()),
        }
    }

    /// Hands the server over to the conductor.
    async fn hand_over(&self, server: &ServerRecord, request: &str) -> Result<(), ServerError> {
        let request = match boot_request(server, request) {
            Ok(request) => request,
            Err(reason) => return self.record_refused(server.uuid, &reason).await,
        };
        match self.inner.conductor.create(&request).await {
            Ok(_) => self.record_accepted(server.uuid).await.map(drop),
            Err(error @ (ConductorError::Journal(_) | ConductorError::Scheduling(_))) => {
                Err(error.into())
            }
            Err(error) => self.record_refused(server.uuid, &error.to_string()).await,
        }
    }

    /// Deletes the guest. Once it no longer exists, deletes the row.
    async fn delete_guest(&self, server: &ServerRecord) -> Result<(), ServerError> {
        let guest = ConsumerUuid::from(server.uuid);
        match self.inner.conductor.show(guest).await {
            Err(ConductorError::NotFound { .. }) => self.handle_missing_guest(server).await,
            Ok(record) if record.goal == BootGoal::Delete => Ok(()),
            // A deletion can be recorded even if the existing record is unreadable.
            Ok(_) | Err(ConductorError::Journal(JournalError::Unreadable(_))) => {
                match self.inner.conductor.delete(guest).await {
                    Err(ConductorError::NotFound { .. }) => self.handle_missing_guest(server).await,
                    other => Ok(other?),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Checks whether the boot has ended or the guest no longer exists.
    async fn observe(&self, server: &ServerRecord) -> Result<(), ServerError> {
        let guest = ConsumerUuid::from(server.uuid);
        let record = match self.inner.conductor.show(guest).await {
            Err(ConductorError::NotFound { .. }) => return self.handle_missing_guest(server).await,
            Err(ConductorError::Journal(JournalError::Unreadable(guest))) => {
                self.log_unreadable_record(&guest);
                return Ok(());
            }
            record => record?,
        };
        if server.settled_at.is_some() {
            return Ok(());
        }
        let outcome = match &record.goal {
            BootGoal::Active => ActionOutcome::Success,
            BootGoal::Failed { reason, .. } => ActionOutcome::Error(Some(reason.clone())),
            BootGoal::Boot | BootGoal::Undo { .. } | BootGoal::Delete => return Ok(()),
        };
        let host = record
            .placement()
            .and_then(|chosen| chosen.host_name.clone());
        self.record_boot_end(server.uuid, outcome, host).await
    }
}

/// The boot request stored in the row, or a message why it is invalid.
fn boot_request(server: &ServerRecord, request: &str) -> Result<BootRequest, String> {
    let body: CreateGuest =
        berth_wire::decode(request.as_bytes()).map_err(|error| error.to_string())?;
    let body = CreateGuest {
        name: server.instance_name(),
        ..body
    };
    BootRequest::new(body, server.uuid).map_err(|error| error.to_string())
}
