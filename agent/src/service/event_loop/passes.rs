//! Passes that begin and come back, and who waited for them.

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
use crate::service::pass::{self, Journey, Order, Returned, TrackerSlot};

impl<D: VirtDriver> EventLoop<D> {
    pub(super) fn begin_pass(&mut self, progressed: TrackerSlot<D>, order: Order) {
        let surroundings = Arc::clone(&self.surroundings);
        self.work.spawn_local(async move {
            TaskCompletion::Passed(Box::new(pass::run(surroundings, progressed, order).await))
        });
    }

    pub(super) fn passed(&mut self, returned: Returned<D>) -> Result<(), ServiceError> {
        let now = Instant::now();
        let (node, journey, took) = (returned.node.clone(), returned.journey, returned.took);
        self.metrics.pass_took(took);
        let before = self.nodes.state(&node).cloned();
        let (next, error) = self.nodes.returned(returned, &self.terms, now);
        findings::of_nodes(&mut self.health, self.nodes.states(), now);
        self.log(&node, before.as_ref());
        if let Some((progressed, order)) = next {
            self.begin_pass(progressed, order);
        }
        self.answer_waiting();
        match error {
            None => Ok(()),
            Some(error) => self.failed(node, journey, error),
        }
    }

    /// Tries again, unless that cannot help.
    pub(super) fn failed(
        &mut self,
        node: NodeName,
        journey: Journey,
        source: PassError,
    ) -> Result<(), ServiceError> {
        if matches!(source, PassError::Startup(StartupError::Refused(_))) {
            self.metrics.reshape_refused();
        }
        match source {
            PassError::Tick(TickError::ReshapeNeeded(pending)) => {
                Err(ServiceError::ReshapeNeeded { node, pending })
            }
            source if journey == Journey::Startup && source.disposition() == Disposition::Fatal => {
                Err(ServiceError::Start { node, source })
            }
            source => {
                self.last_failure = LastFailure::Pass { node, source };
                Ok(())
            }
        }
    }

    /// One line where something changed; a failure that repeats is said again at every doubling only.
    pub(super) fn log(&self, node: &NodeName, before: Option<&NodeState>) {
        let Some(state) = self.nodes.state(node) else {
            return;
        };
        let Some(last) = &state.last else { return };
        let took = last.took;
        if last.result == PassResult::Failed {
            let (failures, error) = (state.failures, &last.text);
            if failures.is_power_of_two() {
                tracing::warn!(%node, failures, %error, "the pass failed");
            } else {
                tracing::debug!(%node, failures, %error, "the pass failed");
            }
            return;
        }
        let was_well =
            before.is_some_and(|before| before.last.is_some() && before.trouble.is_none());
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
