//! When to notify the service manager: a long start asks for more time, and a running loop notifies the watchdog.
//! Neither is sent while a task is stuck. Pure.

use std::time::Duration;

use tokio::time::Instant;

/// How often a start asks for more time.
const EXTEND_EVERY: Duration = Duration::from_secs(20);
pub(super) const EXTEND_BY: Duration = Duration::from_secs(90);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Due {
    pub(super) extend: bool,
    pub(super) alive: bool,
}

#[derive(Debug)]
pub(super) struct Keepalive {
    watchdog: Option<(Duration, Instant)>,
    extend: Option<Instant>,
}

impl Keepalive {
    /// Begins a start, with a watchdog that expects a notification in this period.
    pub(super) fn new(watchdog: Option<Duration>, now: Instant) -> Self {
        let watchdog = watchdog.map(|period| (period.max(Duration::from_millis(1)), now));
        Self {
            watchdog,
            extend: Some(now),
        }
    }

    /// The start is finished.
    pub(super) fn started(&mut self) {
        self.extend = None;
    }

    /// Returns what is due now, and schedules the next time.
    pub(super) fn due(&mut self, now: Instant) -> Due {
        let mut due = Due::default();
        if let Some(at) = self.extend.as_mut().filter(|at| **at <= now) {
            *at = now + EXTEND_EVERY;
            due.extend = true;
        }
        if let Some((period, at)) = self.watchdog.as_mut().filter(|(_, at)| *at <= now) {
            *at = now + *period;
            due.alive = true;
        }
        due
    }

    /// Time of the next notification.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        let watchdog = self.watchdog.map(|(_, at)| at);
        [watchdog, self.extend].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_asks_for_more_time_long_before_the_last_is_over() {
        let start = Instant::now();
        let mut keepalive = Keepalive::new(None, start);
        assert_eq!(
            keepalive.due(start),
            Due {
                extend: true,
                alive: false
            }
        );
        let next = keepalive.wake_at().expect("again");
        assert!(next < start + EXTEND_BY / 2);
        assert_eq!(keepalive.due(start), Due::default());
        keepalive.started();
        assert_eq!(keepalive.due(next), Due::default());
        assert_eq!(keepalive.wake_at(), None);
    }

    #[test]
    fn a_watchdog_is_petted_in_its_period_and_late_pets_are_not_made_up() {
        let start = Instant::now();
        let period = Duration::from_secs(30);
        let mut keepalive = Keepalive::new(Some(period), start);
        keepalive.started();
        assert!(keepalive.due(start).alive);
        assert_eq!(keepalive.wake_at(), Some(start + period));
        let late = start + period * 7;
        assert!(keepalive.due(late).alive);
        assert!(!keepalive.due(late).alive);
        assert_eq!(keepalive.wake_at(), Some(late + period));
    }
}
