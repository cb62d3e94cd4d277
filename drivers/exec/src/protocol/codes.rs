//! The error codes that a driver may return. JSON-RPC's own codes are negative; these are grouped by family.

/// Codes of one family.
macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($(#[$why:meta])* $variant:ident = $number:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$why])* $variant = $number,)+
        }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// The number in messages.
            #[must_use]
            pub const fn number(self) -> i64 {
                self as i64
            }

            /// The code of this number.
            pub(crate) fn of(number: i64) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.number() == number)
            }
        }
    };
}

codes!(
    /// Why nothing was observed. `message` is the reason.
    ObserveCode {
        /// The hypervisor is away. Data: `target`, its URI or path.
        Unreachable = 1001,
        /// A hypervisor call timed out. Data: `target`, and `seconds`, the time waited.
        TimedOut = 1002,
        /// The hypervisor refused a call. No data.
        Refused = 1003,
        /// Something the driver read is malformed. Data: `origin`, the file or document.
        Malformed = 1004,
        /// A file could not be read. Data: `path`.
        Unreadable = 1005,
        /// The configuration does not fit this host: the agent ends. Data: `option`, with its section.
        Configuration = 1006,
        /// A library is not installed: the agent ends. Data: `library`.
        LibraryMissing = 1007,
    }
);

codes!(
    /// Errors of guest operations. `message` is the reason.
    GuestCode {
        /// The guest has devices of the host, which prevent the operation. Data: `devices`, a list of `{device, arq}`.
        HoldsDevices = 2001,
        /// The operation needs a guest that is shut off. Data: `state`.
        NotOff = 2002,
        /// The operation needs a running guest. Data: `state`.
        NotRunning = 2003,
        /// The driver cannot do that. No data.
        Unsupported = 2004,
        /// The hypervisor is away. Data: `target`.
        Unreachable = 2005,
        /// A hypervisor call timed out; it may still be executed. Data: `target`, `seconds`.
        TimedOut = 2006,
        /// A device is another guest's. No data.
        DeviceBusy = 2007,
        /// A device is not on the host. Data: `device`.
        DeviceMissing = 2008,
        /// The guest was replaced during the operation. No data.
        Changed = 2009,
        /// A different guest has this UUID; it was not changed. No data: the message is the difference.
        Another = 2010,
        /// Another guest has the name. Data: `name`, `holder` (its UUID).
        NameTaken = 2011,
        /// The guest's state does not permit the operation. Data: `state`.
        WrongState = 2012,
        /// The hypervisor refused. No data.
        Refused = 2013,
        /// Data of the hypervisor or a file is malformed. Data: `origin`.
        Malformed = 2014,
        /// A file of the driver could not be read or written. Data: `path`.
        State = 2015,
        /// The hypervisor refuses every operation on the guest until an operator repairs it. No data: the message
        /// states the symptom and the repair.
        Stuck = 2016,
    }
);

codes!(
    /// Errors of device operations. `message` is the reason.
    DeviceCode {
        /// The host's devices cannot be observed. No data.
        Unseen = 3001,
        /// No allow-list includes it. No data.
        NotAllowed = 3002,
        /// The host itself uses it. No data.
        HostsOwn = 3003,
        /// Its IOMMU group cannot be given to a guest as a whole. No data.
        NotWhole = 3004,
        /// It is not on the host, or is not of the requested type. No data.
        Missing = 3005,
        /// It is in use. No data.
        InUse = 3006,
        /// It was not prepared or not reset, at least not completely. No data.
        Unfinished = 3007,
        /// A call timed out; it may still be executed. Data: `seconds`.
        TimedOut = 3008,
        /// It is unhealthy and may not be given out until an operator has checked it. Data: `cause`, an unfit reason.
        Quarantined = 3009,
    }
);
