//! Health of the agent: the list of findings that `/healthz`, `STATUS=`, the metric `berth_health_messages` and `berth
//! doctor` show.
//!
//! A [`Warnable`] (the name is Tailscale's) is a kind of problem: code, severity, title, text template, causes, and a
//! delay before it is shown. All kinds are static values in `warnables`. A [`HealthFinding`] is one occurrence, and
//! [`AgentHealth`] holds the current ones. While a cause is present, its effects are hidden, so one problem gives one
//! message; the delay keeps short problems from being shown.

mod warnables;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

pub use crate::health::warnables::*;

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The agent cannot do its work: `/healthz` returns 503.
    Error,
    /// The agent works, but an operator should act.
    Warning,
}

impl Severity {
    /// Both severities, the worse first.
    pub const ALL: [Severity; 2] = [Severity::Error, Severity::Warning];

    /// Name in bodies and metric labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// A problem that can occur. Each is one static value, identified by its code.
#[derive(Debug)]
pub struct Warnable {
    /// Short, stable name in kebab case, for scripts and runbooks.
    pub code: &'static str,
    pub severity: Severity,
    pub title: &'static str,
    /// Template of one sentence, with `{name}` placeholders.
    pub text: &'static str,
    /// Causes: while one of them is present, this finding is hidden.
    pub depends_on: &'static [&'static Warnable],
    /// Time for which the problem must last before it is shown.
    pub time_to_visible: Duration,
}

impl Warnable {
    /// A finding of this problem, without subject and arguments.
    #[must_use]
    pub fn finding(&'static self) -> HealthFinding {
        HealthFinding {
            warnable: self,
            subject: Cow::Borrowed(""),
            arguments: BTreeMap::new(),
        }
    }

    /// Names of the template's placeholders.
    pub fn placeholders(&self) -> impl Iterator<Item = &'static str> {
        self.text
            .split('{')
            .skip(1)
            .filter_map(|rest| rest.split_once('}'))
            .map(|(name, _)| name)
    }
}

/// One occurrence of a problem, with its subject and the arguments of the text.
#[derive(Debug, Clone)]
pub struct HealthFinding {
    warnable: &'static Warnable,
    subject: Cow<'static, str>,
    arguments: BTreeMap<&'static str, String>,
}

impl HealthFinding {
    /// Sets the node or file that the finding is about. Each subject has a finding of its own.
    #[must_use]
    pub fn about(mut self, subject: impl Into<Cow<'static, str>>) -> Self {
        self.subject = subject.into();
        self
    }

    /// Sets the value of a placeholder.
    #[must_use]
    pub fn with(mut self, place: &'static str, value: impl Into<String>) -> Self {
        self.arguments.insert(place, value.into());
        self
    }

    /// The text with its placeholders replaced by the arguments; `{subject}` defaults to the subject.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(self.warnable.text.len() + 64);
        let mut rest = self.warnable.text;
        while let Some((before, after)) = rest.split_once('{') {
            text.push_str(before);
            let Some((name, after)) = after.split_once('}') else {
                break;
            };
            match (name, self.arguments.get(name)) {
                (_, Some(value)) => text.push_str(value),
                ("subject", None) => text.push_str(&self.subject),
                (_, None) => text.push('?'),
            }
            rest = after;
        }
        text.push_str(rest);
        text
    }
}

/// All current findings, shown or not yet. It has no clock: the caller passes the time.
#[derive(Debug, Clone, Default)]
pub struct AgentHealth {
    active: BTreeMap<(&'static str, Cow<'static, str>), ActiveFinding>,
}

#[derive(Debug, Clone)]
struct ActiveFinding {
    finding: HealthFinding,
    since: Instant,
}

