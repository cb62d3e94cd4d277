//! Connections to the consoles of running guests: [`Guests::open_console`].
//!
//! A VNC server is a TCP port of the hypervisor, a serial port is a pseudo terminal. Both end with the guest's process.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use berth_model::{ConsoleKind, ConsumerUuid, Disposition};
use berth_virt::{ConsoleAddress, GuestError, VirtDriver};
use nix::fcntl::OFlag;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::guests::{Guests, GuestsError};
use crate::resources::GuestResources;

/// How long a connection to the hypervisor may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The most connections to one guest's screen.
const MOST_VNC: usize = 8;

/// Why a console cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenConsoleError {
    /// The guest is not one of this agent's.
    #[error(transparent)]
    Guests(#[from] GuestsError),
    /// The guest has no such console now, or the hypervisor does not answer.
    #[error(transparent)]
    Driver(#[from] GuestError),
    /// The console has as many connections as it can.
    #[error("the {kind} console of guest {uuid} has {most} open connections, the most: close one")]
    Busy {
        uuid: ConsumerUuid,
        kind: ConsoleKind,
        most: usize,
    },
    #[error("cannot connect to the {kind} console of guest {uuid}")]
    Connect {
        uuid: ConsumerUuid,
        kind: ConsoleKind,
        source: io::Error,
    },
}

impl OpenConsoleError {
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Guests(_) => Disposition::Refresh,
            Self::Driver(error) => error.disposition(),
            Self::Busy { .. } | Self::Connect { .. } => Disposition::Retry,
        }
    }
}

/// The number of open connections of each console.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenConsoles(Arc<Mutex<BTreeMap<(ConsumerUuid, ConsoleKind), usize>>>);

impl OpenConsoles {
    fn counts(&self) -> MutexGuard<'_, BTreeMap<(ConsumerUuid, ConsoleKind), usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place among the connections of a console.
    fn place(
        &self,
        uuid: ConsumerUuid,
        kind: ConsoleKind,
    ) -> Result<ConsolePlace, OpenConsoleError> {
        let most = match kind {
            ConsoleKind::Vnc => MOST_VNC,
            // Two readers of a terminal would each get a part of the output.
            ConsoleKind::Serial => 1,
        };
        let mut counts = self.counts();
        let count = counts.entry((uuid, kind)).or_default();
        if *count >= most {
            return Err(OpenConsoleError::Busy { uuid, kind, most });
        }
        *count += 1;
        let all = self.clone();
        let console = (uuid, kind);
        Ok(ConsolePlace { all, console })
    }
}

/// One connection's place, free again on drop.
#[derive(Debug)]
struct ConsolePlace {
    all: OpenConsoles,
    console: (ConsumerUuid, ConsoleKind),
}

impl Drop for ConsolePlace {
    fn drop(&mut self) {
        let mut counts = self.all.counts();
        if let Some(count) = counts.get_mut(&self.console) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.console);
            }
        }
    }
}

/// A connection to a console: its bytes in both directions.
#[derive(Debug)]
pub struct ConsoleConnection {
    stream: ConsoleStream,
    _place: ConsolePlace,
}

#[derive(Debug)]
enum ConsoleStream {
    Tcp(TcpStream),
    Terminal(Terminal),
}

impl<D: VirtDriver, R: GuestResources> Guests<D, R> {
    /// Where a console of a running guest is.
    pub async fn console_address(
        &self,
        uuid: ConsumerUuid,
        kind: ConsoleKind,
    ) -> Result<ConsoleAddress, OpenConsoleError> {
        // Only guests of the journal: another guest of the hypervisor is not the agent's to show.
        self.show(uuid).await?;
        Ok(self.inner.context.driver.console(uuid, kind).await?)
    }

    /// Connects to a console of a running guest.
    pub async fn open_console(
        &self,
        uuid: ConsumerUuid,
        kind: ConsoleKind,
    ) -> Result<ConsoleConnection, OpenConsoleError> {
        let address = self.console_address(uuid, kind).await?;
        let place = self.inner.consoles.place(uuid, kind)?;
        let opened = match &address {
            ConsoleAddress::Tcp(address) => {
                let connected = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await;
                let connected = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
                let connected = connected.and_then(|stream| {
                    // Keys and pointer moves are small, and must not wait for more of them.
                    stream.set_nodelay(true)?;
                    Ok(stream)
                });
                connected.map(ConsoleStream::Tcp)
            }
            ConsoleAddress::Terminal(path) => Terminal::open(path).map(ConsoleStream::Terminal),
        };
        match opened {
            Ok(stream) => Ok(ConsoleConnection {
                stream,
                _place: place,
            }),
            Err(source) => Err(OpenConsoleError::Connect { uuid, kind, source }),
        }
    }
}

