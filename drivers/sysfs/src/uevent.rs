//! Uevents: a stream of the kernel's notifications that a device appeared, disappeared or changed, from its netlink
//! socket.
//!
//! The stream contains only what concerns the inventory (PCI, mediated devices, IOMMU, VFIO). Its reader observes the
//! whole tree again, so a lost event only needs another observation: a full receive buffer gives [`DeviceUevent::Lost`].

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recvfrom, setsockopt,
    socket, sockopt,
};
use tokio::io::unix::AsyncFd;

/// The multicast group of the kernel's events. Group 2 is udev's, which not every host runs.
const KERNEL_GROUP: u32 = 1;
/// The buffer size in bytes, for bursts: enabling the virtual functions of one card causes hundreds of events.
const RECEIVE_BUFFER: usize = 2 * 1024 * 1024;
/// The kernel's limit for one event is 2 KiB of variables and the header.
const LONGEST: usize = 8 * 1024;
/// The subsystems of devices in the inventory.
const SUBSYSTEMS: &[&str] = &["pci", "mdev", "iommu", "vfio"];

/// Why there are no events.
#[derive(Debug, thiserror::Error)]
pub enum UeventError {
    /// The socket could not be opened: the kernel or a sandbox forbids it.
    #[error("cannot open the kernel's uevent socket")]
    Open(#[source] io::Error),
    /// Reading failed for good.
    #[error("cannot read the kernel's uevent socket")]
    Read(#[source] io::Error),
}

/// One event of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uevent {
    /// The kernel's action: `add`, `remove`, `change`, `bind`, `unbind`, `move`, `online`, `offline`.
    pub action: String,
    /// The device's path below the tree's root.
    pub devpath: String,
    /// The subsystem, for example `pci`.
    pub subsystem: String,
}

/// An item of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceUevent {
    /// A device of interest changed.
    Changed(Uevent),
    /// Events were lost because they were read too slowly: observe everything again.
    Lost,
}

/// Events that concern the inventory, until the socket fails.
#[derive(Debug)]
pub struct UeventStream {
    socket: AsyncFd<OwnedFd>,
}

impl UeventStream {
    /// Opens the kernel's socket. Must be called within a tokio runtime.
    pub fn open() -> Result<Self, UeventError> {
        let open = |errno: Errno| UeventError::Open(errno.into());
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Datagram,
            SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkKObjectUEvent,
        )
        .map_err(open)?;
        // Exceeding the host's limit needs CAP_NET_ADMIN; a smaller buffer only means more observations.
        setsockopt(&socket, sockopt::RcvBufForce, &RECEIVE_BUFFER)
            .or_else(|_| setsockopt(&socket, sockopt::RcvBuf, &RECEIVE_BUFFER))
            .map_err(open)?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, KERNEL_GROUP)).map_err(open)?;
        #[allow(
            deprecated,
            reason = "unsound only for types that may change or close their descriptor under the reactor; an OwnedFd cannot, \
                      and the replacement is unsafe to call"
        )]
        let socket = AsyncFd::new(socket).map_err(UeventError::Open)?;
        Ok(Self { socket })
    }
}

impl Stream for UeventStream {
    type Item = Result<DeviceUevent, UeventError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let mut ready = match self.socket.poll_read_ready(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(ready)) => ready,
                Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(UeventError::Read(error)))),
            };
            match receive(self.socket.get_ref()) {
                Ok(Some(news)) => return Poll::Ready(Some(Ok(news))),
                Ok(None) => {}
                Err(Errno::EAGAIN) => ready.clear_ready(),
                Err(Errno::EINTR) => {}
                Err(errno) => return Poll::Ready(Some(Err(UeventError::Read(errno.into())))),
            }
        }
    }
}

/// Reads one message from the socket; `Ok(None)` if it does not concern the inventory.
fn receive(socket: &OwnedFd) -> Result<Option<DeviceUevent>, Errno> {
    let mut packet = [0; LONGEST];
    match recvfrom::<NetlinkAddr>(socket.as_raw_fd(), &mut packet) {
        // Only the kernel has port 0. Other processes may send to the group and are ignored.
        Ok((length, Some(sender))) if sender.pid() == 0 => {
            Ok(parse_uevent(&packet[..length]).and_then(of_interest))
        }
        Ok(_) => Ok(None),
        Err(Errno::ENOBUFS) => Ok(Some(DeviceUevent::Lost)),
        Err(errno) => Err(errno),
    }
}

