//! Tests of the wait, for every order of events and answers.

use std::collections::BTreeMap;

use berth_agent_journal::samples::{NODE, arq, bound, guest, handle, request};
use berth_model::{AttachHandleInfo, Binding, DeviceProfileName};
use proptest::prelude::*;

use super::*;

fn binding(instance: u32, host: &str) -> Binding {
    Binding {
        hostname: host.to_owned(),
        device_rp: "f9d7848a-7688-361f-8e4b-3e58185de5fe".parse().unwrap(),
        instance: guest(instance),
    }
}

fn ours() -> Binding {
    binding(1, NODE)
}

fn seen(number: u32, state: ArqState) -> ArqLookup {
    ArqLookup::There(Arq {
        uuid: arq(number),
        state,
        device_profile: DeviceProfileName::new("dp").unwrap(),
        group_id: 0,
        project_id: "project".to_owned(),
    })
}

fn bound_to(number: u32, device: u32) -> ArqLookup {
    seen(number, ArqState::Bound(ours(), handle(device)))
}

fn answer(all: &[(u32, ArqLookup)]) -> ArqLookups {
    let all = all
        .iter()
        .map(|(number, seen)| (arq(*number), seen.clone()));
    all.collect()
}

/// The action after one answer about requests 1 and 2, of which request 1 is bound.
fn action_after(second: ArqLookup) -> BindingAction {
    let mut wait = BindingWait::new(&request(1, &[1, 2]));
    wait.query_sent();
    wait.query_answered(&answer(&[(1, bound_to(1, 1)), (2, second)]))
}

#[test]
fn a_guest_gets_its_devices_when_all_are_bound() {
    let BindingAction::Bound(devices) = action_after(bound_to(2, 2)) else {
        panic!("bound");
    };
    assert_eq!(devices, bound(&[1, 2]));
}

#[test]
fn a_guest_without_all_of_its_devices_waits() {
    for state in [
        ArqState::Initial,
        ArqState::Unbound,
        ArqState::BindStarted(ours()),
    ] {
        assert!(matches!(action_after(seen(2, state)), BindingAction::Wait));
    }
}

#[test]
fn each_refusal_has_its_sentence() {
    let test_pci = AttachHandleInfo::TestPci {
        address: "0000:0c:00.0".parse().unwrap(),
    };
    let mut fake = handle(2);
    fake.info = test_pci;
    let odd = BodyError::field("attach_handle_type", "\"USB\" is unknown");
    for (second, sentence) in [
        (seen(2, ArqState::BindFailed(ours())), "(BindFailed)"),
        (seen(2, ArqState::UnbindFailed(ours())), "unknown state"),
        (seen(2, ArqState::Deleting), "being deleted"),
        (ArqLookup::Gone, "does not exist"),
        (ArqLookup::Unreadable(odd), "\"USB\" is unknown"),
        (
            seen(2, ArqState::Bound(ours(), fake)),
            "TEST_PCI 0000:0c:00.0",
        ),
        (bound_to(2, 1), "one device for two"),
        (
            seen(2, ArqState::Bound(binding(1, "compute2"), handle(2))),
            "on host compute2, not on this host (compute1)",
        ),
        (
            seen(2, ArqState::BindStarted(binding(1, "compute2"))),
            "on host compute2",
        ),
        (
            seen(2, ArqState::Bound(binding(7, NODE), handle(2))),
            "is bound for guest 11111111-2222-4333-8444-000000000007",
        ),
    ] {
        let BindingAction::Refused(refused) = action_after(second) else {
            panic!("{sentence}: refused");
        };
        let message = refused.to_string();
        assert!(message.contains(sentence), "{message}");
        assert!(
            message.contains("PCI function") || message.contains(&arq(2).to_string()),
            "{message}"
        );
    }
}

