//! Guests that libvirtd was starting when it was killed. If no emulator ran yet, the guest is stuck afterwards. If one ran, libvirtd
//! ends the guest when it restarts. The tests write the status file that such a kill leaves, and the real libvirtd reads it.

use std::fs;
use std::time::{Duration, Instant};

use berth_model::Disposition;
use berth_virt::guest_spec::{DesiredPower, GuestSpec};
use berth_virt::{
    DeviceError, GuestDestroyOutcome, GuestError, GuestPowerOutcome, GuestSpawnOutcome,
    PowerAction, PowerState, VirtDriver as _,
};
use tokio::time::sleep;

use crate::devices::{Host, taken};
use crate::held_devices::{attached, guest_spec};

/// What libvirtd writes down of a guest that runs, as it is just before there is an emulator.
fn before_its_emulator(status: &str) -> String {
    let (head, rest) = status.split_once("<domstatus ").expect("a status");
    let (_, rest) = rest.split_once('>').expect("an element");
    let (before, rest) = rest.split_once("<vcpus>").expect("virtual CPUs");
    let (_, rest) = rest.split_once("</vcpus>").expect("their end");
    format!(
        "{head}<domstatus state='paused' reason='starting up' pid='0'>{before}<vcpus>\n  </vcpus>\n  \
         <job type='none' async='start' flags='0x0' asyncStarted='1795348317374'/>{rest}"
    )
}

#[tokio::test]
async fn a_guest_that_nothing_can_end_is_reported_with_its_remedy_and_continues_after_it() {
    let mut host = Host::new();
    let before = host.driver();
    // Emulators of concurrent tests are processes of this machine, too, so the guest's UUID must be unique.
    let spec = guest_spec(host.path(), 77, vec![attached(taken().device, 1)]);
    before.prepare_device(&taken()).await.expect("it is ready");
    assert_eq!(
        before.spawn(&spec).await.expect("it starts"),
        GuestSpawnOutcome::Spawned
    );
    let status = host.daemon.status(spec.name.as_str());
    let text = fs::read_to_string(&status).expect("libvirtd writes it down");
    let at_once = PowerAction::Stop {
        grace: Duration::ZERO,
    };
    assert_eq!(
        before.power(spec.uuid, at_once).await.expect("it is off"),
        GuestPowerOutcome::Done
    );
    host.daemon.kill();
    fs::write(&status, before_its_emulator(&text)).expect("it is written");
    host.daemon.start_again();

    // An agent that was started again, too: it asks once, and waits for libvirt's lock in vain.
    let driver = host.driver();
    let listed = driver.guests().await.expect("guests are listed");
    let found = &listed[&spec.uuid];
    assert_eq!((found.state, &found.stuck), (PowerState::Paused, &None));
    let error = driver
        .destroy(spec.uuid)
        .await
        .expect_err("nothing can end it");
    assert_eq!(error.disposition(), Disposition::Retry);
    let GuestError::Stuck { uuid, reason } = error else {
        panic!("it is not known as stuck: {error}");
    };
    assert_eq!(uuid, spec.uuid);
    let file = spec.name.as_str().replace('\'', "'\\''");
    let repair = format!(
        "pgrep -f -- '-uuid {uuid}' || {{ rm '/run/libvirt/qemu/{file}.xml' && systemctl restart libvirtd; }}"
    );
    assert!(reason.ends_with(&repair), "{reason}");
    let listed = driver.guests().await.expect("guests are listed");
    assert_eq!(listed[&spec.uuid].stuck.as_ref(), Some(&reason));
    assert_eq!(listed[&spec.uuid].devices, spec.held_devices());
    // From now on no call waits for the lock: these are answered at once, and the guest's devices count as in use.
    for _ in 0..20 {
        for error in [
            driver.spawn(&spec).await.map(drop),
            driver
                .power(spec.uuid, PowerAction::HardReboot)
                .await
                .map(drop),
            driver.destroy(spec.uuid).await.map(drop),
        ] {
            let error = error.expect_err("it is stuck");
            assert!(matches!(error, GuestError::Stuck { .. }), "{error}");
        }
        let error = driver.reset_device(&taken()).await.expect_err("it is held");
        assert!(matches!(error, DeviceError::InUse { .. }), "{error}");
    }

    // The recovery command, as reported.
    fs::remove_file(&status).expect("it is there");
    host.daemon.kill();
    host.daemon.start_again();
    let listed = driver.guests().await.expect("guests are listed");
    let found = &listed[&spec.uuid];
    assert_eq!((found.state, &found.stuck), (PowerState::ShutOff, &None));
    assert_eq!(
        driver.spawn(&spec).await.expect("it starts"),
        GuestSpawnOutcome::Spawned
    );
    assert_eq!(
        driver.destroy(spec.uuid).await.expect("it ends"),
        GuestDestroyOutcome::Destroyed
    );
    let _ = driver
        .reset_device(&taken())
        .await
        .expect("no guest has it");
}

#[tokio::test]
async fn a_guest_that_libvirtd_ends_because_it_was_killed_in_its_start_is_ended_by_the_hypervisor()
{
    let mut host = Host::new();
    let driver = host.driver();
    let spec = GuestSpec {
        power: DesiredPower::Paused,
        ..guest_spec(host.path(), 78, vec![])
    };
    assert_eq!(
        driver.spawn(&spec).await.expect("it starts"),
        GuestSpawnOutcome::Spawned
    );
    host.daemon.kill();
    let status = host.daemon.status(spec.name.as_str());
    let text = fs::read_to_string(&status).expect("libvirtd writes it down");
    let started = "<domstatus state='paused' reason='user'";
    assert!(text.contains(started), "{text}");
    let starting = text.replace(started, "<domstatus state='paused' reason='starting up'");
    fs::write(&status, starting).expect("it is written");
    host.daemon.start_again();

    let begun = Instant::now();
    let found = loop {
        // The driver connects again.
        match driver.guest(spec.uuid).await {
            Ok(Some(found)) if found.state == PowerState::ShutOff => break found,
            other => assert!(begun.elapsed() < Duration::from_secs(60), "{other:?}"),
        }
        sleep(Duration::from_millis(50)).await;
    };
    assert!(found.ended_by_hypervisor, "{found:?}");
    let _ = driver.spawn(&spec).await.expect("it starts again");
    let at_once = PowerAction::Stop {
        grace: Duration::ZERO,
    };
    let _ = driver.power(spec.uuid, at_once).await.expect("it is off");
    let found = driver.guest(spec.uuid).await.expect("libvirt answers");
    assert!(!found.expect("it is defined").ended_by_hypervisor);
    let _ = driver.destroy(spec.uuid).await.expect("it ends");
}
