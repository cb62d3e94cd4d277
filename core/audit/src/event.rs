//! The audit record of one request as JSON, with the field names of CADF.
//!
//! `requestMethod` and `durationMs` are not CADF's: CADF has no field for them.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use http::{Method, StatusCode, Uri};
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

/// The longest text of a record that comes from the client, in characters.
const LONGEST: usize = 1024;
/// A query key with one of these words in its name has a secret value, which is masked.
const SECRET_WORDS: [&str; 9] = [
    "token",
    "pass",
    "secret",
    "key",
    "auth",
    "sign",
    "credential",
    "user_data",
    "userdata",
];

/// The sender of a request, as its connection shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditPeer {
    /// A client over TCP; `None` if its address is unknown.
    Address(Option<IpAddr>),
    /// A process of this host, on a unix socket. The kernel reports its ids.
    Process {
        uid: Option<u32>,
        gid: Option<u32>,
        pid: Option<i32>,
    },
    /// A client with a certificate.
    Certificate {
        /// The holder's name in it.
        holder: String,
        address: IpAddr,
    },
}

/// The authenticated sender of a request, as a service knows it. Texts are empty if they are unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditInitiator {
    pub user_id: Option<String>,
    pub user_name: Option<String>,
    /// The domain of the user.
    pub user_domain_id: Option<String>,
    /// The project of the token.
    pub project_id: Option<String>,
    /// The domain of the token, if it is for a domain.
    pub domain_id: Option<String>,
    /// Whether the token is for the cloud itself.
    pub is_system: bool,
    pub roles: Vec<String>,
    /// The token's audit id, and that of the first token of its chain.
    pub audit_ids: Vec<String>,
    /// The kind of the proof: `token` or `password`.
    pub credential: Option<&'static str>,
}

/// The object of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditTarget {
    /// For example `service/compute/servers`.
    pub type_uri: String,
    /// The id in the path, or that of the object of the request; `None` for a collection.
    pub id: Option<String>,
}

impl AuditTarget {
    /// The object of a path such as `/v1/guests/UUID/stop`: its first noun, and the id after it.
    pub(crate) fn of_path(observer: &str, path: &str) -> Self {
        let mut segments = path.split('/').filter(|it| !it.is_empty()).peekable();
        let is_version =
            |it: &&str| it.starts_with('v') && it[1..].starts_with(|c: char| c.is_ascii_digit());
        segments.next_if(is_version);
        let type_uri = match segments.next() {
            Some(noun) => format!("{observer}/{}", bounded(noun)),
            None => observer.to_owned(),
        };
        Self {
            type_uri,
            id: segments.next().map(bounded),
        }
    }

    /// The id, unless it is a secret.
    fn shown_id(&self) -> Option<&str> {
        let is_secret = self.type_uri.ends_with(TOKENS_IN_PATHS);
        let id = self.id.as_deref();
        id.map(|id| if is_secret { "***" } else { id })
    }
}

/// The path of console tokens in Nova's API. The next segment is a token, which is a secret.
const TOKENS_IN_PATHS: &str = "/os-console-auth-tokens";

/// The path without the token that may follow its noun.
fn without_token(path: &str) -> Cow<'_, str> {
    match path.split_once(&format!("{TOKENS_IN_PATHS}/")) {
        Some((before, _)) => format!("{before}{TOKENS_IN_PATHS}/***").into(),
        None => path.into(),
    }
}

/// What is known of a request when it begins.
#[derive(Debug, Clone)]
pub(crate) struct RequestFacts {
    pub(crate) id: Uuid,
    pub(crate) time: SystemTime,
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) user_agent: Option<String>,
    pub(crate) peer: AuditPeer,
}

/// What services add to it.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServiceFacts {
    /// The API that received the request, for example `service/compute`.
    pub(crate) observer: Option<String>,
    pub(crate) request_id: Option<String>,
    pub(crate) global_request_id: Option<String>,
    pub(crate) initiator: Option<AuditInitiator>,
    /// The operation's action, if it does not follow from the method.
    pub(crate) action: Option<&'static str>,
    pub(crate) target: Option<AuditTarget>,
    /// The policy rule that refused the request.
    pub(crate) refused_by: Option<String>,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AuditOutcome {
    /// It has not been carried out yet.
    Pending,
    Answered(StatusCode, Duration),
    /// The client went away before it was answered.
    Unknown(Duration),
}

