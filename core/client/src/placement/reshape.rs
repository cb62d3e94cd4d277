//! POST /reshaper: inventories and the allocations on them, moved in one call.

use std::collections::BTreeMap;

use berth_model::{Generation, ProviderUuid, ReshapeRequest};
use berth_wire::encode;
use berth_wire::placement::ReshaperBody;
use http::Method;

use super::{PlacementClient, PlacementError, pins, write};
use crate::adapter::Call;
use crate::call::Repeat;

const ROUTE: &str = "/reshaper";
/// The real Placement takes some 10 ms per consumer.
pub(super) const PATIENCE: u32 = 10;

impl PlacementClient {
    /// Carries out a reshape. `generations` are those of all providers whose inventory it sets, as last answered (created
    /// children included). Afterwards every generation has to be read again: Placement moves them by more than one.
    ///
    /// It is sent once. If the answer is lost ([`crate::CallError::AnswerLost`]), or a proxy gave up waiting, it may have been
    /// carried out: the error's disposition is Refresh, and reading the tree tells.
    ///
    /// # Errors
    /// A generation is missing, no answer, or a refusal (another generation, no role `service`, does not fit).
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
        self.done(Call {
            repeat: Repeat::Once,
            patience: PATIENCE,
            ..call
        })
        .await
    }
}
