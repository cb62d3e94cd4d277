//! How the agent is, as one type: what `/healthz`, `STATUS=`, the metric `berth_health_messages` and `berth doctor` show is
//! the same list of findings. The model is Tailscale's `Warnable`: a finding has a code, a severity, a title, a text made from
//! arguments, causes that hide it, and a time before it is shown. So one cause shows as one line, and nothing flaps.

mod warnables;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

pub use crate::health::warnables::*;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// A duty is not done: `/healthz` answers 503.
    Error,
    /// All duties are done, but somebody should look.
    Warning,
}

impl Severity {
    /// Both, the worse first.
    pub const ALL: [Severity; 2] = [Severity::Error, Severity::Warning];

    /// The word in bodies and metric labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// Something that can be wrong. One static value for each; its code is its identity.
#[derive(Debug)]
pub struct Warnable {
    /// Short, stable, in kebab case: scripts and runbooks go by it.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    pub title: &'static str,
    /// A sentence with `{argument}` places.
    pub text: &'static str,
    /// What, while it is wrong too, explains this one and hides it.
    pub depends_on: &'static [&'static Warnable],
    /// How long it must be wrong before it is shown.
    pub time_to_visible: Duration,
}

impl Warnable {
    /// The finding that this is wrong, without subject or arguments yet.
    #[must_use]
    pub fn found(&'static self) -> Finding {
        Finding {
            warnable: self,
            subject: Cow::Borrowed(""),
            arguments: BTreeMap::new(),
        }
    }

    /// The names of the places in the text.
    pub fn places(&self) -> impl Iterator<Item = &'static str> {
        self.text
            .split('{')
            .skip(1)
            .filter_map(|rest| rest.split_once('}'))
            .map(|(name, _)| name)
    }
}

/// That something is wrong, with what and how.
#[derive(Debug, Clone)]
pub struct Finding {
    warnable: &'static Warnable,
    subject: Cow<'static, str>,
    arguments: BTreeMap<&'static str, String>,
}

impl Finding {
    /// The node or file it is about; the same thing can be wrong with several.
    #[must_use]
    pub fn of(mut self, subject: impl Into<Cow<'static, str>>) -> Self {
        self.subject = subject.into();
        self
    }

    /// Fills a place of the text.
    #[must_use]
    pub fn with(mut self, place: &'static str, value: impl Into<String>) -> Self {
        self.arguments.insert(place, value.into());
        self
    }

    /// The text with its places filled: by the arguments, and `{subject}` by the subject.
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

/// Everything that is wrong at present, shown or not yet. A value: time comes in as an argument.
#[derive(Debug, Clone, Default)]
pub struct Health {
    found: BTreeMap<(&'static str, Cow<'static, str>), Found>,
}

#[derive(Debug, Clone)]
struct Found {
    finding: Finding,
    since: Instant,
}

impl Health {
    /// Notes that something is wrong. What was wrong already keeps its start and takes the new arguments.
    pub fn set(&mut self, finding: Finding, now: Instant) {
        let key = (finding.warnable.code, finding.subject.clone());
        let since = self.found.get(&key).map_or(now, |found| found.since);
        self.found.insert(key, Found { finding, since });
    }

    /// Notes that it is well again for this subject.
    pub fn clear(&mut self, warnable: &'static Warnable, subject: &str) {
        self.found
            .remove(&(warnable.code, Cow::Owned(subject.to_owned())));
    }

    /// Notes that this is wrong with no subject but these.
    pub fn clear_others(&mut self, warnable: &'static Warnable, subjects: &BTreeSet<String>) {
        self.found.retain(|(code, subject), _| {
            *code != warnable.code || subjects.contains(subject.as_ref())
        });
    }

    /// Whether this is wrong, with any subject, shown or not.
    #[must_use]
    pub fn has(&self, warnable: &'static Warnable) -> bool {
        self.found.keys().any(|(code, _)| *code == warnable.code)
    }

    /// Whether this very finding is there, word for word.
    #[must_use]
    pub fn says(&self, finding: &Finding) -> bool {
        let key = (finding.warnable.code, finding.subject.clone());
        let known = self.found.get(&key);
        known.is_some_and(|known| known.finding.arguments == finding.arguments)
    }

