//! An Intel FPGA with virtual functions, as Cyborg's own driver finds it, is one device of Berth's; its provider is
//! found by the name that Cyborg gave it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use berth_model::{
    Inventory, NodeName, Provider, ProviderName, ProviderTree, ProviderUuid, ResourceClass,
};
use berth_sysfs::{AllowList, DeviceLists, LastObservation, Sysfs, offered_devices};
use berth_tests::peer::intel_fpgas;
use berth_virt::{OfferedHandle, PciInPlacement};
use serde_json::json;
use uuid::Uuid;

const CARD: &str = "0000:81:00.0";
const PARTS: [&str; 3] = ["0000:81:00.1", "0000:81:00.2", "0000:81:00.3"];

fn plant(sysfs: &Path, address: &str, product: &str) {
    let at = sysfs.join("devices/pci0000:80").join(address);
    fs::create_dir_all(&at).expect("a directory");
    let files = [
        ("vendor", "0x8086\n"),
        ("device", product),
        ("class", "0x120000\n"),
        ("numa_node", "-1\n"),
    ];
    for (file, text) in files {
        fs::write(at.join(file), text).expect("a file");
    }
    let all = sysfs.join("bus/pci/devices");
    fs::create_dir_all(&all).expect("a directory");
    symlink(&at, all.join(address)).expect("a link");
}

fn card_with_parts(sysfs: &Path) {
    plant(sysfs, CARD, "0x09c4\n");
    let card = sysfs.join("devices/pci0000:80").join(CARD);
    fs::write(card.join("sriov_totalvfs"), "4\n").expect("a file");
    fs::write(card.join("sriov_numvfs"), "3\n").expect("a file");
    for (number, part) in PARTS.iter().enumerate() {
        plant(sysfs, part, "0x09c5\n");
        let at = sysfs.join("devices/pci0000:80").join(part);
        symlink(&card, at.join("physfn")).expect("a link");
        symlink(&at, card.join(format!("virtfn{number}"))).expect("a link");
    }
}

#[test]
fn an_intel_fpga_found_by_cyborgs_driver_is_one_device_with_cyborgs_provider() {
    let sysfs = tempfile::tempdir().expect("a directory");
    card_with_parts(sysfs.path());
    let found = intel_fpgas(sysfs.path()).expect("Cyborg's driver answers");
    let [cyborgs] = &found.as_array().expect("a list")[..] else {
        panic!("{found}")
    };
    assert_eq!(cyborgs["num_accelerators"], PARTS.len(), "{found}");
    let name = cyborgs["name"].as_str().expect("a text");
    assert!(PARTS.iter().any(|part| name.ends_with(part)), "{name}");

    let node = NodeName::new("node.example.org").expect("a name");
    let listed = AllowList::read(&[json!({"vendor_id": "8086"})]).expect("a list");
    let lists = DeviceLists {
        compute: &AllowList::default(),
        pci: PciInPlacement::NotReported,
        accelerator: &listed,
    };
    let observed =
        Sysfs::at(sysfs.path()).observe_devices(lists, &mut LastObservation::default(), |_| false);
    let offered = offered_devices(&node, lists, &observed.expect("a tree").0);
    let [card] = &offered.devices[..] else {
        panic!("{offered:?}")
    };
    let handle = |info: &serde_json::Value| {
        let text = |key: &str| info[key].as_str().expect("a text").to_owned();
        let (domain, bus) = (text("domain"), text("bus"));
        let address = format!("{domain}:{bus}:{}.{}", text("device"), text("function"));
        OfferedHandle::Function(address.parse().expect("an address"))
    };
    let handles = cyborgs["attach_handles"].as_array().expect("a list");
    let mut handles: Vec<_> = handles.iter().map(handle).collect();
    handles.sort();
    assert_eq!(card.handles, handles);
    assert_eq!(card.units(), handles.len() as u64);

    // Its provider, as Cyborg's conductor makes it of the name.
    let root = ProviderUuid::from(Uuid::from_u128(1));
    let mut tree = ProviderTree::new(Provider::root(root, node.root_name().clone()));
    let name = ProviderName::new(name).expect("a name");
    let uuid = ProviderUuid::of_deployable(&name);
    let mut child = Provider::child(uuid, name, root);
    let total = Inventory::of(3).expect("an inventory");
    child.inventories.insert(ResourceClass::FPGA, total);
    tree.insert(child).expect("a child");
    let provider = card.provider_in(&node, &tree).map(Provider::uuid);
    assert_eq!(provider, Some(uuid));
}
