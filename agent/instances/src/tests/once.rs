//! Actions that are asked for by an id, and again by the same one because the answer was lost: each is done once.

use berth_agent_journal::samples::guest;
use berth_virt::{PowerAction, Powered};
use berth_wire::guest::ActionId;

use crate::outcome::ReconcileOutcome;
use crate::stage::{Kill, Mishap, Stage, base, image};
use crate::tests::judge;
use crate::tests::life_changes::{file, is_whole, kills, running};
use crate::transition::TransitionRequest;

const ROOT: &str = "disk";

fn id(text: &str) -> ActionId {
    text.parse().unwrap()
}

fn rebuild() -> TransitionRequest {
    TransitionRequest::Rebuild {
        image: image('c'),
        preserve_ephemeral: false,
    }
}

/// What the root disk holds.
fn root(stage: &Stage) -> String {
    stage.world().files[&file(ROOT)].clone()
}

/// The tenant works on, after the rebuild.
fn writes(stage: &Stage) {
    let work = "tenant's later work".to_owned();
    stage.world().files.insert(file(ROOT), work);
}

#[tokio::test]
async fn a_rebuild_that_is_done_is_not_done_again_by_its_id_whatever_happens_to_the_agent() {
    let stage = running().await;
    let asked = id("req-1.7");
    let change = rebuild();
    let guests = stage.guests();
    let rebuilt = guests.change_once(guest(1), &change, Some(&asked));
    rebuilt.await.unwrap();
    assert_eq!(root(&stage), base('c'));
    writes(&stage);
    for _ in 0..2 {
        let crossings = stage.history().len();
        // Another agent, over the same journal.
        let guests = stage.guests();
        let again = guests.change_once(guest(1), &change, Some(&asked));
        again.await.unwrap();
        let crossed = stage.history().split_off(crossings);
        assert!(
            crossed.iter().all(|line| line.contains(" read ")),
            "{crossed:?}"
        );
        assert_eq!(root(&stage), "tenant's later work");
    }
    // By another id it is another rebuild, and so it is without one.
    for other in [Some(id("req-2.8")), None] {
        writes(&stage);
        let guests = stage.guests();
        let again = guests.change_once(guest(1), &change, other.as_ref());
        again.await.unwrap();
        assert_eq!(root(&stage), base('c'), "{other:?}");
    }
}

#[tokio::test]
async fn a_kill_at_any_crossing_of_a_rebuild_never_takes_what_was_written_after_it() {
    let asked = id("req-1.7");
    let change = rebuild();
    let once = async |stage: &Stage, kill: Option<Kill>| {
        stage.kill_at(kill);
        let guests = stage.guests();
        tokio::select! {
            biased;
            () = stage.dies() => {}
            done = guests.change_once(guest(1), &change, Some(&asked)) => done.unwrap(),
        }
    };
    let clean = running().await;
    once(&clean, None).await;
    let (mut before, mut after) = (0, 0);
    for kill in kills(clean.count()) {
        let stage = running().await;
        once(&stage, Some(kill)).await;
        stage.kill_at(None);
        // The next agent goes on with what was written down, before anybody asks again.
        let guests = stage.guests();
        let end = guests.journey(guest(1)).await;
        assert!(
            matches!(end, ReconcileOutcome::Settled),
            "{kill:?}: {end:?}"
        );
        let is_rebuilt = root(&stage) == base('c');
        if is_rebuilt {
            writes(&stage);
        }
        once(&stage, None).await;
        let expected = match is_rebuilt {
            true => "tenant's later work".to_owned(),
            false => base('c'),
        };
        assert_eq!(root(&stage), expected, "{kill:?}");
        is_whole(&stage, &stage.guests()).await;
        judge::at_rest(&stage).await;
        *(if is_rebuilt { &mut after } else { &mut before }) += 1;
    }
    assert!(before > 3 && after > 10, "{before} before, {after} after");
}

#[tokio::test]
async fn a_change_that_is_held_is_gone_on_with_by_its_id() {
    let stage = running().await;
    let asked = id("req-1.7");
    let guests = stage.guests();
    stage.comes(Mishap::RedefineFails);
    for _ in 0..2 {
        let held = guests.change_once(guest(1), &rebuild(), Some(&asked)).await;
        assert!(held.is_err());
    }
    stage.heals();
    let done = guests.change_once(guest(1), &rebuild(), Some(&asked)).await;
    done.unwrap();
    assert_eq!(root(&stage), base('c'));
    writes(&stage);
    let again = guests.change_once(guest(1), &rebuild(), Some(&asked)).await;
    again.unwrap();
    assert_eq!(root(&stage), "tenant's later work");
}

#[tokio::test]
async fn a_reboot_is_done_once_for_its_id() {
    let stage = running().await;
    for action in [PowerAction::HardReboot, PowerAction::SoftReboot] {
        let asked = id(&format!("req-{action:?}"));
        for expected in [Powered::Done, Powered::AlreadySo, Powered::AlreadySo] {
            let crossings = stage.history().len();
            let guests = stage.guests();
            let acted = guests.power_once(guest(1), action, Some(&asked)).await;
            assert_eq!(acted.unwrap(), expected, "{action:?}");
            let crossed = stage.history().split_off(crossings);
            let asks_driver = crossed.iter().any(|line| line.contains("driver write"));
            assert_eq!(asks_driver, expected == Powered::Done, "{crossed:?}");
        }
        let guests = stage.guests();
        let other = guests
            .power_once(guest(1), action, Some(&id("req-2")))
            .await;
        assert_eq!(other.unwrap(), Powered::Done);
    }
}

#[tokio::test]
async fn a_hard_reboot_that_switched_the_guest_off_is_not_done_again_once_it_is_back() {
    let stage = running().await;
    let asked = id("req-1.7");
    let guests = stage.guests();
    let reboot = async || {
        let reboot = PowerAction::HardReboot;
        guests.power_once(guest(1), reboot, Some(&asked)).await
    };
    stage.comes(Mishap::StartFails);
    assert!(reboot().await.is_err());
    stage.heals();
    let end = guests.mend(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Settled), "{end:?}");
    assert_eq!(reboot().await.unwrap(), Powered::AlreadySo);
}
