//! Devices from the host to Placement and to the accelerator service: they appear, are bound, fall sick, vanish, are set
//! aside and come back, are cleaned between two guests, checked by their vendor's program and programmed by another.

mod checking;
mod programming;
mod stage;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use berth_agent::device::{ActError, DeviceConditions, Doing, Risk};
use berth_model::ResourceClass;
use berth_tests::claims::{Claim, claim};
use berth_virt::{DeviceType, HostEvent, OfferedDevice, UnfitReason};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use stage::{INTERVAL, Stage, address, card, function, guest, parted, provider_uuid, sick};

const DISABLED: &str = "CUSTOM_BERTH_DEVICE_DISABLED";
const QUARANTINED: &str = "CUSTOM_BERTH_DEVICE_QUARANTINED";
const RESET_FAILED: &str = "CUSTOM_BERTH_DEVICE_RESET_FAILED";
const VANISHED: &str = "CUSTOM_BERTH_DEVICE_VANISHED";

#[tokio::test]
async fn a_device_that_appears_is_cleaned_and_then_bound() {
    let mut stage = Stage::with(vec![card(0)]).await;
    assert_eq!(stage.take_resets(), [address(0).to_string()]);
    let (amounts, traits) = stage.provider(0).await.expect("a provider");
    assert_eq!(amounts, "1 0");
    assert!(traits.contains("OWNER_CYBORG") && traits.contains("CUSTOM_NVIDIA_1EB8"));
    assert_eq!(stage.binds(0, guest(1)).await.1, "Bound");

    stage.show(vec![card(0), card(1)]);
    stage.round().await;
    assert_eq!(stage.take_resets(), [address(1).to_string()]);
    assert_eq!(stage.binds(1, guest(2)).await.1, "Bound");
}

#[tokio::test]
async fn where_nothing_changes_nothing_is_sent() {
    let mut stage = Stage::with(vec![card(0), parted(1)]).await;
    stage.take_requests();
    for _ in 0..10 {
        stage.round().await;
    }
    assert_eq!(stage.take_requests(), Vec::<String>::new());
    stage.stirred().await;
    assert_eq!(
        stage.take_requests(),
        ["PUT /internal/v1/hosts/{host}/devices"]
    );
}

#[tokio::test]
async fn a_device_goes_to_the_next_guest_only_after_it_was_reset() {
    let mut stage = Stage::with(vec![card(0)]).await;
    let (first, state) = stage.binds(0, guest(1)).await;
    assert_eq!(state, "Bound");
    stage.take_resets();
    stage.delete(&first).await;
    assert_eq!(stage.binds(0, guest(2)).await.1, "BindFailed");
    stage.stirred().await;
    assert_eq!(stage.take_resets(), [address(0).to_string()]);
    assert_eq!(stage.binds(0, guest(2)).await.1, "Bound");
}

#[tokio::test]
async fn a_sick_device_is_reserved_and_refused_and_comes_back() {
    let mut stage = Stage::with(vec![card(0)]).await;
    for reason in [
        UnfitReason::Aer,
        UnfitReason::ConfigSpace,
        UnfitReason::Link,
    ] {
        stage.show(vec![sick(card(0), reason)]);
        stage.round().await;
        let (amounts, traits) = stage.provider(0).await.expect("a provider");
        assert_eq!(amounts, "1 1", "{reason}");
        assert!(traits.contains(reason.as_trait().as_str()), "{traits:?}");
        assert_eq!(stage.binds(0, guest(1)).await.1, "BindFailed");

        stage.show(vec![card(0)]);
        stage.round().await;
        let (amounts, traits) = stage.provider(0).await.expect("a provider");
        assert_eq!(amounts, "1 0");
        assert!(!traits.contains(reason.as_trait().as_str()), "{traits:?}");
        let (arq, state) = stage.binds(0, guest(1)).await;
        assert_eq!(state, "Bound");
        stage.delete(&arq).await;
        stage.stirred().await;
    }
}

