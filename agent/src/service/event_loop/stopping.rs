//! The end: nothing new begins, and passes under way are finished.

use std::time::Duration;

use berth_agent_api::Phase;
use berth_agent_tracker::error_chain::sentence;
use berth_virt::VirtDriver;
use tokio::time::{Instant, timeout_at};

use crate::service::error::ServiceError;
use crate::service::event_loop::{EventLoop, TaskCompletion};
use crate::service::pass::Returned;

/// What stays of the time to stop when passes under way were waited for.
const TIDY_UP: Duration = Duration::from_secs(20);

impl<D: VirtDriver> EventLoop<D> {
    /// Ends: nothing new begins, passes under way are finished, at most for `graceful_shutdown_timeout`; after a deadline as
    /// long as none is without an answer for as long as the whole run was given.
    pub(super) async fn stop(&mut self, error: Option<&ServiceError>) {
        let grace = self.live.graceful_shutdown_timeout;
        self.phase = Phase::Stopping;
        self.publish(Instant::now());
        self.notifier.stopping();
        self.notifier.extend_timeout(grace + TIDY_UP);
        // Looking changes nothing and need not be waited for.
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
                tracing::warn!("a pass waits for an answer past the deadline and is cut off");
                break;
            }
            let look = |patience: Duration| now + (patience / 4).max(Duration::from_millis(100));
            let until = patience.map_or(deadline, |patience| look(patience).min(deadline));
            match timeout_at(until, self.work.join_next()).await {
                Ok(Some(Ok(TaskCompletion::Passed(returned)))) => self.finished(*returned),
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) if until < deadline => {}
                Err(_) => {
                    tracing::warn!(
                        ?grace,
                        "a pass did not end within graceful_shutdown_timeout and is cut off"
                    );
                    break;
                }
            }
        }
        self.work.shutdown().await;
        if let Some(error) = error {
            self.notifier.last_words(&sentence(error));
        }
    }

    /// A pass that came back during the stop.
    pub(super) fn finished(&mut self, returned: Returned<D>) {
        let (now, node) = (Instant::now(), returned.node.clone());
        let before = self.nodes.state(&node).cloned();
        self.nodes.returned(returned, &self.terms, now);
        self.log(&node, before.as_ref());
        self.publish(now);
    }
}
