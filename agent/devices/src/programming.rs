//! Programs devices for accelerator requests, with the operator's program.
//!
//! ```text
//! run_programming: begin_due --> program_and_report --> try_programming (until done) --> report the result
//! ```
//!
//! Only the service stores which programmings are due. If the result was not reported, because the agent was killed or the service
//! was unreachable, the programming is repeated, so the program must be idempotent. Meanwhile the device is withheld as during a
//! reset: no reset and no guest can use it. A programming that is no longer due is cancelled at once.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_agent_journal::{NamedDevice as _, ResetEnd, ResetStart, name_of_handle};
use berth_agent_tracker::backoff::LoopBackoff;
use berth_client::AcceleratorClient;
use berth_hook::Hook;
use berth_model::{Disposition, NodeName};
use berth_virt::{DeviceError, OfferedHandle, VirtDriver};
use berth_wire::accelerator::{DueProgramming, Program, ProgrammedHandle, ProgrammingEnd};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::devices::DeviceManager;
use crate::report::{self, wanted_device};
use crate::reset::DeviceResetError;

/// Interval of queries for due programmings. An instance waits for them.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// The result of one attempt.
enum ProgrammingAttempt {
    /// The programming succeeded, or failed for good with this reason.
    Ended(Result<(), String>),
    /// A failure that may be temporary.
    Later(String),
    /// The programming is no longer due.
    Unwanted,
}

/// Running programmings, by UUID.
#[derive(Default)]
struct Programmings {
    tasks: JoinSet<Uuid>,
    wanted: BTreeMap<Uuid, CancellationToken>,
}

impl Programmings {
    async fn reap(&mut self) {
        if let Some(Ok(uuid)) = self.tasks.join_next().await {
            self.wanted.remove(&uuid);
        }
    }

    /// Cancels all programmings and waits for their end.
    async fn stop(mut self) {
        for cancelled in self.wanted.values() {
            cancelled.cancel();
        }
        while self.tasks.join_next().await.is_some() {}
    }
}

impl<D: VirtDriver> DeviceManager<D> {
    /// Runs due programmings until `shutdown`. Returns at once without a program or a service.
    pub(super) async fn run_programming(&self, shutdown: CancellationToken) {
        let (Some(hook), Some(service)) = (self.inner.program_hook.get(), &self.inner.service)
        else {
            return;
        };
        let mut backoff = LoopBackoff::seeded(self.inner.options.seed);
        let mut programmings = Programmings::default();
        loop {
            let pause = match self.begin_due(hook, service, &mut programmings).await {
                Ok(()) => {
                    backoff.reset();
                    self.clear_message("programming");
                    POLL_INTERVAL
                }
                Err(text) => {
                    if self.is_new_message("programming", &text) {
                        tracing::warn!(error = %text, "querying due programmings failed; retrying");
                    }
                    backoff.next_delay()
                }
            };
            tokio::select! {
                () = shutdown.cancelled() => break,
                () = tokio::time::sleep(pause) => {}
                () = programmings.reap(), if !programmings.tasks.is_empty() => {}
            }
        }
        programmings.stop().await;
    }

    /// Starts programmings that are due, and cancels running ones that are no longer due.
    async fn begin_due(
        &self,
        hook: &Hook,
        service: &AcceleratorClient,
        programmings: &mut Programmings,
    ) -> Result<(), String> {
        let nodes: Vec<NodeName> = self.table().reports.keys().cloned().collect();
        let mut due = BTreeMap::new();
        for node in nodes {
            let answer = service.due_programmings(node.as_str()).await;
            let answer = answer.map_err(|error| error.to_string())?;
            let all = answer.programmings.into_iter();
            due.extend(all.map(|each| (each.uuid, (node.clone(), each))));
        }
        for (uuid, cancelled) in &programmings.wanted {
            if !due.contains_key(uuid) {
                cancelled.cancel();
            }
        }
        for (uuid, (node, each)) in due {
            if programmings.wanted.contains_key(&uuid) {
                continue;
            }
            let cancelled = CancellationToken::new();
            programmings.wanted.insert(uuid, cancelled.clone());
            let (devices, hook, service) = (self.clone(), hook.clone(), service.clone());
            programmings.tasks.spawn(async move {
                devices
                    .program_and_report(&hook, &service, &node, &each, &cancelled)
                    .await;
                uuid
            });
        }
        Ok(())
    }

    /// Runs one programming until it succeeds, fails for good or is cancelled, and reports the result.
    async fn program_and_report(
        &self,
        hook: &Hook,
        service: &AcceleratorClient,
        node: &NodeName,
        due: &DueProgramming,
        cancelled: &CancellationToken,
    ) {
        let mut backoff = LoopBackoff::seeded(self.inner.options.seed);
        let end = loop {
            let reason = match self.try_programming(hook, due, cancelled).await {
                ProgrammingAttempt::Unwanted => return,
                ProgrammingAttempt::Ended(end) => break end,
                ProgrammingAttempt::Later(reason) => reason,
            };
            tracing::debug!(programming = %due.uuid, reason, "device cannot be programmed yet; retrying");
            tokio::select! {
                () = cancelled.cancelled() => return,
                () = tokio::time::sleep(backoff.next_delay()) => {}
            }
        };
        match &end {
            Ok(()) => {
                tracing::info!(programming = %due.uuid, program = ?due.program, "device programmed");
            }
            Err(reason) => {
                tracing::warn!(programming = %due.uuid, program = ?due.program, reason, "programming of a device failed");
            }
        }
        let end = ProgrammingEnd { error: end.err() };
        let mut backoff = LoopBackoff::seeded(self.inner.options.seed);
        loop {
            let report = tokio::select! {
                () = cancelled.cancelled() => return,
                report = service.programming_ended(node.as_str(), due.uuid, &end) => report,
            };
            match report {
                Ok(()) => return,
                Err(error) if error.disposition() == Disposition::Fatal => {
                    tracing::warn!(programming = %due.uuid, %error, "the accelerator service refused the result of a programming");
                    return;
                }
                Err(_) => tokio::time::sleep(backoff.next_delay()).await,
            }
        }
    }

