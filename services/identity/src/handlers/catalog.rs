//! /v3/services, /v3/endpoints, /v3/regions: the service catalog. It comes from the configuration and is read-only.

use axum::extract::State;
use axum::routing::post;
use berth_http::{ApiRequest, ApiResponse, Fault};
use berth_wire::identity::{
    EndpointDocument, Endpoints, RegionDocument, Regions, ServiceDocument, Services,
};

use super::{kept, not_found};
use crate::policies::{allow, may_read_all};
use crate::router::{IdentityApi, IdentityOperation};
use crate::shown::{self, Links};

pub(super) fn operations() -> Vec<IdentityOperation> {
    vec![
        IdentityOperation::get("/v3/services", services)
            .id("listServices")
            .summary("List the services of the catalog")
            .query(&["name", "type"])
            .responds("services"),
        refused("/v3/services"),
        IdentityOperation::get("/v3/services/{id}", service)
            .id("showService")
            .summary("One service")
            .responds("service"),
        refused("/v3/services/{id}"),
        IdentityOperation::get("/v3/endpoints", endpoints)
            .id("listEndpoints")
            .summary("List the endpoints of the catalog")
            .query(&["interface", "service_id", "region_id"])
            .responds("endpoints"),
        refused("/v3/endpoints"),
        IdentityOperation::get("/v3/endpoints/{id}", endpoint)
            .id("showEndpoint")
            .summary("One endpoint")
            .responds("endpoint"),
        refused("/v3/endpoints/{id}"),
        IdentityOperation::get("/v3/regions", regions)
            .id("listRegions")
            .summary("Regions")
            .responds("regions"),
        refused("/v3/regions"),
        IdentityOperation::get("/v3/regions/{id}", region)
            .id("showRegion")
            .summary("One region")
            .responds("region"),
        refused("/v3/regions/{id}"),
    ]
}

/// Refuses requests to change the catalog.
async fn refuse(State(_): State<IdentityApi>, _: ApiRequest) -> Fault {
    Fault::forbidden(
        "Services, endpoints and regions are said by the identity service's configuration ([identity_service] catalog and region \
         in berth.toml): change them there. This API reads them.",
    )
}

fn refused(path: &'static str) -> IdentityOperation {
    let methods = post(refuse).put(refuse).patch(refuse).delete(refuse);
    IdentityOperation::refused(path, methods)
}

async fn services(State(api): State<IdentityApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    allow(may_read_all(&call.caller), "identity:list_services")?;
    let links = Links::of(&api, &call);
    let entries = shown::entries(api.identity.catalog()).iter();
    let kept = entries.filter(|it| kept(&call, &[("name", &it.name), ("type", &it.service_type)]));
    ApiResponse::ok(&Services {
        services: kept.map(|it| shown::service(it, &links)).collect(),
        links: links.list("/services"),
    })
}

async fn service(State(api): State<IdentityApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    allow(may_read_all(&call.caller), "identity:get_service")?;
    let id = call.path("id")?;
    let mut entries = shown::entries(api.identity.catalog()).iter();
    let entry = entries.find(|it| it.id == id);
    let entry = entry.ok_or_else(|| not_found("service", id))?;
    ApiResponse::ok(&ServiceDocument {
        service: shown::service(entry, &Links::of(&api, &call)),
    })
}

async fn endpoints(State(api): State<IdentityApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    allow(may_read_all(&call.caller), "identity:list_endpoints")?;
    let links = Links::of(&api, &call);
    let kept = api.identity.catalog().endpoints().filter(|(service, it)| {
        let own = [
            ("interface", it.interface),
            ("service_id", service.id.as_str()),
            ("region_id", &it.region_id),
            ("region", &it.region_id),
        ];
        kept(&call, &own)
    });
    ApiResponse::ok(&Endpoints {
        endpoints: kept
            .map(|(of, it)| shown::endpoint(of, it, &links))
            .collect(),
        links: links.list("/endpoints"),
    })
}

async fn endpoint(State(api): State<IdentityApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    allow(may_read_all(&call.caller), "identity:get_endpoint")?;
    let id = call.path("id")?;
    let mut endpoints = api.identity.catalog().endpoints();
    let found = endpoints.find(|(_, it)| it.id == id);
    let (service, endpoint) = found.ok_or_else(|| not_found("endpoint", id))?;
    ApiResponse::ok(&EndpointDocument {
        endpoint: shown::endpoint(service, endpoint, &Links::of(&api, &call)),
    })
}

/// Regions are visible to all callers.
async fn regions(State(api): State<IdentityApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let links = Links::of(&api, &call);
    // No region is below another.
    let below = call.query.last("parent_region_id").is_some();
    let regions = api.identity.catalog().regions().into_iter();
    let regions = regions.filter(|_| !below);
    ApiResponse::ok(&Regions {
        regions: regions.map(|it| shown::region(it, &links)).collect(),
        links: links.list("/regions"),
    })
}

async fn region(State(api): State<IdentityApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let id = call.path("id")?;
    let regions = api.identity.catalog().regions();
    let region = regions.into_iter().find(|it| *it == id);
    let region = region.ok_or_else(|| not_found("region", id))?;
    ApiResponse::ok(&RegionDocument {
        region: shown::region(region, &Links::of(&api, &call)),
    })
}
