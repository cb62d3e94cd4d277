//! /v3/auth/tokens: a token is made, looked at, revoked.

use std::net::SocketAddr;

use axum::Extension;
use axum::extract::{ConnectInfo, State};
use berth_http::auth::TOKEN_HEADER;
use berth_http::{Answer, Call, Fault};
use berth_wire::identity::AuthBody;
use http::{HeaderName, StatusCode};

use crate::logins::LoginError;
use crate::policies::{REVOKE_TOKEN, VALIDATE_TOKEN, allow, may_validate};
use crate::router::Api;
use crate::shown;
use crate::store::{self, Revoked};
use crate::tokens::KnownToken;

const SUBJECT: &str = "x-subject-token";
const SUBJECT_HEADER: HeaderName = HeaderName::from_static(SUBJECT);

fn fault(error: LoginError) -> Fault {
    match error {
        LoginError::Malformed(text) => Fault::bad_request(text),
        LoginError::UnsupportedMethod => Fault::new(
            StatusCode::UNAUTHORIZED,
            "Attempted to authenticate with an unsupported method.",
        ),
        LoginError::Refused { .. } => Fault::unauthorized(),
        LoginError::TooMany => Fault::new(StatusCode::TOO_MANY_REQUESTS, error.to_string()),
        LoginError::Table(error) => store::fault(&error),
        LoginError::System => {
            tracing::error!(error = &error as &dyn std::error::Error, "no token made");
            Fault::internal("The token could not be made.")
        }
    }
}

fn document(api: &Api, call: &Call, token: &KnownToken) -> Result<Vec<u8>, serde_json::Error> {
    let with_catalog = call.query.last("nocatalog").is_none();
    let catalog = with_catalog.then(|| api.identity.catalog());
    serde_json::to_vec(&shown::token(token, catalog))
}

/// The address at the other end, where the listener tells it.
type Peer = Option<Extension<ConnectInfo<SocketAddr>>>;

pub(crate) async fn create(
    State(api): State<Api>,
    peer: Peer,
    call: Call,
) -> Result<Answer, Fault> {
    call.require_json()?;
    let body: AuthBody = call.secret()?;
    let from = peer.map(|Extension(ConnectInfo(peer))| peer.ip());
    let (text, token) = api.identity.log_in(body, from).await.map_err(fault)?;
    let answer = Answer::written(document(&api, &call, &token))?;
    let answer = answer.with_header(SUBJECT_HEADER, &text);
    Ok(answer.with_status(StatusCode::CREATED))
}

/// The token that the request is about, where it holds and the caller may ask about it: about its own anybody may.
async fn subject(api: &Api, call: &Call, rule: &str, may: bool) -> Result<KnownToken, Fault> {
    let subject = call.header(SUBJECT);
    let own = call.header(TOKEN_HEADER);
    allow(may || (subject.is_some() && subject == own), rule)?;
    // Which token it is is not repeated: it is a secret.
    let nobodys = || Fault::not_found("Could not find token.");
    let text = subject.ok_or_else(nobodys)?;
    let known = api.identity.token(text).await;
    known
        .map_err(|error| store::fault(&error))?
        .ok_or_else(nobodys)
}

pub(crate) async fn show(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    let token = subject(&api, &call, VALIDATE_TOKEN, may_validate(&call.caller)).await?;
    let answer = Answer::written(document(&api, &call, &token))?;
    Ok(answer.with_header(SUBJECT_HEADER, call.header(SUBJECT).unwrap_or_default()))
}

pub(crate) async fn revoke(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    let may = call.caller.has_role("admin") || call.caller.has_role("service");
    let token = subject(&api, &call, REVOKE_TOKEN, may).await?;
    let which = match call.query.last("cascade") {
        Some("false" | "False" | "0") => Revoked::Alone,
        _ => Revoked::Chain,
    };
    let revoked = api.identity.revoke(&token, which).await;
    revoked.map_err(|error| store::fault(&error))?;
    Ok(Answer::no_content())
}
