//! /v2.1/servers/{server}/os-interface: the ports of a server.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use axum::extract::State;
use berth_http::fields::{BodyFields, bounded, invalid_field};
use berth_http::{ApiRequest, ApiResponse, Fault};
use berth_model::ConsumerUuid;
use berth_networks::{
    NetworkChoiceError, NetworkWish, PortRefusal, choose_networks, function_kind, ports_of_server,
};
use berth_wire::conductor::{FunctionVnicType, RequestedNetwork};
use berth_wire::neutron::PortRecord;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::server_create::network_fault;
use super::servers::fault;
use crate::instance_actions::ActionOutcome;
use crate::interface_changes::InterfaceChange;
use crate::microversions::{ATTACH_TAGS, ATTACHMENT_TAGS};
use crate::openapi::schemas::{object, text, uuid};
use crate::policies::{member, reader};
use crate::server_state::Action;
use crate::server_status::ServerWithStatus;
use crate::servers::ServerRecord;
use crate::state::{ComputeApi, ComputeOperation};

/// The maximum length of a tag.
const MOST_TAG: usize = 60;
/// How long a request waits for the guest to have its new port. Afterwards the port is attached in the background.
const ATTACH_WAIT: Duration = Duration::from_mins(5);
const ATTACH_POLL: Duration = Duration::from_millis(100);

pub(super) fn operations() -> Vec<ComputeOperation> {
    vec![
        ComputeOperation::get("/v2.1/servers/{server}/os-interface", interfaces)
            .rule(reader("os_compute_api:os-attach-interfaces:list"))
            .extension("os-attach-interfaces", "AttachInterfaces")
            .id("listInterfaces")
            .summary("Lists the ports of a server")
            .responds("interfaceAttachments"),
        ComputeOperation::get("/v2.1/servers/{server}/os-interface/{port}", interface)
            .rule(reader("os_compute_api:os-attach-interfaces:show"))
            .id("showInterface")
            .summary("Shows a port of a server"),
        ComputeOperation::post("/v2.1/servers/{server}/os-interface", attach)
            .rule(member("os_compute_api:os-attach-interfaces:create"))
            .id("attachInterface")
            .summary("Attaches a port to a server, or a new port in a network")
            .body(attachment_schema)
            .statuses(&[200]),
        ComputeOperation::delete("/v2.1/servers/{server}/os-interface/{port}", detach)
            .rule(member("os_compute_api:os-attach-interfaces:delete"))
            .id("detachInterface")
            .summary("Detaches a port from a server")
            .statuses(&[202]),
    ]
}

fn attachment_schema() -> Value {
    let address = object(&["ip_address"], [("ip_address", text(1, 64))]);
    let attachment = object(
        &[],
        [
            ("net_id", uuid()),
            ("port_id", uuid()),
            (
                "fixed_ips",
                json!({"type": "array", "minItems": 1, "maxItems": 1, "items": address}),
            ),
            ("tag", text(1, MOST_TAG)),
        ],
    );
    object(
        &["interfaceAttachment"],
        [("interfaceAttachment", attachment)],
    )
}

async fn interfaces(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let server = api.server(&call).await?;
    let ports = api.ports_of(&server).await?.into_iter();
    let shown: Vec<Value> = ports.map(|port| attachment(&call, &port)).collect();
    ApiResponse::ok(&json!({ "interfaceAttachments": shown }))
}

async fn interface(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let server = api.server(&call).await?;
    let wanted = call.path("port")?;
    let ports = api.ports_of(&server).await?;
    match ports.iter().find(|port| port.port.id.to_string() == wanted) {
        Some(port) => ApiResponse::ok(&json!({"interfaceAttachment": attachment(&call, port)})),
        None => Err(Fault::not_found(format!(
            "Instance {} does not have a port with id {}",
            server.uuid,
            bounded(wanted)
        ))),
    }
}

/// A port of a server.
struct AttachedPort {
    port: PortRecord,
    tag: Option<String>,
}

impl AttachedPort {
    fn id(&self) -> Uuid {
        self.port.id
    }
}