#[tokio::test]
async fn a_request_of_a_network_cards_function_says_which_network_it_is_on() {
    let on = |network: &str| OfferedDevice {
        device_type: DeviceType::Nic,
        physical_network: Some(network.to_owned()),
        ..card(0)
    };
    let mut stage = Stage::with(vec![on("physnet1")]).await;
    let (arq, state) = stage.binds(0, guest(1)).await;
    assert_eq!(state, "Bound");
    let at = |network: &str| {
        json!({
            "domain": "0000", "bus": "80", "device": "00", "function": "0", "physical_network": network,
        })
    };
    let path = format!("/v2/accelerator_requests/{arq}");
    let (_, told) = stage.ask("GET", &path, Value::Null).await;
    assert_eq!(told["attach_handle_info"], at("physnet1"));

    stage.show(vec![on("physnet2")]);
    stage.round().await;
    assert!(!stage.known().await[&address(0).to_string()].vanished);
    let (_, told) = stage.ask("GET", &path, Value::Null).await;
    assert_eq!(told["attach_handle_info"], at("physnet2"));
}

#[tokio::test]
async fn a_device_that_vanishes_while_bound_stays_held_and_blocks_nothing() {
    let mut stage = Stage::with(vec![card(0)]).await;
    let (arq, state) = stage.binds(0, guest(1)).await;
    assert_eq!(state, "Bound");
    let placement = stage.cloud.placement();
    let allocation = Claim::of(guest(1)).and(provider_uuid(0), &ResourceClass::PGPU, 1);
    claim(&placement, vec![allocation]).await;
    stage.show(vec![card(1)]);
    stage.round().await;
    let known = stage.known().await;
    assert!(known[&address(0).to_string()].vanished);
    assert_eq!(stage.state(&arq).await, "Bound");
    let (amounts, traits) = stage.provider(0).await.expect("its provider");
    assert_eq!(amounts, "1 1");
    assert!(traits.contains(VANISHED), "{traits:?}");
    assert_eq!(
        stage.binds(1, guest(2)).await.1,
        "Bound",
        "the other is reported"
    );

    stage.delete(&arq).await;
    stage.stirred().await;
    assert!(!stage.known().await.contains_key(&address(0).to_string()));
    stage.look_anew();
    stage.round().await;
    let (amounts, traits) = stage.provider(0).await.expect("its provider");
    assert_eq!(amounts, "1 1", "the guest's allocation lives");
    assert!(traits.contains(VANISHED), "{traits:?}");

    placement.delete_allocations(guest(1)).await.unwrap();
    stage.look_anew();
    stage.round().await;
    assert_eq!(stage.provider(0).await, None, "nobody holds it");
    assert_eq!(stage.provider(1).await.expect("the other").0, "1 0");

    stage.show(vec![card(0), card(1)]);
    stage.round().await;
    let (amounts, traits) = stage.provider(0).await.expect("it is back");
    assert_eq!(amounts, "1 0");
    assert!(!traits.contains(VANISHED), "{traits:?}");
    assert_eq!(stage.binds(0, guest(1)).await.1, "Bound", "it is back");
}

#[tokio::test]
async fn a_device_whose_reset_fails_is_set_aside_until_it_is_released() {
    let mut stage = Stage::with(vec![card(0)]).await;
    let name = address(0).to_string();
    let (arq, _) = stage.binds(0, guest(1)).await;
    stage.delete(&arq).await;
    let broken = || stage.cards.broken.lock().unwrap();
    broken().insert(name.clone(), UnfitReason::ResetFailed);
    stage.stirred().await;
    let (amounts, traits) = stage.provider(0).await.expect("a provider");
    assert_eq!(amounts, "1 1");
    assert!(traits.contains(RESET_FAILED), "{traits:?}");
    assert_eq!(stage.binds(0, guest(2)).await.1, "BindFailed");

    let still = stage.devices.release(&name, None, Doing::Now).await;
    assert!(matches!(still, Err(ActError::Reset { .. })), "{still:?}");
    stage.restart().await;
    stage.round().await;
    assert_eq!(stage.provider(0).await.expect("a provider").0, "1 1");

    stage.cards.broken.lock().unwrap().clear();
    stage
        .devices
        .release(&name, None, Doing::Now)
        .await
        .unwrap();
    stage.round().await;
    let (amounts, traits) = stage.provider(0).await.expect("a provider");
    assert_eq!(amounts, "1 0");
    assert!(!traits.contains(RESET_FAILED), "{traits:?}");
    assert_eq!(stage.binds(0, guest(2)).await.1, "Bound");
}

