//! /resource_providers/{uuid}/inventories: list, show, create, replace and delete inventories.

use std::collections::BTreeMap;

use axum::extract::State;
use berth_http::openapi::Shapes;
use berth_http::{ApiRequest, ApiResponse, Fault, RuleDefault};
use berth_wire::placement as wire;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{codes, database, modified, provider_fault, read};
use crate::inventory::InventoryRecord;
use crate::policies::admin_or_service;
use crate::router::{Placement, PlacementOperation};
use crate::store::inventories::{self, Add, ChangeInventory, InventoryTableError, Remove, SetAll};
use crate::store::providers::{self, ProviderError, ProviderRow};
use crate::{microversions, schemas};

const UPDATE: RuleDefault = admin_or_service("placement:resource_providers:inventories:update");
const DELETE: RuleDefault = admin_or_service("placement:resource_providers:inventories:delete");

pub(super) fn operations() -> Vec<PlacementOperation> {
    vec![
        PlacementOperation::get("/resource_providers/{uuid}/inventories", list)
            .rule(admin_or_service(
                "placement:resource_providers:inventories:list",
            ))
            .id("listInventories")
            .summary("Lists the inventories of a provider.")
            .returns::<wire::ProviderInventories>(200, "The current state."),
        PlacementOperation::post("/resource_providers/{uuid}/inventories", create)
            .rule(admin_or_service(
                "placement:resource_providers:inventories:create",
            ))
            .id("createInventory")
            .summary("Adds one inventory.")
            .body(|| schemas::NEW_INVENTORY.to_json_schema())
            .returns_shape(201, "The object is created.", one_inventory),
        PlacementOperation::put("/resource_providers/{uuid}/inventories", set)
            .rule(UPDATE)
            .id("setInventories")
            .summary("Replaces all inventories of a provider.")
            .older("`reserved` may equal `total` from 1.26.")
            .body(|| schemas::INVENTORIES.to_json_schema())
            .returns::<wire::ProviderInventories>(200, "The state after the change."),
        PlacementOperation::delete("/resource_providers/{uuid}/inventories", delete_all)
            .rule(DELETE)
            .since_by_handler(microversions::DELETE_INVENTORIES)
            .id("deleteInventories")
            .summary("Deletes all inventories of a provider.")
            .returns_nothing(204, "The action is done."),
        PlacementOperation::get(
            "/resource_providers/{uuid}/inventories/{resource_class}",
            show,
        )
        .rule(admin_or_service(
            "placement:resource_providers:inventories:show",
        ))
        .id("showInventory")
        .summary("One inventory.")
        .returns_shape(200, "The current state.", one_inventory),
        PlacementOperation::put(
            "/resource_providers/{uuid}/inventories/{resource_class}",
            update,
        )
        .rule(UPDATE)
        .id("updateInventory")
        .summary("Changes one inventory.")
        .body(|| schemas::INVENTORY.to_json_schema())
        .returns_shape(200, "The state after the change.", one_inventory),
        PlacementOperation::delete(
            "/resource_providers/{uuid}/inventories/{resource_class}",
            delete,
        )
        .rule(DELETE)
        .id("deleteInventory")
        .summary("Deletes one inventory without allocations.")
        .returns_nothing(204, "The action is done."),
    ]
}

/// A single inventory includes the generation.
fn one_inventory(shapes: &mut Shapes) -> Value {
    let generation = json!({
        "type": "object",
        "properties": {"resource_provider_generation": {"type": "integer"}},
        "required": ["resource_provider_generation"],
    });
    json!({"allOf": [shapes.of::<wire::InventoryBody>(), generation]})
}

#[derive(Serialize)]
struct InventoryList<'a> {
    resource_provider_generation: i64,
    inventories: BTreeMap<&'a str, &'a InventoryRecord>,
}

#[derive(Serialize)]
struct Single<'a> {
    resource_provider_generation: i64,
    #[serde(flatten)]
    inventory: &'a InventoryRecord,
}

/// Messages differ by route; this handles the errors that all routes share.
fn plain(error: InventoryTableError) -> Fault {
    match error {
        InventoryTableError::Provider(error) => provider_fault(error),
        InventoryTableError::Sql(error) => database(error),
        InventoryTableError::Generation => {
            Fault::conflict(error.to_string()).with_code(codes::CONCURRENT_UPDATE)
        }
        InventoryTableError::NoSuchClass(_) => Fault::not_found(error.to_string()),
        InventoryTableError::InUse { .. } => {
            Fault::conflict(error.to_string()).with_code(codes::INVENTORY_INUSE)
        }
        other => {
            Fault::conflict(format!("update conflict: {other}")).with_code(codes::CONCURRENT_UPDATE)
        }
    }
}

