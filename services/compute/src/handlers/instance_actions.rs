//! /v2.1/servers/{server}/os-instance-actions: the history of a server; from 2.21 on also of a deleted server.

use axum::extract::State;
use berth_conductor::journal::FailedAttempt;
use berth_http::fields::bounded;
use berth_http::{ApiRequest, ApiResponse, Fault, RuleDefault};
use berth_store::SqlTimestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::server_query::{check_span, moment};
use super::servers::{fault, server_uuid};
use crate::instance_actions::{ActionOutcome, ActionsPart, InstanceAction};
use crate::microversions::{
    ACTION_EVENTS, ACTION_HOSTS, ACTION_PAGES, ACTIONS_OF_GONE, CHANGES_BEFORE,
};
use crate::paging::{MAX_LIMIT, PageQuery, check_keys, next};
use crate::policies::{admin, reader};
use crate::servers::ServerError;
use crate::state::{ComputeApi, ComputeOperation};
use crate::views::server::{host_id, precise};

/// Show the events of an action, with hosts and error details.
const EVENTS: RuleDefault = admin("os_compute_api:os-instance-actions:events");

pub(super) fn operations() -> Vec<ComputeOperation> {
    vec![
        ComputeOperation::get("/v2.1/servers/{server}/os-instance-actions", list)
            .rule(reader("os_compute_api:os-instance-actions:list"))
            .extension("os-instance-actions", "InstanceActions")
            .id("listInstanceActions")
            .summary("Lists the history of a server")
            .query(&["limit", "marker", "changes-since", "changes-before"])
            .responds("instanceActions"),
        ComputeOperation::get("/v2.1/servers/{server}/os-instance-actions/{request}", show)
            .rule(reader("os_compute_api:os-instance-actions:show"))
            .other_rules(&[EVENTS])
            .id("showInstanceAction")
            .summary("Shows an entry of the history of a server")
            .responds("instanceAction"),
    ]
}

impl ComputeApi {
    /// The server in the path, if the caller may see its history.
    async fn server_of_actions(&self, call: &ApiRequest) -> Result<Uuid, Fault> {
        let uuid = server_uuid(call)?;
        let Err(none) = self.server(call).await else {
            return Ok(uuid);
        };
        let gone = none.status() == http::StatusCode::NOT_FOUND
            && call.version.has(ACTIONS_OF_GONE)
            && matches!(
                self.compute.server(uuid).await,
                Err(ServerError::NotFound { .. })
            );
        if !gone {
            return Err(none);
        }
        let project = self.compute.project_of_actions(uuid).await.map_err(fault)?;
        let Some(project) = project else {
            return Err(none);
        };
        let own = call.caller.project_id() == Some(project.as_str());
        if !own && !self.is_admin(call) {
            return Err(none);
        }
        self.allow_in(call, &project)?;
        Ok(uuid)
    }
}

/// The query of a list.
struct HistoryQuery {
    page: PageQuery,
    since: Option<SqlTimestamp>,
    before: Option<SqlTimestamp>,
}

impl HistoryQuery {
    /// Parses the query. Versions without paging get the first page.
    fn of(call: &ApiRequest) -> Result<Self, Fault> {
        if !call.version.has(ACTION_PAGES) {
            return Ok(Self {
                page: PageQuery {
                    limit: MAX_LIMIT,
                    marker: None,
                },
                since: None,
                before: None,
            });
        }
        let keys: &[&str] = match call.version.has(CHANGES_BEFORE) {
            true => &["limit", "marker", "changes-since", "changes-before"],
            false => &["limit", "marker", "changes-since"],
        };
        check_keys(call, keys)?;
        let query = Self {
            page: PageQuery::of(call)?,
            since: moment(call, "changes-since")?,
            before: moment(call, "changes-before")?,
        };
        check_span(query.since, query.before)?;
        Ok(query)
    }

    fn part(&self) -> ActionsPart<'_> {
        ActionsPart {
            marker: self.page.marker.as_deref(),
            since: self.since,
            before: self.before,
            limit: self.page.limit,
        }
    }
}

