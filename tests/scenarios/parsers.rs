//! Parsers of the agent's own files and bodies, and of Keystone's answers, with arbitrary input: written values read
//! back, and anything else gives an error that names the file or the peer, never a panic. Other crates test their
//! parsers themselves (`cli/config/tests/config/errors` those of the configuration).

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use berth_agent_api::body::{HealthBody, StateBody};
use berth_agent_tracker::disabled::{self, DisabledByOperator};
use berth_agent_tracker::node_identity::{UuidSource, identify};
use berth_agent_tracker::options::Rename;
use berth_client::{
    AdapterOptions, Auth, AuthOptions, AuthType, HttpService, PlacementClient, Secret,
    TransportError,
};
use berth_compose::plan_file::PlanFile;
use berth_model::{NodeName, error_chain};
use berth_store::Location;
use berth_tests::cloud::Cloud;
use berth_tests::node::{COMPUTE_ID, MemoryFiles};
use bytes::Bytes;
use futures_util::FutureExt;
use http::{Request, Response};
use proptest::prelude::*;
use serde_json::json;
use uuid::Uuid;

/// Texts near what is expected, and far from it.
fn anything() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[\\[\\]{}:,\"a-z0-9_ .-]{0,80}",
        r#"\{"(reason|since|by_uid|api|nodes)": ?("[a-z]{0,8}"|-?[0-9]{1,20}|null|\[\]|\{\})\}"#,
        r#"\{"api": ?"berth/1", ?"nodes": ?\{"[a-z|]{0,4}": ?\{"pending": ?"", ?"text": ?"", ?"generations": ?\{"[a-f0-9-]{0,36}": ?-?[0-9]{1,19}\}\}\}\}"#,
    ]
}

