//! The plan to plug or unplug a port: from what was observed to what is to be done. Pure.

use berth_model::{ConsumerUuid, MacAddress};
use berth_virt::guest_spec::{GuestInterface, GuestPort, LinkName, PlugSignal, PortConnection};

use crate::error::PortError;
use crate::switch::SwitchInterface;
use crate::tap::LinkView;

/// A port to be plugged into Open vSwitch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortSpec {
    pub guest: ConsumerUuid,
    pub mac: MacAddress,
    pub port: GuestPort,
    bridge: LinkName,
    signal: PlugSignal,
    /// Whether the guest opens the tap once per queue.
    pub is_multi_queue: bool,
}

impl PortSpec {
    /// `None` for a port that is a function of a network card (SR-IOV).
    #[must_use]
    pub fn new(
        guest: ConsumerUuid,
        interface: &GuestInterface,
        port: &GuestPort,
        is_multi_queue: bool,
    ) -> Option<Self> {
        let PortConnection::OpenVswitch { bridge, signal } = port.connection() else {
            return None;
        };
        Some(Self {
            guest,
            mac: interface.mac,
            port: port.clone(),
            bridge: bridge.clone(),
            signal: *signal,
            is_multi_queue,
        })
    }

    pub(crate) fn bridge(&self) -> &str {
        self.bridge.as_str()
    }

    /// Who reports that the port works.
    pub(crate) fn signal(&self) -> PlugSignal {
        self.signal
    }
}

/// What was observed about one port.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PortFacts {
    /// The switch's interface with the tap's name.
    pub(crate) interface: Option<SwitchInterface>,
    /// Whether the switch has the port's bridge.
    pub(crate) has_bridge: bool,
    /// The host's link with the tap's name.
    pub(crate) link: Option<LinkView>,
}

/// What to do with a tap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TapPlan {
    Keep,
    /// Create it. `replaces`: a tap with another number of queues is deleted before.
    Create {
        replaces: bool,
    },
    /// Set its address and MTU, and bring it up.
    Configure,
}

/// The plan to plug a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlugPlan {
    /// Whether an interface with the tap's name is removed first: it is the port's, on another bridge.
    pub(crate) removes_interface: bool,
    pub(crate) adds_interface: bool,
    pub(crate) tap: TapPlan,
}

/// Plans to plug a port.
pub(crate) fn plug(spec: &PortSpec, facts: &PortFacts) -> Result<PlugPlan, PortError> {
    let port = spec.port.id();
    let owner = facts.interface.as_ref();
    if let Some(interface) = owner {
        check_owner(spec, interface)?;
    }
    if !facts.has_bridge {
        return Err(PortError::NoBridge {
            port,
            bridge: spec.bridge().to_owned(),
        });
    }
    let in_place = owner.is_some_and(|it| it.bridge.as_deref() == Some(spec.bridge()));
    let tap = match &facts.link {
        // The interface is in the switch before its tap is created. So this link is not Berth's.
        Some(link) if owner.is_none() || !link.is_tap => {
            let tap = spec.port.tap();
            return Err(PortError::LinkInTheWay { port, tap });
        }
        Some(link) if link.is_multi_queue != spec.is_multi_queue => {
            TapPlan::Create { replaces: true }
        }
        Some(link) if is_configured(spec, link) => TapPlan::Keep,
        Some(_) => TapPlan::Configure,
        None => TapPlan::Create { replaces: false },
    };
    Ok(PlugPlan {
        removes_interface: owner.is_some() && !in_place,
        adds_interface: !in_place,
        tap,
    })
}

/// The plan to unplug a port: first its tap, so that every tap of Berth's has an interface in the switch at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnplugPlan {
    pub(crate) deletes_tap: bool,
    pub(crate) removes_interface: bool,
}

/// Plans to unplug a port. Nothing is done if the switch does not have the interface, or has it for another guest.
pub(crate) fn unplug(spec: &PortSpec, facts: &PortFacts) -> UnplugPlan {
    let interface = facts.interface.as_ref();
    let is_owned = interface.is_some_and(|interface| check_owner(spec, interface).is_ok());
    let link = facts.link.as_ref();
    UnplugPlan {
        deletes_tap: is_owned && link.is_some_and(|link| link.is_tap),
        removes_interface: is_owned,
    }
}

fn check_owner(spec: &PortSpec, interface: &SwitchInterface) -> Result<(), PortError> {
    let port = spec.port.id();
    if interface.port_id.as_deref() != Some(&port.to_string()) {
        return Err(PortError::TakenByOther {
            port,
            tap: spec.port.tap(),
            found: interface.port_id.clone().unwrap_or_default(),
        });
    }
    match &interface.guest {
        Some(guest) if *guest != spec.guest.to_string() => Err(PortError::TakenByGuest {
            port,
            guest: guest.clone(),
        }),
        _ => Ok(()),
    }
}

fn is_configured(spec: &PortSpec, link: &LinkView) -> bool {
    let has_mtu = spec.port.mtu().is_none_or(|mtu| link.mtu == Some(mtu));
    has_mtu && link.is_up && link.address.as_deref() == Some(&spec.mac.to_string())
}

#[cfg(test)]
mod tests;
