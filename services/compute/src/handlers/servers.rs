//! /v2.1/servers: lists, shows, updates and deletes servers.

use axum::extract::State;
use berth_hosts::{ComputeHost, ServerGroupError, ServiceStatus};
use berth_http::fields::{BodyFields, bounded};
use berth_http::{ApiRequest, ApiResponse, Fault, RuleDefault};
use serde_json::{Value, json};
use uuid::Uuid;

use super::flavor_extra_specs;
use super::server_query::{is_all_tenants, parse_list_query};
use crate::microversions::{HOST_STATUS, SERVER_DESCRIPTION, SERVER_FLAVOR, SERVER_GROUPS_SHOWN};
use crate::openapi::schemas::{in_key, object, text, text_or_null};
use crate::paging::{PageQuery, next};
use crate::policies::{admin, member, reader};
use crate::server_state::{ActionRefused, VmState};
use crate::server_status::{AgentPolling, ServerWithStatus};
use crate::servers::{ServerError, ServerFilters, ServerPage, ServerRecord, ServerUpdate, Zones};
use crate::state::{ComputeApi, ComputeOperation};
use crate::store;
use crate::views::server::{ServerVisibility, Within, document, summary};

/// List the servers of all projects, with few fields.
const INDEX_ALL: RuleDefault = admin("os_compute_api:servers:index:get_all_tenants");
/// List the servers of all projects, with all fields.
const DETAIL_ALL: RuleDefault = admin("os_compute_api:servers:detail:get_all_tenants");
/// Show the status of a server's host.
const SHOW_HOST_STATUS: RuleDefault = admin("os_compute_api:servers:show:host_status");
/// Show the host of a server and its name there.
const SHOW_ATTRIBUTES: RuleDefault = admin("os_compute_api:os-extended-server-attributes");

/// The query keys of lists that have an effect here.
const LIST: [&str; 21] = [
    "limit",
    "marker",
    "sort_key",
    "sort_dir",
    "all_tenants",
    "name",
    "status",
    "flavor",
    "image",
    "changes-since",
    "changes-before",
    "tags",
    "not-tags",
    "locked",
    "deleted",
    "uuid",
    "host",
    "project_id",
    "user_id",
    "vm_state",
    "power_state",
];

pub(super) fn operations() -> Vec<ComputeOperation> {
    vec![
        ComputeOperation::get("/v2.1/servers", list)
            .rule(reader("os_compute_api:servers:index"))
            .other_rules(&[INDEX_ALL])
            .id("listServers")
            .summary("Lists servers, with few fields")
            .query(&LIST)
            .responds("servers"),
        ComputeOperation::get("/v2.1/servers/detail", detail)
            .rule(reader("os_compute_api:servers:detail"))
            .other_rules(&[DETAIL_ALL, SHOW_HOST_STATUS, SHOW_ATTRIBUTES])
            .id("listServersDetail")
            .summary("Lists servers, with all fields")
            .query(&LIST)
            .responds("servers"),
        ComputeOperation::get("/v2.1/servers/{server}", show)
            .rule(reader("os_compute_api:servers:show"))
            .other_rules(&[SHOW_HOST_STATUS, SHOW_ATTRIBUTES])
            .extension("OS-EXT-AZ", "ExtendedAvailabilityZone")
            .extension("OS-EXT-SRV-ATTR", "ExtendedServerAttributes")
            .extension("OS-EXT-STS", "ExtendedStatus")
            .extension("OS-SRV-USG", "ServerUsage")
            .id("showServer")
            .summary("Shows a server")
            .responds("server"),
        ComputeOperation::put("/v2.1/servers/{server}", update)
            .rule(member("os_compute_api:servers:update"))
            .id("updateServer")
            .summary("Changes the name, the description or other fields of a server")
            .body(|| in_key("server", object(&[], server_fields())))
            .responds("server"),
        ComputeOperation::delete("/v2.1/servers/{server}", delete)
            .rule(member("os_compute_api:servers:delete"))
            .id("deleteServer")
            .summary("Deletes a server")
            .statuses(&[204]),
    ]
}