/// The action of a method, in CADF's words.
pub(crate) fn action_of(method: &Method) -> &'static str {
    match *method {
        Method::GET | Method::HEAD | Method::OPTIONS => "read",
        Method::POST => "create",
        Method::DELETE => "delete",
        _ => "update",
    }
}

/// Whether an action changes nothing that somebody asked for. A heartbeat (`monitor`) counts as one.
pub(crate) fn is_read(action: &str) -> bool {
    matches!(action, "read" | "monitor")
}

/// The path and query of a request, without the values of query keys that name a secret.
pub(crate) fn shown_path(uri: &Uri) -> String {
    let path = bounded(&without_token(uri.path()));
    let Some(query) = uri.query() else {
        return path;
    };
    let pairs = query.split('&').map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = key.to_ascii_lowercase();
        // An encoded name may spell anything.
        let is_secret = name.contains('%') || SECRET_WORDS.iter().any(|word| name.contains(word));
        match is_secret && !value.is_empty() {
            true => format!("{key}=***"),
            false => pair.to_owned(),
        }
    });
    let query = pairs.collect::<Vec<_>>().join("&");
    format!("{path}?{}", bounded(&query))
}

/// The text, cut off after [`LONGEST`] characters. A character that ends a line or changes the direction of the text for a
/// reader is replaced by U+FFFD. JSON escapes those below U+0020.
pub(crate) fn bounded(text: &str) -> String {
    let is_misleading = |it: char| matches!(it, '\u{7f}'..='\u{9f}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let replaced = |it: char| match is_misleading(it) {
        true => char::REPLACEMENT_CHARACTER,
        false => it,
    };
    let mut characters = text.chars();
    let mut shown: String = characters.by_ref().take(LONGEST).map(replaced).collect();
    if characters.next().is_some() {
        shown.push_str("...");
    }
    shown
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AuditEvent<'a> {
    #[serde(rename = "typeURI")]
    type_uri: &'static str,
    id: String,
    event_type: &'static str,
    event_time: String,
    action: &'a str,
    outcome: &'static str,
    initiator: InitiatorShown<'a>,
    target: TargetShown<'a>,
    observer: TargetShown<'a>,
    request_method: &'a str,
    request_path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<ReasonShown<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
}

#[derive(Serialize)]
struct InitiatorShown<'a> {
    #[serde(rename = "typeURI")]
    type_uri: &'static str,
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The domain of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    domain: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    project_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    domain_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<bool>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    roles: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    credential: Option<Value>,
    host: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    global_request_id: Option<&'a str>,
}

#[derive(Serialize)]
struct TargetShown<'a> {
    #[serde(rename = "typeURI")]
    type_uri: &'a str,
    id: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReasonShown<'a> {
    reason_type: &'static str,
    reason_code: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy_id: Option<&'a str>,
}

/// The record as one line, without its end. `host` is the name of this host.
pub(crate) fn line(
    request: &RequestFacts,
    known: &ServiceFacts,
    outcome: AuditOutcome,
    host: &str,
) -> String {
    let nobody = AuditInitiator::default();
    let by = known.initiator.as_ref().unwrap_or(&nobody);
    let status = match outcome {
        AuditOutcome::Answered(status, _) => Some(status),
        AuditOutcome::Pending | AuditOutcome::Unknown(_) => None,
    };
    let duration = match outcome {
        AuditOutcome::Pending => None,
        AuditOutcome::Answered(_, duration) | AuditOutcome::Unknown(duration) => Some(duration),
    };
    let target = known.target.as_ref();
    let observer = known.observer.as_deref().unwrap_or("service");
    let event = AuditEvent {
        type_uri: "http://schemas.dmtf.org/cloud/audit/1.0/event",
        id: request.id.to_string(),
        event_type: "activity",
        event_time: humantime::format_rfc3339_micros(request.time).to_string(),
        action: known.action.unwrap_or_else(|| action_of(&request.method)),
        outcome: match (outcome, status) {
            (AuditOutcome::Pending, _) => "pending",
            (AuditOutcome::Unknown(_), _) | (_, None) => "unknown",
            (_, Some(status)) if status.as_u16() < 400 => "success",
            _ => "failure",
        },
        initiator: InitiatorShown {
            type_uri: "service/security/account/user",
            id: initiator_id(by, &request.peer),
            name: by.user_name.as_deref().map(bounded),
            domain: by.user_domain_id.as_deref(),
            project_id: by.project_id.as_deref(),
            domain_id: by.domain_id.as_deref(),
            system: by.is_system.then_some(true),
            roles: &by.roles,
            credential: credential(by, &request.peer),
            host: peer_host(request),
            request_id: known.request_id.as_deref(),
            global_request_id: known.global_request_id.as_deref(),
        },
        target: TargetShown {
            type_uri: target.map_or(observer, |target| &target.type_uri),
            id: target.and_then(AuditTarget::shown_id).unwrap_or("unknown"),
        },
        observer: TargetShown {
            type_uri: observer,
            id: host,
        },
        request_method: request.method.as_str(),
        request_path: &request.path,
        reason: status.map(|status| ReasonShown {
            reason_type: "HTTP",
            reason_code: status.as_u16().to_string(),
            policy_type: known.refused_by.as_ref().map(|_| "oslo.policy"),
            policy_id: known.refused_by.as_deref(),
        }),
        duration_ms: duration.map(|it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX)),
    };
    // Texts and numbers always serialise. JSON escapes the control characters, ends of lines included.
    serde_json::to_string(&event).unwrap_or_default()
}

