//! A database is made, found, or refused.

use berth_identity::{SCHEMA_VERSION, prepare};

use super::service::Service;

#[tokio::test]
async fn a_database_is_prepared_again_and_keeps_what_it_has() {
    let service = Service::start().await;
    let token = service.token("alice", None).await;
    prepare(&service.store).await.unwrap();
    assert_eq!(service.get(&token, "/v3/auth/projects").await.status, 200);
}

#[tokio::test]
async fn a_later_releases_database_is_refused_with_a_sentence() {
    let service = Service::start().await;
    service
        .change("UPDATE identity_schema SET version = 7")
        .await;
    let refused = prepare(&service.store).await.unwrap_err().to_string();
    assert!(
        refused.contains("version 7") && refused.contains(&format!("version {SCHEMA_VERSION}")),
        "{refused}"
    );
}

#[tokio::test]
async fn another_programs_tables_are_left_alone() {
    let service = Service::start().await;
    service.change("DROP TABLE identity_schema").await;
    let refused = prepare(&service.store).await.unwrap_err().to_string();
    assert!(
        refused.contains("a table identity_tokens that does not belong to"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_row_of_another_writer_makes_a_token_that_cannot_be_read_and_is_not_shown() {
    let service = Service::start().await;
    let admin = service.token("admin", None).await;
    service
        .change("UPDATE identity_tokens SET scope = 'planted'")
        .await;
    let reply = service.get(&admin, "/v3/users").await;
    assert_eq!(
        reply.status, 503,
        "the token cannot be looked at: {}",
        reply.body
    );
    assert!(
        !reply.body.to_string().contains("planted"),
        "{}",
        reply.body
    );
}