/// Fields of a server that can also be changed later.
pub(super) fn server_fields() -> [(&'static str, Value); 5] {
    [
        ("name", text(1, 255)),
        ("description", text_or_null(0, 255)),
        ("accessIPv4", json!({"type": "string", "format": "ipv4"})),
        ("accessIPv6", json!({"type": "string", "format": "ipv6"})),
        ("OS-DCF:diskConfig", json!({"enum": ["AUTO", "MANUAL"]})),
    ]
}

/// The maximum length of a description in characters.
pub(super) const DESCRIPTION: usize = 255;

pub(super) fn fault(error: ServerError) -> Fault {
    match error {
        ServerError::NotFound { .. } | ServerError::NoMetadata | ServerError::NoTag { .. } => {
            Fault::not_found(error.to_string())
        }
        ServerError::Request(_) | ServerError::LongName { .. } | ServerError::ManyTags { .. } => {
            Fault::bad_request(error.to_string())
        }
        ServerError::ManyMetadata { .. }
        | ServerError::Quota(_)
        | ServerError::ManyGroupMembers => Fault::forbidden(error.to_string()),
        ServerError::SmallQuota { .. } | ServerError::LargeQuota { .. } => {
            Fault::bad_request(error.to_string())
        }
        ServerError::UnknownResources | ServerError::QuotaRaced => {
            Fault::unavailable(error.to_string())
        }
        ServerError::Locked { .. } | ServerError::Busy { .. } => Fault::conflict(error.to_string()),
        ServerError::Conductor(error) => {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "querying the conductor failed"
            );
            Fault::unavailable("The conductor is unavailable; try again.")
        }
        ServerError::Table(error) => store::fault(&error),
    }
}

/// The UUID in the path. Anything else is 404.
pub(super) fn server_uuid(call: &ApiRequest) -> Result<Uuid, Fault> {
    let text = call.path("server")?;
    Uuid::try_parse(text)
        .ok()
        .filter(|_| text.len() == 36)
        .ok_or_else(|| {
            let text = berth_http::fields::bounded(text);
            Fault::not_found(format!("Instance {text} could not be found."))
        })
}

impl ComputeApi {
    /// The server in the path, if the caller may do this with it. Servers of other projects are 404.
    pub(super) async fn server(&self, call: &ApiRequest) -> Result<ServerRecord, Fault> {
        let server = self.visible_server(call).await?;
        self.allow_in(call, &server.project_id)?;
        Ok(server)
    }

    /// Like `server`, by another rule than the operation's: that of one action.
    pub(super) async fn server_for(
        &self,
        call: &ApiRequest,
        rule: RuleDefault,
    ) -> Result<ServerRecord, Fault> {
        let server = self.visible_server(call).await?;
        self.allow_rule(call, rule, Some(&server.project_id))?;
        Ok(server)
    }

    /// Like `server_for`, with the computed status.
    pub(super) async fn server_with_status_for(
        &self,
        call: &ApiRequest,
        rule: RuleDefault,
    ) -> Result<ServerWithStatus, Fault> {
        let uuid = self.server_for(call, rule).await?.uuid;
        self.compute.server_with_status(uuid).await.map_err(fault)
    }

    /// The server in the path with its current status.
    pub(super) async fn server_now(&self, call: &ApiRequest) -> Result<ServerWithStatus, Fault> {
        let uuid = self.server(call).await?.uuid;
        self.compute.server_with_status(uuid).await.map_err(fault)
    }

    /// The server in the path, if its metadata and tags may be changed: not while it is built, and not
    /// after its build failed.
    pub(super) async fn editable_server(
        &self,
        call: &ApiRequest,
        does: &'static str,
    ) -> Result<ServerRecord, Fault> {
        let uuid = self.server(call).await?.uuid;
        let known = self.compute.server_with_status(uuid).await;
        let ServerWithStatus { server, state, .. } = known.map_err(fault)?;
        let vm_state = state.vm_state;
        if matches!(
            vm_state,
            VmState::Active | VmState::Paused | VmState::Stopped
        ) {
            return Ok(server);
        }
        let refused = ActionRefused::VmState {
            action: does,
            instance: server.uuid.to_string(),
            vm_state,
        };
        Err(Fault::conflict(refused.to_string()))
    }

    /// The server in the path, if it is of the caller's project or the caller is an operator.
    async fn visible_server(&self, call: &ApiRequest) -> Result<ServerRecord, Fault> {
        let uuid = server_uuid(call)?;
        let server = self.compute.server(uuid).await.map_err(fault)?;
        let own = call.caller.project_id() == Some(server.project_id.as_str());
        if !own && !self.is_admin(call) {
            return Err(fault(ServerError::NotFound { uuid }));
        }
        Ok(server)
    }

    async fn zones(&self) -> Result<Zones, Fault> {
        let zones = self.compute.inner.hosts.availability_zones().await;
        let zones = zones.map_err(super::hosts::aggregate_fault)?.into_iter();
        Ok(zones
            .flat_map(|(zone, hosts)| hosts.into_iter().map(move |host| (host, zone.clone())))
            .collect())
    }

