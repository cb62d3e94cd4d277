//! Decides when the agent observes its host. All triggers (timer, host event, SIGHUP, request, retry) are coalesced: a
//! burst causes one pass, and triggers during a pass cause exactly one more.
//!
//! [`Triggers`] is pure: the caller passes the time. Only [`wake`] waits.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

/// Reason for a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trigger {
    Start,
    /// `update_resources_interval` has passed.
    Timer,
    HostEvent,
    Reload,
    /// A request on the admin socket.
    Request,
    /// The backoff after a failed pass has passed.
    Retry,
}

impl Trigger {
    /// How long to wait for more triggers of the same kind. A hot-plugged card causes dozens of events.
    #[must_use]
    pub const fn settle(self) -> Duration {
        match self {
            Trigger::HostEvent => Duration::from_millis(500),
            Trigger::Start
            | Trigger::Timer
            | Trigger::Reload
            | Trigger::Request
            | Trigger::Retry => Duration::ZERO,
        }
    }

    /// Whether the trigger also applies to nodes in backoff, because an operator waits for the result.
    #[must_use]
    pub const fn breaks_backoff(self) -> bool {
        matches!(self, Trigger::Start | Trigger::Reload | Trigger::Request)
    }
}

/// Triggers of a pass.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Causes(BTreeSet<Trigger>);

impl Causes {
    /// Whether the pass includes nodes in backoff.
    #[must_use]
    pub fn break_backoff(&self) -> bool {
        self.0.iter().any(|trigger| trigger.breaks_backoff())
    }

    #[must_use]
    pub fn has(&self, trigger: Trigger) -> bool {
        self.0.contains(&trigger)
    }
}

impl fmt::Display for Causes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, trigger) in self.0.iter().enumerate() {
            let name = match trigger {
                Trigger::Start => "start",
                Trigger::Timer => "timer",
                Trigger::HostEvent => "host event",
                Trigger::Reload => "reload",
                Trigger::Request => "request",
                Trigger::Retry => "retry",
            };
            write!(f, "{}{name}", if place == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// Interval of periodic passes (`update_resources_interval`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interval {
    Off,
    /// This often; zero means one second.
    Every(Duration),
}

/// Pending triggers, and whether a pass is running.
#[derive(Debug)]
pub struct Triggers {
    interval: Interval,
    timer: Option<Instant>,
    wanted: Option<(Instant, Causes)>,
    retry: Option<Instant>,
    running: bool,
}

impl Triggers {
    /// Without pending triggers. The first periodic pass comes after the interval and `fuzzy`, a random part of
    /// `periodic_fuzzy_delay`: agents that start together then do not send their requests together.
    #[must_use]
    pub fn new(interval: Interval, fuzzy: Duration, now: Instant) -> Self {
        let mut triggers = Self {
            interval,
            timer: None,
            wanted: None,
            retry: None,
            running: false,
        };
        triggers.set_interval(interval, fuzzy, now);
        triggers
    }

    /// Changes the interval from now on.
    pub fn set_interval(&mut self, interval: Interval, fuzzy: Duration, now: Instant) {
        self.interval = match interval {
            Interval::Off => Interval::Off,
            Interval::Every(period) if period.is_zero() => Interval::Every(Duration::from_secs(1)),
            every @ Interval::Every(_) => every,
        };
        self.timer = match self.interval {
            Interval::Off => None,
            Interval::Every(period) => Some(now + period + fuzzy),
        };
    }

    pub fn add(&mut self, trigger: Trigger, now: Instant) {
        let at = now + trigger.settle();
        let (due, causes) = self.wanted.get_or_insert_with(|| (at, Causes::default()));
        *due = at.min(*due);
        causes.0.insert(trigger);
    }

    /// Sets the time of the next retry.
    pub fn retry_at(&mut self, at: Option<Instant>) {
        self.retry = at;
    }

    /// Time at which [`Triggers::begin`] should be called; `None` while a pass is running.
    #[must_use]
    pub fn wake_at(&self) -> Option<Instant> {
        if self.running {
            return None;
        }
        let wanted = self.wanted.as_ref().map(|(at, _)| *at);
        [wanted, self.timer, self.retry].into_iter().flatten().min()
    }

    /// Begins a pass if one is due and none is running. It covers all pending triggers, due or not.
    pub fn begin(&mut self, now: Instant) -> Option<Causes> {
        if self.wake_at().is_none_or(|at| at > now) {
            return None;
        }
        let mut causes = self
            .wanted
            .take()
            .map(|(_, causes)| causes)
            .unwrap_or_default();
        if self.timer.is_some_and(|at| at <= now) {
            causes.0.insert(Trigger::Timer);
            self.timer = self.next_timer(now);
        }
        if self.retry.is_some_and(|at| at <= now) {
            causes.0.insert(Trigger::Retry);
            self.retry = None;
        }
        self.running = true;
        Some(causes)
    }

    /// The pass has finished.
    pub fn finish(&mut self) {
        self.running = false;
    }

