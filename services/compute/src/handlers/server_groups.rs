//! /v2.1/os-server-groups: which servers are to be together or apart. `services/hosts` keeps them; servers that were asked for in one
//! are its members from then on.

use axum::extract::State;
use berth_hosts::{GroupPolicy, KeptServerGroup, NewServerGroup};
use berth_http::{Answer, Call, Fault};
use serde_json::{Value, json};
use uuid::Uuid;

use super::hosts::group_fault;
use super::servers::fault;
use crate::fields::{Fields, MOST, boolean, bounded, wrong};
use crate::microversions::{GROUP_OWNERS, GROUP_POLICY, SOFT_POLICIES, STRICT};
use crate::paging::{MAX_LIMIT, check_keys};
use crate::policies;
use crate::router::Api;

impl Api {
    /// The group of a path, where the caller may do this with it; another project's is none.
    async fn group(&self, call: &Call, rule: &'static str) -> Result<KeptServerGroup, Fault> {
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
        self.allow_in(call, rule, &group.project_id)?;
        Ok(group)
    }

    /// These groups as they are told.
    async fn told(&self, call: &Call, groups: &[KeptServerGroup]) -> Result<Vec<Value>, Fault> {
        let uuids: Vec<Uuid> = groups.iter().map(|group| group.uuid).collect();
        let asked = self.compute.servers_of_groups(&uuids).await;
        let mut asked = asked.map_err(fault)?;
        let members = |uuid: &Uuid| asked.remove(uuid).unwrap_or_default();
        let each = groups.iter().zip(uuids.iter().map(members));
        Ok(each
            .map(|(group, members)| told(call, group, members))
            .collect())
    }

    /// A group by itself.
    async fn told_alone(&self, call: &Call, group: KeptServerGroup) -> Result<Answer, Fault> {
        let told = self.told(call, &[group]).await?;
        Answer::ok(&json!({"server_group": told.first()}))
    }
}

fn told(call: &Call, group: &KeptServerGroup, mut members: Vec<Uuid>) -> Value {
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

fn policy(call: &Call, key: &str, value: &Value) -> Result<GroupPolicy, Fault> {
    let policy = value.as_str().and_then(|word| word.parse().ok());
    let is_soft = |policy: &GroupPolicy| {
        matches!(
            policy,
            GroupPolicy::SoftAffinity | GroupPolicy::SoftAntiAffinity
        )
    };
    policy
        .filter(|policy| !is_soft(policy) || call.version.has(SOFT_POLICIES))
        .ok_or_else(|| {
            let reason = "it is affinity or anti-affinity, or from 2.15 on soft-affinity or soft-anti-affinity";
            wrong(key, value, reason)
        })
}

fn rules(value: &Value, policy: GroupPolicy) -> Result<Option<u32>, Fault> {
    let mut fields = Fields::of("rules", value)?;
    let most = fields.integer("max_server_per_host", 1..=MOST)?;
    fields.end()?;
    if most.is_some() && policy != GroupPolicy::AntiAffinity {
        let reason = "max_server_per_host is a rule of the policy anti-affinity alone";
        return Err(wrong("rules", value, reason));
    }
    Ok(most.and_then(|most| u32::try_from(most).ok()))
}

fn asked(call: &Call, project_id: &str) -> Result<NewServerGroup, Fault> {
    let body: Value = call.typed()?;
    let mut fields = Fields::of_body(&body, "server_group")?;
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
            _ => return Err(wrong("policies", words, "it is a list of one policy")),
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

pub(crate) async fn create(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    api.allow(&call, policies::GROUP_CREATE)?;
    let project_id = call.caller.project_id().ok_or_else(|| {
        Fault::forbidden("A server group is a project's: log in to a project to make one.")
    })?;
    let group = asked(&call, project_id)?;
    let made = api.compute.inner.hosts.create_group(group).await;
    api.told_alone(&call, made.map_err(group_fault)?).await
}

pub(crate) async fn list(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    if call.version.has(STRICT) {
        check_keys(&call, &["all_projects", "limit", "offset"])?;
    }
    api.allow(&call, policies::GROUP_INDEX)?;
    let all = match call.query.last("all_projects") {
        None => false,
        Some(text) => text.is_empty() || boolean(text).unwrap_or(true),
    };
    // Whoever is no operator sees his project's, whatever he asks for, as with Nova.
    let all = all && api.allow(&call, policies::GROUP_INDEX_ALL).is_ok();
    let project = match call.caller.project_id() {
        _ if all => None,
        Some(project) => Some(project),
        None => return Answer::ok(&json!({"server_groups": []})),
    };
    let (offset, limit) = (
        number(&call, "offset", 0)?,
        number(&call, "limit", MAX_LIMIT)?,
    );
    let groups = api.compute.inner.hosts.groups(project).await;
    let groups = groups.map_err(group_fault)?;
    let page = groups.into_iter().skip(offset).take(limit.min(MAX_LIMIT));
    let page: Vec<KeptServerGroup> = page.collect();
    let shown = api.told(&call, &page).await?;
    Answer::ok(&json!({ "server_groups": shown }))
}

fn number(call: &Call, key: &str, default: usize) -> Result<usize, Fault> {
    let Some(text) = call.query.last(key) else {
        return Ok(default);
    };
    let text = bounded(text);
    text.parse()
        .map_err(|_| Fault::bad_request(format!("{key} is a whole number from 0 on, not {text}")))
}

pub(crate) async fn show(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    let group = api.group(&call, policies::GROUP_SHOW).await?;
    api.told_alone(&call, group).await
}

pub(crate) async fn delete(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    let group = api.group(&call, policies::GROUP_DELETE).await?;
    let deleted = api.compute.inner.hosts.delete_group(group.uuid).await;
    deleted.map_err(group_fault)?;
    Ok(Answer::no_content())
}