    /// What the caller may see of servers.
    pub(super) async fn visibility(&self, call: &ApiRequest) -> Result<ServerVisibility, Fault> {
        let may = |rule| self.allow_rule(call, rule, None).is_ok();
        let hosts = &self.compute.inner.hosts;
        let host_status = call.version.has(HOST_STATUS) && may(SHOW_HOST_STATUS);
        let known = match host_status {
            true => hosts.hosts().await.map_err(super::hosts::host_fault)?,
            false => Vec::new(),
        };
        let down = self.down();
        Ok(ServerVisibility {
            attributes: may(SHOW_ATTRIBUTES),
            host_status,
            extra_specs: call.version.has(SERVER_FLAVOR) && may(flavor_extra_specs::INDEX),
            details: self.is_admin(call),
            zones: self.zones().await?,
            hosts: known
                .into_iter()
                .map(|host| (host.host.clone(), host_status_of(&host, down)))
                .collect(),
        })
    }

    /// The response document of one server.
    pub(super) async fn shown(
        &self,
        call: &ApiRequest,
        uuid: Uuid,
        within: Within,
    ) -> Result<Value, Fault> {
        let mut known = self.compute.server_with_status(uuid).await.map_err(fault)?;
        if call.version.has(SERVER_GROUPS_SHOWN)
            && let Some(group) = known.server.server_group
        {
            match self.compute.inner.hosts.group(group).await {
                // Groups may be deleted before their servers.
                Err(ServerGroupError::NotFound { .. }) => known.server.server_group = None,
                found => {
                    found.map_err(super::hosts::group_fault)?;
                }
            }
        }
        self.add_security_groups(call, std::slice::from_mut(&mut known))
            .await;
        let visibility = self.visibility(call).await?;
        Ok(json!({"server": document(call, &known, &visibility, within)}))
    }
}

fn host_status_of(host: &ComputeHost, down: f64) -> &'static str {
    match host {
        ComputeHost {
            forced_down: true, ..
        } => "DOWN",
        ComputeHost {
            status: ServiceStatus::Disabled { .. },
            ..
        } => "MAINTENANCE",
        host if super::hosts::is_up(host, down) => "UP",
        _ => "UNKNOWN",
    }
}

/// The maximum number of rows per query.
const PART: usize = 500;

/// The minimum number of rows per query, because filters may drop most of them.
const LEAST_PART: usize = 50;

async fn list_servers(
    api: &ComputeApi,
    call: &ApiRequest,
    of_all_projects: RuleDefault,
    polling: AgentPolling,
) -> Result<(Vec<ServerWithStatus>, bool), Fault> {
    api.allow(call)?;
    let (filters, sorting) = parse_list_query(api, call)?;
    let page = PageQuery::of(call)?;
    let all = is_all_tenants(call)?;
    if all {
        api.allow_rule(call, of_all_projects, None)?;
    }
    let project = match call.caller.project_id() {
        _ if all => None,
        Some(project) => Some(project),
        None => return Ok((Vec::new(), false)),
    };
    if filters.nothing {
        return Ok((Vec::new(), false));
    }
    let zones = match filters.zone.is_some() || sorting.needs_zones() {
        true => api.zones().await?,
        false => Zones::new(),
    };
    if sorting.is_row_order() && !filters.need_agents() {
        return page_in_row_order(api, project, (&filters, &zones), &page, polling).await;
    }
    let servers = api.compute.servers(project).await.map_err(fault)?;
    let first = match filters.need_agents() || sorting.needs_agents() {
        true => AgentPolling::QueryAgents,
        false => AgentPolling::UseLastReport,
    };
    let mut known = api
        .compute
        .with_status(servers, first)
        .await
        .map_err(fault)?;
    sorting.sort(&mut known, &zones);
    if let Some(marker) = &page.marker {
        // The marker need not match the filters: the server may have changed since the last page.
        let uuid = Uuid::try_parse(marker).map_err(|_| marker_not_found(marker))?;
        let at = known.iter().position(|known| known.server.uuid == uuid);
        known.drain(..=at.ok_or_else(|| marker_not_found(marker))?);
    }
    known.retain(|known| filters.matches(known, &zones));
    known.truncate(page.limit);
    let full = page.limit > 0 && known.len() == page.limit;
    if polling == AgentPolling::UseLastReport || first == AgentPolling::QueryAgents {
        return Ok((known, full));
    }
    let servers = known.into_iter().map(|known| known.server).collect();
    let known = api
        .compute
        .with_status(servers, polling)
        .await
        .map_err(fault)?;
    Ok((known, full))
}

