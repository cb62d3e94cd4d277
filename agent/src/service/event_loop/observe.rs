//! Observations of the host, and how their results are processed.

use std::sync::Arc;
use std::time::SystemTime;

use berth_agent_api::health::{HYPERVISOR_AWAY, NO_NODE};
use berth_agent_api::{Phase, TickOutcome};
use berth_model::{Disposition, error_chain};
use berth_virt::{DeviceError, HostView, ObserveError, VirtDriver};
use tokio::time::Instant;

use crate::service::error::{LastFailure, ServiceError};
use crate::service::event_loop::{EventLoop, ObservationTask, TaskCompletion};
use crate::service::findings;
use crate::service::nodes::ObservedView;
use crate::service::pass::PassKind;
use crate::triggers::{Causes, Trigger};

impl<D: VirtDriver> EventLoop<D> {
    pub(super) fn observe(&mut self, causes: &Causes, now: Instant) {
        self.observation.sequence += 1;
        let sequence = self.observation.sequence;
        tracing::debug!(%causes, sequence, "observing the host");
        let driver = Arc::clone(&self.context.driver);
        // Preparing creates virtual functions, which a card that was just plugged in lacks.
        let observation_id = self
            .devices
            .as_ref()
            .map(|it| it.devices.begin_observation());
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
        self.observation.running = Some(ObservationTask {
            task,
            observation_id,
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
            tracing::info!("the hypervisor can be observed again");
        }
        self.observation.backoff.reset();
        self.observation.retry_at = None;
        self.health.clear(&HYPERVISOR_AWAY, "");
        let observation_id = running.as_ref().and_then(|running| running.observation_id);
        if let (Some(service), Some(observation_id)) = (&self.devices, observation_id) {
            service.devices.overlay(observation_id, &mut view);
        }
        self.update_nodes(&view, now);
        if let Some(service) = &self.devices {
            self.nodes
                .add_missing_providers(service.devices.take_missing());
        }
        let breaks_backoff = running.is_some_and(|running| running.breaks_backoff);
        let view = Arc::new(view);
        self.view = Some(Arc::clone(&view));
        let observed_view = ObservedView {
            view,
            sequence,
            breaks_backoff,
        };
        for (tracker_slot, order) in self.nodes.start_passes(&observed_view, &self.settings, now) {
            self.begin_pass(tracker_slot, order);
        }
        self.answer_waiting();
        Ok(())
    }

    /// Logs devices that could not be prepared, once until that changes. The rest of the host is observed anyway.
    pub(super) fn unprepared(&mut self, errors: &[DeviceError]) {
        let sentences: Vec<String> = errors.iter().map(|error| error_chain(error)).collect();
        if self.observation.unprepared == sentences {
            return;
        }
        for error in &sentences {
            tracing::warn!(%error, "a device of the host could not be configured");
        }
        if sentences.is_empty() {
            tracing::info!("all devices of the host are configured");
        }
        self.observation.unprepared = sentences;
    }

    pub(super) fn unobserved(&mut self, sequence: u64, error: ObserveError, now: Instant) {
        let text = error_chain(&error);
        if self.observation.failure.as_deref() != Some(&text) {
            tracing::warn!(
                error = %text,
                "the hypervisor cannot be observed; retrying; without libvirt: berth demo, or --machine FILE for a \
                 simulated host"
            );
        }
        self.observation.retry_at = Some(now + self.observation.backoff.next_delay());
        self.health
            .set(HYPERVISOR_AWAY.finding().with("error", text.clone()), now);
        let outcome = TickOutcome {
            at: SystemTime::now(),
            unobserved: Some(text.clone()),
            nodes: Vec::new(),
        };
        self.waiting.answer(sequence, &outcome);
        self.observation.failure = Some(text);
        self.last_failure = LastFailure::Observe(error);
    }

    pub(super) fn update_nodes(&mut self, view: &HostView, now: Instant) {
        let kind = match self.phase {
            Phase::Starting => PassKind::Startup,
            Phase::Running | Phase::Stopping => PassKind::Tick,
        };
        let changes = self.nodes.update_nodes(view, kind);
        for node in &changes.appeared {
            findings::node_appeared(&mut self.health, node);
            tracing::info!(%node, "the hypervisor reports a new node");
        }
        for node in &changes.disappeared {
            findings::node_disappeared(&mut self.health, node, now);
            tracing::warn!(%node, "the hypervisor no longer reports a node; its resource provider stays in Placement");
        }
        findings::of_view(&mut self.health, view, now);
        self.metrics.unfit_devices(findings::unfit(view));
        self.metrics.devices(view);
        if view.nodes.is_empty() {
            self.health.set(NO_NODE.finding(), now);
            self.observation.retry_at = Some(now + self.observation.backoff.next_delay());
            self.last_failure = LastFailure::NoNode;
        } else {
            self.health.clear(&NO_NODE, "");
        }
    }
}
