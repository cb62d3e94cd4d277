//! The controllers in the document, with the PCI tree of passed-through devices.

use berth_virt::guest_spec::{GuestPciBus, GuestPciSlot};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Controller {
    #[serde(rename = "@type")]
    kind: &'static str,
    #[serde(rename = "@index", skip_serializing_if = "Option::is_none")]
    index: Option<u32>,
    #[serde(rename = "@model")]
    model: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<ExpanderTarget>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<SlotAddress>,
}

#[derive(Serialize)]
struct ExpanderTarget {
    #[serde(rename = "@busNr")]
    bus_number: u8,
    node: u32,
}

/// A slot of the guest.
#[derive(Serialize)]
pub(super) struct SlotAddress {
    #[serde(rename = "@type")]
    kind: &'static str,
    #[serde(rename = "@domain")]
    domain: &'static str,
    #[serde(rename = "@bus")]
    bus: String,
    #[serde(rename = "@slot")]
    slot: String,
    #[serde(rename = "@function")]
    function: &'static str,
}

impl Controller {
    pub(super) fn new(kind: &'static str, model: &'static str) -> Self {
        Self {
            kind,
            index: None,
            model,
            target: None,
            address: None,
        }
    }

    /// The controller of the bus with this index.
    pub(super) fn of_bus(index: u32, bus: GuestPciBus) -> Self {
        let (model, target, at) = match bus {
            GuestPciBus::Expander { number, cell } => {
                let target = ExpanderTarget {
                    bus_number: number,
                    node: cell,
                };
                ("pcie-expander-bus", Some(target), None)
            }
            GuestPciBus::RootPort(at) => ("pcie-root-port", None, at),
            GuestPciBus::Switch(bus) => {
                let at = GuestPciSlot { bus, slot: 0 };
                ("pcie-switch-upstream-port", None, Some(at))
            }
            GuestPciBus::SwitchPort(at) => ("pcie-switch-downstream-port", None, Some(at)),
        };
        Self {
            kind: "pci",
            index: Some(index),
            model,
            target,
            address: at.map(SlotAddress::of),
        }
    }
}

impl SlotAddress {
    fn of(at: GuestPciSlot) -> Self {
        Self {
            kind: "pci",
            domain: "0x0000",
            bus: format!("0x{:02x}", at.bus),
            slot: format!("0x{:02x}", at.slot),
            function: "0x0",
        }
    }

    /// The slot of a device behind a port.
    pub(super) fn of_device(bus: u32) -> Self {
        Self::of(GuestPciSlot { bus, slot: 0 })
    }
}
