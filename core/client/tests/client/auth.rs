//! The session with Keystone: logins, renewals, refusals, the catalog.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use berth_client::keystone::ServiceInterface;
use berth_client::{
    Auth, AuthError, AuthOptions, AuthType, Disposition, PlacementClient, PlacementError, Secret,
    ServiceCallError, WallClock,
};
use berth_model::ProviderUuid;
use http::Response;
use uuid::Uuid;

use crate::script::{
    RecordedRequest, Reply, Script, answer, connection_reset, error_reply, options,
};

/// 2026-11-20T17:00:00Z, when every test begins.
const BEGIN: u64 = 1_795_194_000;

fn root() -> ProviderUuid {
    Uuid::from_u128(1).into()
}

/// A clock that a test moves.
#[derive(Clone)]
struct Hand(Arc<AtomicU64>);

impl Hand {
    fn new() -> Self {
        Self(Arc::new(AtomicU64::new(BEGIN)))
    }

    fn advance(&self, seconds: u64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }

    fn clock(&self) -> WallClock {
        let now = Arc::clone(&self.0);
        Arc::new(move || SystemTime::UNIX_EPOCH + Duration::from_secs(now.load(Ordering::SeqCst)))
    }
}

fn password() -> AuthOptions {
    let mut options = AuthOptions::for_service("placement");
    options.auth_type = Some(AuthType::Password);
    options.auth_url = Some("http://keystone:5000".into());
    options.username = Some("nova".into());
    options.password = Some(Secret::from("hunter2"));
    options.user_domain_name = Some("Default".into());
    options.project_name = Some("service".into());
    options.project_domain_name = Some("Default".into());
    options
}

/// A token that ends an hour after the tests begin, plus `later` seconds.
fn token(number: usize, expires: &str) -> Reply {
    let body = format!(
        r#"{{"token": {{"expires_at": "{expires}", "catalog": [{{"type": "placement", "name": "placement", "endpoints": [
            {{"interface": "public", "region": "RegionOne", "url": "http://public"}},
            {{"interface": "internal", "region": "RegionOne", "url": "http://placement/"}}]}}]}}}}"#
    );
    Ok(Response::builder()
        .status(201)
        .header("x-subject-token", format!("token-{number}"))
        .body(body.into())
        .unwrap())
}

const HOUR: &str = "2026-11-20T18:00:00.000000Z";
const DAY: &str = "2026-11-21T17:00:00.000000Z";

fn no_providers() -> Reply {
    answer(200, r#"{"resource_providers": []}"#)
}

fn is_login(seen: &RecordedRequest) -> bool {
    seen.uri.contains("/auth/tokens")
}

/// Keystone numbers its tokens from 0; Placement answers by the token.
fn cloud(
    expires: &'static str,
    placement: impl Fn(&str) -> Reply + Send + Sync + 'static,
) -> Script {
    let logins = AtomicUsize::new(0);
    Script::new(move |_, seen| {
        if is_login(seen) {
            token(logins.fetch_add(1, Ordering::SeqCst), expires)
        } else {
            placement(seen.token.as_deref().unwrap_or("no token"))
        }
    })
}

fn client(script: &Script, auth: &AuthOptions, hand: &Hand) -> PlacementClient {
    let auth = Auth::from_options(auth, &script.http, hand.clock(), &options()).unwrap();
    PlacementClient::new(script.http.clone(), auth, &options())
}

fn logins(script: &Script) -> usize {
    script.seen().iter().filter(|seen| is_login(seen)).count()
}

#[tokio::test]
async fn one_login_serves_many_calls_at_the_catalogs_endpoint() {
    let script = cloud(HOUR, |_| no_providers());
    let client = client(&script, &password(), &Hand::new());
    for _ in 0..3 {
        client.providers_in_tree(root()).await.unwrap();
    }
    let seen = script.seen();
    assert_eq!(seen.len(), 4);
    assert_eq!(seen[0].uri, "http://keystone:5000/v3/auth/tokens");
    insta::assert_snapshot!(seen[0].body, @r#"{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"nova","domain":{"name":"Default"},"password":"hunter2"}}},"scope":{"project":{"name":"service","domain":{"name":"Default"}}}}}"#);
    assert!(
        seen[1]
            .uri
            .starts_with("http://placement/resource_providers?"),
        "{}",
        seen[1].uri
    );
    assert!(
        seen[1..]
            .iter()
            .all(|seen| seen.token.as_deref() == Some("token-0"))
    );
    assert!(seen[0].id.starts_with("req-"));
}

#[tokio::test]
async fn calls_at_once_wait_for_one_login() {
    let script = cloud(HOUR, |_| no_providers());
    let client = client(&script, &password(), &Hand::new());
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.providers_in_tree(root()).await })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(logins(&script), 1);
}

