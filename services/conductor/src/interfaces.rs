//! Attaches ports to active guests, and detaches them.
//!
//! ```text
//! attach: get the port -> journal -> bind it to the host -> journal -> claim its resources -> agent
//! detach: agent -> release its resources -> journal -> unbind or delete the port -> journal
//!
//! attach a network function: get the port -> claim -> agent selects -> bind it -> journal -> agent attaches
//! detach a network function: agent detaches and resets -> release the claim -> unbind the port -> journal
//! ```
//!
//! Each step can be repeated. A created port has its action's id in its description: if the creation was not answered, the
//! port is found by it. The deletion of the guest gives all of its ports back.

use std::collections::BTreeSet;

use axum::http::StatusCode;
use berth_client::network::{VifOrigin, network_info};
use berth_client::{
    GuestApiError, GuestClient, NetworkClient, NetworkClientError, PlacementClient, PlacementError,
};
use berth_model::{ConsumerAllocations, ConsumerUuid, Disposition, ProviderUuid};
use berth_networks::PortRefusal;
use berth_wire::conductor::RequestedNetwork;
use berth_wire::guest::{ActionId, GuestAction, GuestBody};
use berth_wire::network_info::{Extras, VifBody};
use berth_wire::neutron::{BindPortBody, PortRecord};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::BootError;
use crate::boot::{
    bind_port, binding, checked_function, create_port, created_port, give_port, own_port,
    ports_of_guest,
};
use crate::boot_context::BootContext;
use crate::function_demand::FunctionDemand;
use crate::journal::{
    BootGoal, BootPort, BootRecord, BootStep, BootStepDetail, ChosenHost, JournalError, PortOrigin,
    StepState,
};
use crate::port_marks::mark_of_action;
use crate::port_profiles::{profile_of_allocation, profile_of_function};
use crate::port_resources::{needed_by_ports, port_allocation, port_query, providers_of_profile};
use crate::undo::unbind_port;

/// The `binding:vif_type` of a port that is on no host.
const UNBOUND: &str = "unbound";

/// Whether the agent refuses because it does not have the guest.
fn has_no_guest(error: &GuestApiError) -> bool {
    error
        .refusal()
        .is_some_and(|refusal| refusal.code == "not_found")
}

/// Why a port is not attached or detached.
#[derive(Debug, thiserror::Error)]
pub enum InterfaceError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("guest {0} is not active")]
    NotActive(ConsumerUuid),
    /// The port cannot be had, or cannot be bound to the guest's host.
    #[error(transparent)]
    Port(#[from] Box<BootError>),
    /// No card of the guest's host has a free function for the port.
    #[error(
        "the guest's host has no free network function for port {port} (physical network {network}): detach another port, or \
         create the server with the port"
    )]
    NoFunction { port: Uuid, network: String },
    #[error("no agent is known for host {0}: add the host to [conductor_service] agents")]
    NoAgent(String),
    #[error(transparent)]
    Agent(#[from] GuestApiError),
    #[error(
        "Failed to allocate additional resources to attach interface to instance {guest}: its host cannot guarantee the \
         bandwidth or packet rate of port {port}"
    )]
    NoPortResources { guest: ConsumerUuid, port: Uuid },
    /// The wait for the agent ended: the guest is being deleted, or the conductor stops.
    #[error("the change of the interfaces of guest {0} was interrupted")]
    Interrupted(ConsumerUuid),
}

impl InterfaceError {
    /// Whether a retry may help.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Journal(_) | Self::NoAgent(_) | Self::Interrupted(_) => Disposition::Retry,
            Self::NotActive(_) | Self::NoPortResources { .. } | Self::NoFunction { .. } => {
                Disposition::Fatal
            }
            Self::Port(error) => match error.disposition() {
                Disposition::Retry => Disposition::Retry,
                // The guest stays on its host.
                Disposition::Refresh | Disposition::Fatal => Disposition::Fatal,
            },
            Self::Agent(error) => match error.is_temporary() {
                true => Disposition::Retry,
                false => error.disposition(),
            },
        }
    }
}

impl From<BootError> for InterfaceError {
    fn from(error: BootError) -> Self {
        Self::Port(Box::new(error))
    }
}

