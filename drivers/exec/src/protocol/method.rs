//! What a driver can be asked.

use std::fmt;
use std::time::Duration;

/// A method of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// Both say what they are; the first call of each child.
    Hello,
    /// Everything the driver sees, changing nothing. Every driver knows it.
    Observe,
    /// All guests of the hypervisor, whoever made them.
    Guests,
    /// Brings a guest to what its spec says.
    Spawn,
    /// Ends a guest at once and leaves nothing of it.
    Destroy,
    /// Does something with a guest's power.
    Power,
    /// Gives a guest that is off another spec.
    Redefine,
    /// Writes a guest's memory to disk and switches it off.
    Suspend,
    /// Moves a guest to another host while it runs.
    LiveMigrate,
    /// Whether a device may go to a guest now, changing nothing.
    CheckDevice,
    /// Makes a device ready for a guest.
    PrepareDevice,
    /// Takes a device back whose guest is gone, reset and verified.
    ResetDevice,
    /// Makes of the host what the configuration wants it to be.
    PrepareHost,
    /// What was made ready for guests and not taken back, changing nothing.
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

    /// How long the driver may take for it, from when it is sent; a guest's grace to stop comes on top.
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

    /// What a driver that makes guests cannot do without it, in words; none where it then makes no guests at all.
    pub(crate) const fn unsupported(self) -> Option<&'static str> {
        match self {
            Method::Redefine => Some("give a guest another document"),
            Method::Suspend => Some("suspend a guest"),
            Method::LiveMigrate => Some("move a guest to another host while it runs"),
            _ => None,
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