#[tokio::test]
async fn a_refused_token_is_replaced_once() {
    let script = cloud(HOUR, |token| match token {
        "token-0" => error_reply(401, "placement.undefined_code", "expired"),
        _ => no_providers(),
    });
    let client = client(&script, &password(), &Hand::new());
    client.providers_in_tree(root()).await.unwrap();
    client.providers_in_tree(root()).await.unwrap();
    let tokens: Vec<_> = script
        .seen()
        .into_iter()
        .map(|seen| seen.token.unwrap_or_else(|| "login".into()))
        .collect();
    assert_eq!(tokens, ["login", "token-0", "login", "token-1", "token-1"]);
}

#[tokio::test]
async fn a_token_that_is_never_accepted_is_reported_after_the_second_try() {
    let script = cloud(HOUR, |_| error_reply(401, "placement.undefined_code", "no"));
    let client = client(&script, &password(), &Hand::new());
    let error = client.providers_in_tree(root()).await.unwrap_err();
    assert!(
        matches!(error, PlacementError::Unauthorized { .. }),
        "{error:?}"
    );
    assert_eq!((script.seen().len(), logins(&script)), (4, 2));
}

#[tokio::test]
async fn a_fixed_token_is_not_replaced() {
    let script = Script::of(vec![error_reply(401, "placement.undefined_code", "no")]);
    script
        .placement()
        .providers_in_tree(root())
        .await
        .unwrap_err();
    assert_eq!(script.seen().len(), 1);
    assert_eq!(script.seen()[0].token.as_deref(), Some("admin"));
}

#[tokio::test]
async fn without_auth_no_token_is_sent() {
    let script = Script::of(vec![no_providers()]);
    let auth = Auth::none("http://placement/prefix/").unwrap();
    let client = PlacementClient::new(script.http.clone(), auth, &options());
    client.providers_in_tree(root()).await.unwrap();
    assert_eq!(script.seen()[0].token, None);
    assert!(
        script.seen()[0]
            .uri
            .starts_with("http://placement/prefix/resource_providers?")
    );
}

#[tokio::test]
async fn a_token_is_renewed_some_minutes_before_it_ends() {
    let script = cloud(HOUR, |_| no_providers());
    let hand = Hand::new();
    let client = client(&script, &password(), &hand);
    client.providers_in_tree(root()).await.unwrap();
    hand.advance(3600 - 301);
    client.providers_in_tree(root()).await.unwrap();
    assert_eq!(logins(&script), 1);
    hand.advance(2);
    client.providers_in_tree(root()).await.unwrap();
    assert_eq!(logins(&script), 2);
}

#[tokio::test]
async fn a_short_token_is_renewed_in_its_last_fifth() {
    let script = cloud("2026-11-20T17:00:10.000000Z", |_| no_providers());
    let hand = Hand::new();
    let client = client(&script, &password(), &hand);
    client.providers_in_tree(root()).await.unwrap();
    hand.advance(7);
    client.providers_in_tree(root()).await.unwrap();
    assert_eq!(logins(&script), 1);
    hand.advance(1);
    client.providers_in_tree(root()).await.unwrap();
    assert_eq!(logins(&script), 2);
}

#[tokio::test]
async fn a_failed_early_renewal_is_borne_until_the_token_ends() {
    let logins_seen = AtomicUsize::new(0);
    let script = Script::new(move |_, seen| match is_login(seen) {
        true if logins_seen.fetch_add(1, Ordering::SeqCst) == 0 => token(0, HOUR),
        true => connection_reset(),
        false => no_providers(),
    });
    let hand = Hand::new();
    let client = client(&script, &password(), &hand);
    client.providers_in_tree(root()).await.unwrap();
    hand.advance(3600 - 200);
    client.providers_in_tree(root()).await.unwrap();
    client.providers_in_tree(root()).await.unwrap();
    assert_eq!(
        logins(&script),
        2,
        "the renewal is tried again after a pause only"
    );
    hand.advance(31);
    client.providers_in_tree(root()).await.unwrap();
    assert_eq!(logins(&script), 3);
    hand.advance(200);
    let error = client.providers_in_tree(root()).await.unwrap_err();
    assert_eq!(error.disposition(), Disposition::Retry);
    insta::assert_snapshot!(error, @"Keystone at http://keystone:5000/v3/auth/tokens does not answer: the connection ended before the answer was complete: connection reset by peer");
}