impl From<NetworkClientError> for InterfaceError {
    fn from(error: NetworkClientError) -> Self {
        Self::Port(Box::new(error.into()))
    }
}

/// An active guest whose interfaces change, and who takes part in it. The caller holds the guest's lock.
pub(crate) struct ActiveGuest<'a> {
    context: &'a BootContext,
    networks: &'a NetworkClient,
    agent: GuestClient,
    record: BootRecord,
    /// Ends the wait for the agent.
    interrupt: CancellationToken,
}

impl<'a> ActiveGuest<'a> {
    /// Reads the guest.
    ///
    /// Errors: It is not active, or there is no network service or no agent.
    pub(crate) async fn read(
        context: &'a BootContext,
        guest: ConsumerUuid,
        interrupt: CancellationToken,
    ) -> Result<Self, InterfaceError> {
        let networks = context.networks.as_ref();
        let networks = networks.ok_or(BootError::NoNetworkService)?;
        let record = context.journal.guest(guest).await?;
        let record = record.filter(|record| record.goal == BootGoal::Active);
        let record = record.ok_or(InterfaceError::NotActive(guest))?;
        let chosen = record.placement();
        let host = chosen.ok_or(InterfaceError::NotActive(guest))?.host_node();
        let agent = context.agents.agent(&host);
        Ok(Self {
            context,
            networks,
            agent: agent.ok_or(InterfaceError::NoAgent(host.host))?,
            record,
            interrupt,
        })
    }

    /// Attaches a port, and waits until the guest has it. Repeating it with the same id is safe.
    ///
    /// Errors: The port cannot be had or bound, or the agent refuses. The port is then given back, unless a retry may help.
    pub(crate) async fn attach(
        mut self,
        wanted: &RequestedNetwork,
        id: &ActionId,
    ) -> Result<VifBody, InterfaceError> {
        let mark = mark_of_action(self.record.attempt, id);
        let demand = FunctionDemand::of(wanted);
        let was_begun = wanted.port.is_some_and(|port| self.has_port(port));
        let port = match self.get_port(wanted, mark).await {
            Ok(port) => port,
            Err(error) => {
                match wanted.port {
                    Some(_) if error.disposition() == Disposition::Retry => {}
                    // An earlier run may have attached it before its owner changed it.
                    Some(port) if was_begun => self.detach_with(port, None).await?,
                    Some(port) => self.give_back(port).await?,
                    None => {}
                }
                return Err(error);
            }
        };
        let attached = async {
            let vif = match &demand {
                Some(demand) => self.bind_function(port, wanted, demand).await?,
                None => self.bind_port(port, wanted).await?,
            };
            let providers = providers_of_profile(vif.profile.as_ref());
            self.hold_for_ports(providers, None).await?;
            let attach = GuestAction::AttachInterface {
                port: Box::new(vif.clone()),
            };
            self.act(&attach, Some(id)).await?;
            Ok(vif)
        };
        let attached: Result<VifBody, InterfaceError> = attached.await;
        if let Err(error) = &attached
            && error.disposition() != Disposition::Retry
        {
            if demand.is_some() {
                self.take_function(port).await?;
            }
            self.give_back(port).await?;
        }
        attached
    }

    /// Lets the host reset and free the function of a port that could not be attached.
    async fn take_function(&mut self, port: Uuid) -> Result<(), InterfaceError> {
        match self.act(&GuestAction::DetachInterface { port }, None).await {
            Err(InterfaceError::Agent(error)) if has_no_guest(&error) => {}
            detached => drop(detached?),
        }
        self.release_function(port).await
    }

    /// Ends an attachment that was given up.
    pub(crate) async fn cancel_attachment(
        mut self,
        wanted: &RequestedNetwork,
        id: &ActionId,
    ) -> Result<(), InterfaceError> {
        let mark = mark_of_action(self.record.attempt, id);
        let port = match wanted.port {
            // Its owner may have taken it from the guest.
            Some(port) => Some(port).filter(|port| self.has_port(*port)),
            None => {
                let ports = ports_of_guest(self.networks, &self.record.request).await?;
                let mut ports = ports.iter();
                let port = ports.find(|port| port.description == mark);
                port.map(|port| port.id)
            }
        };
        match port {
            Some(port) => self.detach_with(port, None).await,
            None => Ok(()),
        }
    }

