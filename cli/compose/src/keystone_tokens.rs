//! Validates tokens with Keystone and caches the results, for built-in services with `auth_strategy = "keystone"`.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use berth_client::keystone::system_clock;
use berth_client::{HttpService, IdentityClient};
use berth_config::KeystoneAuthtoken;
use berth_http::auth::{ProjectLookup, SERVICE_DOMAIN, Validation};
use berth_http::{Caller, HostAccount, TokenError, TokenRequest, TokenScope, ValidateToken};
use berth_output::{ErrorCode, Failure};
use berth_wire::keystone::{IdOf, ValidatedToken, parse_expiry};
use tokio::time::Instant;

/// The maximum number of cached tokens.
const MOST: usize = 10_000;

/// Validates tokens with Keystone and caches valid ones for a while. Unknown tokens are sent to Keystone each time.
pub struct KeystoneTokens {
    identity: IdentityClient,
    /// The URL where callers get tokens.
    url: Option<String>,
    cache_time: Duration,
    /// The name of the domain of the service's own account, if it is configured.
    service_domain: Option<String>,
    // The tokens are secrets: this type has no `Debug`.
    known: Mutex<HashMap<String, CachedToken>>,
}

struct CachedToken {
    caller: Caller,
    until: Instant,
}

/// A client of Keystone with the account of `[keystone_authtoken]`. Nothing is sent yet.
pub fn identity_client(options: &KeystoneAuthtoken) -> Result<IdentityClient, Failure> {
    let wrong = |error: &(dyn std::error::Error + 'static)| {
        let what = "access to Keystone is not configured";
        Failure::caused(ErrorCode::Missing, what, error).hint(
            "see [keystone_authtoken] in /usr/share/doc/berth/guide/reference/configuration.md, or set auth_strategy = \"noauth2\"",
        )
    };
    let account = &options.account;
    account.check().map_err(|error| wrong(&error))?;
    let http = HttpService::network(&account.transport()).map_err(|error| wrong(&error))?;
    IdentityClient::from_options(http, account, system_clock()).map_err(|error| wrong(&error))
}

impl KeystoneTokens {
    /// Creates it from the options of `[keystone_authtoken]`. Nothing is sent yet.
    pub fn new(options: &KeystoneAuthtoken) -> Result<Self, Failure> {
        Ok(Self {
            url: options.account.auth_url.clone(),
            service_domain: options.account.user_domain_name.clone(),
            ..Self::over(identity_client(options)?, options.token_cache_time)
        })
    }

    fn over(identity: IdentityClient, cache_time: Duration) -> Self {
        Self {
            identity,
            url: None,
            cache_time,
            service_domain: None,
            known: Mutex::new(HashMap::new()),
        }
    }

    fn remembered(&self, token: &str) -> Option<Caller> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get(token)?;
        (Instant::now() < known.until).then(|| known.caller.clone())
    }

    fn remember(&self, token: &str, caller: &Caller, lifetime: Duration) {
        let now = Instant::now();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.retain(|_, each| now < each.until);
        }
        if known.len() >= MOST {
            known.clear();
        }
        let entry = CachedToken {
            caller: caller.clone(),
            until: now + lifetime.min(self.cache_time),
        };
        known.insert(token.to_owned(), entry);
    }

    async fn ask(&self, token: &str) -> Result<Caller, TokenError> {
        if let Some(caller) = self.remembered(token) {
            return Ok(caller);
        }
        let validated = self
            .identity
            .validate(token)
            .await
            .map_err(|error| TokenError::Unavailable(Box::new(error)))?
            .ok_or(TokenError::Refused)?;
        let lifetime = lifetime(&validated).ok_or(TokenError::Refused)?;
        let caller = caller(validated, self.service_domain.as_deref());
        self.remember(token, &caller, lifetime);
        Ok(caller)
    }
}

/// The remaining validity of the token; `None` if it has expired.
fn lifetime(token: &ValidatedToken) -> Option<Duration> {
    let end = parse_expiry(&token.expires_at).ok()?;
    end.duration_since(SystemTime::now()).ok()
}

/// Whether a user of this domain may be the account of a host: they have the domain of the service's own account. It counts as
/// that where Keystone does not name it.
fn has_host_accounts(domain: Option<&IdOf>, service_domain: Option<&str>) -> bool {
    let Some(domain) = domain else {
        return true;
    };
    match (service_domain, &domain.name) {
        // Most databases of Keystone ignore the case of names.
        (Some(own), Some(name)) => own.eq_ignore_ascii_case(name),
        _ => domain.id == SERVICE_DOMAIN,
    }
}

