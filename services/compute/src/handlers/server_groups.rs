//! /v2.1/os-server-groups: affinity and anti-affinity groups. `services/hosts` stores them. Servers created with a
//! group as a hint are its members.

use axum::extract::State;
use berth_hosts::{NewServerGroup, ServerGroupPolicy, StoredServerGroup};
use berth_http::fields::{BodyFields, MAX_INTEGER, boolean, bounded, invalid_field};
use berth_http::{ApiRequest, ApiResponse, Fault, RuleDefault};
use berth_quota::{QuotaLimit, QuotaResource};
use serde_json::{Value, json};
use uuid::Uuid;

use super::hosts::group_fault;
use super::servers::fault;
use crate::microversions::{GROUP_OWNERS, GROUP_POLICY, SOFT_POLICIES, STRICT};
use crate::openapi::schemas::{in_key, integer, object, text};
use crate::paging::{MAX_LIMIT, check_keys};
use crate::policies::{admin, member, reader};
use crate::state::{ComputeApi, ComputeOperation};

/// List the server groups of all projects.
const INDEX_ALL: RuleDefault = admin("os_compute_api:os-server-groups:index:all_projects");

/// The query keys of a list.
const QUERY: [&str; 3] = ["all_projects", "limit", "offset"];

pub(super) fn operations() -> Vec<ComputeOperation> {
    vec![
        ComputeOperation::get("/v2.1/os-server-groups", list)
            .rule(reader("os_compute_api:os-server-groups:index"))
            .other_rules(&[INDEX_ALL])
            .extension("os-server-groups", "ServerGroups")
            .id("listServerGroups")
            .summary("Lists server groups")
            .query(&QUERY)
            .responds("server_groups"),
        ComputeOperation::post("/v2.1/os-server-groups", create)
            .rule(member("os_compute_api:os-server-groups:create"))
            .id("createServerGroup")
            .summary("Creates a server group")
            .body(|| in_key("server_group", group_schema()))
            .responds("server_group"),
        ComputeOperation::get("/v2.1/os-server-groups/{group}", show)
            .rule(reader("os_compute_api:os-server-groups:show"))
            .id("showServerGroup")
            .summary("Shows a server group")
            .responds("server_group"),
        ComputeOperation::delete("/v2.1/os-server-groups/{group}", delete)
            .rule(member("os_compute_api:os-server-groups:delete"))
            .id("deleteServerGroup")
            .summary("Deletes a server group")
            .statuses(&[204]),
    ]
}

fn group_schema() -> Value {
    let most = object(&[], [("max_server_per_host", integer(1))]);
    let policies = [
        "affinity",
        "anti-affinity",
        "soft-affinity",
        "soft-anti-affinity",
    ];
    object(
        &["name", "policy"],
        [
            ("name", text(1, 255)),
            ("policy", json!({ "enum": policies })),
            ("rules", most),
        ],
    )
}

impl ComputeApi {
    /// The group in the path, if the caller may do this with it. Groups of other projects are 404.
    async fn group(&self, call: &ApiRequest) -> Result<StoredServerGroup, Fault> {
        let text = call.path("group")?;
        let none = || {
            let text = bounded(text);
            Fault::not_found(format!("Instance group {text} could not be found."))
        };
        let uuid = Uuid::try_parse(text).map_err(|_| none())?;
        let group = match self.compute.inner.hosts.group(uuid).await {
            Err(berth_hosts::ServerGroupError::NotFound { .. }) => return Err(none()),
            group => group.map_err(group_fault)?,
        };
        let own = call.caller.project_id() == Some(group.project_id.as_str());
        if !own && !self.is_admin(call) {
            return Err(none());
        }
        self.allow_in(call, &group.project_id)?;
        Ok(group)
    }

    async fn documents(
        &self,
        call: &ApiRequest,
        groups: &[StoredServerGroup],
    ) -> Result<Vec<Value>, Fault> {
        let uuids: Vec<Uuid> = groups.iter().map(|group| group.uuid).collect();
        let by_hint = self.compute.servers_of_groups(&uuids).await;
        let mut by_hint = by_hint.map_err(fault)?;
        let members = |uuid: &Uuid| by_hint.remove(uuid).unwrap_or_default();
        let each = groups.iter().zip(uuids.iter().map(members));
        Ok(each
            .map(|(group, members)| document(call, group, members))
            .collect())
    }

    async fn respond_with(
        &self,
        call: &ApiRequest,
        group: StoredServerGroup,
    ) -> Result<ApiResponse, Fault> {
        let documents = self.documents(call, &[group]).await?;
        ApiResponse::ok(&json!({"server_group": documents.first()}))
    }
}

fn document(call: &ApiRequest, group: &StoredServerGroup, mut members: Vec<Uuid>) -> Value {
    members.extend(group.members.keys().copied());
    members.sort_unstable();
    members.dedup();
    let mut shown = json!({"id": group.uuid, "name": group.name, "members": members});
    if call.version.has(GROUP_POLICY) {
        shown["policy"] = json!(group.policy.as_str());
        shown["rules"] = match group.max_server_per_host {
            Some(most) => json!({"max_server_per_host": most}),
            None => json!({}),
        };
    } else {
        shown["policies"] = json!([group.policy.as_str()]);
        shown["metadata"] = json!({});
    }
    if call.version.has(GROUP_OWNERS) {
        shown["project_id"] = json!(group.project_id);
        shown["user_id"] = json!(group.user_id);
    }
    shown
}

