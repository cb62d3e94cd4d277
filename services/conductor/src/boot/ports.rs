//! The steps `ports` and `port_binding`: get the ports that the request names, and bind them to the chosen host.
//!
//! A port that a boot creates carries the guest's UUID as its device and a mark of the attempt, so a port whose creation was
//! not answered is found again. A port that the request names is given to the guest under its revision number, so that of two
//! boots with the same port one is refused.

use berth_client::network::{PortFilter, SharedObjectType, VifOrigin, network_info};
use berth_client::{NetworkClient, NetworkClientError, NetworkExtensions};
use berth_model::Disposition;
use berth_networks::{PortRefusal, check_kind, check_port, needs_resources};
use berth_wire::conductor::RequestedNetwork;
use berth_wire::guest::NetworkFunctionBody;
use berth_wire::network_info::VifBody;
use berth_wire::neutron::{BindPortBody, CreatePortBody, PortRecord, RequestedFixedIp};
use uuid::Uuid;

use super::{BootError, BoundBoot, NetworkedBoot};
use crate::BootRequest;
use crate::boot_context::BootContext;
use crate::journal::{BootPort, BootStep, BootStepDetail, ChosenHost, PortOrigin, StepState};
use crate::port_marks::mark;
use crate::port_profiles::{is_function_for, profile_of_allocation, profile_of_function};
use crate::port_resources::port_allocation;

/// The key in `binding:vif_details`.
const BOUND_DRIVERS: &str = "bound_drivers";
/// The zone of hosts without one, as in Nova.
const DEFAULT_ZONE: &str = "nova";
/// The maximum number of tries to change a port while others change it.
pub(crate) const PORT_TRIES: usize = 5;

impl BoundBoot {
    /// Gets and binds the ports of the requested networks, if there are any.
    pub(super) async fn network(self, context: &BootContext) -> Result<NetworkedBoot, BootError> {
        let record = &self.provided.placed.record;
        if record.request.body().requested_networks.is_empty() {
            let vifs = Vec::new();
            return Ok(NetworkedBoot { bound: self, vifs });
        }
        let bound = record.step(BootStep::PortBinding);
        let vifs = match bound.map(|record| &record.detail) {
            // The agent refuses another description of the same guest, so it is not asked for again.
            Some(BootStepDetail::Vifs(vifs)) => vifs.clone(),
            _ => {
                let networks = context.networks.as_ref();
                let networks = networks.ok_or(BootError::NoNetworkService)?;
                let ports = self.ports(context, networks).await?;
                self.bind_ports(context, networks, &ports).await?
            }
        };
        Ok(NetworkedBoot { bound: self, vifs })
    }

    async fn ports(
        &self,
        context: &BootContext,
        networks: &NetworkClient,
    ) -> Result<Vec<BootPort>, BootError> {
        let placed = &self.provided.placed;
        let (place, step) = (placed.place(), BootStep::Ports);
        let begun = placed.record.step(step);
        if let Some(BootStepDetail::Ports(ports)) = begun.map(|record| &record.detail) {
            return Ok(ports.clone());
        }
        let was_begun = begun.is_some();
        context
            .record_step(place, step, StepState::Begun, BootStepDetail::Nothing)
            .await?;
        let request = &placed.record.request;
        let known = match was_begun {
            true => {
                // A creation that an earlier process sent may take effect after this list.
                context.record_late_port(request).await?;
                ports_of_guest(networks, request).await?
            }
            false => Vec::new(),
        };
        let mut ports = Vec::new();
        for (index, wanted) in request.body().requested_networks.iter().enumerate() {
            let port = match (wanted.port, wanted.uuid) {
                (Some(port), _) => BootPort {
                    port: give_port(networks, request, wanted, port).await?,
                    origin: PortOrigin::Given,
                },
                (None, Some(network)) => {
                    let mark = mark(placed.record.attempt, index);
                    let is_made =
                        |port: &&PortRecord| port.description == mark && port.network_id == network;
                    let port = match known.iter().find(is_made) {
                        Some(port) => created_port(networks, port).await?,
                        None => create_port(context, request, wanted, (network, mark)).await?,
                    };
                    let origin = PortOrigin::Created;
                    BootPort { port, origin }
                }
                // A request without both is invalid.
                (None, None) => continue,
            };
            ports.push(port);
        }
        let detail = BootStepDetail::Ports(ports.clone());
        context
            .record_step(place, step, StepState::Done, detail)
            .await?;
        Ok(ports)
    }