/// A port as an attached interface.
fn attachment(call: &ApiRequest, attached: &AttachedPort) -> Value {
    let port = &attached.port;
    let fixed_ips = port.fixed_ips.iter();
    let fixed_ips =
        fixed_ips.map(|ip| json!({"subnet_id": ip.subnet_id, "ip_address": ip.ip_address}));
    let mut shown = json!({
        "net_id": port.network_id,
        "port_id": port.id,
        "mac_addr": port.mac_address,
        "port_state": port.status,
        "fixed_ips": fixed_ips.collect::<Vec<_>>(),
    });
    if call.version.has(ATTACHMENT_TAGS) {
        shown["tag"] = json!(attached.tag);
    }
    shown
}

impl ComputeApi {
    /// The ports that the network service has for a server; none without such a service.
    async fn ports_of(&self, server: &ServerRecord) -> Result<Vec<AttachedPort>, Fault> {
        let conductor = &self.compute.inner.conductor;
        let Some(service) = conductor.networks() else {
            return Ok(Vec::new());
        };
        let ports = ports_of_server(service, server.port_owner()).await.map_err(|error| {
            tracing::warn!(error = &error as &dyn std::error::Error, server = %server.uuid, "the ports of a server are unknown");
            Fault::unavailable("The network service did not answer as expected.")
        })?;
        // Without the conductor's record there are no tags.
        let record = conductor.show(ConsumerUuid::from(server.uuid)).await.ok();
        let vifs = record.as_ref().map_or(&[][..], |record| record.vifs());
        let tag_of = |port: Uuid| {
            let vif = vifs.iter().find(|vif| vif.id == port)?;
            vif.tag().map(str::to_owned)
        };
        let attached = ports.into_iter().map(|port| AttachedPort {
            tag: tag_of(port.id),
            port,
        });
        Ok(attached.collect())
    }
}

/// The port that a request wants.
fn wanted(call: &ApiRequest) -> Result<RequestedNetwork, Fault> {
    let body: Value = call.typed()?;
    let mut fields = BodyFields::of_body(&body, "interfaceAttachment")?;
    let (uuid, port) = (
        fields.uuid_or_null("net_id")?,
        fields.uuid_or_null("port_id")?,
    );
    let fixed_ip = match fields.value("fixed_ips") {
        None => None,
        Some(value) => Some(fixed_ip(value)?),
    };
    let tag = match call.version.has(ATTACH_TAGS) {
        true => fields.text("tag", 1..=MOST_TAG)?.map(str::to_owned),
        false => None,
    };
    fields.end()?;
    match (&uuid, &port, &fixed_ip) {
        (Some(_), Some(_), _) => Err(Fault::bad_request(
            "Must not input both network_id and port_id",
        )),
        (None, _, Some(_)) => Err(Fault::bad_request(
            "Must input network_id when request IP address",
        )),
        _ => Ok(RequestedNetwork {
            uuid,
            port,
            fixed_ip,
            tag,
            ..RequestedNetwork::default()
        }),
    }
}

/// The only address of `fixed_ips`.
fn fixed_ip(value: &Value) -> Result<String, Fault> {
    let refuse = || {
        let reason = "it is a list of one object with ip_address, an IP address";
        invalid_field("fixed_ips", value, reason)
    };
    let [only] = value.as_array().map_or(&[][..], Vec::as_slice) else {
        return Err(refuse());
    };
    let mut fields = BodyFields::of("fixed_ips", only)?;
    let address = fields.text("ip_address", 1..=64)?;
    let address = fields.required("ip_address", address)?.to_owned();
    fields.end()?;
    match address.parse::<IpAddr>() {
        Ok(_) => Ok(address),
        Err(_) => Err(refuse()),
    }
}