fn of_interest(event: Uevent) -> Option<DeviceUevent> {
    SUBSYSTEMS
        .contains(&event.subsystem.as_str())
        .then_some(DeviceUevent::Changed(event))
}

/// Reads one message of the kernel: `ACTION@DEVPATH`, then `KEY=VALUE` pairs, each ended by a zero byte. `None` for anything
/// else, udev's messages included. Unknown keys and actions are let through: kernels learn new ones.
#[must_use]
pub fn parse_uevent(packet: &[u8]) -> Option<Uevent> {
    let text = std::str::from_utf8(packet).ok()?;
    let mut fields = text.split('\0');
    fields.next()?.split_once('@')?;
    let (mut action, mut devpath, mut subsystem) = (None, None, None);
    for (key, value) in fields.filter_map(|field| field.split_once('=')) {
        match key {
            "ACTION" => action = Some(value),
            "DEVPATH" => devpath = Some(value),
            "SUBSYSTEM" => subsystem = Some(value),
            _ => {}
        }
    }
    Some(Uevent {
        action: action?.to_owned(),
        devpath: devpath?.to_owned(),
        subsystem: subsystem?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MADE: &[u8] = b"add@/devices/pci0000:80/0000:81:00.4\0ACTION=add\0\
        DEVPATH=/devices/pci0000:80/0000:81:00.4\0SUBSYSTEM=pci\0PCI_ID=10DE:1EB9\0SEQNUM=4711\0";

    #[test]
    fn a_message_of_the_kernel_is_read() {
        let event = parse_uevent(MADE).unwrap();
        assert_eq!(
            event,
            Uevent {
                action: "add".to_owned(),
                devpath: "/devices/pci0000:80/0000:81:00.4".to_owned(),
                subsystem: "pci".to_owned(),
            }
        );
        assert_eq!(
            of_interest(event.clone()),
            Some(DeviceUevent::Changed(event))
        );
    }

    #[test]
    fn other_subsystems_are_no_news() {
        for (subsystem, news) in [
            ("pci", true),
            ("mdev", true),
            ("iommu", true),
            ("vfio", true),
            ("block", false),
        ] {
            let event = Uevent {
                action: "change".to_owned(),
                devpath: "/devices/x".to_owned(),
                subsystem: subsystem.to_owned(),
            };
            assert_eq!(of_interest(event).is_some(), news, "{subsystem}");
        }
    }

    #[test]
    fn anything_else_is_no_event() {
        for packet in [
            &b""[..],
            b"libudev\0\xfe\xed\xca\xfe",
            b"add@/devices/x\0ACTION=add\0",
            b"ACTION=add\0DEVPATH=/x\0SUBSYSTEM=pci\0",
            b"add@/x\0ACTION=\xff\0DEVPATH=/x\0SUBSYSTEM=pci\0",
        ] {
            assert_eq!(parse_uevent(packet), None);
        }
    }

    #[tokio::test]
    async fn a_process_that_plays_the_kernel_is_not_believed() {
        let stream = UeventStream::open().unwrap();
        let impostor = socket(
            AddressFamily::Netlink,
            SockType::Datagram,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkKObjectUEvent,
        )
        .unwrap();
        // To the stream's own port, because sending to the group needs privileges.
        let port = nix::sys::socket::getsockname::<NetlinkAddr>(stream.socket.as_raw_fd()).unwrap();
        let to = NetlinkAddr::new(port.pid(), 0);
        let sent = nix::sys::socket::sendto(
            impostor.as_raw_fd(),
            MADE,
            &to,
            nix::sys::socket::MsgFlags::empty(),
        );
        if sent.is_err() {
            return; // An unprivileged test: the kernel itself refuses the impostor.
        }
        let taken = receive(stream.socket.get_ref()).unwrap();
        assert_eq!(taken, None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(packet in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_uevent(&packet);
        }

        #[test]
        fn a_read_event_says_what_was_written(
            action in "[a-z]{1,8}", devpath in "/[a-z0-9:./]{0,20}", subsystem in "[a-z]{1,8}", other in "[A-Z]{4}=[a-z]{0,4}"
        ) {
            let packet = format!("{action}@{devpath}\0ACTION={action}\0{other}\0DEVPATH={devpath}\0SUBSYSTEM={subsystem}\0");
            prop_assert_eq!(parse_uevent(packet.as_bytes()), Some(Uevent { action, devpath, subsystem }));
        }
    }
}
