//! The driver itself: the contract of `berth-virt` over one connection.

use std::sync::Arc;

use berth_virt::{HostEvents, HostView, ObserveError, VirtDriver};

use crate::connection::Connection;
use crate::observe;
use crate::options::LibvirtOptions;
use crate::watch::{Kernel, Subscribers, Watch};

/// The libvirt driver. Making one loads and opens nothing; the first look does.
#[derive(Debug)]
pub struct LibvirtDriver {
    options: Arc<LibvirtOptions>,
    subscribers: Subscribers,
    connection: Connection,
}

impl LibvirtDriver {
    /// A driver with these options.
    #[must_use]
    pub fn new(options: LibvirtOptions) -> Self {
        let subscribers = Subscribers::default();
        Self {
            connection: Connection::new(
                &options.connection_uri,
                options.call_timeout,
                subscribers.clone(),
            ),
            options: Arc::new(options),
            subscribers,
        }
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
