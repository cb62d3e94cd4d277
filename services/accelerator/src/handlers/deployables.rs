//! /v2/deployables: list, show and program deployables.

use std::time::Duration;

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault, RuleDefault};
use berth_store::SqlTimestamp;
use berth_wire::accelerator::{
    DeployableBody, DeployableList, DocumentLink, ProgramStep, read_program,
};
use http::StatusCode;
use uuid::Uuid;

use super::{database, link, read, url, uuid};
use crate::policies::{admin, manager};
use crate::router::{AcceleratorApi, AcceleratorOperation};
use crate::store::deployables;
use crate::store::programmings::{
    BeginProgram, EndLateProgrammings, ProgramError, ProgrammingProgress, progress,
};

const PROGRAM: RuleDefault = admin("cyborg:deployable:program");

pub(super) fn operations() -> Vec<AcceleratorOperation> {
    vec![
        AcceleratorOperation::get("/v2/deployables", list)
            .rule(manager("cyborg:deployable:get_all")),
        AcceleratorOperation::get("/v2/deployables/{uuid}", show)
            .rule(manager("cyborg:deployable:get_one")),
        AcceleratorOperation::patch("/v2/deployables/{uuid}/program", program).rule(PROGRAM),
        // OpenStack's client sends PATCH here, with the same body. Cyborg has no such route.
        AcceleratorOperation::patch("/v2/deployables/{uuid}/program/{same}", program_twice_named)
            .rule(PROGRAM),
    ]
}

/// The polling interval while waiting for the end of a programming.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

fn body(call: &ApiRequest, deployable: DeployableBody) -> DeployableBody {
    let bookmark = DocumentLink {
        href: url(call, &format!("/deployables/{}", deployable.uuid)),
        rel: "bookmark".to_owned(),
    };
    DeployableBody {
        links: vec![link(call, "deployables", deployable.uuid), bookmark],
        ..deployable
    }
}

async fn list(
    State(accelerator): State<AcceleratorApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    accelerator.allow(&call)?;
    let mut tx = read(&accelerator.tables).await?;
    let found = deployables::list(&mut tx).await.map_err(database)?;
    let deployables = found.into_iter().map(|each| body(&call, each)).collect();
    ApiResponse::ok(&DeployableList { deployables })
}

async fn show(
    State(accelerator): State<AcceleratorApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    accelerator.allow(&call)?;
    let uuid = uuid(&call, "Deployable")?;
    document(&accelerator, &call, uuid).await
}

async fn document(
    accelerator: &AcceleratorApi,
    call: &ApiRequest,
    uuid: Uuid,
) -> Result<ApiResponse, Fault> {
    let mut tx = read(&accelerator.tables).await?;
    match deployables::get(&mut tx, uuid).await.map_err(database)? {
        Some(found) => ApiResponse::ok(&body(call, found)),
        None => Err(Fault::not_found(format!(
            "Deployable not found with uuid={uuid}"
        ))),
    }
}

fn refused(error: ProgramError) -> Fault {
    match error {
        ProgramError::NotFound(_) => Fault::not_found(error.to_string()),
        ProgramError::NotProgrammable { .. } | ProgramError::Unfit { .. } => {
            Fault::conflict(error.to_string())
        }
        ProgramError::Read(error) => database(error),
    }
}

/// The same operation under the path that OpenStack's client uses, which repeats the deployable.
async fn program_twice_named(
    accelerator: State<AcceleratorApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    if call.path("same")? != call.path("uuid")? {
        return Err(Fault::no_such_route());
    }
    program(accelerator, call).await
}

/// Answers once the device is programmed, like Cyborg. If the caller disconnects, the programming continues.
async fn program(
    State(accelerator): State<AcceleratorApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    accelerator.allow(&call)?;
    let deployable = uuid(&call, "Deployable")?;
    let steps: Vec<ProgramStep> = call.typed()?;
    let image = read_program(&steps)
        .map_err(|error| Fault::bad_request(format!("Couldn't apply patch. Reason: {error}")))?;
    let begin = BeginProgram {
        deployable,
        image,
        deadline: SqlTimestamp::now().after(accelerator.options.bind_timeout),
    };
    let programming = accelerator.tables.write(&begin).await.map_err(refused)?;
    loop {
        let notified = accelerator.programmed.notified();
        let mut tx = read(&accelerator.tables).await?;
        let far = progress(&mut tx, programming).await.map_err(database)?;
        drop(tx);
        match far {
            ProgrammingProgress::Done => return document(&accelerator, &call, deployable).await,
            ProgrammingProgress::Failed(reason) => {
                let message = format!("Deployable {deployable} was not programmed: {reason}");
                return Err(Fault::new(StatusCode::INTERNAL_SERVER_ERROR, message));
            }
            ProgrammingProgress::InProgress => {}
        }
        if SqlTimestamp::now() > begin.deadline {
            let now = SqlTimestamp::now();
            let late = EndLateProgrammings {
                now,
                forget: now.before(accelerator.options.bind_timeout),
            };
            accelerator
                .tables
                .write(&late)
                .await
                .map_err(super::accelerator_requests::fault)?;
            continue;
        }
        tokio::select! {
            () = notified => {}
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
    }
}
