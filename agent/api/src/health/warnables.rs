//! What can be wrong with an agent. `docs/guide/reference/admin-api.md` lists them; a test compares.

use std::time::Duration;

use crate::health::{Severity, Warnable};

/// Long enough for a restart of the service on the other side.
const RESTART: Duration = Duration::from_secs(10);

/// Placement (or Keystone on the way to it) does not answer.
pub static PLACEMENT_AWAY: Warnable = Warnable {
    code: "placement-away",
    severity: Severity::Error,
    title: "Placement does not answer",
    text: "{error}. What Placement has of this host stays as it was; the agent keeps trying",
    depends_on: &[],
    time_to_visible: RESTART,
};

/// Placement or Keystone answers, but will not have us.
pub static PLACEMENT_REFUSES: Warnable = Warnable {
    code: "placement-refuses",
    severity: Severity::Error,
    title: "Placement refuses the agent",
    text: "{error}",
    depends_on: &[&PLACEMENT_AWAY],
    time_to_visible: Duration::ZERO,
};

/// The hypervisor cannot be observed.
pub static HYPERVISOR_AWAY: Warnable = Warnable {
    code: "hypervisor-away",
    severity: Severity::Error,
    title: "The hypervisor cannot be observed",
    text: "{error}. What Placement has of this host stays as it was; the agent keeps trying",
    depends_on: &[],
    time_to_visible: RESTART,
};

/// The hypervisor answers, but has no node.
pub static NO_NODE: Warnable = Warnable {
    code: "no-node",
    severity: Severity::Error,
    title: "The hypervisor shows no node",
    text: "the hypervisor answers but shows no node, so there is nothing to report",
    depends_on: &[&HYPERVISOR_AWAY],
    time_to_visible: RESTART,
};

/// A node was there and is no more.
pub static NODE_GONE: Warnable = Warnable {
    code: "node-gone",
    severity: Severity::Warning,
    title: "A node is no longer shown",
    text: "the hypervisor no longer shows node {subject}; its resource provider stays in Placement as it is, and guests may \
           still be scheduled to it",
    depends_on: &[&HYPERVISOR_AWAY, &NO_NODE],
    time_to_visible: RESTART,
};

/// The identity of the node is unknown.
pub static IDENTITY: Warnable = Warnable {
    code: "identity",
    severity: Severity::Error,
    title: "A node's identity is unclear",
    text: "{error}",
    depends_on: &[],
    time_to_visible: Duration::ZERO,
};

/// The driver models the machine differently; the agent ends and reshapes at its next start.
pub static RESHAPE_NEEDED: Warnable = Warnable {
    code: "reshape-needed",
    severity: Severity::Error,
    title: "The provider tree must be reshaped",
    text: "the provider tree of {subject} must be reshaped, which only a start may do: the agent ends and is started again",
    depends_on: &[],
    time_to_visible: Duration::ZERO,
};

/// A reshape was not lawful or was refused.
pub static RESHAPE_FAILED: Warnable = Warnable {
    code: "reshape-failed",
    severity: Severity::Error,
    title: "A reshape was refused",
    text: "{error}",
    depends_on: &[],
    time_to_visible: Duration::ZERO,
};

/// Units have no home and wait on their old provider.
pub static HELD_UNITS: Warnable = Warnable {
    code: "held-units",
    severity: Severity::Warning,
    title: "Units are held without a home",
    text: "{units}: no guest can be found or read for them or their device is gone, so nothing new can be claimed there; they go \
           when their consumer's allocations are removed",
    depends_on: &[],
    time_to_visible: Duration::ZERO,
};

/// The hypervisor's description of some guests cannot be read.
pub static UNREADABLE_GUESTS: Warnable = Warnable {
    code: "unreadable-guests",
    severity: Severity::Warning,
    title: "Guests cannot be read",
    text: "{guests} on {subject}: what they hold in Placement stays where it is, also in a reshape; all else is reported",
    depends_on: &[&HYPERVISOR_AWAY],
    time_to_visible: Duration::ZERO,
};

