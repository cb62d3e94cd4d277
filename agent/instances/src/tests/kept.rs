//! What is kept for a guest beside the journal goes with it, even where the journal never came to know it.

use berth_agent_journal::samples::{guest, request};

use crate::guests::GuestsError;
use crate::stage::{Kill, Stage};

#[tokio::test]
async fn a_delete_takes_what_was_kept_for_a_request_that_a_kill_kept_out_of_the_journal() {
    let stage = Stage::new().await;
    stage.bind(1, &[1]);
    stage.kill_at(Some(Kill {
        at: 1,
        after: false,
    }));
    let guests = stage.guests();
    let asked = request(1, &[1]);
    tokio::select! {
        _ = guests.create(&asked) => panic!("it was to be killed"),
        () = stage.dies() => {}
    }
    assert!(stage.world().kept.contains(&guest(1)));
    stage.kill_at(None);
    let guests = stage.guests();
    guests.create(&request(2, &[2])).await.unwrap();
    let missing = guests.delete(guest(1)).await;
    assert!(
        matches!(missing, Err(GuestsError::NotFound { .. })),
        "{missing:?}"
    );
    let kept = stage.world().kept.clone();
    assert_eq!(kept.into_iter().collect::<Vec<_>>(), [guest(2)]);
}

#[tokio::test]
async fn what_is_kept_for_a_guest_that_only_the_hypervisor_knows_stays() {
    let lost = Stage::new().await;
    lost.made_late(request(1, &[1]).spec());
    lost.world().kept.insert(guest(1));
    let orphan = lost.guests().delete(guest(1)).await;
    assert!(
        matches!(orphan, Err(GuestsError::Orphan { .. })),
        "{orphan:?}"
    );
    assert!(lost.world().kept.contains(&guest(1)));
}
