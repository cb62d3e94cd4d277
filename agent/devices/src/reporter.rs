//! The report, told to the accelerator service when it changed and now and then, and what its answer asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::time::Duration;

use berth_agent_journal::JournalError;
use berth_agent_tracker::backoff::Backoff;
use berth_client::AcceleratorError;
use berth_model::{Disposition, NodeName};
use berth_virt::VirtDriver;
use berth_wire::accelerator::{HostDevicesReport, KnownDevices, NotTaken};
use http::StatusCode;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::devices::{Devices, LastReport};
use crate::report::{self, Unclean};
use crate::takeover::NodeTree;

/// How many devices are reset at a time: each may keep a bus busy.
const AT_ONCE: usize = 4;

/// What the log calls an accelerator service without a route for devices.
const NO_ROUTE: &str = "route";

/// The least pause before a reset is tried again.
const BREATH: Duration = Duration::from_millis(100);

/// Resets under way. Dropped, they end.
#[derive(Default)]
struct Resets {
    tasks: JoinSet<String>,
    running: BTreeSet<String>,
}

impl Resets {
    async fn ended(&mut self) {
        match self.tasks.join_next().await {
            Some(Ok(name)) => {
                self.running.remove(&name);
            }
            // One that broke off is found again as unclean.
            Some(Err(_)) => self.running.clear(),
            None => self.running.clear(),
        }
    }
}

/// The accelerator service does not know how the devices are.
#[derive(Debug, thiserror::Error)]
pub enum TellError {
    /// It did not take the report.
    #[error("the accelerator service was not told the devices of {node}: {source}")]
    Service {
        node: NodeName,
        source: Box<AcceleratorError>,
    },
    /// The journal cannot be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl TellError {
    /// What a loop does about it.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Service { source, .. } => source.disposition(),
            Self::Journal(_) => Disposition::Retry,
        }
    }
}

