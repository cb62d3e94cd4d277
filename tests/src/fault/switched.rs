//! A gate that can be switched on and off: off until a scenario begins, and off again after its fault phase.

use std::sync::atomic::{AtomicBool, Ordering};

use berth_fault_injection::{Effect, EffectOutcome, Gate, GateFuture, OpenGate};

/// Asks another gate while it is on; else all passes.
#[derive(Debug)]
pub struct SwitchedGate<G> {
    inner: G,
    on: AtomicBool,
}

impl<G> SwitchedGate<G> {
    /// On from the beginning.
    #[must_use]
    pub fn on(inner: G) -> Self {
        let on = AtomicBool::new(true);
        Self { inner, on }
    }

    /// Off until it is switched on.
    #[must_use]
    pub fn off(inner: G) -> Self {
        let on = AtomicBool::new(false);
        Self { inner, on }
    }

    /// The gate asked while this one is on.
    #[must_use]
    pub fn inner(&self) -> &G {
        &self.inner
    }

    /// From now on the inner gate is asked.
    pub fn switch_on(&self) {
        self.on.store(true, Ordering::SeqCst);
    }

    /// From now on everything passes.
    pub fn switch_off(&self) {
        self.on.store(false, Ordering::SeqCst);
    }

    fn is_on(&self) -> bool {
        self.on.load(Ordering::SeqCst)
    }
}

impl<G: Gate> Gate for SwitchedGate<G> {
    fn before<'a>(&'a self, crossing: &'a Effect) -> GateFuture<'a> {
        if self.is_on() {
            self.inner.before(crossing)
        } else {
            OpenGate.before(crossing)
        }
    }

    fn after<'a>(&'a self, crossing: &'a Effect, outcome: &'a EffectOutcome) -> GateFuture<'a> {
        if self.is_on() {
            self.inner.after(crossing, outcome)
        } else {
            OpenGate.after(crossing, outcome)
        }
    }
}
