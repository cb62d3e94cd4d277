//! /resource_classes: list, show, create, rename and delete resource classes.

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault};
use berth_wire::placement as wire;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{database, modified, read};
use crate::policies::admin_or_service;
use crate::router::{Placement, PlacementOperation};
use crate::store::resource_classes::{
    self, ClassEnsured, ClassError, DeleteClass, EnsureClass, RenameClass, is_standard,
};
use crate::{microversions, schemas};

pub(super) fn operations() -> Vec<PlacementOperation> {
    vec![
        PlacementOperation::get("/resource_classes", list)
            .rule(admin_or_service("placement:resource_classes:list"))
            .since(microversions::RESOURCE_CLASSES)
            .id("listResourceClasses")
            .summary("Lists resource classes.")
            .returns::<wire::ResourceClassList>(200, "The current state."),
        PlacementOperation::post("/resource_classes", create)
            .rule(admin_or_service("placement:resource_classes:create"))
            .since(microversions::RESOURCE_CLASSES)
            .id("createResourceClass")
            .summary("Creates a resource class.")
            .body(|| schemas::RESOURCE_CLASS.to_json_schema())
            .returns_nothing(201, "The object is created."),
        PlacementOperation::get("/resource_classes/{name}", show)
            .rule(admin_or_service("placement:resource_classes:show"))
            .since(microversions::RESOURCE_CLASSES)
            .id("showResourceClass")
            .summary("Shows a resource class.")
            .returns::<wire::ResourceClassBody>(200, "The current state."),
        PlacementOperation::put("/resource_classes/{name}", update)
            .rule(admin_or_service("placement:resource_classes:update"))
            .since(microversions::RESOURCE_CLASSES)
            .id("ensureResourceClass")
            .summary("Creates a resource class unless it exists.")
            .older("Before 1.7 it takes a body with another name for the class, and answers 200.")
            .returns_nothing(201, "The object is created.")
            .returns_nothing(204, "The object already existed."),
        PlacementOperation::delete("/resource_classes/{name}", delete)
            .rule(admin_or_service("placement:resource_classes:delete"))
            .since(microversions::RESOURCE_CLASSES)
            .id("deleteResourceClass")
            .summary("Deletes a custom resource class that no inventory uses.")
            .returns_nothing(204, "The action is done."),
    ]
}

#[derive(Serialize)]
struct ClassLink {
    rel: &'static str,
    href: String,
}

#[derive(Serialize)]
struct ResourceClassDocument<'a> {
    name: &'a str,
    links: [ClassLink; 1],
}

#[derive(Serialize)]
struct ResourceClassList<'a> {
    resource_classes: Vec<ResourceClassDocument<'a>>,
}

fn url(name: &str) -> String {
    format!("/resource_classes/{name}")
}

fn document<'a>(name: &'a str, call: &ApiRequest) -> ResourceClassDocument<'a> {
    ResourceClassDocument {
        name,
        links: [ClassLink {
            rel: "self",
            href: call.href(&url(name)),
        }],
    }
}

fn fault(error: ClassError) -> Fault {
    match error {
        ClassError::NotFound(_) => Fault::not_found(error.to_string()),
        ClassError::Sql(error) => database(error),
        ClassError::DeleteStandard(_) => {
            Fault::bad_request(format!("Error in delete resource class: {error}"))
        }
        ClassError::InUse(_) => Fault::conflict(format!("Error in delete resource class: {error}")),
        ClassError::UpdateStandard(_) => Fault::bad_request(error.to_string()),
        ClassError::Exists(name) => {
            Fault::conflict(format!("Resource class already exists: {name}"))
        }
    }
}

async fn list(State(placement): State<Placement>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    call.check_accept()?;
    placement.allow(&call)?;
    let mut tx = read(&placement.store).await?;
    let classes = resource_classes::list(&mut tx).await.map_err(database)?;
    let listing = ResourceClassList {
        resource_classes: classes
            .iter()
            .map(|class| document(&class.name, &call))
            .collect(),
    };
    let newest = classes.iter().filter_map(|class| class.modified).max();
    Ok(modified(ApiResponse::ok(&listing)?, &call, newest))
}

async fn show(State(placement): State<Placement>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    call.check_accept()?;
    placement.allow(&call)?;
    let mut tx = read(&placement.store).await?;
    let class = resource_classes::get(&mut tx, call.path("name")?)
        .await
        .map_err(fault)?;
    let answer = ApiResponse::ok(&document(&class.name, &call))?;
    Ok(modified(answer, &call, class.modified))
}

#[derive(Deserialize)]
struct ClassName {
    name: String,
}

async fn create(
    State(placement): State<Placement>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    call.require_json()?;
    placement.allow(&call)?;
    let ClassName { name } = call.body(&schemas::RESOURCE_CLASS)?;
    let location = url(&name);
    let taken = format!("Conflicting resource class already exists: {name}");
    match placement.snapshots.write(&EnsureClass { name }).await {
        Ok(ClassEnsured::Made) => {
            Ok(ApiResponse::empty(StatusCode::CREATED).located(&call, &location))
        }
        Ok(ClassEnsured::Found) => Err(Fault::conflict(taken)),
        Err(error) => Err(fault(error)),
    }
}

async fn update(
    State(placement): State<Placement>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    if call.version.has(microversions::CLASS_PUT_CREATES) {
        ensure(&placement, &call).await
    } else {
        rename(&placement, &call).await
    }
}

async fn ensure(placement: &Placement, call: &ApiRequest) -> Result<ApiResponse, Fault> {
    placement.allow(call)?;
    let name = call.path("name")?;
    schemas::RESOURCE_CLASS
        .check(&json!({ "name": name }))
        .map_err(|violation| Fault::bad_request(format!("JSON does not validate: {violation}")))?;
    let ensure = EnsureClass {
        name: name.to_owned(),
    };
    let answer = match placement.snapshots.write(&ensure).await.map_err(fault)? {
        ClassEnsured::Made => ApiResponse::empty(StatusCode::CREATED),
        ClassEnsured::Found => ApiResponse::no_content(),
    };
    Ok(answer.located(call, &url(name)))
}

async fn rename(placement: &Placement, call: &ApiRequest) -> Result<ApiResponse, Fault> {
    call.require_json()?;
    placement.allow(call)?;
    call.refuse_host_account()?;
    let from = call.path("name")?.to_owned();
    let ClassName { name: to } = call.body(&schemas::RESOURCE_CLASS)?;
    if is_standard(&from) {
        return Err(fault(ClassError::UpdateStandard(from)));
    }
    let rename = RenameClass { from, to };
    placement.snapshots.write(&rename).await.map_err(fault)?;
    ApiResponse::ok(&document(&rename.to, call))
}

async fn delete(
    State(placement): State<Placement>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    placement.allow(&call)?;
    call.refuse_host_account()?;
    let delete = DeleteClass {
        name: call.path("name")?.to_owned(),
    };
    placement.snapshots.write(&delete).await.map_err(fault)?;
    Ok(ApiResponse::no_content())
}
