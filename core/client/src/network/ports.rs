//! Ports and their bindings.

use std::collections::BTreeSet;

use berth_wire::neutron::{
    BindPortBody, BindPortDocument, CreatePortBody, CreatePortDocument, GivePortBody,
    GivePortDocument, PortBindingList, PortBindingRecord, PortDocument, PortList, PortRecord,
    SecurePortBody, SecurePortDocument, UnbindPortBody, UnbindPortDocument,
};
use berth_wire::{encode, query_string};
use http::Method;
use uuid::Uuid;

use super::{NetworkClient, NetworkClientError, responses, write};
use crate::adapter::AdapterCall;
use crate::call::Repeat;
use crate::placement::DeleteOutcome;

const PORTS: &str = "/v2.0/ports";
const ONE_PORT: &str = "/v2.0/ports/{port_id}";
const BINDINGS: &str = "/v2.0/ports/{port_id}/bindings";
const ONE_BINDING: &str = "/v2.0/ports/{port_id}/bindings/{host}";
const ACTIVATE: &str = "/v2.0/ports/{port_id}/bindings/{host}/activate";
const PORT: &str = "a port";
/// `binding:vif_type` of a port that no driver could bind.
const BINDING_FAILED: &str = "binding_failed";

/// Which ports a list has. Each field narrows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PortFilter {
    pub project: Option<String>,
    pub network: Option<Uuid>,
    pub device_id: Option<String>,
    pub device_owner: Option<String>,
    pub mac_address: Option<String>,
}

impl PortFilter {
    fn query(&self) -> String {
        let network = self.network.map(|id| id.to_string());
        let fields = [
            ("tenant_id", &self.project),
            ("network_id", &network),
            ("device_id", &self.device_id),
            ("device_owner", &self.device_owner),
            ("mac_address", &self.mac_address),
        ];
        let fields = fields.into_iter();
        query_string(fields.filter_map(|(key, value)| value.as_ref().map(|value| (key, value))))
    }
}

/// What became of a port that is unbound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortOutcome {
    Unbound,
    /// The port no longer exists.
    AlreadyGone,
}

impl NetworkClient {
    /// GET /v2.0/ports/{id}; `None` if it does not exist.
    pub async fn port(&self, id: Uuid) -> Result<Option<PortRecord>, NetworkClientError> {
        let path = format!("{PORTS}/{id}");
        let document = self.one(ONE_PORT, path, PORT).await?;
        Ok(document.map(|document: PortDocument| document.port))
    }

    /// GET /v2.0/ports with a filter, in no order.
    pub async fn ports(&self, filter: &PortFilter) -> Result<Vec<PortRecord>, NetworkClientError> {
        self.list::<PortList>(PORTS, filter.query()).await
    }

    /// GET /v2.0/ports?device_id=D: the ports of a server, in no order.
    pub async fn ports_of_device(
        &self,
        device: Uuid,
    ) -> Result<Vec<PortRecord>, NetworkClientError> {
        let filter = PortFilter {
            device_id: Some(device.to_string()),
            ..PortFilter::default()
        };
        self.ports(&filter).await
    }

    /// GET /v2.0/ports?device_id=…: the ports of these servers, in no order.
    pub async fn ports_of_devices(
        &self,
        devices: &BTreeSet<Uuid>,
    ) -> Result<Vec<PortRecord>, NetworkClientError> {
        self.list_by_ids::<PortList>(PORTS, "device_id", devices)
            .await
    }

    /// The DHCP servers' ports of these networks.
    pub async fn dhcp_ports(
        &self,
        networks: &BTreeSet<Uuid>,
    ) -> Result<Vec<PortRecord>, NetworkClientError> {
        let mut ports = Vec::new();
        for network in networks {
            let filter = PortFilter {
                network: Some(*network),
                device_owner: Some("network:dhcp".to_owned()),
                ..PortFilter::default()
            };
            ports.extend(self.ports(&filter).await?);
        }
        Ok(ports)
    }

    /// POST /v2.0/ports. If the answer is lost, the port may exist: [`NetworkClient::ports_of_device`] finds it.
    pub async fn create_port(
        &self,
        wanted: &CreatePortBody,
    ) -> Result<PortRecord, NetworkClientError> {
        let document = CreatePortDocument {
            port: wanted.clone(),
        };
        let body = Some(encode(&document));
        let call = write(Method::POST, PORTS, PORTS.to_owned(), body, Repeat::Once);
        let made: PortDocument = responses::parsed(self.ask(call).await?, PORT)?;
        Ok(made.port)
    }

    /// PUT /v2.0/ports/{id}: gives the port to a server that is on no host yet. With the revision number that the port was
    /// read with, only one of two callers gets it.
    ///
    /// Errors: No answer, or a refusal: [`NetworkClientError::Changed`] if the port has another revision number.
    pub async fn give_port(
        &self,
        id: Uuid,
        device: Uuid,
        revision_number: Option<u64>,
    ) -> Result<PortRecord, NetworkClientError> {
        let document = GivePortDocument {
            port: GivePortBody {
                device_id: device.to_string(),
            },
        };
        self.change_port(id, encode(&document), revision_number)
            .await
    }