fn caller(token: ValidatedToken, service_domain: Option<&str>) -> Caller {
    let scope = match (token.project, token.domain, token.system) {
        (Some(project), _, _) => TokenScope::Project(project.id),
        (None, Some(domain), _) => TokenScope::Domain(domain.id),
        (None, None, Some(system)) if system.all => TokenScope::System,
        (None, None, _) => TokenScope::Unscoped,
    };
    let may_be_host = has_host_accounts(token.user.domain.as_ref(), service_domain);
    let host = token.user.name.as_deref().map(|name| match may_be_host {
        true => HostAccount::of_user_name(name),
        false => HostAccount::of_other_domain(name),
    });
    Caller {
        user_id: token.user.id,
        user_name: token.user.name,
        user_domain_id: token.user.domain.map(|domain| domain.id),
        scope,
        roles: token.roles.into_iter().map(|role| role.name).collect(),
        audit_ids: token.audit_ids,
        host: host.unwrap_or_default(),
    }
}

impl ValidateToken for KeystoneTokens {
    fn validate<'a>(&'a self, request: TokenRequest<'a>) -> Validation<'a> {
        Box::pin(self.ask(request.token))
    }

    fn project_exists<'a>(&'a self, project_id: &'a str) -> ProjectLookup<'a> {
        Box::pin(async move {
            let exists = self.identity.project_exists(project_id).await;
            exists
                .map(Some)
                .map_err(|error| TokenError::Unavailable(Box::new(error)))
        })
    }

