//! [`HostNetwork`]: plugs and unplugs the ports of this host's guests.

use std::path::PathBuf;
use std::time::Duration;

use berth_ovsdb::OvsdbClient;
use berth_virt::guest_spec::{PlugSignal, TapName};

use crate::error::PortError;
use crate::function::{self, FunctionSpec};
use crate::plan::{self, PortFacts, PortSpec, TapPlan};
use crate::switch::{self, SwitchInterface};
use crate::tap;

/// The folders in which the kernel shows links and their settings.
#[derive(Debug, Clone)]
pub struct NetworkPaths {
    /// The links of the host.
    pub links: PathBuf,
    /// Their IPv6 settings.
    pub ipv6: PathBuf,
    /// The PCI functions of the host.
    pub functions: PathBuf,
}

impl Default for NetworkPaths {
    fn default() -> Self {
        Self {
            links: "/sys/class/net".into(),
            ipv6: "/proc/sys/net/ipv6/conf".into(),
            functions: "/sys/bus/pci/devices".into(),
        }
    }
}

/// Plugs and unplugs the ports of this host's guests. Clones share nothing but the address of the switch.
#[derive(Debug, Clone)]
pub struct HostNetwork {
    switch: OvsdbClient,
    paths: NetworkPaths,
    /// Marks the interfaces that this agent adds to the switch.
    node: String,
}

impl HostNetwork {
    /// The network of this host. `node` marks the interfaces that this agent adds; it must stay the same over restarts.
    #[must_use]
    pub fn new(switch: OvsdbClient, node: String, paths: NetworkPaths) -> Self {
        Self {
            switch,
            paths,
            node,
        }
    }

    async fn observe(&self, spec: &PortSpec) -> Result<PortFacts, PortError> {
        let tap = spec.port.tap();
        let (interface, has_bridge) =
            switch::observe(&self.switch, tap.as_str(), spec.bridge()).await?;
        Ok(PortFacts {
            interface,
            has_bridge,
            link: tap::observe(&self.paths, &tap),
        })
    }

    /// Checks that the port can be plugged. Changes nothing.
    pub async fn check(&self, spec: &PortSpec) -> Result<(), PortError> {
        let facts = self.observe(spec).await?;
        plan::plug(spec, &facts).map(drop)
    }

    /// Plugs a port. Idempotent: a plugged port is left as it is.
    ///
    /// Errors: another guest has the port, another program has its names, or the switch or the kernel refuses. The port may
    /// then be plugged in part; the call can be repeated, and [`HostNetwork::unplug`] removes what was done.
    pub async fn plug(&self, spec: &PortSpec) -> Result<(), PortError> {
        let facts = self.observe(spec).await?;
        let plan = plan::plug(spec, &facts)?;
        let tap = spec.port.tap();
        if plan.removes_interface {
            switch::remove(&self.switch, tap.as_str()).await?;
        }
        if plan.adds_interface && !switch::add(&self.switch, spec, &self.node).await? {
            return Err(PortError::NoBridge {
                port: spec.port.id(),
                bridge: spec.bridge().to_owned(),
            });
        }
        match plan.tap {
            TapPlan::Keep => return Ok(()),
            TapPlan::Create { replaces } => {
                if replaces {
                    tap::delete(&self.paths, &tap).await?;
                }
                tap::create(&self.paths, spec).await?;
            }
            TapPlan::Configure => {}
        }
        tap::configure(&self.paths, spec).await
    }

    /// Waits until a plugged port works. Cancellable.
    ///
    /// Errors: [`PortError::NotPlugged`] after `limit`.
    pub async fn wait_plugged(&self, spec: &PortSpec, limit: Duration) -> Result<(), PortError> {
        let signal = spec.signal();
        match switch::wait_until_working(&self.switch, &spec.port.tap(), signal, limit).await {
            Err(error) if error.is_wait_timeout() => Err(PortError::NotPlugged {
                port: spec.port.id(),
                guest: spec.guest,
                waited: limit,
                signal: match signal {
                    PlugSignal::OvnInstalled => {
                        "ovn-controller to install the port (ovn-installed)"
                    }
                    PlugSignal::VlanTag => {
                        "neutron-openvswitch-agent to give the port a VLAN (its tag in Open vSwitch)"
                    }
                },
            }),
            waited => Ok(waited?),
        }
    }

    /// Unplugs a port. Idempotent: a port that is not plugged, or that another guest has by now, is left as it is.
    pub async fn unplug(&self, spec: &PortSpec) -> Result<(), PortError> {
        let facts = self.observe(spec).await?;
        let plan = plan::unplug(spec, &facts);
        let tap = spec.port.tap();
        if plan.deletes_tap {
            tap::delete(&self.paths, &tap).await?;
        }
        if plan.removes_interface {
            switch::remove(&self.switch, tap.as_str()).await?;
        }
        Ok(())
    }

    /// Sets MAC address, VLAN and trust of a virtual function. Idempotent.
    ///
    /// Errors: the host does not have the function, or the kernel refuses.
    pub async fn plug_function(&self, spec: &FunctionSpec) -> Result<(), PortError> {
        function::plug(&self.paths, spec).await
    }

    /// Takes the settings of a virtual function back. Idempotent.
    pub async fn unplug_function(&self, spec: &FunctionSpec) -> Result<(), PortError> {
        function::unplug(&self.paths, spec).await
    }

    /// The interfaces that this agent added to the switch; none if the host has no switch.
    pub async fn plugged(&self) -> Result<Vec<SwitchInterface>, PortError> {
        match switch::of_node(&self.switch, &self.node).await {
            Err(error) if error.is_not_installed() => Ok(Vec::new()),
            found => Ok(found?),
        }
    }

    /// Removes an interface of [`HostNetwork::plugged`] that no guest uses, and its tap.
    pub async fn remove_orphan(&self, interface: &SwitchInterface) -> Result<(), PortError> {
        let Some(tap) = TapName::of_port_tap(&interface.name) else {
            return Ok(());
        };
        let is_tap = tap::observe(&self.paths, &tap).is_some_and(|link| link.is_tap);
        if is_tap {
            tap::delete(&self.paths, &tap).await?;
        }
        Ok(switch::remove(&self.switch, tap.as_str()).await?)
    }
}
