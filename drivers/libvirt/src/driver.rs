//! The driver itself: the contract of `berth-virt` over one connection.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_model::ConsumerUuid;
use berth_sysfs::Sysfs;
use berth_virt::guest_spec::GuestSpec;
use berth_virt::{
    Destroyed, GuestError, GuestOnHost, HostEvents, HostView, ObserveError, PowerAction, Powered,
    Spawned, VirtDriver,
};

use crate::connection::{Connection, Session};
use crate::guest_xml::{GuestXmlOptions, Virtualisation};
use crate::guests::{self, PowerStep};
use crate::observe;
use crate::options::{LibvirtOptions, VirtType};
use crate::watch::{Kernel, Subscribers, Watch};

/// The most that one change of a guest may take: a start has all of the guest's memory pinned for its devices.
const CHANGE_LIMIT: Duration = Duration::from_mins(5);
/// The pause between two looks for whether a guest that was asked to end is off.
const LOOK: Duration = Duration::from_millis(250);

/// The libvirt driver. Making one loads and opens nothing; the first look does.
#[derive(Debug)]
pub struct LibvirtDriver {
    options: Arc<LibvirtOptions>,
    subscribers: Subscribers,
    connection: Connection,
    /// A connection of their own for changes of guests, so that looking at the host does not wait for them; none where two
    /// connections would see two hosts (libvirt's test driver).
    changes: Option<Connection>,
}

impl LibvirtDriver {
    /// A driver with these options.
    #[must_use]
    pub fn new(options: LibvirtOptions) -> Self {
        let subscribers = Subscribers::default();
        let uri = &options.connection_uri;
        Self {
            changes: (!uri.starts_with("test:"))
                .then(|| Connection::new(uri, CHANGE_LIMIT, Subscribers::default())),
            connection: Connection::new(
                &options.connection_uri,
                options.call_timeout,
                subscribers.clone(),
            ),
            options: Arc::new(options),
            subscribers,
        }
    }

    /// Has `work` done on the thread for changes.
    async fn change<T: Send + 'static>(
        &self,
        call: &'static str,
        work: impl FnOnce(&Session) -> Result<T, GuestError> + Send + 'static,
    ) -> Result<T, GuestError> {
        let connection = self.changes.as_ref().unwrap_or(&self.connection);
        let answer = connection.call(call, move |session| {
            work(session).map_err(|error| guests::seen_from(session, error))
        });
        answer.await?
    }

    /// The device tree that guests' devices are looked up in; none for libvirt's test driver, whose devices are nowhere.
    fn sysfs(&self) -> Option<Sysfs> {
        let is_test = self.options.connection_uri.starts_with("test:");
        let root = self.options.sysfs.as_ref().filter(|_| !is_test);
        root.map(Sysfs::at)
    }

    fn guest_xml_options(&self) -> GuestXmlOptions {
        GuestXmlOptions {
            virtualisation: match self.options.virt_type {
                VirtType::Kvm => Virtualisation::Kvm,
                VirtType::Qemu => Virtualisation::Qemu,
            },
            disk_cache: self.options.disk_cache,
            emulator: self.options.emulator.clone(),
        }
    }

    /// Waits until a guest that was asked to end is off, and switches it off when its grace is over.
    async fn wait_for_end(
        &self,
        uuid: ConsumerUuid,
        grace: Duration,
    ) -> Result<Powered, GuestError> {
        let end = tokio::time::Instant::now() + grace;
        while tokio::time::Instant::now() < end {
            let is_off = move |session: &Session| guests::is_off(session.connect(), uuid);
            if self.change("looking at a guest", is_off).await? {
                return Ok(Powered::Done);
            }
            tokio::time::sleep(LOOK).await;
        }
        let at_once = PowerAction::Stop {
            grace: Duration::ZERO,
        };
        let off = move |session: &Session| guests::power(session.connect(), uuid, at_once, None);
        // It was asked to end and is off, whichever of the two did it.
        self.change("switching a guest off", off)
            .await
            .map(|_| Powered::Done)
    }
}

impl VirtDriver for LibvirtDriver {
    fn name(&self) -> &'static str {
        "libvirt"
    }

    async fn observe(&self) -> Result<HostView, ObserveError> {
        let options = Arc::clone(&self.options);
        self.connection
            .call("observing the host", move |session| {
                observe::observe(session, &options)
            })
            .await?
    }

    async fn spawn(&self, spec: &GuestSpec) -> Result<Spawned, GuestError> {
        let (spec, options, sysfs) = (spec.clone(), self.guest_xml_options(), self.sysfs());
        self.change("making a guest", move |session| {
            guests::spawn(session.connect(), &spec, &options, sysfs.as_ref())
        })
        .await
    }

    async fn destroy(&self, uuid: ConsumerUuid) -> Result<Destroyed, GuestError> {
        self.change("ending a guest", move |session| {
            guests::destroy(session.connect(), uuid)
        })
        .await
    }

    async fn guests(&self) -> Result<BTreeMap<ConsumerUuid, GuestOnHost>, GuestError> {
        self.connection
            .call("listing the guests", |session| {
                let listed = guests::guests(session.connect());
                listed.map_err(|error| guests::seen_from(session, error))
            })
            .await?
    }

    async fn power(&self, uuid: ConsumerUuid, action: PowerAction) -> Result<Powered, GuestError> {
        let sysfs = self.sysfs();
        let first =
            move |session: &Session| guests::power(session.connect(), uuid, action, sysfs.as_ref());
        match (self.change(action.as_str(), first).await?, action) {
            (PowerStep::Ended(powered), _) => Ok(powered),
            (PowerStep::AskedToEnd, PowerAction::Stop { grace }) => {
                self.wait_for_end(uuid, grace).await
            }
            (PowerStep::AskedToEnd, _) => Ok(Powered::Done),
        }
    }

    fn watch(&self) -> HostEvents {
        let kernel = match &self.options.sysfs {
            Some(root) if root == std::path::Path::new("/sys") => Kernel::Heard,
            _ => Kernel::Ignored,
        };
        Box::pin(Watch::new(&self.subscribers, kernel))
    }
}

#[cfg(test)]
mod tests;