    fn keystone(&self) -> Option<&str> {
        self.url.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use berth_client::{AuthOptions, AuthType, Secret, TransportError};
    use bytes::Bytes;
    use http::{HeaderMap, Method, Request, Response};
    use serde_json::{Value, json};

    use super::*;

    /// A Keystone with two valid tokens; `asked` counts the validations.
    fn keystone(asked: &Arc<AtomicUsize>) -> HttpService {
        let asked = Arc::clone(asked);
        HttpService::new(tower::service_fn(move |request: Request<Bytes>| {
            let answer = answer(&request, &asked);
            async move { Ok::<_, TransportError>(answer) }
        }))
    }

    /// The response to a login of the service's account (POST), or to the validation of a caller's token (GET). The text of
    /// the caller's token selects the response.
    fn answer(request: &Request<Bytes>, asked: &AtomicUsize) -> Response<Bytes> {
        let token = |expires: &str, scope: &str| {
            format!(
                r#"{{"token": {{"user": {{"id": "u1", "name": "alice"}}, {scope} "roles": [{{"id": "r", "name": "member"}}],
                    "expires_at": "{expires}"}}}}"#
            )
        };
        assert_eq!(request.uri().path(), "/v3/auth/tokens");
        if request.method() == Method::POST {
            return Response::builder()
                .status(201)
                .header("x-subject-token", "own")
                .body(token("2096-01-01T00:00:00.000000Z", "").into())
                .unwrap();
        }
        asked.fetch_add(1, Ordering::Relaxed);
        assert_eq!(request.headers()["x-auth-token"], "own");
        let project = r#""project": {"id": "p1", "name": "x"},"#;
        let (status, body) = match request.headers()["x-subject-token"].to_str().unwrap() {
            "good" => (200, token("2096-01-01T00:00:00.000000Z", project)),
            "system" => (
                200,
                token("2096-01-01T00:00:00.000000Z", r#""system": {"all": true},"#),
            ),
            "domain" => (
                200,
                token(
                    "2096-01-01T00:00:00.000000Z",
                    r#""domain": {"id": "d1", "name": "Default"},"#,
                ),
            ),
            "unscoped" => (200, token("2096-01-01T00:00:00.000000Z", "")),
            "over" => (200, token("2020-01-01T00:00:00.000000Z", project)),
            "broken" => (200, "{}".to_owned()),
            "elsewhere" => (404, "no such page".to_owned()),
            _ => (
                404,
                r#"{"error": {"code": 404, "message": "Could not find token", "title": "Not Found"}}"#
                    .to_owned(),
            ),
        };
        Response::builder()
            .status(status)
            .body(body.into())
            .unwrap()
    }

    /// The validator under test, with the fake Keystone and a cache time of five minutes.
    fn tokens(asked: &Arc<AtomicUsize>) -> KeystoneTokens {
        tokens_of("http://keystone/v3/", asked)
    }

    fn tokens_of(auth_url: &str, asked: &Arc<AtomicUsize>) -> KeystoneTokens {
        let options = AuthOptions {
            auth_type: Some(AuthType::Password),
            auth_url: Some(auth_url.to_owned()),
            username: Some("cyborg".to_owned()),
            password: Some(Secret::from("p")),
            user_domain_name: Some("Default".to_owned()),
            project_name: Some("service".to_owned()),
            project_domain_name: Some("Default".to_owned()),
            ..AuthOptions::for_service("identity")
        };
        let identity = IdentityClient::from_options(keystone(asked), &options, system_clock());
        KeystoneTokens::over(identity.unwrap(), Duration::from_secs(300))
    }

    async fn ask(tokens: &KeystoneTokens, token: &str) -> Result<Caller, TokenError> {
        let headers = &HeaderMap::new();
        tokens.validate(TokenRequest { token, headers }).await
    }

    #[tokio::test]
    async fn a_valid_token_is_validated_once_in_its_cache_time_and_gives_a_caller() {
        let asked = Arc::new(AtomicUsize::new(0));
        let tokens = tokens(&asked);
        for _ in 0..3 {
            let caller = ask(&tokens, "good").await.unwrap();
            assert_eq!(
                (caller.user_id.as_str(), caller.project_id()),
                ("u1", Some("p1"))
            );
            assert!(caller.has_role("member") && !caller.has_role("admin"));
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        assert_eq!(
            ask(&tokens, "system").await.unwrap().scope,
            TokenScope::System
        );
        let domain = ask(&tokens, "domain").await.unwrap();
        assert_eq!(domain.scope, TokenScope::Domain("d1".to_owned()));
        let unscoped = ask(&tokens, "unscoped").await.unwrap();
        assert_eq!(unscoped.scope, TokenScope::Unscoped);
        assert!(!unscoped.has_role("member"));
    }

    #[test]
    fn the_account_of_a_host_has_the_domain_of_the_services_own_account() {
        let default = || json!({"id": "default", "name": "Default"});
        let other = || json!({"id": "d1", "name": "customers"});
        for (own, domain, is_host) in [
            (None, default(), true),
            (None, other(), false),
            (Some("Default"), default(), true),
            (Some("default"), default(), true),
            (Some("Default"), other(), false),
            (Some("customers"), other(), true),
            (Some("customers"), default(), false),
            // Nothing is known of its name, or of the domain.
            (Some("Default"), json!({"id": "default"}), true),
            (Some("Default"), json!({"id": "d1"}), false),
            (Some("Default"), Value::Null, true),
        ] {
            let user = json!({"id": "u1", "name": "host/gpu-01", "domain": domain});
            let token = json!({"user": user, "expires_at": "2096-01-01T00:00:00.000000Z"});
            let token: ValidatedToken = serde_json::from_value(token).unwrap();
            let found = caller(token, own).host;
            assert_eq!(found.speaks_for("gpu-01"), is_host, "{own:?} {domain}");
        }
    }

    #[tokio::test]
    async fn the_url_of_keystone_may_name_any_version_or_none() {
        for auth_url in [
            "http://keystone",
            "http://keystone/v3",
            "http://keystone/v2.0/",
        ] {
            let asked = Arc::new(AtomicUsize::new(0));
            let caller = ask(&tokens_of(auth_url, &asked), "good").await;
            assert_eq!(caller.unwrap().user_id, "u1", "{auth_url}");
        }
    }

    #[tokio::test]
    async fn unknown_and_expired_tokens_are_refused_and_invalid_responses_are_errors() {
        let asked = Arc::new(AtomicUsize::new(0));
        let tokens = tokens(&asked);
        for token in ["nobody", "over", "a\nb", "nobody"] {
            let refused = ask(&tokens, token).await;
            assert!(matches!(refused, Err(TokenError::Refused)), "{token:?}");
        }
        // "a\nb" cannot be sent in a header, so it does not reach Keystone. Refusals are not cached: "nobody" was sent twice.
        assert_eq!(asked.load(Ordering::Relaxed), 3);
        for token in ["broken", "elsewhere"] {
            let odd = ask(&tokens, token).await;
            assert!(matches!(odd, Err(TokenError::Unavailable(_))), "{token}");
        }
    }
}
