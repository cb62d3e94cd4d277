//! /resource_providers/{uuid}/usages and /usages: show usage.

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{database, modified, provider_of_path, read, require};
use crate::router::Placement;
use crate::store::usages::{self, ConsumerFilter, UsageGroup, UsageOwner};
use crate::{microversions, policies, schemas};

#[derive(Serialize)]
struct ProviderUsagesDocument {
    resource_provider_generation: i64,
    usages: Map<String, Value>,
}

fn by_class(used: Vec<(String, i64)>) -> Map<String, Value> {
    used.into_iter()
        .map(|(class, used)| (class, Value::from(used)))
        .collect()
}

pub(crate) async fn of_provider(
    State(placement): State<Placement>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    call.check_accept()?;
    placement.allow(&call, policies::PROVIDER_USAGES)?;
    let uuid = call.path("uuid")?;
    let mut tx = read(&placement.store).await?;
    let provider = provider_of_path(&mut tx, uuid).await?;
    let used = usages::of_provider(&mut tx, provider.id)
        .await
        .map_err(database)?;
    let document = ProviderUsagesDocument {
        resource_provider_generation: provider.generation,
        usages: by_class(used),
    };
    Ok(modified(ApiResponse::ok(&document)?, &call, None))
}

pub(crate) async fn total(
    State(placement): State<Placement>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    require(&call, microversions::TOTAL_USAGES)?;
    call.check_accept()?;
    let project = call.query.last("project_id");
    placement
        .options
        .policy
        .authorize(&call.caller, policies::TOTAL_USAGES, project)?;
    call.check_query(&schemas::total_usages(call.version))?;
    let holder = UsageOwner {
        project: project.unwrap_or_default().to_owned(),
        user: call.query.last("user_id").map(str::to_owned),
    };
    let typed = call.version.has(microversions::CONSUMER_TYPES);
    let consumers = match call.query.last("consumer_type") {
        _ if !typed => ConsumerFilter::All,
        None => ConsumerFilter::ByType,
        Some(usages::ALL) => ConsumerFilter::All,
        Some(usages::UNTYPED) => ConsumerFilter::Untyped,
        Some(name) => ConsumerFilter::OfType(name.to_owned()),
    };
    let mut tx = read(&placement.store).await?;
    let groups = usages::by_holder(&mut tx, &holder, &consumers)
        .await
        .map_err(database)?;
    let usages = if typed {
        groups.into_iter().map(grouped).collect()
    } else {
        let all = groups.into_iter().next();
        all.map(|group| by_class(group.used)).unwrap_or_default()
    };
    Ok(modified(
        ApiResponse::ok(&json!({ "usages": usages }))?,
        &call,
        None,
    ))
}

fn grouped(group: UsageGroup) -> (String, Value) {
    let mut members = by_class(group.used);
    members.insert("consumer_count".to_owned(), Value::from(group.consumers));
    (group.heading, Value::Object(members))
}
