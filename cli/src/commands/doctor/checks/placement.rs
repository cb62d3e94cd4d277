//! Placement: reachable, new enough, our login and role, its clock.

use std::time::Duration;

use super::helpers::{failure, warning};
use crate::commands::doctor::finding::{Check, Host, Seen};
use crate::commands::doctor::placement_seen::{Answers, PlacementSeen};

/// N of the microversion 1.N that a reshape needs.
const NEEDED: u16 = 30;
/// Tokens and logs suffer from more.
const SKEW: Duration = Duration::from_secs(30);

pub(super) const CHECKS: &[Check] = &[
    failure(
        "placement-login",
        "the login for Placement works",
        &["config-valid"],
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
        &["placement-reachable"],
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

fn login(host: &Host<'_>) -> Seen {
    match host.placement {
        PlacementSeen::NotAsked(why) => Seen::not_asked(why.clone()),
        PlacementSeen::NoLogin { error } => Seen::bad(
            error.clone(),
            "correct [placement] in berth.toml; berth config show --set",
        ),
        PlacementSeen::Away { .. } | PlacementSeen::Answered(_) => {
            Seen::good("the login works or none is needed")
        }
    }
}

fn answers(host: &Host<'_>, judge: impl FnOnce(&Answers) -> Seen) -> Seen {
    match host.placement {
        PlacementSeen::Answered(answers) => judge(answers),
        PlacementSeen::NotAsked(why) => Seen::not_asked(why.clone()),
        PlacementSeen::NoLogin { .. } | PlacementSeen::Away { .. } => {
            Seen::not_asked("Placement does not answer")
        }
    }
}

fn reachable(host: &Host<'_>) -> Seen {
    match host.placement {
        PlacementSeen::Away { error } => Seen::bad(
            error.clone(),
            "openstack endpoint list --service placement; curl -v the endpoint's root",
        ),
        _ => answers(host, |answers| Seen::good(answers.endpoint.clone())),
    }
}

fn version(host: &Host<'_>) -> Seen {
    answers(host, |answers| match answers.highest_minor {
        Some(minor) if minor >= NEEDED => Seen::good(format!("max_version 1.{minor}")),
        Some(minor) => Seen::bad(
            format!("max_version 1.{minor}, 1.{NEEDED} is needed"),
            "upgrade Placement to Rocky or later",
        ),
        None => Seen::bad(
            format!("{} gives no version document", answers.endpoint),
            "look whether the endpoint is Placement's: openstack endpoint list --service placement",
        ),
    })
}

fn read(host: &Host<'_>) -> Seen {
    answers(host, |answers| match answers.read_status {
        200..=299 => Seen::good(format!("GET /resource_classes: {}", answers.read_status)),
        401 => Seen::bad(
            "GET /resource_classes: 401",
            "correct user and secret in [placement]",
        ),
        403 => Seen::bad(
            "GET /resource_classes: 403",
            "openstack role add --user USER --project PROJECT service (and admin, before Placement 2023.2)",
        ),
        status => Seen::bad(
            format!("GET /resource_classes: {status}"),
            "look into Placement's log",
        ),
    })
}

fn role(host: &Host<'_>) -> Seen {
    answers(host, |answers| match answers.reshaper_status {
        // An empty body is refused as such only after the policy let it pass.
        400 => Seen::good("an empty POST /reshaper is refused as empty: 400"),
        403 => Seen::bad(
            "POST /reshaper: 403, the role is missing",
            "openstack role add --user USER --project PROJECT service",
        ),
        status => Seen::bad(
            format!("POST /reshaper: {status}"),
            "look into Placement's log",
        ),
    })
}

fn clock(host: &Host<'_>) -> Seen {
    answers(host, |answers| {
        let Some(date) = answers.date else {
            return Seen::not_asked("Placement sends no date");
        };
        let now = host.facts.now();
        let skew = now
            .duration_since(date)
            .or_else(|_| date.duration_since(now))
            .unwrap_or_default();
        let evidence = format!("the clocks differ by {} s", skew.as_secs());
        if skew <= SKEW {
            Seen::good(evidence)
        } else {
            Seen::bad(evidence, "timedatectl set-ntp true; chronyc tracking")
        }
    })
}
