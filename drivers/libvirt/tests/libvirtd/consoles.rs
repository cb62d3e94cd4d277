//! Consoles of guests on the real libvirtd and QEMU: the VNC server speaks, and a guest of an earlier release gets its screen at
//! its next start.

use std::io::Read as _;
use std::net::TcpStream;

use berth_libvirt::{LibvirtDriver, LibvirtOptions};
use berth_model::ConsoleKind;
use berth_virt::guest_spec::GuestDisks;
use berth_virt::{ConsoleAddress, GuestError, PowerAction, VirtDriver as _};

use crate::PATIENCE;
use crate::daemon::Daemon;
use crate::guests::{driver, driver_options, guest_spec};
use crate::loaded;

/// Off, without a grace period.
const OFF: PowerAction = PowerAction::Stop {
    grace: std::time::Duration::ZERO,
};

fn first_words(address: &ConsoleAddress) -> String {
    let ConsoleAddress::Tcp(address) = address else {
        panic!("{address:?} is no port");
    };
    let mut screen = TcpStream::connect(address).expect("it listens");
    screen.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut words = [0; 12];
    screen.read_exact(&mut words).expect("it speaks first");
    String::from_utf8_lossy(&words).into_owned()
}

#[tokio::test]
async fn a_guest_has_a_screen_and_a_serial_port_while_it_runs() {
    loaded();
    let daemon = Daemon::start();
    let folder = tempfile::tempdir().expect("a folder");
    let driver = driver(&daemon);
    let spec = guest_spec(folder.path(), GuestDisks::default());
    let _ = driver.spawn(&spec).await.expect("it starts");
    let vnc = driver.console(spec.uuid, ConsoleKind::Vnc).await;
    assert_eq!(first_words(&vnc.expect("a screen")), "RFB 003.008\n");
    let serial = driver.console(spec.uuid, ConsoleKind::Serial).await;
    match serial.expect("a serial port") {
        ConsoleAddress::Terminal(path) => assert!(path.exists(), "{}", path.display()),
        other => panic!("{other:?} is no terminal"),
    }
    let _ = driver.power(spec.uuid, OFF).await.expect("it ends");
    for kind in [ConsoleKind::Vnc, ConsoleKind::Serial] {
        let refused = driver
            .console(spec.uuid, kind)
            .await
            .expect_err("it is off");
        assert!(
            refused.to_string().contains("it is not running"),
            "{refused}"
        );
    }
    let _ = driver.destroy(spec.uuid).await.expect("it is undefined");
}

#[tokio::test]
async fn a_guest_without_a_screen_runs_on_and_gets_one_at_its_next_start() {
    loaded();
    let daemon = Daemon::start();
    let folder = tempfile::tempdir().expect("a folder");
    let earlier = LibvirtDriver::new(LibvirtOptions {
        vnc: None,
        ..driver_options(&daemon)
    });
    let spec = guest_spec(folder.path(), GuestDisks::default());
    let _ = earlier.spawn(&spec).await.expect("it starts");
    let driver = driver(&daemon);
    let before = driver.guests().await.expect("guests are listed");
    let _ = driver.spawn(&spec).await.expect("it runs");
    let refused = driver.console(spec.uuid, ConsoleKind::Vnc).await;
    match refused.expect_err("it has no screen") {
        GuestError::NoConsole { reason, .. } => assert!(reason.ends_with("at its next start")),
        other => panic!("{other}"),
    }
    assert_eq!(driver.guests().await.expect("guests are listed"), before);
    let _ = driver.power(spec.uuid, OFF).await.expect("it ends");
    let _ = driver.spawn(&spec).await.expect("it starts");
    let vnc = driver.console(spec.uuid, ConsoleKind::Vnc).await;
    assert_eq!(first_words(&vnc.expect("a screen")), "RFB 003.008\n");
    let _ = driver.destroy(spec.uuid).await.expect("it ends");
}
