//! POST /reshaper: moves inventories and their allocations in one call.

use std::collections::BTreeMap;

use berth_model::{Generation, ProviderUuid, ReshapeRequest};
use berth_wire::encode;
use berth_wire::placement::ReshaperBody;
use http::Method;

use super::{PlacementClient, PlacementError, pins, write};
use crate::adapter::AdapterCall;
use crate::call::Repeat;

const ROUTE: &str = "/reshaper";
/// The timeout of a reshape, as a multiple of the usual one: OpenStack's Placement takes about 10 ms for each consumer.
pub(super) const TIMEOUT_FACTOR: u32 = 10;

impl PlacementClient {
    /// Executes a reshape. `generations` must contain the current ones of all providers whose inventory the reshape
    /// sets, including new children. Afterwards every generation must be read again, because Placement raises them
    /// by more than one.
    ///
    /// It is sent once. If the answer is lost ([`crate::ServiceCallError::AnswerLost`]) or a proxy timed out, it may
    /// have been executed: the disposition is Refresh, and reading the tree shows it.
    ///
    /// Errors: A missing generation, no answer, or a refusal (generation conflict, missing
    /// role `service`, invalid request).
    pub async fn reshape(
        &self,
        request: &ReshapeRequest,
        generations: &BTreeMap<ProviderUuid, Generation>,
    ) -> Result<(), PlacementError> {
        let body = encode(&ReshaperBody::new(
            request.inventories(),
            request.allocations(),
            generations,
        )?);
        let call = write(
            Method::POST,
            ROUTE,
            ROUTE.to_owned(),
            pins::RESHAPER,
            Some(body),
        );
        self.send_expecting_success(AdapterCall {
            repeat: Repeat::Once,
            patience: TIMEOUT_FACTOR,
            ..call
        })
        .await
    }
}
