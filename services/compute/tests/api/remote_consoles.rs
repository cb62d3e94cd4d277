//! Tests of consoles: URLs and the tokens in them.

use berth_compute::TokenRefused;
use berth_conductor::journal::BootGoal;
use berth_model::ConsoleKind;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use uuid::Uuid;

use super::service::{Reply, Service};

async fn service() -> Service {
    let service = Service::start().await;
    service.flavor("f", json!({})).await;
    service
}

impl Service {
    async fn console(&self, user: &str, version: &str, server: Uuid, console: Value) -> Reply {
        let path = format!("/servers/{server}/remote-consoles");
        let body = json!({ "remote_console": console });
        self.ask(user, version, "POST", &path, Some(body)).await
    }

    /// The token of a new URL.
    async fn console_token(&self, server: Uuid, protocol: &str, kind: &str) -> String {
        let console = json!({"protocol": protocol, "type": kind});
        let made = self.console("alice", "2.6", server, console).await;
        assert_eq!(made.status, 200, "{made:?}");
        let url = made.body["remote_console"]["url"].as_str().unwrap();
        let token = url.split(['=', '&']).next_back().unwrap();
        token.trim_start_matches("%3Ftoken%3D").to_owned()
    }

    /// The server whose console a token opens, with the console's first bytes.
    async fn opened(&self, kind: ConsoleKind, token: &str) -> Result<(Uuid, String), TokenRefused> {
        let mut opened = self.compute.open_console(kind, token).await?;
        let mut greeting = String::new();
        opened.stream.read_to_string(&mut greeting).await.unwrap();
        Ok((opened.server, greeting))
    }
}

#[tokio::test]
async fn a_url_has_a_token_that_opens_one_console_of_one_server() {
    let service = service().await;
    let (one, other) = (
        service.running(json!({})).await,
        service.running(json!({})).await,
    );
    let console = json!({"protocol": "vnc", "type": "novnc"});
    let made = service.console("alice", "2.6", one, console).await;
    assert_eq!(made.status, 200, "{made:?}");
    let shown = &made.body["remote_console"];
    assert_eq!(
        (&shown["protocol"], &shown["type"]),
        (&json!("vnc"), &json!("novnc"))
    );
    let url = shown["url"].as_str().unwrap();
    let token = url.strip_prefix("http://proxy:6080/vnc_lite.html?path=%3Ftoken%3D");
    let token = token.unwrap_or_else(|| panic!("{url}"));
    assert_eq!(token.len(), 43, "256 random bits: {url}");
    let opened = service.opened(ConsoleKind::Vnc, token).await.unwrap();
    assert_eq!(opened, (one, "vnc".to_owned()));
    let again = service.opened(ConsoleKind::Vnc, token).await.unwrap();
    assert_eq!(again.0, one, "a page may be loaded again");
    let serial = service.console_token(other, "serial", "serial").await;
    let opened = service.opened(ConsoleKind::Serial, &serial).await.unwrap();
    assert_eq!(opened, (other, "serial".to_owned()));
    for (kind, token) in [
        (ConsoleKind::Serial, token),
        (ConsoleKind::Vnc, serial.as_str()),
        (ConsoleKind::Vnc, ""),
        (ConsoleKind::Vnc, "guess"),
        (ConsoleKind::Vnc, &token[..42]),
    ] {
        let refused = service.opened(kind, token).await;
        assert!(
            matches!(refused, Err(TokenRefused::Invalid)),
            "{kind} {token}"
        );
    }
}

#[tokio::test]
async fn a_token_that_expired_or_whose_server_is_gone_opens_nothing() {
    let service = service().await;
    let (one, other) = (
        service.running(json!({})).await,
        service.running(json!({})).await,
    );
    let expired = service.console_token(one, "vnc", "novnc").await;
    service
        .change("UPDATE compute_console_tokens SET expires_at = 1")
        .await;
    let refused = service.opened(ConsoleKind::Vnc, &expired).await;
    assert!(matches!(refused, Err(TokenRefused::Invalid)));
    let of_gone = service.console_token(other, "vnc", "novnc").await;
    let path = format!("/servers/{other}");
    let deleted = service.ask("alice", "2.6", "DELETE", &path, None).await;
    assert_eq!(deleted.status, 204);
    let refused = service.opened(ConsoleKind::Vnc, &of_gone).await;
    assert!(matches!(refused, Err(TokenRefused::Invalid)));
    service.cloud.agent.remove_guest(other);
    service.cloud.forget_guest(other).await;
    service.settle().await;
    // A primary key of the same row would fail if one were left.
    let left = service.compute.console_token(&of_gone).await.unwrap();
    assert_eq!(left, None);
}

#[tokio::test]
async fn the_database_holds_no_token_and_at_most_32_of_a_console() {
    let service = service().await;
    let server = service.running(json!({})).await;
    let first = service.console_token(server, "vnc", "novnc").await;
    for _ in 0..32 {
        service.console_token(server, "vnc", "novnc").await;
    }
    let refused = service.opened(ConsoleKind::Vnc, &first).await;
    assert!(
        matches!(refused, Err(TokenRefused::Invalid)),
        "the oldest gave way"
    );
    let last = service.console_token(server, "vnc", "novnc").await;
    assert!(service.opened(ConsoleKind::Vnc, &last).await.is_ok());
    assert_eq!(
        service.compute.console_token(&last[..42]).await.unwrap(),
        None
    );
}

