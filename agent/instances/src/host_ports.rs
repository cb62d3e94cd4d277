//! [`HostPorts`]: the Neutron ports of this host's guests.

use std::time::Duration;

use berth_net::{FunctionSpec, HostNetwork, PortError, PortSpec, SwitchInterface};
use berth_virt::guest_spec::GuestSpec;
use tokio::time::Instant;

use crate::resources::ResourceError;

/// How long a guest waits for its ports, and what happens then. Nova's options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VifPlugging {
    /// `vif_plugging_timeout`; zero: a guest does not wait.
    pub timeout: Duration,
    /// `vif_plugging_is_fatal`: whether the spawn fails, or the guest starts with a port that does not work yet.
    pub is_fatal: bool,
}

/// Who knows whether a plugged port works.
trait PortWait {
    /// Waits until a plugged port works, at most `limit`.
    fn wait_plugged(
        &self,
        port: &PortSpec,
        limit: Duration,
    ) -> impl Future<Output = Result<(), PortError>> + Send;
}

impl PortWait for HostNetwork {
    async fn wait_plugged(&self, port: &PortSpec, limit: Duration) -> Result<(), PortError> {
        Self::wait_plugged(self, port, limit).await
    }
}

impl VifPlugging {
    /// Waits until all ports of the guest work. They share the timeout. Cancellable.
    async fn wait(self, network: &impl PortWait, spec: &GuestSpec) -> Result<(), PortError> {
        if self.timeout.is_zero() {
            return Ok(());
        }
        let until = Instant::now() + self.timeout;
        for port in port_specs(spec) {
            let left = until.saturating_duration_since(Instant::now());
            match network.wait_plugged(&port, left).await {
                Err(PortError::NotPlugged {
                    port,
                    guest,
                    signal,
                    waited: _,
                }) => {
                    let error = PortError::NotPlugged {
                        port,
                        guest,
                        signal,
                        // By all ports, as the option says.
                        waited: self.timeout,
                    };
                    if self.is_fatal {
                        return Err(error);
                    }
                    tracing::warn!(%guest, %port, %error, "port timed out; the guest starts without it (vif_plugging_is_fatal)");
                }
                waited => waited?,
            }
        }
        Ok(())
    }
}

/// Who connects the ports of this host's guests.
#[derive(Debug, Clone)]
pub enum HostPorts {
    /// The guests exist in memory only, and have nothing to connect.
    InMemory,
    /// The agent, on the switch of this host.
    Switch {
        network: HostNetwork,
        plugging: VifPlugging,
    },
}

/// The ports of a guest that the agent plugs.
fn port_specs(spec: &GuestSpec) -> impl Iterator<Item = PortSpec> {
    let is_multi_queue = spec.interface_queues().is_some();
    let ports = spec.interfaces.ports();
    ports.filter_map(move |(interface, port)| {
        PortSpec::new(spec.uuid, interface, port, is_multi_queue)
    })
}

/// The ports of a guest that need settings of their functions.
fn function_specs(spec: &GuestSpec) -> impl Iterator<Item = FunctionSpec> {
    let ports = spec.interfaces.ports();
    ports.filter_map(|(interface, port)| FunctionSpec::new(interface, port))
}

impl HostPorts {
    /// Checks that the guest's ports can be plugged. Changes nothing.
    pub(crate) async fn check(&self, spec: &GuestSpec) -> Result<(), ResourceError> {
        if let Self::Switch { network, .. } = self {
            for port in port_specs(spec) {
                network.check(&port).await?;
            }
        }
        Ok(())
    }

    pub(crate) async fn plug(&self, spec: &GuestSpec) -> Result<(), ResourceError> {
        if let Self::Switch { network, .. } = self {
            for port in port_specs(spec) {
                network.plug(&port).await?;
            }
            for function in function_specs(spec) {
                network.plug_function(&function).await?;
            }
        }
        Ok(())
    }

    /// Waits until the plugged ports work. Cancellable.
    pub(crate) async fn wait_plugged(&self, spec: &GuestSpec) -> Result<(), ResourceError> {
        match self {
            Self::InMemory => Ok(()),
            Self::Switch { network, plugging } => Ok(plugging.wait(network, spec).await?),
        }
    }

    /// Unplugs all ports of a guest. Tries all of them, and returns the first error.
    pub(crate) async fn unplug(&self, spec: &GuestSpec) -> Result<(), ResourceError> {
        let mut first = Ok(());
        if let Self::Switch { network, .. } = self {
            for port in port_specs(spec) {
                let unplugged = network.unplug(&port).await;
                first = first.and(unplugged);
            }
            for function in function_specs(spec) {
                let unplugged = network.unplug_function(&function).await;
                first = first.and(unplugged);
            }
        }
        Ok(first?)
    }

    /// The interfaces that this agent added to the switch; none without a switch.
    pub(crate) async fn plugged(&self) -> Result<Vec<SwitchInterface>, ResourceError> {
        match self {
            Self::InMemory => Ok(Vec::new()),
            Self::Switch { network, .. } => Ok(network.plugged().await?),
        }
    }

    pub(crate) async fn remove_orphan(
        &self,
        interface: &SwitchInterface,
    ) -> Result<(), ResourceError> {
        match self {
            Self::InMemory => Ok(()),
            Self::Switch { network, .. } => Ok(network.remove_orphan(interface).await?),
        }
    }
}

impl From<PortError> for ResourceError {
    fn from(error: PortError) -> Self {
        let reason = error.to_string();
        let what = "a port".to_owned();
        match error.disposition() {
            berth_model::Disposition::Refresh => Self::Refused { what, reason },
            _ => Self::Failed { what, reason },
        }
    }
}

#[cfg(test)]
mod tests;