fn policy(call: &ApiRequest, key: &str, value: &Value) -> Result<ServerGroupPolicy, Fault> {
    let policy = value.as_str().and_then(|word| word.parse().ok());
    let is_soft = |policy: &ServerGroupPolicy| {
        matches!(
            policy,
            ServerGroupPolicy::SoftAffinity | ServerGroupPolicy::SoftAntiAffinity
        )
    };
    policy
        .filter(|policy| !is_soft(policy) || call.version.has(SOFT_POLICIES))
        .ok_or_else(|| {
            let reason = "it must be affinity or anti-affinity, or from 2.15 on soft-affinity or soft-anti-affinity";
            invalid_field(key, value, reason)
        })
}

fn rules(value: &Value, policy: ServerGroupPolicy) -> Result<Option<u32>, Fault> {
    let mut fields = BodyFields::of("rules", value)?;
    let most = fields.integer("max_server_per_host", 1..=MAX_INTEGER)?;
    fields.end()?;
    if most.is_some() && policy != ServerGroupPolicy::AntiAffinity {
        let reason = "max_server_per_host requires the policy anti-affinity";
        return Err(invalid_field("rules", value, reason));
    }
    Ok(most.and_then(|most| u32::try_from(most).ok()))
}

fn parse_group(call: &ApiRequest, project_id: &str) -> Result<NewServerGroup, Fault> {
    let body: Value = call.typed()?;
    let mut fields = BodyFields::of_body(&body, "server_group")?;
    let name = fields.name("name")?;
    let name = fields.required("name", name)?.to_owned();
    let (policy, max_server_per_host) = if call.version.has(GROUP_POLICY) {
        let word = fields.value("policy");
        let policy = policy(call, "policy", fields.required("policy", word)?)?;
        let most = match fields.value("rules") {
            None => None,
            Some(value) => rules(value, policy)?,
        };
        (policy, most)
    } else {
        let words = fields.value("policies");
        let words = fields.required("policies", words)?;
        match words.as_array().map(Vec::as_slice) {
            Some([word]) => (policy(call, "policies", word)?, None),
            _ => {
                return Err(invalid_field(
                    "policies",
                    words,
                    "it must be a list of one policy",
                ));
            }
        }
    };
    fields.end()?;
    Ok(NewServerGroup {
        project_id: project_id.to_owned(),
        user_id: call.caller.user_id.clone(),
        name,
        policy,
        max_server_per_host,
    })
}

async fn create(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    let project_id = call.caller.project_id().ok_or_else(|| {
        Fault::forbidden("Creating a server group requires a token with a project.")
    })?;
    let group = parse_group(&call, project_id)?;
    let limits = api.compute.quota_limits(project_id).await.map_err(fault)?;
    let most = match limits.of(&QuotaResource::ServerGroups) {
        QuotaLimit::AtMost(most) => Some(most),
        QuotaLimit::Unlimited => None,
    };
    let made = api.compute.inner.hosts.create_group(group, most).await;
    api.respond_with(&call, made.map_err(group_fault)?).await
}

async fn list(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    if call.version.has(STRICT) {
        check_keys(&call, &QUERY)?;
    }
    api.allow(&call)?;
    let all = match call.query.last("all_projects") {
        None => false,
        Some(text) => text.is_empty() || boolean(text).unwrap_or(true),
    };
    // As in Nova, other callers see only the groups of their project and are not refused.
    let all = all && api.allow_rule(&call, INDEX_ALL, None).is_ok();
    let project = match call.caller.project_id() {
        _ if all => None,
        Some(project) => Some(project),
        None => return ApiResponse::ok(&json!({"server_groups": []})),
    };
    let (offset, limit) = (
        number(&call, "offset", 0)?,
        number(&call, "limit", MAX_LIMIT)?,
    );
    let groups = api.compute.inner.hosts.groups(project).await;
    let groups = groups.map_err(group_fault)?;
    let page = groups.into_iter().skip(offset).take(limit.min(MAX_LIMIT));
    let page: Vec<StoredServerGroup> = page.collect();
    let shown = api.documents(&call, &page).await?;
    ApiResponse::ok(&json!({ "server_groups": shown }))
}

fn number(call: &ApiRequest, key: &str, default: usize) -> Result<usize, Fault> {
    let Some(text) = call.query.last(key) else {
        return Ok(default);
    };
    let text = bounded(text);
    text.parse().map_err(|_| {
        Fault::bad_request(format!(
            "{key} must be a whole number of at least 0, not {text}"
        ))
    })
}

async fn show(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let group = api.group(&call).await?;
    api.respond_with(&call, group).await
}

async fn delete(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let group = api.group(&call).await?;
    let deleted = api.compute.inner.hosts.delete_group(group.uuid).await;
    deleted.map_err(group_fault)?;
    Ok(ApiResponse::no_content())
}