#[tokio::test]
async fn a_risk_taken_by_name_releases_a_device_that_cannot_be_reset() {
    let mut stage = Stage::with(vec![card(0)]).await;
    let name = address(0).to_string();
    let (arq, _) = stage.binds(0, guest(1)).await;
    stage.delete(&arq).await;
    let cause = UnfitReason::ResetFailed;
    stage
        .cards
        .broken
        .lock()
        .unwrap()
        .insert(name.clone(), cause);
    stage.stirred().await;
    let risk = Some(Risk::UncleanDevice);
    stage
        .devices
        .release(&name, risk, Doing::Now)
        .await
        .unwrap();
    stage.round().await;
    assert_eq!(stage.binds(0, guest(2)).await.1, "Bound");
}

#[tokio::test]
async fn an_operator_sets_a_device_aside_and_takes_it_back() {
    let mut stage = Stage::with(vec![card(0)]).await;
    let name = address(0).to_string();
    let would = stage.devices.quarantine(&name, "smells", Doing::DryRun);
    assert!(would.await.unwrap().text.contains("would go"));
    stage.round().await;
    assert_eq!(stage.provider(0).await.expect("a provider").0, "1 0");

    let done = stage.devices.quarantine(&name, "smells", Doing::Now).await;
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
        .release(&name, None, Doing::Now)
        .await
        .unwrap();
    stage.round().await;
    assert_eq!(stage.provider(0).await.expect("a provider").0, "1 0");
    assert_eq!(stage.binds(0, guest(1)).await.1, "Bound");
}

#[tokio::test]
async fn of_a_card_a_part_can_be_set_aside() {
    let mut stage = Stage::with(vec![parted(0)]).await;
    assert_eq!(stage.provider(0).await.expect("a provider").0, "4 0");
    let one = function(0, 2).to_string();
    stage
        .devices
        .quarantine(&one, "dead lane", Doing::Now)
        .await
        .unwrap();
    stage.round().await;
    assert_eq!(stage.provider(0).await.expect("a provider").0, "4 1");
    stage.restart().await;
    stage.look_anew();
    stage.round().await;
    assert_eq!(stage.provider(0).await.expect("a provider").0, "4 1");
    for n in 0..3 {
        assert_eq!(stage.binds(0, guest(n)).await.1, "Bound");
    }
    assert_eq!(stage.binds(0, guest(3)).await.1, "BindFailed");

    let whole = address(0).to_string();
    let all = stage
        .devices
        .quarantine(&whole, "the card is hot", Doing::Now)
        .await;
    assert_eq!(all.unwrap().devices.len(), 4);
    stage.round().await;
    assert_eq!(stage.provider(0).await.expect("a provider").0, "4 4");

    let risk = Some(Risk::UncleanDevice);
    let released = stage.devices.release(&whole, risk, Doing::Now).await;
    released.unwrap();
    stage.round().await;
    assert_eq!(stage.provider(0).await.expect("a provider").0, "4 0");
}

