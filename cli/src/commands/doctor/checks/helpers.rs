//! Building blocks of a check: its row, and results of checks that read the configuration or a file.

use std::path::Path;

use berth_config::Config;

use crate::commands::doctor::finding::{CheckContext, CheckResult, CheckSeverity, DoctorCheck};

pub(super) const fn failure(
    code: &'static str,
    title: &'static str,
    depends_on: &'static [&'static str],
    run: fn(&CheckContext<'_>) -> CheckResult,
) -> DoctorCheck {
    DoctorCheck {
        code,
        title,
        severity: CheckSeverity::Failure,
        depends_on,
        run,
    }
}

pub(super) const fn warning(
    code: &'static str,
    title: &'static str,
    depends_on: &'static [&'static str],
    run: fn(&CheckContext<'_>) -> CheckResult,
) -> DoctorCheck {
    DoctorCheck {
        code,
        title,
        severity: CheckSeverity::Warning,
        depends_on,
        run,
    }
}

/// Runs a check that needs the configuration; every such check depends on `config-valid`.
pub(super) fn with_config(
    host: &CheckContext<'_>,
    check: impl FnOnce(&Config) -> CheckResult,
) -> CheckResult {
    match host.config {
        Ok(loaded) => check(&loaded.config),
        Err(_) => CheckResult::not_asked("the configuration is refused"),
    }
}

/// Whether a path exists.
pub(super) fn exists(host: &CheckContext<'_>, path: &str) -> bool {
    host.facts.status(Path::new(path)).is_ok()
}

/// The text of a file, or a bad result that names it.
pub(super) fn text(host: &CheckContext<'_>, path: &str, hint: &str) -> Result<String, CheckResult> {
    host.facts
        .read(Path::new(path))
        .map_err(|error| CheckResult::bad(format!("{path}: {error}"), hint))
}

/// Merges the two sides of a check that returns early with `?`.
pub(super) fn settle(seen: Result<CheckResult, CheckResult>) -> CheckResult {
    seen.unwrap_or_else(|early| early)
}
