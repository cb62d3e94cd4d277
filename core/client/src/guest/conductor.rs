//! Client of the conductor's guest API.

use berth_model::ConsumerUuid;
use berth_wire::conductor::{CreateGuest, DecisionShown, GuestShown, GuestsShown, SchedulingShown};
use berth_wire::encode;
use http::Method;

use super::GuestApiError;
use super::responses::{parsed, unless_not_found};
use crate::adapter::AdapterCall;
use crate::placement::DeleteOutcome;
use crate::{Adapter, AdapterOptions, Auth, HttpService};

const ALL: &str = "/v1/guests";
const ONE: &str = "/v1/guests/{uuid}";
const SCHEDULING: &str = "/v1/guests/{uuid}/scheduling";

/// A client of the conductor. Clones share connections.
#[derive(Clone)]
pub struct ConductorClient {
    adapter: Adapter,
}

impl ConductorClient {
    /// The conductor through `http`; the endpoint of `auth` is its root, without `/v1`.
    #[must_use]
    pub fn new(http: HttpService, auth: Auth, options: &AdapterOptions) -> Self {
        Self {
            adapter: Adapter::new("conductor", http, auth, options),
        }
    }

    /// POST /v1/guests: requests a guest. The conductor accepts it, or refuses with a reason. Repeating
    /// the request is safe.
    pub async fn create(&self, guest: &CreateGuest) -> Result<GuestShown, GuestApiError> {
        let body = Some(encode(guest));
        let call = AdapterCall::new(Method::POST, ALL, ALL.to_owned(), body);
        parsed(self.adapter.call(call).await?)
    }

    pub async fn guests(&self) -> Result<GuestsShown, GuestApiError> {
        let call = AdapterCall::new(Method::GET, ALL, ALL.to_owned(), None);
        parsed(self.adapter.call(call).await?)
    }

    /// GET /v1/guests/{uuid}; `None` if the conductor does not have it.
    pub async fn guest(&self, uuid: ConsumerUuid) -> Result<Option<GuestShown>, GuestApiError> {
        let call = AdapterCall::new(Method::GET, ONE, format!("{ALL}/{uuid}"), None);
        let answer = unless_not_found(self.adapter.call(call).await?)?;
        answer.map(parsed).transpose()
    }

    /// GET /v1/guests/{uuid}/scheduling: the scheduling decision, if one is stored.
    pub async fn scheduling(
        &self,
        uuid: ConsumerUuid,
    ) -> Result<Vec<DecisionShown>, GuestApiError> {
        let path = format!("{ALL}/{uuid}/scheduling");
        let call = AdapterCall::new(Method::GET, SCHEDULING, path, None);
        let shown: SchedulingShown = parsed(self.adapter.call(call).await?)?;
        Ok(shown.decisions)
    }

    /// DELETE /v1/guests/{uuid}: requests the deletion of guest, accelerator requests and allocation. It is complete
    /// when [`ConductorClient::guest`] finds nothing.
    pub async fn delete(&self, uuid: ConsumerUuid) -> Result<DeleteOutcome, GuestApiError> {
        let call = AdapterCall::new(Method::DELETE, ONE, format!("{ALL}/{uuid}"), None);
        let answer = unless_not_found(self.adapter.call(call).await?)?;
        Ok(answer.map_or(DeleteOutcome::AlreadyGone, |_| DeleteOutcome::Deleted))
    }
}
