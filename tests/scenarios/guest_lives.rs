//! Guests through events of their host: it is power-cycled, a guest is switched off by hand, a card is removed during
//! its reset.

use std::time::Duration;

use berth_conductor::journal::BootGoal;
use berth_tests::guest_cloud::{GuestCloud, guest, request};
use berth_virt::guest_spec::DesiredPower;
use berth_wire::guest::GuestAction;
use tokio::time::sleep;

/// A cloud with a clock that is stopped while a task works.
fn in_a_cloud(story: impl AsyncFnOnce(&GuestCloud)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let _inside = runtime.enter();
    let tasks = tokio::task::LocalSet::new();
    runtime.block_on(tasks.run_until(async {
        let cloud = GuestCloud::new().await;
        story(&cloud).await;
        cloud.end();
    }));
}

/// Waits for what must happen.
async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    for _ in 0..3600 {
        if is_so().await {
            return;
        }
        sleep(Duration::from_secs(1)).await;
    }
    panic!("{what}: not within an hour");
}

/// A guest that runs, and its cards.
async fn booted(cloud: &GuestCloud, n: u32, profile: &str) -> Vec<u8> {
    let conductor = cloud.conductor().await;
    conductor.create(&request(n, profile)).await.unwrap();
    until("a guest boots", async || {
        cloud.boot_goal(guest(n)).await == Some(BootGoal::Active)
    })
    .await;
    cloud.held_by(guest(n)).await
}

async fn rests(cloud: &GuestCloud) {
    assert_eq!(cloud.rests(None).await, Vec::<String>::new());
}

#[test]
fn after_a_reboot_of_the_host_a_running_guest_is_restarted_with_its_devices_and_a_stopped_one_is_not()
 {
    in_a_cloud(async |cloud| {
        let running = booted(cloud, 1, "two").await;
        let off = booted(cloud, 2, "gpu").await;
        assert_eq!((running.len(), off.len()), (2, 1));
        cloud.hardware.switch_off(guest(2)).await;
        until("it is known as off", async || {
            cloud.wanted(guest(2)).await == DesiredPower::ShutOff
        })
        .await;
        rests(cloud).await;
        assert!(!cloud.is_running(guest(2)).await, "it was not started");

        cloud.boot_host().await;
        until("it runs again", async || cloud.is_running(guest(1)).await).await;
        rests(cloud).await;
        assert_eq!(cloud.held_by(guest(1)).await, running);
        assert!(!cloud.is_running(guest(2)).await);
        assert_eq!(cloud.wanted(guest(2)).await, DesiredPower::ShutOff);

        let started = cloud.action(guest(2), &GuestAction::Start {}).await;
        started.unwrap();
        assert!(cloud.is_running(guest(2)).await);
        assert_eq!(cloud.held_by(guest(2)).await, off, "it kept its device");
        rests(cloud).await;
    });
}

#[test]
fn a_card_removed_during_its_reset_blocks_no_guest_and_is_free_when_it_returns() {
    in_a_cloud(async |cloud| {
        let held = booted(cloud, 1, "two").await;
        let pulled = held[0];
        cloud.hardware.pull_out_in_reset(pulled);
        let deleted = cloud.conductor().await.delete(guest(1)).await;
        deleted.unwrap();
        until("the guest goes", async || {
            cloud.boot_goal(guest(1)).await.is_none()
        })
        .await;
        rests(cloud).await;
        assert!(!cloud.is_offered(pulled).await, "it does not exist");
        assert!(cloud.is_offered(held[1]).await, "the other is clean");

        cloud.plug_in(pulled);
        until("it is offered", async || cloud.is_offered(pulled).await).await;
        rests(cloud).await;
        for n in [2, 3, 4] {
            assert_eq!(booted(cloud, n, "gpu").await.len(), 1);
        }
        rests(cloud).await;
    });
}
