//! /v2.1/servers/{server}/os-security-groups, and the actions that add a group to a server's ports or remove it.

use std::collections::BTreeSet;

use axum::extract::State;
use berth_client::{NetworkClient, NetworkClientError};
use berth_http::fields::{BodyFields, invalid_field};
use berth_http::{ApiRequest, ApiResponse, Fault, RuleDefault};
use berth_networks::{
    NetworkChoiceError, SecurityGroupChange, SecurityGroupError, change_security_group,
    groups_of_ports, peer_groups, ports_of_server,
};
use http::StatusCode;
use serde_json::{Value, json};
use tokio::time::timeout;
use uuid::Uuid;

use super::server_create::network_fault;
use crate::policies::{member, reader};
use crate::server_status::ServerWithStatus;
use crate::state::{ComputeApi, ComputeOperation};
use crate::views::security_group::{group_documents, group_names};

pub(super) const ADD: RuleDefault = member("os_compute_api:os-security-groups:add");
pub(super) const REMOVE: RuleDefault = member("os_compute_api:os-security-groups:remove");

pub(super) fn operations() -> Vec<ComputeOperation> {
    vec![
        ComputeOperation::get("/v2.1/servers/{server}/os-security-groups", security_groups)
            .rule(reader("os_compute_api:os-security-groups:list"))
            .extension("os-security-groups", "SecurityGroups")
            .id("listServerSecurityGroups")
            .summary("Lists the security groups of a server")
            .responds("security_groups"),
    ]
}

async fn security_groups(
    State(api): State<ComputeApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    let server = api.server(&call).await?;
    let Some(service) = api.compute.inner.conductor.networks() else {
        return ApiResponse::ok(&json!({"security_groups": []}));
    };
    let viewer = api.viewer(&call);
    let shown: Result<Vec<Value>, NetworkClientError> = async {
        let ports = ports_of_server(service, server.port_owner()).await?;
        let groups = groups_of_ports(service, &ports, viewer).await?;
        let peers = peer_groups(service, &groups, viewer).await?;
        Ok(group_documents(&ports, &groups, &peers))
    }
    .await;
    let shown = shown.map_err(|error| network_fault(error.into()))?;
    ApiResponse::ok(&json!({ "security_groups": shown }))
}

/// The actions `addSecurityGroup` and `removeSecurityGroup`.
pub(super) async fn act(
    api: &ComputeApi,
    call: &ApiRequest,
    (word, value): (&str, &Value),
    change: SecurityGroupChange,
) -> Result<ApiResponse, Fault> {
    let rule = match change {
        SecurityGroupChange::Add => ADD,
        SecurityGroupChange::Remove => REMOVE,
    };
    let server = api.server_for(call, rule).await?;
    let mut fields = BodyFields::of(word, value)?;
    let name = fields.text("name", 1..=255)?;
    let name = fields.required("name", name)?;
    fields.end()?;
    if name.trim().is_empty() {
        let reason = "it is the name or UUID of a security group";
        return Err(invalid_field("name", &json!(name), reason));
    }
    let Some(service) = api.compute.inner.conductor.networks() else {
        return Err(Fault::bad_request(
            "There is no network service, so servers have no security groups.",
        ));
    };
    let changed = change_security_group(service, server.port_owner(), name, change).await;
    changed.map_err(group_fault)?;
    Ok(ApiResponse::empty(StatusCode::ACCEPTED))
}

fn group_fault(error: SecurityGroupError) -> Fault {
    let sentence = error.to_string();
    match error {
        SecurityGroupError::NoPorts(_)
        | SecurityGroupError::NotOfServer { .. }
        | SecurityGroupError::Choice(NetworkChoiceError::NoSecurityGroup(_)) => {
            Fault::not_found(sentence)
        }
        SecurityGroupError::Busy(_) => Fault::conflict(sentence),
        SecurityGroupError::Choice(NetworkChoiceError::Service(error)) => {
            match error.refusal().map(|refusal| refusal.status) {
                Some(StatusCode::BAD_REQUEST) => Fault::bad_request(error.what()),
                Some(StatusCode::CONFLICT) => Fault::conflict(error.what()),
                _ => network_fault(error.into()),
            }
        }
        SecurityGroupError::Choice(error) => network_fault(error),
    }
}

impl ComputeApi {
    /// The project whose security groups a caller sees; `None` for operators, who see all.
    fn viewer<'a>(&self, call: &'a ApiRequest) -> Option<&'a str> {
        match self.is_admin(call) {
            true => None,
            false => Some(call.caller.project_id().unwrap_or_default()),
        }
    }

    /// Adds the names of their security groups to servers. Without an answer of the network service they have none.
    pub(super) async fn add_security_groups(
        &self,
        call: &ApiRequest,
        servers: &mut [ServerWithStatus],
    ) {
        let Some(service) = self.compute.inner.conductor.networks() else {
            return;
        };
        let viewer = self.viewer(call);
        let wait = self.compute.inner.options.agent_wait;
        let Ok(added) = timeout(wait, add_names(service, servers, viewer)).await else {
            tracing::warn!(
                "timed out: the network service did not report the security groups of servers, so they are not shown"
            );
            return;
        };
        if let Err(error) = added {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the security groups of servers are unknown, so they are not shown"
            );
        }
    }
}

async fn add_names(
    service: &NetworkClient,
    servers: &mut [ServerWithStatus],
    viewer: Option<&str>,
) -> Result<(), NetworkClientError> {
    let with_ports = servers.iter().filter(|known| !known.vifs.is_empty());
    let ids: BTreeSet<Uuid> = with_ports.map(|known| known.server.uuid).collect();
    let ports = service.ports_of_devices(&ids).await?;
    let groups = groups_of_ports(service, &ports, viewer).await?;
    for known in servers {
        known.security_groups = group_names(&known.server, &ports, &groups);
    }
    Ok(())
}
