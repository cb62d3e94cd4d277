//! The width of a guest's physical addresses (`hw:maxphysaddr_mode`, `hw:maxphysaddr_bits`), which GPUs with large memory
//! regions need: hosts are chosen by its trait, and the guest has the width through a kill and a loss of power.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::thread;
use std::time::Duration;

use berth_tests::peer::Libvirtd;

use super::card_host::CardHost;
use crate::program::hypervisor::PATIENCE;

const NAME: &str = "wide";
const EMULATED: &[&str] = &[
    "--property",
    "hw:maxphysaddr_mode=emulate",
    "--property",
    "hw:maxphysaddr_bits=38",
];
const PASSTHROUGH: &[&str] = &["--property", "hw:maxphysaddr_mode=passthrough", "--wait"];

impl CardHost {
    /// The guest runs with the width, according to libvirt and to its own processor.
    #[track_caller]
    fn assert_has_width(&mut self) {
        let guest = self.until_running(NAME);
        let element = self.virsh(&["dumpxml", NAME, "--xpath", "/domain/cpu/maxphysaddr"]);
        assert_eq!(element.trim(), r#"<maxphysaddr mode="emulate" bits="38"/>"#);
        let uuid = guest["uuid"].as_str().expect("a UUID");
        self.console(uuid, |output| output.contains("berth-guest: ready"));
        // QEMU reads what is typed only while the terminal is open.
        let terminal = self.virsh(&["ttyconsole", NAME]);
        let terminal = OpenOptions::new().write(true).open(terminal.trim());
        let mut terminal = terminal.expect("a terminal");
        let command = b"grep -m1 '^address sizes' /proc/cpuinfo\n";
        terminal.write_all(command).expect("a command is typed");
        self.console(uuid, |output| {
            output.contains("address sizes\t: 38 bits physical")
        });
    }
}

#[test]
fn a_guest_with_a_width_of_addresses_goes_where_it_is_offered_and_has_it_through_a_kill_and_a_loss_of_power()
 {
    let libvirtd = Libvirtd::start_with_cards().expect("libvirtd starts");
    let mut host = CardHost::start_with(libvirtd, "");
    host.wait_until_healthy();
    let refused = host.try_create("other", PASSTHROUGH);
    let refused = refused.expect_err("emulated processors");
    assert!(
        refused.contains("COMPUTE_ADDRESS_SPACE_PASSTHROUGH"),
        "{refused}"
    );
    host.done(&["guest", "delete", "other", "--wait"]);

    host.create(NAME, EMULATED);
    thread::sleep(Duration::from_millis(300));
    host.kill_berth();
    host.assert_has_width();
    host.lose_power();
    host.start_berth();
    host.wait_until_healthy();
    host.assert_has_width();
    host.done(&["guest", "delete", NAME, "--wait"]);
    assert_eq!(host.up.stop(PATIENCE).expect("it ends").code, 0);
}