/// A pseudo terminal of the host.
#[derive(Debug)]
struct Terminal(AsyncFd<File>);

impl Terminal {
    fn open(path: &Path) -> io::Result<Self> {
        // The terminal must not become the one that controls this process.
        let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_NOFOLLOW;
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(flags.bits());
        #[allow(
            deprecated,
            reason = "the file keeps its descriptor open as long as it lives, which is what the newer, unsafe function asks for"
        )]
        let terminal = AsyncFd::new(options.open(path)?)?;
        Ok(Self(terminal))
    }

    /// Reads what the guest wrote; nothing if it ended.
    fn poll_read(
        &self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.0.poll_read_ready(context))?;
            let unfilled = buffer.initialize_unfilled();
            match ready.try_io(|file| file.get_ref().read(unfilled)) {
                Ok(Ok(read)) => {
                    buffer.advance(read);
                    return Poll::Ready(Ok(()));
                }
                // The other side, the guest's process, is gone.
                Ok(Err(error)) if error.raw_os_error() == Some(nix::libc::EIO) => {
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }

    fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.0.poll_write_ready(context))?;
            match ready.try_io(|file| file.get_ref().write(bytes)) {
                Ok(written) => return Poll::Ready(written),
                Err(_would_block) => {}
            }
        }
    }
}

impl AsyncRead for ConsoleConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.stream {
            ConsoleStream::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            ConsoleStream::Terminal(terminal) => terminal.poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for ConsoleConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            ConsoleStream::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            ConsoleStream::Terminal(terminal) => terminal.poll_write(context, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            ConsoleStream::Tcp(stream) => Pin::new(stream).poll_flush(context),
            ConsoleStream::Terminal(_) => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            ConsoleStream::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            ConsoleStream::Terminal(_) => Poll::Ready(Ok(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use berth_agent_journal::samples::guest;
    use nix::pty::{PtyMaster, grantpt, posix_openpt, ptsname_r, unlockpt};
    use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// The guest's side of a raw terminal, and the terminal's path.
    fn guest_side() -> (PtyMaster, String) {
        let master = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let mut settings = tcgetattr(&master).unwrap();
        cfmakeraw(&mut settings);
        tcsetattr(&master, SetArg::TCSANOW, &settings).unwrap();
        let path = ptsname_r(&master).unwrap();
        assert!(master.as_raw_fd() > 2);
        (master, path)
    }

    fn connection(path: &str) -> ConsoleConnection {
        let consoles = OpenConsoles::default();
        let place = consoles.place(guest(1), ConsoleKind::Serial).unwrap();
        ConsoleConnection {
            stream: ConsoleStream::Terminal(Terminal::open(Path::new(path)).unwrap()),
            _place: place,
        }
    }

    #[tokio::test]
    async fn a_terminal_carries_bytes_in_both_directions_and_ends_with_the_guest() {
        let (mut master, path) = guest_side();
        let mut console = connection(&path);
        master.write_all(b"login: \x00\xff").unwrap();
        let mut read = [0; 9];
        console.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"login: \x00\xff");
        console.write_all(b"root\r").await.unwrap();
        let mut typed = [0; 5];
        master.read_exact(&mut typed).unwrap();
        assert_eq!(&typed, b"root\r");
        drop(master);
        assert_eq!(console.read(&mut read).await.unwrap(), 0);
    }

    #[test]
    fn a_serial_console_has_one_connection_and_a_screen_eight() {
        let consoles = OpenConsoles::default();
        let serial = consoles.place(guest(1), ConsoleKind::Serial).unwrap();
        let second = consoles.place(guest(1), ConsoleKind::Serial).unwrap_err();
        assert!(matches!(second, OpenConsoleError::Busy { most: 1, .. }));
        consoles.place(guest(2), ConsoleKind::Serial).unwrap();
        let screens: Vec<_> = (0..MOST_VNC)
            .map(|_| consoles.place(guest(1), ConsoleKind::Vnc).unwrap())
            .collect();
        consoles.place(guest(1), ConsoleKind::Vnc).unwrap_err();
        drop((serial, screens));
        assert!(consoles.counts().is_empty());
        consoles.place(guest(1), ConsoleKind::Serial).unwrap();
    }
}
