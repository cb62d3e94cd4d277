//! Shutdown: nothing new starts, and running passes are finished.

use std::time::Duration;

use berth_agent_api::Phase;
use berth_model::error_chain;
use berth_virt::VirtDriver;
use tokio::time::{Instant, timeout_at};

use crate::service::error::ServiceError;
use crate::service::event_loop::{EventLoop, TaskCompletion};
use crate::service::pass::FinishedPass;

/// Time for cleaning up after running passes were waited for.
const TIDY_UP: Duration = Duration::from_secs(20);

impl<D: VirtDriver> EventLoop<D> {
    /// Stops: nothing new starts, and running passes are finished within `graceful_shutdown_timeout`. After the
    /// deadline of a `--once` run, a pass continues only while it makes progress.
    pub(super) async fn stop(&mut self, error: Option<&ServiceError>) {
        let grace = self.live.graceful_shutdown_timeout;
        self.phase = Phase::Stopping;
        self.publish(Instant::now());
        self.notifier.stopping();
        self.notifier.extend_timeout(grace + TIDY_UP);
        // An observation changes nothing, so it can be aborted.
        if let Some(running) = self.observation.running.take() {
            running.task.abort();
        }
        self.nodes.drop_waiting();
        let deadline = Instant::now() + grace;
        let patience = match error {
            Some(ServiceError::DeadlinePassed { deadline, .. }) => Some(*deadline),
            _ => None,
        };
        while self.nodes.any_busy() {
            let now = Instant::now();
            let silent = |patience: &Duration| {
                let mut silences = self.nodes.silences(now);
                silences.all(|(_, silence)| silence >= *patience)
            };
            if patience.as_ref().is_some_and(silent) {
                tracing::warn!("a pass without a response past the deadline was aborted");
                break;
            }
            let end_of_wait =
                |patience: Duration| now + (patience / 4).max(Duration::from_millis(100));
            let until = patience.map_or(deadline, |patience| end_of_wait(patience).min(deadline));
            match timeout_at(until, self.work.join_next()).await {
                Ok(Some(Ok(TaskCompletion::PassFinished(finished)))) => {
                    self.pass_finished_in_shutdown(*finished)
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) if until < deadline => {}
                Err(_) => {
                    tracing::warn!(
                        ?grace,
                        "a pass did not finish within graceful_shutdown_timeout and was aborted"
                    );
                    break;
                }
            }
        }
        self.work.shutdown().await;
        if let Some(error) = error {
            self.notifier.final_status(&error_chain(error));
        }
    }

    /// Processes a pass that finished during the stop.
    pub(super) fn pass_finished_in_shutdown(&mut self, finished: FinishedPass<D>) {
        let (now, node) = (Instant::now(), finished.node.clone());
        let before = self.nodes.state(&node).cloned();
        self.nodes.finish_pass(finished, &self.settings, now);
        self.log(&node, before.as_ref());
        self.publish(now);
    }
}