    /// Keeps the cadence: a late pass does not shift later ones, and missed ones are not repeated.
    fn next_timer(&self, now: Instant) -> Option<Instant> {
        let (Interval::Every(period), Some(due)) = (self.interval, self.timer) else {
            return None;
        };
        let missed = now.duration_since(due).as_nanos() / period.as_nanos().max(1);
        let periods = u32::try_from(missed).unwrap_or(u32::MAX - 1) + 1;
        Some(due + period.saturating_mul(periods))
    }
}

/// Waits until this time; forever without one.
pub async fn wake(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    fn quiet(now: Instant) -> Triggers {
        Triggers::new(Interval::Off, Duration::ZERO, now)
    }

    #[test]
    fn a_burst_gives_one_pass_and_what_comes_during_it_exactly_one_more() {
        let start = Instant::now();
        let mut triggers = quiet(start);
        let mut now = start;
        for _ in 0..40 {
            triggers.add(Trigger::HostEvent, now);
            assert_eq!(
                triggers.begin(now),
                None,
                "not before the burst has settled"
            );
            now += Duration::from_millis(10);
        }
        now = triggers.wake_at().expect("a pass is due");
        assert!(triggers.begin(now).is_some());
        triggers.add(Trigger::HostEvent, now);
        triggers.add(Trigger::HostEvent, now);
        assert_eq!(triggers.wake_at(), None, "one at a time");
        triggers.finish();
        now = triggers.wake_at().expect("one more");
        assert!(triggers.begin(now).is_some());
        triggers.finish();
        assert_eq!(triggers.wake_at(), None);
    }

    #[test]
    fn a_request_does_not_wait_for_a_burst_to_settle_and_answers_for_it() {
        let now = Instant::now();
        let mut triggers = quiet(now);
        triggers.add(Trigger::HostEvent, now);
        triggers.add(Trigger::Request, now);
        let causes = triggers.begin(now).expect("at once");
        assert!(causes.break_backoff());
        assert_eq!(causes.to_string(), "host event, request");
        triggers.finish();
        assert_eq!(triggers.wake_at(), None);
    }

    #[test]
    fn the_timer_keeps_its_cadence_and_makes_up_no_missed_pass() {
        let start = Instant::now();
        let fuzzy = Duration::from_secs(7);
        let mut triggers = Triggers::new(Interval::Every(MINUTE), fuzzy, start);
        assert_eq!(triggers.wake_at(), Some(start + MINUTE + fuzzy));
        let late = start + MINUTE * 4 + Duration::from_secs(30);
        assert!(
            triggers
                .begin(late)
                .is_some_and(|causes| causes.has(Trigger::Timer))
        );
        triggers.finish();
        assert_eq!(triggers.wake_at(), Some(start + MINUTE * 5 + fuzzy));
    }

    #[test]
    fn no_interval_is_too_short_to_work() {
        let start = Instant::now();
        let mut triggers = Triggers::new(Interval::Every(Duration::ZERO), Duration::ZERO, start);
        assert_eq!(triggers.wake_at(), Some(start + Duration::from_secs(1)));
        let far = start + Duration::from_secs(3_600 * 24 * 365);
        assert!(triggers.begin(far).is_some());
        triggers.finish();
        assert!(triggers.wake_at().is_some_and(|at| at > far));
    }

    #[test]
    fn a_retry_is_one_reason_among_others_and_is_withdrawn() {
        let now = Instant::now();
        let mut triggers = quiet(now);
        triggers.retry_at(Some(now + MINUTE));
        assert_eq!(triggers.begin(now), None);
        let causes = triggers.begin(now + MINUTE).expect("due");
        assert!(causes.has(Trigger::Retry) && !causes.break_backoff());
        triggers.finish();
        assert_eq!(triggers.wake_at(), None);
        triggers.retry_at(Some(now + MINUTE * 2));
        triggers.retry_at(None);
        assert_eq!(triggers.wake_at(), None);
    }

    #[derive(Debug, Clone, Copy)]
    enum Happening {
        Note(Trigger),
        Pass(u64),
        Finish,
    }

    fn happening() -> impl Strategy<Value = Happening> {
        let trigger = prop_oneof![
            4 => Just(Trigger::HostEvent),
            1 => Just(Trigger::Request),
            1 => Just(Trigger::Reload),
        ];
        prop_oneof![
            3 => trigger.prop_map(Happening::Note),
            2 => (0u64..900).prop_map(Happening::Pass),
            2 => Just(Happening::Finish),
        ]
    }

    proptest! {
        #[test]
        fn no_reason_is_lost_no_two_passes_overlap_and_none_is_made_without_a_reason(
            happenings in proptest::collection::vec(happening(), 0..200)
        ) {
            let mut now = Instant::now();
            let mut triggers = quiet(now);
            let mut running = false;
            let mut unanswered: Option<Instant> = None;
            for happening in happenings {
                match happening {
                    Happening::Note(trigger) => {
                        triggers.add(trigger, now);
                        unanswered.get_or_insert(now);
                    }
                    Happening::Pass(millis) => now += Duration::from_millis(millis),
                    Happening::Finish => {
                        triggers.finish();
                        running = false;
                    }
                }
                if let Some(causes) = triggers.begin(now) {
                    prop_assert!(!running, "two at once");
                    prop_assert!(unanswered.is_some(), "for no reason: {causes}");
                    running = true;
                    unanswered = None;
                }
                if !running && let Some(since) = unanswered {
                    prop_assert!(now < since + Trigger::HostEvent.settle(), "forgotten");
                    prop_assert!(triggers.wake_at().is_some(), "would sleep forever");
                }
            }
        }
    }
}
