//! The gate every crossing asks twice.

use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;

use crate::{Crossing, EffectEnd, Fault};

/// What a gate lets a crossing do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[must_use = "a release is to be acted out"]
pub enum Release {
    Proceed,
    /// Act this fault out.
    Fault(Fault),
}

impl Release {
    /// Asked at `before`: whether the effect is performed now, so that `after` will be asked too.
    #[must_use]
    pub const fn effect_follows(self) -> bool {
        matches!(
            self,
            Release::Proceed
                | Release::Fault(Fault::Twice | Fault::ClockForward | Fault::ClockBackward)
        )
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Release::Proceed => f.pad("proceed"),
            Release::Fault(fault) => fault.fmt(f),
        }
    }
}

/// The release to come. A gate may take its time; a decorator holds no lock while it waits.
pub type Released<'a> = Pin<Box<dyn Future<Output = Release> + Send + 'a>>;

/// Holds, lets pass or fails crossings. Shared by all decorators of one journey.
pub trait Gate: Send + Sync {
    /// The effect is about to happen.
    fn before<'a>(&'a self, crossing: &'a Crossing) -> Released<'a>;

    /// The effect has happened (or failed by itself), the caller does not know it yet. Called once for each `before`
    /// whose release says that the effect follows.
    fn after<'a>(&'a self, crossing: &'a Crossing, outcome: &'a EffectEnd) -> Released<'a>;
}

impl<G: Gate + ?Sized> Gate for std::sync::Arc<G> {
    fn before<'a>(&'a self, crossing: &'a Crossing) -> Released<'a> {
        (**self).before(crossing)
    }

    fn after<'a>(&'a self, crossing: &'a Crossing, outcome: &'a EffectEnd) -> Released<'a> {
        (**self).after(crossing, outcome)
    }
}

/// Lets everything pass at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenGate;

impl Gate for OpenGate {
    fn before<'a>(&'a self, _: &'a Crossing) -> Released<'a> {
        Box::pin(ready(Release::Proceed))
    }

    fn after<'a>(&'a self, _: &'a Crossing, _: &'a EffectEnd) -> Released<'a> {
        Box::pin(ready(Release::Proceed))
    }
}
