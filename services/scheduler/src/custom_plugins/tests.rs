use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::CustomPlugins;
use crate::filters::{Chain, InstancePosition};
use crate::host_state::ConsideredHost;
use crate::options::SchedulerOptions;
use crate::plugin::{
    AnswerError, ManifestError, OnFailure, Plugin, PluginAnswer, PluginAnswers, PluginKind,
    PluginManifest, PluginOutcome, PluginVerdict, Question, SCHEMA,
};
use crate::request::RequestSpec;
use crate::select::{Alternates, ClaimPolicy, Scheduler, SelectionRequest, SelectionStep};
use berth_scheduler_objects::testing;

fn hosts() -> Vec<ConsideredHost> {
    testing::hosts(&json!([
        {"host": "a", "uuid": "ua", "num_instances": 1},
        {"host": "b", "uuid": "ub"},
        {"host": "c", "uuid": "uc"},
    ]))
}

fn plugin(kind: PluginKind, on_failure: OnFailure) -> Plugin {
    Plugin {
        name: "rack".to_owned(),
        kind,
        on_failure,
        weight_multiplier: 2.0,
    }
}

fn read(kind: PluginKind, hosts: Value) -> Result<PluginAnswer, AnswerError> {
    let answer = json!({"schema": SCHEMA, "hosts": hosts});
    PluginAnswer::read(answer.to_string().as_bytes(), kind, ["ua", "ub", "uc"])
}

fn request_with(outcome: PluginOutcome) -> RequestSpec {
    RequestSpec {
        plugin_answers: PluginAnswers::new(BTreeMap::from([("rack".to_owned(), outcome)])),
        ..RequestSpec::default()
    }
}

fn options() -> SchedulerOptions {
    let mut options = SchedulerOptions::default();
    options.filter_scheduler.enabled_filters = vec!["rack".to_owned()];
    options.filter_scheduler.weight_classes = vec!["rack".to_owned()];
    options
}

/// The remaining hosts, and a sentence for each rejected one.
fn filtered(plugin: &Plugin, request: &RequestSpec) -> (Vec<String>, Vec<String>) {
    let options = options();
    let own = CustomPlugins::new().with_plugin(plugin);
    let chain = Chain::with_custom_plugins(&options, &own).expect("it is there");
    let (mut hosts, mut out) = (hosts(), Vec::new());
    chain.filter(
        &mut hosts,
        request,
        &options,
        InstancePosition::First,
        |one| {
            out.push(format!("{}: {}", one.host.state.host, one.reason));
        },
    );
    let left = hosts.iter().map(|it| it.state.host.clone());
    (left.collect(), out)
}

#[test]
fn a_host_passes_by_what_the_plugin_said_of_it() {
    let answer = read(
        PluginKind::Filter,
        json!({
            "ua": {"verdict": "pass"},
            "ub": {"verdict": "reject", "code": "full", "reason": "rack 7\nis full"},
            "uc": {"verdict": "pass", "weight": 1e300},
        }),
    );
    let request = request_with(PluginOutcome::Answered(answer.expect("an answer")));
    let plugin = plugin(PluginKind::Filter, OnFailure::Reject);
    let (left, out) = filtered(&plugin, &request);
    assert_eq!(left, ["a", "c"]);
    assert_eq!(out, ["b: rack rejects it: rack 7 is full"]);
}

#[test]
fn a_plugin_without_an_answer_passes_all_or_none() {
    let failed = |on_failure| request_with(PluginOutcome::failed("it crashed", on_failure));
    let incomplete = PluginAnswer::read(
        json!({"schema": SCHEMA, "hosts": {"ua": {"verdict": "pass"}}})
            .to_string()
            .as_bytes(),
        PluginKind::Filter,
        ["ua"],
    );
    let incomplete = request_with(PluginOutcome::Answered(incomplete.expect("an answer")));
    for (request, on_failure, left, why) in [
        (failed(OnFailure::Pass), OnFailure::Pass, 3, ""),
        (
            failed(OnFailure::Reject),
            OnFailure::Reject,
            0,
            "it crashed",
        ),
        (RequestSpec::default(), OnFailure::Pass, 3, ""),
        (
            RequestSpec::default(),
            OnFailure::Reject,
            0,
            "it was not asked",
        ),
        (incomplete.clone(), OnFailure::Pass, 3, ""),
        (
            incomplete,
            OnFailure::Reject,
            1,
            "it was not asked about this host",
        ),
    ] {
        let (passed, out) = filtered(&plugin(PluginKind::Filter, on_failure), &request);
        assert_eq!(passed.len(), left, "{request:?}");
        let sentence = format!("rack was not heard, and on_failure is reject: {why}");
        assert!(out.iter().all(|it| it.ends_with(&sentence)), "{out:?}");
        assert_eq!(out.len(), 3 - left);
    }
}