    /// Detaches a port, and gives it back. Repeating it with the same id is safe.
    ///
    /// Errors: The agent refuses, for example because the guest does not release the port. The guest then keeps it.
    pub(crate) async fn detach(mut self, port: Uuid, id: &ActionId) -> Result<(), InterfaceError> {
        self.detach_with(port, Some(id)).await
    }

    async fn detach_with(
        &mut self,
        port: Uuid,
        id: Option<&ActionId>,
    ) -> Result<(), InterfaceError> {
        self.act(&GuestAction::DetachInterface { port }, id).await?;
        self.release_function(port).await?;
        self.give_back(port).await
    }

    /// Lets the agent act. The agent may take minutes, and a deletion does not wait for it.
    async fn act(
        &self,
        action: &GuestAction,
        id: Option<&ActionId>,
    ) -> Result<GuestBody, InterfaceError> {
        let uuid = self.uuid();
        tokio::select! {
            biased;
            () = self.interrupt.cancelled() => Err(InterfaceError::Interrupted(uuid)),
            acted = self.agent.action(uuid, action, id) => Ok(acted?),
        }
    }

    pub(crate) fn uuid(&self) -> ConsumerUuid {
        self.record.request.uuid()
    }

    pub(crate) fn placement(&self) -> &'a PlacementClient {
        &self.context.placement
    }

    /// The guest's host, with what the guest has there.
    pub(crate) fn chosen(&self) -> Result<&ChosenHost, InterfaceError> {
        let chosen = self.record.placement();
        chosen.ok_or(InterfaceError::NotActive(self.uuid()))
    }

    /// Whether a port is recorded as the guest's.
    fn has_port(&self, port: Uuid) -> bool {
        self.ports().iter().any(|known| known.port == port)
    }

    fn ports(&self) -> &[BootPort] {
        self.record.ports(self.record.attempt).unwrap_or_default()
    }

    pub(crate) async fn record_step(
        &mut self,
        step: BootStep,
        detail: BootStepDetail,
    ) -> Result<(), JournalError> {
        let place = (self.record.request.uuid(), self.record.attempt);
        let done = StepState::Done;
        self.context
            .record_step(place, step, done, detail.clone())
            .await?;
        self.record.set_step(step, done, detail);
        Ok(())
    }

    /// Creates the port, or gives it to the guest. A port that the guest has stays as it is.
    async fn get_port(
        &mut self,
        wanted: &RequestedNetwork,
        mark: String,
    ) -> Result<Uuid, InterfaceError> {
        if let Some(port) = wanted.port {
            // Before it is given: the deletion of the guest frees the ports that are recorded.
            self.record_port(port, PortOrigin::Given).await?;
            let request = &self.record.request;
            return Ok(give_port(self.networks, request, wanted, port).await?);
        }
        let request = &self.record.request;
        let known = ports_of_guest(self.networks, request).await?;
        let made = known.iter().find(|port| port.description == mark);
        let port = match (made, wanted.uuid) {
            (Some(port), _) if self.has_port(port.id) => port.id,
            (Some(port), _) => created_port(self.networks, port).await?,
            (None, Some(network)) => {
                // A kill after this leaves no other trace of the creation.
                self.context.record_late_port(request).await?;
                create_port(self.context, request, wanted, (network, mark)).await?
            }
            (None, None) => {
                let reason = "the request names neither a port nor a network".to_owned();
                return Err(BootError::from(PortRefusal::Service(reason)).into());
            }
        };
        self.record_port(port, PortOrigin::Created).await?;
        Ok(port)
    }

    async fn record_port(&mut self, port: Uuid, origin: PortOrigin) -> Result<(), JournalError> {
        if self.has_port(port) {
            return Ok(());
        }
        let ports = [self.ports(), &[BootPort { port, origin }]].concat();
        self.record_step(BootStep::Ports, BootStepDetail::Ports(ports))
            .await
    }

    async fn bind_port(
        &mut self,
        port: Uuid,
        wanted: &RequestedNetwork,
    ) -> Result<VifBody, InterfaceError> {
        if let Some(vif) = self.record.vifs().iter().find(|vif| vif.id == port) {
            return Ok(vif.clone());
        }
        let binding = BindPortBody {
            profile: self.profile_on(self.chosen()?, port, wanted).await?,
            ..self.binding().await?
        };
        let bound = bind_port(self.networks, &self.record.request, wanted, port, &binding).await?;
        let vif = self.vif(bound, wanted.tag.clone()).await?;
        self.record_vif(vif).await
    }

    /// Claims a network function, lets the host select it, and binds the port to it.
    async fn bind_function(
        &mut self,
        port: Uuid,
        wanted: &RequestedNetwork,
        demand: &FunctionDemand,
    ) -> Result<VifBody, InterfaceError> {
        if let Some(vif) = self.record.vifs().iter().find(|vif| vif.id == port) {
            return Ok(vif.clone());
        }
        let provider = self.claim_function(port, demand).await?;
        let found = own_port(self.networks, &self.record.request, wanted, port).await?;
        let vif = self.vif(found, wanted.tag.clone()).await?;
        let select = GuestAction::SelectFunction {
            // An earlier run may have bound it to the function that the host has selected.
            port: Box::new(VifBody {
                vif_type: UNBOUND.to_owned(),
                ..vif.clone()
            }),
            provider: *provider.as_uuid(),
        };
        let guest = self.act(&select, None).await?;
        let mut functions = guest.unbound_functions.iter();
        let function = functions.find(|function| function.port == port);
        let function = function.ok_or_else(|| {
            BootError::NotBuilt(format!(
                "the host selected no network function for port {port}"
            ))
        })?;
        let binding = BindPortBody {
            profile: Some(profile_of_function(&vif, checked_function(&vif, function)?)),
            ..self.binding().await?
        };
        let bound = bind_port(self.networks, &self.record.request, wanted, port, &binding).await?;
        let vif = self.vif(bound, wanted.tag.clone()).await?;
        self.record_vif(vif).await
    }

    async fn binding(&self) -> Result<BindPortBody, InterfaceError> {
        let extensions = self.context.network_extensions(self.networks).await?;
        Ok(binding(&self.record.request, self.chosen()?, extensions))
    }

    /// The virtual interface of a port.
    async fn vif(&self, port: PortRecord, tag: Option<String>) -> Result<VifBody, InterfaceError> {
        let id = port.id;
        let facts = self.networks.facts(vec![port]).await?;
        let mut ports = self.ports().iter();
        let is_given = ports.any(|known| known.port == id && known.origin == PortOrigin::Given);
        let origin = VifOrigin {
            port: id,
            preserve_on_delete: is_given,
            tag,
        };
        let vif = network_info(&facts, &[origin]).pop();
        Ok(vif.ok_or(BootError::PortBusy(id))?)
    }

    async fn record_vif(&mut self, vif: VifBody) -> Result<VifBody, InterfaceError> {
        let vifs = [self.record.vifs(), std::slice::from_ref(&vif)].concat();
        self.record_step(BootStep::PortBinding, BootStepDetail::Vifs(vifs))
            .await?;
        Ok(vif)
    }

    /// The profile of a port with providers of the guest's host that have what the port needs; `None` if it needs nothing. The
    /// port is bound with it before anything is claimed, so that a repeated attachment finds the same providers.
    async fn profile_on(
        &self,
        chosen: &ChosenHost,
        port: Uuid,
        wanted: &RequestedNetwork,
    ) -> Result<Option<Extras>, InterfaceError> {
        if wanted.resource_request.is_empty() {
            return Ok(None);
        }
        let guest = self.record.request.uuid();
        let found = self.networks.port(port).await?;
        let found = found.ok_or(BootError::from(PortRefusal::NotFound(port)))?;
        let host = chosen.host_node().host;
        if found.host_id.as_ref() == Some(&host)
            && !providers_of_profile(found.profile.as_ref()).is_empty()
        {
            return Ok(None);
        }
        let no_resources = || InterfaceError::NoPortResources { guest, port };
        let query = port_query(wanted, chosen.host).map_err(|_| no_resources())?;
        let candidates = self.context.placement.candidates_of(&query).await;
        let candidates = candidates.map_err(BootError::from)?.candidates;
        let candidate = candidates.first().ok_or_else(no_resources)?;
        let allocation = port_allocation(wanted, candidate)?;
        Ok(allocation.map(|allocation| profile_of_allocation(&found, allocation)))
    }

    /// Lets the guest hold of these providers what its ports need, all but the one that is `gone`. Repeating it is safe: the
    /// amounts follow from the ports alone. The providers are Neutron's, so nothing else of the guest is on them.
    async fn hold_for_ports(
        &self,
        mut providers: BTreeSet<ProviderUuid>,
        gone: Option<Uuid>,
    ) -> Result<(), InterfaceError> {
        let chosen = self.record.placement();
        providers.retain(|provider| chosen.is_none_or(|chosen| chosen.host != *provider));
        if providers.is_empty() {
            return Ok(());
        }
        let (placement, guest) = (&self.context.placement, self.record.request.uuid());
        let mut ports = ports_of_guest(self.networks, &self.record.request).await?;
        ports.retain(|port| gone != Some(port.id));
        let Some(needed) = needed_by_ports(&ports, &providers) else {
            tracing::warn!(%guest, "a QoS policy of the guest's ports was changed, so its allocations for ports stay as they are");
            return Ok(());
        };
        let held = placement.allocations(guest).await;
        let Some(held) = held.map_err(BootError::from)? else {
            // Nothing is left to give back.
            return match gone {
                Some(_) => Ok(()),
                None => Err(BootError::ClaimLost.into()),
            };
        };
        let mut resources = held.resources.clone();
        resources.retain(|(provider, _), _| !providers.contains(provider));
        resources.extend(needed);
        if resources == held.resources {
            return Ok(());
        }
        let wanted = ConsumerAllocations { resources, ..held };
        match placement.put_allocations(guest, &wanted).await {
            Ok(()) => Ok(()),
            // The deletion of the server gives back what is left.
            Err(error @ PlacementError::Refused(_)) if gone.is_some() => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(%guest, error, "failed to release the allocations of a detached port");
                Ok(())
            }
            Err(PlacementError::Refused(refusal)) if refusal.status == StatusCode::CONFLICT => {
                let port = ports.iter().find(|port| {
                    let of_port = providers_of_profile(port.profile.as_ref());
                    !of_port.is_disjoint(&providers)
                });
                let port = port.map_or_else(Uuid::nil, |port| port.id);
                Err(InterfaceError::NoPortResources { guest, port })
            }
            Err(error) => Err(BootError::from(error).into()),
        }
    }

    /// Unbinds or deletes a port that the guest no longer has. The port is forgotten last, so that the deletion of the guest
    /// still finds it.
    async fn give_back(&mut self, port: Uuid) -> Result<(), InterfaceError> {
        let guest = self.record.request.uuid().to_string();
        let mut known = self.ports().iter();
        let found = match known.find(|known| known.port == port).map(|it| it.origin) {
            Some(PortOrigin::Given) => self.networks.port(port).await?,
            Some(PortOrigin::Created) | None => None,
        };
        let found = found.filter(|found| found.device_id == guest);
        let mut vifs = self.record.vifs().iter();
        let vif = vifs.find(|vif| vif.id == port);
        let mut providers = providers_of_profile(vif.and_then(|vif| vif.profile.as_ref()));
        let now = found.as_ref().and_then(|found| found.profile.as_ref());
        providers.extend(providers_of_profile(now));
        self.hold_for_ports(providers, Some(port)).await?;
        let vifs = self.record.vifs().iter().filter(|vif| vif.id != port);
        let vifs: Vec<_> = vifs.cloned().collect();
        if vifs.len() != self.record.vifs().len() {
            self.record_step(BootStep::PortBinding, BootStepDetail::Vifs(vifs))
                .await?;
        }
        let Some(known) = self.ports().iter().find(|known| known.port == port) else {
            return Ok(());
        };
        match known.origin {
            PortOrigin::Created => drop(self.networks.delete_port(port).await?),
            PortOrigin::Given => {
                unbind_port(self.networks, self.record.request.uuid(), port).await?;
            }
        }
        let ports = self.ports().iter().filter(|known| known.port != port);
        let ports: Vec<_> = ports.copied().collect();
        Ok(self
            .record_step(BootStep::Ports, BootStepDetail::Ports(ports))
            .await?)
    }
}