impl AgentHealth {
    /// Adds or updates a finding. An existing finding keeps its start time and gets the new arguments.
    pub fn set(&mut self, finding: HealthFinding, now: Instant) {
        let key = (finding.warnable.code, finding.subject.clone());
        let since = self.active.get(&key).map_or(now, |active| active.since);
        self.active.insert(key, ActiveFinding { finding, since });
    }

    /// Removes the finding about this subject.
    pub fn clear(&mut self, warnable: &'static Warnable, subject: &str) {
        self.active
            .remove(&(warnable.code, Cow::Owned(subject.to_owned())));
    }

    /// Removes the findings of this problem about all subjects except these.
    pub fn clear_others(&mut self, warnable: &'static Warnable, subjects: &BTreeSet<String>) {
        self.active.retain(|(code, subject), _| {
            *code != warnable.code || subjects.contains(subject.as_ref())
        });
    }

    /// Whether there is a finding of this problem, with any subject, shown or not.
    #[must_use]
    pub fn has(&self, warnable: &'static Warnable) -> bool {
        self.active.keys().any(|(code, _)| *code == warnable.code)
    }

    /// Whether there is a finding with the same subject and the same arguments.
    #[must_use]
    pub fn contains(&self, finding: &HealthFinding) -> bool {
        let key = (finding.warnable.code, finding.subject.clone());
        let known = self.active.get(&key);
        known.is_some_and(|known| known.finding.arguments == finding.arguments)
    }

    /// The findings to show, the most severe first. A finding is shown if it has lasted long enough and if none of its
    /// causes is present, with the same subject or without one.
    #[must_use]
    pub fn visible(&self, now: Instant) -> Vec<HealthMessage> {
        let shown = self.active.values().filter(|active| {
            now.duration_since(active.since) >= active.finding.warnable.time_to_visible
                && !self.is_explained(&active.finding)
        });
        let mut messages: Vec<HealthMessage> = shown.map(HealthMessage::from).collect();
        messages.sort_by_key(|message| (message.severity, message.since));
        messages
    }

    /// The next time at which the delay of a finding ends. A cause may still hide it.
    #[must_use]
    pub fn next_change(&self, now: Instant) -> Option<Instant> {
        let due = self
            .active
            .values()
            .map(|f| f.since + f.finding.warnable.time_to_visible);
        due.filter(|due| *due > now).min()
    }

    fn is_explained(&self, finding: &HealthFinding) -> bool {
        finding.warnable.depends_on.iter().any(|cause| {
            ["", finding.subject.as_ref()].into_iter().any(|subject| {
                self.active
                    .contains_key(&(cause.code, Cow::Owned(subject.to_owned())))
            })
        })
    }
}

/// A finding as it is shown to users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthMessage {
    pub code: &'static str,
    pub severity: Severity,
    pub title: &'static str,
    pub text: String,
    /// Node or file that the finding is about; empty if it is about the whole agent.
    pub subject: String,
    pub since: Instant,
}