#[test]
fn hosts_are_in_the_order_of_the_plugins_weights() {
    let answer = read(
        PluginKind::Both,
        json!({
            "ua": {"verdict": "pass", "weight": -1},
            "ub": {"verdict": "pass", "weight": 3.5},
            "uc": {"verdict": "reject", "reason": "no"},
        }),
    );
    let outcome = PluginOutcome::Answered(answer.expect("an answer"));
    let own = CustomPlugins::new().with_plugin(&plugin(PluginKind::Both, OnFailure::Pass));
    let scheduler = Scheduler::with_custom_plugins(options(), &own).expect("it is there");
    let (sorted, turnout) = scheduler.sort(&request_with(outcome), hosts(), 0);
    let names: Vec<&str> = sorted
        .best_first()
        .map(|it| it.state.host.as_str())
        .collect();
    assert_eq!(names, ["b", "a"]);
    assert_eq!(sorted.weights(), [2.0, 0.0]);
    let (_, card) = &turnout.cards[0];
    assert_eq!((card.scores[0].weigher, card.scores[0].raw), ("rack", 3.5));
    let failed = request_with(PluginOutcome::failed("it crashed", OnFailure::Pass));
    let (sorted, _) = scheduler.sort(&failed, hosts(), 0);
    assert_eq!(sorted.weights(), [0.0; 3]);
}

#[test]
fn an_aggregate_overrides_a_plugins_multiplier() {
    let hosts = testing::hosts(&json!([
        {"host": "a", "uuid": "ua", "aggregates": [{"metadata": {"rack_weight_multiplier": "-1"}}]},
        {"host": "b", "uuid": "ub"},
    ]));
    let answer = PluginAnswer::read(
        json!({"schema": SCHEMA, "hosts": {"ua": {"weight": 5}, "ub": {"weight": 0}}})
            .to_string()
            .as_bytes(),
        PluginKind::Weigher,
        ["ua", "ub"],
    );
    let mut options = options();
    options.filter_scheduler.enabled_filters.clear();
    let own = CustomPlugins::new().with_plugin(&plugin(PluginKind::Weigher, OnFailure::Pass));
    let scheduler = Scheduler::with_custom_plugins(options, &own).expect("it is there");
    let request = request_with(PluginOutcome::Answered(answer.expect("an answer")));
    let (sorted, _) = scheduler.sort(&request, hosts, 0);
    assert_eq!(sorted.weights(), [0.0, -1.0]);
}

#[test]
fn an_explanation_shows_that_a_plugin_did_not_answer() {
    let own = CustomPlugins::new().with_plugin(&plugin(PluginKind::Filter, OnFailure::Pass));
    let mut options = options();
    options.filter_scheduler.weight_classes.clear();
    let scheduler = Scheduler::with_custom_plugins(options, &own).expect("it is there");
    let ask = SelectionRequest {
        request: request_with(PluginOutcome::failed("it hung", OnFailure::Pass)),
        instance_uuids: vec!["i".to_owned()],
        alternates: Alternates::None,
        claims: ClaimPolicy::Kept,
        seed: 0,
    };
    let SelectionStep::Selected(selected) = scheduler.select(ask, hosts()) else {
        panic!("nobody claims");
    };
    let failed = &selected.record.asked.failed_plugins[0];
    assert_eq!(
        failed.to_string(),
        "The plugin rack was not heard, so it counted for nothing: it hung"
    );
}

