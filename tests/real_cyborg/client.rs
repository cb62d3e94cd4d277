//! OpenStack's command line client with the real Cyborg and with the built-in service: both give the same columns,
//! values of the same kind, and the same refusals.

use berth_accelerator::{AcceleratorApiOptions, prepare, router, serve_tcp};
use berth_store::SqlStore;
use berth_tests::exchange::HttpCall;
use berth_tests::peer::{AcceleratorPlugin, CommandOutput, OpenStackShell};
use serde_json::{Value, json};

use crate::real_cyborg::cloud::{Cloud, options};

const UNKNOWN: &str = "00000000-0000-4000-8000-000000000000";

/// The service built in, with a device and a profile such as Cyborg has them; its URL, with `/v2`.
fn built_in() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a socket");
    let root = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async move {
            let store = SqlStore::in_memory().await.expect("a database");
            prepare(&store).await.expect("a schema");
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            let api = router(store, AcceleratorApiOptions::default());
            serve_tcp(listener, api, std::future::pending::<()>()).await;
        });
    });
    let address = json!({"domain": "0000", "bus": "21", "device": "00", "function": "0"});
    let handle = json!({"attach_type": "PCI", "attach_info": address});
    let deployable = json!({"name": "acc-01_0000:21:00.0", "resource_class": "CUSTOM_PCI", "attach_handles": [handle],
        "rp_uuid": "f9d7848a-7688-361f-8e4b-3e58185de5fe", "driver_name": "pci"});
    let device = json!({"name": "0000:21:00.0", "type": "GPU", "vendor": "10de", "model": "T4",
        "std_board_info": "{}", "vendor_board_info": "{}", "deployables": [deployable]});
    let report = HttpCall::put(format!("{root}/internal/v1/hosts/acc-01/devices"));
    let profile = HttpCall::post(format!("{root}/v2/device_profiles"));
    for ask in [
        report.json(&json!({"devices": [device]})),
        profile.json(&json!([{"name": "pci", "groups": [{"resources:CUSTOM_PCI": "1"}]}])),
    ] {
        let answer = ask
            .header("x-auth-token", "admin")
            .send()
            .expect("an answer");
        assert!(answer.status.is_success(), "{}", answer.text());
    }
    format!("{root}/v2")
}

/// Of each value no more than its kind: the columns are to be the same, what stands in them is another cloud's.
fn kinds(json: &Value) -> Value {
    match json {
        Value::Array(rows) => rows.first().map_or(json!([]), |row| json!([kinds(row)])),
        Value::Object(cells) => {
            let cells = cells.iter().map(|(name, value)| {
                let kind = match value {
                    Value::Null => "nothing",
                    Value::String(_) => "text",
                    Value::Number(_) => "number",
                    Value::Bool(_) => "flag",
                    Value::Array(_) | Value::Object(_) => "document",
                };
                // What a time is not yet, the number of a part that Cyborg counts and we do not: both may be nothing.
                let may_be_nothing = ["updated_at", "description", "parent_id", "root_id"];
                let kind = if may_be_nothing.contains(&name.as_str()) {
                    "any"
                } else {
                    kind
                };
                (name.clone(), json!(kind))
            });
            Value::Object(cells.collect())
        }
        _ => Value::Null,
    }
}

/// Whether these are the same kinds. The first row of a list is another test's at times, which has what a new one has not yet.
fn agree(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| agree(a, b))
        }
        (Value::Object(ours), Value::Object(theirs)) => {
            ours.len() == theirs.len()
                && ours
                    .iter()
                    .all(|(name, kind)| theirs.get(name).is_some_and(|other| agree(kind, other)))
        }
        (ours, theirs) => ours == theirs || ours == "nothing" || theirs == "nothing",
    }
}

/// How a command was refused: the code, and what the client says before it quotes the service's own words.
fn refusal(output: &CommandOutput) -> (i64, String) {
    let words = output.err.split(" for url: ").next().unwrap_or_default();
    (output.code, words.trim().to_owned())
}

#[test]
fn openstacks_client_shows_the_same_of_cyborg_and_of_the_service_built_in() {
    let cloud = Cloud::shared();
    let admin = options(
        &cloud.cyborg,
        &cloud.cyborg.keystone().berth(),
        "accelerator",
    );
    let keystone = json!({"auth_url": admin.auth_url, "username": admin.username, "password": "test-only",
        "project_name": admin.project_name, "user_domain_id": "default", "project_domain_id": "default"});
    let clouds = json!({
        "cyborg": {"auth": keystone, "region_name": admin.region_name},
        "built-in": {"auth_type": "admin_token", "auth": {"endpoint": built_in(), "token": "admin"}},
    });
    let mut shell =
        OpenStackShell::start(AcceleratorPlugin::OpenStackClient, &clouds).expect("a shell");
    let mut both = |words: &[&str]| {
        ["cyborg", "built-in"].map(|cloud| {
            let all = [&["--os-cloud", cloud], words].concat();
            shell.run(&all).expect("the shell answers")
        })
    };
    let listed: &[&[&str]] = &[
        &["accelerator", "device", "profile", "list"],
        &["accelerator", "device", "profile", "list", "--long"],
        &[
            "--os-accelerator-api-version",
            "2.2",
            "accelerator",
            "device",
            "profile",
            "show",
            "pci",
        ],
        &["accelerator", "device", "list", "--long"],
        &[
            "--os-accelerator-api-version",
            "2.3",
            "accelerator",
            "device",
            "list",
        ],
        &["accelerator", "deployable", "list", "--long"],
        &["accelerator", "device", "attribute", "list", "--long"],
        &["accelerator", "arq", "create", "pci"],
        &["accelerator", "arq", "list"],
    ];
    for words in listed {
        let outputs = both(&[words, &["-f", "json"][..]].concat());
        let [theirs, ours] = outputs.each_ref().map(|outputs| kinds(&outputs.json()));
        let errors = outputs.each_ref().map(|outputs| outputs.err.as_str());
        assert_ne!(theirs, Value::Null, "{words:?}: {errors:?}");
        assert!(
            agree(&ours, &theirs),
            "{words:?}: {ours}, {theirs}, {errors:?}"
        );
    }
    let refused: &[&[&str]] = &[
        &["accelerator", "device", "profile", "show", "pci"],
        &["accelerator", "device", "profile", "show", UNKNOWN],
        &[
            "accelerator",
            "device",
            "profile",
            "create",
            "pci",
            "--group",
            "resources:CUSTOM_PCI=1",
        ],
        &[
            "accelerator",
            "device",
            "profile",
            "create",
            "bad name",
            "--group",
            "resources:CUSTOM_PCI=1",
        ],
        &["accelerator", "device", "profile", "delete", UNKNOWN],
        &["accelerator", "device", "show", UNKNOWN],
        &["accelerator", "deployable", "show", UNKNOWN],
        &["accelerator", "device", "attribute", "show", UNKNOWN],
        &["accelerator", "arq", "create", "no-such-profile"],
        &["accelerator", "arq", "show", UNKNOWN],
        &["accelerator", "arq", "delete", UNKNOWN],
    ];
    for words in refused {
        let outputs = both(words);
        let [theirs, ours] = outputs.each_ref().map(refusal);
        assert_eq!(theirs.0, 1, "{words:?}: {}", outputs[0].out);
        assert_eq!(
            ours, theirs,
            "{words:?}: {}\n{}",
            outputs[0].err, outputs[1].err
        );
    }
}
