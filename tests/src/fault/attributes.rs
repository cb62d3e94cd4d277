//! [`GatedAttributes`]: fault injection for sysfs. It wraps the object that writes attributes, such as
//! `/sys/bus/pci/devices/*/driver_override`, and can make each write fail.
//!
//! - An *effect* is one write, numbered in the order of the run.
//! - The *gate* decides for each effect, before and after it, whether to inject a fault.
//! - The *stage* ([`FaultStage`], one for each node) asks the gate, and injects the fault that the gate chooses.
//! - An *injection point* names one decision as text, `effect:<n>:<before|after>:<fault>`. For example,
//!   `effect:2:after:input_output` lets the second write happen and then reports an I/O error.
//!
//! ```text
//! caller -> GatedAttributes -> FaultStage (asks the gate) -> wrapped AttributeWrites -> kernel
//! ```

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use berth_fault_injection::{Boundary, Effect, EffectOutcome, Fault};
use berth_sysfs::{AttributeError, AttributeWrites, WriteFuture};

use super::FaultStage;
use super::stage::{AbandonedEffect, EffectAction};

/// An attribute writer whose writes pass through the gate of a stage.
pub struct GatedAttributes {
    inner: Arc<dyn AttributeWrites>,
    stage: FaultStage,
}

impl GatedAttributes {
    /// Wraps a writer; its writes are effects of this stage.
    #[must_use]
    pub fn around(inner: Arc<dyn AttributeWrites>, stage: &FaultStage) -> Self {
        Self {
            inner,
            stage: stage.clone(),
        }
    }
}

impl AttributeWrites for GatedAttributes {
    fn write<'a>(&'a self, name: &'a str, content: &'a str) -> WriteFuture<'a> {
        Box::pin(async move {
            let effect = Effect::write(Boundary::Sysfs, "write", name);
            let call = AttributeWriteCall {
                attributes: Arc::clone(&self.inner),
                name: name.to_owned(),
                content: content.to_owned(),
            };
            self.stage.perform(&effect, &call).await
        })
    }
}

/// One write, in the form in which the stage performs it or replaces its result.
struct AttributeWriteCall {
    attributes: Arc<dyn AttributeWrites>,
    name: String,
    content: String,
}

impl AttributeWriteCall {
    /// The error of a kernel that refuses the write.
    fn failed(&self) -> AttributeError {
        AttributeError::Refused {
            path: PathBuf::from(&self.name),
            content: self.content.clone(),
            source: io::Error::other("input/output error"),
        }
    }
}

impl EffectAction for AttributeWriteCall {
    type Value = Result<(), AttributeError>;

    async fn perform(&self) -> Self::Value {
        self.attributes.write(&self.name, &self.content).await
    }

    fn outcome(&self, written: &Self::Value) -> EffectOutcome {
        match written {
            Ok(()) => EffectOutcome::Done(self.content.trim().to_owned()),
            Err(AttributeError::Missing { .. }) => EffectOutcome::Failed("not there".to_owned()),
            Err(AttributeError::Refused { .. }) => EffectOutcome::Failed("refused".to_owned()),
            Err(AttributeError::TimedOut { .. }) => EffectOutcome::Failed("timed out".to_owned()),
        }
    }

    /// The caller gets an error: a timeout (`Late`: the write happens later, see `detached`) or a refusal. The `limit` of
    /// one minute is only text in the error; nothing waits.
    fn result_if_prevented(&self, fault: Fault) -> Self::Value {
        Err(match fault {
            Fault::Late => AttributeError::TimedOut {
                path: PathBuf::from(&self.name),
                content: self.content.clone(),
                limit: Duration::from_mins(1),
            },
            _ => self.failed(),
        })
    }

    /// The fault came after the write: the kernel executed it but reported an error.
    fn result_if_failed_after(&self, _: Self::Value, _: Fault) -> Self::Value {
        Err(self.failed())
    }

    /// The write without its caller, for a fault that delays it until after the caller's timeout.
    fn detached(&self) -> AbandonedEffect {
        let (attributes, name, content) = (
            Arc::clone(&self.attributes),
            self.name.clone(),
            self.content.clone(),
        );
        // The caller no longer waits for the result.
        Box::pin(async move { drop(attributes.write(&name, &content).await) })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use berth_fault_injection::PointGate;

    use super::*;

    #[derive(Default)]
    struct StoredAttributes(Mutex<Vec<String>>);

    impl AttributeWrites for StoredAttributes {
        fn write<'a>(&'a self, name: &'a str, content: &'a str) -> WriteFuture<'a> {
            let mut kept = self.0.lock().expect("nobody panics");
            kept.push(format!("{name}={content}"));
            Box::pin(std::future::ready(Ok(())))
        }
    }

    /// Makes two writes with a fault at this point. Returns how many reached the wrapped writer, and how many failed for
    /// the caller.
    async fn write_twice(point: &str) -> (usize, usize) {
        let gate = PointGate::at([point.parse().expect("a point")]);
        let stage = FaultStage::new(Arc::new(gate));
        let kept = Arc::new(StoredAttributes::default());
        let attributes = GatedAttributes::around(
            Arc::<StoredAttributes>::clone(&kept) as Arc<dyn AttributeWrites>,
            &stage,
        );
        let mut failed = 0;
        for name in ["driver_override", "unbind"] {
            failed += usize::from(attributes.write(name, "x").await.is_err());
        }
        let kept = kept.0.lock().expect("nobody panics").len();
        (kept, failed)
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_fails_before_or_after_its_effect() {
        assert_eq!(write_twice("effect:1:before:input_output").await, (1, 1));
        assert_eq!(write_twice("effect:2:after:input_output").await, (2, 1));
        // There is no third write: the fault is never injected.
        assert_eq!(write_twice("effect:3:before:input_output").await, (2, 0));
    }
}
