//! All problems that the agent's health can report. `docs/guide/reference/admin-api.md` lists them; a test compares the
//! two.

use std::time::Duration;

use crate::health::{Severity, Warnable};

/// Long enough for the other service to restart.
const RESTART: Duration = Duration::from_secs(10);

/// Placement, or Keystone when the agent requests a token, does not answer.
pub static PLACEMENT_AWAY: Warnable = Warnable {
    code: "placement-away",
    severity: Severity::Error,
    title: "Placement does not answer",
    text: "{error}. The agent keeps retrying. Placement keeps the last reported state of this host",
    depends_on: &[],
    time_to_visible: RESTART,
};

/// Placement or Keystone answers and rejects the agent.
pub static PLACEMENT_REFUSES: Warnable = Warnable {
    code: "placement-refuses",
    severity: Severity::Error,
    title: "Placement refuses the agent",
    text: "{error}",
    depends_on: &[&PLACEMENT_AWAY],
    time_to_visible: Duration::ZERO,
};

pub static HYPERVISOR_AWAY: Warnable = Warnable {
    code: "hypervisor-away",
    severity: Severity::Error,
    title: "The hypervisor cannot be observed",
    text: "{error}. The agent keeps retrying. Placement keeps the last reported state of this host",
    depends_on: &[],
    time_to_visible: RESTART,
};

/// The hypervisor answers and reports no node.
pub static NO_NODE: Warnable = Warnable {
    code: "no-node",
    severity: Severity::Error,
    title: "The hypervisor reports no node",
    text: "the hypervisor answers and reports no node, so the agent has nothing to report to Placement",
    depends_on: &[&HYPERVISOR_AWAY],
    time_to_visible: RESTART,
};

/// A node that was reported before is missing.
pub static NODE_GONE: Warnable = Warnable {
    code: "node-gone",
    severity: Severity::Warning,
    title: "A node is missing",
    text: "the hypervisor no longer reports node {subject}; its resource provider stays in Placement, and guests may still \
           be scheduled to it",
    depends_on: &[&HYPERVISOR_AWAY, &NO_NODE],
    time_to_visible: RESTART,
};

pub static IDENTITY: Warnable = Warnable {
    code: "identity",
    severity: Severity::Error,
    title: "A node cannot be identified",
    text: "{error}",
    depends_on: &[],
    time_to_visible: Duration::ZERO,
};

/// The driver models the machine differently: the agent exits and reshapes the provider tree at its next start.
pub static RESHAPE_NEEDED: Warnable = Warnable {
    code: "reshape-needed",
    severity: Severity::Error,
    title: "The provider tree must be reshaped",
    text: "the provider tree of {subject} must be reshaped, which is only possible at startup: the agent exits and must be restarted",
    depends_on: &[],
    time_to_visible: Duration::ZERO,
};

/// No valid reshape exists, or Placement refused it.
pub static RESHAPE_FAILED: Warnable = Warnable {
    code: "reshape-failed",
    severity: Severity::Error,
    title: "A reshape was refused",
    text: "{error}",
    depends_on: &[],
    time_to_visible: Duration::ZERO,
};

/// Units are in use and have no new provider, so they are held on their old one.
pub static HELD_UNITS: Warnable = Warnable {
    code: "held-units",
    severity: Severity::Warning,
    title: "Used units have no provider of their own",
    text: "{units}: their guest is unknown or unreadable, or their device is missing. Nothing else can be claimed there until \
           the allocations of the consumer are removed",
    depends_on: &[],
    time_to_visible: Duration::ZERO,
};

pub static UNREADABLE_GUESTS: Warnable = Warnable {
    code: "unreadable-guests",
    severity: Severity::Warning,
    title: "Guests cannot be read",
    text: "{guests} on {subject}: Placement keeps the allocations of these guests, also in a reshape; all other guests are reported",
    depends_on: &[&HYPERVISOR_AWAY],
    time_to_visible: Duration::ZERO,
};

/// Guests whose operation can neither be finished nor undone at present.
pub static GUESTS_HELD: Warnable = Warnable {
    code: "guests-held",
    severity: Severity::Error,
    title: "Guests are blocked",
    text: "{guests}. Blocked guests keep their devices, and the agent retries every reconcile_interval",
    depends_on: &[&HYPERVISOR_AWAY],
    time_to_visible: Duration::ZERO,
};

/// The last report of the host state failed.
pub static SCHEDULER_NOT_INFORMED: Warnable = Warnable {
    code: "scheduler-not-told",
    severity: Severity::Error,
    title: "The scheduler does not know this host's state",
    text: "{error}. The guests of this host keep running. The scheduler selects no host that it considers down, so this host gets no new guests until a report succeeds; the agent keeps retrying",
    depends_on: &[],
    time_to_visible: RESTART,
};

/// Devices that are not assigned to guests in their current state.
pub static DEVICES_UNFIT: Warnable = Warnable {
    code: "devices-unfit",
    severity: Severity::Warning,
    title: "Devices cannot be assigned to guests",
    text: "{devices} on {subject}: these devices are not assigned to other guests until they are healthy or released; see berth device list",
    depends_on: &[&HYPERVISOR_AWAY],
    time_to_visible: Duration::ZERO,
};

pub static STATE_FILES: Warnable = Warnable {
    code: "state-files",
    severity: Severity::Error,
    title: "A state file cannot be used",
    text: "{error}",
    depends_on: &[],
    time_to_visible: Duration::ZERO,
};

/// The configuration that SIGHUP loaded is invalid; the previous one stays in effect.
pub static CONFIG_RELOAD_FAILED: Warnable = Warnable {
    code: "config-reload-failed",
    severity: Severity::Warning,
    title: "The new configuration is invalid",
    text: "the previous configuration stays in effect: {error}",
    depends_on: &[],
    time_to_visible: Duration::ZERO,
};

/// The driver's stream of host events ended.
pub static HOST_EVENTS_LOST: Warnable = Warnable {
    code: "host-events-lost",
    severity: Severity::Warning,
    title: "Host events are lost",
    text: "the driver's events ended; until a restart, changes of devices and guests are found only by the periodic cycle",
    depends_on: &[&HYPERVISOR_AWAY],
    time_to_visible: RESTART,
};

/// A cycle, an observation of the hypervisor or the access to a state file hangs.
pub static NO_PROGRESS: Warnable = Warnable {
    code: "no-progress",
    severity: Severity::Error,
    title: "No progress is made",
    text: "{subject} has made no progress for {seconds} s; the agent no longer notifies the watchdog of the service manager",
    depends_on: &[],
    time_to_visible: Duration::ZERO,
};

pub static NOT_IN_SYNC: Warnable = Warnable {
    code: "not-in-sync",
    severity: Severity::Error,
    title: "Placement is out of date for a node",
    text: "the last cycle over {subject} failed: {error}",
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
    &SCHEDULER_NOT_INFORMED,
    &DEVICES_UNFIT,
    &STATE_FILES,
    &CONFIG_RELOAD_FAILED,
    &HOST_EVENTS_LOST,
    &NO_PROGRESS,
    &NOT_IN_SYNC,
];
