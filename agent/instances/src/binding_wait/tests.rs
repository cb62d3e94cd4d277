//! The wait, over every order of events and answers.

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

fn seen(number: u32, state: ArqState) -> SeenArq {
    SeenArq::There(Arq {
        uuid: arq(number),
        state,
        device_profile: DeviceProfileName::new("dp").unwrap(),
        group_id: 0,
        project_id: "project".to_owned(),
    })
}

fn bound_to(number: u32, device: u32) -> SeenArq {
    seen(number, ArqState::Bound(ours(), handle(device)))
}

fn answer(all: &[(u32, SeenArq)]) -> ArqAnswer {
    let all = all
        .iter()
        .map(|(number, seen)| (arq(*number), seen.clone()));
    all.collect()
}

/// What comes of one answer about requests 1 and 2, of which 1 is well.
fn told(second: SeenArq) -> Next {
    let mut wait = BindingWait::new(&request(1, &[1, 2]));
    wait.asked();
    wait.answered(&answer(&[(1, bound_to(1, 1)), (2, second)]))
}

#[test]
fn a_guest_gets_its_devices_when_all_are_bound() {
    let Next::Bound(devices) = told(bound_to(2, 2)) else {
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
        assert!(matches!(told(seen(2, state)), Next::Wait));
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
        (SeenArq::Gone, "does not exist"),
        (SeenArq::Unreadable(odd), "\"USB\" is unknown"),
        (
            seen(2, ArqState::Bound(ours(), fake)),
            "TEST_PCI 0000:0c:00.0",
        ),
        (bound_to(2, 1), "one device for two"),
        (
            seen(2, ArqState::Bound(binding(1, "compute2"), handle(2))),
            "on host compute2, and this is compute1",
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
        let Next::Refused(refused) = told(second) else {
            panic!("{sentence}: refused");
        };
        let said = refused.to_string();
        assert!(said.contains(sentence), "{said}");
        assert!(
            said.contains("PCI function") || said.contains(&arq(2).to_string()),
            "{said}"
        );
    }
}

#[test]
fn a_device_that_nobody_asked_for_refuses_the_guest() {
    let mut wait = BindingWait::new(&request(1, &[1]));
    wait.asked();
    let next = wait.answered(&answer(&[(1, bound_to(1, 1)), (2, bound_to(2, 2))]));
    assert!(matches!(next, Next::Refused(BindRefused::Unasked { arq: a }) if a == arq(2)));
}

#[test]
fn strangers_events_ask_nothing_and_ours_ask_once_however_often_they_come() {
    let mut wait = BindingWait::new(&request(1, &[1]));
    let pending = answer(&[(1, seen(1, ArqState::BindStarted(ours())))]);
    wait.asked();
    let done = EventStatus::Completed;
    assert_eq!(wait.event(guest(2), arq(1), done), Heard::Stranger);
    assert_eq!(wait.event(guest(1), arq(9), done), Heard::Stranger);
    assert!(matches!(wait.answered(&pending), Next::Wait));
    wait.asked();
    for _ in 0..2 {
        assert_eq!(wait.event(guest(1), arq(1), done), Heard::Ours);
    }
    assert!(matches!(wait.answered(&pending), Next::Ask));
    wait.asked();
    assert!(matches!(wait.answered(&pending), Next::Wait));
}

#[test]
fn a_failed_event_refuses_unless_the_service_says_bound_afterwards() {
    for (told, is_refused) in [
        (seen(1, ArqState::BindStarted(ours())), true),
        (bound_to(1, 1), false),
    ] {
        let mut wait = BindingWait::new(&request(1, &[1]));
        wait.event(guest(1), arq(1), EventStatus::Failed);
        wait.asked();
        let next = wait.answered(&answer(&[(1, told)]));
        let refused = matches!(next, Next::Refused(BindRefused::BindFailed { .. }));
        assert_eq!(refused, is_refused, "{next:?}");
    }
}

#[test]
fn when_time_is_up_the_missing_ones_are_named_or_the_service() {
    let mut wait = BindingWait::new(&request(1, &[1, 2]));
    let wire = Some("connection refused".to_owned());
    let late = wait.late(Duration::from_secs(300), wire.clone());
    assert!(
        late.to_string()
            .contains("has not answered: connection refused"),
        "{late}"
    );
    wait.asked();
    let started = seen(2, ArqState::BindStarted(ours()));
    let next = wait.answered(&answer(&[(1, bound_to(1, 1)), (2, started)]));
    assert!(matches!(next, Next::Wait));
    let late = wait.late(Duration::from_secs(300), wire).to_string();
    assert_eq!(
        late,
        format!(
            "after 300 s (arq_binding_timeout) accelerator requests are not bound: {} (BindStarted)",
            arq(2)
        )
    );
}

/// How a request ends in a story.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Bound,
    Failed,
    Deleted,
}