    async fn try_programming(
        &self,
        hook: &Hook,
        due: &DueProgramming,
        cancelled: &CancellationToken,
    ) -> ProgrammingAttempt {
        let mut targets = Vec::new();
        for handle in &due.attach_handles {
            match self.target(handle).await {
                Ok(target) => targets.push(target),
                Err(tried) => return tried,
            }
        }
        let mut begun = Vec::new();
        let mut tried = None;
        for target in &targets {
            let name = target.name();
            match self.begin_reset(&name).await {
                Ok(ResetStart::Begun) => begun.push(name),
                Ok(ResetStart::Held(guest)) => {
                    let reason = format!("guest {guest} uses {name}");
                    tried = Some(ProgrammingAttempt::Ended(Err(reason)));
                }
                Ok(ResetStart::InProgress) => {
                    tried = Some(ProgrammingAttempt::Later(format!("{name} is being reset")));
                }
                Err(error) => tried = Some(ProgrammingAttempt::Later(error.to_string())),
            }
            if tried.is_some() {
                break;
            }
        }
        let tried = match tried {
            Some(tried) => tried,
            None => run_all(hook, due, &targets, cancelled).await,
        };
        for name in &begun {
            if let Err(error) = self.finish_reset(name, ResetEnd::Unknown).await {
                tracing::error!(device = %name, %error, "storing the end of a programming failed; retrying");
            }
        }
        // A reset may be waiting for the device.
        self.inner.report_requested.notify_one();
        tried
    }

    /// The device of a handle. Fails unless this host offers it, it is healthy, and no guest uses it.
    async fn target(&self, handle: &ProgrammedHandle) -> Result<OfferedHandle, ProgrammingAttempt> {
        let kind = &handle.attach_type;
        let name = name_of_handle(handle.uuid, kind, &handle.attach_info).ok_or_else(|| {
            ProgrammingAttempt::Ended(Err(format!("a handle of type {kind} has no device")))
        })?;
        let offered = {
            let table = self.table();
            let observation = table.observed.values();
            let devices = observation
                .flat_map(|observation| report::reportable_devices(&observation.devices));
            let mut handles = devices.flat_map(|device| &device.handles);
            handles
                .find(|offered| offered.name() == name)
                .cloned()
                .map(|offered| (offered, table.is_fit(&name)))
        };
        let Some((offered, fit)) = offered else {
            return Err(ProgrammingAttempt::Ended(Err(format!(
                "this host offers no device {name}"
            ))));
        };
        if !fit {
            return Err(ProgrammingAttempt::Ended(Err(format!(
                "device {name} is unhealthy"
            ))));
        }
        let device = wanted_device(&offered);
        match self.inner.driver.check_device(&device).await {
            // A driver without this check verified the device when it was observed.
            Ok(()) | Err(DeviceError::NotSupported { .. }) => {}
            Err(error) if error.disposition() == Disposition::Retry => {
                return Err(ProgrammingAttempt::Later(error.to_string()));
            }
            Err(error) => return Err(ProgrammingAttempt::Ended(Err(error.to_string()))),
        }
        match self
            .used_by(&device, &name)
            .await
            .map_err(DeviceResetError::from)
        {
            Ok(None) => Ok(offered),
            Ok(Some(guest)) => Err(ProgrammingAttempt::Ended(Err(format!(
                "guest {guest} uses {name}"
            )))),
            Err(error) => Err(ProgrammingAttempt::Later(error.to_string())),
        }
    }
}

async fn run_all(
    hook: &Hook,
    due: &DueProgramming,
    targets: &[OfferedHandle],
    cancelled: &CancellationToken,
) -> ProgrammingAttempt {
    if targets.is_empty() {
        return ProgrammingAttempt::Ended(
            Err("the host offers no handle of the device".to_owned()),
        );
    }
    for target in targets {
        let end = tokio::select! {
            () = cancelled.cancelled() => return ProgrammingAttempt::Unwanted,
            end = run(hook, due.uuid, &due.program, target) => end,
        };
        if end.is_err() {
            return ProgrammingAttempt::Ended(end);
        }
    }
    ProgrammingAttempt::Ended(Ok(()))
}

/// Runs the program for one device.
async fn run(
    hook: &Hook,
    programming: Uuid,
    what: &Program,
    target: &OfferedHandle,
) -> Result<(), String> {
    let address = match target {
        OfferedHandle::Function(address) => address,
        OfferedHandle::Mdev { parent, .. } => parent,
    };
    let with = match what {
        Program::BitstreamId(image) => ("BERTH_BITSTREAM_ID", image.clone()),
        Program::FunctionId(function) => ("BERTH_FUNCTION_ID", function.clone()),
    };
    let about = [
        ("BERTH_PROGRAMMING", programming.to_string()),
        ("BERTH_DEVICE", target.name()),
        ("BERTH_DEVICE_ADDRESS", address.to_string()),
        with,
    ];
    let asked = hook.ask(about).await;
    asked.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