#[test]
fn an_unrequested_device_refuses_the_guest() {
    let mut wait = BindingWait::new(&request(1, &[1]));
    wait.query_sent();
    let next = wait.query_answered(&answer(&[(1, bound_to(1, 1)), (2, bound_to(2, 2))]));
    assert!(
        matches!(next, BindingAction::Refused(BindingRefusal::UnexpectedArq { arq: a }) if a == arq(2))
    );
}

#[test]
fn events_of_other_requests_cause_no_query_and_ours_cause_one_however_often_they_come() {
    let mut wait = BindingWait::new(&request(1, &[1]));
    let pending = answer(&[(1, seen(1, ArqState::BindStarted(ours())))]);
    wait.query_sent();
    let done = EventStatus::Completed;
    assert_eq!(
        wait.event(guest(2), arq(1), done),
        EventRelevance::Unrelated
    );
    assert_eq!(
        wait.event(guest(1), arq(9), done),
        EventRelevance::Unrelated
    );
    assert!(matches!(wait.query_answered(&pending), BindingAction::Wait));
    wait.query_sent();
    for _ in 0..2 {
        assert_eq!(wait.event(guest(1), arq(1), done), EventRelevance::Awaited);
    }
    assert!(matches!(
        wait.query_answered(&pending),
        BindingAction::Query
    ));
    wait.query_sent();
    assert!(matches!(wait.query_answered(&pending), BindingAction::Wait));
}

#[test]
fn a_failed_event_refuses_unless_a_later_answer_says_bound() {
    for (lookup, is_refused) in [
        (seen(1, ArqState::BindStarted(ours())), true),
        (bound_to(1, 1), false),
    ] {
        let mut wait = BindingWait::new(&request(1, &[1]));
        wait.event(guest(1), arq(1), EventStatus::Failed);
        wait.query_sent();
        let next = wait.query_answered(&answer(&[(1, lookup)]));
        let refused = matches!(
            next,
            BindingAction::Refused(BindingRefusal::BindFailed { .. })
        );
        assert_eq!(refused, is_refused, "{next:?}");
    }
}

#[test]
fn when_time_is_up_the_missing_ones_are_named_or_the_service() {
    let mut wait = BindingWait::new(&request(1, &[1, 2]));
    let wire = Some("connection refused".to_owned());
    let late = wait.timed_out(Duration::from_secs(300), wire.clone());
    assert!(
        late.to_string()
            .contains("the accelerator service did not answer: connection refused"),
        "{late}"
    );
    wait.query_sent();
    let started = seen(2, ArqState::BindStarted(ours()));
    let next = wait.query_answered(&answer(&[(1, bound_to(1, 1)), (2, started)]));
    assert!(matches!(next, BindingAction::Wait));
    let late = wait.timed_out(Duration::from_secs(300), wire).to_string();
    assert_eq!(
        late,
        format!(
            "timed out after 300 s (arq_binding_timeout) waiting for accelerator requests to be bound: {} (BindStarted)",
            arq(2)
        )
    );
}

/// How a request ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Bound,
    Failed,
    Deleted,
}

/// One step of a test case. Request numbers are 1 to 3.
#[derive(Debug, Clone, Copy)]
enum WaitEvent {
    /// The request ends.
    Ends(u32),
    /// The service's event about the request arrives, if the request has ended.
    Event(u32),
    /// An event about another request or another guest.
    UnknownRequest(u32),
    /// A query is sent. Its answer is the current state.
    Asked,
    /// The answer to the last query arrives.
    Answered,
}

#[derive(Debug, Default)]
struct Story {
    ended: BTreeMap<u32, End>,
    in_progress: Option<ArqLookups>,
}

impl Story {
    fn truth(&self) -> ArqLookups {
        let all = (1..=3).map(|number| {
            let state = match self.ended.get(&number) {
                None => ArqState::BindStarted(ours()),
                Some(End::Bound) => ArqState::Bound(ours(), handle(number)),
                Some(End::Failed) => ArqState::BindFailed(ours()),
                Some(End::Deleted) => ArqState::Deleting,
            };
            (number, seen(number, state))
        });
        answer(&all.collect::<Vec<_>>())
    }

