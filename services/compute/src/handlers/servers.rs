//! /v2.1/servers: which there are, what each is, its name, and its end.

use axum::extract::State;
use berth_hosts::{ComputeHost, ServerGroupError, ServiceStatus};
use berth_http::{Answer, Call, Fault};
use serde_json::{Value, json};
use uuid::Uuid;

use super::server_query::{asked, is_all_tenants};
use crate::courses::{KnownServer, Look};
use crate::fields::{Fields, bounded};
use crate::microversions::{HOST_STATUS, SERVER_DESCRIPTION, SERVER_FLAVOR, SERVER_GROUPS_SHOWN};
use crate::paging::{Page, next};
use crate::policies;
use crate::router::Api;
use crate::server_state::{ActionRefused, VmState};
use crate::servers::{Filters, Part, Server, ServerError, ServerUpdate, Zones};
use crate::store;
use crate::views::server::{Sight, Within, brief, whole};

/// Characters of a description, at most.
pub(super) const DESCRIPTION: usize = 255;

pub(super) fn fault(error: ServerError) -> Fault {
    match error {
        ServerError::NotFound { .. } | ServerError::NoMetadata | ServerError::NoTag { .. } => {
            Fault::not_found(error.to_string())
        }
        ServerError::Request(_) | ServerError::LongName { .. } | ServerError::ManyTags { .. } => {
            Fault::bad_request(error.to_string())
        }
        ServerError::ManyMetadata => Fault::forbidden(error.to_string()),
        ServerError::Locked { .. } | ServerError::Busy { .. } => Fault::conflict(error.to_string()),
        ServerError::Conductor(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "conductor");
            Fault::unavailable("The conductor cannot be asked now; try again.")
        }
        ServerError::Table(error) => store::fault(&error),
    }
}

/// The UUID of a path; what is none names no server.
pub(super) fn named(call: &Call) -> Result<Uuid, Fault> {
    let text = call.path("server")?;
    Uuid::try_parse(text)
        .ok()
        .filter(|_| text.len() == 36)
        .ok_or_else(|| {
            let text = crate::fields::bounded(text);
            Fault::not_found(format!("Instance {text} could not be found."))
        })
}

impl Api {
    /// The server of a path, where the caller may do this with it; another project's is none.
    pub(super) async fn server(&self, call: &Call, rule: &'static str) -> Result<Server, Fault> {
        let uuid = named(call)?;
        let server = self.compute.server(uuid).await.map_err(fault)?;
        self.may(call, &server, rule)?;
        Ok(server)
    }

    /// The same with all that is known of it.
    pub(super) async fn known_server(
        &self,
        call: &Call,
        rule: &'static str,
    ) -> Result<KnownServer, Fault> {
        let server = self.server(call, rule).await?;
        self.compute.known_server(server.uuid).await.map_err(fault)
    }