    async fn bind_ports(
        &self,
        context: &BootContext,
        networks: &NetworkClient,
        ports: &[BootPort],
    ) -> Result<Vec<VifBody>, BootError> {
        let placed = &self.provided.placed;
        let (place, step) = (placed.place(), BootStep::PortBinding);
        context
            .record_step(place, step, StepState::Begun, BootStepDetail::Nothing)
            .await?;
        let extensions = context.network_extensions(networks).await?;
        let request = &placed.record.request;
        let binding = binding(request, &placed.chosen, extensions);
        let mut bound = Vec::new();
        let requested = &request.body().requested_networks;
        for (port, wanted) in ports.iter().zip(requested) {
            // The host selects a function for it first.
            if wanted.physical_network.is_some() {
                bound.push(own_port(networks, request, wanted, port.port).await?);
                continue;
            }
            let profile = match port_allocation(wanted, &placed.chosen.candidate)? {
                Some(allocation) => {
                    let own = own_port(networks, request, wanted, port.port).await?;
                    Some(profile_of_allocation(&own, allocation))
                }
                None => None,
            };
            let binding = BindPortBody {
                profile,
                ..binding.clone()
            };
            bound.push(bind_port(networks, request, wanted, port.port, &binding).await?);
        }
        let facts = networks.facts(bound).await?;
        let vifs = network_info(&facts, &self.origins(ports));
        let detail = BootStepDetail::Vifs(vifs.clone());
        context
            .record_step(place, step, StepState::Done, detail)
            .await?;
        Ok(vifs)
    }

    fn origins(&self, ports: &[BootPort]) -> Vec<VifOrigin> {
        let requested = &self
            .provided
            .placed
            .record
            .request
            .body()
            .requested_networks;
        let origins = ports.iter().zip(requested).map(|(port, wanted)| VifOrigin {
            port: port.port,
            preserve_on_delete: port.origin == PortOrigin::Given,
            tag: wanted.tag.clone(),
        });
        origins.collect()
    }
}

impl NetworkedBoot {
    /// Binds the direct ports to the functions that the host selected. Returns all ports of the guest, in their order.
    pub(super) async fn bind_functions(
        &self,
        context: &BootContext,
        functions: &[NetworkFunctionBody],
    ) -> Result<Vec<VifBody>, BootError> {
        let networks = context.networks.as_ref();
        let networks = networks.ok_or(BootError::NoNetworkService)?;
        let placed = &self.bound.provided.placed;
        let extensions = context.network_extensions(networks).await?;
        let binding = binding(&placed.record.request, &placed.chosen, extensions);
        let request = &placed.record.request;
        let mut bound = Vec::new();
        let requested = &request.body().requested_networks;
        for (vif, wanted) in self.vifs.iter().zip(requested) {
            let function = functions.iter().find(|function| function.port == vif.id);
            bound.push(match function {
                Some(function) => {
                    let function = checked_function(vif, function)?;
                    let binding = BindPortBody {
                        profile: Some(profile_of_function(vif, function)),
                        ..binding.clone()
                    };
                    bind_port(networks, request, wanted, vif.id, &binding).await?
                }
                None => own_port(networks, request, wanted, vif.id).await?,
            });
        }
        let origins = self.vifs.iter().map(|vif| VifOrigin {
            port: vif.id,
            preserve_on_delete: vif.preserve_on_delete,
            tag: vif.tag().map(str::to_owned),
        });
        let facts = networks.facts(bound).await?;
        Ok(network_info(&facts, &origins.collect::<Vec<_>>()))
    }
}

/// A port that the guest has. Its owner may have given it to another server, or changed its kind, since it was requested.
pub(crate) async fn own_port(
    networks: &NetworkClient,
    request: &BootRequest,
    wanted: &RequestedNetwork,
    id: Uuid,
) -> Result<PortRecord, BootError> {
    let guest = *request.uuid().as_uuid();
    let port = networks.port(id).await?;
    let found = check_port(id, port.as_ref(), request.project_id(), guest)?;
    check_kind(found, wanted)?;
    let own = port.filter(|port| port.device_id == guest.to_string());
    Ok(own.ok_or(PortRefusal::InUse(id))?)
}

/// Binds a port of the guest, as it was requested.
pub(crate) async fn bind_port(
    networks: &NetworkClient,
    request: &BootRequest,
    wanted: &RequestedNetwork,
    id: Uuid,
    binding: &BindPortBody,
) -> Result<PortRecord, BootError> {
    for _ in 0..PORT_TRIES {
        let port = own_port(networks, request, wanted, id).await?;
        match networks.bind_port(id, binding, port.revision_number).await {
            Ok(bound) => {
                // Without revision numbers it may have changed since it was read.
                check_kind(&bound, wanted)?;
                if names_drivers(&bound) {
                    return Ok(bound);
                }
                return own_port(networks, request, wanted, id).await;
            }
            Err(NetworkClientError::Changed(_)) => {}
            Err(error) => return Err(not_bound(error)),
        }
    }
    Err(BootError::PortBusy(id))
}

/// Whether an answer has the drivers of a binding, by which the host knows who reports that the port works. The answer to a request
/// that found the port bound, as a repeated one does, does not have them.
fn names_drivers(port: &PortRecord) -> bool {
    let details = port.vif_details.as_ref();
    details.is_some_and(|details| details.contains_key(BOUND_DRIVERS))
}

