//! What systemd is to a unit of `Type=notify`: a socket that the program tells how it is.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// A socket and everything that was said on it, line by line.
#[derive(Debug)]
pub(crate) struct ServiceManager {
    heard: Arc<Mutex<Vec<String>>>,
}

impl ServiceManager {
    /// Listens at this path until the test process ends.
    pub(crate) fn listen(path: &Path) -> Self {
        let socket = UnixDatagram::bind(path).expect("a socket");
        let heard = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&heard);
        thread::spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok(length) = socket.recv(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend(text.lines().map(str::to_owned));
            }
        });
        Self { heard }
    }

    /// Everything that was said so far.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.heard
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// How often exactly this was said.
    pub(crate) fn count(&self, line: &str) -> usize {
        self.heard().iter().filter(|said| *said == line).count()
    }

    /// Whether exactly this was said.
    pub(crate) fn was_told(&self, line: &str) -> bool {
        self.count(line) > 0
    }

    /// The newest `STATUS=`.
    pub(crate) fn status(&self) -> String {
        let heard = self.heard();
        let last = heard
            .iter()
            .rev()
            .find_map(|line| line.strip_prefix("STATUS="));
        last.unwrap_or_default().to_owned()
    }
}
