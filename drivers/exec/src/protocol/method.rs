//! The methods of the protocol.

use std::fmt;
use std::time::Duration;

/// A method of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// Both sides introduce themselves; the first call to each child.
    Hello,
    /// Returns everything the driver observes. Read-only. Required.
    Observe,
    /// Lists all guests of the hypervisor.
    Guests,
    /// Creates a guest or brings it to its specification.
    Spawn,
    /// Destroys a guest immediately and completely.
    Destroy,
    /// Does something with a guest's power.
    Power,
    /// Gives a guest that is off another spec.
    Redefine,
    /// Saves a guest's memory to disk and switches it off.
    Suspend,
    /// Moves a running guest to another host.
    LiveMigrate,
    /// Checks whether a device may be given to a guest now. Read-only.
    CheckDevice,
    /// Prepares a device for a guest.
    PrepareDevice,
    /// Resets and verifies a device whose guest was deleted.
    ResetDevice,
    /// Brings the host to its configured state.
    PrepareHost,
    /// Lists the devices that are prepared and were not reset. Read-only.
    PreparedDevices,
}

impl Method {
    pub const ALL: [Method; 14] = [
        Method::Hello,
        Method::Observe,
        Method::Guests,
        Method::Spawn,
        Method::Destroy,
        Method::Power,
        Method::Redefine,
        Method::Suspend,
        Method::LiveMigrate,
        Method::CheckDevice,
        Method::PrepareDevice,
        Method::ResetDevice,
        Method::PrepareHost,
        Method::PreparedDevices,
    ];

    /// Its name in messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Method::Hello => "hello",
            Method::Observe => "observe",
            Method::Guests => "guests",
            Method::Spawn => "spawn",
            Method::Destroy => "destroy",
            Method::Power => "power",
            Method::Redefine => "redefine",
            Method::Suspend => "suspend",
            Method::LiveMigrate => "live_migrate",
            Method::CheckDevice => "check_device",
            Method::PrepareDevice => "prepare_device",
            Method::ResetDevice => "reset_device",
            Method::PrepareHost => "prepare_host",
            Method::PreparedDevices => "prepared_devices",
        }
    }

    /// How long the driver may take after the call was sent. A guest's grace period is added.
    #[must_use]
    pub const fn deadline(self) -> Duration {
        Duration::from_secs(match self {
            Method::Hello => 10,
            Method::Observe | Method::Guests | Method::CheckDevice | Method::PreparedDevices => 30,
            Method::Destroy | Method::Power | Method::Redefine | Method::PrepareHost => 60,
            Method::Spawn | Method::PrepareDevice | Method::ResetDevice => 120,
            Method::Suspend => 300,
            Method::LiveMigrate => 600,
        })
    }

    /// The action that a driver with guest methods lacks without this method; `None` if it then supports no guests at
    /// all.
    pub(crate) const fn unsupported(self) -> Option<&'static str> {
        match self {
            Method::Redefine => Some("give a guest another document"),
            Method::Suspend => Some("suspend a guest"),
            Method::LiveMigrate => Some("live-migrate a guest"),
            _ => None,
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
