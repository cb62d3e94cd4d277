//! Guests with devices on the real libvirtd and QEMU, through `berth up`, with kills of it and of libvirtd. The cards
//! are simulated by files; the rest is real.

mod card_host;
mod life;
mod mig;
mod processor;
mod small_system;
mod vgpu;

use std::thread;
use std::time::Duration;

use crate::program::hypervisor::PATIENCE;
use card_host::CardHost;

const CARDS_IDS: &str = "1234:1111";
const GPU: &[&str] = &["--device-profile", "gpu"];

#[test]
fn a_guest_runs_on_libvirt_with_its_card_through_kills_of_berth_and_its_delete_leaves_nothing() {
    let mut host = CardHost::start();
    // The kill falls at another step of the boot each time.
    for (round, pause) in [50, 300, 900].into_iter().enumerate() {
        let name = format!("job-{round}");
        host.create(&name, GPU);
        thread::sleep(Duration::from_millis(pause));
        host.kill_berth();
        let whole = host.assert_runs_with_card(&name);
        let uuid = whole.0.clone();
        let life = host.virsh(&["domid", &name]);
        if round == 0 {
            host.kill_berth();
            assert_eq!(host.assert_runs_with_card(&name), whole);
            let now = host.virsh(&["domid", &name]);
            assert_eq!(now, life, "a guest that runs is left running");
            let console = host.console(&uuid, |output| output.contains("berth-guest: ready"));
            let sees =
                |line: &&str| line.starts_with("berth-guest: pci") && line.contains(CARDS_IDS);
            assert!(console.lines().any(|line| sees(&line)), "{console}");
            // The guest's system gets the request, ends, and starts again with its devices.
            host.done(&["guest", "reboot", &uuid]);
            let console = host.console(&uuid, |output| {
                output.matches("berth-guest: ready").count() == 2
            });
            assert!(console.contains("reboot: Power down"), "{console}");
            assert_eq!(console.lines().filter(sees).count(), 2, "{console}");
            assert_eq!(host.assert_runs_with_card(&name), whole);
            assert_eq!(
                host.virsh(&["domid", &name]),
                life,
                "it was not switched off"
            );
        }
        host.done(&["guest", "delete", &uuid]);
        if round > 0 {
            thread::sleep(Duration::from_millis(pause / 3));
            host.kill_berth();
        }
        host.assert_nothing_left(&uuid);
    }
    assert_eq!(host.up.stop(PATIENCE).expect("it ends").code, 0);
}

#[test]
fn a_killed_libvirtd_leaves_a_guest_with_its_card_or_neither() {
    let mut host = CardHost::start();
    for (round, pause) in [150, 700].into_iter().enumerate() {
        let name = format!("job-{round}");
        host.create(&name, GPU);
        thread::sleep(Duration::from_millis(pause));
        host.kill_libvirtd();
        let guests = host.settled();
        let uuid = guests[0]["uuid"].as_str().expect("a UUID").to_owned();
        if guests[0]["status"] == "active" {
            let whole = host.assert_runs_with_card(&name);
            let life = host.virsh(&["domid", &name]);
            host.kill_libvirtd();
            assert_eq!(host.assert_runs_with_card(&name), whole);
            assert_eq!(host.virsh(&["domid", &name]), life);
        }
        host.delete(&uuid);
    }
    assert_eq!(host.up.stop(PATIENCE).expect("it ends").code, 0);
}
