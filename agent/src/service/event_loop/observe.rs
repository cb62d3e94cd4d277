//! Looking at the host, and what follows from what is seen.

use std::sync::Arc;
use std::time::SystemTime;

use berth_agent_api::health::{HYPERVISOR_AWAY, NO_NODE};
use berth_agent_api::{Phase, TickOutcome};
use berth_agent_tracker::error_chain::sentence;
use berth_model::Disposition;
use berth_virt::{DeviceError, HostView, ObserveError, VirtDriver};
use tokio::time::Instant;

use crate::service::error::{LastFailure, ServiceError};
use crate::service::event_loop::{EventLoop, Running, TaskCompletion};
use crate::service::findings;
use crate::service::nodes::Seen;
use crate::service::pass::Journey;
use crate::triggers::{Causes, Trigger};

impl<D: VirtDriver> EventLoop<D> {
    pub(super) fn observe(&mut self, causes: &Causes, now: Instant) {
        self.observation.sequence += 1;
        let sequence = self.observation.sequence;
        tracing::debug!(%causes, sequence, "looking at the host");
        let driver = Arc::clone(&self.surroundings.driver);
        // A card that was plugged has none of its virtual functions yet.
        let look = self.devices.as_ref().map(|it| it.devices.begin_look());
        let prepares = self.phase == Phase::Starting || causes.has(Trigger::HostEvent);
        let task = self.work.spawn_local(async move {
            let unprepared = match prepares {
                true => Some(driver.prepare_host().await),
                false => None,
            };
            TaskCompletion::Observed {
                sequence,
                unprepared,
                view: driver.observe().await,
            }
        });
        let breaks_backoff = causes.break_backoff();
        self.observation.running = Some(Running {
            task,
            look,
            since: now,
            breaks_backoff,
        });
    }

    pub(super) fn observed(
        &mut self,
        sequence: u64,
        view: Result<HostView, ObserveError>,
    ) -> Result<(), ServiceError> {
        let now = Instant::now();
        let running = self.observation.running.take();
        self.triggers.finish();
        let mut view = match view {
            Ok(view) => view,
            Err(error)
                if self.phase == Phase::Starting && error.disposition() == Disposition::Fatal =>
            {
                return Err(ServiceError::Observe(error));
            }
            Err(error) => {
                self.unobserved(sequence, error, now);
                return Ok(());
            }
        };
        if self.observation.failure.take().is_some() {
            tracing::info!("the hypervisor answers again");
        }
        self.observation.backoff.worked();
        self.observation.retry_at = None;
        self.health.clear(&HYPERVISOR_AWAY, "");
        let look = running.as_ref().and_then(|running| running.look);
        if let (Some(service), Some(look)) = (&self.devices, look) {
            service.devices.overlay(look, &mut view);
        }
        self.see_nodes(&view, now);
        if let Some(service) = &self.devices {
            self.nodes.doubt(service.devices.take_missing());
        }
        let breaks_backoff = running.is_some_and(|running| running.breaks_backoff);
        let view = Arc::new(view);
        self.view = Some(Arc::clone(&view));
        let seen = Seen {
            view,
            sequence,
            breaks_backoff,
        };
        for (progressed, order) in self.nodes.begin(&seen, &self.terms, now) {
            self.begin_pass(progressed, order);
        }
        self.answer_waiting();
        Ok(())
    }

    /// Says once what of the host could not be made as the configuration wants it; the rest of the host is looked at.
    pub(super) fn unprepared(&mut self, errors: &[DeviceError]) {
        let told: Vec<String> = errors.iter().map(|error| sentence(error)).collect();
        if self.observation.unprepared == told {
            return;
        }
        for error in &told {
            tracing::warn!(%error, "a device of the host is not as the configuration wants it");
        }
        if told.is_empty() {
            tracing::info!("the host's devices are as the configuration wants them");
        }
        self.observation.unprepared = told;
    }

    pub(super) fn unobserved(&mut self, sequence: u64, error: ObserveError, now: Instant) {
        let text = sentence(&error);
        if self.observation.failure.as_deref() != Some(&text) {
            tracing::warn!(error = %text, "the hypervisor cannot be observed; trying again");
        }
        self.observation.retry_at = Some(now + self.observation.backoff.failed());
        self.health
            .set(HYPERVISOR_AWAY.found().with("error", text.clone()), now);
        let outcome = TickOutcome {
            at: SystemTime::now(),
            unobserved: Some(text.clone()),
            nodes: Vec::new(),
        };
        self.waiting.answer(sequence, &outcome);
        self.observation.failure = Some(text);
        self.last_failure = LastFailure::Observe(error);
    }

    pub(super) fn see_nodes(&mut self, view: &HostView, now: Instant) {
        let journey = match self.phase {
            Phase::Starting => Journey::Startup,
            Phase::Running | Phase::Stopping => Journey::Tick,
        };
        let changes = self.nodes.see(view, journey);
        for node in &changes.came {
            findings::node_came(&mut self.health, node);
            tracing::info!(%node, "the hypervisor shows a node");
        }
        for node in &changes.went {
            findings::node_went(&mut self.health, node, now);
            tracing::warn!(%node, "the hypervisor no longer shows a node; its provider stays as it is");
        }
        findings::of_view(&mut self.health, view, now);
        self.metrics.unfit_devices(findings::unfit(view));
        if view.nodes.is_empty() {
            self.health.set(NO_NODE.found(), now);
            self.observation.retry_at = Some(now + self.observation.backoff.failed());
            self.last_failure = LastFailure::NoNode;
        } else {
            self.health.clear(&NO_NODE, "");
        }
    }
}