    /// `None` if the wait need not act.
    fn happens(
        &mut self,
        wait: &mut BindingWait,
        ends: &[End],
        what: WaitEvent,
    ) -> Option<BindingAction> {
        match what {
            WaitEvent::Ends(number) => {
                self.ended.insert(number, ends[number as usize - 1]);
            }
            WaitEvent::Event(number) => {
                let status = match self.ended.get(&number)? {
                    End::Bound => EventStatus::Completed,
                    End::Failed | End::Deleted => EventStatus::Failed,
                };
                wait.event(guest(1), arq(number), status);
            }
            WaitEvent::UnknownRequest(number) => {
                wait.event(guest(2), arq(number), EventStatus::Failed);
                wait.event(guest(1), arq(number + 50), EventStatus::Failed);
            }
            WaitEvent::Asked => {
                wait.query_sent();
                self.in_progress = Some(self.truth());
            }
            WaitEvent::Answered => return Some(wait.query_answered(&self.in_progress.take()?)),
        }
        None
    }
}

fn happening() -> impl Strategy<Value = WaitEvent> {
    prop_oneof![
        (1..4_u32).prop_map(WaitEvent::Ends),
        (1..4_u32).prop_map(WaitEvent::Event),
        (1..4_u32).prop_map(WaitEvent::UnknownRequest),
        Just(WaitEvent::Asked),
        Just(WaitEvent::Answered),
    ]
}

fn ends() -> impl Strategy<Value = Vec<End>> {
    let end = prop_oneof![6 => Just(End::Bound), 1 => Just(End::Failed), 1 => Just(End::Deleted)];
    proptest::collection::vec(end, 3)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// For any order: no devices before all requests are bound, no refusal before one has failed, and once all have
    /// ended and their events have arrived, the wait finishes without a timer.
    #[test]
    fn every_order_of_events_and_answers_ends_correctly(
        ends in ends(),
        story in proptest::collection::vec(happening(), 0..24),
        last in Just(vec![1_u32, 2, 3]).prop_shuffle(),
    ) {
        let mut wait = BindingWait::new(&request(1, &[1, 2, 3]));
        let mut world = Story::default();
        let all_bound = ends.iter().all(|end| *end == End::Bound);
        let mut verdict = None;
        let mut check = |world: &Story, next: Option<BindingAction>| match next {
            Some(BindingAction::Bound(devices)) => {
                assert!(all_bound && world.ended.len() == 3);
                assert_eq!(devices, bound(&[1, 2, 3]));
                verdict = Some(true);
            }
            Some(BindingAction::Refused(refused)) => {
                assert!(!all_bound, "{refused}");
                verdict = Some(false);
            }
            Some(BindingAction::Query | BindingAction::Wait) | None => {}
        };
        for what in story {
            let next = world.happens(&mut wait, &ends, what);
            check(&world, next);
        }
        // The remaining requests end, and their events arrive, in any order. A query may be running.
        for number in last {
            for what in [WaitEvent::Ends(number), WaitEvent::Event(number)] {
                let next = world.happens(&mut wait, &ends, what);
                check(&world, next);
            }
        }
        // From here on, only steps that the wait requests.
        let mut next = match world.happens(&mut wait, &ends, WaitEvent::Answered) {
            Some(next) => next,
            None => wait.query_failed(),
        };
        for _ in 0..3 {
            if matches!(next, BindingAction::Query) {
                world.happens(&mut wait, &ends, WaitEvent::Asked);
                next = world.happens(&mut wait, &ends, WaitEvent::Answered).unwrap();
            }
        }
        prop_assert!(!matches!(next, BindingAction::Query | BindingAction::Wait), "the wait does not finish: {next:?}");
        check(&world, Some(next));
        prop_assert_eq!(verdict, Some(all_bound));
    }
}
