//! Where a running guest's consoles are: the port of its VNC server, and the terminal of its serial port. libvirt chooses both
//! at each start and writes them into the guest's document.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use berth_model::{ConsoleKind, ConsumerUuid};
use berth_virt::{ConsoleAddress, GuestError};
use roxmltree::{Document, Node};
use virt::connect::Connect;
use virt::domain::Domain;

use super::error::refused;
use super::find;
use crate::guest_xml::GuestXmlOptions;
use crate::options::VncServers;
use crate::xml;

/// The folder of pseudo terminals.
const TERMINALS: &str = "/dev/pts/";

/// Where a console of a running guest is.
pub(crate) fn console(
    connect: &Connect,
    uuid: ConsumerUuid,
    kind: ConsoleKind,
    vnc: Option<VncServers>,
) -> Result<ConsoleAddress, GuestError> {
    let none = |reason| GuestError::NoConsole { uuid, kind, reason };
    let domain = find(connect, uuid)?.ok_or_else(|| none("the hypervisor does not have it"))?;
    let is_running = domain.is_active();
    if !is_running.map_err(refused(uuid, "virDomainIsActive"))? {
        return Err(none("it is not running; start it"));
    }
    let text = domain
        .xml_desc(0)
        .map_err(refused(uuid, "virDomainGetXMLDesc"))?;
    address(&text, kind, vnc).map_err(none)
}

/// The address in a document; otherwise why it has none.
fn address(
    text: &str,
    kind: ConsoleKind,
    vnc: Option<VncServers>,
) -> Result<ConsoleAddress, &'static str> {
    let document = Document::parse(text).map_err(|_| "its document is not XML")?;
    let root = document.root_element();
    match kind {
        ConsoleKind::Vnc => {
            let Some(graphics) = vnc_of(root) else {
                return Err(match vnc {
                    Some(_) => "it was started without one; it gets one at its next start",
                    None => "[vnc] enabled is false on its host",
                });
            };
            let port = graphics.attribute("port").and_then(|it| it.parse().ok());
            let port = port.ok_or("its VNC server has no port yet; try again")?;
            let listen = listen_of(graphics).filter(|address| !address.is_unspecified());
            let own = listen.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
            let host = vnc.map_or(own, |vnc| vnc.connect);
            Ok(ConsoleAddress::Tcp(SocketAddr::new(host, port)))
        }
        ConsoleKind::Serial => {
            let serial = xml::find(root, &["devices", "serial"]);
            let serial = serial.filter(|serial| serial.attribute("type") == Some("pty"));
            let source = serial.and_then(|serial| xml::find(serial, &["source"]));
            let path = source.and_then(|source| source.attribute("path"));
            let path = path.filter(|path| {
                let number = path.strip_prefix(TERMINALS).unwrap_or_default();
                !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
            });
            let path = path.ok_or("its serial port is no terminal of the host")?;
            Ok(ConsoleAddress::Terminal(PathBuf::from(path)))
        }
    }
}

/// Whether the document of a guest that is off has the screen that its next start should give it. libvirt's test driver has
/// no screens.
pub(super) fn has_screen_of(
    domain: &Domain,
    uuid: ConsumerUuid,
    options: &GuestXmlOptions,
) -> Result<bool, GuestError> {
    let text = domain
        .xml_desc(0)
        .map_err(refused(uuid, "virDomainGetXMLDesc"))?;
    Ok(is_screen_at(&text, options.vnc_listen))
}

fn is_screen_at(text: &str, listen: Option<IpAddr>) -> bool {
    let Ok(document) = Document::parse(text) else {
        return true;
    };
    let root = document.root_element();
    if root.attribute("type") == Some("test") {
        return true;
    }
    match (vnc_of(root), listen) {
        (None, None) => true,
        (Some(graphics), Some(listen)) => listen_of(graphics) == Some(listen),
        (None, Some(_)) | (Some(_), None) => false,
    }
}

fn vnc_of<'a, 't>(root: Node<'a, 't>) -> Option<Node<'a, 't>> {
    let devices = xml::find(root, &["devices"])?;
    let mut all = xml::children(devices, "graphics");
    all.find(|graphics| graphics.attribute("type") == Some("vnc"))
}

fn listen_of(graphics: Node<'_, '_>) -> Option<IpAddr> {
    graphics.attribute("listen")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VNC: VncServers = VncServers {
        listen: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        connect: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    };

    fn document(devices: &str) -> String {
        format!("<domain type='kvm'><devices>{devices}</devices></domain>")
    }

    #[test]
    fn a_vnc_server_is_at_its_port_and_at_the_address_for_the_agent() {
        let text = document(
            "<graphics type='spice' port='1'/><graphics type='vnc' port='5901' autoport='yes' listen='127.0.0.2'/>",
        );
        let of = |vnc| address(&text, ConsoleKind::Vnc, vnc).unwrap();
        let tcp = |address: &str| ConsoleAddress::Tcp(address.parse().unwrap());
        assert_eq!(of(Some(VNC)), tcp("192.0.2.1:5901"));
        assert_eq!(of(None), tcp("127.0.0.2:5901"));
    }

    #[test]
    fn a_guest_that_was_started_without_a_screen_gets_one_at_its_next_start() {
        let of = |devices: &str, vnc| address(&document(devices), ConsoleKind::Vnc, vnc);
        let next = "it was started without one; it gets one at its next start";
        assert_eq!(of("", Some(VNC)), Err(next));
        assert_eq!(of("", None), Err("[vnc] enabled is false on its host"));
        let starting = of("<graphics type='vnc' port='-1'/>", Some(VNC));
        assert_eq!(starting, Err("its VNC server has no port yet; try again"));
    }

    #[test]
    fn a_serial_console_is_a_terminal_of_the_host_and_no_other_file() {
        let of = |devices: &str| address(&document(devices), ConsoleKind::Serial, None);
        let terminal = of("<serial type='pty'><source path='/dev/pts/7'/></serial>");
        let path = PathBuf::from("/dev/pts/7");
        assert_eq!(terminal, Ok(ConsoleAddress::Terminal(path)));
        for devices in [
            "",
            "<serial type='pty'/>",
            "<serial type='file'><source path='/dev/pts/7'/></serial>",
            "<serial type='pty'><source path='/dev/pts/../sda'/></serial>",
            "<serial type='pty'><source path='/dev/pts/'/></serial>",
            "<serial type='pty'><source path='/etc/shadow'/></serial>",
        ] {
            let reason = Err("its serial port is no terminal of the host");
            assert_eq!(of(devices), reason, "{devices}");
        }
    }

    #[test]
    fn a_guest_whose_screen_is_not_that_of_the_options_is_found() {
        let local = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let with = document("<graphics type='vnc' port='-1' autoport='yes' listen='127.0.0.1'/>");
        let without = document("");
        assert!(is_screen_at(&with, local) && is_screen_at(&without, None));
        assert!(!is_screen_at(&with, None) && !is_screen_at(&without, local));
        assert!(!is_screen_at(&with, Some(VNC.listen)));
        assert!(is_screen_at("<domain type='test'/>", local));
    }
}