    /// What is to be shown, the worst first: wrong for long enough, and not explained by a cause that is wrong too (with
    /// the same subject, or with none).
    #[must_use]
    pub fn visible(&self, now: Instant) -> Vec<Message> {
        let shown = self.found.values().filter(|found| {
            now.duration_since(found.since) >= found.finding.warnable.time_to_visible
                && !self.is_explained(&found.finding)
        });
        let mut messages: Vec<Message> = shown.map(Message::from).collect();
        messages.sort_by_key(|message| (message.severity, message.since));
        messages
    }

    /// When the next finding is due to be shown, so that its reader can be told then.
    #[must_use]
    pub fn next_change(&self, now: Instant) -> Option<Instant> {
        let due = self
            .found
            .values()
            .map(|f| f.since + f.finding.warnable.time_to_visible);
        due.filter(|due| *due > now).min()
    }

    fn is_explained(&self, finding: &Finding) -> bool {
        finding.warnable.depends_on.iter().any(|cause| {
            ["", finding.subject.as_ref()].into_iter().any(|subject| {
                self.found
                    .contains_key(&(cause.code, Cow::Owned(subject.to_owned())))
            })
        })
    }
}

/// A finding as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    pub title: &'static str,
    pub text: String,
    /// The node or file it is about; empty where it is about the whole agent.
    pub subject: String,
    pub since: Instant,
}

impl From<&Found> for Message {
    fn from(found: &Found) -> Self {
        let warnable = found.finding.warnable;
        Self {
            code: warnable.code,
            severity: warnable.severity,
            title: warnable.title,
            text: found.finding.text(),
            subject: found.finding.subject.clone().into_owned(),
            since: found.since,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(health: &Health, now: Instant) -> Vec<&'static str> {
        health
            .visible(now)
            .iter()
            .map(|message| message.code)
            .collect()
    }

    #[test]
    fn placement_down_shows_one_finding_not_seven() {
        let mut health = Health::default();
        let start = Instant::now();
        health.set(
            PLACEMENT_AWAY
                .found()
                .with("error", "it refuses connections"),
            start,
        );
        for node in ["a", "b", "c", "d", "e", "f"] {
            health.set(NOT_IN_SYNC.found().of(node), start);
        }
        let later = start + Duration::from_mins(10);
        assert_eq!(codes(&health, later), ["placement-away"]);
        health.clear(&PLACEMENT_AWAY, "");
        assert_eq!(health.visible(later).len(), 6);
    }

    #[test]
    fn a_cause_hides_its_effect_even_before_it_is_shown_itself() {
        let mut health = Health::default();
        let start = Instant::now();
        health.set(NOT_IN_SYNC.found().of("a"), start);
        let later = start + Duration::from_hours(1);
        health.set(PLACEMENT_AWAY.found(), later);
        assert!(health.visible(later).is_empty());
    }

    #[test]
    fn a_cause_with_one_subject_does_not_hide_another_subjects_effect() {
        let mut health = Health::default();
        let start = Instant::now();
        health.set(IDENTITY.found().of("a").with("error", "no"), start);
        health.set(NOT_IN_SYNC.found().of("a"), start);
        health.set(NOT_IN_SYNC.found().of("b"), start);
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
        let mut health = Health::default();
        let start = Instant::now();
        health.set(PLACEMENT_AWAY.found(), start);
        let due = health.next_change(start).expect("it has a time to visible");
        assert!(health.visible(due - Duration::from_millis(1)).is_empty());
        assert_eq!(codes(&health, due), ["placement-away"]);
        health.clear(&PLACEMENT_AWAY, "");
        assert!(health.visible(due).is_empty());
        assert_eq!(health.next_change(start), None);
    }

    #[test]
    fn what_stays_wrong_keeps_its_start_and_takes_the_last_text() {
        let mut health = Health::default();
        let start = Instant::now();
        health.set(PLACEMENT_AWAY.found().with("error", "first"), start);
        let later = start + Duration::from_mins(1);
        health.set(PLACEMENT_AWAY.found().with("error", "second"), later);
        let message = health.visible(later).remove(0);
        assert_eq!(message.since, start);
        assert!(message.text.contains("second"), "{}", message.text);
    }

    #[test]
    fn only_the_named_subjects_stay_wrong() {
        let mut health = Health::default();
        let start = Instant::now();
        health.set(IDENTITY.found().of("a"), start);
        for node in ["a", "b"] {
            health.set(NO_PROGRESS.found().of(node), start);
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
        let mut health = Health::default();
        let start = Instant::now();
        health.set(CONFIG_RELOAD_FAILED.found().with("error", "no"), start);
        health.set(RESHAPE_FAILED.found().of("a").with("error", "no"), start);
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
