//! Turns, words and the end of it all.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::yield_now;

use super::*;

type Numbered = Journeys<u32>;

fn seats(journeys: &Numbered) -> usize {
    journeys.seats().len()
}

/// Long enough for everything that can go on to have gone on.
async fn settle() {
    for _ in 0..100 {
        yield_now().await;
    }
}

#[tokio::test]
async fn a_thing_has_one_turn_at_a_time_and_two_things_have_two() {
    let journeys = Numbered::default();
    let first = journeys.turn(1).await;
    let other = journeys.turn(2).await;
    let waiting = tokio::spawn({
        let journeys = journeys.clone();
        async move { drop(journeys.turn(1).await) }
    });
    settle().await;
    assert!(!waiting.is_finished(), "it waits for its turn");
    assert!(journeys.is_under_way(&1));
    drop((first, other));
    waiting.await.unwrap();
    assert!(!journeys.is_under_way(&1));
    assert_eq!(seats(&journeys), 0, "nothing is kept of who is gone");
}

#[tokio::test]
async fn a_word_ends_one_look_and_never_the_next_one() {
    let journeys = Numbered::default();
    let turn = journeys.turn(1).await;
    let look = turn.cut_short();
    journeys.cut_short(&1);
    assert!(look.is_cancelled());
    assert!(!turn.cut_short().is_cancelled(), "the next look goes on");
}

#[tokio::test]
async fn a_word_that_comes_after_the_journey_does_not_reach_the_next_thing_of_its_name() {
    let journeys = Numbered::default();
    // Two deletes of one guest: the first one's journey has ended when the second one says its word.
    drop(journeys.turn(1).await);
    journeys.cut_short(&1);
    assert_eq!(seats(&journeys), 0);
    let looks = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&looks);
    // A journey that looks again for as long as it is cut short.
    journeys.set_out(1, move |turn| async move {
        loop {
            let word = turn.cut_short();
            seen.fetch_add(1, Ordering::SeqCst);
            if !word.is_cancelled() {
                return;
            }
            yield_now().await;
        }
    });
    settle().await;
    assert_eq!(looks.load(Ordering::SeqCst), 1);
    assert_eq!(seats(&journeys), 0);
}

#[tokio::test]
async fn a_word_reaches_who_began_to_listen_before_it_was_given_with_or_without_the_turn() {
    let journeys = Numbered::default();
    let turn = journeys.turn(1).await;
    let look = turn.cut_short();
    let ear = journeys.listen(1);
    let elsewhere = journeys.listen(2);
    journeys.cut_short(&1);
    ear.cut_short().await;
    assert!(look.is_cancelled());
    assert!(!elsewhere.word.is_cancelled());
    assert!(!journeys.listen(1).word.is_cancelled(), "too late for it");
    drop((turn, ear, elsewhere));
    assert_eq!(seats(&journeys), 0);
}

#[tokio::test]
async fn of_many_that_are_set_out_at_once_one_waits_and_sees_what_all_wrote() {
    let journeys = Numbered::default();
    let turn = journeys.turn(1).await;
    let written = Arc::new(AtomicUsize::new(0));
    let seen = Arc::new(Mutex::new(Vec::new()));
    for _ in 0..5 {
        written.fetch_add(1, Ordering::SeqCst);
        let (written, seen) = (Arc::clone(&written), Arc::clone(&seen));
        journeys.set_out(1, move |_turn| async move {
            let now = written.load(Ordering::SeqCst);
            seen.lock().unwrap().push(now);
        });
    }
    assert!(journeys.is_under_way(&1));
    drop(turn);
    assert!(journeys.is_under_way(&1), "one waits to begin");
    settle().await;
    assert_eq!(*seen.lock().unwrap(), [5]);
    assert_eq!(seats(&journeys), 0);
}

#[tokio::test]
async fn one_that_is_set_out_while_another_is_under_way_follows_it() {
    let journeys = Numbered::default();
    let ends = Arc::new(AtomicUsize::new(0));
    let go_on = CancellationToken::new();
    for _ in 0..2 {
        let (ends, go_on) = (Arc::clone(&ends), go_on.clone());
        journeys.set_out(1, move |_turn| async move {
            go_on.cancelled().await;
            ends.fetch_add(1, Ordering::SeqCst);
        });
        settle().await;
    }
    go_on.cancel();
    settle().await;
    assert_eq!(ends.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_journey_that_dies_leaves_its_turn_to_the_next() {
    let journeys = Numbered::default();
    journeys.set_out(1, |_turn| async { panic!("a bug") });
    settle().await;
    assert!(!journeys.is_under_way(&1));
    drop(journeys.turn(1).await);
    assert_eq!(seats(&journeys), 0);
}

#[tokio::test]
async fn a_stop_cuts_all_short_waits_for_them_and_begins_nothing_any_more() {
    let journeys = Numbered::default();
    let ended = Arc::new(AtomicUsize::new(0));
    for key in [1, 1, 2] {
        let (all, ended) = (journeys.clone(), Arc::clone(&ended));
        journeys.set_out(key, move |turn| async move {
            turn.cut_short().cancelled().await;
            assert!(all.is_stopping(), "who is cut short by the stop sees why");
            ended.fetch_add(1, Ordering::SeqCst);
        });
        settle().await;
    }
    journeys.stop().await;
    assert_eq!(ended.load(Ordering::SeqCst), 3);
    let begun = Arc::new(AtomicUsize::new(0));
    let (one, two) = (Arc::clone(&begun), Arc::clone(&begun));
    journeys.set_out(1, move |_turn| async move {
        one.fetch_add(1, Ordering::SeqCst);
    });
    journeys.beside(async move {
        two.fetch_add(1, Ordering::SeqCst);
    });
    settle().await;
    assert_eq!(begun.load(Ordering::SeqCst), 0);
    assert!(journeys.turn(1).await.cut_short().is_cancelled());
    assert_eq!(seats(&journeys), 0);
}