#[test]
fn options_name_a_plugin_by_what_it_is() {
    let named = |filter: &str, weigher: &str, kind| {
        let mut options = SchedulerOptions::default();
        options.filter_scheduler.enabled_filters = vec![filter.to_owned()];
        options.filter_scheduler.weight_classes = vec![weigher.to_owned()];
        let own = CustomPlugins::new().with_plugin(&plugin(kind, OnFailure::Pass));
        Scheduler::with_custom_plugins(options, &own)
            .err()
            .map_or_else(String::new, |it| it.to_string())
    };
    let all = "nova.scheduler.weights.all_weighers";
    for (filter, weigher, kind, wrong) in [
        ("rack", "rack", PluginKind::Both, ""),
        ("rack", all, PluginKind::Filter, ""),
        ("RamFilter", "rack", PluginKind::Weigher, ""),
        (
            "rack",
            all,
            PluginKind::Weigher,
            "there is no filter rack; ",
        ),
        (
            "RamFilter",
            "rack",
            PluginKind::Filter,
            "there is no weigher rack; ",
        ),
        (
            "racks",
            all,
            PluginKind::Both,
            "no filter racks; did you mean rack?",
        ),
        ("RamFilter", "racks", PluginKind::Both, "RAMWeigher, rack"),
    ] {
        let error = named(filter, weigher, kind);
        assert_eq!(error.is_empty(), wrong.is_empty(), "{error}");
        assert!(error.contains(wrong), "{error}");
    }
}

#[test]
fn an_answer_to_another_question_is_none() {
    let pass = json!({"verdict": "pass"});
    let three = |b: Value| json!({"ua": pass, "ub": b, "uc": pass});
    let with_one_more = json!({"ua": pass, "ub": pass, "uc": pass, "ud": pass});
    for (kind, hosts, wrong) in [
        (
            PluginKind::Filter,
            json!({"ub": pass}),
            "nothing of the host ua, nor of 1 others",
        ),
        (
            PluginKind::Filter,
            with_one_more,
            "the host ud, which it was not asked about",
        ),
        (
            PluginKind::Filter,
            three(json!({})),
            "no verdict on the host ub",
        ),
        (
            PluginKind::Filter,
            three(json!({"verdict": "maybe"})),
            "unknown variant `maybe`",
        ),
        (
            PluginKind::Filter,
            three(json!({"verdict": "reject"})),
            "rejects the host ub without a reason",
        ),
        (
            PluginKind::Filter,
            three(json!({"verdict": "pass", "wieght": 1})),
            "unknown field `wieght`",
        ),
        (PluginKind::Filter, json!([]), "cannot be read"),
        (
            PluginKind::Both,
            three(pass.clone()),
            "no weight of the host ua",
        ),
        (
            PluginKind::Weigher,
            json!({"ua": {"weight": 1e16}, "ub": {}, "uc": {}}),
            "weighs the host ua beyond",
        ),
        (
            PluginKind::Weigher,
            json!({"ua": {"weight": "1"}}),
            "invalid type",
        ),
    ] {
        let error = read(kind, hosts).expect_err(wrong).to_string();
        assert!(error.contains(wrong), "{error}");
    }
    for (text, wrong) in [
        (&b""[..], "cannot be read: EOF"),
        (b"{}", "missing field `schema`"),
        (b"\xff\xfe", "cannot be read"),
        (
            b"[]",
            "cannot be read: invalid length 0, expected an object with `schema` and `hosts`",
        ),
        (b"7", "expected an object with `schema` and `hosts`"),
        (
            br#"{"schema": "berth-scheduler-plugin/2", "hosts": {}}"#,
            "has berth-scheduler-plugin/2",
        ),
        (
            br#"{"schema": "berth-scheduler-plugin/1", "hosts": {"ua": {"verdict": "reject", "reason": "no"}, "ua": {"verdict": "pass"}}}"#,
            "cannot be read: it has the host ua twice",
        ),
        (
            br#"{"schema": "berth-scheduler-plugin/1", "hosts": {"ua": {"weight": 1e999}}}"#,
            "number out of range",
        ),
    ] {
        let error = PluginAnswer::read(text, PluginKind::Filter, ["ua"]).expect_err(wrong);
        assert!(error.to_string().contains(wrong), "{error}");
    }
}

