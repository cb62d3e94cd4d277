//! All instances of an agent, as its service loop runs them.

use std::sync::Arc;
use std::time::Duration;

use berth_virt::VirtDriver;
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::guests::Guests;
use crate::outcome::HeldGuests;
use crate::reconcile::FindingKind;
use crate::resources::GuestResources;

/// Learns of the findings of each comparison.
pub trait FindingObserver: Send + Sync {
    fn findings(&self, kinds: Vec<FindingKind>);
}

/// All guests, as the service runs them.
pub trait GuestManager: Send + Sync + 'static {
    /// Keeps them as they should be until `shutdown`, and ends when nothing is under way any more.
    fn keep(&self, interval: Duration, shutdown: CancellationToken) -> BoxFuture<'static, ()>;

    /// Ends what is under way.
    fn stop(&self) -> BoxFuture<'static, ()>;

    /// Those that stand still.
    fn holding(&self) -> watch::Receiver<HeldGuests>;

    /// Has what a comparison finds counted there from now on. Those that are compared with nothing count nothing.
    fn count_by(&self, observer: Arc<dyn FindingObserver>) {
        let _ = observer;
    }

    /// Something of them changed on the hypervisor.
    fn stir(&self);

    /// Why their journal cannot be used; none where it can.
    fn unusable(&self) -> watch::Receiver<Option<String>>;
}

impl<D: VirtDriver, R: GuestResources> GuestManager for Guests<D, R> {
    fn keep(&self, interval: Duration, shutdown: CancellationToken) -> BoxFuture<'static, ()> {
        let guests = self.clone();
        Box::pin(async move { Guests::keep(&guests, interval, shutdown).await })
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        let guests = self.clone();
        Box::pin(async move { Guests::stop(&guests).await })
    }

    fn holding(&self) -> watch::Receiver<HeldGuests> {
        Guests::holding(self)
    }

    fn stir(&self) {
        Guests::stir(self);
    }

    fn unusable(&self) -> watch::Receiver<Option<String>> {
        Guests::unusable(self)
    }
}
