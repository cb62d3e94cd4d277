//! Injection points, written as text to repeat a failed run, and the gate that injects faults at them.

use std::fmt;
use std::future::ready;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{
    Effect, EffectOutcome, EffectPhase, Fault, FaultError, Gate, GateDecision, GateFuture,
};

/// How often a fault is injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultRepetition {
    /// At this effect only.
    Once,
    /// At this effect, and at each later one with the same operation and subject.
    Forever,
}

/// One fault at one side of one effect. Its text form repeats a failed run: `effect:17:after:kill`,
/// `effect:9:before:conflict:for_ever`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InjectionPoint {
    /// The number of the effect in its run, counted from 1.
    pub number: usize,
    pub phase: EffectPhase,
    pub fault: Fault,
    pub repetition: FaultRepetition,
}

impl fmt::Display for InjectionPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "effect:{}:{}:{}", self.number, self.phase, self.fault)?;
        match self.repetition {
            FaultRepetition::Once => Ok(()),
            FaultRepetition::Forever => f.write_str(":for_ever"),
        }
    }
}

/// The text is not an injection point.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InjectionPointError {
    #[error(
        "{text:?} is not an injection point; expected effect:NUMBER:before|after:FAULT[:for_ever]"
    )]
    Form { text: String },
    #[error(transparent)]
    Fault(#[from] FaultError),
}

impl FromStr for InjectionPoint {
    type Err = InjectionPointError;

    fn from_str(text: &str) -> Result<Self, InjectionPointError> {
        let form = || InjectionPointError::Form {
            text: text.chars().take(80).collect(),
        };
        let parts: Vec<&str> = text.split(':').collect();
        let (number, phase, fault, repetition) = match parts[..] {
            ["effect", number, phase, fault] => (number, phase, fault, FaultRepetition::Once),
            ["effect", number, phase, fault, "for_ever"] => {
                (number, phase, fault, FaultRepetition::Forever)
            }
            _ => return Err(form()),
        };
        let phase = match phase {
            "before" => EffectPhase::Before,
            "after" => EffectPhase::After,
            _ => return Err(form()),
        };
        let number = number.parse().ok().filter(|n| *n > 0).ok_or_else(form)?;
        Ok(Self {
            number,
            phase,
            fault: fault.parse()?,
            repetition,
        })
    }
}

/// Injects faults at the given points and lets every other effect proceed. Effects are counted in the order in which they arrive. The
/// count continues if the same gate is used for the recovery, so a second point can be in the recovery.
#[derive(Debug)]
pub struct PointGate {
    points: Vec<InjectionPoint>,
    counter: Mutex<EffectCounter>,
}

#[derive(Debug, Default)]
struct EffectCounter {
    effects: usize,
    open: Vec<(Effect, usize)>,
    triggered: Vec<(InjectionPoint, Effect)>,
}

impl PointGate {
    #[must_use]
    pub fn at(points: impl IntoIterator<Item = InjectionPoint>) -> Self {
        Self {
            points: points.into_iter().collect(),
            counter: Mutex::default(),
        }
    }

    /// The points that were reached so far, each with the effect at which it was reached first. A sweep must check it: a run that did
    /// not reach its point tested nothing.
    #[must_use]
    pub fn triggered(&self) -> Vec<(InjectionPoint, Effect)> {
        self.counter().triggered.clone()
    }

    fn counter(&self) -> MutexGuard<'_, EffectCounter> {
        self.counter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn decide(
        &self,
        counter: &mut EffectCounter,
        effect: &Effect,
        number: usize,
        phase: EffectPhase,
    ) -> GateDecision {
        for point in self.points.iter().filter(|point| point.phase == phase) {
            let first = counter
                .triggered
                .iter()
                .find(|(triggered, _)| triggered == point);
            let again = first.is_some_and(|(_, triggered)| {
                point.repetition == FaultRepetition::Forever && triggered == effect
            });
            let now = first.is_none() && point.number == number;
            if now {
                counter.triggered.push((*point, effect.clone()));
            }
            if now || again {
                return GateDecision::Fault(point.fault);
            }
        }
        GateDecision::Proceed
    }
}