    /// PUT /v2.0/ports/{id}: replaces the security groups of the port, if it still has this revision number.
    ///
    /// Errors: No answer, or a refusal: [`NetworkClientError::Changed`] if the port has another revision number.
    pub async fn secure_port(
        &self,
        id: Uuid,
        security_groups: BTreeSet<Uuid>,
        revision_number: Option<u64>,
    ) -> Result<PortRecord, NetworkClientError> {
        let document = SecurePortDocument {
            port: SecurePortBody { security_groups },
        };
        self.change_port(id, encode(&document), revision_number)
            .await
    }

    async fn change_port(
        &self,
        id: Uuid,
        body: Vec<u8>,
        revision_number: Option<u64>,
    ) -> Result<PortRecord, NetworkClientError> {
        let call = change(id, revision_number, body);
        let changed: PortDocument = responses::parsed(self.ask(call).await?, PORT)?;
        Ok(changed.port)
    }

    /// PUT /v2.0/ports/{id}: gives the port to a server on a host. Repeating it is safe. With the revision number that the
    /// port was read with, a request that the service executes late does not undo what happened to the port meanwhile.
    ///
    /// Errors: No answer, a refusal, or a port that no driver can bind to the host. [`NetworkClientError::Changed`] if the
    /// port has another revision number.
    pub async fn bind_port(
        &self,
        id: Uuid,
        binding: &BindPortBody,
        revision_number: Option<u64>,
    ) -> Result<PortRecord, NetworkClientError> {
        let document = BindPortDocument {
            port: binding.clone(),
        };
        let call = change(id, revision_number, encode(&document));
        let bound: PortDocument = responses::parsed(self.ask(call).await?, PORT)?;
        match bound.port.vif_type.as_deref() {
            Some(BINDING_FAILED) => Err(NetworkClientError::BindingFailed {
                port: id,
                host: binding.host_id.clone(),
            }),
            _ => Ok(bound.port),
        }
    }

    /// PUT /v2.0/ports/{id}: takes the port from its server and host. Repeating it is safe. The revision number is that of
    /// [`NetworkClient::bind_port`].
    pub async fn unbind_port(
        &self,
        id: Uuid,
        unbinding: &UnbindPortBody,
        revision_number: Option<u64>,
    ) -> Result<PortOutcome, NetworkClientError> {
        let document = UnbindPortDocument {
            port: unbinding.clone(),
        };
        let call = change(id, revision_number, encode(&document));
        let found = responses::unless_not_found(self.ask(call).await?)?;
        Ok(found.map_or(PortOutcome::AlreadyGone, |_| PortOutcome::Unbound))
    }

    /// DELETE /v2.0/ports/{id}.
    pub async fn delete_port(&self, id: Uuid) -> Result<DeleteOutcome, NetworkClientError> {
        self.delete(ONE_PORT, format!("{PORTS}/{id}")).await
    }

    /// GET /v2.0/ports/{id}/bindings; none if the port does not exist.
    pub async fn port_bindings(
        &self,
        port: Uuid,
    ) -> Result<Vec<PortBindingRecord>, NetworkClientError> {
        let path = format!("{PORTS}/{port}/bindings");
        let list = self.one(BINDINGS, path, "a list of port bindings").await?;
        Ok(list.map_or_else(Vec::new, |list: PortBindingList| list.bindings))
    }

    /// PUT /v2.0/ports/{id}/bindings/{host}/activate: the port moves to this host, where it has a binding already. Services
    /// answer with the binding in two forms, so the answer is not read.
    pub async fn activate_binding(&self, port: Uuid, host: &str) -> Result<(), NetworkClientError> {
        let path = format!("{PORTS}/{port}/bindings/{}/activate", encoded(host));
        let call = write(Method::PUT, ACTIVATE, path, None, Repeat::Once);
        responses::require_success(self.ask(call).await?).map(drop)
    }

    /// DELETE /v2.0/ports/{id}/bindings/{host}.
    pub async fn delete_binding(
        &self,
        port: Uuid,
        host: &str,
    ) -> Result<DeleteOutcome, NetworkClientError> {
        let path = format!("{PORTS}/{port}/bindings/{}", encoded(host));
        self.delete(ONE_BINDING, path).await
    }

    pub(super) async fn delete(
        &self,
        route: &'static str,
        path: String,
    ) -> Result<DeleteOutcome, NetworkClientError> {
        let call = AdapterCall::new(Method::DELETE, route, path, None);
        let found = responses::unless_not_found(self.ask(call).await?)?;
        Ok(found.map_or(DeleteOutcome::AlreadyGone, |_| DeleteOutcome::Deleted))
    }
}

/// A change of a port, if it still has this revision number.
fn change(id: Uuid, revision_number: Option<u64>, body: Vec<u8>) -> AdapterCall {
    let revision = revision_number.map(|number| format!("revision_number={number}"));
    let path = format!("{PORTS}/{id}");
    AdapterCall {
        precondition: revision.and_then(|text| text.parse().ok()),
        ..write(Method::PUT, ONE_PORT, path, Some(body), Repeat::Safe)
    }
}

fn encoded(host: &str) -> String {
    berth_model::percent_encoded(host)
}