/// One thing that happens. Request numbers are 1 to 3.
#[derive(Debug, Clone, Copy)]
enum Happening {
    /// The request comes to its end.
    Ends(u32),
    /// The service's event about it arrives, if it has ended.
    Event(u32),
    /// An event about somebody else's request, or another guest.
    Stranger(u32),
    /// A question is sent: its answer is what is true now.
    Asked,
    /// The answer to the last question arrives.
    Answered,
}

#[derive(Debug, Default)]
struct Story {
    ended: BTreeMap<u32, End>,
    under_way: Option<ArqAnswer>,
}

impl Story {
    fn truth(&self) -> ArqAnswer {
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

    /// None: nothing that the wait would act on.
    fn happens(&mut self, wait: &mut BindingWait, ends: &[End], what: Happening) -> Option<Next> {
        match what {
            Happening::Ends(number) => {
                self.ended.insert(number, ends[number as usize - 1]);
            }
            Happening::Event(number) => {
                let status = match self.ended.get(&number)? {
                    End::Bound => EventStatus::Completed,
                    End::Failed | End::Deleted => EventStatus::Failed,
                };
                wait.event(guest(1), arq(number), status);
            }
            Happening::Stranger(number) => {
                wait.event(guest(2), arq(number), EventStatus::Failed);
                wait.event(guest(1), arq(number + 50), EventStatus::Failed);
            }
            Happening::Asked => {
                wait.asked();
                self.under_way = Some(self.truth());
            }
            Happening::Answered => return Some(wait.answered(&self.under_way.take()?)),
        }
        None
    }
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        (1..4_u32).prop_map(Happening::Ends),
        (1..4_u32).prop_map(Happening::Event),
        (1..4_u32).prop_map(Happening::Stranger),
        Just(Happening::Asked),
        Just(Happening::Answered),
    ]
}

fn ends() -> impl Strategy<Value = Vec<End>> {
    let end = prop_oneof![6 => Just(End::Bound), 1 => Just(End::Failed), 1 => Just(End::Deleted)];
    proptest::collection::vec(end, 3)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever happens in whatever order: nothing is given before all are bound, nothing is refused while none has failed,
    /// and once all ended and were told of, the wait needs no timer to come to the right end.
    #[test]
    fn every_order_of_events_and_answers_comes_to_the_right_end(
        ends in ends(),
        story in proptest::collection::vec(happening(), 0..24),
        last in Just(vec![1_u32, 2, 3]).prop_shuffle(),
    ) {
        let mut wait = BindingWait::new(&request(1, &[1, 2, 3]));
        let mut world = Story::default();
        let all_bound = ends.iter().all(|end| *end == End::Bound);
        let mut verdict = None;
        let mut check = |world: &Story, next: Option<Next>| match next {
            Some(Next::Bound(devices)) => {
                assert!(all_bound && world.ended.len() == 3);
                assert_eq!(devices, bound(&[1, 2, 3]));
                verdict = Some(true);
            }
            Some(Next::Refused(refused)) => {
                assert!(!all_bound, "{refused}");
                verdict = Some(false);
            }
            Some(Next::Ask | Next::Wait) | None => {}
        };
        for what in story {
            let next = world.happens(&mut wait, &ends, what);
            check(&world, next);
        }
        // The rest ends, and is told of, in any order; a question may be under way.
        for number in last {
            for what in [Happening::Ends(number), Happening::Event(number)] {
                let next = world.happens(&mut wait, &ends, what);
                check(&world, next);
            }
        }
        // From here on only what the wait itself asks for.
        let mut next = match world.happens(&mut wait, &ends, Happening::Answered) {
            Some(next) => next,
            None => wait.unanswered(),
        };
        for _ in 0..3 {
            if matches!(next, Next::Ask) {
                world.happens(&mut wait, &ends, Happening::Asked);
                next = world.happens(&mut wait, &ends, Happening::Answered).unwrap();
            }
        }
        prop_assert!(!matches!(next, Next::Ask | Next::Wait), "it stands still: {next:?}");
        check(&world, Some(next));
        prop_assert_eq!(verdict, Some(all_bound));
    }
}
