//! A point where a run is failed, and the gate that fails it there.

use std::fmt;
use std::future::ready;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{Crossing, EffectEnd, Fault, FaultError, Gate, Moment, Release, Released};

/// How often a fault strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Repetition {
    /// At its crossing alone.
    Once,
    /// There and at each later crossing of the same operation and subject.
    ForEver,
}

/// One fault at one side of one crossing. Its text is what repeats a failure: `crossing:17:after:kill`,
/// `crossing:9:before:conflict:for_ever`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point {
    /// The crossing's number in its run, counted from 1.
    pub number: usize,
    /// On which side of it.
    pub moment: Moment,
    pub fault: Fault,
    pub repetition: Repetition,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "crossing:{}:{}:{}", self.number, self.moment, self.fault)?;
        match self.repetition {
            Repetition::Once => Ok(()),
            Repetition::ForEver => f.write_str(":for_ever"),
        }
    }
}

/// A text that names no point.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PointError {
    /// It has another form.
    #[error("{text:?} is no point; expected crossing:NUMBER:before|after:FAULT[:for_ever]")]
    Form {
        text: String,
    },
    /// It names no fault.
    #[error(transparent)]
    Fault(#[from] FaultError),
}

impl FromStr for Point {
    type Err = PointError;

    fn from_str(text: &str) -> Result<Self, PointError> {
        let form = || PointError::Form {
            text: text.chars().take(80).collect(),
        };
        let parts: Vec<&str> = text.split(':').collect();
        let (number, moment, fault, repetition) = match parts[..] {
            ["crossing", number, moment, fault] => (number, moment, fault, Repetition::Once),
            ["crossing", number, moment, fault, "for_ever"] => {
                (number, moment, fault, Repetition::ForEver)
            }
            _ => return Err(form()),
        };
        let moment = match moment {
            "before" => Moment::Before,
            "after" => Moment::After,
            _ => return Err(form()),
        };
        let number = number.parse().ok().filter(|n| *n > 0).ok_or_else(form)?;
        Ok(Self {
            number,
            moment,
            fault: fault.parse()?,
            repetition,
        })
    }
}

/// Fails a run at the given points and lets everything else pass. Crossings are counted as they come; a recovery in the
/// same gate goes on counting, so a second point strikes during it.
#[derive(Debug)]
pub struct PointGate {
    points: Vec<Point>,
    counting: Mutex<Counting>,
}

#[derive(Debug, Default)]
struct Counting {
    crossings: usize,
    open: Vec<(Crossing, usize)>,
    struck: Vec<(Point, Crossing)>,
}

impl PointGate {
    /// A gate that fails at these points.
    #[must_use]
    pub fn at(points: impl IntoIterator<Item = Point>) -> Self {
        Self {
            points: points.into_iter().collect(),
            counting: Mutex::default(),
        }
    }

    /// The points that struck so far with the crossing each struck first. A point that never strikes means that the run
    /// did not come that far: a sweep must not take that for a pass.
    #[must_use]
    pub fn struck(&self) -> Vec<(Point, Crossing)> {
        self.counting().struck.clone()
    }

    fn counting(&self) -> MutexGuard<'_, Counting> {
        self.counting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn judge(
        &self,
        counting: &mut Counting,
        crossing: &Crossing,
        number: usize,
        moment: Moment,
    ) -> Release {
        for point in self.points.iter().filter(|point| point.moment == moment) {
            let first = counting.struck.iter().find(|(struck, _)| struck == point);
            let again = first.is_some_and(|(_, struck)| {
                point.repetition == Repetition::ForEver && struck == crossing
            });
            let now = first.is_none() && point.number == number;
            if now {
                counting.struck.push((*point, crossing.clone()));
            }
            if now || again {
                return Release::Fault(point.fault);
            }
        }
        Release::Proceed
    }
}

impl Gate for PointGate {
    fn before<'a>(&'a self, crossing: &'a Crossing) -> Released<'a> {
        let mut counting = self.counting();
        counting.crossings += 1;
        let number = counting.crossings;
        let release = self.judge(&mut counting, crossing, number, Moment::Before);
        if release.effect_follows() {
            counting.open.push((crossing.clone(), number));
        }
        Box::pin(ready(release))
    }

    fn after<'a>(&'a self, crossing: &'a Crossing, _: &'a EffectEnd) -> Released<'a> {
        let mut counting = self.counting();
        let open = counting.open.iter().rposition(|(open, _)| open == crossing);
        let release = match open.map(|at| counting.open.swap_remove(at)) {
            Some((_, number)) => self.judge(&mut counting, crossing, number, Moment::After),
            None => Release::Proceed,
        };
        Box::pin(ready(release))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seam;
    use crate::executor::finish;

    fn cross(gate: &PointGate, crossing: &Crossing) -> (Release, Release) {
        let outcome = EffectEnd::Done(String::new());
        (
            finish(gate.before(crossing)),
            finish(gate.after(crossing, &outcome)),
        )
    }

    #[test]
    fn a_point_reads_back_as_it_is_shown() {
        for text in [
            "crossing:17:after:kill",
            "crossing:1:before:conflict:for_ever",
        ] {
            assert_eq!(text.parse::<Point>().unwrap().to_string(), text);
        }
        for bad in [
            "",
            "crossing:0:after:kill",
            "crossing:x:after:kill",
            "crossing:1:during:kill",
            "crossing:1:after:kil",
            "crossing:1:after:kill:twice",
        ] {
            assert!(bad.parse::<Point>().is_err(), "{bad}");
        }
    }

    #[test]
    fn only_the_point_strikes_and_only_once() {
        let gate = PointGate::at(["crossing:2:after:answer_lost".parse().unwrap()]);
        let crossing = Crossing::read(Seam::Http, "GET /x", "");
        let lost = Release::Fault(Fault::AnswerLost);
        assert_eq!(
            cross(&gate, &crossing),
            (Release::Proceed, Release::Proceed)
        );
        assert!(gate.struck().is_empty());
        assert_eq!(cross(&gate, &crossing), (Release::Proceed, lost));
        assert_eq!(
            cross(&gate, &crossing),
            (Release::Proceed, Release::Proceed)
        );
        assert_eq!(gate.struck().len(), 1);
    }

    #[test]
    fn for_ever_strikes_the_same_operation_again_and_no_other() {
        let gate = PointGate::at(["crossing:1:before:conflict:for_ever".parse().unwrap()]);
        let put = Crossing::write(Seam::Http, "PUT /x", "a");
        let other = Crossing::write(Seam::Http, "PUT /x", "b");
        let conflict = Release::Fault(Fault::Conflict);
        assert_eq!(finish(gate.before(&put)), conflict);
        assert_eq!(finish(gate.before(&other)), Release::Proceed);
        assert_eq!(finish(gate.before(&put)), conflict);
        assert_eq!(gate.struck().len(), 1);
    }

    #[test]
    fn overlapping_crossings_keep_their_numbers() {
        let gate = PointGate::at(["crossing:1:after:answer_lost".parse().unwrap()]);
        let [a, b] = ["a", "b"].map(|subject| Crossing::read(Seam::Http, "GET", subject));
        let outcome = EffectEnd::Done(String::new());
        assert_eq!(finish(gate.before(&a)), Release::Proceed);
        assert_eq!(finish(gate.before(&b)), Release::Proceed);
        assert_eq!(finish(gate.after(&b, &outcome)), Release::Proceed);
        assert_eq!(
            finish(gate.after(&a, &outcome)),
            Release::Fault(Fault::AnswerLost)
        );
    }
}
