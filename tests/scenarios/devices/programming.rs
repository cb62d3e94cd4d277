//! Devices that are programmed before their guests get them, from the bind through the host's hook to the report.

use std::path::Path;
use std::time::Duration;

use berth_accelerator::AcceleratorApiOptions;
use berth_hook::Hook;
use berth_tests::wait::poll_until;
use serde_json::json;

use super::stage::{DeviceStage, address, card, guest, hook, provider_uuid};

const IMAGE: &str = "9a17439a-85d0-4c53-a3d3-0f68a2eac896";

/// A program that writes down what it was asked, and then does this.
fn noting(folder: &Path, then: &str) -> Hook {
    let asked = folder.join("asked");
    let note = format!(
        "echo \"$BERTH_DEVICE $BERTH_BITSTREAM_ID\" >> {}",
        asked.display()
    );
    hook(folder, &format!("{note}\n{then}"))
}

fn asked(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("asked")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// A request of a profile that asks for a bitstream, bound to the device for the guest.
async fn bound(stage: &DeviceStage, n: u8) -> String {
    let group = json!({"resources:PGPU": "1", "accel:bitstream_id": IMAGE});
    let profile = json!([{"name": "image", "groups": [group]}]);
    stage.ask("POST", "/v2/device_profiles", profile).await;
    let body = json!({"device_profile_name": "image"});
    let (_, made) = stage.ask("POST", "/v2/accelerator_requests", body).await;
    let arq = made["arqs"][0]["uuid"].as_str().unwrap().to_owned();
    stage.bind(&arq, n, guest(1)).await;
    arq
}

/// Waits until the hook was started so many times.
async fn hook_runs(folder: &Path, times: usize) {
    poll_until(&format!("the hook is started {times} times"), async || {
        let runs = asked(folder);
        if runs.len() < times {
            Err(runs)
        } else {
            Ok(())
        }
    })
    .await;
}

async fn state_is(stage: &DeviceStage, arq: &str, wanted: &str) {
    poll_until(&format!("request {arq} is {wanted}"), async || {
        let state = stage.state(arq).await;
        if state == wanted { Ok(()) } else { Err(state) }
    })
    .await;
}

#[tokio::test]
async fn a_host_without_a_hook_gets_nothing_to_program() {
    let stage = DeviceStage::with(vec![card(0)]).await;
    let arq = bound(&stage, 0).await;
    assert_eq!(stage.state(&arq).await, "BindFailed");
}

#[tokio::test]
async fn a_bind_completes_when_the_hook_has_programmed_its_device_and_fails_when_the_hook_fails() {
    for (then, state, status) in [
        ("exit 0", "Bound", "completed"),
        ("exit 1", "BindFailed", "failed"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut stage = DeviceStage::with(vec![card(0)]).await;
        let _ = stage
            .devices
            .clone()
            .with_program_hook(noting(folder.path(), then));
        stage.round().await;
        let arq = bound(&stage, 0).await;
        assert_eq!(stage.state(&arq).await, "BindStarted");
        assert_eq!(asked(folder.path()), Vec::<String>::new());
        let (stop, task) = stage.keep();
        state_is(&stage, &arq, state).await;
        stop.cancel();
        task.await.unwrap();
        assert_eq!(asked(folder.path()), [format!("{} {IMAGE}", address(0))]);
        assert_eq!(stage.next_events().await, [format!("{arq} {status}")]);
    }
}

#[tokio::test]
async fn a_bind_with_a_slow_hook_fails_with_an_event_and_its_device_is_reused() {
    let folder = tempfile::tempdir().unwrap();
    let options = AcceleratorApiOptions {
        bind_timeout: Duration::from_secs(1),
        ..AcceleratorApiOptions::default()
    };
    let mut stage = DeviceStage::under(options, vec![card(0)]).await;
    let waits = noting(folder.path(), "exec sleep 1000");
    let _ = stage.devices.clone().with_program_hook(waits);
    stage.round().await;
    let arq = bound(&stage, 0).await;
    let clock = stage.watch_the_clock();
    let (stop, task) = stage.keep();
    state_is(&stage, &arq, "BindFailed").await;
    assert_eq!(stage.next_events().await, [format!("{arq} failed")]);
    stage.delete(&arq).await;
    stage.devices.request_report();
    poll_until("a guest gets the device", async || {
        match stage.binds(0, guest(2)).await.1 {
            state if state == "Bound" => Ok(()),
            state => {
                stage.devices.request_report();
                Err(state)
            }
        }
    })
    .await;
    clock.abort();
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn a_hook_interrupted_by_a_kill_is_run_again_and_an_unneeded_one_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut stage = DeviceStage::with(vec![card(0)]).await;
    let waits = noting(folder.path(), "exec sleep 1000");
    let _ = stage.devices.clone().with_program_hook(waits.clone());
    stage.round().await;
    let arq = bound(&stage, 0).await;
    let (_, task) = stage.keep();
    hook_runs(folder.path(), 1).await;
    task.abort();
    let _ = task.await;
    assert_eq!(stage.state(&arq).await, "BindStarted");

    stage.restart().await;
    let _ = stage.devices.clone().with_program_hook(waits);
    stage.round().await;
    let (stop, task) = stage.keep();
    hook_runs(folder.path(), 2).await;
    stage.take_resets();
    stage.delete(&arq).await;
    stage.devices.request_report();
    // The device was withheld while it was programmed; now it is reset, and free.
    poll_until("the device is reset", async || {
        match stage.take_resets().is_empty() {
            true => Err("no reset"),
            false => Ok(()),
        }
    })
    .await;
    stop.cancel();
    task.await.unwrap();
    let path = format!("/v2/deployables?rp_uuid={}", provider_uuid(0));
    let (_, all) = stage.ask("GET", &path, json!(null)).await;
    assert_eq!(all["deployables"][0]["bitstream_id"], json!(null));
}
