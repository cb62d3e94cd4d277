//! Operators' actions on devices, at the agent and at the accelerator service.

use berth_agent_devices::{ActionMode, DeviceConditions, Risk};
use berth_tests::wait::within;
use futures_util::StreamExt;
use serde_json::{Value, json};

use super::stage::{DeviceStage, address, card, function, guest, parted};

const DISABLED: &str = "CUSTOM_BERTH_DEVICE_DISABLED";
const QUARANTINED: &str = "CUSTOM_BERTH_DEVICE_QUARANTINED";

#[tokio::test]
async fn an_operator_quarantines_a_device_and_releases_it() {
    let mut stage = DeviceStage::with(vec![card(0)]).await;
    let name = address(0).to_string();
    let would = stage
        .devices
        .quarantine(&name, "smells", ActionMode::DryRun);
    assert!(would.await.unwrap().text.contains("would be quarantined"));
    stage.round().await;
    assert_eq!(stage.provider(0).await.expect("a provider").0, "1 0");

    let done = stage
        .devices
        .quarantine(&name, "smells", ActionMode::Execute)
        .await;
    assert_eq!(done.unwrap().devices, std::slice::from_ref(&name));
    stage.round().await;
    let (amounts, traits) = stage.provider(0).await.expect("a provider");
    assert_eq!(amounts, "1 1");
    assert!(traits.contains(QUARANTINED), "{traits:?}");
    assert_eq!(stage.binds(0, guest(1)).await.1, "BindFailed");

    stage.restart().await;
    stage.round().await;
    assert_eq!(stage.provider(0).await.expect("a provider").0, "1 1");
    stage
        .devices
        .release(&name, None, ActionMode::Execute)
        .await
        .unwrap();
    stage.round().await;
    assert_eq!(stage.provider(0).await.expect("a provider").0, "1 0");
    assert_eq!(stage.binds(0, guest(1)).await.1, "Bound");
}

