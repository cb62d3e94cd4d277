//! The role of systemd for a unit of `Type=notify`: a socket that gets the program's status.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The reader's own marker: once it is received, all earlier messages have been read.
const ASKED: &[u8] = b"\0asked";

/// A socket and everything that was said on it, line by line.
#[derive(Debug)]
pub(crate) struct ServiceManager {
    path: PathBuf,
    log: Arc<Log>,
}

/// What was heard, and how many questions the reader came past.
#[derive(Debug, Default)]
struct Log {
    received: Mutex<(Vec<String>, usize)>,
    asked: Condvar,
}

impl ServiceManager {
    /// Listens at this path until the test process ends.
    pub(crate) fn listen(path: &Path) -> Self {
        let socket = UnixDatagram::bind(path).expect("a socket");
        let log = Arc::new(Log::default());
        let kept = Arc::clone(&log);
        thread::spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok(length) = socket.recv(&mut buffer) {
                let datagram = &buffer[..length];
                let mut received = kept.received.lock().unwrap_or_else(PoisonError::into_inner);
                if datagram == ASKED {
                    received.1 += 1;
                    kept.asked.notify_all();
                } else {
                    let text = String::from_utf8_lossy(datagram);
                    received.0.extend(text.lines().map(str::to_owned));
                }
            }
        });
        let path = path.to_owned();
        Self { path, log }
    }

    /// Everything that was said before this call: a datagram of our own comes behind all of it.
    pub(crate) fn received(&self) -> Vec<String> {
        let received = |log: &Log| {
            log.received
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .1
        };
        let before = received(&self.log);
        let question = UnixDatagram::unbound().expect("a socket");
        question
            .send_to(ASKED, &self.path)
            .expect("the reader lives");
        let held = self
            .log
            .received
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let (held, _) = self
            .log
            .asked
            .wait_timeout_while(held, Duration::from_secs(60), |received| {
                received.1 <= before
            })
            .unwrap_or_else(PoisonError::into_inner);
        held.0.clone()
    }

    /// How often exactly this was said.
    pub(crate) fn count(&self, line: &str) -> usize {
        self.received()
            .iter()
            .filter(|received| *received == line)
            .count()
    }

    /// Whether exactly this was said.
    pub(crate) fn has_received(&self, line: &str) -> bool {
        self.count(line) > 0
    }

    /// The newest `STATUS=`.
    pub(crate) fn status(&self) -> String {
        let received = self.received();
        let last = received
            .iter()
            .rev()
            .find_map(|line| line.strip_prefix("STATUS="));
        last.unwrap_or_default().to_owned()
    }
}