    /// The server of a path, where what its users say of it may be changed: none that is built, or that failed.
    pub(super) async fn settled(
        &self,
        call: &Call,
        rule: &'static str,
        does: &'static str,
    ) -> Result<Server, Fault> {
        let KnownServer { server, state, .. } = self.known_server(call, rule).await?;
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

    fn may(&self, call: &Call, server: &Server, rule: &'static str) -> Result<(), Fault> {
        let own = call.caller.project_id() == Some(server.project_id.as_str());
        if !own && !self.is_admin(call) {
            let uuid = server.uuid;
            return Err(fault(ServerError::NotFound { uuid }));
        }
        self.allow_in(call, rule, &server.project_id)
    }

    /// The availability zone of each host.
    async fn zones(&self) -> Result<Zones, Fault> {
        let zones = self.compute.inner.hosts.availability_zones().await;
        let zones = zones.map_err(super::hosts::aggregate_fault)?.into_iter();
        Ok(zones
            .flat_map(|(zone, hosts)| hosts.into_iter().map(move |host| (host, zone.clone())))
            .collect())
    }

    /// What the caller sees of servers.
    pub(super) async fn sight(&self, call: &Call) -> Result<Sight, Fault> {
        let may = |rule| self.allow(call, rule).is_ok();
        let hosts = &self.compute.inner.hosts;
        let host_status = call.version.has(HOST_STATUS) && may(policies::SERVER_HOST_STATUS);
        let known = match host_status {
            true => hosts.hosts().await.map_err(super::hosts::host_fault)?,
            false => Vec::new(),
        };
        let down = self.down();
        Ok(Sight {
            attributes: may(policies::SERVER_ATTRIBUTES),
            host_status,
            extra_specs: call.version.has(SERVER_FLAVOR) && may(policies::EXTRA_SPECS_INDEX),
            details: self.is_admin(call),
            zones: self.zones().await?,
            hosts: known
                .into_iter()
                .map(|host| (host.host.clone(), host_status_of(&host, down)))
                .collect(),
        })
    }

    /// A server by itself, as it is told.
    pub(super) async fn shown(
        &self,
        call: &Call,
        uuid: Uuid,
        within: Within,
    ) -> Result<Value, Fault> {
        let mut known = self.compute.known_server(uuid).await.map_err(fault)?;
        if call.version.has(SERVER_GROUPS_SHOWN)
            && let Some(group) = known.server.server_group
        {
            match self.compute.inner.hosts.group(group).await {
                // A server outlives its group.
                Err(ServerGroupError::NotFound { .. }) => known.server.server_group = None,
                found => {
                    found.map_err(super::hosts::group_fault)?;
                }
            }
        }
        let sight = self.sight(call).await?;
        Ok(json!({"server": whole(call, &known, &sight, within)}))
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

/// So many rows are read at once, at most.
const PART: usize = 500;

/// And at least so many: filters may leave few of them.
const LEAST_PART: usize = 50;

/// The rules of one list.
struct ListRules {
    index: &'static str,
    all: &'static str,
}

async fn listed(
    api: &Api,
    call: &Call,
    rules: &ListRules,
    look: Look,
) -> Result<(Vec<KnownServer>, bool), Fault> {
    api.allow(call, rules.index)?;
    let (filters, sorting) = asked(api, call)?;
    let page = Page::of(call)?;
    let all = is_all_tenants(call)?;
    if all {
        api.allow(call, rules.all)?;
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
    if sorting.is_of_rows() && !filters.need_agents() {
        return of_rows(api, project, (&filters, &zones), &page, look).await;
    }
    let servers = api.compute.servers(project).await.map_err(fault)?;
    let first = match filters.need_agents() || sorting.needs_agents() {
        true => Look::Agents,
        false => Look::Conductor,
    };
    let mut known = api.compute.known(servers, first).await.map_err(fault)?;
    sorting.sort(&mut known, &zones);
    if let Some(marker) = &page.marker {
        // It may be none of these any more: what it was asked for with may have changed since.
        let uuid = Uuid::try_parse(marker).map_err(|_| no_marker(marker))?;
        let at = known.iter().position(|known| known.server.uuid == uuid);
        known.drain(..=at.ok_or_else(|| no_marker(marker))?);
    }
    known.retain(|known| filters.pass(known, &zones));
    known.truncate(page.limit);
    let full = page.limit > 0 && known.len() == page.limit;
    if look == Look::Conductor || first == Look::Agents {
        return Ok((known, full));
    }
    let servers = known.into_iter().map(|known| known.server).collect();
    let known = api.compute.known(servers, look).await.map_err(fault)?;
    Ok((known, full))
}

/// A page in the order of the rows, of which no more are read than it needs.
async fn of_rows(
    api: &Api,
    project: Option<&str>,
    (filters, zones): (&Filters, &Zones),
    page: &Page,
    look: Look,
) -> Result<(Vec<KnownServer>, bool), Fault> {
    let compute = &api.compute;
    let mut behind = None;
    if let Some(marker) = &page.marker {
        let uuid = Uuid::try_parse(marker).map_err(|_| no_marker(marker))?;
        let server = match compute.server(uuid).await {
            Err(ServerError::NotFound { .. }) => return Err(no_marker(marker)),
            server => server.map_err(fault)?,
        };
        if project.is_some_and(|project| server.project_id != project) {
            return Err(no_marker(marker));
        }
        behind = Some((server.created_at, server.id));
    }
    let mut found: Vec<KnownServer> = Vec::new();
    while found.len() < page.limit {
        let part = Part {
            project,
            reservation: filters.reservation_id.as_deref(),
            behind,
            limit: page.limit.clamp(LEAST_PART, PART),
        };
        let servers = compute.part_of_servers(part).await.map_err(fault)?;
        let whole = servers.len() == part.limit;
        behind = servers.last().map(|last| (last.created_at, last.id));
        let known = compute.known(servers, Look::Conductor).await;
        let known = known.map_err(fault)?.into_iter();
        found.extend(known.filter(|known| filters.pass(known, zones)));
        if !whole {
            break;
        }
    }
    found.truncate(page.limit);
    let full = page.limit > 0 && found.len() == page.limit;
    if look == Look::Conductor {
        return Ok((found, full));
    }
    let servers = found.into_iter().map(|known| known.server).collect();
    let known = compute.known(servers, look).await.map_err(fault)?;
    Ok((known, full))
}

fn no_marker(marker: &str) -> Fault {
    Fault::bad_request(format!("marker [{}] not found", bounded(marker)))
}

fn page(
    call: &Call,
    path: &str,
    (known, full): &(Vec<KnownServer>, bool),
    view: impl Fn(&KnownServer) -> Value,
) -> Result<Answer, Fault> {
    let shown: Vec<Value> = known.iter().map(view).collect();
    let mut body = json!({"servers": shown});
    if let Some(last) = known.last().filter(|_| *full) {
        body["servers_links"] = next(call, path, &last.server.uuid.to_string());
    }
    Answer::ok(&body)
}

pub(crate) async fn list(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    let rules = ListRules {
        index: policies::SERVER_INDEX,
        all: policies::SERVER_INDEX_ALL,
    };
    let found = listed(&api, &call, &rules, Look::Conductor).await?;
    page(&call, "servers", &found, |known| brief(&call, known))
}

pub(crate) async fn detail(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    let rules = ListRules {
        index: policies::SERVER_DETAIL,
        all: policies::SERVER_DETAIL_ALL,
    };
    let found = listed(&api, &call, &rules, Look::Agents).await?;
    let sight = api.sight(&call).await?;
    let view = |known: &KnownServer| whole(&call, known, &sight, Within::List);
    page(&call, "servers/detail", &found, view)
}

pub(crate) async fn show(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    let server = api.server(&call, policies::SERVER_SHOW).await?;
    Answer::ok(&api.shown(&call, server.uuid, Within::Show).await?)
}

pub(crate) async fn update(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    let server = api.server(&call, policies::SERVER_UPDATE).await?;
    let body: Value = call.typed()?;
    let mut fields = Fields::of_body(&body, "server")?;
    let mut update = ServerUpdate {
        name: fields.name("name")?.map(str::to_owned),
        disk_config: super::server_create::disk_config(&mut fields)?,
        access_ip_v4: super::server_create::access_ip(&mut fields, "accessIPv4")?,
        access_ip_v6: super::server_create::access_ip(&mut fields, "accessIPv6")?,
        description: None,
    };
    if call.version.has(SERVER_DESCRIPTION) {
        let given = fields.printable_or_null("description", DESCRIPTION)?;
        let is_given = fields.value("description").is_some();
        update.description = is_given.then(|| given.map(str::to_owned));
    }
    fields.end()?;
    let updated = api.compute.update_server(server.uuid, update).await;
    updated.map_err(fault)?;
    Answer::ok(&api.shown(&call, server.uuid, Within::Update).await?)
}

pub(crate) async fn delete(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    let server = api.server(&call, policies::SERVER_DELETE).await?;
    api.end(&call, &server).await?;
    Ok(Answer::no_content())
}

impl Api {
    /// Has a server go.
    pub(super) async fn end(&self, call: &Call, server: &Server) -> Result<(), Fault> {
        self.open_to(call, server)?;
        let (user, request) = (&call.caller.user_id, call.request_id.as_str());
        let begun = self.compute.begin_delete(server.uuid, user, request).await;
        begun.map_err(fault)?;
        // What cannot be done now the keeper does.
        self.compute.go_on(server.uuid).await.ok();
        Ok(())
    }

    /// Refuses what nobody but an operator may do with a locked server.
    pub(super) fn open_to(&self, call: &Call, server: &Server) -> Result<(), Fault> {
        if server.lock.is_none() || self.is_admin(call) {
            return Ok(());
        }
        let uuid = server.uuid;
        Err(fault(ServerError::Locked { uuid }))
    }
}
