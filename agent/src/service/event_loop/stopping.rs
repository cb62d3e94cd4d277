//! The end: nothing new begins, and passes under way are finished.

use std::time::Duration;

use berth_virt::VirtDriver;
use tokio::time::{Instant, timeout_at};

use super::{Done, EventLoop};
use crate::service::error::{ServiceError, sentence};
use crate::service::pass::Returned;
use crate::service::state::Phase;

/// What stays of the time to stop when passes under way were waited for.
const TIDY_UP: Duration = Duration::from_secs(20);

impl<D: VirtDriver> EventLoop<D> {
    /// Ends: nothing new begins, passes under way are finished, at most for `graceful_shutdown_timeout`.
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
        while self.nodes.any_busy() {
            match timeout_at(deadline, self.work.join_next()).await {
                Ok(Some(Ok(Done::Passed(returned)))) => self.finished(*returned),
                Ok(Some(_)) => {}
                Ok(None) => break,
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
