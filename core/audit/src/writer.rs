//! [`AuditWriter`]: the thread that writes records to the file. A slow disk delays the requests that wait for a record, and
//! no task of the runtime.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use tokio::sync::oneshot;

use crate::file::{AuditFile, AuditFileError};

/// The largest number of records that wait for the disk. Further ones are lost.
const QUEUE: usize = 4096;

#[derive(Debug)]
pub(crate) struct AuditWriter {
    /// `None` only when it is dropped.
    queue: Option<SyncSender<QueuedRecord>>,
    thread: Option<JoinHandle<()>>,
    lost: Arc<LostRecords>,
}

/// A line for the file. If it is dropped unwritten, the receiver of `written` gets an error.
struct QueuedRecord {
    line: String,
    written: oneshot::Sender<()>,
}

/// Counts the records that the file did not get since it could last be written.
#[derive(Debug)]
struct LostRecords {
    count: AtomicU64,
    /// `[audit] required`.
    required: bool,
}

impl AuditWriter {
    /// Starts the thread.
    pub(crate) fn start(file: AuditFile, required: bool) -> Result<Self, AuditFileError> {
        let lost = Arc::new(LostRecords {
            count: AtomicU64::new(0),
            required,
        });
        let (queue, records) = sync_channel(QUEUE);
        let path = file.path().to_owned();
        let of_thread = Arc::clone(&lost);
        let thread = thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || write_all(file, &records, &of_thread))
            .map_err(|source| AuditFileError { path, source })?;
        Ok(Self {
            queue: Some(queue),
            thread: Some(thread),
            lost,
        })
    }

    /// Hands a line to the thread. The receiver gets a value once the line is in the file, and an error if it is lost.
    pub(crate) fn append(&self, line: String) -> oneshot::Receiver<()> {
        let (written, receiver) = oneshot::channel();
        let record = QueuedRecord { line, written };
        let is_queued = self.queue.as_ref().map(|queue| queue.try_send(record));
        if !matches!(is_queued, Some(Ok(()))) {
            let what = format!("{QUEUE} records wait for the disk");
            self.lost.add(&io::Error::other(what));
        }
        receiver
    }
}

/// Writes what is queued.
impl Drop for AuditWriter {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            // A panic has been reported already.
            let _ = thread.join();
        }
    }
}

fn write_all(mut file: AuditFile, records: &Receiver<QueuedRecord>, lost: &LostRecords) {
    for record in records {
        match file.append(&record.line) {
            Ok(()) => {
                lost.end();
                // The request need not wait for it.
                let _ = record.written.send(());
            }
            Err(error) => lost.add(&error),
        }
    }
}

impl LostRecords {
    fn add(&self, error: &(dyn Error + 'static)) {
        // Once, not for each request.
        if self.count.fetch_add(1, Ordering::Relaxed) == 0 {
            let required = self.required;
            tracing::error!(error, required, "audit records are lost");
        }
    }

    fn end(&self) {
        let lost = self.count.swap(0, Ordering::Relaxed);
        if lost > 0 {
            tracing::warn!(
                lost,
                "the audit file can be written again; the log has the records that it lacks"
            );
        }
    }
}
