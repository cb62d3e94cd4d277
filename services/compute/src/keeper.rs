//! Goes on with whatever was written down and not done: servers that the conductor was not asked for yet, those whose boot or
//! whose end nobody has seen, and what was asked for and not done. After a kill as ever.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use berth_conductor::journal::{Course, JournalError};
use berth_conductor::{BootRequest, ConductorError};
use berth_model::ConsumerUuid;
use berth_wire::conductor::CreateGuest;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::compute::Compute;
use crate::instance_actions::Outcome;
use crate::servers::{Handed, Rows, Server, ServerError};

/// How often what was done long ago is forgotten.
const TIDIES: Duration = Duration::from_hours(1);

/// When Placement's aggregates were looked at.
#[derive(Default)]
struct Mirror {
    looked: Option<Instant>,
    failing: bool,
}

impl Mirror {
    /// Looks, where it is time to.
    async fn look(&mut self, compute: &Compute) {
        let interval = compute.inner.options.mirror_interval;
        if self.looked.is_some_and(|at| at.elapsed() < interval) {
            return;
        }
        let mirrored = compute.mirror_in_time().await;
        self.looked = Some(Instant::now());
        // Told when it is news.
        let news = mirrored.is_err() && !self.failing;
        self.failing = mirrored.is_err();
        match mirrored {
            Err(error) if news => tracing::warn!(
                error = &error as &dyn std::error::Error,
                "Placement does not have the host aggregates as they are; it is tried again"
            ),
            Ok(providers @ 1..) => {
                tracing::info!(providers, "Placement has the host aggregates as they are");
            }
            Ok(_) | Err(_) => {}
        }
    }
}

