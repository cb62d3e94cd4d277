//! [`FindingKind`]: the table of finding kinds. It defines the codes for scripts, the metric's labels and the reference
//! page of the admin API.

/// Generates the enum and its accessors from the table.
macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $code:literal, $between:literal, $description:literal;)+) => {
        /// A kind of difference between two of the six sources.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FindingKind {
            $(#[doc = $description] $variant,)+
        }

        impl FindingKind {
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The identifier for scripts, and the metric's label.
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
            pub const fn description(self) -> &'static str {
                match self {
                    $(Self::$variant => $description,)+
                }
            }
        }
    };
}

kinds! {
    GuestUnfinished = "guest_unfinished", "journal, hypervisor", "An operation on a guest is not finished; the agent continues it.";
    GuestAway = "guest_away", "journal, hypervisor", "A guest that should run is missing, or off since the host booted; it is started again.";
    GuestEnded = "guest_ended", "journal, hypervisor", "A guest that should run shut itself down; it stays off.";
    GuestNotAtRest = "guest_not_at_rest", "journal, hypervisor", "A guest that should be off or paused is running; it is stopped or paused.";
    GuestPaused = "guest_paused", "journal, hypervisor", "A guest that should run is paused, and not by Berth.";
    GuestUndone = "guest_undone", "journal, hypervisor", "A guest whose build failed and was undone still exists; it is removed.";
    GuestDiffers = "guest_differs", "journal, hypervisor", "The hypervisor has another guest with this UUID, or the guest has other devices.";
    DomainDiffers = "domain_differs", "journal, hypervisor", "The guest has other processors, memory, disks or interfaces; they are restored at the next start or hard reboot.";
    GuestStuck = "guest_stuck", "journal, hypervisor", "The hypervisor accepts no operation on the guest; the text says how to repair it.";
    GuestOrphan = "guest_orphan", "journal, hypervisor", "A guest that Berth created and that is not in the journal.";
    DeviceUnfit = "device_unfit", "journal, devices", "A device of a guest is missing or unhealthy.";
    DeviceTaken = "device_taken", "devices, hypervisor", "A guest that Berth did not create uses an offered device.";
    DeviceUnclean = "device_unclean", "devices, requests", "A device was returned and is not clean; it is reset before it is assigned again.";
    DeviceLeft = "device_left", "devices, journal", "A function that was unbound from its driver for a guest has no user; it is reset and returned to the driver.";
    MdevOrphan = "mdev_orphan", "devices, journal", "A mediated device that was created for a guest has no user; it is removed.";
    PortOrphan = "port_orphan", "ports, journal", "A port that was plugged for a guest has no user on this host; it is unplugged.";
    RequestsDiffer = "requests_differ", "journal, requests", "A guest's accelerator requests are no longer bound to its devices.";
    RequestOrphan = "request_orphan", "requests, hypervisor", "A request is bound to a device for a guest that this host does not have.";
    AllocationOrphan = "allocation_orphan", "allocations, journal", "A consumer has allocations on this host and is not a guest of the host.";
    AllocationMissing = "allocation_missing", "allocations, journal", "A guest has no allocations on this host.";
    AllocationDiffers = "allocation_differs", "allocations, devices", "A guest has no allocation on the provider of one of its devices.";
    ProviderMissing = "provider_missing", "devices, allocations", "Placement lost a device's provider; it is created again.";
}