#[tokio::test]
async fn requests_for_consoles_are_checked_as_in_nova() {
    let service = service().await;
    let server = service.running(json!({})).await;
    let of = |protocol: &str, kind: &str| json!({"protocol": protocol, "type": kind});
    for (version, console, status, message) in [
        (
            "2.6",
            of("vnc", "xvpvnc"),
            400,
            "Invalid console type xvpvnc",
        ),
        (
            "2.6",
            of("spice", "spice-html5"),
            400,
            "Unavailable console type spice.",
        ),
        (
            "2.7",
            of("mks", "webmks"),
            400,
            "it is not one of vnc, spice, serial, rdp",
        ),
        (
            "2.8",
            of("mks", "webmks"),
            400,
            "Unavailable console type mks.",
        ),
        ("2.6", of("vnc", "x"), 400, "it is not one of"),
        (
            "2.6",
            json!({"protocol": "vnc"}),
            400,
            "'type' is a required property",
        ),
    ] {
        let refused = service.console("alice", version, server, console).await;
        assert_eq!(refused.status, status, "{refused:?}");
        assert!(
            refused.message("badRequest").contains(message),
            "{refused:?}"
        );
    }
    let early = service
        .console("alice", "2.5", server, of("vnc", "novnc"))
        .await;
    assert_eq!(early.status, 404);
    let others = service
        .console("bob", "2.6", server, of("vnc", "novnc"))
        .await;
    assert_eq!(others.status, 404);
}

#[tokio::test]
async fn before_2_6_a_console_is_an_action() {
    let service = service().await;
    let server = service.running(json!({})).await;
    let path = format!("/servers/{server}/action");
    for (action, kind, base) in [
        (
            "os-getVNCConsole",
            "novnc",
            "http://proxy:6080/vnc_lite.html?path=",
        ),
        ("os-getSerialConsole", "serial", "ws://proxy:6083/?token="),
    ] {
        let body = json!({action: {"type": kind}});
        let made = service
            .ask("alice", "2.5", "POST", &path, Some(body.clone()))
            .await;
        assert_eq!(made.status, 200, "{made:?}");
        assert_eq!(made.body["console"]["type"], kind);
        let url = made.body["console"]["url"].as_str().unwrap();
        assert!(url.starts_with(base), "{url}");
        let late = service.ask("alice", "2.6", "POST", &path, Some(body)).await;
        assert_eq!(late.status, 404, "{late:?}");
    }
    let body = json!({"os-getVNCConsole": {"type": "xvpvnc"}});
    let old = service.ask("alice", "2.1", "POST", &path, Some(body)).await;
    assert_eq!(
        old.message("badRequest"),
        "Unavailable console type xvpvnc."
    );
}

#[tokio::test]
async fn a_guest_that_has_no_console_now_says_when_it_gets_one() {
    let service = service().await;
    let server = service.running(json!({})).await;
    let console = || json!({"protocol": "vnc", "type": "novnc"});
    service.cloud.agent.set_guest(server, "stopped", "shut off");
    let off = service.console("alice", "2.6", server, console()).await;
    let sentence = format!("Instance {server} is not ready");
    assert_eq!(off.message("conflictingRequest"), sentence);
    service.cloud.agent.set_guest(server, "active", "running");
    let token = service.console_token(server, "vnc", "novnc").await;
    service.cloud.agent.have_no_consoles();
    let old = service.console("alice", "2.6", server, console()).await;
    assert_eq!(old.status, 400, "{old:?}");
    let message = old.message("badRequest");
    assert!(
        message.contains("it gets one at its next start"),
        "{message}"
    );
    let refused = service.opened(ConsoleKind::Vnc, &token).await;
    assert!(matches!(refused, Err(TokenRefused::Agent { .. })));
    service.cloud.agent.set_unreachable(true);
    let away = service.console("alice", "2.6", server, console()).await;
    assert_eq!(away.status, 503, "{away:?}");
    let booting = service.server(json!({})).await;
    service.cloud.set_goal(booting, &BootGoal::Boot).await;
    let early = service.console("alice", "2.6", booting, console()).await;
    assert!(early.status == 409 || early.status == 503, "{early:?}");
}

#[tokio::test]
async fn operators_see_which_console_a_token_is_for() {
    let service = service().await;
    let server = service.running(json!({})).await;
    let token = service.console_token(server, "vnc", "novnc").await;
    let path = format!("/os-console-auth-tokens/{token}");
    let shown = service.get("admin", "2.31", &path).await;
    assert_eq!(shown.status, 200, "{shown:?}");
    let expected = json!({"instance_uuid": server, "host": "127.0.0.1", "port": 5900, "internal_access_path": null});
    assert_eq!(shown.body["console"], expected);
    assert_eq!(service.get("alice", "2.31", &path).await.status, 403);
    assert_eq!(service.get("admin", "2.30", &path).await.status, 400);
    let guess = service
        .get("admin", "2.31", "/os-console-auth-tokens/guess")
        .await;
    assert_eq!(guess.message("itemNotFound"), "Token not found");
}
