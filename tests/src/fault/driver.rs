//! The driver seam: any virt driver with a gate before it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use berth_model::{Allocation, Allocations, Desired, Homes, NodeName, ProviderTree};
use berth_seam::{Crossing, EffectEnd, Fault, Seam};
use berth_virt::{HostEvents, HostView, ObserveError, ProviderTreeError, Trees, VirtDriver};

use super::Stage;
use super::stage::{Act, Owed};

/// A driver whose observations cross a stage's gate. What it decides purely, it decides unseen.
pub struct GatedDriver<D> {
    inner: std::sync::Arc<D>,
    stage: Stage,
    last: Mutex<Option<HostView>>,
}

impl<D> GatedDriver<D> {
    /// The driver behind the stage's gate. `before` is what was seen the time before, for a stale look.
    pub fn around(inner: std::sync::Arc<D>, stage: &Stage, before: Option<HostView>) -> Self {
        Self {
            inner,
            stage: stage.clone(),
            last: Mutex::new(before),
        }
    }
}

impl<D: VirtDriver> VirtDriver for GatedDriver<D> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    async fn observe(&self) -> Result<HostView, ObserveError> {
        let crossing = Crossing::read(Seam::Driver, "observe", "");
        let look = Look {
            driver: self,
            before: Mutex::default(),
        };
        self.stage.cross(&crossing, &look).await
    }

    fn watch(&self) -> HostEvents {
        self.inner.watch()
    }

    fn update_provider_tree(
        &self,
        view: &HostView,
        current: &ProviderTree,
        node: &NodeName,
    ) -> Result<Desired, ProviderTreeError> {
        self.inner.update_provider_tree(view, current, node)
    }

    fn homes(
        &self,
        view: &HostView,
        node: &NodeName,
        trees: Trees<'_>,
        allocation: &Allocation,
        all: &Allocations,
    ) -> Homes {
        self.inner.homes(view, node, trees, allocation, all)
    }
}

struct Look<'a, D> {
    driver: &'a GatedDriver<D>,
    before: Mutex<Option<HostView>>,
}

impl<D: VirtDriver> Act for Look<'_, D> {
    type Value = Result<HostView, ObserveError>;

    async fn perform(&self) -> Self::Value {
        let view = self.driver.inner.observe().await?;
        let mut last = self
            .driver
            .last
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let before = last.replace(view.clone());
        *self.before.lock().unwrap_or_else(PoisonError::into_inner) = before;
        Ok(view)
    }

    fn outcome(&self, seen: &Self::Value) -> EffectEnd {
        match seen {
            Ok(view) => EffectEnd::Done(format!("{} nodes", view.nodes.len())),
            Err(error) => EffectEnd::Failed(error.to_string()),
        }
    }

    fn instead(&self, fault: Fault) -> Self::Value {
        Err(match fault {
            Fault::Late => ObserveError::TimedOut {
                target: "test".to_owned(),
                call: "observe",
                limit: Duration::from_mins(1),
            },
            _ => away("connection refused"),
        })
    }

    fn spoilt(&self, seen: Self::Value, fault: Fault) -> Self::Value {
        match fault {
            Fault::Stale => {
                let before = self
                    .before
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take();
                before.map_or(seen, Ok)
            }
            _ => Err(away("the connection was lost")),
        }
    }

    fn later(&self) -> Owed {
        // Looking later changes nothing.
        Box::pin(std::future::ready(()))
    }
}

fn away(reason: &str) -> ObserveError {
    ObserveError::Unreachable {
        target: "test".to_owned(),
        reason: reason.to_owned(),
    }
}
