//! Programs devices that the accelerator service wants programmed, by the operator's program.
//!
//! The service keeps what is due and the host keeps nothing: a programming whose end was not told, because the process was
//! killed or the service was away, is due still and is done again, so the program must bear that. While it runs the device is
//! withheld as during a reset: neither a reset nor a guest comes between. What is not due any more is ended at once.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_agent_journal::{CleaningOutcome, CleaningStart, NamedDevice as _, name_of_handle};
use berth_agent_tracker::backoff::Backoff;
use berth_client::AcceleratorClient;
use berth_hook::Hook;
use berth_model::{Disposition, NodeName};
use berth_virt::{DeviceError, OfferedHandle, VirtDriver};
use berth_wire::accelerator::{DueProgramming, Program, ProgrammedHandle, ProgrammingEnd};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::devices::Devices;
use crate::report::{self, wanted};
use crate::reset::ResetError;

/// How often the service is asked what is due: a guest waits for it.
const LOOK: Duration = Duration::from_secs(2);

/// What came of one try.
enum Tried {
    /// The device is programmed, or is not and will not be: why.
    Ended(Result<(), String>),
    /// It can be tried again: something stood in the way that may pass.
    Later(String),
    /// Nobody wants it any more.
    Unwanted,
}

/// Programmings under way, by UUID.
#[derive(Default)]
struct Programmings {
    tasks: JoinSet<Uuid>,
    wanted: BTreeMap<Uuid, CancellationToken>,
}

impl Programmings {
    async fn ended(&mut self) {
        if let Some(Ok(uuid)) = self.tasks.join_next().await {
            self.wanted.remove(&uuid);
        }
    }

    /// Ends all, and waits for that.
    async fn stop(mut self) {
        for cancelled in self.wanted.values() {
            cancelled.cancel();
        }
        while self.tasks.join_next().await.is_some() {}
    }
}

impl<D: VirtDriver> Devices<D> {
    /// Programs what is due until `shutdown`; returns at once where there is no program for it, or no service.
    pub(super) async fn program(&self, shutdown: CancellationToken) {
        let (Some(hook), Some(service)) = (self.inner.program_hook.get(), &self.inner.service)
        else {
            return;
        };
        let mut backoff = Backoff::seeded(self.inner.options.seed);
        let mut programmings = Programmings::default();
        loop {
            let pause = match self.begin_due(hook, service, &mut programmings).await {
                Ok(()) => {
                    backoff.worked();
                    self.no_news("programming");
                    LOOK
                }
                Err(text) => {
                    if self.is_news("programming", &text) {
                        tracing::warn!(error = %text, "it is not known which devices are to be programmed; asking again");
                    }
                    backoff.failed()
                }
            };
            tokio::select! {
                () = shutdown.cancelled() => break,
                () = tokio::time::sleep(pause) => {}
                () = programmings.ended(), if !programmings.tasks.is_empty() => {}
            }
        }
        programmings.stop().await;
    }

