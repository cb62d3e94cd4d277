//! The numbers of the errors that a driver may say. JSON-RPC's own codes are negative; ours are by family.

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
        /// A call of the hypervisor did not come back. Data: `target`, `seconds` that were waited.
        TimedOut = 1002,
        /// The hypervisor refused a call. No data.
        Refused = 1003,
        /// Something that was read makes no sense. Data: `origin`, the file or document.
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
    /// Why a guest is not as it was asked to be. `message` is the reason.
    GuestCode {
        /// It holds devices of the host, with which this cannot be done. Data: `devices`, a list of `{device, arq}`.
        HoldsDevices = 2001,
        /// It is done only with a guest that is off. Data: `state`.
        NotOff = 2002,
        /// It is done only with a guest that runs. Data: `state`.
        NotRunning = 2003,
        /// The driver cannot do that. No data.
        Unsupported = 2004,
        /// The hypervisor is away. Data: `target`.
        Unreachable = 2005,
        /// A call of the hypervisor did not come back; it may still be done. Data: `target`, `seconds`.
        TimedOut = 2006,
        /// A device is another guest's. No data.
        DeviceBusy = 2007,
        /// A device is not on the host. Data: `device`.
        DeviceMissing = 2008,
        /// The guest became another while it was acted on. No data.
        Changed = 2009,
        /// There is another guest of this UUID; it was left alone. No data: the message is the difference.
        Another = 2010,
        /// Another guest has the name. Data: `name`, `holder` (its UUID).
        NameTaken = 2011,
        /// The guest cannot do that as it is. Data: `state`.
        WrongState = 2012,
        /// The hypervisor refused. No data.
        Refused = 2013,
        /// What the hypervisor or a file says makes no sense. Data: `origin`.
        Malformed = 2014,
        /// A file of the driver's own could not be read or written. Data: `path`.
        State = 2015,
        /// The hypervisor lets nobody do anything with it, until an operator mends that. No data: the message says what is seen,
        /// and the mend.
        Stuck = 2016,
    }
);

codes!(
    /// Why a device is not as it was asked to be. `message` is the reason.
    DeviceCode {
        /// The host's devices cannot be looked at. No data.
        Unseen = 3001,
        /// No allow-list means it. No data.
        NotAllowed = 3002,
        /// The host uses it. No data.
        HostsOwn = 3003,
        /// Its IOMMU group cannot go to a guest whole. No data.
        NotWhole = 3004,
        /// It is not on the host, or not of the type that was asked for. No data.
        Missing = 3005,
        /// Somebody has it. No data.
        InUse = 3006,
        /// It was not made ready, or not taken back; it may be so partly. No data.
        Unfinished = 3007,
        /// A call did not come back; it may still be done. Data: `seconds`.
        TimedOut = 3008,
        /// It is not well: nobody may have it until an operator looked. Data: `cause`, one of the words of an unfit device.
        Quarantined = 3009,
    }
);