impl From<&ActiveFinding> for HealthMessage {
    fn from(active: &ActiveFinding) -> Self {
        let warnable = active.finding.warnable;
        Self {
            code: warnable.code,
            severity: warnable.severity,
            title: warnable.title,
            text: active.finding.text(),
            subject: active.finding.subject.clone().into_owned(),
            since: active.since,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(health: &AgentHealth, now: Instant) -> Vec<&'static str> {
        health
            .visible(now)
            .iter()
            .map(|message| message.code)
            .collect()
    }

    #[test]
    fn placement_down_shows_one_finding_not_seven() {
        let mut health = AgentHealth::default();
        let start = Instant::now();
        health.set(
            PLACEMENT_AWAY.finding().with("error", "connection refused"),
            start,
        );
        for node in ["a", "b", "c", "d", "e", "f"] {
            health.set(NOT_IN_SYNC.finding().about(node), start);
        }
        let later = start + Duration::from_mins(10);
        assert_eq!(codes(&health, later), ["placement-away"]);
        health.clear(&PLACEMENT_AWAY, "");
        assert_eq!(health.visible(later).len(), 6);
    }

    #[test]
    fn a_cause_hides_its_effect_even_before_it_is_shown_itself() {
        let mut health = AgentHealth::default();
        let start = Instant::now();
        health.set(NOT_IN_SYNC.finding().about("a"), start);
        let later = start + Duration::from_hours(1);
        health.set(PLACEMENT_AWAY.finding(), later);
        assert!(health.visible(later).is_empty());
    }

    #[test]
    fn a_cause_with_one_subject_does_not_hide_another_subjects_effect() {
        let mut health = AgentHealth::default();
        let start = Instant::now();
        health.set(IDENTITY.finding().about("a").with("error", "no"), start);
        health.set(NOT_IN_SYNC.finding().about("a"), start);
        health.set(NOT_IN_SYNC.finding().about("b"), start);
        let later = start + Duration::from_hours(1);
        let shown: Vec<_> = health
            .visible(later)
            .into_iter()
            .map(|m| (m.code, m.subject))
            .collect();
        let expected = [
            ("identity", "a".to_owned()),
            ("not-in-sync", "b".to_owned()),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn what_heals_before_its_time_is_never_shown() {
        let mut health = AgentHealth::default();
        let start = Instant::now();
        health.set(PLACEMENT_AWAY.finding(), start);
        let due = health
            .next_change(start)
            .expect("a time at which it becomes visible");
        assert!(health.visible(due - Duration::from_millis(1)).is_empty());
        assert_eq!(codes(&health, due), ["placement-away"]);
        health.clear(&PLACEMENT_AWAY, "");
        assert!(health.visible(due).is_empty());
        assert_eq!(health.next_change(start), None);
    }

    #[test]
    fn what_stays_wrong_keeps_its_start_and_takes_the_last_text() {
        let mut health = AgentHealth::default();
        let start = Instant::now();
        health.set(PLACEMENT_AWAY.finding().with("error", "first"), start);
        let later = start + Duration::from_mins(1);
        health.set(PLACEMENT_AWAY.finding().with("error", "second"), later);
        let message = health.visible(later).remove(0);
        assert_eq!(message.since, start);
        assert!(message.text.contains("second"), "{}", message.text);
    }

    #[test]
    fn only_the_named_subjects_stay_wrong() {
        let mut health = AgentHealth::default();
        let start = Instant::now();
        health.set(IDENTITY.finding().about("a"), start);
        for node in ["a", "b"] {
            health.set(NO_PROGRESS.finding().about(node), start);
        }
        health.clear_others(&NO_PROGRESS, &BTreeSet::from(["b".to_owned()]));
        let shown: Vec<_> = health
            .visible(start)
            .into_iter()
            .map(|m| (m.code, m.subject))
            .collect();
        assert_eq!(
            shown,
            [
                ("identity", "a".to_owned()),
                ("no-progress", "b".to_owned())
            ]
        );
    }

    #[test]
    fn errors_come_before_warnings() {
        let mut health = AgentHealth::default();
        let start = Instant::now();
        health.set(CONFIG_RELOAD_FAILED.finding().with("error", "no"), start);
        health.set(
            RESHAPE_FAILED.finding().about("a").with("error", "no"),
            start,
        );
        assert_eq!(
            codes(&health, start),
            ["reshape-failed", "config-reload-failed"]
        );
    }

    #[test]
    fn every_code_is_its_own_and_no_cause_leads_back() {
        let codes: std::collections::BTreeSet<_> = WARNABLES.iter().map(|w| w.code).collect();
        assert_eq!(codes.len(), WARNABLES.len());
        for warnable in WARNABLES {
            let mut causes: Vec<&Warnable> = warnable.depends_on.to_vec();
            while let Some(cause) = causes.pop() {
                assert_ne!(cause.code, warnable.code, "a ring");
                causes.extend(cause.depends_on);
            }
        }
    }
}
