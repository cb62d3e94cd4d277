//! Tests of token validation by a service in the same process.

use berth_http::{Caller, HostAccount, TokenError, TokenRequest, TokenScope, ValidateToken};
use berth_identity::IdentityApiOptions;
use http::HeaderMap;
use serde_json::json;

use super::service::{PASSWORD, Service, cloud, project, user};

async fn caller(service: &Service, token: &str) -> Result<Caller, TokenError> {
    let headers = &HeaderMap::new();
    service
        .identity
        .validate(TokenRequest { token, headers })
        .await
}

#[tokio::test]
async fn a_token_makes_a_caller_without_http() {
    let service = Service::start().await;
    let alice = service.token("alice", project("research")).await;
    let found = caller(&service, &alice).await.unwrap();
    assert_eq!(
        (found.user_id.as_str(), found.project_id()),
        ("u-alice", Some("p-research"))
    );
    assert!(found.has_role("member") && found.has_role("reader") && !found.has_role("admin"));
    let system = service
        .token("admin", Some(json!({"system": {"all": true}})))
        .await;
    assert_eq!(
        caller(&service, &system).await.unwrap().scope,
        TokenScope::System
    );
    let bob = json!({"name": "bob", "domain": {"name": "elsewhere"}, "password": PASSWORD});
    let scope = json!({"domain": {"name": "elsewhere"}});
    let of_domain = service.log_in(bob, Some(scope)).await;
    let found = caller(&service, of_domain.header("x-subject-token")).await;
    assert!(matches!(found.unwrap().scope, TokenScope::Domain(_)));
    let unscoped = service.token("alice", None).await;
    let found = caller(&service, &unscoped).await.unwrap();
    assert_eq!((found.scope, found.roles.len()), (TokenScope::Unscoped, 0));
    for token in ["", "x", "ä"] {
        assert!(
            matches!(caller(&service, token).await, Err(TokenError::Refused)),
            "{token}"
        );
    }
    service.passes(3_600);
    assert!(matches!(
        caller(&service, &alice).await,
        Err(TokenError::Refused)
    ));
}

#[tokio::test]
async fn a_database_that_fails_is_no_refusal() {
    let service = Service::start().await;
    let token = service.token("alice", None).await;
    service.change("DROP TABLE identity_tokens").await;
    assert!(matches!(
        caller(&service, &token).await,
        Err(TokenError::Unavailable(_))
    ));
}

#[tokio::test]
async fn a_user_of_another_domain_is_no_account_of_a_host() {
    let users = cloud() + &user("host/gpu-01", "") + &user("host/gpu-01", "domain = \"elsewhere\"");
    let service = Service::with(&users, IdentityApiOptions::default()).await;
    for (domain, host) in [
        ("Default", HostAccount::Host("gpu-01".to_owned())),
        ("elsewhere", HostAccount::Host(String::new())),
    ] {
        let account =
            json!({"name": "host/gpu-01", "domain": {"name": domain}, "password": PASSWORD});
        let token = service.log_in(account, None).await;
        let found = caller(&service, token.header("x-subject-token")).await;
        assert_eq!(found.unwrap().host, host, "{domain}");
    }
}