#[tokio::test]
async fn one_session_serves_two_services() {
    let script = cloud(DAY, |_| no_providers());
    let hand = Hand::new();
    let auth = Auth::from_options(&password(), &script.http, hand.clock(), &options()).unwrap();
    let mut elsewhere = password();
    elsewhere.valid_interfaces = vec![ServiceInterface::Public];
    let other = PlacementClient::new(
        script.http.clone(),
        auth.for_service(&elsewhere),
        &options(),
    );
    PlacementClient::new(script.http.clone(), auth, &options())
        .providers_in_tree(root())
        .await
        .unwrap();
    other.providers_in_tree(root()).await.unwrap();
    assert_eq!(logins(&script), 1);
    assert!(script.seen()[2].uri.starts_with("http://public/"));
}

#[tokio::test]
async fn logins_are_what_the_options_say() {
    let mut credential = AuthOptions::for_service("placement");
    credential.auth_type = Some(AuthType::ApplicationCredential);
    credential.auth_url = Some("http://keystone/identity/v3".into());
    credential.application_credential_id = Some("abc".into());
    credential.application_credential_secret = Some(Secret::from("s"));
    let mut named = credential.clone();
    named.application_credential_id = None;
    named.application_credential_name = Some("berth".into());
    named.user_id = Some("u".into());
    let mut exchanged = AuthOptions::for_service("placement");
    exchanged.auth_type = Some(AuthType::Token);
    exchanged.auth_url = Some("http://keystone/".into());
    exchanged.token = Some(Secret::from("t"));
    exchanged.project_id = Some("p".into());
    let mut system = password();
    system.project_name = None;
    system.project_domain_name = None;
    system.system_scope = Some("all".into());
    let mut defaulted = password();
    defaulted.user_domain_name = None;
    defaulted.project_domain_name = None;
    defaulted.default_domain_id = Some("default".into());
    let mut bodies = String::new();
    for auth in [credential, named, exchanged, system, defaulted] {
        let script = cloud(HOUR, |_| no_providers());
        client(&script, &auth, &Hand::new())
            .providers_in_tree(root())
            .await
            .unwrap();
        let login = &script.seen()[0];
        bodies.push_str(&format!("{} {}\n", login.uri, login.body));
    }
    insta::assert_snapshot!(bodies, @r##"
http://keystone/identity/v3/auth/tokens {"auth":{"identity":{"methods":["application_credential"],"application_credential":{"id":"abc","secret":"s"}}}}
http://keystone/identity/v3/auth/tokens {"auth":{"identity":{"methods":["application_credential"],"application_credential":{"name":"berth","user":{"id":"u"},"secret":"s"}}}}
http://keystone/v3/auth/tokens {"auth":{"identity":{"methods":["token"],"token":{"id":"t"}},"scope":{"project":{"id":"p"}}}}
http://keystone:5000/v3/auth/tokens {"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"nova","domain":{"name":"Default"},"password":"hunter2"}}},"scope":{"system":{"all":true}}}}
http://keystone:5000/v3/auth/tokens {"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"nova","domain":{"id":"default"},"password":"hunter2"}}},"scope":{"project":{"name":"service","domain":{"id":"default"}}}}}
"##);
}

async fn login_error(reply: Reply) -> PlacementError {
    let script = Script::of(vec![reply]);
    client(&script, &password(), &Hand::new())
        .providers_in_tree(root())
        .await
        .unwrap_err()
}

#[tokio::test]
async fn keystones_refusals_name_the_account_and_the_remedy() {
    let unauthorized = r#"{"error": {"code": 401, "message": "The request you have made requires authentication.", "title": "Unauthorized"}}"#;
    let error = login_error(answer(401, unauthorized)).await;
    assert_eq!(error.disposition(), Disposition::Fatal);
    insta::assert_snapshot!(error, @"Keystone at http://keystone:5000/v3/auth/tokens refuses user nova in project service with 401 (req-answer): The request you have made requires authentication; check username, password, the domains and the project, and that the user has a role in that project (openstack role assignment list --names)");
    assert!(!format!("{error} {error:?}").contains("hunter2"));
    insta::assert_snapshot!(login_error(answer(404, "<html>")).await, @"Keystone at http://keystone:5000/v3/auth/tokens refuses user nova in project service with 404 (req-answer): no reason given; check auth_url");
    let error = login_error(answer(503, "")).await;
    assert_eq!(error.disposition(), Disposition::Retry);
    insta::assert_snapshot!(error, @"Keystone at http://keystone:5000/v3/auth/tokens answers 503 (req-answer); its log says more under that request id");
}

#[tokio::test]
async fn answers_that_are_no_token_are_named() {
    insta::assert_snapshot!(login_error(answer(201, "{}")).await, @"the answer of http://keystone:5000/v3/auth/tokens is not a Keystone token: X-Subject-Token: the header is missing; check auth_url");
    let with_header = |body: &str| {
        answer(201, body).map(|mut reply| {
            reply
                .headers_mut()
                .insert("x-subject-token", "t".parse().unwrap());
            reply
        })
    };
    insta::assert_snapshot!(login_error(with_header("<html>")).await, @r#"the answer of http://keystone:5000/v3/auth/tokens is not a Keystone token: not a JSON document: expected value at line 1 column 1 (it begins "<html>"); check auth_url"#);
    insta::assert_snapshot!(login_error(with_header(r#"{"token": {"expires_at": "soon"}}"#)).await, @r#"the answer of http://keystone:5000/v3/auth/tokens is not a Keystone token: token.expires_at: "soon" is not a time like 2026-11-20T17:00:00.000000Z; check auth_url"#);
    let error = login_error(with_header(
        r#"{"token": {"expires_at": "2026-11-20T18:00:00Z"}}"#,
    ))
    .await;
    assert!(
        matches!(
            error,
            PlacementError::Call(ServiceCallError::Auth(AuthError::NoEndpoint { .. }))
        ),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_missing_role_is_named_with_the_account_that_needs_it() {
    let script = cloud(HOUR, |_| {
        error_reply(
            403,
            "placement.undefined_code",
            "Access was denied to this resource.",
        )
    });
    let error = client(&script, &password(), &Hand::new())
        .providers_in_tree(root())
        .await
        .unwrap_err();
    insta::assert_snapshot!(error, @"Placement answers GET /resource_providers with 403 placement.undefined_code (req-answer): Access was denied to this resource; it needs the role service or admin: openstack role add --user nova --project service service; if the account has it, Placement's policy.yaml requires more");

    let mut of_host = password();
    of_host.username = Some("host/compute1".into());
    let error = client(&script, &of_host, &Hand::new())
        .providers_in_tree(root())
        .await
        .unwrap_err();
    let end = "policy.yaml requires more, or the account of a host may not do this";
    assert!(error.to_string().ends_with(end), "{error}");
}

type Change = fn(&mut AuthOptions);

#[test]
fn options_that_cannot_work_are_listed_by_name() {
    let problems = |change: Change| {
        let mut options = password();
        change(&mut options);
        options
            .check()
            .map_or_else(|error| error.to_string(), |()| "fine".to_owned())
    };
    let table: &[(&str, Change)] = &[
        ("as it is", |_| {}),
        ("no auth_type", |o| o.auth_type = None),
        ("nothing but the type", |o| {
            *o = AuthOptions::for_service("placement");
            o.auth_type = Some(AuthType::Password);
        }),
        ("no domains", |o| {
            o.user_domain_name = None;
            o.project_domain_name = None;
        }),
        ("system and project", |o| {
            o.system_scope = Some("all".into())
        }),
        ("odd system", |o| {
            o.project_name = None;
            o.system_scope = Some("half".into());
        }),
        ("no URL", |o| o.auth_url = Some("keystone:5000".into())),
        ("odd endpoint", |o| {
            o.endpoint_override = Some("unix:/run/x".into())
        }),
        ("key alone", |o| o.keyfile = Some("/k".into())),
        ("odd numbers", |o| {
            o.retriable_status_codes = vec![503, 200];
            o.timeout = Some(Duration::ZERO);
        }),
        ("no interface", |o| o.valid_interfaces.clear()),
        ("credential with a project", |o| {
            o.auth_type = Some(AuthType::ApplicationCredential);
            o.application_credential_id = Some("id".into());
        }),
        ("none without endpoint", |o| {
            o.auth_type = Some(AuthType::None)
        }),
        ("admin_token with a line end", |o| {
            o.auth_type = Some(AuthType::AdminToken);
            o.endpoint = Some("http://placement".into());
            o.token = Some(Secret::from("a\nb"));
        }),
    ];
    let text: String = table
        .iter()
        .map(|(name, change)| format!("{name}: {}\n", problems(*change)))
        .collect();
    insta::assert_snapshot!(text, @r##"
as it is: fine
no auth_type: auth_type: is not set; it must be one of password, v3password, v3applicationcredential, token, v3token, admin_token, none, noauth
nothing but the type: auth_url: is not set; auth_type password needs it; username: is not set; auth_type password needs username or user_id; password: is not set; auth_type password needs it; project_name: is not set; set a project (project_name or project_id) or system_scope
no domains: user_domain_name: is not set; username needs user_domain_name, user_domain_id, default_domain_name or default_domain_id; project_domain_name: is not set; project_name needs project_domain_name, project_domain_id, default_domain_name or default_domain_id
system and project: system_scope: contradicts the project: a token is for the system or for one project
odd system: system_scope: is "half"; only all is known
no URL: auth_url: is not a URL that paths can be appended to; http://HOST[:PORT][/PATH] or https://… is expected, without user, query and fragment
odd endpoint: endpoint_override: is not a URL that paths can be appended to; http://HOST[:PORT][/PATH] or https://… is expected, without user, query and fragment
key alone: certfile: is not set; keyfile needs the file of its certificate
odd numbers: retriable_status_codes: 200 is not a status of an error, 400 to 599; timeout: is 0; expected more than 0 seconds, or no value for the default
no interface: valid_interfaces: is empty; expected one or more of internal, public and admin
credential with a project: application_credential_secret: is not set; auth_type v3applicationcredential needs it; project_name: contradicts the application credential, which brings its own scope; leave it out
none without endpoint: endpoint_override: is not set; auth_type none needs it
admin_token with a line end: token: has characters that cannot be sent in a header (a line end?)
"##);
}

#[test]
fn secrets_do_not_show_in_options() {
    let mut options = password();
    options.token = Some(Secret::from("tok3n"));
    options.application_credential_secret = Some(Secret::from("s3cret"));
    let shown = format!("{options:?}");
    for secret in ["hunter2", "tok3n", "s3cret"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[test]
fn names_of_auth_types_and_interfaces_are_keystoneauths() {
    for name in AuthType::NAMES {
        assert!(name.parse::<AuthType>().is_ok(), "{name}");
    }
    let error = "v2password".parse::<AuthType>().unwrap_err().to_string();
    assert!(error.contains("v3applicationcredential"), "{error}");
    assert_eq!("internalURL".parse(), Ok(ServiceInterface::Internal));
    assert!("intern".parse::<ServiceInterface>().is_err());
}

/// Nothing secret reaches a log line either.
#[tokio::test]
async fn secrets_do_not_show_in_logs() {
    let lines = Arc::new(Mutex::new(String::new()));
    // With only one subscriber, the interest in an event is cached from the first thread that reaches it, which may be
    // another test's. With two, both are asked.
    let _second = tracing::Dispatch::new(Lines(Arc::clone(&lines)));
    let _guard = tracing::subscriber::set_default(Lines(Arc::clone(&lines)));
    let script = cloud(HOUR, |_| no_providers());
    client(&script, &password(), &Hand::new())
        .providers_in_tree(root())
        .await
        .unwrap();
    let lines = lines.lock().unwrap();
    assert!(
        lines.contains("/v3/auth/tokens") && lines.contains("req-answer"),
        "{lines}"
    );
    assert!(
        !lines.contains("hunter2") && !lines.contains("token-0"),
        "{lines}"
    );
}

/// A subscriber that writes every field of every event as text.
struct Lines(Arc<Mutex<String>>);

impl tracing::Subscriber for Lines {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("berth_client")
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        struct Fields<'a>(&'a mut String);
        impl tracing::field::Visit for Fields<'_> {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0.push_str(&format!("{field}={value:?} "));
            }
        }
        event.record(&mut Fields(&mut self.0.lock().unwrap()));
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}
