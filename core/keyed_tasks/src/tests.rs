//! Exclusive access, interrupts and the stop.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::yield_now;

use super::*;

type NumberedTasks = KeyedTasks<u32>;

fn entries(tasks: &NumberedTasks) -> usize {
    tasks.entries().len()
}

/// Long enough for every task that can make progress.
async fn settle() {
    for _ in 0..100 {
        yield_now().await;
    }
}

#[tokio::test]
async fn a_key_has_one_guard_at_a_time_and_two_keys_have_two() {
    let tasks = NumberedTasks::default();
    let first = tasks.lock(1).await;
    let other = tasks.lock(2).await;
    let waiting = tokio::spawn({
        let tasks = tasks.clone();
        async move { drop(tasks.lock(1).await) }
    });
    settle().await;
    assert!(!waiting.is_finished(), "it waits for the key");
    assert!(tasks.is_active(&1));
    drop((first, other));
    waiting.await.unwrap();
    assert!(!tasks.is_active(&1));
    assert_eq!(entries(&tasks), 0, "no entry is left");
}

#[tokio::test]
async fn an_interrupt_cancels_tokens_of_before_and_none_of_after() {
    let tasks = NumberedTasks::default();
    let guard = tasks.lock(1).await;
    let token = guard.interrupt_token();
    tasks.interrupt(&1);
    assert!(token.is_cancelled());
    assert!(
        !guard.interrupt_token().is_cancelled(),
        "a later token is not cancelled"
    );
}

#[tokio::test]
async fn an_interrupt_after_the_end_of_a_task_does_not_reach_the_next_task_of_its_key() {
    let tasks = NumberedTasks::default();
    // Two deletes of one guest: the task of the first one has ended when the second one interrupts.
    drop(tasks.lock(1).await);
    tasks.interrupt(&1);
    assert_eq!(entries(&tasks), 0);
    let passes = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&passes);
    // A task that starts another pass as long as it is interrupted.
    tasks.spawn_if_idle(1, move |guard| async move {
        loop {
            let token = guard.interrupt_token();
            seen.fetch_add(1, Ordering::SeqCst);
            if !token.is_cancelled() {
                return;
            }
            yield_now().await;
        }
    });
    settle().await;
    assert_eq!(passes.load(Ordering::SeqCst), 1);
    assert_eq!(entries(&tasks), 0);
}

#[tokio::test]
async fn an_interrupt_reaches_earlier_subscribers_with_or_without_the_guard() {
    let tasks = NumberedTasks::default();
    let guard = tasks.lock(1).await;
    let token = guard.interrupt_token();
    let subscription = tasks.subscribe(1);
    let elsewhere = tasks.subscribe(2);
    tasks.interrupt(&1);
    subscription.interrupted().await;
    assert!(token.is_cancelled());
    assert!(!elsewhere.token.is_cancelled());
    assert!(
        !tasks.subscribe(1).token.is_cancelled(),
        "subscribed after the interrupt"
    );
    drop((guard, subscription, elsewhere));
    assert_eq!(entries(&tasks), 0);
}

#[tokio::test]
async fn of_many_spawned_at_once_one_waits_and_sees_what_all_wrote() {
    let tasks = NumberedTasks::default();
    let guard = tasks.lock(1).await;
    let written = Arc::new(AtomicUsize::new(0));
    let seen = Arc::new(Mutex::new(Vec::new()));
    for _ in 0..5 {
        written.fetch_add(1, Ordering::SeqCst);
        let (written, seen) = (Arc::clone(&written), Arc::clone(&seen));
        tasks.spawn_if_idle(1, move |_guard| async move {
            let now = written.load(Ordering::SeqCst);
            seen.lock().unwrap().push(now);
        });
    }
    assert!(tasks.is_active(&1));
    drop(guard);
    assert!(tasks.is_active(&1), "one waits to begin");
    settle().await;
    assert_eq!(*seen.lock().unwrap(), [5]);
    assert_eq!(entries(&tasks), 0);
}

#[tokio::test]
async fn a_task_spawned_while_another_runs_follows_it() {
    let tasks = NumberedTasks::default();
    let ends = Arc::new(AtomicUsize::new(0));
    let proceed = CancellationToken::new();
    for _ in 0..2 {
        let (ends, proceed) = (Arc::clone(&ends), proceed.clone());
        tasks.spawn_if_idle(1, move |_guard| async move {
            proceed.cancelled().await;
            ends.fetch_add(1, Ordering::SeqCst);
        });
        settle().await;
    }
    proceed.cancel();
    settle().await;
    assert_eq!(ends.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_task_that_panics_releases_its_key() {
    let tasks = NumberedTasks::default();
    tasks.spawn_if_idle(1, |_guard| async { panic!("a bug") });
    settle().await;
    assert!(!tasks.is_active(&1));
    drop(tasks.lock(1).await);
    assert_eq!(entries(&tasks), 0);
}

#[tokio::test]
async fn a_stop_interrupts_all_waits_for_them_and_spawns_no_more() {
    let tasks = NumberedTasks::default();
    let ended = Arc::new(AtomicUsize::new(0));
    for key in [1, 1, 2] {
        let (all, ended) = (tasks.clone(), Arc::clone(&ended));
        tasks.spawn_if_idle(key, move |guard| async move {
            guard.interrupt_token().cancelled().await;
            assert!(
                all.is_stopping(),
                "a task that is interrupted by the stop sees why"
            );
            ended.fetch_add(1, Ordering::SeqCst);
        });
        settle().await;
    }
    tasks.stop().await;
    assert_eq!(ended.load(Ordering::SeqCst), 3);
    let spawned = Arc::new(AtomicUsize::new(0));
    let (one, two) = (Arc::clone(&spawned), Arc::clone(&spawned));
    tasks.spawn_if_idle(1, move |_guard| async move {
        one.fetch_add(1, Ordering::SeqCst);
    });
    tasks.spawn_detached(async move {
        two.fetch_add(1, Ordering::SeqCst);
    });
    settle().await;
    assert_eq!(spawned.load(Ordering::SeqCst), 0);
    assert!(tasks.lock(1).await.interrupt_token().is_cancelled());
    assert_eq!(entries(&tasks), 0);
}