fn updated_at(action: &InstanceAction) -> SqlTimestamp {
    action.finished_at.unwrap_or(action.started_at)
}

async fn list(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let query = HistoryQuery::of(&call)?;
    let uuid = api.server_of_actions(&call).await?;
    let actions = api.compute.instance_actions(uuid, &query.part()).await;
    let actions = actions.map_err(fault)?.ok_or_else(|| {
        let marker = query.page.marker.as_deref().unwrap_or_default();
        Fault::bad_request(format!("marker [{}] not found", bounded(marker)))
    })?;
    let shown: Vec<Value> = actions.iter().map(|it| shown(&call, uuid, it)).collect();
    let mut body = json!({"instanceActions": shown});
    // A full page may have a successor.
    let full = call.version.has(ACTION_PAGES) && actions.len() >= query.page.limit;
    if let Some(last) = actions.last().filter(|_| full) {
        let path = format!("servers/{uuid}/os-instance-actions");
        body["links"] = next(&call, &path, &last.request_id);
    }
    ApiResponse::ok(&body)
}

async fn show(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let uuid = api.server_of_actions(&call).await?;
    let request = call.path("request")?;
    let found = api.compute.instance_action(uuid, request).await;
    let found = found.map_err(fault)?.ok_or_else(|| {
        let request = bounded(request);
        Fault::not_found(format!(
            "Action for request_id {request} on instance {uuid} not found"
        ))
    })?;
    let found = &found;
    let mut body = shown(&call, uuid, found);
    let sees_all = api.allow_rule(&call, EVENTS, None).is_ok();
    if sees_all || call.version.has(ACTION_EVENTS) {
        let attempts = match found.action.as_str() {
            "create" => api.compute.failed_attempts(uuid).await.map_err(fault)?,
            _ => Vec::new(),
        };
        let attempts = attempts.iter().rev();
        let attempts = attempts.map(|failed| attempt_event(&call, found, failed, sees_all));
        let events = std::iter::once(event(&call, found, sees_all)).chain(attempts);
        body["events"] = events.collect();
    }
    ApiResponse::ok(&json!({"instanceAction": body}))
}

fn shown(call: &ApiRequest, server: Uuid, action: &InstanceAction) -> Value {
    let message = match &action.outcome {
        Some(ActionOutcome::Error(_)) => json!("Error"),
        _ => Value::Null,
    };
    let mut shown = json!({
        "action": action.action,
        "instance_uuid": server,
        "request_id": action.request_id,
        "user_id": action.user_id,
        "project_id": action.project_id,
        "start_time": precise(action.started_at),
        "message": message,
    });
    if call.version.has(ACTION_PAGES) {
        shown["updated_at"] = json!(precise(updated_at(action)));
    }
    shown
}

fn event(call: &ApiRequest, action: &InstanceAction, sees_all: bool) -> Value {
    let mut shown = json!({
        "event": action.event,
        "start_time": precise(action.started_at),
        "finish_time": action.finished_at.map(precise),
        "result": action.outcome.as_ref().map(ActionOutcome::as_str),
    });
    if sees_all {
        let details = match &action.outcome {
            Some(ActionOutcome::Error(details)) => details.clone(),
            _ => None,
        };
        shown["traceback"] = json!(details);
    }
    if call.version.has(ACTION_HOSTS) {
        shown["hostId"] = json!(host_id(&action.project_id, action.host.as_deref()));
        if sees_all {
            shown["host"] = json!(action.host);
        }
    }
    shown
}

/// The event of a failed attempt to build the server. Its end time is not recorded.
fn attempt_event(
    call: &ApiRequest,
    action: &InstanceAction,
    failed: &FailedAttempt,
    sees_all: bool,
) -> Value {
    let of_attempt = InstanceAction {
        host: failed.host.clone().or_else(|| failed.node.clone()),
        outcome: Some(ActionOutcome::Error(Some(failed.reason.clone()))),
        finished_at: None,
        ..action.clone()
    };
    event(call, &of_attempt, sees_all)
}
