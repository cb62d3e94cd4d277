//! Tests of the external events API: accepted events, and refused requests with their messages.

use axum::body::Body;
use axum::http::Request;
use berth_agent_journal::SqlJournal;
use berth_agent_journal::samples::{arq, guest, request};
use berth_wire::compute::EventStatus;
use serde_json::Value;
use tower::ServiceExt as _;

use super::*;

struct EventApi {
    router: Router,
    events: ExternalEvents,
    journal: Arc<SqlJournal>,
}

async fn event_api() -> EventApi {
    let journal = Arc::new(SqlJournal::in_memory().await.unwrap());
    let events = ExternalEvents::default();
    let router = compute_api(
        Arc::<SqlJournal>::clone(&journal),
        events.clone(),
        EventAuth::NoToken,
    );
    EventApi {
        router,
        events,
        journal,
    }
}

/// An event as Cyborg sends it.
fn event(instance: u32, number: u32, status: &str) -> String {
    format!(
        r#"{{"name": "accelerator-request-bound", "server_uuid": "{}", "tag": "{}", "status": "{status}"}}"#,
        guest(instance),
        arq(number)
    )
}

fn body(events: &[String]) -> String {
    format!(r#"{{"events": [{}]}}"#, events.join(", "))
}

impl EventApi {
    async fn post(&self, version: Option<&str>, body: impl Into<Body>) -> (u16, String, Value) {
        let mut request = Request::post(EVENTS);
        if let Some(version) = version {
            request = request.header("openstack-api-version", version);
        }
        let request = request.body(body.into()).unwrap();
        let answer = self.router.clone().oneshot(request).await.unwrap();
        let status = answer.status().as_u16();
        let version = answer.headers().get("x-openstack-nova-api-version");
        let version = version
            .map_or("", |value| value.to_str().unwrap())
            .to_owned();
        let body = axum::body::to_bytes(answer.into_body(), 1 << 20)
            .await
            .unwrap();
        (status, version, serde_json::from_slice(&body).unwrap())
    }
}

const NEW: Option<&str> = Some("compute 2.82");

#[tokio::test]
async fn events_reach_the_guest_that_waits_and_no_other() {
    let event_api = event_api().await;
    let (mut first, mut second) = (
        event_api.events.subscribe(guest(1)),
        event_api.events.subscribe(guest(2)),
    );
    let sent = body(&[
        event(1, 1, "completed"),
        event(1, 2, "failed"),
        event(2, 3, "completed"),
    ]);
    let (status, version, answer) = event_api.post(NEW, sent).await;
    assert_eq!((status, version.as_str()), (200, "2.82"));
    assert_eq!(answer["events"][1]["code"], 200);
    assert_eq!(answer["events"][1]["status"], "failed");
    let received = first.try_next().unwrap();
    assert_eq!(
        (received.arq, received.status),
        (arq(1), EventStatus::Completed)
    );
    assert_eq!(first.try_next().unwrap().status, EventStatus::Failed);
    assert_eq!(first.try_next(), None);
    assert_eq!(second.try_next().unwrap().arq, arq(3));
}

#[tokio::test]
async fn a_guest_that_is_not_here_yet_is_answered_422_in_a_207() {
    let event_api = event_api().await;
    event_api.journal.accept(&request(2, &[3])).await.unwrap();
    let sent = body(&[event(1, 1, "completed"), event(2, 3, "completed")]);
    let (status, _, answer) = event_api.post(NEW, sent).await;
    assert_eq!(status, 207);
    assert_eq!(answer["events"][0]["code"], 422);
    assert_eq!(answer["events"][1]["code"], 200);
    let (status, _, _) = event_api.post(NEW, body(&[event(1, 1, "completed")])).await;
    assert_eq!(status, 207, "Cyborg would take a 404 for a failed bind");
}

#[tokio::test]
async fn what_the_agent_does_not_act_on_is_not_reported_as_done() {
    let event_api = event_api().await;
    let plugged =
        event(1, 1, "completed").replace("accelerator-request-bound", "network-vif-plugged");
    let tagless = event(1, 1, "completed").replace(&arq(1).to_string(), "no-uuid");
    let (status, _, answer) = event_api.post(NEW, body(&[plugged, tagless])).await;
    assert_eq!(status, 207);
    assert_eq!(answer["events"][0]["code"], 400);
    assert_eq!(answer["events"][1]["code"], 400);
}

#[tokio::test]
async fn bodies_that_novas_schema_refuses_are_refused() {
    let event_api = event_api().await;
    let good = event(1, 1, "completed");
    for (sent, what) in [
        (body(&[]), "events: at least one"),
        ("{}".to_owned(), "events"),
        ("[".to_owned(), "JSON"),
        (
            body(&[good.replace("completed", "done")]),
            "events[0].status",
        ),
        (
            body(&[good.replace("server_uuid", "server")]),
            "events[0].server",
        ),
        (
            body(&[good.replace("11111111-", "x")]),
            "events[0].server_uuid",
        ),
        (
            body(&[good.replace("\"tag\"", "\"code\": 200, \"tag\"")]),
            "code",
        ),
        (
            body(&[good.replace("accelerator-request-bound", "volume-reimaged")]),
            "events[0].name",
        ),
        (
            body(&[good.replace(&arq(1).to_string(), &"x".repeat(256))]),
            "events[0].tag",
        ),
        (
            body(&[good.replace(&arq(1).to_string(), "")]),
            "events[0].tag",
        ),
    ] {
        let (status, _, answer) = event_api.post(NEW, sent.clone()).await;
        let message = answer["badRequest"]["message"].as_str().unwrap();
        assert_eq!(status, 400, "{sent}");
        assert!(message.contains(what), "{message} for {sent}");
    }
    let endless = body(&vec![good; 1000]);
    let (status, _, answer) = event_api.post(NEW, endless).await;
    assert_eq!(
        (status, &answer["overLimit"]["code"]),
        (413, &Value::from(413))
    );
}

#[tokio::test]
async fn versions_are_negotiated_as_nova_does() {
    let event_api = event_api().await;
    for (version, status, spoken) in [
        (Some("compute 2.82"), 207, "2.82"),
        (Some("placement 1.30, compute 2.82"), 207, "2.82"),
        (Some("compute latest"), 207, "2.82"),
        // The event is not known before 2.82, and no header means 2.1.
        (Some("compute 2.81"), 400, "2.81"),
        (None, 400, "2.1"),
        (Some("compute 2.83"), 406, ""),
        (Some("compute 2.0"), 406, ""),
        (Some("compute two"), 406, ""),
    ] {
        let answer = event_api
            .post(version, body(&[event(1, 1, "completed")]))
            .await;
        assert_eq!(
            (answer.0, answer.1.as_str()),
            (status, spoken),
            "{version:?}"
        );
    }
    let request = Request::get("/v2.1/").body(Body::empty()).unwrap();
    let answer = event_api.router.clone().oneshot(request).await.unwrap();
    let document = axum::body::to_bytes(answer.into_body(), 1 << 20)
        .await
        .unwrap();
    let document: Value = serde_json::from_slice(&document).unwrap();
    assert_eq!(document["version"]["version"], "2.82");
}

/// Keystone that knows the tokens `service-token` and `member-token`.
fn keystone() -> IdentityClient {
    use berth_client::{AuthOptions, AuthType, HttpService, Secret, TransportError};
    let http = HttpService::new(tower::service_fn(
        |request: Request<bytes::Bytes>| async move {
            let subject = request.headers().get("x-subject-token").unwrap();
            let role = match subject.to_str().unwrap() {
                "service-token" => "service",
                "member-token" => "member",
                _ => {
                    let unknown = json!({"error": {"code": 404, "message": "no such token"}});
                    let answer = axum::http::Response::builder().status(404);
                    let unknown = bytes::Bytes::from(unknown.to_string());
                    return Ok::<_, TransportError>(answer.body(unknown).unwrap());
                }
            };
            let body = json!({"token": {"user": {"id": "u"}, "roles": [{"name": role, "id": "r"}],
                "expires_at": "2999-01-01T00:00:00.000000Z"}});
            let body = bytes::Bytes::from(body.to_string());
            Ok(axum::http::Response::new(body))
        },
    ));
    let options = AuthOptions {
        auth_type: Some(AuthType::AdminToken),
        auth_url: Some("http://keystone/v3".to_owned()),
        endpoint_override: Some("http://keystone".to_owned()),
        token: Some(Secret::from("own")),
        ..AuthOptions::for_service("identity")
    };
    IdentityClient::from_options(http, &options, Arc::new(std::time::SystemTime::now)).unwrap()
}

#[tokio::test]
async fn with_tokens_only_services_may_send_events() {
    let journal = Arc::new(SqlJournal::in_memory().await.unwrap());
    let auth = EventAuth::WithToken {
        identity: Box::new(keystone()),
        roles: Arc::from(["service".to_owned(), "admin".to_owned()]),
    };
    let router = compute_api(journal, ExternalEvents::default(), auth);
    for (token, status) in [
        (Some("service-token"), 207),
        (Some("member-token"), 403),
        (Some("stale"), 401),
        (None, 401),
    ] {
        let mut request = Request::post(EVENTS).header("openstack-api-version", "compute 2.82");
        if let Some(token) = token {
            request = request.header("x-auth-token", token);
        }
        let sent = body(&[event(1, 1, "completed")]);
        let request = request.body(Body::from(sent)).unwrap();
        let answer = router.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status().as_u16(), status, "{token:?}");
    }
}
