//! The reporter: sends the report of the host's devices to the accelerator service when it changes and periodically,
//! applies the answer, and starts resets.
//!
//! ```text
//! run_reporter: send_reports --> apply_answer --> begin_resets --> wait for a change, an interval or the end of a reset --+
//!      ^                                                                                                                |
//!      +----------------------------------------------------------------------------------------------------------------+
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::time::Duration;

use berth_agent_journal::JournalError;
use berth_agent_tracker::backoff::LoopBackoff;
use berth_client::AcceleratorError;
use berth_model::{Disposition, NodeName};
use berth_virt::VirtDriver;
use berth_wire::accelerator::{HostDevicesReport, KnownDevices, NotTaken};
use http::StatusCode;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::cyborg_providers::NodeTree;
use crate::devices::{DeviceManager, LastReport};
use crate::report::{self, UncleanHandle};

/// Maximum number of concurrent resets. A reset may keep a bus busy.
const AT_ONCE: usize = 4;

/// The log subject for a service that accepts no device reports.
const NO_ROUTE: &str = "route";

/// Minimum pause before a reset is retried.
const BREATH: Duration = Duration::from_millis(100);

/// Running resets. Dropping it aborts them.
#[derive(Default)]
struct Resets {
    tasks: JoinSet<String>,
    running: BTreeSet<String>,
}

impl Resets {
    async fn wait_for_reconcile(&mut self) {
        match self.tasks.join_next().await {
            Some(Ok(name)) => {
                self.running.remove(&name);
            }
            // An aborted reset is found again as unclean.
            Some(Err(_)) => self.running.clear(),
            None => self.running.clear(),
        }
    }
}

/// Why the accelerator service did not get the devices' state.
#[derive(Debug, thiserror::Error)]
pub enum DeviceReportError {
    #[error("reporting the devices of {node} to the accelerator service failed: {source}")]
    Service {
        node: NodeName,
        source: Box<AcceleratorError>,
    },
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl DeviceReportError {
    /// How a caller reacts to this error.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Service { source, .. } => source.disposition(),
            Self::Journal(_) => Disposition::Retry,
        }
    }

    /// With what the user can do about an accelerator service that does not answer.
    fn explain(&self) -> String {
        let hint = match self {
            Self::Service { source, .. } => match &**source {
                AcceleratorError::Call(error) => error.hint("cyborg"),
                _ => None,
            },
            Self::Journal(_) => None,
        };
        let hint = hint.map_or_else(String::new, |hint| format!("; {hint}"));
        format!("{self}{hint}")
    }
}

