//! /v2/accelerator_requests: create, list, show, bind, unbind and delete ARQs.

use std::collections::BTreeSet;

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault, RuleDefault};
use berth_model::{ArqUuid, ConsumerUuid};
use berth_wire::accelerator::{
    ArqBody, ArqList, BindPatch, CreateArqs as CreateArqsBody, PatchBody, read_patch,
};
use http::StatusCode;

use super::{database, link, read, require};
use crate::handlers::device_profiles;
use crate::microversions;
use crate::policies::{member, reader};
use crate::router::{AcceleratorApi, AcceleratorOperation};
use crate::store::arqs::{
    self, ArqError, ArqFilters, ArqRow, ArqScope, ArqSelection, CreateArqs, DeleteArqs,
    LONGEST_PROJECT, ServiceVouch,
};
use crate::store::bind::{BindRefusal, PatchArqs, PatchOutcome};

const UPDATE: RuleDefault = member("cyborg:arq:update");
const DELETE: RuleDefault = member("cyborg:arq:delete");

pub(super) fn operations() -> Vec<AcceleratorOperation> {
    vec![
        AcceleratorOperation::get("/v2/accelerator_requests", list)
            .rule(reader("cyborg:arq:get_all")),
        AcceleratorOperation::post("/v2/accelerator_requests", create)
            .rule(member("cyborg:arq:create")),
        AcceleratorOperation::patch("/v2/accelerator_requests", patch).rule(UPDATE),
        AcceleratorOperation::delete("/v2/accelerator_requests", delete).rule(DELETE),
        AcceleratorOperation::get("/v2/accelerator_requests/{uuid}", show)
            .rule(reader("cyborg:arq:get_one")),
        // OpenStack's client sends PATCH here, with the same body.
        AcceleratorOperation::patch("/v2/accelerator_requests/{uuid}", patch).rule(UPDATE),
        AcceleratorOperation::delete("/v2/accelerator_requests/{uuid}", delete_one).rule(DELETE),
    ]
}

pub(super) fn fault(error: ArqError) -> Fault {
    match error {
        ArqError::NotFound(_) => Fault::not_found(error.to_string()),
        ArqError::BoundToInstance { .. } | ArqError::TooMany { .. } => {
            Fault::forbidden(error.to_string())
        }
        ArqError::InstanceHasRequests(_) | ArqError::Transition { .. } => {
            Fault::bad_request(error.to_string())
        }
        ArqError::Raced => Fault::conflict(error.to_string()),
        ArqError::Profile(error) => device_profiles::fault(error),
        ArqError::Read(error) => database(error),
    }
}

fn refused(refused: &BindRefusal) -> Fault {
    let message = refused.to_string();
    match refused {
        BindRefusal::UnknownProvider(_) => Fault::not_found(message),
        BindRefusal::WrongHost { .. }
        | BindRefusal::WrongClass { .. }
        | BindRefusal::Programming { .. }
        | BindRefusal::TwoPrograms { .. } => Fault::bad_request(message),
        BindRefusal::Disabled(_)
        | BindRefusal::Vanished(_)
        | BindRefusal::Sick { .. }
        | BindRefusal::InUse(_)
        | BindRefusal::BeingProgrammed(_)
        | BindRefusal::Exhausted { .. } => Fault::conflict(message),
        // Temporary: the device is being cleaned.
        BindRefusal::Unclean { .. } => Fault::unavailable(message),
    }
}

fn body(call: &ApiRequest, row: &ArqRow) -> ArqBody {
    ArqBody {
        links: vec![link(call, "accelerator_requests", row.arq.uuid)],
        created_at: row.created_at.clone(),
        updated_at: row.updated_at.clone(),
        ..ArqBody::from(&row.arq)
    }
}

fn listing(call: &ApiRequest, rows: &[ArqRow]) -> ArqList {
    ArqList {
        arqs: rows.iter().map(|row| body(call, row)).collect(),
    }
}

/// The requests that the caller may change.
fn scope(call: &ApiRequest) -> ArqScope {
    if let Some(host) = call.caller.only_host() {
        return ArqScope::Host(host.to_owned());
    }
    if call.caller.has_role("admin") || call.caller.has_role("service") {
        return ArqScope::All;
    }
    ArqScope::Project(call.caller.project_id().unwrap_or_default().to_owned())
}

/// The requests that the caller may see.
fn readable(call: &ApiRequest) -> ArqScope {
    match scope(call) {
        // An agent waits for the binds of its guests' requests, which have no host before.
        ArqScope::Host(host) => ArqScope::HostOrUnbound(host),
        other => other,
    }
}

/// Checks the length of a project id.
fn project(id: &str) -> Result<&str, Fault> {
    match id.chars().count() {
        0..=LONGEST_PROJECT => Ok(id),
        _ => Err(Fault::bad_request(format!(
            "project_id: at most {LONGEST_PROJECT} characters are allowed"
        ))),
    }
}

fn bad_instance(text: &str) -> Fault {
    Fault::bad_request(format!("{text:?} is no UUID of an instance"))
}

async fn create(
    State(accelerator): State<AcceleratorApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    accelerator.allow(&call)?;
    call.refuse_host_account()?;
    let body: CreateArqsBody = call.typed()?;
    let profile = body
        .device_profile_name
        .filter(|name| !name.is_empty())
        .ok_or_else(|| Fault::bad_request("DeviceProfile name needed."))?;
    let project_id = call.caller.project_id().unwrap_or_default();
    let create = CreateArqs {
        profile,
        project_id: project(project_id)?.to_owned(),
        max_unbound: match scope(&call) {
            ArqScope::All => None,
            _ => Some(accelerator.options.max_unbound_requests),
        },
    };
    let made = accelerator.tables.write(&create).await.map_err(fault)?;
    ApiResponse::with_body(StatusCode::CREATED, &listing(&call, &made))
}