impl Gate for PointGate {
    fn before<'a>(&'a self, effect: &'a Effect) -> GateFuture<'a> {
        let mut counter = self.counter();
        counter.effects += 1;
        let number = counter.effects;
        let decision = self.decide(&mut counter, effect, number, EffectPhase::Before);
        if decision.effect_follows() {
            counter.open.push((effect.clone(), number));
        }
        Box::pin(ready(decision))
    }

    fn after<'a>(&'a self, effect: &'a Effect, _: &'a EffectOutcome) -> GateFuture<'a> {
        let mut counter = self.counter();
        let open = counter.open.iter().rposition(|(open, _)| open == effect);
        let decision = match open.map(|at| counter.open.swap_remove(at)) {
            Some((_, number)) => self.decide(&mut counter, effect, number, EffectPhase::After),
            None => GateDecision::Proceed,
        };
        Box::pin(ready(decision))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Boundary;
    use crate::executor::finish;

    fn pass(gate: &PointGate, effect: &Effect) -> (GateDecision, GateDecision) {
        let outcome = EffectOutcome::Done(String::new());
        (
            finish(gate.before(effect)),
            finish(gate.after(effect, &outcome)),
        )
    }

    #[test]
    fn a_point_reads_back_as_it_is_shown() {
        for text in ["effect:17:after:kill", "effect:1:before:conflict:for_ever"] {
            assert_eq!(text.parse::<InjectionPoint>().unwrap().to_string(), text);
        }
        for bad in [
            "",
            "effect:0:after:kill",
            "effect:x:after:kill",
            "effect:1:during:kill",
            "effect:1:after:kil",
            "effect:1:after:kill:twice",
        ] {
            assert!(bad.parse::<InjectionPoint>().is_err(), "{bad}");
        }
    }

    #[test]
    fn only_the_point_gets_the_fault_and_only_once() {
        let gate = PointGate::at(["effect:2:after:answer_lost".parse().unwrap()]);
        let effect = Effect::read(Boundary::Http, "GET /x", "");
        let lost = GateDecision::Fault(Fault::AnswerLost);
        assert_eq!(
            pass(&gate, &effect),
            (GateDecision::Proceed, GateDecision::Proceed)
        );
        assert!(gate.triggered().is_empty());
        assert_eq!(pass(&gate, &effect), (GateDecision::Proceed, lost));
        assert_eq!(
            pass(&gate, &effect),
            (GateDecision::Proceed, GateDecision::Proceed)
        );
        assert_eq!(gate.triggered().len(), 1);
    }

    #[test]
    fn forever_fails_the_same_operation_again_and_no_other() {
        let gate = PointGate::at(["effect:1:before:conflict:for_ever".parse().unwrap()]);
        let put = Effect::write(Boundary::Http, "PUT /x", "a");
        let other = Effect::write(Boundary::Http, "PUT /x", "b");
        let conflict = GateDecision::Fault(Fault::Conflict);
        assert_eq!(finish(gate.before(&put)), conflict);
        assert_eq!(finish(gate.before(&other)), GateDecision::Proceed);
        assert_eq!(finish(gate.before(&put)), conflict);
        assert_eq!(gate.triggered().len(), 1);
    }

    #[test]
    fn overlapping_effects_keep_their_numbers() {
        let gate = PointGate::at(["effect:1:after:answer_lost".parse().unwrap()]);
        let [a, b] = ["a", "b"].map(|subject| Effect::read(Boundary::Http, "GET", subject));
        let outcome = EffectOutcome::Done(String::new());
        assert_eq!(finish(gate.before(&a)), GateDecision::Proceed);
        assert_eq!(finish(gate.before(&b)), GateDecision::Proceed);
        assert_eq!(finish(gate.after(&b, &outcome)), GateDecision::Proceed);
        assert_eq!(
            finish(gate.after(&a, &outcome)),
            GateDecision::Fault(Fault::AnswerLost)
        );
    }
}