    /// Begins what is due and not under way, and ends what is under way and not due any more.
    async fn begin_due(
        &self,
        hook: &Hook,
        service: &AcceleratorClient,
        programmings: &mut Programmings,
    ) -> Result<(), String> {
        let nodes: Vec<NodeName> = self.known().told.keys().cloned().collect();
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
                    .program_and_tell(&hook, &service, &node, &each, &cancelled)
                    .await;
                uuid
            });
        }
        Ok(())
    }

    /// One programming to its end, told; or until nobody wants it any more.
    async fn program_and_tell(
        &self,
        hook: &Hook,
        service: &AcceleratorClient,
        node: &NodeName,
        due: &DueProgramming,
        cancelled: &CancellationToken,
    ) {
        let mut backoff = Backoff::seeded(self.inner.options.seed);
        let end = loop {
            let reason = match self.try_programming(hook, due, cancelled).await {
                Tried::Unwanted => return,
                Tried::Ended(end) => break end,
                Tried::Later(reason) => reason,
            };
            tracing::debug!(programming = %due.uuid, reason, "a device cannot be programmed yet");
            tokio::select! {
                () = cancelled.cancelled() => return,
                () = tokio::time::sleep(backoff.failed()) => {}
            }
        };
        match &end {
            Ok(()) => {
                tracing::info!(programming = %due.uuid, program = ?due.program, "a device was programmed");
            }
            Err(reason) => {
                tracing::warn!(programming = %due.uuid, program = ?due.program, reason, "a device was not programmed");
            }
        }
        let end = ProgrammingEnd { error: end.err() };
        let mut backoff = Backoff::seeded(self.inner.options.seed);
        loop {
            let told = tokio::select! {
                () = cancelled.cancelled() => return,
                told = service.programming_ended(node.as_str(), due.uuid, &end) => told,
            };
            match told {
                Ok(()) => return,
                Err(error) if error.disposition() == Disposition::Fatal => {
                    tracing::warn!(programming = %due.uuid, %error, "the end of a programming was refused");
                    return;
                }
                Err(_) => tokio::time::sleep(backoff.failed()).await,
            }
        }
    }

    async fn try_programming(
        &self,
        hook: &Hook,
        due: &DueProgramming,
        cancelled: &CancellationToken,
    ) -> Tried {
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
            match self.begin(&name).await {
                Ok(CleaningStart::Begun) => begun.push(name),
                Ok(CleaningStart::Held(guest)) => {
                    let reason = format!("guest {guest} has {name}");
                    tried = Some(Tried::Ended(Err(reason)));
                }
                Ok(CleaningStart::UnderWay) => {
                    tried = Some(Tried::Later(format!("{name} is being reset")));
                }
                Err(error) => tried = Some(Tried::Later(error.to_string())),
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
            if let Err(error) = self.end(name, CleaningOutcome::Unknown).await {
                tracing::error!(device = %name, %error, "the end of a programming cannot be written; trying again");
            }
        }
        // A reset may have waited for it.
        self.inner.stir.notify_one();
        tried
    }

    /// The device of a handle, if this host offers it, it is well, and nobody uses it.
    async fn target(&self, handle: &ProgrammedHandle) -> Result<OfferedHandle, Tried> {
        let kind = &handle.attach_type;
        let name = name_of_handle(handle.uuid, kind, &handle.attach_info).ok_or_else(|| {
            Tried::Ended(Err(format!(
                "there is no device behind a handle of type {kind}"
            )))
        })?;
        let offered = {
            let known = self.known();
            let seen = known.seen.values();
            let devices = seen.flat_map(|seen| report::told(&seen.devices));
            let mut handles = devices.flat_map(|device| &device.handles);
            handles
                .find(|offered| offered.name() == name)
                .cloned()
                .map(|offered| (offered, known.is_fit(&name)))
        };
        let Some((offered, fit)) = offered else {
            return Err(Tried::Ended(Err(format!(
                "this host offers no device {name}"
            ))));
        };
        if !fit {
            return Err(Tried::Ended(Err(format!("device {name} is not well"))));
        }
        let device = wanted(&offered);
        match self.inner.driver.check_device(&device).await {
            // The list of what may be offered was asked when it was seen.
            Ok(()) | Err(DeviceError::NotSupported { .. }) => {}
            Err(error) if error.disposition() == Disposition::Retry => {
                return Err(Tried::Later(error.to_string()));
            }
            Err(error) => return Err(Tried::Ended(Err(error.to_string()))),
        }
        match self.used_by(&device, &name).await.map_err(ResetError::from) {
            Ok(None) => Ok(offered),
            Ok(Some(guest)) => Err(Tried::Ended(Err(format!("guest {guest} has {name}")))),
            Err(error) => Err(Tried::Later(error.to_string())),
        }
    }
}

async fn run_all(
    hook: &Hook,
    due: &DueProgramming,
    targets: &[OfferedHandle],
    cancelled: &CancellationToken,
) -> Tried {
    if targets.is_empty() {
        return Tried::Ended(Err("nothing of the device is offered".to_owned()));
    }
    for target in targets {
        let end = tokio::select! {
            () = cancelled.cancelled() => return Tried::Unwanted,
            end = run(hook, due.uuid, &due.program, target) => end,
        };
        if end.is_err() {
            return Tried::Ended(end);
        }
    }
    Tried::Ended(Ok(()))
}

/// Asks the program for one device.
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