/// Whether only requests with a finished binding are listed (`bind_state=resolved`).
fn wants_resolved(call: &ApiRequest) -> Result<bool, Fault> {
    match call.query.last("bind_state") {
        None => Ok(false),
        Some("resolved") => Ok(true),
        Some(other) => Err(Fault::bad_request(format!(
            "Accelerator Requests cannot be requested with bind_state {other}."
        ))),
    }
}

async fn list(
    State(accelerator): State<AcceleratorApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    accelerator.allow(&call)?;
    let resolved = wants_resolved(&call)?;
    let instance = call
        .query
        .last("instance")
        .map(|text| text.parse::<ConsumerUuid>().map_err(|_| bad_instance(text)))
        .transpose()?;
    let mut tx = read(&accelerator.tables).await?;
    let mut rows = arqs::find(&mut tx, &readable(&call), ArqFilters { instance })
        .await
        .map_err(database)?;
    if resolved {
        let all = rows.len();
        rows.retain(|row| row.arq.state.phase().is_resolved());
        if instance.is_some() && rows.len() < all {
            return Ok(ApiResponse::empty(StatusCode::LOCKED));
        }
    }
    ApiResponse::ok(&listing(&call, &rows))
}

async fn show(
    State(accelerator): State<AcceleratorApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    accelerator.allow(&call)?;
    let uuid = ArqUuid::from(super::uuid(&call, "ExtArq")?);
    let mut tx = read(&accelerator.tables).await?;
    let rows = arqs::of_uuids(&mut tx, &readable(&call), &[uuid])
        .await
        .map_err(database)?;
    match rows.first() {
        Some(row) => ApiResponse::ok(&body(&call, row)),
        None => Err(fault(ArqError::NotFound(vec![uuid]))),
    }
}

async fn patch(
    State(accelerator): State<AcceleratorApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    accelerator.allow(&call)?;
    let steps: PatchBody = call.typed()?;
    let patches = read_patch(&steps)
        .map_err(|error| Fault::bad_request(format!("Couldn't apply patch. Reason: {error}")))?;
    if patches.is_empty() {
        return Err(Fault::bad_request(
            "Couldn't apply patch. Reason: it names no accelerator request.",
        ));
    }
    let mut projects = patches.values().filter_map(|patch| match patch {
        BindPatch::Bind { project_id, .. } => project_id.as_deref(),
        BindPatch::Unbind => None,
    });
    if let Some(named) = projects.next() {
        for named in [named].into_iter().chain(projects) {
            project(named)?;
        }
        require(&call, microversions::BIND_PROJECT)?;
        if !call.caller.has_role("admin") {
            return Err(Fault::forbidden(
                "Only an administrator names the project of an accelerator request.",
            ));
        }
    }
    if accelerator.vouched(&call) == ServiceVouch::No {
        return Err(no_service_token());
    }
    let patch = PatchArqs {
        patches,
        scope: scope(&call),
        bind_timeout: accelerator.options.bind_timeout,
    };
    let outcome = accelerator.tables.write(&patch).await.map_err(fault)?;
    accelerator.notify();
    match outcome {
        PatchOutcome::Done => Ok(ApiResponse::empty(StatusCode::ACCEPTED)),
        PatchOutcome::Refused(reason) => Err(refused(&reason)),
    }
}

fn no_service_token() -> Fault {
    Fault::forbidden(
        "This operation requires a service token. Use the Compute API to manage instance \
         accelerators.",
    )
}

async fn delete(
    State(accelerator): State<AcceleratorApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    accelerator.allow(&call)?;
    let vouched = accelerator.vouched(&call);
    let doomed = match (call.query.last("arqs"), call.query.last("instance")) {
        (Some(arqs), None) => ArqSelection::Uuids(uuids(arqs)?),
        (None, Some(_)) if vouched == ServiceVouch::No => return Err(no_service_token()),
        (None, Some(text)) => ArqSelection::Instance(text.parse().map_err(|_| bad_instance(text))?),
        (Some(_), Some(_)) | (None, None) => {
            return Err(Fault::bad_request(
                "Provide either an ARQ uuid list or an instance UUID",
            ));
        }
    };
    delete_all(&accelerator, &call, doomed).await
}

/// Undocumented in Cyborg, but used by OpenStack's client.
async fn delete_one(
    State(accelerator): State<AcceleratorApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    accelerator.allow(&call)?;
    let uuid = ArqUuid::from(super::uuid(&call, "ExtArq")?);
    delete_all(&accelerator, &call, ArqSelection::Uuids(vec![uuid])).await
}

async fn delete_all(
    accelerator: &AcceleratorApi,
    call: &ApiRequest,
    doomed: ArqSelection,
) -> Result<ApiResponse, Fault> {
    let delete = DeleteArqs {
        doomed,
        scope: scope(call),
        vouched: accelerator.vouched(call),
    };
    let missing = accelerator.tables.write(&delete).await.map_err(fault)?;
    if missing.is_empty() {
        return Ok(ApiResponse::no_content());
    }
    Err(fault(ArqError::NotFound(missing)))
}

/// The UUIDs of a list, each once.
fn uuids(list: &str) -> Result<Vec<ArqUuid>, Fault> {
    let uuids: BTreeSet<ArqUuid> = list
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(|part| {
            part.parse()
                .map_err(|_| Fault::bad_request(format!("{part:?} is no UUID of an ARQ")))
        })
        .collect::<Result<_, _>>()?;
    if uuids.is_empty() {
        return Err(Fault::bad_request("The list of ARQs is empty"));
    }
    Ok(uuids.into_iter().collect())
}
