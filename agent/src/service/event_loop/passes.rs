//! Starts and finishes passes, and answers the requests that wait for them.

use std::sync::Arc;
use std::time::SystemTime;

use berth_agent_api::{NodeState, PassResult, TickOutcome};
use berth_agent_tracker::startup::StartupError;
use berth_agent_tracker::tick::TickError;
use berth_model::{Disposition, NodeName};
use berth_virt::VirtDriver;
use tokio::time::Instant;

use crate::service::error::{LastFailure, PassError, ServiceError};
use crate::service::event_loop::{EventLoop, TaskCompletion};
use crate::service::findings;
use crate::service::pass::{self, FinishedPass, PassKind, PassRequest, TrackerSlot};

impl<D: VirtDriver> EventLoop<D> {
    pub(super) fn begin_pass(&mut self, tracker_slot: TrackerSlot<D>, request: PassRequest) {
        let context = Arc::clone(&self.context);
        self.work.spawn_local(async move {
            TaskCompletion::PassFinished(Box::new(pass::run(context, tracker_slot, request).await))
        });
    }

    pub(super) fn pass_finished(&mut self, finished: FinishedPass<D>) -> Result<(), ServiceError> {
        let now = Instant::now();
        let (node, kind, took) = (finished.node.clone(), finished.kind, finished.took);
        self.metrics.pass_took(took);
        let before = self.nodes.state(&node).cloned();
        let (next, error) = self.nodes.finish_pass(finished, &self.settings, now);
        findings::of_nodes(&mut self.health, self.nodes.states(), now);
        self.log(&node, before.as_ref());
        if let Some((tracker_slot, request)) = next {
            self.begin_pass(tracker_slot, request);
        }
        self.answer_waiting();
        match error {
            None => Ok(()),
            Some(error) => self.handle_failure(node, kind, error),
        }
    }

    /// Decides whether a failure ends the service. Otherwise the node is retried.
    pub(super) fn handle_failure(
        &mut self,
        node: NodeName,
        kind: PassKind,
        source: PassError,
    ) -> Result<(), ServiceError> {
        if matches!(source, PassError::Startup(StartupError::Refused(_))) {
            self.metrics.reshape_refused();
        }
        match source {
            PassError::Tick(TickError::ReshapeNeeded(pending)) => {
                Err(ServiceError::ReshapeNeeded { node, pending })
            }
            source if kind == PassKind::Startup && source.disposition() == Disposition::Fatal => {
                Err(ServiceError::Start { node, source })
            }
            source => {
                self.last_failure = LastFailure::Pass { node, source };
                Ok(())
            }
        }
    }

    /// Logs the result of a pass if something changed. A repeated failure is logged at the 1st, 2nd, 4th, 8th...
    /// occurrence.
    pub(super) fn log(&self, node: &NodeName, before: Option<&NodeState>) {
        let Some(state) = self.nodes.state(node) else {
            return;
        };
        let Some(last) = &state.last else { return };
        let took = last.took;
        if last.result == PassResult::Failed {
            let (failures, error) = (state.failures, &last.text);
            if failures.is_power_of_two() {
                tracing::warn!(%node, failures, %error, "the cycle failed; retrying");
            } else {
                tracing::debug!(%node, failures, %error, "the cycle failed; retrying");
            }
            return;
        }
        let was_well =
            before.is_some_and(|before| before.last.is_some() && before.failure_cause.is_none());
        if last.result == PassResult::InSync && was_well {
            tracing::debug!(%node, ?took, "in sync");
        } else {
            tracing::info!(%node, ?took, result = last.result.as_str(), "{}", last.text);
        }
        if before.is_none_or(|before| before.held != state.held) {
            for held in &state.held {
                tracing::warn!(%node, "{held}");
            }
        }
    }

    pub(super) fn answer_waiting(&mut self) {
        while let Some(sequence) = self.waiting.first() {
            let over = self.observation.running.is_none() || self.observation.sequence > sequence;
            if sequence > self.observation.sequence || !over || !self.nodes.all_finished(sequence) {
                return;
            }
            let nodes = self
                .nodes
                .states()
                .filter_map(|(name, node)| Some((name.clone(), node.last.clone()?)));
            let outcome = TickOutcome {
                at: SystemTime::now(),
                unobserved: None,
                nodes: nodes.collect(),
            };
            self.waiting.answer(sequence, &outcome);
        }
    }
}
