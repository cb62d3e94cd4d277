//! /v3/auth/tokens: issue, validate and revoke tokens.

use std::time::Duration;

use axum::extract::State;
use berth_http::audit::AuditTarget;
use berth_http::{ApiRequest, ApiResponse, Caller, Fault};
use berth_wire::identity::{AuthBody, UserAsked};
use http::{HeaderName, StatusCode};
use serde_json::{Value, json};

use crate::login_throttle::LONGEST_PAUSE;
use crate::password_verifier::LoginError;
use crate::policies::{REVOKE_TOKEN, VALIDATE_TOKEN, allow, may_revoke, may_validate};
use crate::router::{IdentityApi, IdentityOperation};
use crate::shown;
use crate::store::{self, RevocationScope};
use crate::tokens::ValidToken;

/// The time for the body of a login, which needs no token.
const LOGIN_DEADLINE: Duration = Duration::from_secs(10);

pub(super) fn operations() -> Vec<IdentityOperation> {
    vec![
        IdentityOperation::get("/v3/auth/tokens", show)
            .id("showToken")
            .summary("Validate the token in X-Subject-Token")
            .query(&["nocatalog"])
            .responds("token"),
        IdentityOperation::post("/v3/auth/tokens", create)
            .id("createToken")
            .summary("Issue a token for a password or another token")
            .action("authenticate")
            .query(&["nocatalog"])
            .body(auth_schema)
            .body_deadline(LOGIN_DEADLINE)
            .statuses(&[201])
            .responds("token"),
        IdentityOperation::delete("/v3/auth/tokens", revoke)
            .id("revokeToken")
            .summary("Revoke the token in X-Subject-Token")
            .action("revoke")
            .statuses(&[204]),
    ]
}

fn auth_schema() -> Value {
    let text = json!({"type": "string", "maxLength": 255});
    let domain = json!({"type": "object", "properties": {"id": text, "name": text}});
    let user = json!({
        "type": "object",
        "properties": {"id": text, "name": text, "domain": domain, "password": text},
        "required": ["password"],
    });
    let identity = json!({
        "type": "object",
        "properties": {
            "methods": {"type": "array", "items": {"enum": ["password", "token"]}, "minItems": 1},
            "password": {"type": "object", "properties": {"user": user}, "required": ["user"]},
            "token": {"type": "object", "properties": {"id": text}, "required": ["id"]},
        },
        "required": ["methods"],
    });
    let scope = json!({"anyOf": [
        {"enum": ["unscoped"]},
        {"type": "object", "properties": {
            "project": {"type": "object", "properties": {"id": text, "name": text, "domain": domain}},
            "domain": domain,
            "system": {"type": "object", "properties": {"all": {"type": "boolean"}}},
        }},
    ]});
    let auth = json!({
        "type": "object",
        "properties": {"identity": identity, "scope": scope},
        "required": ["identity"],
    });
    json!({"type": "object", "properties": {"auth": auth}, "required": ["auth"]})
}

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
        LoginError::TooMany => Fault::too_many_requests(error.to_string(), LONGEST_PAUSE),
        LoginError::Table(error) => store::fault(&error),
        LoginError::System => {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "issuing a token failed"
            );
            Fault::internal("The token could not be issued.")
        }
    }
}

fn document(
    api: &IdentityApi,
    call: &ApiRequest,
    token: &ValidToken,
) -> Result<Vec<u8>, serde_json::Error> {
    let with_catalog = call.query.last("nocatalog").is_none();
    let catalog = with_catalog.then(|| api.identity.catalog());
    serde_json::to_vec(&shown::token(token, catalog))
}

async fn create(State(api): State<IdentityApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    call.require_json()?;
    let body: AuthBody = call.secret()?;
    let credential = match body.user() {
        // The record of a refused login has the name that was sent.
        Some(user) => {
            call.identify(&named(user), "password");
            "password"
        }
        None => "token",
    };
    let (text, token) = api
        .identity
        .log_in(body, call.client_address)
        .await
        .map_err(fault)?;
    call.identify(&Caller::from(&token), credential);
    audit_token(&call, &token);
    let answer = ApiResponse::written(document(&api, &call, &token))?;
    let answer = answer.with_header(SUBJECT_HEADER, &text);
    Ok(answer.with_status(StatusCode::CREATED))
}

/// A user as a login names it, before the password is checked.
fn named(user: &UserAsked) -> Caller {
    let domain = user.domain.as_ref();
    Caller {
        user_id: user.id.clone().unwrap_or_else(|| "unknown".to_owned()),
        user_name: user.name.clone(),
        user_domain_id: domain.and_then(|it| it.id.clone().or_else(|| it.name.clone())),
        ..Caller::default()
    }
}

/// Records which token the request is about, by its audit id.
fn audit_token(call: &ApiRequest, token: &ValidToken) {
    if let Some(audit) = call.audit() {
        audit.set_target(AuditTarget {
            type_uri: "service/identity/auth/tokens".to_owned(),
            id: token.audit_ids().first().map(|id| (*id).to_owned()),
        });
    }
}

/// The token named by `X-Subject-Token`, if `may` allows it to the caller for the user of the token.
async fn subject(
    api: &IdentityApi,
    call: &ApiRequest,
    rule: &str,
    may: fn(&Caller, Option<&str>) -> bool,
) -> Result<ValidToken, Fault> {
    let token = match call.header(SUBJECT) {
        Some(text) => {
            let token = api.identity.token(text).await;
            token.map_err(|error| store::fault(&error))?
        }
        None => None,
    };
    if let Some(token) = &token {
        audit_token(call, token);
    }
    let user = token.as_ref().map(ValidToken::user_id);
    allow(may(&call.caller, user), rule)?;
    // The message does not repeat the token, because it is a secret.
    token.ok_or_else(|| Fault::not_found("Could not find token."))
}

async fn show(State(api): State<IdentityApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let token = subject(&api, &call, VALIDATE_TOKEN, may_validate).await?;
    let answer = ApiResponse::written(document(&api, &call, &token))?;
    Ok(answer.with_header(SUBJECT_HEADER, call.header(SUBJECT).unwrap_or_default()))
}

async fn revoke(State(api): State<IdentityApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let token = subject(&api, &call, REVOKE_TOKEN, may_revoke).await?;
    let which = match call.query.last("cascade") {
        Some("false" | "False" | "0") => RevocationScope::Token,
        _ => RevocationScope::Chain,
    };
    let revoked = api.identity.revoke(&token, which).await;
    revoked.map_err(|error| store::fault(&error))?;
    Ok(ApiResponse::no_content())
}

#[cfg(test)]
mod tests {
    use berth_http::OperationSet;

    use super::*;

    #[test]
    fn the_body_of_a_login_has_less_time_than_others_because_it_needs_no_token() {
        let operations: OperationSet<_> = operations().into_iter().collect();
        let deadlines = operations.declarations();
        let deadlines = deadlines.map(|one| (one.method, one.body_deadline));
        let deadlines: Vec<_> = deadlines.collect();
        let login = (Some("POST"), Some(Duration::from_secs(10)));
        assert!(deadlines.contains(&login), "{deadlines:?}");
    }
}
