//! The gate: decides before and after each effect whether it proceeds or which fault is injected.

use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;

use crate::{Effect, EffectOutcome, Fault};

/// What the decorator has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[must_use = "the decorator must follow the decision"]
pub enum GateDecision {
    Proceed,
    Fault(Fault),
}

impl GateDecision {
    /// For the decision of `before`: whether the effect is performed, so that `after` must be called too.
    #[must_use]
    pub const fn effect_follows(self) -> bool {
        matches!(
            self,
            GateDecision::Proceed
                | GateDecision::Fault(Fault::Twice | Fault::ClockForward | Fault::ClockBackward)
        )
    }
}

impl fmt::Display for GateDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GateDecision::Proceed => f.pad("proceed"),
            GateDecision::Fault(fault) => fault.fmt(f),
        }
    }
}

/// A gate may take long to decide, so a decorator holds no lock while it waits.
pub type GateFuture<'a> = Pin<Box<dyn Future<Output = GateDecision> + Send + 'a>>;

/// Delays effects, lets them proceed, or injects faults. All decorators of one task share a gate.
pub trait Gate: Send + Sync {
    /// The effect is about to happen.
    fn before<'a>(&'a self, effect: &'a Effect) -> GateFuture<'a>;

    /// The effect was performed or failed by itself, and the caller does not know it yet. Called once for each `before`
    /// with a decision that lets the effect follow.
    fn after<'a>(&'a self, effect: &'a Effect, outcome: &'a EffectOutcome) -> GateFuture<'a>;
}

impl<G: Gate + ?Sized> Gate for std::sync::Arc<G> {
    fn before<'a>(&'a self, effect: &'a Effect) -> GateFuture<'a> {
        (**self).before(effect)
    }

    fn after<'a>(&'a self, effect: &'a Effect, outcome: &'a EffectOutcome) -> GateFuture<'a> {
        (**self).after(effect, outcome)
    }
}

/// Lets every effect proceed at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenGate;

impl Gate for OpenGate {
    fn before<'a>(&'a self, _: &'a Effect) -> GateFuture<'a> {
        Box::pin(ready(GateDecision::Proceed))
    }

    fn after<'a>(&'a self, _: &'a Effect, _: &'a EffectOutcome) -> GateFuture<'a> {
        Box::pin(ready(GateDecision::Proceed))
    }
}