/// A page in row order: reads only as many rows as needed.
async fn page_in_row_order(
    api: &ComputeApi,
    project: Option<&str>,
    (filters, zones): (&ServerFilters, &Zones),
    page: &PageQuery,
    polling: AgentPolling,
) -> Result<(Vec<ServerWithStatus>, bool), Fault> {
    let compute = &api.compute;
    let mut behind = None;
    if let Some(marker) = &page.marker {
        let uuid = Uuid::try_parse(marker).map_err(|_| marker_not_found(marker))?;
        let server = match compute.server(uuid).await {
            Err(ServerError::NotFound { .. }) => return Err(marker_not_found(marker)),
            server => server.map_err(fault)?,
        };
        if project.is_some_and(|project| server.project_id != project) {
            return Err(marker_not_found(marker));
        }
        behind = Some((server.created_at, server.id));
    }
    let mut found: Vec<ServerWithStatus> = Vec::new();
    while found.len() < page.limit {
        let part = ServerPage {
            project,
            reservation: filters.reservation_id.as_deref(),
            behind,
            limit: page.limit.clamp(LEAST_PART, PART),
        };
        let servers = compute.server_page(part).await.map_err(fault)?;
        let is_full_part = servers.len() == part.limit;
        behind = servers.last().map(|last| (last.created_at, last.id));
        let known = compute
            .with_status(servers, AgentPolling::UseLastReport)
            .await;
        let known = known.map_err(fault)?.into_iter();
        found.extend(known.filter(|known| filters.matches(known, zones)));
        if !is_full_part {
            break;
        }
    }
    found.truncate(page.limit);
    let full = page.limit > 0 && found.len() == page.limit;
    if polling == AgentPolling::UseLastReport {
        return Ok((found, full));
    }
    let servers = found.into_iter().map(|known| known.server).collect();
    let known = compute.with_status(servers, polling).await.map_err(fault)?;
    Ok((known, full))
}

fn marker_not_found(marker: &str) -> Fault {
    Fault::bad_request(format!("marker [{}] not found", bounded(marker)))
}

fn page(
    call: &ApiRequest,
    path: &str,
    (known, full): &(Vec<ServerWithStatus>, bool),
    view: impl Fn(&ServerWithStatus) -> Value,
) -> Result<ApiResponse, Fault> {
    let shown: Vec<Value> = known.iter().map(view).collect();
    let mut body = json!({"servers": shown});
    if let Some(last) = known.last().filter(|_| *full) {
        body["servers_links"] = next(call, path, &last.server.uuid.to_string());
    }
    ApiResponse::ok(&body)
}

async fn list(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let found = list_servers(&api, &call, INDEX_ALL, AgentPolling::UseLastReport).await?;
    page(&call, "servers", &found, |known| summary(&call, known))
}

async fn detail(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let mut found = list_servers(&api, &call, DETAIL_ALL, AgentPolling::QueryAgents).await?;
    api.add_security_groups(&call, &mut found.0).await;
    let visibility = api.visibility(&call).await?;
    let view = |known: &ServerWithStatus| document(&call, known, &visibility, Within::List);
    page(&call, "servers/detail", &found, view)
}

async fn show(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let server = api.server(&call).await?;
    ApiResponse::ok(&api.shown(&call, server.uuid, Within::Show).await?)
}

async fn update(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let server = api.server(&call).await?;
    let body: Value = call.typed()?;
    let mut fields = BodyFields::of_body(&body, "server")?;
    let mut update = ServerUpdate {
        name: fields.name("name")?.map(str::to_owned),
        disk_config: super::server_create::disk_config(&mut fields)?,
        access_ip_v4: super::server_create::access_ip(&mut fields, "accessIPv4")?,
        access_ip_v6: super::server_create::access_ip(&mut fields, "accessIPv6")?,
        ..ServerUpdate::default()
    };
    if call.version.has(SERVER_DESCRIPTION) {
        let given = fields.printable_or_null("description", DESCRIPTION)?;
        let is_given = fields.value("description").is_some();
        update.description = is_given.then(|| given.map(str::to_owned));
    }
    fields.end()?;
    let updated = api.compute.update_server(server.uuid, update).await;
    updated.map_err(fault)?;
    ApiResponse::ok(&api.shown(&call, server.uuid, Within::Update).await?)
}

async fn delete(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let server = api.server(&call).await?;
    api.delete_server(&call, &server).await?;
    Ok(ApiResponse::no_content())
}

impl ComputeApi {
    pub(super) async fn delete_server(
        &self,
        call: &ApiRequest,
        server: &ServerRecord,
    ) -> Result<(), Fault> {
        self.check_unlocked(call, server)?;
        let (user, request) = (&call.caller.user_id, call.request_id.as_str());
        let begun = self.compute.begin_delete(server.uuid, user, request).await;
        begun.map_err(fault)?;
        // If this fails, the reconciler does it later.
        self.compute.continue_work(server.uuid).await.ok();
        Ok(())
    }

    /// Refuses a locked server, unless the caller is an operator.
    pub(super) fn check_unlocked(
        &self,
        call: &ApiRequest,
        server: &ServerRecord,
    ) -> Result<(), Fault> {
        if server.lock.is_none() || self.is_admin(call) {
            return Ok(());
        }
        let uuid = server.uuid;
        Err(fault(ServerError::Locked { uuid }))
    }
}