/// Guests that are neither where they should be nor undone.
pub static GUESTS_HELD: Warnable = Warnable {
    code: "guests-held",
    severity: Severity::Error,
    title: "Guests stand still",
    text: "{guests}. They keep their devices and are tried again every reconcile_interval",
    depends_on: &[&HYPERVISOR_AWAY],
    time_to_visible: Duration::ZERO,
};

/// The scheduler does not know how this host is.
pub static SCHEDULER_NOT_TOLD: Warnable = Warnable {
    code: "scheduler-not-told",
    severity: Severity::Error,
    title: "The scheduler does not know this host's state",
    text: "{error}. Guests here run on, and no new ones come once the scheduler takes the host for down; the agent keeps trying",
    depends_on: &[],
    time_to_visible: RESTART,
};

/// Devices that nobody gets as they are.
pub static DEVICES_UNFIT: Warnable = Warnable {
    code: "devices-unfit",
    severity: Severity::Warning,
    title: "Devices are not fit for guests",
    text: "{devices} on {subject}: nobody new gets them until they are well or released; see berth device list",
    depends_on: &[&HYPERVISOR_AWAY],
    time_to_visible: Duration::ZERO,
};

/// A state file cannot be read or written.
pub static STATE_FILES: Warnable = Warnable {
    code: "state-files",
    severity: Severity::Error,
    title: "A state file cannot be used",
    text: "{error}",
    depends_on: &[],
    time_to_visible: Duration::ZERO,
};

/// SIGHUP brought a configuration that is refused; the one before stays in force.
pub static CONFIG_RELOAD_FAILED: Warnable = Warnable {
    code: "config-reload-failed",
    severity: Severity::Warning,
    title: "The new configuration is refused",
    text: "the configuration before stays in force: {error}",
    depends_on: &[],
    time_to_visible: Duration::ZERO,
};

/// The driver's stream of events ended.
pub static HOST_EVENTS_LOST: Warnable = Warnable {
    code: "host-events-lost",
    severity: Severity::Warning,
    title: "The host's events no longer arrive",
    text: "the driver's events ended; changes of devices and guests are seen by the periodic pass only, until a restart",
    depends_on: &[&HYPERVISOR_AWAY],
    time_to_visible: RESTART,
};

/// A pass, a look at the hypervisor or a state file neither ends nor goes on.
pub static NO_PROGRESS: Warnable = Warnable {
    code: "no-progress",
    severity: Severity::Error,
    title: "No progress is made",
    text: "{subject} has given no sign of life for {seconds} s; the watchdog is no longer told that all is well",
    depends_on: &[],
    time_to_visible: Duration::ZERO,
};

/// The last pass over the node failed.
pub static NOT_IN_SYNC: Warnable = Warnable {
    code: "not-in-sync",
    severity: Severity::Error,
    title: "Placement does not have the node's truth",
    text: "the last pass over {subject} failed: {error}",
    depends_on: &[
        &PLACEMENT_AWAY,
        &PLACEMENT_REFUSES,
        &HYPERVISOR_AWAY,
        &NO_NODE,
        &NODE_GONE,
        &IDENTITY,
        &RESHAPE_NEEDED,
        &RESHAPE_FAILED,
        &NO_PROGRESS,
    ],
    time_to_visible: RESTART,
};

pub static WARNABLES: &[&Warnable] = &[
    &PLACEMENT_AWAY,
    &PLACEMENT_REFUSES,
    &HYPERVISOR_AWAY,
    &NO_NODE,
    &NODE_GONE,
    &IDENTITY,
    &RESHAPE_NEEDED,
    &RESHAPE_FAILED,
    &HELD_UNITS,
    &UNREADABLE_GUESTS,
    &GUESTS_HELD,
    &SCHEDULER_NOT_TOLD,
    &DEVICES_UNFIT,
    &STATE_FILES,
    &CONFIG_RELOAD_FAILED,
    &HOST_EVENTS_LOST,
    &NO_PROGRESS,
    &NOT_IN_SYNC,
];
