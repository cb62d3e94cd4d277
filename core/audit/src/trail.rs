//! [`AuditTrail`]: which records are written, and where.

use std::fmt;
use std::sync::{Arc, LazyLock};

use tokio::sync::oneshot;
use tracing::Level;

use crate::event::{self, AuditOutcome, RequestFacts, ServiceFacts, action_of, is_read};
use crate::file::{AuditFile, AuditFileError};
use crate::options::AuditOptions;
use crate::writer::AuditWriter;

/// Where the audit records of a process go. Clones share the file. The default is the log alone.
#[derive(Debug, Clone, Default)]
pub struct AuditTrail {
    inner: Arc<TrailInner>,
}

#[derive(Debug, Default)]
struct TrailInner {
    file: Option<AuditWriter>,
    is_required: bool,
    has_reads: bool,
}

/// A record on its way to the file, if it needs to get there. It gets there whether it is awaited or not.
pub(crate) struct PendingRecord(Option<oneshot::Receiver<()>>);

impl PendingRecord {
    /// Waits until the record is in the file.
    pub(crate) async fn written(self) -> Result<(), AuditUnavailable> {
        match self.0 {
            None => Ok(()),
            Some(written) => written.await.map_err(|_| AuditUnavailable),
        }
    }
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
        let file = options.file.as_deref().map(|path| {
            let file = AuditFile::open(path)?;
            AuditWriter::start(file, options.required)
        });
        Ok(Self {
            inner: Arc::new(TrailInner {
                file: file.transpose()?,
                is_required: options.required,
                has_reads: options.reads,
            }),
        })
    }

    /// Writes the record of a request that is about to be carried out, if requests that change something need one.
    pub(crate) fn record_intent(
        &self,
        request: &RequestFacts,
        known: &ServiceFacts,
    ) -> PendingRecord {
        let action = known.action.unwrap_or_else(|| action_of(&request.method));
        if !self.inner.is_required || is_read(action) {
            return PendingRecord(None);
        }
        self.write(event::line(request, known, AuditOutcome::Pending, &HOST))
    }

    /// Writes the record of a request that ended.
    pub(crate) fn record_outcome(
        &self,
        request: &RequestFacts,
        known: &ServiceFacts,
        outcome: AuditOutcome,
    ) -> PendingRecord {
        if self.inner.file.is_none() && !tracing::enabled!(target: "berth::audit", Level::INFO) {
            return PendingRecord(None);
        }
        let action = known.action.unwrap_or_else(|| action_of(&request.method));
        // 401, 403 and 429 show who tries what.
        let is_refused = matches!(outcome, AuditOutcome::Answered(status, _) if matches!(status.as_u16(), 401 | 403 | 429));
        if is_read(action) && !is_refused && !self.inner.has_reads {
            return PendingRecord(None);
        }
        self.write(event::line(request, known, outcome, &HOST))
    }

    fn write(&self, line: String) -> PendingRecord {
        tracing::info!(target: "berth::audit", "{line}");
        PendingRecord(self.inner.file.as_ref().map(|file| file.append(line)))
    }
}