impl Compute {
    /// Looks now and then what is to be done, and does it, until `stop`; then waits until nothing is under way.
    pub async fn keep(&self, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        let mut failing = false;
        let mut mirror = Mirror::default();
        let mut tidied: Option<Instant> = None;
        let mut adopted = false;
        self.tell_of_lost_servers().await;
        loop {
            mirror.look(self).await;
            if tidied.is_none_or(|at| at.elapsed() >= TIDIES) {
                tidied = Some(Instant::now());
                if let Err(error) = self.drop_old_actions().await {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "what was done long ago is not forgotten yet"
                    );
                }
            }
            let looked = match adopted {
                true => Ok(()),
                false => self.adopt().await,
            };
            adopted = looked.is_ok();
            let looked = match looked {
                Ok(()) => self.look().await.map(drop),
                Err(error) => Err(error),
            };
            match looked {
                Ok(()) => failing = false,
                Err(error) => {
                    // Told when it is news.
                    if !std::mem::replace(&mut failing, true) {
                        tracing::warn!(
                            error = &error as &dyn std::error::Error,
                            "servers are not looked after"
                        );
                    }
                }
            }
            tokio::select! {
                () = &mut stop => break,
                () = sleep(self.inner.options.pause) => {}
            }
        }
        self.inner.journeys.stop().await;
        self.inner.tasks.stop().await;
    }

    /// Sets out with every server that something is left to be done with; how many there are.
    pub async fn look(&self) -> Result<usize, ServerError> {
        let mut tx = self.tables.read().await?;
        let open = crate::servers::read(&mut tx, Rows::Open).await?;
        drop(tx);
        let own = |server: &&Server| !self.is_anothers(server);
        for server in open.iter().filter(own) {
            let is_due = self.inner.pacing.is_due(server.uuid, Instant::now());
            if server.task.is_some() && is_due && !self.inner.tasks.is_under_way(&server.uuid) {
                self.set_out_task(server.uuid);
            }
            if !self.inner.journeys.is_under_way(&server.uuid) {
                self.set_out(server.uuid);
            }
        }
        Ok(open.len())
    }

    /// Goes on with a server, beside everything else.
    pub(crate) fn set_out(&self, uuid: Uuid) {
        let compute = self.clone();
        self.inner.journeys.set_out(uuid, move |turn| async move {
            // Held until this is done.
            let _turn = turn;
            if let Err(error) = compute.step(uuid).await {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    server = %uuid,
                    "the server stands still"
                );
            }
        });
    }

    /// Goes on with a server as far as that goes now.
    pub(crate) async fn go_on(&self, uuid: Uuid) -> Result<(), ServerError> {
        let _turn = self.inner.journeys.turn(uuid).await;
        self.step(uuid).await
    }

    async fn step(&self, uuid: Uuid) -> Result<(), ServerError> {
        let server = match self.server(uuid).await {
            Err(ServerError::NotFound { .. }) => return Ok(()),
            server => server?,
        };
        if self.is_anothers(&server) {
            return Ok(());
        }
        // No journal knows the guest of such a row yet, or ever did.
        let is_ownerless = server.owner.is_none() && server.handed != Handed::Over;
        let server = match is_ownerless {
            true => self.owned(uuid).await?,
            false => server,
        };
        match &server.handed {
            _ if server.deleting => self.see_off(&server).await,
            Handed::NotYet { request } => self.hand_over(&server, request).await,
            Handed::Over => self.observe(&server).await,
            Handed::Refused { .. } => Ok(()),
        }
    }

    /// Asks the conductor for the guest.
    async fn hand_over(&self, server: &Server, request: &str) -> Result<(), ServerError> {
        let request = match boot_request(server, request) {
            Ok(request) => request,
            Err(reason) => return self.refused(server.uuid, &reason).await,
        };
        match self.inner.conductor.create(&request).await {
            Ok(_) => self.handed_over(server.uuid).await.map(drop),
            Err(error @ (ConductorError::Journal(_) | ConductorError::Scheduling(_))) => {
                Err(error.into())
            }
            Err(error) => self.refused(server.uuid, &error.to_string()).await,
        }
    }

    /// Ends the guest; where nobody knows it any more, its row goes.
    async fn see_off(&self, server: &Server) -> Result<(), ServerError> {
        let guest = ConsumerUuid::from(server.uuid);
        match self.inner.conductor.show(guest).await {
            Err(ConductorError::NotFound { .. }) => self.gone(server).await,
            Ok(record) if record.course == Course::Delete => Ok(()),
            // That it is to go can be written over what cannot be read.
            Ok(_) | Err(ConductorError::Journal(JournalError::Unreadable(_))) => {
                match self.inner.conductor.delete(guest).await {
                    Err(ConductorError::NotFound { .. }) => self.gone(server).await,
                    other => Ok(other?),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Sees whether its boot has come to its end, or nobody knows the guest any more.
    async fn observe(&self, server: &Server) -> Result<(), ServerError> {
        let guest = ConsumerUuid::from(server.uuid);
        let record = match self.inner.conductor.show(guest).await {
            Err(ConductorError::NotFound { .. }) => return self.gone(server).await,
            Err(ConductorError::Journal(JournalError::Unreadable(guest))) => {
                self.tell_of_unreadable(&guest);
                return Ok(());
            }
            record => record?,
        };
        if server.settled_at.is_some() {
            return Ok(());
        }
        let outcome = match &record.course {
            Course::Active => Outcome::Success,
            Course::Failed { reason, .. } => Outcome::Error(Some(reason.clone())),
            Course::Boot | Course::Undo { .. } | Course::Delete => return Ok(()),
        };
        let host = record.placed().and_then(|chosen| chosen.host_name.clone());
        self.settled(server.uuid, outcome, host).await
    }
}

/// What the conductor is asked for, as the row has it; a sentence where it cannot be asked for.
fn boot_request(server: &Server, request: &str) -> Result<BootRequest, String> {
    let body: CreateGuest =
        berth_wire::decode(request.as_bytes()).map_err(|error| error.to_string())?;
    let body = CreateGuest {
        name: server.instance_name(),
        ..body
    };
    BootRequest::new(body, server.uuid).map_err(|error| error.to_string())
}