#[test]
fn a_long_text_of_a_plugin_is_kept_by_its_beginning() {
    let long = "x".repeat(100_000);
    let answer = read(
        PluginKind::Filter,
        json!({
            "ua": {"verdict": "reject", "code": long, "reason": long},
            "ub": {"verdict": "pass"},
            "uc": {"verdict": "pass"},
        }),
    );
    let answer = answer.expect("an answer");
    let Some(PluginVerdict::Reject { code, text }) = answer.of("ua").map(|it| &it.verdict) else {
        panic!("it rejects a");
    };
    assert!(text.len() < 600, "{} bytes", text.len());
    assert!(code.as_ref().is_some_and(|it| it.len() < 600));
    let failed = PluginOutcome::failed(&long, OnFailure::Pass);
    assert!(matches!(failed, PluginOutcome::Failed { failure, .. } if failure.len() < 600));
}

#[test]
fn a_question_has_the_request_and_its_hosts() {
    let hosts = testing::hosts(&json!([{
        "host": "a", "uuid": "ua", "vcpus_total": 8, "vcpus_used": 2,
        "aggregates": [{"metadata": {"rack": "7"}}],
    }]));
    let request = testing::request(&json!({
        "instance_uuid": "i",
        "flavor": {"name": "m1", "vcpus": 2, "extra_specs": {"rack:power_w": "300"}},
        "image": {"id": "im", "properties": {"os_type": "linux"}},
        "hints": {"near": ["x"]},
    }));
    let question = serde_json::to_value(Question::new(&request, &hosts)).expect("JSON");
    for (path, expected) in [
        ("/schema", json!(SCHEMA)),
        ("/request/instance_uuid", json!("i")),
        (
            "/request/flavor/extra_specs",
            json!({"rack:power_w": "300"}),
        ),
        ("/request/image/properties/os_type", json!("linux")),
        ("/request/hints/near", json!(["x"])),
        ("/hosts/0/uuid", json!("ua")),
        ("/hosts/0/vcpus_total", json!(8)),
        ("/hosts/0/vcpus_used", json!(2)),
        ("/hosts/0/aggregates/0/metadata", json!({"rack": "7"})),
    ] {
        assert_eq!(question.pointer(path), Some(&expected), "{path}");
    }
}

fn manifest(extra_specs: &Value) -> Result<PluginManifest, ManifestError> {
    let text =
        json!({"schema": SCHEMA, "name": "rack", "kind": "both", "extra_specs": extra_specs});
    PluginManifest::read(text.to_string().as_bytes())
}

#[test]
fn a_flavors_extra_specs_are_checked_by_the_manifest() {
    let read = manifest(&json!([
        {"name": "rack:power_w", "type": "integer", "description": "Watts."},
        {"name": "rack:share", "type": "number"},
        {"name": "rack:apart", "type": "boolean"},
        {"name": "rack:row", "type": "string", "enum": ["north", "south"]},
        {"name": "rack:units", "type": "integer", "enum": [1, 2, "4"]},
    ]));
    let manifest = read.expect("a manifest");
    for (key, value, wanted) in [
        ("rack:power_w", "300", ""),
        ("rack:power_w", "3.5", "a whole number"),
        ("rack:power_w", "", "a whole number"),
        ("rack:share", "0.5", ""),
        ("rack:share", "nan", "a number"),
        ("rack:share", "half", "a number"),
        ("rack:apart", "True", ""),
        ("rack:apart", "maybe", "true or false"),
        ("rack:row", "north", ""),
        ("rack:row", "North", "one of north, south"),
        ("rack:units", " 4 ", ""),
        ("rack:units", "3", "one of 1, 2, 4"),
        ("hw:cpu_policy", "anything", ""),
    ] {
        let specs = BTreeMap::from([(key.to_owned(), value.to_owned())]);
        let errors: Vec<String> = manifest
            .check(&specs)
            .iter()
            .map(ToString::to_string)
            .collect();
        let expected =
            format!("{key}: `{value}` is not {wanted}, which the scheduler's plugin rack asks for");
        match wanted.is_empty() {
            true => assert_eq!(errors, [""; 0], "{key} {value}"),
            false => assert_eq!(errors, [expected]),
        }
    }
}

