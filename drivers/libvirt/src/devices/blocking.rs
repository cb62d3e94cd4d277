//! Runs work that may hang in the kernel on threads of its own, one at a time per function.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_model::PciAddress;
use berth_virt::{DeviceError, HostDeviceId};
use tokio::sync::oneshot;

/// Locks per function. A call that timed out keeps its lock until it ends, so that no second call runs
/// on the same card.
#[derive(Debug, Default)]
pub(crate) struct FunctionLocks {
    functions: Mutex<BTreeMap<Option<PciAddress>, Arc<tokio::sync::Mutex<()>>>>,
}

/// A task with its time limit.
pub(crate) struct Task {
    /// The device; none for all of the host's.
    pub(crate) device: Option<HostDeviceId>,
    /// The function that it concerns, if known.
    pub(crate) function: Option<PciAddress>,
    pub(crate) call: &'static str,
    /// The time limit, including waiting for the lock.
    pub(crate) limit: Duration,
}

impl Task {
    /// A task that concerns the whole host.
    pub(crate) fn of_host(call: &'static str, limit: Duration) -> Self {
        Self {
            device: None,
            function: None,
            call,
            limit,
        }
    }
}

impl FunctionLocks {
    /// Runs `work` on a thread of its own.
    pub(crate) async fn run<T, F>(
        &self,
        task: Task,
        work: impl FnOnce() -> F + Send + 'static,
    ) -> Result<T, DeviceError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, DeviceError>>,
    {
        let turn = Arc::clone(
            self.functions
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .entry(task.function)
                .or_default(),
        );
        let Task {
            device,
            call,
            limit,
            ..
        } = task;
        let working = async {
            let turn = turn.lock_owned().await;
            let (answer, waiting) = oneshot::channel();
            let runtime = tokio::runtime::Handle::current();
            let started = std::thread::Builder::new()
                .name("device".to_owned())
                .spawn(move || {
                    let outcome = runtime.block_on(work());
                    drop(turn);
                    let _ = answer.send(outcome);
                });
            let lost = |reason: String| match device {
                Some(device) => DeviceError::Unfinished {
                    device,
                    call,
                    reason,
                },
                None => DeviceError::Unobservable { reason },
            };
            match started {
                Ok(_) => waiting
                    .await
                    .unwrap_or_else(|_| Err(lost("its thread ended without an answer".to_owned()))),
                Err(error) => Err(lost(format!("its thread cannot be started: {error}"))),
            }
        };
        tokio::time::timeout(limit, working)
            .await
            .unwrap_or_else(|_| {
                Err(match device {
                    Some(device) => DeviceError::TimedOut {
                        device,
                        call,
                        limit,
                    },
                    None => DeviceError::Unobservable {
                        reason: format!("{call} timed out after {limit:?}"),
                    },
                })
            })
    }
}
