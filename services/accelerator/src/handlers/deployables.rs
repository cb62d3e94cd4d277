//! /v2/deployables

use axum::extract::State;
use berth_http::{Answer, Call, Fault};
use berth_wire::accelerator::{DeployableBody, DeployableList, Link};

use super::{database, link, read, uuid};
use crate::policies;
use crate::router::Accelerator;
use crate::store::deployables;

fn body(call: &Call, deployable: DeployableBody) -> DeployableBody {
    let bookmark = Link {
        href: call.absolute(&format!("/accelerator/deployables/{}", deployable.uuid)),
        rel: "bookmark".to_owned(),
    };
    DeployableBody {
        links: vec![link(call, "deployables", deployable.uuid), bookmark],
        ..deployable
    }
}

pub(crate) async fn list(
    State(accelerator): State<Accelerator>,
    call: Call,
) -> Result<Answer, Fault> {
    accelerator.allow(&call, policies::DEPLOYABLE_GET_ALL)?;
    let mut tx = read(&accelerator.store).await?;
    let found = deployables::list(&mut tx).await.map_err(database)?;
    let deployables = found.into_iter().map(|each| body(&call, each)).collect();
    Answer::ok(&DeployableList { deployables })
}

pub(crate) async fn show(
    State(accelerator): State<Accelerator>,
    call: Call,
) -> Result<Answer, Fault> {
    accelerator.allow(&call, policies::DEPLOYABLE_GET_ONE)?;
    let uuid = uuid(&call, "Deployable")?;
    let mut tx = read(&accelerator.store).await?;
    match deployables::get(&mut tx, uuid).await.map_err(database)? {
        Some(found) => Answer::ok(&body(&call, found)),
        None => Err(Fault::not_found(format!(
            "Deployable not found with uuid={uuid}"
        ))),
    }
}
