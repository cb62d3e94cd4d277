//! Changes the MIG geometry of a GPU while a guest runs. The operator changes the geometry behind the idle virtual function, and
//! the resource class of the used one. Berth reshapes: it moves inventory and allocations. Kills of Berth and a loss of power
//! interrupt it.

use std::fs;
use std::thread;
use std::time::Duration;

use berth_tests::peer::Libvirtd;
use serde_json::{Map, Value, json};

use super::card_host::CardHost;
use super::vgpu::{CARD, FUNCTIONS};
use crate::program::hypervisor::PATIENCE;

/// An entry of `device_spec`: a virtual function, its vGPU type, and a resource class that replaces the default one.
type DeviceSpecEntry<'a> = (&'a str, u32, Option<&'a str>);

fn device_spec(functions: &[DeviceSpecEntry<'_>]) -> String {
    let entries = functions.iter().map(|(function, vgpu_type, class)| {
        let class = class.map(|class| format!(", resource_class = \"{class}\""));
        let class = class.unwrap_or_default();
        format!("{{ address = \"{function}\", managed = \"no\", vgpu_type = {vgpu_type}{class} }}")
    });
    let entries: Vec<_> = entries.collect();
    format!("[accelerators]\ndevice_spec = [{}]", entries.join(", "))
}

impl CardHost {
    /// Creates the virtual functions, as the operator's systemd unit does at boot. They allow the type 558.
    fn make_functions(&mut self) {
        fs::write(self.attribute(CARD, "sriov_numvfs"), "2\n").expect("an attribute");
        let is_there = |host: &Self| host.attribute(CARD, "virtfn1").exists();
        self.wait_until("the functions", is_there);
    }

    /// Sets the attributes that a virtual function has after its MIG instance was replaced.
    fn change_geometry(&self, function: &str, types: &str) {
        let heading = "ID    : vGPU Name";
        let creatable = self.attribute(function, "nvidia/creatable_vgpu_types");
        fs::write(creatable, format!("{heading}\n{types}\n")).expect("an attribute");
        let current = self.attribute(function, "nvidia/current_vgpu_type");
        fs::write(current, "0\n").expect("an attribute");
    }

    /// The provider of a virtual function: its UUID, and its inventories.
    fn provider_of_function(&self, function: &str) -> (String, Value) {
        let found = self.placement("/resource_providers");
        let all = found["resource_providers"].as_array().into_iter().flatten();
        let of_function = |it: &&Value| it["name"].to_string().contains(function);
        let uuid = all.clone().find(of_function).map(|it| it["uuid"].clone());
        let uuid = uuid.unwrap_or_else(|| panic!("{function}: {found}"));
        let uuid = uuid.as_str().expect("a UUID").to_owned();
        let inventories = self.placement(&format!("/resource_providers/{uuid}/inventories"));
        (uuid, inventories["inventories"].clone())
    }

    /// Asserts that the guest runs with the function and has its unit, and that the provider has only this class.
    #[track_caller]
    fn assert_has_function(&mut self, name: &str, function: &str, class: &str) {
        let guest = self.until_running(name);
        assert!(guest["devices"].to_string().contains(function), "{guest}");
        let (provider, inventories) = self.provider_of_function(function);
        assert_eq!(inventories[class]["total"], 1);
        assert_eq!(inventories.as_object().map(Map::len), Some(1));
        let allocations = self.allocations(guest["uuid"].as_str().expect("a UUID"));
        assert_eq!(allocations[&provider]["resources"], json!({ class: 1 }));
        assert_eq!(allocations.as_object().map(Map::len), Some(2));
    }
}

#[test]
fn the_geometry_of_a_gpu_changes_while_a_guest_uses_one_of_its_functions_and_its_allocations_stay_correct()
 {
    let libvirtd = Libvirtd::start_with_vgpu_card().expect("libvirtd starts");
    let [small, large] = ["CUSTOM_VGPU_TYPE_558", "CUSTOM_VGPU_TYPE_702"];
    let both = FUNCTIONS.map(|function| (function, 558, None));
    let mut host = CardHost::start_with(libvirtd, &device_spec(&both));
    host.up.kill();
    host.make_functions();
    host.home.set_env("BERTH__UPDATE_RESOURCES_INTERVAL", "1");
    host.start_berth();
    host.wait_until_healthy();
    host.until_free(2);
    for (profile, class) in [("small", small), ("large", large)] {
        let group = format!("resources:{class}=1");
        host.done(&[
            "accelerator",
            "profile",
            "create",
            profile,
            "--group",
            &group,
        ]);
    }
    host.create("one", &["--device-profile", "small"]);
    let guest = host.until_running("one");
    let devices = guest["devices"].to_string();
    let (used, idle) = match devices.contains(FUNCTIONS[0]) {
        true => (FUNCTIONS[0], FUNCTIONS[1]),
        false => (FUNCTIONS[1], FUNCTIONS[0]),
    };
    host.assert_has_function("one", used, small);
    let domain_id = host.virsh(&["domid", "one"]);

    // The MIG instance of the function does not allow the configured vGPU type, so the function is unfit: no guest gets it.
    let geometry = "702   : NVIDIA A100-3-20C";
    host.change_geometry(idle, geometry);
    host.until(&["device", "list"], |all| {
        all.iter()
            .any(|it| it["name"] == idle && it["state"] == "unfit")
    });
    host.done(&["device", "quarantine", idle, "--reason", "another geometry"]);
    host.up.kill();

    // The used function gets another resource class, the idle one another vGPU type.
    let renamed = "CUSTOM_MIG_1G";
    host.reconfigure(&device_spec(&[
        (used, 558, Some(renamed)),
        (idle, 702, None),
    ]));
    for pause in [300, 600, 900, 1200].map(Duration::from_millis) {
        host.start_berth();
        thread::sleep(pause);
        host.up.kill();
    }
    host.start_berth();
    host.wait_until_healthy();
    host.assert_has_function("one", used, renamed);
    assert_eq!(
        host.virsh(&["domid", "one"]),
        domain_id,
        "the guest was not restarted"
    );
    host.done(&["device", "release", idle]);
    host.wait_until("a unit that is not reserved", |host| {
        host.provider_of_function(idle).1[large]["reserved"] == 0
    });
    host.create("two", &["--device-profile", "large"]);
    host.assert_has_function("two", idle, large);

    host.lose_power();
    fs::write(host.attribute(CARD, "sriov_numvfs"), "0\n").expect("an attribute");
    host.wait_until("no functions", |host| host.types() == ["", ""]);
    // The MIG instance of guest `two` does not exist yet: the guest stays shut off, and keeps its allocation.
    host.make_functions();
    host.start_berth();
    host.wait_until_healthy();
    host.assert_has_function("one", used, renamed);
    assert_eq!(host.virsh(&["domstate", "two"]).trim(), "shut off");
    assert_eq!(host.provider_of_function(idle).1[large]["total"], 1);
    host.up.kill();
    host.change_geometry(idle, geometry);
    host.start_berth();
    thread::sleep(Duration::from_millis(900));
    host.kill_berth();
    host.assert_has_function("one", used, renamed);
    host.assert_has_function("two", idle, large);
    let output = host.done(&["reconcile", "--dry-run"]);
    assert!(output.contains("nothing differs"), "{output}");
    for guest in ["one", "two"] {
        host.done(&["guest", "delete", guest, "--wait"]);
    }
    host.until_free(2);
    assert_eq!(host.up.stop(PATIENCE).expect("it ends").code, 0);
}
