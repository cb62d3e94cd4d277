//! The agent's guests.

use berth_model::ConsumerUuid;
use berth_wire::compute::{ServerExternalEvent, ServerExternalEvents};
use berth_wire::encode;
use berth_wire::guest::{
    ActionId, GuestAction, GuestBody, GuestBuild, GuestList, PlaceBody, Places, PlacesAsked,
};
use http::Method;

use super::GuestApiError;
use super::reading::{done, found, parsed};
use crate::adapter::Call;
use crate::call::Repeat;
use crate::placement::Deleted;
use crate::{Adapter, AdapterOptions, Auth, HttpService};

const ALL: &str = "/v1/guests";
const ONE: &str = "/v1/guests/{uuid}";
const PLACES: &str = "/v1/guests/places";
const ACTION: &str = "/v1/guests/{uuid}/action";
const CONSOLE: &str = "/v1/guests/{uuid}/console";
const EVENTS: &str = "/v2.1/os-server-external-events";

/// The microversion of the Compute API from which accelerator requests' events are known.
const EVENTS_SINCE: (u16, u16) = (2, 82);

/// How many times the usual time limit an action may take: a guest that is stopped may have ten minutes to end by itself.
const PATIENCE: u32 = 11;

/// The guests of one agent. Clones share connections.
#[derive(Clone)]
pub struct GuestClient {
    adapter: Adapter,
    /// The same agent where it speaks as Nova does.
    as_nova: Adapter,
}

impl GuestClient {
    /// The agent through `http`; the endpoint of `auth` is its root, without `/v1`. Over a unix socket its host is not looked
    /// at.
    #[must_use]
    pub fn new(http: HttpService, auth: Auth, options: &AdapterOptions) -> Self {
        Self {
            as_nova: Adapter::new("compute", http.clone(), auth.clone(), options),
            adapter: Adapter::new("agent", http, auth, options),
        }
    }

    /// POST /v1/guests: the guest will run, or the agent will say why it does not. The same again is the same guest.
    pub async fn build(&self, build: &GuestBuild) -> Result<GuestBody, GuestApiError> {
        self.build_of(encode(build)).await
    }

    /// The same with a body made by hand: whatever form of a request the agent knows.
    pub async fn build_of(&self, body: Vec<u8>) -> Result<GuestBody, GuestApiError> {
        let call = Call {
            // Whoever asks again asks from the start; so that it is known of this request whether it arrived.
            repeat: Repeat::Once,
            ..call(Method::POST, ALL, ALL.to_owned(), Some(body))
        };
        parsed(self.adapter.call(call).await?)
    }

    /// POST /v1/guests/places: where a guest would be with each of the allocations, in their order. Nothing is done.
    pub async fn places(&self, asked: &PlacesAsked) -> Result<Vec<PlaceBody>, GuestApiError> {
        let call = call(Method::POST, PLACES, PLACES.to_owned(), Some(encode(asked)));
        let answer: Places = parsed(self.adapter.call(call).await?)?;
        Ok(answer.places)
    }

    pub async fn guests(&self) -> Result<Vec<GuestBody>, GuestApiError> {
        let call = call(Method::GET, ALL, ALL.to_owned(), None);
        let list: GuestList = parsed(self.adapter.call(call).await?)?;
        Ok(list.guests)
    }

    /// GET /v1/guests/{uuid}; none where the agent does not know it.
    pub async fn guest(&self, uuid: ConsumerUuid) -> Result<Option<GuestBody>, GuestApiError> {
        let call = call(Method::GET, ONE, format!("{ALL}/{uuid}"), None);
        let answer = found(self.adapter.call(call).await?)?;
        answer.map(parsed).transpose()
    }

    /// DELETE /v1/guests/{uuid}: the guest will be gone. It is when [`GuestClient::guest`] does not find it.
    pub async fn delete(&self, uuid: ConsumerUuid) -> Result<Deleted, GuestApiError> {
        let call = call(Method::DELETE, ONE, format!("{ALL}/{uuid}"), None);
        let answer = found(self.adapter.call(call).await?)?;
        Ok(answer.map_or(Deleted::AlreadyGone, |_| Deleted::Deleted))
    }

    /// POST /v1/guests/{uuid}/action, and waits until it is done. By the same id it may be asked for again where an answer was
    /// lost: it is done once. An agent of an older release takes no notice of ids.
    ///
    /// # Errors
    /// No answer, or a refusal: the guest is on its way, or cannot do that as it is.
    pub async fn action(
        &self,
        uuid: ConsumerUuid,
        action: &GuestAction,
        id: Option<&ActionId>,
    ) -> Result<GuestBody, GuestApiError> {
        let query = id.map_or_else(String::new, |id| format!("?id={id}"));
        let path = format!("{ALL}/{uuid}/action{query}");
        let call = Call {
            // Whether a reboot was done cannot be seen, and not every agent knows ids.
            repeat: Repeat::Once,
            patience: PATIENCE,
            ..call(Method::POST, ACTION, path, Some(encode(action)))
        };
        parsed(self.adapter.call(call).await?)
    }

    /// GET /v1/guests/{uuid}/console: what the guest wrote to its serial console; its last `lines`, or all that is kept.
    pub async fn console(
        &self,
        uuid: ConsumerUuid,
        lines: Option<u32>,
    ) -> Result<Vec<u8>, GuestApiError> {
        let query = lines.map_or_else(String::new, |lines| format!("?lines={lines}"));
        let path = format!("{ALL}/{uuid}/console{query}");
        let call = call(Method::GET, CONSOLE, path, None);
        Ok(done(self.adapter.call(call).await?)?.body.to_vec())
    }

    /// POST /v2.1/os-server-external-events: what happened to its guests. The events come back, each with its code: 200, or 422
    /// for a guest that the agent does not know.
    ///
    /// # Errors
    /// No answer (telling the same twice harms nobody), a refusal, or an answer that is none.
    pub async fn external_events(
        &self,
        events: Vec<ServerExternalEvent>,
    ) -> Result<Vec<ServerExternalEvent>, GuestApiError> {
        let body = encode(&ServerExternalEvents { events });
        let call = Call {
            microversion: Some(EVENTS_SINCE),
            ..call(Method::POST, EVENTS, EVENTS.to_owned(), Some(body))
        };
        let told: ServerExternalEvents = parsed(self.as_nova.call(call).await?)?;
        Ok(told.events)
    }
}

pub(super) fn call(
    method: Method,
    route: &'static str,
    path: String,
    body: Option<Vec<u8>>,
) -> Call {
    Call {
        method,
        route,
        path,
        microversion: None,
        body,
        repeat: Repeat::Safe,
        patience: 1,
    }
}
