//! Table tests of [`ServerState`] and [`Action`].

use super::*;

fn observation(status: &str, power: &str) -> Option<GuestObservation> {
    Some(GuestObservation {
        status: status.parse().unwrap(),
        power: power.parse().ok(),
    })
}

fn shown(facts: &ServerFacts) -> (&'static str, &'static str, Option<&'static str>, u8) {
    let state = ServerState::of(facts);
    (
        state.status(),
        state.vm_state.as_str(),
        state.task_state.map(TaskState::as_str),
        state.power_number(),
    )
}

fn facts(
    boot: BootPhase,
    current: Option<GuestObservation>,
    task: Option<TaskState>,
) -> ServerFacts {
    ServerFacts {
        boot,
        current,
        last_report: None,
        task,
    }
}

#[test]
fn until_it_runs_a_server_is_what_the_conductor_says() {
    for (boot, expected) in [
        (
            BootPhase::Scheduling,
            ("BUILD", "building", Some("scheduling"), 0),
        ),
        (
            BootPhase::Spawning,
            ("BUILD", "building", Some("spawning"), 0),
        ),
        (BootPhase::Failed, ("ERROR", "error", None, 0)),
        (
            BootPhase::Deleting { failed: false },
            ("BUILD", "building", Some("deleting"), 0),
        ),
        (
            BootPhase::Deleting { failed: true },
            ("ERROR", "error", Some("deleting"), 0),
        ),
    ] {
        assert_eq!(shown(&facts(boot, None, None)), expected, "{boot:?}");
        // Neither a task nor the agent's report of an earlier attempt changes that.
        let task = Some(TaskState::PoweringOff);
        assert_eq!(shown(&facts(boot, None, task)), expected, "{boot:?}");
    }
    let late = facts(BootPhase::Failed, observation("active", "running"), None);
    assert_eq!(shown(&late), ("ERROR", "error", None, 0));
}

#[test]
fn then_it_is_what_its_agent_says() {
    for (status, power, expected) in [
        ("active", "running", ("ACTIVE", "active", None, 1)),
        ("active", "shut off", ("ACTIVE", "active", None, 4)),
        ("active", "crashed", ("ACTIVE", "active", None, 6)),
        ("active", "", ("ACTIVE", "active", None, 0)),
        ("stopped", "shut off", ("SHUTOFF", "stopped", None, 4)),
        ("paused", "paused", ("PAUSED", "paused", None, 3)),
        ("rescued", "running", ("RESCUE", "rescued", None, 1)),
        (
            "rescuing",
            "shut off",
            ("ACTIVE", "active", Some("rescuing"), 4),
        ),
        (
            "unrescuing",
            "shut off",
            ("RESCUE", "rescued", Some("unrescuing"), 4),
        ),
        (
            "rebuilding",
            "shut off",
            ("REBUILD", "active", Some("rebuilding"), 4),
        ),
        ("building", "", ("BUILD", "building", Some("spawning"), 0)),
        ("failing", "", ("ERROR", "error", None, 0)),
        ("failed", "shut off", ("ERROR", "error", None, 4)),
        (
            "deleting",
            "running",
            ("ACTIVE", "active", Some("deleting"), 1),
        ),
    ] {
        let facts = facts(BootPhase::Active, observation(status, power), None);
        assert_eq!(shown(&facts), expected, "{status}, {power}");
    }
}

#[test]
fn a_requested_action_is_shown_while_it_runs() {
    for (status, task, expected) in [
        ("stopped", TaskState::PoweringOn, ("SHUTOFF", "powering-on")),
        ("active", TaskState::PoweringOff, ("ACTIVE", "powering-off")),
        ("active", TaskState::Rebooting, ("REBOOT", "rebooting")),
        (
            "active",
            TaskState::RebootingHard,
            ("HARD_REBOOT", "rebooting_hard"),
        ),
        (
            "paused",
            TaskState::RebootingHard,
            ("PAUSED", "rebooting_hard"),
        ),
        ("active", TaskState::Pausing, ("ACTIVE", "pausing")),
        ("paused", TaskState::Unpausing, ("PAUSED", "unpausing")),
        ("failed", TaskState::Rebuilding, ("REBUILD", "rebuilding")),
        ("stopped", TaskState::Rescuing, ("SHUTOFF", "rescuing")),
        // The agent defines the guest again.
        (
            "building",
            TaskState::PoweringOn,
            ("SHUTOFF", "powering-on"),
        ),
        ("building", TaskState::Rebooting, ("REBOOT", "rebooting")),
        (
            "building",
            TaskState::RebootingHard,
            ("HARD_REBOOT", "rebooting_hard"),
        ),
        ("building", TaskState::Rescuing, ("ACTIVE", "rescuing")),
        ("building", TaskState::Unrescuing, ("RESCUE", "unrescuing")),
        ("building", TaskState::Rebuilding, ("REBUILD", "rebuilding")),
    ] {
        let state = ServerState::of(&facts(
            BootPhase::Active,
            observation(status, ""),
            Some(task),
        ));
        let task = state.task_state.map_or("", TaskState::as_str);
        assert_eq!((state.status(), task), expected, "{status}");
    }
}