fn initiator_id(by: &AuditInitiator, peer: &AuditPeer) -> String {
    match (&by.user_id, peer) {
        (Some(id), _) => bounded(id),
        (None, AuditPeer::Certificate { holder, .. }) => bounded(holder),
        (None, AuditPeer::Process { uid: Some(uid), .. }) => format!("uid:{uid}"),
        _ => "unknown".to_owned(),
    }
}

fn credential(by: &AuditInitiator, peer: &AuditPeer) -> Option<Value> {
    match (by.credential, peer) {
        (Some(kind), _) if by.audit_ids.is_empty() => Some(json!({"type": kind})),
        (Some(kind), _) => Some(json!({"type": kind, "audit_ids": by.audit_ids})),
        (None, AuditPeer::Certificate { holder, .. }) => {
            Some(json!({"type": "certificate", "holder": bounded(holder)}))
        }
        (None, AuditPeer::Process { uid, gid, pid }) => {
            Some(json!({"type": "process", "uid": uid, "gid": gid, "pid": pid}))
        }
        (None, AuditPeer::Address(_)) => None,
    }
}

fn peer_host(request: &RequestFacts) -> Value {
    let address = match &request.peer {
        AuditPeer::Address(address) => address.map(|it| it.to_canonical().to_string()),
        AuditPeer::Certificate { address, .. } => Some(address.to_canonical().to_string()),
        AuditPeer::Process { .. } => Some("unix".to_owned()),
    };
    match &request.user_agent {
        Some(agent) => json!({"address": address, "agent": agent}),
        None => json!({"address": address}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(path: &str, peer: AuditPeer) -> RequestFacts {
        RequestFacts {
            id: Uuid::nil(),
            time: SystemTime::UNIX_EPOCH + Duration::from_micros(1_764_261_600_000_123),
            method: Method::POST,
            path: shown_path(&path.parse().unwrap()),
            user_agent: Some("curl/8\n\"".to_owned()),
            peer,
        }
    }

    #[test]
    fn a_record_says_who_asked_what_and_which_rule_refused_it() {
        let peer = AuditPeer::Address(Some("::ffff:192.0.2.7".parse().unwrap()));
        let known = ServiceFacts {
            observer: Some("service/compute".to_owned()),
            request_id: Some("req-1".to_owned()),
            global_request_id: Some("req-2".to_owned()),
            initiator: Some(AuditInitiator {
                user_id: Some("u1".to_owned()),
                user_name: Some("alice".to_owned()),
                user_domain_id: Some("default".to_owned()),
                project_id: Some("p1".to_owned()),
                roles: vec!["member".to_owned()],
                audit_ids: vec!["a1".to_owned()],
                credential: Some("token"),
                ..AuditInitiator::default()
            }),
            action: None,
            target: Some(AuditTarget {
                type_uri: "service/compute/flavors".to_owned(),
                id: None,
            }),
            refused_by: Some("os_compute_api:os-flavor-manage:create".to_owned()),
        };
        let outcome = AuditOutcome::Answered(StatusCode::FORBIDDEN, Duration::from_micros(12_900));
        let text = line(
            &request("/compute/v2.1/flavors", peer),
            &known,
            outcome,
            "ctl",
        );
        let record: Value = serde_json::from_str(&text).unwrap();
        let wanted = json!({
            "typeURI": "http://schemas.dmtf.org/cloud/audit/1.0/event",
            "id": "00000000-0000-0000-0000-000000000000",
            "eventType": "activity",
            "eventTime": "2025-11-27T16:40:00.000123Z",
            "action": "create",
            "outcome": "failure",
            "initiator": {
                "typeURI": "service/security/account/user",
                "id": "u1", "name": "alice", "domain": "default", "project_id": "p1", "roles": ["member"],
                "credential": {"type": "token", "audit_ids": ["a1"]},
                "host": {"address": "192.0.2.7", "agent": "curl/8\n\""},
                "request_id": "req-1", "global_request_id": "req-2",
            },
            "target": {"typeURI": "service/compute/flavors", "id": "unknown"},
            "observer": {"typeURI": "service/compute", "id": "ctl"},
            "requestMethod": "POST",
            "requestPath": "/compute/v2.1/flavors",
            "reason": {
                "reasonType": "HTTP", "reasonCode": "403", "policyType": "oslo.policy",
                "policyId": "os_compute_api:os-flavor-manage:create",
            },
            "durationMs": 12,
        });
        assert_eq!(record, wanted);
        assert!(!text.contains('\n'), "{text}");
    }

    #[test]
    fn a_process_of_this_host_and_the_holder_of_a_certificate_are_initiators() {
        let local = AuditPeer::Process {
            uid: Some(1000),
            gid: Some(1000),
            pid: Some(7),
        };
        let remote = AuditPeer::Certificate {
            holder: "CN=conductor".to_owned(),
            address: "192.0.2.1".parse().unwrap(),
        };
        for (peer, id, kind) in [
            (local, "uid:1000", "process"),
            (remote, "CN=conductor", "certificate"),
            (AuditPeer::Address(None), "unknown", ""),
        ] {
            let outcome = AuditOutcome::Pending;
            let text = line(
                &request("/v1/tick", peer),
                &ServiceFacts::default(),
                outcome,
                "h",
            );
            let record: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(record["initiator"]["id"], id, "{text}");
            let shown = record["initiator"]["credential"]["type"].as_str();
            assert_eq!(shown.unwrap_or_default(), kind, "{text}");
            assert_eq!(record["outcome"], "pending");
            assert!(record.get("reason").is_none(), "{text}");
        }
    }

    #[test]
    fn a_path_shows_no_value_of_a_secret_query_key_and_is_never_long() {
        for (asked, shown) in [
            (
                "/v2.1/servers?name=web&limit=2",
                "/v2.1/servers?name=web&limit=2",
            ),
            ("/x?token=s3cret&a=b", "/x?token=***&a=b"),
            ("/x?X-Auth-Token=s3cret", "/x?X-Auth-Token=***"),
            ("/x?adminPassword=s3cret", "/x?adminPassword=***"),
            ("/x?adminPass=s3cret", "/x?adminPass=***"),
            ("/x?user_data=s3cret", "/x?user_data=***"),
            ("/x?%74oken=s3cret", "/x?%74oken=***"),
            ("/x?token", "/x?token"),
            (
                "/v2.1/os-console-auth-tokens/s3cret",
                "/v2.1/os-console-auth-tokens/***",
            ),
        ] {
            assert_eq!(shown_path(&asked.parse().unwrap()), shown);
        }
        let long = format!("/{}?a={}", "x".repeat(5_000), "y".repeat(5_000));
        assert!(shown_path(&long.parse().unwrap()).len() < 2_100);
    }

    #[test]
    fn a_text_of_a_client_cannot_end_a_line_of_the_log_or_reverse_it() {
        assert_eq!(
            bounded("a\u{2028}b\u{85}c\u{202e}d"),
            "a\u{fffd}b\u{fffd}c\u{fffd}d"
        );
        assert_eq!(bounded("café 日本"), "café 日本");
    }

    #[test]
    fn a_path_without_an_operation_has_its_first_noun_and_id_as_target() {
        for (path, type_uri, id) in [
            ("/v1/guests/g1/stop", "service/agent/guests", Some("g1")),
            ("/v1/guests", "service/agent/guests", None),
            ("/metrics", "service/agent/metrics", None),
            ("/", "service/agent", None),
            ("/vfs/1", "service/agent/vfs", Some("1")),
        ] {
            let found = AuditTarget::of_path("service/agent", path);
            assert_eq!(
                (found.type_uri.as_str(), found.id.as_deref()),
                (type_uri, id)
            );
        }
    }

    #[test]
    fn what_changes_nothing_is_a_read() {
        assert!(is_read(action_of(&Method::GET)) && is_read(action_of(&Method::HEAD)));
        assert!(is_read("monitor"));
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            assert!(!is_read(action_of(&method)), "{method}");
        }
        assert!(!is_read("authenticate") && !is_read("revoke"));
    }
}
