//! The faults that can be injected at an effect, in rows F1 to F14 of the table of expected outcomes (`docs/faults.md`).

use std::fmt;
use std::str::FromStr;

use crate::{Boundary, Effect, EffectKind, EffectPhase};

/// The text is not the name of a fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown fault {text:?}; the faults are {}", names())]
pub struct FaultError {
    text: String,
}

fn names() -> String {
    let names: Vec<_> = Fault::ALL.iter().map(|fault| fault.as_str()).collect();
    names.join(", ")
}

/// A row of the table of expected outcomes. Faults with the same outcomes share a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultRow {
    /// Error before the effect.
    F1,
    /// Effect done, answer lost.
    F2,
    F3,
    /// Answer after the deadline, undo begun.
    F4,
    F5,
    F6,
    F7,
    /// Killed again during the recovery: F7's fault at a second point.
    F8,
    /// Hang beyond the watchdog.
    F9,
    F10,
    /// Truncated, wrong or endless body.
    F11,
    /// Disk full, input/output error.
    F12,
    F13,
    /// Clock off by an hour, token expired.
    F14,
}

impl fmt::Display for FaultRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            FaultRow::F1 => "F1",
            FaultRow::F2 => "F2",
            FaultRow::F3 => "F3",
            FaultRow::F4 => "F4",
            FaultRow::F5 => "F5",
            FaultRow::F6 => "F6",
            FaultRow::F7 => "F7",
            FaultRow::F8 => "F8",
            FaultRow::F9 => "F9",
            FaultRow::F10 => "F10",
            FaultRow::F11 => "F11",
            FaultRow::F12 => "F12",
            FaultRow::F13 => "F13",
            FaultRow::F14 => "F14",
        })
    }
}

/// A fault that the decorator of a boundary plays, as the table in the crate's documentation describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// 500 before the effect.
    InternalError,
    /// 503 before the effect.
    ServiceUnavailable,
    /// The other side does not accept connections.
    ConnectionRefused,
    /// The effect is performed, but its answer does not arrive.
    AnswerLost,
    /// The request arrives twice.
    Twice,
    /// The effect is performed after the caller's deadline.
    Late,
    /// 409 `placement.concurrent_update`; at a database, another transaction committed first.
    Conflict,
    /// 401 although the token is valid.
    Unauthorized,
    /// 403: a role is missing.
    Forbidden,
    BadRequest,
    Kill,
    Hang,
    /// The answer is an outdated one.
    Stale,
    /// The body ends in the middle.
    Truncated,
    /// The body is another document than the one expected.
    WrongBody,
    /// The body does not end.
    EndlessBody,
    DiskFull,
    InputOutput,
    /// Power failure: writes that were not synced are lost.
    PowerCut,
    /// The clock jumps forward by an hour.
    ClockForward,
    /// The clock jumps back by an hour.
    ClockBackward,
    /// The token has expired.
    TokenExpired,
}

impl Fault {
    /// All of them, in the order of their rows.
    pub const ALL: [Fault; 22] = [
        Fault::InternalError,
        Fault::ServiceUnavailable,
        Fault::ConnectionRefused,
        Fault::AnswerLost,
        Fault::Twice,
        Fault::Late,
        Fault::Conflict,
        Fault::Unauthorized,
        Fault::Forbidden,
        Fault::BadRequest,
        Fault::Kill,
        Fault::Hang,
        Fault::Stale,
        Fault::Truncated,
        Fault::WrongBody,
        Fault::EndlessBody,
        Fault::DiskFull,
        Fault::InputOutput,
        Fault::PowerCut,
        Fault::ClockForward,
        Fault::ClockBackward,
        Fault::TokenExpired,
    ];

    /// The row with its outcomes.
    #[must_use]
    pub const fn row(self) -> FaultRow {
        match self {
            Fault::InternalError | Fault::ServiceUnavailable | Fault::ConnectionRefused => {
                FaultRow::F1
            }
            Fault::AnswerLost => FaultRow::F2,
            Fault::Twice => FaultRow::F3,
            Fault::Late => FaultRow::F4,
            Fault::Conflict => FaultRow::F5,
            Fault::Unauthorized | Fault::Forbidden | Fault::BadRequest => FaultRow::F6,
            Fault::Kill => FaultRow::F7,
            Fault::Hang => FaultRow::F9,
            Fault::Stale => FaultRow::F10,
            Fault::Truncated | Fault::WrongBody | Fault::EndlessBody => FaultRow::F11,
            Fault::DiskFull | Fault::InputOutput => FaultRow::F12,
            Fault::PowerCut => FaultRow::F13,
            Fault::ClockForward | Fault::ClockBackward | Fault::TokenExpired => FaultRow::F14,
        }
    }

