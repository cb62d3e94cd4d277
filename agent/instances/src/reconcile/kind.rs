//! The kinds of disagreement: one table, of which scripts' words, the metric and the page of the admin API are made.

/// Writes the enum with its rows.
macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $code:literal, $between:literal, $says:literal;)+) => {
        /// A kind of disagreement between two of the five truths.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FindingKind {
            $(#[doc = $says] $variant,)+
        }

        impl FindingKind {
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// A word for scripts, and the metric's label.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self {
                    $(Self::$variant => $code,)+
                }
            }

            #[must_use]
            pub const fn between(self) -> &'static str {
                match self {
                    $(Self::$variant => $between,)+
                }
            }

            #[must_use]
            pub const fn says(self) -> &'static str {
                match self {
                    $(Self::$variant => $says,)+
                }
            }
        }
    };
}

kinds! {
    GuestUnfinished = "guest_unfinished", "journal, hypervisor", "A guest is on its context; the agent goes on with it.";
    GuestAway = "guest_away", "journal, hypervisor", "A guest that should run is not there, or off since the host was booted; it is brought back.";
    GuestEnded = "guest_ended", "journal, hypervisor", "A guest that should run has ended itself; it stays off.";
    GuestNotAtRest = "guest_not_at_rest", "journal, hypervisor", "A guest that should be off or paused runs; it is brought to rest.";
    GuestPaused = "guest_paused", "journal, hypervisor", "A guest that should run is paused, not by berth.";
    GuestUndone = "guest_undone", "journal, hypervisor", "A guest that could not be built and was undone is there; it is taken off.";
    GuestDiffers = "guest_differs", "journal, hypervisor", "The hypervisor has another guest of the UUID, or the guest with other devices.";
    DomainDiffers = "domain_differs", "journal, hypervisor", "The guest has other processors, memory, disks or interfaces; it is given its own again at its next start or hard reboot.";
    GuestStuck = "guest_stuck", "journal, hypervisor", "The hypervisor lets nobody do anything with the guest; the text has the mend.";
    GuestOrphan = "guest_orphan", "journal, hypervisor", "A guest that berth made and the journal does not know.";
    DeviceUnfit = "device_unfit", "journal, devices", "A device that a guest holds is gone or sick.";
    DeviceTaken = "device_taken", "devices, hypervisor", "A guest that is not berth's has an offered device.";
    DeviceUnclean = "device_unclean", "devices, requests", "A device was given back and is not clean; it is reset before anybody gets it.";
    DeviceLeft = "device_left", "devices, journal", "A function that was taken off its driver for a guest is nobody's; it is given back, reset.";
    MdevOrphan = "mdev_orphan", "devices, journal", "A mediated device that was made for a guest is nobody's; it is removed.";
    RequestsDiffer = "requests_differ", "journal, requests", "A guest's accelerator requests are not bound to its devices any more.";
    RequestOrphan = "request_orphan", "requests, hypervisor", "A request holds a device for a guest that this host does not have.";
    AllocationOrphan = "allocation_orphan", "allocations, journal", "A consumer holds something of this host and is no guest of it.";
    AllocationMissing = "allocation_missing", "allocations, journal", "A guest holds nothing of this host.";
    AllocationDiffers = "allocation_differs", "allocations, devices", "A guest holds nothing of the provider of one of its devices.";
    ProviderMissing = "provider_missing", "devices, allocations", "Placement lost a device's provider; it is made again.";
}