fn files(name: &str, content: &str) -> MemoryFiles {
    let files = MemoryFiles::default();
    files.put(name, content);
    files
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn disabled_json_is_understood_or_named(content in anything()) {
        let files = files("disabled.json", &content);
        let read = disabled::load(&files).now_or_never().expect("memory answers at once");
        if let Err(error) = read {
            let message = error_chain(&error);
            prop_assert!(message.contains("disabled.json"), "{}", message);
        }
    }

    #[test]
    fn disabled_json_reads_back(reason in "[a-zA-Z0-9äöü\"\\\\ ]{1,60}", by_uid in any::<Option<u32>>()) {
        let now = std::time::SystemTime::UNIX_EPOCH;
        if let Ok(made) = DisabledByOperator::new(&reason, now, by_uid) {
            let files = MemoryFiles::default();
            disabled::store(&files, Some(&made)).now_or_never().unwrap().unwrap();
            let read = disabled::load(&files).now_or_never().unwrap().unwrap();
            prop_assert_eq!(read.by_operator, Some(made));
        }
    }

    #[test]
    fn a_plan_file_is_understood_or_named(content in anything()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.json");
        std::fs::write(&path, &content).unwrap();
        match PlanFile::read(&path) {
            Ok(plan) => {
                if let Err(failure) = plan.reviewed() {
                    prop_assert!(failure.explain().contains("the plan"), "{}", failure.explain());
                }
                let text = serde_json::to_string(&plan).unwrap();
                prop_assert_eq!(serde_json::from_str::<PlanFile>(&text).unwrap(), plan);
            }
            Err(failure) => {
                let message = failure.explain();
                prop_assert!(message.contains("plan.json"), "{}", message);
            }
        }
    }

    #[test]
    fn the_admin_apis_bodies_are_understood_or_refused(content in anything()) {
        if let Ok(body) = serde_json::from_str::<HealthBody>(&content) {
            let text = serde_json::to_string(&body).unwrap();
            prop_assert_eq!(serde_json::from_str::<HealthBody>(&text).unwrap(), body);
        }
        if let Ok(body) = serde_json::from_str::<StateBody>(&content) {
            let text = serde_json::to_string(&body).unwrap();
            prop_assert_eq!(serde_json::from_str::<StateBody>(&text).unwrap(), body);
        }
    }

    #[test]
    fn a_database_url_is_understood_or_refused_without_its_password(
        scheme in "(sqlite|postgresql|mysql|[a-z]{0,6}):?",
        rest in prop_oneof![any::<String>(), "//?[a-z/.?#:]{0,30}"],
    ) {
        if let Err(error) = format!("{scheme}//user:planted-secret@{rest}").parse::<Location>() {
            prop_assert!(!error_chain(&error).contains("planted-secret"));
        }
        let known = format!("{scheme}{rest}").parse::<Location>();
        prop_assert!(known.is_err() || scheme.starts_with("sqlite"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn compute_id_is_a_uuid_or_named(content in prop_oneof![any::<String>(), "[0-9a-f-]{30,40}\n?"]) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (files, node) = (files(COMPUTE_ID, &content), NodeName::new("gpu-01").unwrap());
        let source = UuidSource::File(COMPUTE_ID.to_owned());
        let identified = runtime.block_on(async {
            let placement = Cloud::in_process().await.placement();
            identify(&node, &source, &files, &placement, Rename::Refuse).await
        });
        match identified {
            Ok(identity) => prop_assert_eq!(Ok(identity.root), content.trim().parse()),
            Err(error) => {
                let message = error_chain(&error);
                prop_assert!(message.contains(COMPUTE_ID), "{}", message);
            }
        }
    }
}

/// What one call of Placement says when Keystone answers its login so.
fn call_after(status: u16, token: &str, document: &str) -> Result<(), String> {
    let (token, document) = (token.to_owned(), document.to_owned());
    let http = HttpService::new(tower::service_fn(move |request: Request<Bytes>| {
        let answer = if request.uri().path().ends_with("/auth/tokens") {
            let answer = Response::builder().status(status);
            answer
                .header("x-subject-token", &token)
                .body(document.clone().into())
        } else {
            Response::builder().body(r#"{"resource_providers": []}"#.into())
        };
        std::future::ready(Ok::<_, TransportError>(answer.unwrap()))
    }));
    let mut options = AuthOptions::for_service("placement");
    options.auth_type = Some(AuthType::Password);
    options.auth_url = Some("http://keystone:5000".into());
    options.username = Some("nova".into());
    options.password = Some(Secret::from("planted-secret"));
    options.user_domain_name = Some("Default".into());
    options.project_name = Some("service".into());
    options.project_domain_name = Some("Default".into());
    // 2026-11-20T17:00:00Z.
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_194_000);
    let adapter = AdapterOptions::default();
    let auth = Auth::from_options(&options, &http, Arc::new(move || now), &adapter).unwrap();
    let client = PlacementClient::new(http, auth, &adapter);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let asked = runtime.block_on(client.providers_in_tree(Uuid::from_u128(1).into()));
    asked.map(drop).map_err(|error| error_chain(&error))
}

/// A document that is nearly Keystone's.
fn token_document() -> impl Strategy<Value = String> {
    let word = || {
        prop_oneof![
            Just(json!(null)),
            Just(json!(7)),
            Just(json!([])),
            Just(json!("placement")),
            Just(json!("internal")),
            Just(json!("public")),
            "http://[a-z.:/\\[\\]@?#%0-9]{0,20}".prop_map(|text| json!(text)),
            any::<String>().prop_map(|text| json!(text)),
        ]
    };
    let expires = prop_oneof![
        Just(json!("2026-11-20T18:00:00.000000Z")),
        "[0-9]{1,5}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{0,9})?Z?"
            .prop_map(|text| json!(text)),
        word(),
    ];
    (expires, prop::array::uniform5(word())).prop_map(
        |(expires_at, [kind, name, interface, region, url])| {
            let endpoint = json!({"interface": interface, "region": region, "url": url});
            let service = json!({"type": kind, "name": name, "endpoints": [endpoint]});
            json!({"token": {"expires_at": expires_at, "catalog": [service]}}).to_string()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn keystones_answer_is_understood_or_keystone_is_named(
        status in prop_oneof![3 => Just(201_u16), 1 => 200_u16..600],
        token in "[ -~]{0,40}",
        document in prop_oneof![2 => token_document(), 1 => anything()],
    ) {
        if let Err(text) = call_after(status, &token, &document) {
            prop_assert!(text.contains("Keystone") || text.contains("catalog"), "{}", text);
            prop_assert!(!text.contains("planted-secret"), "{}", text);
            prop_assert!(text.len() < 4096, "{}", text.len());
        }
    }
}

#[test]
fn keystones_usual_answer_is_understood_and_a_wrong_field_is_named() {
    let document = |url: serde_json::Value| {
        let endpoint = json!({"interface": "internal", "region": "RegionOne", "url": url});
        let service = json!({"type": "placement", "name": "placement", "endpoints": [endpoint]});
        json!({"token": {"expires_at": "2026-11-20T18:00:00.000000Z", "catalog": [service]}})
            .to_string()
    };
    assert_eq!(
        call_after(201, "t", &document(json!("http://placement"))),
        Ok(())
    );
    let message = call_after(201, "t", &document(json!(1))).unwrap_err();
    assert!(
        message.contains("token.catalog[0].endpoints[0].url"),
        "{message}"
    );
}