#[test]
fn a_new_state_is_shown_once_the_next_action_is_possible() {
    for (done, task, status) in [
        ("active", TaskState::PoweringOn, "SHUTOFF"),
        ("stopped", TaskState::PoweringOff, "ACTIVE"),
        ("paused", TaskState::Pausing, "ACTIVE"),
        ("active", TaskState::Unpausing, "PAUSED"),
        ("rescued", TaskState::Rescuing, "ACTIVE"),
        ("active", TaskState::Unrescuing, "RESCUE"),
    ] {
        let state = ServerState::of(&facts(BootPhase::Active, observation(done, ""), Some(task)));
        assert_eq!((state.status(), state.task_state), (status, Some(task)));
    }
}

#[test]
fn of_an_agent_that_does_not_answer_the_last_word_counts() {
    let away = ServerFacts {
        last_report: observation("stopped", "shut off"),
        ..facts(BootPhase::Active, None, None)
    };
    assert_eq!(shown(&away), ("SHUTOFF", "stopped", None, 4));
    let back = ServerFacts {
        current: observation("active", "running"),
        ..away
    };
    assert_eq!(shown(&back), ("ACTIVE", "active", None, 1));
    let never = facts(BootPhase::Active, None, None);
    assert_eq!(shown(&never), ("ACTIVE", "active", None, 0));
    let going = ServerFacts {
        boot: BootPhase::Deleting { failed: false },
        ..away
    };
    assert_eq!(shown(&going), ("SHUTOFF", "stopped", Some("deleting"), 4));
}

#[test]
fn a_word_of_a_newer_agent_is_none() {
    assert_eq!("hibernated".parse::<GuestStatus>(), Err(UnknownWord));
    assert!("on fire".parse::<PowerState>().is_err());
}

#[test]
fn an_action_is_taken_in_the_states_that_nova_takes_it_in() {
    use Action::*;
    let any = [
        Start,
        Stop,
        RebootSoft,
        RebootHard,
        Pause,
        Unpause,
        Rescue,
        Unrescue,
        Rebuild,
        AttachInterface,
        DetachInterface,
    ];
    assert_eq!(any, Action::ALL);
    for (status, taken) in [
        (
            "active",
            &[
                Stop,
                RebootSoft,
                RebootHard,
                Pause,
                Rescue,
                Rebuild,
                AttachInterface,
                DetachInterface,
            ][..],
        ),
        (
            "stopped",
            &[
                Start,
                RebootHard,
                Rescue,
                Rebuild,
                AttachInterface,
                DetachInterface,
            ],
        ),
        (
            "paused",
            &[RebootHard, Unpause, AttachInterface, DetachInterface],
        ),
        ("rescued", &[Unrescue]),
        ("failed", &[Stop, RebootHard, Rescue, Rebuild]),
        ("building", &[]),
    ] {
        let state = ServerState::of(&facts(BootPhase::Active, observation(status, ""), None));
        let allowed: Vec<Action> = any
            .into_iter()
            .filter(|action| action.check("i", &state).is_ok())
            .collect();
        assert_eq!(allowed, taken, "{status}");
    }
}

#[test]
fn while_something_is_done_nothing_else_is_begun_but_what_helps() {
    for action in Action::ALL {
        for status in ["active", "stopped", "paused", "rescued", "failed"] {
            let free = ServerState::of(&facts(BootPhase::Active, observation(status, ""), None));
            let busy = ServerState {
                task_state: Some(TaskState::Rebooting),
                ..free
            };
            let helps = action == Action::RebootHard && action.check("i", &free).is_ok();
            assert_eq!(
                action.check("i", &busy).is_ok(),
                helps,
                "{action:?}, {status}"
            );
        }
    }
}

#[test]
fn a_refusal_is_in_novas_words() {
    let state = ServerState::of(&facts(BootPhase::Active, observation("stopped", ""), None));
    let refused = Action::Stop.check("i-1", &state).unwrap_err().to_string();
    assert_eq!(
        refused,
        "Cannot 'stop' instance i-1 while it is in vm_state stopped"
    );
    let task = Some(TaskState::PoweringOn);
    let state = ServerState::of(&facts(BootPhase::Active, observation("stopped", ""), task));
    let refused = Action::Start.check("i-1", &state).unwrap_err().to_string();
    assert_eq!(
        refused,
        "Cannot 'start' instance i-1 while it is in task_state powering-on"
    );
}