#[tokio::test]
async fn a_device_that_an_operator_disables_at_the_service_is_reserved_across_restarts() {
    let mut stage = Stage::with(vec![card(0), card(1)]).await;
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
async fn what_an_operator_does_at_the_service_is_in_placement_before_the_next_report_is_due() {
    let mut stage = Stage::with(vec![card(0)]).await;
    let uuid = stage.known().await[&address(0).to_string()].uuid.clone();
    let (stop, keeping) = stage.keep();
    let mut changes = stage.devices.changes();
    for (verb, amounts) in [("disable", "1 1"), ("enable", "1 0")] {
        let path = format!("/v2/devices/{uuid}/{verb}");
        stage.ask("POST", &path, Value::Null).await;
        while stage.provider(0).await.expect("a provider").0 != amounts {
            changes.next().await;
            stage.pass().await;
        }
    }
    stop.cancel();
    keeping.await.unwrap();
}

#[tokio::test]
async fn a_card_that_was_disabled_pulled_and_put_back_is_disabled_still() {
    let mut stage = Stage::with(vec![card(0), card(1)]).await;
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
async fn a_kill_in_a_reset_leaves_the_device_unclean() {
    let mut stage = Stage::with(vec![card(0)]).await;
    let name = address(0).to_string();
    let (arq, _) = stage.binds(0, guest(1)).await;
    stage.delete(&arq).await;
    stage.take_resets();
    stage.devices.stir();
    stage.devices.tell().await.unwrap();
    *stage.cards.stuck.lock().unwrap() = true;
    let devices = stage.devices.clone();
    let cleaning = tokio::spawn(async move { devices.clean_all().await });
    while stage
        .journal()
        .devices()
        .read()
        .await
        .unwrap()
        .cleaning
        .is_empty()
    {
        tokio::task::yield_now().await;
    }
    cleaning.abort();
    assert!(cleaning.await.unwrap_err().is_cancelled());
    stage.restart().await;
    assert!(stage.known().await[&name].unclean);
    assert_eq!(stage.binds(0, guest(2)).await.1, "BindFailed");
    stage.round().await;
    assert_eq!(stage.take_resets(), std::slice::from_ref(&name));
    assert!(!stage.known().await[&name].unclean);
    assert_eq!(stage.binds(0, guest(2)).await.1, "Bound");
}

/// Nobody waits for it: an operator wanted it reset.
#[tokio::test]
async fn a_device_whose_reset_for_an_operator_was_cut_off_goes_to_nobody_before_it_was_reset_anew()
{
    let mut stage = Stage::with(vec![card(0)]).await;
    let name = address(0).to_string();
    let (arq, _) = stage.binds(0, guest(1)).await;
    stage.delete(&arq).await;
    stage.round().await;
    stage.take_resets();
    *stage.cards.stuck.lock().unwrap() = true;
    let (devices, asked) = (stage.devices.clone(), name.clone());
    let reset = tokio::spawn(async move { devices.reset(&asked, Doing::Now).await });
    let register = stage.journal().devices();
    while register.read().await.unwrap().cleaning.is_empty() {
        tokio::task::yield_now().await;
    }
    // The next process opens the journal.
    drop(register);
    reset.abort();
    assert!(reset.await.unwrap_err().is_cancelled());
    stage.restart().await;
    let register = stage.journal().devices();
    let cleaning = || async { register.read().await.unwrap().cleaning };
    assert_eq!(
        cleaning().await,
        BTreeSet::from([name.clone()]),
        "no guest can claim it"
    );
    stage.round().await;
    assert_eq!(stage.take_resets(), std::slice::from_ref(&name));
    assert_eq!(cleaning().await, BTreeSet::new());
    assert_eq!(stage.binds(0, guest(2)).await.1, "Bound");
}

#[tokio::test]
async fn a_kill_between_reset_and_report_resets_nothing_twice() {
    let mut stage = Stage::with(vec![card(0)]).await;
    let name = address(0).to_string();
    let (arq, _) = stage.binds(0, guest(1)).await;
    stage.delete(&arq).await;
    stage.take_resets();
    stage.devices.stir();
    stage.devices.tell().await.unwrap();
    stage.devices.clean_all().await;
    stage.restart().await;
    assert!(stage.known().await[&name].unclean, "it was not told yet");
    stage.round().await;
    assert_eq!(stage.take_resets(), std::slice::from_ref(&name));
    assert!(!stage.known().await[&name].unclean);
}

#[tokio::test]
async fn a_device_that_a_guest_has_is_not_reset_whoever_asks() {
    let mut stage = Stage::with(vec![card(0)]).await;
    let name = address(0).to_string();
    let (arq, _) = stage.binds(0, guest(1)).await;
    stage.take_resets();
    stage.stirred().await;
    let bound = stage.devices.reset(&name, Doing::Now).await;
    assert!(matches!(bound, Err(ActError::Bound { .. })), "{bound:?}");
    stage
        .cards
        .guests
        .lock()
        .unwrap()
        .insert(guest(1), address(0));
    stage.delete(&arq).await;
    stage.stirred().await;
    assert_eq!(stage.take_resets(), Vec::<String>::new());
    assert!(stage.known().await[&name].unclean);
    let held = stage.devices.reset(&name, Doing::Now).await;
    assert!(matches!(held, Err(ActError::Held { .. })), "{held:?}");
    assert_eq!(stage.binds(0, guest(2)).await.1, "BindFailed");
}

#[tokio::test]
async fn beside_cyborg_which_has_no_such_route_it_is_asked_once() {
    let cyborg = Router::new().fallback(|| async { StatusCode::NOT_FOUND });
    let mut stage = Stage::beside(cyborg, vec![card(0)]).await;
    stage.stirred().await;
    stage.show(vec![card(0), card(1)]);
    stage.round().await;
    assert_eq!(stage.take_requests().len(), 1);
    assert!(
        stage.provider(1).await.is_some(),
        "Placement is told all the same"
    );
}

#[tokio::test]
async fn one_404_on_the_way_to_the_service_ends_neither_telling_nor_cleaning() {
    let stray = Arc::<AtomicBool>::default();
    let mut stage = Stage::behind(Arc::clone(&stray), vec![card(0)]).await;
    stage.show(vec![card(0), card(1)]);
    stray.store(true, Ordering::SeqCst);
    stage.round().await;
    assert!(!stray.load(Ordering::SeqCst), "it was told nothing");
    assert!(!stage.known().await.contains_key(&address(1).to_string()));
    tokio::time::pause();
    tokio::time::advance(INTERVAL).await;
    tokio::time::resume();
    stage.round().await;
    assert_eq!(stage.binds(1, guest(1)).await.1, "Bound");
}

#[tokio::test]
async fn a_slow_look_brings_no_card_back_that_a_later_one_did_not_see() {
    let mut stage = Stage::with(vec![card(0), card(1)]).await;
    let (slow, mut brought) = (stage.devices.begin_look(), stage.view());
    stage.show(vec![card(1)]);
    stage.pass().await;
    stage.devices.overlay(slow, &mut brought);
    stage.devices.tell().await.unwrap();
    assert!(!stage.known().await.contains_key(&address(0).to_string()));
}

#[tokio::test]
async fn beside_the_passes_devices_are_told_and_cleaned_by_themselves() {
    let stage = Stage::with(vec![card(0)]).await;
    let (arq, _) = stage.binds(0, guest(1)).await;
    stage.delete(&arq).await;
    let (ends, told) = tokio::sync::watch::channel(0);
    let stop = CancellationToken::new();
    let (devices, stopped) = (stage.devices.clone(), stop.clone());
    let running = tokio::spawn(async move { devices.run(Some(told), stopped).await });
    // A guest's journey has ended: that is why anybody looks.
    ends.send_replace(1);
    while stage.known().await[&address(0).to_string()].unclean {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(stage.binds(0, guest(2)).await.1, "Bound");
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn an_operator_sees_and_moves_devices_over_the_admin_api() {
    let mut stage = Stage::with(vec![card(0), parted(1)]).await;
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

#[tokio::test]
async fn a_provider_that_placement_lost_makes_a_pass_that_makes_it_again() {
    let mut stage = Stage::with(vec![card(0)]).await;
    let (placement, provider) = (stage.cloud.placement(), provider_uuid(0));
    placement.delete_provider(provider).await.unwrap();
    stage.service_looks().await;
    let mut changes = stage.devices.changes();
    stage.devices.stir();
    stage.devices.tell().await.unwrap();
    assert_eq!(changes.next().await, Some(HostEvent::Devices));
    // The cached tree is young and has the provider.
    stage.pass().await;
    assert_eq!(stage.provider(0).await.expect("made again").0, "1 0");
}
