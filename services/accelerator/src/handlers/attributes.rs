//! /v2/attributes: attributes of deployables.

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault};
use berth_wire::accelerator::{AttributeBody, AttributeList, CreateAttribute};
use http::StatusCode;

use super::{database, link, read, uuid};
use crate::policies::{admin, manager};
use crate::router::{AcceleratorApi, AcceleratorOperation};
use crate::store::attributes::{self, DeleteAttribute, DeployableAttributeError, InsertAttribute};

pub(super) fn operations() -> Vec<AcceleratorOperation> {
    vec![
        AcceleratorOperation::get("/v2/attributes", list).rule(manager("cyborg:attribute:get_all")),
        AcceleratorOperation::post("/v2/attributes", create).rule(admin("cyborg:attribute:create")),
        AcceleratorOperation::get("/v2/attributes/{uuid}", show)
            .rule(manager("cyborg:attribute:get_one")),
        AcceleratorOperation::delete("/v2/attributes/{uuid}", delete)
            .rule(admin("cyborg:attribute:delete")),
    ]
}

fn fault(error: DeployableAttributeError) -> Fault {
    match error {
        DeployableAttributeError::NotFound(_) => Fault::not_found(error.to_string()),
        DeployableAttributeError::NoDeployable(_) => Fault::bad_request(error.to_string()),
        DeployableAttributeError::Reported(_) => Fault::conflict(error.to_string()),
        DeployableAttributeError::Read(error) => database(error),
    }
}

fn body(call: &ApiRequest, attribute: AttributeBody) -> AttributeBody {
    AttributeBody {
        links: vec![link(call, "attributes", attribute.uuid)],
        ..attribute
    }
}

async fn list(
    State(accelerator): State<AcceleratorApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    accelerator.allow(&call)?;
    let deployable = call
        .query
        .last("deployable_id")
        .map(|text| {
            text.parse::<i64>()
                .map_err(|_| Fault::bad_request(format!("{text:?} is no number of a deployable")))
        })
        .transpose()?;
    let mut tx = read(&accelerator.tables).await?;
    let found = attributes::list(&mut tx, deployable, call.query.last("key"))
        .await
        .map_err(database)?;
    let attributes = found.into_iter().map(|each| body(&call, each)).collect();
    ApiResponse::ok(&AttributeList { attributes })
}

async fn show(
    State(accelerator): State<AcceleratorApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    accelerator.allow(&call)?;
    let uuid = uuid(&call, "Attribute")?;
    let mut tx = read(&accelerator.tables).await?;
    let found = attributes::get(&mut tx, uuid).await.map_err(fault)?;
    ApiResponse::ok(&body(&call, found))
}

async fn create(
    State(accelerator): State<AcceleratorApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    accelerator.allow(&call)?;
    let wanted: CreateAttribute = call.typed()?;
    for (name, text) in [("key", &wanted.key), ("value", &wanted.value)] {
        if text.is_empty() || text.chars().count() > 255 {
            return Err(Fault::bad_request(format!(
                "{name}: 1 to 255 characters are allowed"
            )));
        }
    }
    let made = accelerator
        .tables
        .write(&InsertAttribute(wanted))
        .await
        .map_err(fault)?;
    ApiResponse::with_body(StatusCode::CREATED, &body(&call, made))
}

async fn delete(
    State(accelerator): State<AcceleratorApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    accelerator.allow(&call)?;
    let uuid = uuid(&call, "Attribute")?;
    accelerator
        .tables
        .write(&DeleteAttribute(uuid))
        .await
        .map_err(fault)?;
    Ok(ApiResponse::no_content())
}