#[tokio::test]
async fn a_device_is_not_free_before_the_accelerator_service_confirms_it() {
    let mut stage = DeviceStage::with(vec![card(0)]).await;
    stage.restart().await;
    stage.pass().await;
    let (_, list) = stage.admin("GET", "/v1/devices", Value::Null).await;
    let device = &list["devices"][0];
    assert_eq!(device["state"], "unclean", "{list}");
    let reason = device["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("has not reported yet"), "{list}");
    stage.round().await;
    let (_, list) = stage.admin("GET", "/v1/devices", Value::Null).await;
    let device = &list["devices"][0];
    assert_eq!(
        (&device["state"], &device["reason"]),
        (&json!("free"), &Value::Null)
    );
}

#[tokio::test]
async fn of_a_card_a_part_can_be_set_aside() {
    let mut stage = DeviceStage::with(vec![parted(0)]).await;
    assert_eq!(stage.provider(0).await.expect("a provider").0, "4 0");
    let one = function(0, 2).to_string();
    stage
        .devices
        .quarantine(&one, "dead lane", ActionMode::Execute)
        .await
        .unwrap();
    stage.round().await;
    assert_eq!(stage.provider(0).await.expect("a provider").0, "4 1");
    stage.restart().await;
    stage.forget_tree();
    stage.round().await;
    assert_eq!(stage.provider(0).await.expect("a provider").0, "4 1");
    for n in 0..3 {
        assert_eq!(stage.binds(0, guest(n)).await.1, "Bound");
    }
    assert_eq!(stage.binds(0, guest(3)).await.1, "BindFailed");

    let whole = address(0).to_string();
    let all = stage
        .devices
        .quarantine(&whole, "the card is hot", ActionMode::Execute)
        .await;
    assert_eq!(all.unwrap().devices.len(), 4);
    stage.round().await;
    assert_eq!(stage.provider(0).await.expect("a provider").0, "4 4");

    let risk = Some(Risk::UncleanDevice);
    let released = stage
        .devices
        .release(&whole, risk, ActionMode::Execute)
        .await;
    released.unwrap();
    stage.round().await;
    assert_eq!(stage.provider(0).await.expect("a provider").0, "4 0");
}

#[tokio::test]
async fn a_device_that_an_operator_disables_at_the_service_is_reserved_across_restarts() {
    let mut stage = DeviceStage::with(vec![card(0), card(1)]).await;
    let uuid = stage.known().await[&address(0).to_string()].uuid.clone();
    let path = format!("/v2/devices/{uuid}");
    stage
        .ask("POST", &format!("{path}/disable"), Value::Null)
        .await;
    stage.stirred().await;
    let (amounts, traits) = stage.provider(0).await.expect("a provider");
    assert_eq!(amounts, "1 1");
    assert!(traits.contains(DISABLED), "{traits:?}");
    assert_eq!(stage.provider(1).await.expect("a provider").0, "1 0");

    stage.restart().await;
    stage.pass().await;
    let (amounts, _) = stage.provider(0).await.expect("a provider");
    assert_eq!(amounts, "1 1", "before the service was asked again");

    stage
        .ask("POST", &format!("{path}/enable"), Value::Null)
        .await;
    stage.stirred().await;
    let (amounts, traits) = stage.provider(0).await.expect("a provider");
    assert_eq!(amounts, "1 0");
    assert!(!traits.contains(DISABLED), "{traits:?}");
}

#[tokio::test]
async fn an_operators_change_at_the_service_reaches_placement_before_the_next_report() {
    let stage = DeviceStage::with(vec![card(0)]).await;
    assert_polls(stage, &["disable", "enable"]).await;
}

#[tokio::test]
async fn a_wait_at_the_service_that_fails_is_begun_again() {
    let stage = DeviceStage::losing_a_wait(vec![card(0)]).await;
    assert_polls(stage, &["disable"]).await;
}

/// What an operator does comes to Placement, though the next report is due in an hour.
async fn assert_polls(mut stage: DeviceStage, verbs: &[&str]) {
    let uuid = stage.known().await[&address(0).to_string()].uuid.clone();
    let (stop, keeping) = stage.keep();
    let mut changes = stage.devices.changes();
    for verb in verbs {
        let path = format!("/v2/devices/{uuid}/{verb}");
        stage.ask("POST", &path, Value::Null).await;
        let amounts = if *verb == "disable" { "1 1" } else { "1 0" };
        while stage.provider(0).await.expect("a provider").0 != amounts {
            within("a device changes", changes.next()).await;
            stage.pass().await;
        }
    }
    stop.cancel();
    keeping.await.unwrap();
}

#[tokio::test]
async fn a_card_that_was_disabled_pulled_and_put_back_is_disabled_still() {
    let mut stage = DeviceStage::with(vec![card(0), card(1)]).await;
    let uuid = stage.known().await[&address(0).to_string()].uuid.clone();
    let path = format!("/v2/devices/{uuid}");
    let disable = format!("{path}/disable");
    stage.ask("POST", &disable, Value::Null).await;
    stage.stirred().await;
    stage.show(vec![card(1)]);
    stage.round().await;
    assert!(stage.provider(0).await.is_none(), "it is pulled");

    stage.show(vec![card(0), card(1)]);
    stage.pass().await;
    let (amounts, _) = stage.provider(0).await.expect("a provider");
    assert_eq!(amounts, "1 1", "before the service knows that it is back");
    stage.round().await;
    assert_eq!(stage.provider(0).await.expect("a provider").0, "1 1");
    assert_eq!(stage.binds(0, guest(1)).await.1, "BindFailed");

    let enable = format!("{path}/enable");
    stage.ask("POST", &enable, Value::Null).await;
    stage.stirred().await;
    assert_eq!(stage.provider(0).await.expect("a provider").0, "1 0");
    assert_eq!(stage.binds(0, guest(1)).await.1, "Bound");
}

#[tokio::test]
async fn an_operator_manages_devices_over_the_admin_api() {
    let mut stage = DeviceStage::with(vec![card(0), parted(1)]).await;
    let (name, part) = (address(0).to_string(), function(1, 3).to_string());
    let (status, list) = stage.admin("GET", "/v1/devices", Value::Null).await;
    assert_eq!(status, 200);
    let states = |list: &Value| -> Vec<String> {
        let devices = list["devices"].as_array().unwrap().iter();
        devices
            .map(|it| it["state"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(states(&list), ["free"; 5]);

    let path = |verb: &str| format!("/v1/devices/{part}/{verb}");
    let (status, refused) = stage.admin("POST", &path("quarantine"), Value::Null).await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (400, &json!("bad_request"))
    );
    let why = json!({"reason": "lane 3 is dead"});
    let (status, done) = stage.admin("POST", &path("quarantine"), why).await;
    assert_eq!((status, &done["devices"]), (200, &json!([part])));
    let (_, shown) = stage
        .admin("GET", &format!("/v1/devices/{part}"), Value::Null)
        .await;
    assert_eq!(shown["devices"][0]["state"], "quarantined");
    assert_eq!(shown["devices"][0]["quarantine"]["by"], "operator");
    assert_eq!(shown["devices"][0]["reason"], "lane 3 is dead");

    let (_, _) = stage.binds(0, guest(1)).await;
    stage.stirred().await;
    let (_, shown) = stage
        .admin("GET", &format!("/v1/devices/{name}"), Value::Null)
        .await;
    assert_eq!(states(&shown), ["bound"]);
    assert_eq!(shown["devices"][0]["guest"], guest(1).to_string());
    let reset = format!("/v1/devices/{name}/reset");
    let (status, refused) = stage.admin("POST", &reset, Value::Null).await;
    assert_eq!((status, &refused["error"]["code"]), (409, &json!("bound")));

    let would = json!({"dry_run": true});
    let (status, _) = stage.admin("POST", &path("release"), would).await;
    assert_eq!(status, 200);
    let (status, _) = stage.admin("POST", &path("release"), Value::Null).await;
    assert_eq!(status, 200);
    let (status, refused) = stage.admin("POST", &path("release"), Value::Null).await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (409, &json!("not_quarantined"))
    );
    for (method, path, body) in [
        ("GET", "/v1/devices/0000:ff:00.0", Value::Null),
        ("POST", "/v1/devices/nonsense/reset", Value::Null),
    ] {
        let (status, refused) = stage.admin(method, path, body).await;
        assert_eq!(
            (status, &refused["error"]["code"]),
            (404, &json!("not_found"))
        );
    }
    let odd = json!({"force": true});
    let (status, refused) = stage.admin("POST", &reset, odd).await;
    assert_eq!(status, 400);
    assert!(
        refused["error"]["message"]
            .as_str()
            .unwrap()
            .contains("force")
    );
}
