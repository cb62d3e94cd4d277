//! /v2.1/flavors: lists and shows flavors.

use axum::extract::State;
use berth_http::fields::{boolean, bounded};
use berth_http::{ApiRequest, ApiResponse, Fault};
use http::StatusCode;
use serde_json::{Value, json};

use super::flavor_extra_specs;
use crate::flavors::{
    ComputeFlavor, ComputeFlavorError, FlavorQuery, FlavorSortKey, Publicity, SortDirection,
};
use crate::paging::{PageQuery, next};
use crate::state::{ComputeApi, ComputeOperation};
use crate::store;
use crate::views::flavor::{ExtraSpecsView, document, summary};

/// The query keys that Nova accepts.
const QUERY: [&str; 7] = [
    "limit",
    "marker",
    "sort_key",
    "sort_dir",
    "is_public",
    "minRam",
    "minDisk",
];

pub(super) fn operations() -> Vec<ComputeOperation> {
    vec![
        ComputeOperation::get("/v2.1/flavors", list)
            .id("listFlavors")
            .summary("Lists flavors, with few fields")
            .query(&QUERY)
            .responds("flavors"),
        ComputeOperation::get("/v2.1/flavors/detail", detail)
            .id("listFlavorsDetail")
            .summary("Lists flavors, with all fields")
            .query(&QUERY)
            .responds("flavors"),
        ComputeOperation::get("/v2.1/flavors/{flavor}", show)
            .extension("OS-FLV-EXT-DATA", "FlavorExtraData")
            .id("showFlavor")
            .summary("Shows a flavor")
            .responds("flavor"),
    ]
}

pub(super) fn fault(error: ComputeFlavorError) -> Fault {
    match error {
        ComputeFlavorError::NotFound { .. }
        | ComputeFlavorError::NoExtraSpec { .. }
        | ComputeFlavorError::AccessNotFound { .. } => Fault::not_found(error.to_string()),
        ComputeFlavorError::NameExists { .. }
        | ComputeFlavorError::IdExists { .. }
        | ComputeFlavorError::AccessExists { .. }
        | ComputeFlavorError::Public => Fault::conflict(error.to_string()),
        ComputeFlavorError::ManyExtraSpecs { .. } => {
            Fault::new(StatusCode::FORBIDDEN, error.to_string())
        }
        ComputeFlavorError::Table(error) => store::fault(&error),
    }
}

pub(super) fn specs(api: &ComputeApi, call: &ApiRequest) -> ExtraSpecsView {
    match api.allow_rule(call, flavor_extra_specs::INDEX, None) {
        Ok(()) => ExtraSpecsView::Shown,
        Err(_) => ExtraSpecsView::Hidden,
    }
}

/// Finds a flavor that the caller may see.
pub(super) async fn visible_flavor(
    api: &ComputeApi,
    call: &ApiRequest,
) -> Result<ComputeFlavor, Fault> {
    let flavorid = call.path("flavor")?;
    let flavor = api.compute.flavor(flavorid).await.map_err(fault)?;
    if api.is_admin(call) || flavor.is_for(call.caller.project_id()) {
        return Ok(flavor);
    }
    let flavorid = flavorid.to_owned();
    Err(fault(ComputeFlavorError::NotFound { flavorid }))
}

fn publicity(api: &ComputeApi, call: &ApiRequest) -> Result<Publicity, Fault> {
    let own = Publicity::For(call.caller.project_id().map(str::to_owned));
    if !api.is_admin(call) {
        return Ok(own);
    }
    match call.query.last("is_public") {
        None => Ok(own),
        Some(text) if text.eq_ignore_ascii_case("none") => Ok(Publicity::All),
        Some(text) => match boolean(text) {
            Some(true) => Ok(own),
            Some(false) => Ok(Publicity::Private),
            None => {
                let sentence = format!("Invalid is_public filter [{}]", bounded(text));
                Err(Fault::bad_request(sentence))
            }
        },
    }
}

fn least(call: &ApiRequest, key: &str) -> Result<i64, Fault> {
    let Some(text) = call.query.last(key) else {
        return Ok(i64::MIN);
    };
    let wrong = |_| Fault::bad_request(format!("Invalid {key} filter [{}]", bounded(text)));
    text.parse().map_err(wrong)
}

fn parse_query(api: &ComputeApi, call: &ApiRequest) -> Result<FlavorQuery, Fault> {
    if call.version.has(crate::microversions::STRICT) {
        crate::paging::check_keys(call, &QUERY)?;
    }
    let key = call.query.last("sort_key").unwrap_or("flavorid");
    let key = FlavorSortKey::parse(key).ok_or_else(|| {
        let sentence = format!("Invalid sort_key [{}]", bounded(key));
        Fault::bad_request(sentence)
    })?;
    let order = match call.query.last("sort_dir") {
        None | Some("asc") => SortDirection::Ascending,
        Some("desc") => SortDirection::Descending,
        Some(other) => {
            let sentence = format!("Invalid sort_dir [{}]: it is asc or desc", bounded(other));
            return Err(Fault::bad_request(sentence));
        }
    };
    Ok(FlavorQuery {
        publicity: publicity(api, call)?,
        min_ram: least(call, "minRam")?,
        min_disk: least(call, "minDisk")?,
        key,
        order,
    })
}

async fn answer(
    api: &ComputeApi,
    call: &ApiRequest,
    path: &str,
    view: impl Fn(&ComputeFlavor) -> Value,
) -> Result<ApiResponse, Fault> {
    let (query, page) = (parse_query(api, call)?, PageQuery::of(call)?);
    let all = api.compute.flavors().await.map_err(fault)?;
    let (flavors, full) = page.cut(query.apply(all), |one| &one.properties.flavorid)?;
    let shown: Vec<Value> = flavors.iter().map(view).collect();
    let mut body = json!({"flavors": shown});
    if let Some(last) = flavors.last().filter(|_| full) {
        body["flavors_links"] = next(call, path, &last.properties.flavorid);
    }
    ApiResponse::ok(&body)
}

async fn list(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    answer(&api, &call, "flavors", |one| summary(&call, one)).await
}

async fn detail(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let specs = specs(&api, &call);
    let view = |one: &ComputeFlavor| document(&call, one, specs);
    answer(&api, &call, "flavors/detail", view).await
}

async fn show(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let flavor = visible_flavor(&api, &call).await?;
    ApiResponse::ok(&json!({"flavor": document(&call, &flavor, specs(&api, &call))}))
}