async fn provider(tx: &mut berth_store::Transaction, uuid: &str) -> Result<ProviderRow, Fault> {
    providers::get(tx, uuid).await.map_err(|error| match error {
        ProviderError::NotFound(_) => Fault::not_found(format!(
            "No resource provider with uuid {uuid} found : {error}"
        )),
        other => provider_fault(other),
    })
}

async fn list(State(placement): State<Placement>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    call.check_accept()?;
    placement.allow(&call)?;
    let mut tx = read(&placement.store).await?;
    let provider = provider(&mut tx, call.path("uuid")?).await?;
    let records = inventories::of_provider(&mut tx, provider.id)
        .await
        .map_err(database)?;
    let listing = InventoryList {
        resource_provider_generation: provider.generation,
        inventories: records
            .iter()
            .map(|record| (record.class.as_str(), &record.inventory))
            .collect(),
    };
    let newest = records.iter().map(|record| record.modified).max();
    Ok(modified(ApiResponse::ok(&listing)?, &call, newest))
}

async fn show(State(placement): State<Placement>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    call.check_accept()?;
    placement.allow(&call)?;
    let (uuid, class) = (call.path("uuid")?, call.path("resource_class")?);
    let mut tx = read(&placement.store).await?;
    let provider = provider(&mut tx, uuid).await?;
    let records = inventories::of_provider(&mut tx, provider.id)
        .await
        .map_err(database)?;
    let record = records
        .iter()
        .find(|record| record.class == class)
        .ok_or_else(|| Fault::not_found(format!("No inventory of class {class} for {uuid}")))?;
    let single = Single {
        resource_provider_generation: provider.generation,
        inventory: &record.inventory,
    };
    Ok(modified(
        ApiResponse::ok(&single)?,
        &call,
        Some(record.modified),
    ))
}

#[derive(Deserialize)]
struct NewInventory {
    resource_class: String,
    #[serde(flatten)]
    inventory: InventoryRecord,
}

async fn create(
    State(placement): State<Placement>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    call.require_json()?;
    placement.allow_change(&call).await?;
    let uuid = call.path("uuid")?;
    must_exist(&placement, uuid).await?;
    let body: NewInventory = call.body(&schemas::NEW_INVENTORY)?;
    let add = Add {
        uuid: uuid.to_owned(),
        class: body.resource_class,
        inventory: body.inventory,
        version: call.version,
    };
    let provider = placement
        .snapshots
        .write(&add)
        .await
        .map_err(|error| match error {
            InventoryTableError::Reserved { .. } | InventoryTableError::NoSuchClass(_) => {
                Fault::bad_request(format!(
                    "Unable to create inventory for resource provider {uuid}: {error}"
                ))
            }
            InventoryTableError::Exists(_) | InventoryTableError::ConcurrentUpdate => {
                Fault::conflict(format!("Update conflict: {error}"))
                    .with_code(codes::CONCURRENT_UPDATE)
            }
            other => plain(other),
        })?;
    let single = Single {
        resource_provider_generation: provider.generation,
        inventory: &add.inventory,
    };
    let answer = ApiResponse::with_body(StatusCode::CREATED, &single)?;
    let path = format!("/resource_providers/{uuid}/inventories/{}", add.class);
    Ok(modified(answer, &call, None).located(&call, &path))
}

/// A missing provider is reported before a malformed body.
async fn must_exist(placement: &Placement, uuid: &str) -> Result<(), Fault> {
    let mut tx = read(&placement.store).await?;
    providers::get(&mut tx, uuid)
        .await
        .map(|_| ())
        .map_err(provider_fault)
}

#[derive(Deserialize)]
struct WantedInventories {
    resource_provider_generation: i64,
    inventories: BTreeMap<String, InventoryRecord>,
}