async fn attach(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let known = api.server_now(&call).await?;
    let server = &known.server;
    let wanted = wanted(&call)?;
    let Some(service) = api.compute.inner.conductor.networks() else {
        return Err(Fault::bad_request(
            "There is no network service, so servers have no ports.",
        ));
    };
    let wish = match wanted {
        RequestedNetwork {
            uuid: None,
            port: None,
            ..
        } => NetworkWish::Unspecified,
        _ => NetworkWish::Named(vec![wanted.clone()]),
    };
    let chosen = choose_networks(service, &wish, &server.project_id, false).await;
    let chosen = chosen.map_err(attachment_fault)?.pop();
    let chosen = chosen.ok_or_else(|| {
        Fault::bad_request("No network was given, and the project has no network.")
    })?;
    let given = chosen.port;
    if let (Some(port), FunctionVnicType::DirectPhysical) = (given, chosen.vnic_type) {
        return Err(attachment_fault(PortRefusal::Physical(port).into()));
    }
    let before: BTreeSet<Uuid> = api
        .ports_of(server)
        .await?
        .iter()
        .map(AttachedPort::id)
        .collect();
    if let Some(port) = given.filter(|port| before.contains(port)) {
        return Err(attachment_fault(PortRefusal::InUse(port).into()));
    }
    let tag = wanted.tag.or(chosen.tag);
    let change = InterfaceChange::Attach(RequestedNetwork { tag, ..chosen });
    api.start_interface_change(&call, &known, &change).await?;
    let failed = || {
        let uuid = server.uuid;
        Fault::internal(format!("Failed to attach network adapter device to {uuid}"))
    };
    match api.attached(&call, server).await? {
        Some(ActionOutcome::Error(_)) => return Err(failed()),
        Some(ActionOutcome::Success) | None => {}
    }
    let ports = api.ports_of(server).await?;
    let is_new = |port: &&AttachedPort| match given {
        Some(given) => port.id() == given,
        None => !before.contains(&port.id()),
    };
    let port = ports.iter().find(is_new).ok_or_else(failed)?;
    ApiResponse::ok(&json!({"interfaceAttachment": attachment(&call, port)}))
}

async fn detach(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let known = api.server_now(&call).await?;
    let port = call.path("port")?;
    let ports = api.ports_of(&known.server).await?;
    let found = ports.iter().find(|one| one.port.id.to_string() == port);
    let found = found.ok_or_else(|| {
        let port = bounded(port);
        Fault::not_found(format!("Port id {port} could not be found."))
    })?;
    if function_kind(&found.port) == Some(FunctionVnicType::DirectPhysical) {
        return Err(attachment_fault(
            PortRefusal::Physical(found.port.id).into(),
        ));
    }
    let change = InterfaceChange::Detach(found.port.id);
    api.start_interface_change(&call, &known, &change).await?;
    Ok(ApiResponse::empty(StatusCode::ACCEPTED))
}

/// As Nova answers: what does not exist is not found, where the creation of a server has a bad request.
fn attachment_fault(error: NetworkChoiceError) -> Fault {
    match error {
        NetworkChoiceError::Port(PortRefusal::NotFound(_) | PortRefusal::NoNetwork(_)) => {
            Fault::not_found(error.to_string())
        }
        NetworkChoiceError::Ambiguous => Fault::bad_request(error.to_string()),
        error => network_fault(error),
    }
}

impl ComputeApi {
    /// Starts a change of a server's interfaces, if the server's state and lock allow it.
    async fn start_interface_change(
        &self,
        call: &ApiRequest,
        known: &ServerWithStatus,
        change: &InterfaceChange,
    ) -> Result<(), Fault> {
        self.check_action(call, known, change.action())?;
        let by = (call.caller.user_id.as_str(), call.request_id.as_str());
        let server = known.server.uuid;
        let started = self.compute.start_interface_change(server, change, by);
        started.await.map_err(fault)
    }

    /// Waits for the end of an attachment; `None` if it takes longer.
    async fn attached(
        &self,
        call: &ApiRequest,
        server: &ServerRecord,
    ) -> Result<Option<ActionOutcome>, Fault> {
        let end = Instant::now() + ATTACH_WAIT;
        while Instant::now() < end {
            let attach = Action::AttachInterface;
            let outcome =
                self.compute
                    .action_outcome(server.uuid, call.request_id.as_str(), attach);
            if let Some(outcome) = outcome.await.map_err(fault)? {
                return Ok(Some(outcome));
            }
            sleep(ATTACH_POLL).await;
        }
        Ok(None)
    }
}
