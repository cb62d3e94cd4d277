//! Client of the agent's guest API.

use berth_model::{ConsoleKind, ConsumerUuid};
use berth_wire::compute::{ServerExternalEvent, ServerExternalEvents};
use berth_wire::encode;
use berth_wire::guest::{
    ActionId, CONSOLE_PROTOCOL, ConsoleBody, DiagnosticsBody, GuestAction, GuestBody, GuestBuild,
    GuestList, PlaceBody, Places, PlacesAsked,
};
use http::Method;

use super::GuestApiError;
use super::responses::{parsed, require_success, switched, unless_not_found};
use crate::adapter::AdapterCall;
use crate::call::Repeat;
use crate::placement::DeleteOutcome;
use crate::{Adapter, AdapterOptions, Auth, ByteStream, HttpService};

const ALL: &str = "/v1/guests";
const ONE: &str = "/v1/guests/{uuid}";
const PLACES: &str = "/v1/guests/places";
const ACTION: &str = "/v1/guests/{uuid}/action";
const CONSOLE: &str = "/v1/guests/{uuid}/console";
const LIVE_CONSOLE: &str = "/v1/guests/{uuid}/console/{kind}";
const DIAGNOSTICS: &str = "/v1/guests/{uuid}/diagnostics";
const EVENTS: &str = "/v2.1/os-server-external-events";

/// The microversion with events of accelerator requests.
const EVENTS_SINCE: (u16, u16) = (2, 82);

/// The timeout of an action, as a multiple of the usual one: a guest may take ten minutes to shut down.
const PATIENCE: u32 = 11;

/// The guests of one agent. Clones share connections.
#[derive(Clone)]
pub struct GuestClient {
    adapter: Adapter,
    /// The same agent with Nova's version header.
    as_nova: Adapter,
}

impl GuestClient {
    /// A client of the agent at the root URL of `auth`. Over a unix socket the host of the URL is ignored.
    #[must_use]
    pub fn new(http: HttpService, auth: Auth, options: &AdapterOptions) -> Self {
        Self {
            as_nova: Adapter::new("compute", http.clone(), auth.clone(), options),
            adapter: Adapter::new("agent", http, auth, options),
        }
    }

    /// POST /v1/guests: requests a guest. The agent accepts it, or refuses with a reason. Repeating
    /// the request is safe.
    pub async fn build(&self, build: &GuestBuild) -> Result<GuestBody, GuestApiError> {
        self.build_of(encode(build)).await
    }

    /// Like [`GuestClient::build`] with a raw body, for request formats of other releases.
    pub async fn build_of(&self, body: Vec<u8>) -> Result<GuestBody, GuestApiError> {
        let call = AdapterCall {
            // The caller must know whether this very request arrived, so it is not repeated here.
            repeat: Repeat::Once,
            ..AdapterCall::new(Method::POST, ALL, ALL.to_owned(), Some(body))
        };
        parsed(self.adapter.call(call).await?)
    }

    /// POST /v1/guests/places: where a guest would be placed for each allocation, in order. Changes nothing.
    pub async fn places(&self, asked: &PlacesAsked) -> Result<Vec<PlaceBody>, GuestApiError> {
        let body = Some(encode(asked));
        let call = AdapterCall::new(Method::POST, PLACES, PLACES.to_owned(), body);
        let answer: Places = parsed(self.adapter.call(call).await?)?;
        Ok(answer.places)
    }

    pub async fn guests(&self) -> Result<Vec<GuestBody>, GuestApiError> {
        let call = AdapterCall::new(Method::GET, ALL, ALL.to_owned(), None);
        let list: GuestList = parsed(self.adapter.call(call).await?)?;
        Ok(list.guests)
    }

    /// GET /v1/guests/{uuid}; `None` if the agent does not have it.
    pub async fn guest(&self, uuid: ConsumerUuid) -> Result<Option<GuestBody>, GuestApiError> {
        let call = AdapterCall::new(Method::GET, ONE, format!("{ALL}/{uuid}"), None);
        let answer = unless_not_found(self.adapter.call(call).await?)?;
        answer.map(parsed).transpose()
    }

