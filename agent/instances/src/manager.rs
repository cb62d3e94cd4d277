//! [`GuestManager`]: the interface through which the agent's service loop runs the instances, with or without a
//! reconciler.

use std::sync::Arc;
use std::time::Duration;

use berth_virt::VirtDriver;
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::guests::Guests;
use crate::outcome::BlockedGuests;
use crate::reconcile::FindingKind;
use crate::resources::GuestResources;

/// Receives the findings of each comparison, for the metrics.
pub trait FindingObserver: Send + Sync {
    fn findings(&self, kinds: Vec<FindingKind>);
}

/// All instances of an agent, as the service loop runs them.
pub trait GuestManager: Send + Sync + 'static {
    /// Syncs the instances periodically until `shutdown`. Returns when no task is running any longer.
    fn run(&self, interval: Duration, shutdown: CancellationToken) -> BoxFuture<'static, ()>;

    /// Waits until no task is running, and refuses new ones.
    fn stop(&self) -> BoxFuture<'static, ()>;

    /// The blocked instances, with the reasons.
    fn subscribe_blocked(&self) -> watch::Receiver<BlockedGuests>;

    /// Sets the receiver of findings. An implementation that compares nothing ignores it.
    fn set_finding_observer(&self, observer: Arc<dyn FindingObserver>) {
        let _ = observer;
    }

    /// Tells the loop that guests changed on the hypervisor.
    fn notify_changed(&self);

    /// Why the journal is unusable; `None` while it works.
    fn subscribe_journal_error(&self) -> watch::Receiver<Option<String>>;
}

impl<D: VirtDriver, R: GuestResources> GuestManager for Guests<D, R> {
    fn run(&self, interval: Duration, shutdown: CancellationToken) -> BoxFuture<'static, ()> {
        let guests = self.clone();
        Box::pin(async move { Guests::run(&guests, interval, shutdown).await })
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        let guests = self.clone();
        Box::pin(async move { Guests::stop(&guests).await })
    }

    fn subscribe_blocked(&self) -> watch::Receiver<BlockedGuests> {
        Guests::subscribe_blocked(self)
    }

    fn notify_changed(&self) {
        Guests::notify_changed(self);
    }

    fn subscribe_journal_error(&self) -> watch::Receiver<Option<String>> {
        Guests::subscribe_journal_error(self)
    }
}
