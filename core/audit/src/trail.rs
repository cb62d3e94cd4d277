//! [`AuditTrail`]: which records are written, and where.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use tracing::Level;

use crate::event::{self, AuditOutcome, RequestFacts, ServiceFacts, action_of, is_read};
use crate::file::{AuditFile, AuditFileError};
use crate::options::AuditOptions;

/// Where the audit records of a process go. Clones share the file. The default is the log alone.
#[derive(Debug, Clone, Default)]
pub struct AuditTrail {
    inner: Arc<TrailInner>,
}

#[derive(Debug, Default)]
struct TrailInner {
    file: Option<AuditFile>,
    is_required: bool,
    has_reads: bool,
    /// Records that the file did not get since it could last be written.
    lost: AtomicU64,
}

/// The record of a request could not be written, and requests need one. The cause is in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditUnavailable;

impl fmt::Display for AuditUnavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nothing was changed: the audit record of this request cannot be written.")
    }
}

impl std::error::Error for AuditUnavailable {}

/// This host's name, for the observer of each record.
static HOST: LazyLock<String> = LazyLock::new(|| {
    let name = nix::unistd::gethostname().ok();
    let name = name.and_then(|name| name.into_string().ok());
    name.unwrap_or_else(|| "unknown".to_owned())
});

impl AuditTrail {
    /// Opens the file, if one is configured.
    ///
    /// Errors: The file cannot be opened for writing.
    pub fn open(options: &AuditOptions) -> Result<Self, AuditFileError> {
        let file = options.file.as_deref().map(AuditFile::open).transpose()?;
        Ok(Self {
            inner: Arc::new(TrailInner {
                file,
                is_required: options.required,
                has_reads: options.reads,
                lost: AtomicU64::new(0),
            }),
        })
    }

    /// Writes the record of a request that is about to be carried out, if requests that change something need one.
    pub(crate) fn record_intent(
        &self,
        request: &RequestFacts,
        known: &ServiceFacts,
    ) -> Result<(), AuditUnavailable> {
        let action = known.action.unwrap_or_else(|| action_of(&request.method));
        if !self.inner.is_required || is_read(action) {
            return Ok(());
        }
        self.write(&event::line(request, known, AuditOutcome::Pending, &HOST))
    }

    /// Writes the record of a request that ended.
    pub(crate) fn record_outcome(
        &self,
        request: &RequestFacts,
        known: &ServiceFacts,
        outcome: AuditOutcome,
    ) {
        if self.inner.file.is_none() && !tracing::enabled!(target: "berth::audit", Level::INFO) {
            return;
        }
        let action = known.action.unwrap_or_else(|| action_of(&request.method));
        // 401, 403 and 429 show who tries what.
        let is_refused = matches!(outcome, AuditOutcome::Answered(status, _) if matches!(status.as_u16(), 401 | 403 | 429));
        if is_read(action) && !is_refused && !self.inner.has_reads {
            return;
        }
        // The request has been carried out already, and the failure is logged.
        let _ = self.write(&event::line(request, known, outcome, &HOST));
    }

    fn write(&self, line: &str) -> Result<(), AuditUnavailable> {
        tracing::info!(target: "berth::audit", "{line}");
        let Some(file) = &self.inner.file else {
            return Ok(());
        };
        match file.append(line) {
            Ok(()) => {
                let lost = self.inner.lost.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    tracing::warn!(
                        lost,
                        "the audit file can be written again; the log has the records that it lacks"
                    );
                }
                Ok(())
            }
            Err(error) => {
                // Once, not for each request.
                if self.inner.lost.fetch_add(1, Ordering::Relaxed) == 0 {
                    let required = self.inner.is_required;
                    let error = &error as &dyn std::error::Error;
                    tracing::error!(error, required, "audit records are lost");
                }
                Err(AuditUnavailable)
            }
        }
    }
}