async fn set(State(placement): State<Placement>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    call.require_json()?;
    placement.allow_change(&call).await?;
    let uuid = call.path("uuid")?;
    must_exist(&placement, uuid).await?;
    let body: WantedInventories = call.body(&schemas::INVENTORIES)?;
    let set = SetAll {
        uuid: uuid.to_owned(),
        generation: Some(body.resource_provider_generation),
        inventories: body.inventories,
        version: call.version,
    };
    let provider = placement
        .snapshots
        .write(&set)
        .await
        .map_err(|error| match error {
            InventoryTableError::NoSuchClass(_) => Fault::bad_request(format!(
                "Unknown resource class in inventory for resource provider {uuid}: {error}"
            )),
            InventoryTableError::Reserved { .. } => cannot_update(uuid, &error),
            InventoryTableError::InUse { .. } => {
                Fault::conflict(format!("update conflict: {error}"))
                    .with_code(codes::INVENTORY_INUSE)
            }
            other => plain(other),
        })?;
    let listing = InventoryList {
        resource_provider_generation: provider.generation,
        inventories: set
            .inventories
            .iter()
            .map(|(class, inventory)| (class.as_str(), inventory))
            .collect(),
    };
    Ok(modified(ApiResponse::ok(&listing)?, &call, None))
}

fn cannot_update(uuid: &str, error: &InventoryTableError) -> Fault {
    Fault::bad_request(format!(
        "Unable to update inventory for resource provider {uuid}: {error}"
    ))
}

#[derive(Deserialize)]
struct ChangedInventory {
    resource_provider_generation: i64,
    #[serde(flatten)]
    inventory: InventoryRecord,
}

async fn update(
    State(placement): State<Placement>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    call.require_json()?;
    placement.allow_change(&call).await?;
    let uuid = call.path("uuid")?;
    must_exist(&placement, uuid).await?;
    let body: ChangedInventory = call.body(&schemas::INVENTORY)?;
    let change = ChangeInventory {
        uuid: uuid.to_owned(),
        class: call.path("resource_class")?.to_owned(),
        generation: body.resource_provider_generation,
        inventory: body.inventory,
        version: call.version,
    };
    let provider = placement
        .snapshots
        .write(&change)
        .await
        .map_err(|error| match error {
            InventoryTableError::Reserved { .. } => cannot_update(uuid, &error),
            InventoryTableError::NotFound(_) => Fault::bad_request(format!(
                "No inventory record with resource class for resource provider {uuid}: {error}"
            )),
            other => plain(other),
        })?;
    let single = Single {
        resource_provider_generation: provider.generation,
        inventory: &change.inventory,
    };
    Ok(modified(ApiResponse::ok(&single)?, &call, None))
}

async fn delete(
    State(placement): State<Placement>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    placement.allow_change(&call).await?;
    let remove = Remove {
        uuid: call.path("uuid")?.to_owned(),
        class: call.path("resource_class")?.to_owned(),
    };
    let class = &remove.class;
    placement
        .snapshots
        .write(&remove)
        .await
        .map_err(|error| match error {
            InventoryTableError::InUse { .. } | InventoryTableError::ConcurrentUpdate => {
                Fault::conflict(format!(
                    "Unable to delete inventory of class {class}: {error}"
                ))
                .with_code(codes::CONCURRENT_UPDATE)
            }
            InventoryTableError::NoSuchClass(_) => Fault::not_found(format!(
                "No inventory of class {class} found for delete: {error}"
            )),
            InventoryTableError::NotFound(_) => Fault::not_found(format!(
                "No inventory of class {class} found for delete: \
                 No inventory of class {class} found for delete"
            )),
            other => plain(other),
        })?;
    Ok(ApiResponse::no_content())
}

async fn delete_all(
    State(placement): State<Placement>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    if !call.version.has(microversions::DELETE_INVENTORIES) {
        return Err(Fault::new(StatusCode::METHOD_NOT_ALLOWED, ""));
    }
    placement.allow_change(&call).await?;
    let uuid = call.path("uuid")?;
    let none = SetAll {
        uuid: uuid.to_owned(),
        generation: None,
        inventories: BTreeMap::new(),
        version: call.version,
    };
    placement
        .snapshots
        .write(&none)
        .await
        .map_err(|error| match error {
            InventoryTableError::ConcurrentUpdate => Fault::conflict(format!(
                "Unable to delete inventory for resource provider {uuid} because the inventory \
                 was updated by another process. Please retry your request."
            ))
            .with_code(codes::CONCURRENT_UPDATE),
            other => plain(other),
        })?;
    Ok(ApiResponse::no_content())
}