    /// The name used in traces, tables and on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Fault::InternalError => "internal_error",
            Fault::ServiceUnavailable => "service_unavailable",
            Fault::ConnectionRefused => "connection_refused",
            Fault::AnswerLost => "answer_lost",
            Fault::Twice => "twice",
            Fault::Late => "late",
            Fault::Conflict => "conflict",
            Fault::Unauthorized => "unauthorized",
            Fault::Forbidden => "forbidden",
            Fault::BadRequest => "bad_request",
            Fault::Kill => "kill",
            Fault::Hang => "hang",
            Fault::Stale => "stale",
            Fault::Truncated => "truncated",
            Fault::WrongBody => "wrong_body",
            Fault::EndlessBody => "endless_body",
            Fault::DiskFull => "disk_full",
            Fault::InputOutput => "input_output",
            Fault::PowerCut => "power_cut",
            Fault::ClockForward => "clock_forward",
            Fault::ClockBackward => "clock_backward",
            Fault::TokenExpired => "token_expired",
        }
    }

    /// Whether the fault makes sense at this side of this effect.
    #[must_use]
    pub fn applies(self, effect: &Effect, phase: EffectPhase) -> bool {
        let (boundary, writes) = (effect.boundary, effect.kind == EffectKind::Write);
        let database = boundary == Boundary::Database;
        let remote = matches!(
            boundary,
            Boundary::Http | Boundary::Driver | Boundary::Database
        );
        let local = matches!(boundary, Boundary::Sysfs | Boundary::Store);
        let before = phase == EffectPhase::Before;
        match self {
            Fault::Kill | Fault::Hang => true,
            Fault::PowerCut => writes,
            Fault::InternalError
            | Fault::ServiceUnavailable
            | Fault::Unauthorized
            | Fault::Forbidden
            | Fault::BadRequest
            | Fault::TokenExpired => before && boundary == Boundary::Http,
            Fault::Conflict => before && writes && (database || boundary == Boundary::Http),
            Fault::ConnectionRefused => before && remote,
            Fault::AnswerLost => !before && remote,
            Fault::Twice | Fault::Late => before && writes && remote,
            // A transaction always reads current data; outdated data would show as a conflict at the next write.
            Fault::Stale => !before && !writes && remote && !database,
            Fault::Truncated | Fault::WrongBody => {
                !before && (boundary == Boundary::Http || (local && !writes))
            }
            Fault::EndlessBody => !before && boundary == Boundary::Http,
            Fault::DiskFull => before && writes && (database || boundary == Boundary::Store),
            Fault::InputOutput => (local && (before || writes)) || (database && before),
            Fault::ClockForward | Fault::ClockBackward => before,
        }
    }

    /// The faults that make sense at this side of this effect.
    pub fn applying(effect: &Effect, phase: EffectPhase) -> impl Iterator<Item = Fault> + '_ {
        Self::ALL
            .into_iter()
            .filter(move |fault| fault.applies(effect, phase))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        Self::ALL
            .into_iter()
            .find(|fault| fault.as_str() == text)
            .ok_or_else(|| FaultError {
                text: text.chars().take(80).collect(),
            })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn count(effect: &Effect) -> [usize; 2] {
        [EffectPhase::Before, EffectPhase::After]
            .map(|phase| Fault::applying(effect, phase).count())
    }

    #[test]
    fn each_seam_has_its_own_faults() {
        for (effect, faults) in [
            (Effect::read(Boundary::Http, "GET", ""), [11, 7]),
            (Effect::write(Boundary::Http, "PUT", ""), [15, 7]),
            (Effect::read(Boundary::Driver, "observe", ""), [5, 4]),
            (Effect::write(Boundary::Driver, "spawn", ""), [8, 4]),
            (Effect::read(Boundary::Sysfs, "read", ""), [5, 4]),
            (Effect::write(Boundary::Store, "write", ""), [7, 4]),
            (Effect::read(Boundary::Database, "group", ""), [6, 3]),
            (Effect::write(Boundary::Database, "place", ""), [11, 4]),
        ] {
            assert_eq!(count(&effect), faults, "{effect}");
        }
    }

    #[test]
    fn every_row_but_the_second_kill_has_a_fault_and_every_fault_a_place() {
        let rows: BTreeSet<_> = Fault::ALL.iter().map(|fault| fault.row()).collect();
        assert_eq!(rows.len(), 13);
        assert!(!rows.contains(&FaultRow::F8));
        for fault in Fault::ALL {
            let somewhere = Boundary::ALL.into_iter().any(|boundary| {
                [
                    Effect::read(boundary, "r", ""),
                    Effect::write(boundary, "w", ""),
                ]
                .iter()
                .any(|effect| {
                    fault.applies(effect, EffectPhase::Before)
                        || fault.applies(effect, EffectPhase::After)
                })
            });
            assert!(somewhere, "{fault}");
            assert_eq!(fault.to_string().parse(), Ok(fault));
        }
    }

    #[test]
    fn an_unknown_fault_is_answered_with_the_known_ones() {
        let error = "explode".parse::<Fault>().unwrap_err().to_string();
        assert!(error.contains("explode") && error.contains("answer_lost"));
    }
}
