//! Checks of Placement: reachable, new enough, our login and role, its clock.

use std::time::Duration;

use super::helpers::{failure, warning};
use crate::commands::doctor::finding::{CheckContext, CheckResult, DoctorCheck};
use crate::commands::doctor::placement_observation::{Answers, PlacementObservation};

/// The minor version N of 1.N that a reshape needs.
const NEEDED: u16 = 30;
/// The tolerated clock skew: more breaks tokens and confuses logs.
const SKEW: Duration = Duration::from_secs(30);

pub(super) const CHECKS: &[DoctorCheck] = &[
    warning(
        "placement-configured",
        "there is a Placement for the agent",
        &["config-valid"],
        configured,
    ),
    failure(
        "placement-login",
        "the login for Placement works",
        &["config-valid", "placement-configured"],
        login,
    ),
    failure(
        "placement-reachable",
        "Placement answers",
        &["config-valid", "placement-login"],
        reachable,
    ),
    failure(
        "placement-version",
        "Placement is new enough",
        &["placement-reachable"],
        version,
    ),
    failure(
        "placement-read",
        "Placement accepts our token",
        &["placement-version"],
        read,
    ),
    failure(
        "placement-role",
        "Placement lets us reshape",
        &["placement-read"],
        role,
    ),
    warning(
        "clock",
        "this clock agrees with Placement's",
        &["placement-reachable"],
        clock,
    ),
];

fn configured(host: &CheckContext<'_>) -> CheckResult {
    match host.placement {
        PlacementObservation::NotAsked(why) => CheckResult::not_asked(why.clone()),
        PlacementObservation::NotConfigured { socket } => CheckResult::bad(
            format!("[placement] auth_type is not set, and {socket} does not exist"),
            "set auth_type and auth_url in [placement] before berth agent starts; berth up needs neither",
        ),
        _ => CheckResult::good("[placement], or a service on this host"),
    }
}

fn login(host: &CheckContext<'_>) -> CheckResult {
    match host.placement {
        PlacementObservation::NotAsked(why) => CheckResult::not_asked(why.clone()),
        PlacementObservation::NotConfigured { .. } => CheckResult::not_asked("not configured"),
        PlacementObservation::NoLogin { error } => CheckResult::bad(
            error.clone(),
            "correct [placement] in berth.toml; berth config show --set",
        ),
        PlacementObservation::Away { .. } | PlacementObservation::Answered(_) => {
            CheckResult::good("the login works or none is needed")
        }
    }
}

fn answers(host: &CheckContext<'_>, judge: impl FnOnce(&Answers) -> CheckResult) -> CheckResult {
    match host.placement {
        PlacementObservation::Answered(answers) => judge(answers),
        PlacementObservation::NotAsked(why) => CheckResult::not_asked(why.clone()),
        PlacementObservation::NotConfigured { .. }
        | PlacementObservation::NoLogin { .. }
        | PlacementObservation::Away { .. } => CheckResult::not_asked("Placement does not answer"),
    }
}

fn reachable(host: &CheckContext<'_>) -> CheckResult {
    match host.placement {
        PlacementObservation::Away { error } => CheckResult::bad(
            error.clone(),
            "openstack endpoint list --service placement; curl -v the endpoint's root",
        ),
        _ => answers(host, |answers| CheckResult::good(answers.endpoint.clone())),
    }
}

fn version(host: &CheckContext<'_>) -> CheckResult {
    answers(host, |answers| match answers.highest_minor {
        Some(minor) if minor >= NEEDED => CheckResult::good(format!("max_version 1.{minor}")),
        Some(minor) => CheckResult::bad(
            format!("max_version 1.{minor}, 1.{NEEDED} is needed"),
            "upgrade Placement to Rocky or later",
        ),
        None => CheckResult::bad(
            format!("{} gives no version document", answers.endpoint),
            "check whether the endpoint is Placement's: openstack endpoint list --service placement",
        ),
    })
}

fn read(host: &CheckContext<'_>) -> CheckResult {
    answers(host, |answers| match answers.read_status {
        200..=299 => CheckResult::good(format!("GET /resource_classes: {}", answers.read_status)),
        401 => CheckResult::bad(
            "GET /resource_classes: 401",
            "correct user and secret in [placement]",
        ),
        403 => CheckResult::bad(
            "GET /resource_classes: 403",
            "openstack role add --user USER --project PROJECT service; before Placement 2023.2 its policy.yaml must admit role:service",
        ),
        status => CheckResult::bad(
            format!("GET /resource_classes: {status}"),
            "read Placement's log",
        ),
    })
}

fn role(host: &CheckContext<'_>) -> CheckResult {
    answers(host, |answers| match answers.reshaper_status {
        // An empty body is refused as such only after the policy allowed the request.
        400 => CheckResult::good("an empty POST /reshaper is refused as empty: 400"),
        403 => CheckResult::bad(
            "POST /reshaper: 403, the role is missing",
            "openstack role add --user USER --project PROJECT service",
        ),
        status => CheckResult::bad(format!("POST /reshaper: {status}"), "read Placement's log"),
    })
}

fn clock(host: &CheckContext<'_>) -> CheckResult {
    answers(host, |answers| {
        let Some(date) = answers.date else {
            return CheckResult::not_asked("Placement sends no date");
        };
        let now = host.facts.now();
        let skew = now
            .duration_since(date)
            .or_else(|_| date.duration_since(now))
            .unwrap_or_default();
        let evidence = format!("the clocks differ by {} s", skew.as_secs());
        if skew <= SKEW {
            CheckResult::good(evidence)
        } else {
            CheckResult::bad(evidence, "timedatectl set-ntp true; chronyc tracking")
        }
    })
}