#[test]
fn a_manifest_that_contradicts_itself_is_none() {
    let spec = |name: &str| json!({"name": name, "type": "string"});
    let many: Vec<Value> = (0..101).map(|at| spec(&format!("s{at}"))).collect();
    for (extra_specs, wrong) in [
        (json!([spec("a"), spec("a")]), "the extra spec a twice"),
        (json!([spec("")]), "the extra spec \"\""),
        (json!([spec("a b")]), "the extra spec \"a b\""),
        (
            json!([{"name": "a", "type": "integer", "enum": ["x"]}]),
            "the extra spec a, whose enum has \"x\": it should be a whole number",
        ),
        (
            json!([{"name": "a", "type": "string", "enum": [null]}]),
            "whose enum has null",
        ),
        (
            json!([{"name": "a", "type": "float"}]),
            "unknown variant `float`",
        ),
        (json!([{"name": "a"}]), "missing field `type`"),
        (json!(many), "101 extra specs, and 100 are allowed"),
    ] {
        let error = manifest(&extra_specs).expect_err(wrong).to_string();
        assert!(error.contains(wrong), "{error}");
    }
    for (text, wrong) in [
        (
            json!({"schema": "x", "name": "rack", "kind": "both"}),
            "and has x",
        ),
        (
            json!({"schema": SCHEMA, "name": "7", "kind": "both"}),
            "has the name \"7\"",
        ),
        (
            json!({"schema": SCHEMA, "name": "rack", "kind": "sorter"}),
            "unknown variant `sorter`",
        ),
    ] {
        let error = PluginManifest::read(text.to_string().as_bytes()).expect_err(wrong);
        assert!(error.to_string().contains(wrong), "{error}");
    }
}

/// JSON values made of the words of answers and manifests, and some other words.
fn json_value() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        SCHEMA,
        "schema",
        "hosts",
        "ua",
        "ub",
        "verdict",
        "pass",
        "reject",
        "reason",
        "code",
        "weight",
        "name",
        "kind",
        "both",
        "extra_specs",
        "type",
        "integer",
        "enum",
        "",
        "\u{0}\u{7f}\u{1f600}",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(word.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Checks that a scheduler can use every answer that was accepted.
fn schedules(text: &[u8], kind: PluginKind) {
    let Ok(answer) = PluginAnswer::read(text, kind, ["ua", "ub", "uc"]) else {
        return;
    };
    let own = CustomPlugins::new().with_plugin(&plugin(PluginKind::Both, OnFailure::Reject));
    let scheduler = Scheduler::with_custom_plugins(options(), &own).expect("it is there");
    let (sorted, _) = scheduler.sort(&request_with(PluginOutcome::Answered(answer)), hosts(), 0);
    assert!(sorted.weights().iter().all(|weight| weight.is_finite()));
}

proptest! {
    #[test]
    fn no_answer_and_no_manifest_panics(text in prop::collection::vec(any::<u8>(), 0..200), value in json_value()) {
        for kind in [PluginKind::Filter, PluginKind::Weigher, PluginKind::Both] {
            for text in [&text[..], value.to_string().as_bytes()] {
                schedules(text, kind);
            }
            let whole = json!({"schema": SCHEMA, "hosts": value});
            schedules(whole.to_string().as_bytes(), kind);
        }
        let _ = PluginManifest::read(&text);
        let _ = PluginManifest::read(value.to_string().as_bytes());
        if let Ok(manifest) = manifest(&json!([value])) {
            let specs = BTreeMap::from([("ua".to_owned(), "x".to_owned())]);
            let _ = manifest.check(&specs);
        }
    }

    #[test]
    fn the_answer_for_each_host_counts(expected in prop::collection::vec((any::<bool>(), any::<i32>()), 3)) {
        let entry = |(pass, weight): &(bool, i32)| match pass {
            true => json!({"verdict": "pass", "weight": weight}),
            false => json!({"verdict": "reject", "reason": "no", "weight": weight}),
        };
        let hosts = json!({"ua": entry(&expected[0]), "ub": entry(&expected[1]), "uc": entry(&expected[2])});
        let answer = json!({"schema": SCHEMA, "hosts": hosts}).to_string();
        schedules(answer.as_bytes(), PluginKind::Both);
        let answer = read(PluginKind::Both, hosts).expect("an answer");
        for (host, (pass, weight)) in ["ua", "ub", "uc"].iter().zip(expected) {
            let host_answer = answer.of(host).expect("the answer has every host");
            prop_assert_eq!(host_answer.verdict == PluginVerdict::Pass, pass);
            prop_assert_eq!(host_answer.weight, if pass { f64::from(weight) } else { 0.0 });
        }
    }
}
