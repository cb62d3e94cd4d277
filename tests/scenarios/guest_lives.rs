//! Guests through what befalls their host: it is switched off and on, a guest is switched off by hand, a card is pulled out in
//! the middle of its reset.

use std::time::Duration;

use berth_conductor::journal::BootGoal;
use berth_tests::guest_cloud::{GuestCloud, guest, request};
use berth_virt::guest_spec::DesiredPower;
use berth_wire::guest::GuestAction;
use tokio::time::sleep;

/// A cloud whose clock stands still while anybody works.
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
        cloud.course(guest(n)).await == Some(BootGoal::Active)
    })
    .await;
    cloud.held_by(guest(n)).await
}

async fn rests(cloud: &GuestCloud) {
    assert_eq!(cloud.rests(None).await, Vec::<String>::new());
}

#[test]
fn after_a_boot_of_the_host_the_guest_that_ran_is_back_with_its_devices_and_the_one_that_was_off_is_off()
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
        assert!(!cloud.is_running(guest(2)).await, "nobody started it");

        cloud.boot_host().await;
        until("it comes back", async || cloud.is_running(guest(1)).await).await;
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
fn a_card_that_is_pulled_out_while_it_is_reset_holds_up_nobody_and_is_free_when_it_is_back() {
    in_a_cloud(async |cloud| {
        let held = booted(cloud, 1, "two").await;
        let pulled = held[0];
        cloud.hardware.pull_out_in_reset(pulled);
        let deleted = cloud.conductor().await.delete(guest(1)).await;
        deleted.unwrap();
        until("the guest goes", async || {
            cloud.course(guest(1)).await.is_none()
        })
        .await;
        rests(cloud).await;
        assert!(!cloud.is_offered(pulled).await, "it is not there");
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
