//! /reshaper: inventories and allocations in one step, all or nothing.

use std::collections::BTreeMap;

use axum::extract::State;
use berth_http::{Answer, Call, Fault, Microversion};
use serde::Deserialize;

use super::allocations::{Body, consumers, replace_fault};
use super::require;
use crate::inventory::Inventory;
use crate::router::{Options, Placement};
use crate::store::replace::{Replace, ReplaceError, Reshaped};
use crate::{microversions, policies, schemas};

/// The body. The schema has checked what the version demands.
#[derive(Deserialize)]
pub(crate) struct Reshape {
    inventories: BTreeMap<String, AtProvider>,
    allocations: BTreeMap<String, Body>,
}

#[derive(Deserialize)]
struct AtProvider {
    resource_provider_generation: i64,
    inventories: BTreeMap<String, Inventory>,
}

impl Reshape {
    /// What is to be written.
    pub(crate) fn replace(self, version: Microversion, options: &Options) -> Replace {
        let providers = self.inventories.into_iter();
        let providers = providers.map(|(provider, at)| Reshaped {
            provider,
            generation: at.resource_provider_generation,
            inventories: at.inventories,
        });
        Replace {
            providers: providers.collect(),
            consumers: consumers(self.allocations, version, options),
        }
    }
}

pub(crate) async fn reshape(
    State(placement): State<Placement>,
    call: Call,
) -> Result<Answer, Fault> {
    require(&call, microversions::RESHAPER)?;
    call.require_json()?;
    placement.allow(&call, policies::RESHAPE)?;
    let body: Reshape = call.body(&schemas::reshape(call.version))?;
    let replace = body.replace(call.version, &placement.options);
    placement
        .snapshots
        .write(&replace)
        .await
        .map_err(|error| match error {
            ReplaceError::NoSuchClass(_) => {
                Fault::bad_request(format!("malformed reshaper data: {error}"))
            }
            other => replace_fault(&other),
        })?;
    Ok(Answer::no_content())
}