    /// DELETE /v1/guests/{uuid}: requests the deletion. It is complete when [`GuestClient::guest`] finds nothing.
    pub async fn delete(&self, uuid: ConsumerUuid) -> Result<DeleteOutcome, GuestApiError> {
        let call = AdapterCall::new(Method::DELETE, ONE, format!("{ALL}/{uuid}"), None);
        let answer = unless_not_found(self.adapter.call(call).await?)?;
        Ok(answer.map_or(DeleteOutcome::AlreadyGone, |_| DeleteOutcome::Deleted))
    }

    /// POST /v1/guests/{uuid}/action, waits for its completion. It may be repeated with the same id if an answer was
    /// lost: the action runs once. Agents of older releases ignore ids.
    ///
    /// Errors: No answer, or a refusal: the guest is busy, or its state does not allow the action.
    pub async fn action(
        &self,
        uuid: ConsumerUuid,
        action: &GuestAction,
        id: Option<&ActionId>,
    ) -> Result<GuestBody, GuestApiError> {
        let query = id.map_or_else(String::new, |id| format!("?id={id}"));
        let path = format!("{ALL}/{uuid}/action{query}");
        let call = AdapterCall {
            // Whether a reboot was done cannot be seen, and not every agent knows ids.
            repeat: Repeat::Once,
            patience: PATIENCE,
            ..AdapterCall::new(Method::POST, ACTION, path, Some(encode(action)))
        };
        parsed(self.adapter.call(call).await?)
    }

    /// GET /v1/guests/{uuid}/console: the guest's serial console output; the last `lines`, or all that is stored.
    pub async fn console(
        &self,
        uuid: ConsumerUuid,
        lines: Option<u32>,
    ) -> Result<Vec<u8>, GuestApiError> {
        let query = lines.map_or_else(String::new, |lines| format!("?lines={lines}"));
        let path = format!("{ALL}/{uuid}/console{query}");
        let call = AdapterCall::new(Method::GET, CONSOLE, path, None);
        Ok(require_success(self.adapter.call(call).await?)?
            .body
            .to_vec())
    }

    /// GET /v1/guests/{uuid}/console/{kind}: where a console of a running guest is.
    pub async fn console_address(
        &self,
        uuid: ConsumerUuid,
        kind: ConsoleKind,
    ) -> Result<ConsoleBody, GuestApiError> {
        let path = format!("{ALL}/{uuid}/console/{kind}");
        let call = AdapterCall::new(Method::GET, LIVE_CONSOLE, path, None);
        parsed(self.adapter.call(call).await?)
    }

    /// GET /v1/guests/{uuid}/console/{kind} with an upgrade: connects to a console of a running guest. The stream carries
    /// the console's own protocol, and ends with the guest.
    pub async fn open_console(
        &self,
        uuid: ConsumerUuid,
        kind: ConsoleKind,
    ) -> Result<Box<dyn ByteStream>, GuestApiError> {
        let path = format!("{ALL}/{uuid}/console/{kind}");
        let call = AdapterCall {
            upgrade: Some(CONSOLE_PROTOCOL),
            ..AdapterCall::new(Method::GET, LIVE_CONSOLE, path, None)
        };
        switched(self.adapter.call(call).await?)
    }

    /// GET /v1/guests/{uuid}/diagnostics: statistics of a guest.
    pub async fn diagnostics(&self, uuid: ConsumerUuid) -> Result<DiagnosticsBody, GuestApiError> {
        let path = format!("{ALL}/{uuid}/diagnostics");
        let call = AdapterCall::new(Method::GET, DIAGNOSTICS, path, None);
        parsed(self.adapter.call(call).await?)
    }

    /// POST /v2.1/os-server-external-events: sends events about its guests. Each is returned with a code: 200, or 422
    /// for a guest that the agent does not have.
    ///
    /// Errors: No answer (repeating is harmless), a refusal, or an invalid answer.
    pub async fn external_events(
        &self,
        events: Vec<ServerExternalEvent>,
    ) -> Result<Vec<ServerExternalEvent>, GuestApiError> {
        let body = encode(&ServerExternalEvents { events });
        let call = AdapterCall {
            microversion: Some(EVENTS_SINCE),
            ..AdapterCall::new(Method::POST, EVENTS, EVENTS.to_owned(), Some(body))
        };
        let accepted: ServerExternalEvents = parsed(self.as_nova.call(call).await?)?;
        Ok(accepted.events)
    }
}