impl<D: VirtDriver> DeviceManager<D> {
    /// Sends reports and resets devices until `shutdown`. `guests` changes with every completed reconciliation of an
    /// instance (`Guests::completed_reconciles`), because it may have released devices.
    pub async fn run_reporter(
        &self,
        guests: Option<watch::Receiver<u64>>,
        shutdown: CancellationToken,
    ) {
        let mut backoff = LoopBackoff::seeded(self.inner.options.seed);
        let mut guests = guests;
        let mut resets = Resets::default();
        loop {
            let now = Instant::now();
            let next = match self.send_reports().await {
                Ok(()) => {
                    backoff.reset();
                    self.clear_message("telling");
                    self.due_at().unwrap_or(now + self.inner.options.interval)
                }
                Err(error) => {
                    let text = error.explain();
                    if self.is_new_message("telling", &text) {
                        tracing::warn!(error = %text, "reporting devices failed; retrying");
                    }
                    match error.disposition() {
                        Disposition::Fatal => now + self.inner.options.interval,
                        Disposition::Retry | Disposition::Refresh => now + backoff.next_delay(),
                    }
                }
            };
            self.begin_resets(&mut resets);
            let next = self
                .next_retry(now)
                .map_or(next, |at| next.min(at.max(now + BREATH)));
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = sleep_until(next) => {}
                () = self.inner.report_requested.notified() => {}
                () = resets.wait_for_reconcile(), if !resets.running.is_empty() => {}
                () = ended(&mut guests) => self.request_report(),
                () = self.wait_for_tree() => {}
            }
        }
        // Dropping the set aborts running resets; the next process repeats them.
    }

    fn begin_resets(&self, resets: &mut Resets) {
        for unclean in self.unclean() {
            if resets.running.len() >= AT_ONCE {
                return;
            }
            if !resets.running.contains(&unclean.name) && self.may_reset(&unclean) {
                let devices = self.clone();
                resets.running.insert(unclean.name.clone());
                resets.tasks.spawn(async move {
                    devices.clean(&unclean).await;
                    unclean.name
                });
            }
        }
        for (name, device) in self.interrupted_resets() {
            if resets.running.len() >= AT_ONCE {
                return;
            }
            if resets.running.insert(name.clone()) {
                let devices = self.clone();
                resets.tasks.spawn(async move {
                    devices.reset_interrupted(&name, &device).await;
                    name
                });
            }
        }
    }

    pub(super) fn unclean_names(&self) -> BTreeSet<String> {
        let unclean = self.unclean().into_iter();
        unclean.map(|handle| handle.name).collect()
    }

    /// Handles that the accelerator service wants cleaned and that are not quarantined. Whole functions come first, so
    /// that many mediated devices of one card do not delay another card.
    pub(super) fn unclean(&self) -> Vec<UncleanHandle> {
        let table = self.table();
        let all = table
            .reports
            .values()
            .flat_map(|report| &report.advice.unclean);
        let due = all.filter(|unclean| {
            let register = &table.register;
            register.release_count_at_reset.get(&unclean.name) != Some(&unclean.release_count)
                && !register.quarantines.contains_key(&unclean.name)
        });
        let mut due: Vec<UncleanHandle> = due.cloned().collect();
        due.sort_by_key(|unclean| unclean.wanted.mdev.is_some());
        due
    }

    fn due_at(&self) -> Option<Instant> {
        let table = self.table();
        let times = table.reports.values().map(|report| report.at);
        let last = table.unsupported_since.or_else(|| times.min());
        last.map(|at| at + self.inner.options.interval)
    }

    /// Sends the reports that have changed or are due.
    pub async fn send_reports(&self) -> Result<(), DeviceReportError> {
        let Some(service) = self.inner.service.as_ref() else {
            return Ok(());
        };
        let is_early = |at: Instant| at.elapsed() < self.inner.options.interval;
        if self.table().unsupported_since.is_some_and(is_early) {
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
                    if self.table().unsupported_since.take().is_some() {
                        self.clear_message(NO_ROUTE);
                        tracing::info!("the accelerator service accepts device reports");
                    }
                    self.apply_answer(node, body, answer, asked).await?;
                }
                Err(error) if is_no_route(&error) => {
                    self.table().unsupported_since = Some(asked);
                    if self.is_new_message(NO_ROUTE, "none") {
                        tracing::info!(
                            "the accelerator service accepts no device reports: it is not Berth's and discovers devices itself, \
                             or a proxy has no such route; retrying periodically"
                        );
                    }
                    return Ok(());
                }
                Err(source) => {
                    let source = Box::new(source);
                    return Err(DeviceReportError::Service { node, source });
                }
            }
        }
        Ok(())
    }

    /// The report of each node that has devices for the service, or had some in its last report.
    async fn bodies(&self) -> Result<Vec<(NodeName, HostDevicesReport)>, DeviceReportError> {
        let records = self.inner.journal.guests().await?;
        let mut building: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for record in &records {
            let own = building.entry(record.request.node()).or_default();
            own.push(record.request.uuid());
        }
        let mut table = self.table();
        let table = &mut *table;
        let mut bodies = Vec::new();
        for (node, observation) in &mut table.observed {
            let tree = self.tree_of(node);
            if matches!(tree, NodeTree::Awaited) {
                continue;
            }
            let tree = tree.known();
            if let Some(tree) = tree {
                for device in &mut observation.devices {
                    device.retain_cyborg_providers(node, tree);
                }
            }
            if report::reportable_devices(&observation.devices)
                .next()
                .is_none()
                && !table.reports.contains_key(node)
            {
                continue;
            }
            let building = building.get(node).into_iter().flatten();
            let guests = observation.guests.iter().chain(building).copied().collect();
            let (register, scrub) = (&table.register, self.inner.options.scrub);
            let mut body =
                report::host_devices(node, tree, &observation.devices, &guests, register, scrub);
            let deployables = body
                .devices
                .iter_mut()
                .flat_map(|device| &mut device.deployables);
            for deployable in deployables {
                deployable.programmable = self.inner.program_hook.get().is_some();
            }
            bodies.push((node.clone(), body));
        }
        Ok(bodies)
    }

    fn is_due(&self, node: &NodeName, body: &HostDevicesReport) -> bool {
        let table = self.table();
        table.reports.get(node).is_none_or(|report| {
            report.stale
                || report.body != *body
                || report.at.elapsed() >= self.inner.options.interval
        })
    }

    async fn apply_answer(
        &self,
        node: NodeName,
        body: HostDevicesReport,
        answer: KnownDevices,
        at: Instant,
    ) -> Result<(), DeviceReportError> {
        let (advice, disabled) = {
            let table = self.table();
            let observation = table.observed.get(&node);
            let devices = observation.map_or(&[][..], |observation| &observation.devices);
            let disabled = table.register.disabled.get(&node).cloned();
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
            tracing::info!(%node, providers = advice.disabled.len(), "devices disabled at the accelerator service changed");
        }
        for gone in &advice.vanished {
            let (arq, guest) = (gone.holder.arq, gone.holder.guest);
            let text = format!("held by {arq}");
            if self.is_new_message(&format!("vanished {}", gone.name), &text) {
                tracing::warn!(%node, device = %gone.name, %arq, ?guest, "a device in use has vanished; its provider is kept until it is released");
            }
        }
        for NotTaken { name, reason } in &answer.not_taken {
            if self.is_new_message(&format!("not taken {name}"), reason) {
                tracing::warn!(%node, device = %name, reason = %reason, "the accelerator service rejected part of a device's report");
            }
        }
        let report = LastReport {
            body,
            at,
            advice,
            stale: false,
            changes: answer.changes,
        };
        let is_whole = report.advice.missing.is_empty();
        self.table().reports.insert(node, report);
        self.inner.reported.notify_one();
        if !is_whole {
            self.request_missing_providers();
        }
        self.refresh().await?;
        Ok(())
    }
}

/// Whether the service accepts no device reports. Cyborg has no such path and answers 405 to PUT.
fn is_no_route(error: &AcceleratorError) -> bool {
    match error {
        AcceleratorError::NotFound(_) => true,
        AcceleratorError::Refused(refusal) => refusal.status == StatusCode::METHOD_NOT_ALLOWED,
        _ => false,
    }
}

/// Waits for a completed reconciliation. Never returns without a sender.
async fn ended(guests: &mut Option<watch::Receiver<u64>>) {
    if let Some(ends) = guests
        && ends.changed().await.is_ok()
    {
        return;
    }
    *guests = None;
    pending().await
}