impl<D: VirtDriver> Devices<D> {
    /// Reports and resets until `shutdown`. `guests` changes whenever a change of an instance ended (`Guests::ends` of the
    /// agent's instances), because the instance may have released devices.
    pub async fn run(&self, guests: Option<watch::Receiver<u64>>, shutdown: CancellationToken) {
        let mut backoff = Backoff::seeded(self.inner.options.seed);
        let mut guests = guests;
        let mut resets = Resets::default();
        loop {
            let now = Instant::now();
            let next = match self.tell().await {
                Ok(()) => {
                    backoff.worked();
                    self.no_news("telling");
                    self.due_at().unwrap_or(now + self.inner.options.interval)
                }
                Err(error) => {
                    let text = error.to_string();
                    if self.is_news("telling", &text) {
                        tracing::warn!(error = %text, "devices could not be told; trying again");
                    }
                    match error.disposition() {
                        Disposition::Fatal => now + self.inner.options.interval,
                        Disposition::Retry | Disposition::Refresh => now + backoff.failed(),
                    }
                }
            };
            self.begin_resets(&mut resets);
            let next = self
                .next_try(now)
                .map_or(next, |at| next.min(at.max(now + BREATH)));
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = sleep_until(next) => {}
                () = self.inner.stir.notified() => {}
                () = resets.ended(), if !resets.running.is_empty() => {}
                () = ended(&mut guests) => self.stir(),
                () = self.a_tree_came() => {}
            }
        }
        // A reset under way is dropped with its set: the next process makes it anew.
    }

    fn begin_resets(&self, resets: &mut Resets) {
        for unclean in self.unclean() {
            if resets.running.len() >= AT_ONCE {
                return;
            }
            if !resets.running.contains(&unclean.name) && self.may_try(&unclean) {
                let devices = self.clone();
                resets.running.insert(unclean.name.clone());
                resets.tasks.spawn(async move {
                    devices.clean(&unclean).await;
                    unclean.name
                });
            }
        }
        for (name, device) in self.cut_off() {
            if resets.running.len() >= AT_ONCE {
                return;
            }
            if resets.running.insert(name.clone()) {
                let devices = self.clone();
                resets.tasks.spawn(async move {
                    devices.reset_anew(&name, &device).await;
                    name
                });
            }
        }
    }

    /// What the accelerator service waits for to be cleaned and is not in quarantine; whole functions first, for many mediated
    /// devices of one card must not keep another card waiting.
    pub(super) fn unclean(&self) -> Vec<Unclean> {
        let known = self.known();
        let all = known.told.values().flat_map(|told| &told.advice.unclean);
        let due = all.filter(|unclean| {
            let register = &known.register;
            register.cleaned.get(&unclean.name) != Some(&unclean.releases)
                && !register.quarantines.contains_key(&unclean.name)
        });
        let mut due: Vec<Unclean> = due.cloned().collect();
        due.sort_by_key(|unclean| unclean.wanted.mdev.is_some());
        due
    }

    fn due_at(&self) -> Option<Instant> {
        let known = self.known();
        let times = known.told.values().map(|told| told.at);
        let last = known.no_route.or_else(|| times.min());
        last.map(|at| at + self.inner.options.interval)
    }

    /// Tells what has changed, or is due; nothing is sent of a node of which neither is so.
    pub async fn tell(&self) -> Result<(), TellError> {
        let Some(service) = self.inner.service.as_ref() else {
            return Ok(());
        };
        let is_early = |at: Instant| at.elapsed() < self.inner.options.interval;
        if self.known().no_route.is_some_and(is_early) {
            return Ok(());
        }
        self.refresh().await?;
        for (node, body) in self.bodies().await? {
            if !self.is_due(&node, &body) {
                continue;
            }
            let asked = Instant::now();
            match service.report_devices(node.as_str(), &body).await {
                Ok(answer) => {
                    if self.known().no_route.take().is_some() {
                        self.no_news(NO_ROUTE);
                        tracing::info!("the accelerator service takes devices from this agent");
                    }
                    self.answered(node, body, answer, asked).await?;
                }
                Err(error) if is_no_route(&error) => {
                    self.known().no_route = Some(asked);
                    if self.is_news(NO_ROUTE, "none") {
                        tracing::info!(
                            "the accelerator service takes no devices from this agent: it is not berth's own and finds them by \
                             itself, or what stands before it has no such route; it is asked again now and then"
                        );
                    }
                    return Ok(());
                }
                Err(source) => {
                    let source = Box::new(source);
                    return Err(TellError::Service { node, source });
                }
            }
        }
        Ok(())
    }

    /// The report of each node that has devices for the service, or had some when it was told last.
    async fn bodies(&self) -> Result<Vec<(NodeName, HostDevicesReport)>, TellError> {
        let records = self.inner.journal.guests().await?;
        let mut building: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for record in &records {
            let own = building.entry(record.request.node()).or_default();
            own.push(record.request.uuid());
        }
        let mut known = self.known();
        let known = &mut *known;
        let mut bodies = Vec::new();
        for (node, seen) in &mut known.seen {
            let tree = self.tree_of(node);
            if matches!(tree, NodeTree::Awaited) {
                continue;
            }
            let tree = tree.known();
            if let Some(tree) = tree {
                for device in &mut seen.devices {
                    device.keep_cyborgs(node, tree);
                }
            }
            if report::told(&seen.devices).next().is_none() && !known.told.contains_key(node) {
                continue;
            }
            let building = building.get(node).into_iter().flatten();
            let guests = seen.guests.iter().chain(building).copied().collect();
            let (register, scrub) = (&known.register, self.inner.options.scrub);
            let mut body =
                report::host_devices(node, tree, &seen.devices, &guests, register, scrub);
            let deployables = body.devices.iter_mut().flat_map(|it| &mut it.deployables);
            for deployable in deployables {
                deployable.programmable = self.inner.program_hook.get().is_some();
            }
            bodies.push((node.clone(), body));
        }
        Ok(bodies)
    }

    fn is_due(&self, node: &NodeName, body: &HostDevicesReport) -> bool {
        let known = self.known();
        known.told.get(node).is_none_or(|told| {
            told.stale || told.body != *body || told.at.elapsed() >= self.inner.options.interval
        })
    }

    async fn answered(
        &self,
        node: NodeName,
        body: HostDevicesReport,
        answer: KnownDevices,
        at: Instant,
    ) -> Result<(), TellError> {
        let (advice, disabled) = {
            let known = self.known();
            let seen = known.seen.get(&node);
            let devices = seen.map_or(&[][..], |seen| &seen.devices);
            let disabled = known.register.disabled.get(&node).cloned();
            (
                report::advice(&node, &answer, devices),
                disabled.unwrap_or_default(),
            )
        };
        if disabled != advice.disabled {
            self.inner
                .register
                .set_disabled(&node, &advice.disabled)
                .await?;
            tracing::info!(%node, providers = advice.disabled.len(), "the accelerator service's disabled devices changed");
        }
        for gone in &advice.vanished {
            let (arq, guest) = (gone.holder.arq, gone.holder.guest);
            let text = format!("held by {arq}");
            if self.is_news(&format!("vanished {}", gone.name), &text) {
                tracing::warn!(%node, device = %gone.name, %arq, ?guest, "a device that is held has vanished; its provider stays while it is");
            }
        }
        for NotTaken { name, reason } in &answer.not_taken {
            if self.is_news(&format!("not taken {name}"), reason) {
                tracing::warn!(%node, device = %name, reason = %reason, "the accelerator service did not take all of a device's report");
            }
        }
        let told = LastReport {
            body,
            at,
            advice,
            stale: false,
            changes: answer.changes,
        };
        let is_whole = told.advice.missing.is_empty();
        self.known().told.insert(node, told);
        self.inner.told.notify_one();
        if !is_whole {
            self.ask_for_the_missing();
        }
        self.refresh().await?;
        Ok(())
    }
}

/// Whether nothing takes devices there. Cyborg knows no such path, and answers 405 to a PUT of one.
fn is_no_route(error: &AcceleratorError) -> bool {
    match error {
        AcceleratorError::NotFound(_) => true,
        AcceleratorError::Refused(refusal) => refusal.status == StatusCode::METHOD_NOT_ALLOWED,
        _ => false,
    }
}

/// Until a guest's journey ends; for ever where nobody tells.
async fn ended(guests: &mut Option<watch::Receiver<u64>>) {
    if let Some(ends) = guests
        && ends.changed().await.is_ok()
    {
        return;
    }
    *guests = None;
    pending().await
}
