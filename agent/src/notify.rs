//! Notifications to the service manager (sd_notify): readiness, status text, extension of timeouts, watchdog, reload
//! and stop. Without `NOTIFY_SOCKET`, nothing is sent.

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::sync::watch;

/// Longest time to wait for a service manager that does not read.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Sends notifications to the service manager.
#[derive(Debug)]
pub struct Notifier {
    socket: Option<UnixDatagram>,
    watchdog: Option<Duration>,
    status: String,
    ready: watch::Sender<bool>,
}

impl Notifier {
    /// A notifier without a service manager: sends nothing.
    #[must_use]
    pub fn silent() -> Self {
        Self {
            socket: None,
            watchdog: None,
            status: String::new(),
            ready: watch::Sender::new(false),
        }
    }

    /// Uses the socket in `NOTIFY_SOCKET`, and the watchdog of `WATCHDOG_USEC` and `WATCHDOG_PID`.
    pub fn from_environment() -> io::Result<Self> {
        let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Ok(Self::silent());
        };
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        let ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC")
            .filter(|usec| ours && *usec > 0)
            .map(Duration::from_micros);
        Self::to(&name, watchdog)
    }

    /// Uses this socket: a path, or `@` and an abstract name. `watchdog` is the longest allowed time between two
    /// notifications.
    pub fn to(socket: &OsString, watchdog: Option<Duration>) -> io::Result<Self> {
        let address = match socket.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            _ => SocketAddr::from_pathname(socket)?,
        };
        let datagrams = UnixDatagram::unbound()?;
        datagrams.connect_addr(&address)?;
        datagrams.set_write_timeout(Some(LONGEST_WAIT))?;
        datagrams.set_nonblocking(true)?;
        Ok(Self {
            socket: Some(datagrams),
            watchdog,
            status: String::new(),
            ready: watch::Sender::new(false),
        })
    }

    /// Interval for calls of [`Notifier::alive`]: half of the watchdog's time.
    #[must_use]
    pub fn watchdog_period(&self) -> Option<Duration> {
        self.socket.as_ref().and(self.watchdog).map(|span| span / 2)
    }

    /// Becomes true once the first inventory was reported.
    #[must_use]
    pub fn readiness(&self) -> watch::Receiver<bool> {
        self.ready.subscribe()
    }

    /// The first inventory was reported, or a reload is finished.
    pub fn ready(&self) {
        self.ready.send_replace(true);
        self.send_surely(&[NotifyState::Ready]);
    }

    /// Sets the status text. It is sent only if it differs from the last one that was sent.
    pub fn status(&mut self, sentence: &str) {
        let line = one_line(sentence);
        if line != self.status && self.try_send(&[NotifyState::Status(&line)]).is_ok() {
            self.status = line;
        }
    }

    /// Sets the status text that remains after the agent's exit.
    pub fn final_status(&self, sentence: &str) {
        let line = one_line(sentence);
        self.send_surely(&[NotifyState::Status(&line)]);
    }

    /// Extends the timeout of the start or stop to this time from now.
    pub fn extend_timeout(&self, by: Duration) {
        let micros = u32::try_from(by.as_micros()).unwrap_or(u32::MAX);
        self.send(&[NotifyState::ExtendTimeoutUsec(micros)]);
    }

    pub fn alive(&self) {
        self.send(&[NotifyState::Watchdog]);
    }

    /// A reload has started; [`Notifier::ready`] ends it.
    pub fn reloading(&self) {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => self.send_surely(&[NotifyState::Reloading, now]),
            Err(_) => self.send_surely(&[NotifyState::Reloading]),
        }
    }

    pub fn stopping(&self) {
        self.send_surely(&[NotifyState::Stopping]);
    }

    /// Sends a notification that is repeated or optional, without waiting: a service manager that does not read must
    /// not block the agent.
    fn send(&self, states: &[NotifyState<'_>]) {
        if let Err(error) = self.try_send(states) {
            tracing::debug!(%error, "sending a notification to the service manager failed");
        }
    }

    /// Sends a notification that the service manager waits for; waits for a short time if it is busy.
    fn send_surely(&self, states: &[NotifyState<'_>]) {
        let Some(socket) = &self.socket else { return };
        let sent = socket
            .set_nonblocking(false)
            .and_then(|()| self.try_send(states));
        if let Err(error) = socket.set_nonblocking(true).and(sent) {
            tracing::warn!(%error, "sending a notification to the service manager failed");
        }
    }

    fn try_send(&self, states: &[NotifyState<'_>]) -> io::Result<()> {
        let Some(socket) = &self.socket else {
            return Ok(());
        };
        let message: String = states.iter().map(|state| format!("{state}\n")).collect();
        socket.send(message.as_bytes()).map(drop)
    }
}

/// Converts the text to one line without control characters, because `systemctl status` shows it.
fn one_line(text: &str) -> String {
    let replace = |c: char| match c {
        '\n' | '\r' => ' ',
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    text.chars().map(replace).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn manager() -> (tempfile::TempDir, UnixDatagram, OsString) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_nonblocking(true).unwrap();
        (folder, socket, path.into_os_string())
    }

    fn received(socket: &UnixDatagram) -> Vec<String> {
        let mut buffer = [0; 4096];
        std::iter::from_fn(|| {
            let length = socket.recv(&mut buffer).ok()?;
            Some(String::from_utf8_lossy(&buffer[..length]).into_owned())
        })
        .collect()
    }

    #[test]
    fn the_manager_reads_what_systemd_understands() {
        let (_folder, socket, path) = manager();
        let mut notifier = Notifier::to(&path, Some(Duration::from_secs(60))).unwrap();
        assert_eq!(notifier.watchdog_period(), Some(Duration::from_secs(30)));
        notifier.status("starting");
        notifier.extend_timeout(Duration::from_secs(90));
        notifier.ready();
        notifier.alive();
        notifier.stopping();
        let expected = [
            "STATUS=starting\n",
            "EXTEND_TIMEOUT_USEC=90000000\n",
            "READY=1\n",
            "WATCHDOG=1\n",
            "STOPPING=1\n",
        ];
        assert_eq!(received(&socket), expected);
    }

    #[test]
    fn a_reload_names_the_monotonic_time_in_the_same_message() {
        let (_folder, socket, path) = manager();
        Notifier::to(&path, None).unwrap().reloading();
        let message = received(&socket).remove(0);
        let (first, second) = message.trim_end().split_once('\n').unwrap();
        assert_eq!(first, "RELOADING=1");
        let micros = second.strip_prefix("MONOTONIC_USEC=").unwrap();
        assert!(micros.parse::<u128>().unwrap() > 0);
    }

    #[test]
    fn a_status_is_one_line_and_is_sent_once() {
        let (_folder, socket, path) = manager();
        let mut notifier = Notifier::to(&path, None).unwrap();
        notifier.status("in sync\nREADY=1");
        notifier.status("in sync READY=1");
        notifier.status("away\u{1b}[31m");
        assert_eq!(
            received(&socket),
            ["STATUS=in sync READY=1\n", "STATUS=away\u{fffd}[31m\n"]
        );
    }

    #[test]
    fn an_abstract_socket_is_understood() {
        let name = format!("berth-notify-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        socket.set_nonblocking(true).unwrap();
        Notifier::to(&OsString::from(format!("@{name}")), None)
            .unwrap()
            .ready();
        assert_eq!(received(&socket), ["READY=1\n"]);
    }

    #[test]
    fn a_manager_that_does_not_read_holds_nobody_up() {
        let (_folder, socket, path) = manager();
        let notifier = Notifier::to(&path, None).unwrap();
        for _ in 0..10_000 {
            notifier.alive();
        }
        assert!(!received(&socket).is_empty());
    }

    #[test]
    fn ready_waits_for_a_manager_that_is_busy_for_a_moment() {
        let (_folder, socket, path) = manager();
        let mut notifier = Notifier::to(&path, None).unwrap();
        for _ in 0..10_000 {
            notifier.alive();
        }
        notifier.status("full");
        let reader = std::thread::spawn(move || {
            let began = Instant::now();
            let mut all = Vec::new();
            while !all.contains(&"READY=1\n".to_owned()) {
                assert!(
                    began.elapsed() < Duration::from_secs(60),
                    "READY=1 was not received"
                );
                all.extend(received(&socket));
            }
            (socket, all)
        });
        notifier.ready();
        let (socket, all) = reader.join().unwrap();
        assert!(
            !all.contains(&"STATUS=full\n".to_owned()),
            "the socket was full"
        );
        notifier.status("full");
        assert_eq!(
            received(&socket),
            ["STATUS=full\n"],
            "an unsent status is sent again"
        );
    }

    #[test]
    fn without_a_manager_nothing_happens_and_a_missing_one_is_an_error() {
        let mut silent = Notifier::silent();
        silent.status("hello");
        silent.ready();
        assert_eq!(silent.watchdog_period(), None);
        assert!(Notifier::to(&OsString::from("/nowhere/at/all"), None).is_err());
    }
}