/// The function that a host selected, if it is one for this port.
pub(crate) fn checked_function<'a>(
    vif: &VifBody,
    function: &'a NetworkFunctionBody,
) -> Result<&'a NetworkFunctionBody, BootError> {
    match is_function_for(vif, function) {
        true => Ok(function),
        false => Err(BootError::NotBuilt(format!(
            "the host selected an invalid network function for port {}: its physical network, PCI address, IDs or MAC address is \
             not that of such a function",
            vif.id
        ))),
    }
}

/// Gives a port of the project to the guest.
pub(crate) async fn give_port(
    networks: &NetworkClient,
    request: &BootRequest,
    wanted: &RequestedNetwork,
    id: Uuid,
) -> Result<Uuid, BootError> {
    let guest = *request.uuid().as_uuid();
    for _ in 0..PORT_TRIES {
        let port = networks.port(id).await?;
        let port = check_port(id, port.as_ref(), request.project_id(), guest)?;
        check_kind(port, wanted)?;
        if port.device_id == guest.to_string() {
            return Ok(id);
        }
        match networks.give_port(id, guest, port.revision_number).await {
            Ok(_) => return Ok(id),
            Err(NetworkClientError::Changed(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(BootError::PortBusy(id))
}

/// Creates a port of the guest in a network, with this mark.
pub(crate) async fn create_port(
    context: &BootContext,
    request: &BootRequest,
    wanted: &RequestedNetwork,
    (network, mark): (Uuid, String),
) -> Result<Uuid, BootError> {
    let networks = context.networks.as_ref();
    let networks = networks.ok_or(BootError::NoNetworkService)?;
    let project = request.project_id();
    check_network(networks, project, network).await?;
    let fixed_ips = wanted.fixed_ip.iter().map(|address| RequestedFixedIp {
        ip_address: address.clone(),
    });
    let body = CreatePortBody {
        network_id: network,
        tenant_id: project.to_owned(),
        device_id: request.uuid().to_string(),
        admin_state_up: true,
        description: mark,
        fixed_ips: fixed_ips.collect(),
        security_groups: request.body().security_groups.clone(),
        vnic_type: None,
    };
    match networks.create_port(&body).await {
        Ok(port) => created_port(networks, &port).await,
        Err(error) if matches!(error, NetworkClientError::NotFound(_)) => {
            Err(PortRefusal::Service(error.what()).into())
        }
        Err(error) if error.disposition() == Disposition::Refresh => {
            context.record_late_port(request).await?;
            Err(BootError::PortsUnknown(error))
        }
        Err(error) => Err(error.into()),
    }
}

/// A port that was created for the guest. It claims nothing, so one that needs resources is deleted, as in Nova.
pub(crate) async fn created_port(
    networks: &NetworkClient,
    port: &PortRecord,
) -> Result<Uuid, BootError> {
    if !needs_resources(port) {
        return Ok(port.id);
    }
    networks.delete_port(port.id).await?;
    Err(PortRefusal::NetworkNeedsResources(port.network_id).into())
}

/// Whether the project may use the network. Neutron does not check it for an administrator.
async fn check_network(
    networks: &NetworkClient,
    project: &str,
    network: Uuid,
) -> Result<(), BootError> {
    let found = networks.network(network).await?;
    let shared = networks
        .shared_with(project, SharedObjectType::Network, &[network].into())
        .await?;
    match found.filter(|found| shared.may_use_network(found)) {
        Some(_) => Ok(()),
        None => Err(PortRefusal::NoNetwork(network).into()),
    }
}

/// What binds the guest's ports to its host.
pub(crate) fn binding(
    request: &BootRequest,
    chosen: &ChosenHost,
    extensions: &NetworkExtensions,
) -> BindPortBody {
    let zone = chosen.zone.as_deref().unwrap_or(DEFAULT_ZONE);
    let hostname = request.hostname().filter(|_| extensions.has_dns());
    BindPortBody {
        device_id: request.uuid().to_string(),
        device_owner: format!("compute:{zone}"),
        host_id: chosen.host_node().host,
        profile: None,
        dns_name: hostname.map(str::to_owned),
    }
}

/// The ports that a guest has, of its own project: tenants may write any device into their ports.
pub(crate) async fn ports_of_guest(
    networks: &NetworkClient,
    request: &BootRequest,
) -> Result<Vec<PortRecord>, NetworkClientError> {
    let filter = PortFilter {
        project: Some(request.project_id().to_owned()),
        device_id: Some(request.uuid().to_string()),
        ..PortFilter::default()
    };
    networks.ports(&filter).await
}

/// Another host may be able to have the port.
fn not_bound(error: NetworkClientError) -> BootError {
    match error {
        NetworkClientError::BindingFailed { .. } | NetworkClientError::HostNotInSegment(_) => {
            BootError::PortNotBound(error)
        }
        // Somebody deleted it.
        NetworkClientError::NotFound(_) => PortRefusal::Service(error.what()).into(),
        error => BootError::Network(error),
    }
}
