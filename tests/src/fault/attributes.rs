//! Fault injection for sysfs: the attribute writes of a device tree.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use berth_fault_injection::{Boundary, Effect, EffectOutcome, Fault};
use berth_sysfs::{AttributeError, AttributeWrites, WriteFuture};

use super::FaultStage;
use super::stage::{AbandonedEffect, EffectAction};

/// A writer of attributes that passes a stage's gate.
pub struct GatedAttributes {
    inner: Arc<dyn AttributeWrites>,
    stage: FaultStage,
}

impl GatedAttributes {
    /// The attributes behind the stage's gate.
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
            let crossing = Effect::write(Boundary::Sysfs, "write", name);
            let act = AttributeWriteCall {
                attributes: Arc::clone(&self.inner),
                name: name.to_owned(),
                content: content.to_owned(),
            };
            self.stage.cross(&crossing, &act).await
        })
    }
}

struct AttributeWriteCall {
    attributes: Arc<dyn AttributeWrites>,
    name: String,
    content: String,
}

impl AttributeWriteCall {
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

    fn instead(&self, fault: Fault) -> Self::Value {
        Err(match fault {
            Fault::Late => AttributeError::TimedOut {
                path: PathBuf::from(&self.name),
                content: self.content.clone(),
                limit: Duration::from_mins(1),
            },
            _ => self.failed(),
        })
    }

    /// The kernel executed the write but reported an error.
    fn spoilt(&self, _: Self::Value, _: Fault) -> Self::Value {
        Err(self.failed())
    }

    fn later(&self) -> AbandonedEffect {
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

    async fn written(point: &str) -> (usize, usize) {
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
        assert_eq!(written("effect:1:before:input_output").await, (1, 1));
        assert_eq!(written("effect:2:after:input_output").await, (2, 1));
        assert_eq!(written("effect:3:before:input_output").await, (2, 0));
    }
}
