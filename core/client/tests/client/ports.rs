//! What the real network service does not show on request: pages, proxies, outages.

use berth_client::network::PortFilter;
use berth_client::placement::DeleteOutcome;
use berth_client::{Auth, Disposition, NetworkClient, NetworkClientError, Secret};
use berth_wire::neutron::CreatePortBody;
use uuid::Uuid;

use crate::script::{Reply, Script, answer, connection_reset, options};

const PORT: &str = "88a15950-b8bf-4445-86f5-21ad10632a28";
const OTHER: &str = "88a15950-b8bf-4445-86f5-21ad10632a29";

fn client(script: &Script) -> NetworkClient {
    let auth = Auth::admin_token("http://placement/v2.0", &Secret::from("admin")).unwrap();
    NetworkClient::new(script.http.clone(), auth, &options())
}

fn refused(status: u16, kind: &str) -> Reply {
    let body = format!(
        r#"{{"NeutronError": {{"type": "{kind}", "message": "Port {PORT} could not.\n", "detail": ""}}}}"#
    );
    answer(status, body)
}

#[tokio::test]
async fn a_list_is_read_page_after_page() {
    let page = |port: &str, links: &str| {
        let ports = format!(
            r#"{{"id": "{port}", "network_id": "{PORT}", "mac_address": "fa:16:3e:00:00:01"}}"#
        );
        answer(200, format!(r#"{{"ports": [{ports}]{links}}}"#))
    };
    let next = r#", "ports_links": [{"rel": "next", "href": "http://elsewhere/"}]"#;
    let last = r#", "ports_links": [{"rel": "previous", "href": "http://elsewhere/"}]"#;
    let script = Script::of(vec![page(PORT, next), page(OTHER, last)]);
    let filter = PortFilter {
        project: Some("a b".to_owned()),
        ..PortFilter::default()
    };
    let ports = client(&script).ports(&filter).await.unwrap();
    let ids: Vec<_> = ports.iter().map(|port| port.id.to_string()).collect();
    assert_eq!(ids, [PORT, OTHER]);
    assert_eq!(
        script.lines(),
        [
            "GET /v2.0/ports?tenant_id=a%20b [-]".to_owned(),
            format!("GET /v2.0/ports?tenant_id=a%20b&marker={PORT} [-]"),
        ]
    );
}

#[tokio::test]
async fn only_the_services_own_404_says_that_a_port_is_gone() {
    let port: Uuid = PORT.parse().unwrap();
    let script = Script::of(vec![refused(404, "PortNotFound")]);
    assert_eq!(client(&script).port(port).await, Ok(None));
    let outcome = client(&script).delete_port(port).await;
    assert_eq!(outcome, Ok(DeleteOutcome::AlreadyGone));
    let script = Script::of(vec![answer(404, "<h1>no such host</h1>")]);
    let error = client(&script).delete_port(port).await.unwrap_err();
    assert!(matches!(error, NetworkClientError::Malformed(_)), "{error}");
    assert_ne!(error.disposition(), Disposition::Fatal);
}

#[tokio::test]
async fn a_port_may_exist_after_a_create_without_an_answer() {
    for reply in [connection_reset(), answer(502, "<h1>bad gateway</h1>")] {
        let script = Script::of(vec![reply]);
        let created = client(&script)
            .create_port(&CreatePortBody::default())
            .await;
        assert_eq!(created.unwrap_err().disposition(), Disposition::Refresh);
        assert_eq!(script.lines().len(), 1);
    }
}

#[tokio::test]
async fn a_refusal_has_the_error_of_its_type() {
    type Is = fn(&NetworkClientError) -> bool;
    let cases: [(u16, &str, Is); 9] = [
        (409, "IpAddressGenerationFailure", |it| {
            matches!(it, NetworkClientError::NoFreeAddress(_))
        }),
        (409, "IpAddressInUse", |it| {
            matches!(it, NetworkClientError::AddressInUse(_))
        }),
        (400, "InvalidIpForSubnet", |it| {
            matches!(it, NetworkClientError::InvalidAddress(_))
        }),
        (409, "PortInUse", |it| {
            matches!(it, NetworkClientError::PortInUse(_))
        }),
        (409, "MacAddressInUse", |it| {
            matches!(it, NetworkClientError::MacAddressInUse(_))
        }),
        (409, "OverQuota", |it| {
            matches!(it, NetworkClientError::OverQuota(_))
        }),
        (409, "HostNotCompatibleWithFixedIps", |it| {
            matches!(it, NetworkClientError::HostNotInSegment(_))
        }),
        (409, "AnotherConflict", |it| {
            matches!(it, NetworkClientError::Conflict(_))
        }),
        (403, "PolicyNotAuthorized", |it| {
            matches!(it, NetworkClientError::Forbidden(_))
        }),
    ];
    for (status, kind, is) in cases {
        let script = Script::of(vec![refused(status, kind)]);
        let created = client(&script)
            .create_port(&CreatePortBody::default())
            .await;
        let error = created.unwrap_err();
        assert!(is(&error), "{kind}: {error:?}");
        assert_eq!(error.what(), format!("Port {PORT} could not"));
    }
}
