//! /resource_providers/{uuid}/usages and /usages: show usage.

use axum::extract::State;
use berth_http::openapi::Shapes;
use berth_http::{ApiRequest, ApiResponse, Fault};
use berth_wire::placement as wire;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{database, modified, provider_of_path, read};
use crate::microversions::RANGE;
use crate::openapi::query;
use crate::policies::{admin_or_project_reader_or_service, admin_or_service};
use crate::router::{Placement, PlacementOperation};
use crate::store::usages::{self, ConsumerFilter, UsageGroup, UsageOwner};
use crate::{microversions, schemas};

pub(super) fn operations() -> Vec<PlacementOperation> {
    vec![
        PlacementOperation::get("/resource_providers/{uuid}/usages", of_provider)
            .rule(admin_or_service("placement:resource_providers:usages"))
            .id("showProviderUsages")
            .summary("Shows the usage of a provider.")
            .returns::<wire::ProviderUsages>(200, "The current state."),
        PlacementOperation::get("/usages", total)
            .rule(admin_or_project_reader_or_service("placement:usages"))
            .since(microversions::TOTAL_USAGES)
            .id("showUsages")
            .summary("Shows the usage of a project or of one of its users.")
            .older("Before 1.38 amounts by class only, not by consumer type.")
            .query_parameters(|| query::keys_of(&schemas::total_usages(RANGE.max)))
            .returns_shape(
                200,
                "Amounts by class and the number of consumers, for each consumer type.",
                usages_shape,
            ),
    ]
}

fn usages_shape(_: &mut Shapes) -> Value {
    let amounts = json!({"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}, "required": ["consumer_count"]});
    json!({
        "type": "object",
        "properties": {"usages": {"type": "object", "additionalProperties": amounts}},
        "required": ["usages"],
    })
}

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

async fn of_provider(
    State(placement): State<Placement>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    call.check_accept()?;
    placement.allow(&call)?;
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

async fn total(State(placement): State<Placement>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    call.check_accept()?;
    let project = call.query.last("project_id");
    placement.options.policy.allow(&call, project)?;
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
