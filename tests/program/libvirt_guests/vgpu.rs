//! Virtual functions with a vGPU type (`vgpu_type` in `device_spec`): the agent sets the type at each start, and guests get
//! functions that have it, through kills at each of its writes and a loss of power.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use berth_tests::peer::Libvirtd;
use serde_json::{Value, json};

use super::card_host::CardHost;
use crate::program::hypervisor::PATIENCE;

pub(super) const CARD: &str = "0000:84:00.0";
pub(super) const FUNCTIONS: [&str; 2] = ["0000:84:00.4", "0000:84:00.5"];
/// As on the page about SR-IOV.
const SECTIONS: &str = r#"
[pci]
report_in_placement = true

[[pci.device_spec]]
address = { domain = "0000", bus = "84", slot = "00", function = "[4-7]" }
managed = "no"
vgpu_type = 558

[[pci.device_spec]]
address = "0000:84:00.0"
num_vfs = 2

[[pci.alias]]
name = "a40-2q"
resource_class = "CUSTOM_VGPU_TYPE_558"
device_type = "type-VF"

[filter_scheduler]
pci_in_placement = true
enabled_filters = ["AvailabilityZoneFilter", "ComputeFilter", "ComputeCapabilitiesFilter", "ImagePropertiesFilter",
    "ServerGroupAntiAffinityFilter", "ServerGroupAffinityFilter", "NUMATopologyFilter", "PciPassthroughFilter"]
"#;

impl CardHost {
    pub(super) fn attribute(&self, function: &str, name: &str) -> PathBuf {
        let functions = self.libvirtd.device_tree().join("bus/pci/devices");
        functions.join(function).join(name)
    }

    /// An attribute of a function; empty without the function.
    fn shown(&self, function: &str, name: &str) -> String {
        let text = fs::read_to_string(self.attribute(function, name)).unwrap_or_default();
        text.trim().to_owned()
    }

    pub(super) fn types(&self) -> [String; 2] {
        FUNCTIONS.map(|function| self.shown(function, "nvidia/current_vgpu_type"))
    }

    #[track_caller]
    pub(super) fn wait_until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !is_so(self) {
            let (types, log) = (self.types(), self.up.stderr());
            assert!(begun.elapsed() < PATIENCE, "{what}: {types:?}\n{log}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// From a card without virtual functions on: a life that is killed when it has written their number and before they are
    /// there, and one that is killed when it has written the type of the first and before it has verified it.
    fn kill_at_both_writes(&mut self) {
        self.libvirtd.pause_kernel();
        self.start_berth();
        self.kill_once("the number", |host| host.shown(CARD, "sriov_numvfs") == "2");
        let is_there = |host: &Self| host.attribute(CARD, "virtfn1").exists();
        self.wait_until("the functions", is_there);
        assert_eq!(self.types(), ["0", "0"]);
        self.libvirtd.pause_kernel();
        self.start_berth();
        self.kill_once("a type", |host| host.types()[0] == "558");
    }

    #[track_caller]
    fn kill_once(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        self.wait_until(what, is_so);
        let running = self.virsh(&["list", "--name"]);
        assert_eq!(running.trim(), "", "no guest runs before {what}");
        self.up.kill();
        self.libvirtd.resume_kernel();
    }

    /// The only guest runs with a function that has the type, and has a unit of its class; the function.
    #[track_caller]
    fn assert_runs_with_vgpu(&mut self, name: &str) -> String {
        let guest = self.until_running(name);
        let given = self.virsh(&["dumpxml", name, "--xpath", "//hostdev"]);
        assert!(given.contains("managed=\"no\""), "{given}");
        let is_given =
            |function: &&str| given.contains(&format!("function=\"0x{}\"", &function[11..]));
        let function = FUNCTIONS.into_iter().find(is_given);
        let function = function.unwrap_or_else(|| panic!("no function: {given}"));
        assert!(guest["devices"].to_string().contains(function));
        assert_eq!(self.types(), ["558", "558"]);
        let uuid = guest["uuid"].as_str().expect("a UUID");
        let allocations = self.allocations(uuid);
        let mut allocations = allocations.as_object().into_iter().flatten();
        let of_card = allocations.find(|(_, one)| one["resources"].get("VCPU").is_none());
        let (_, of_card) = of_card.expect("an allocation of the card");
        assert_eq!(of_card["resources"], json!({"CUSTOM_VGPU_TYPE_558": 1}));
        function.to_owned()
    }

    /// What Placement has of the card: the units of its classes, and its traits.
    fn card_in_placement(&self) -> (Value, Vec<String>) {
        let name = format!("card-host_{CARD}");
        let found = self.placement(&format!("/resource_providers?name={name}"));
        let uuid = found["resource_providers"][0]["uuid"].clone();
        let uuid = uuid.as_str().unwrap_or_else(|| panic!("{name}: {found}"));
        let of = |what: &str| self.placement(&format!("/resource_providers/{uuid}/{what}"));
        let inventories = of("inventories")["inventories"].clone();
        let units = inventories.as_object().into_iter().flatten();
        let units = units.map(|(class, one)| (class.clone(), one["total"].clone()));
        let traits = of("traits")["traits"].clone();
        let traits = traits.as_array().into_iter().flatten();
        let traits = traits.filter_map(Value::as_str).map(str::to_owned);
        (units.collect(), traits.collect())
    }

    #[track_caller]
    pub(super) fn until_free(&mut self, count: usize) {
        self.until(&["device", "list"], |all| {
            all.iter().filter(|one| one["state"] == "free").count() == count
        });
    }
}

#[test]
fn virtual_functions_get_their_vgpu_type_before_guests_get_them_through_kills_and_a_loss_of_power()
{
    let mut libvirtd = Libvirtd::start_with_vgpu_card().expect("libvirtd starts");
    libvirtd.pause_kernel();
    let mut host = CardHost::start_with(libvirtd, SECTIONS);
    host.up.kill();
    host.kill_at_both_writes();
    host.start_berth();
    host.wait_until_healthy();
    host.until_free(2);
    assert_eq!(host.types(), ["558", "558"]);
    let (units, traits) = host.card_in_placement();
    assert_eq!(units, json!({"CUSTOM_VGPU_TYPE_558": 2}));
    assert!(
        traits.contains(&"CUSTOM_VGPU_TYPE_558".to_owned()),
        "{traits:?}"
    );

    let alias = ["--property", "pci_passthrough:alias=a40-2q:1"];
    host.create("desk", &alias);
    thread::sleep(Duration::from_millis(300));
    host.kill_berth();
    let function = host.assert_runs_with_vgpu("desk");

    host.lose_power();
    fs::write(host.attribute(CARD, "sriov_numvfs"), "0\n").expect("an attribute");
    host.wait_until("no functions", |host| host.types() == ["", ""]);
    host.kill_at_both_writes();
    host.start_berth();
    host.wait_until_healthy();
    assert_eq!(host.assert_runs_with_vgpu("desk"), function);
    assert_eq!(host.card_in_placement().0, units);

    host.done(&["guest", "delete", "desk", "--wait"]);
    host.until_free(2);
    let output = host.done(&["reconcile", "--dry-run"]);
    assert!(output.contains("nothing differs"), "{output}");
    assert_eq!(host.types(), ["558", "558"]);
    assert_eq!(host.up.stop(PATIENCE).expect("it ends").code, 0);
}
