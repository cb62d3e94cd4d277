//! Devices of a machine file that are removed, added, unfit and fit again, as Placement sees them.

use std::collections::BTreeSet;

use berth_fake::{Machine, machines};
use berth_model::{
    NodeName, Plan, Provider, ProviderTree, ProviderUuid, ResourceClass, Trait, Usages, plan,
};
use berth_virt::{DeviceOwner, OfferedDevice, UnfitReason, provider_tree};
use uuid::Uuid;

/// A host with its machine file, and its providers in Placement.
struct Stage {
    text: String,
    tree: ProviderTree,
    used: Usages,
}

fn node() -> NodeName {
    NodeName::new("acc-01").unwrap()
}

impl Stage {
    fn new() -> Self {
        let (_, text) = machines()
            .into_iter()
            .find(|(name, _)| *name == "accelerators")
            .unwrap();
        let root: ProviderUuid = Uuid::from_u128(1).into();
        let mut stage = Self {
            text: text.to_owned(),
            tree: ProviderTree::new(Provider::root(root, node().root_name().clone())),
            used: Usages::new(),
        };
        stage.tick();
        stage
    }

    /// One tick: reads the machine file and reports changes to Placement. Returns the number of held units.
    fn tick(&mut self) -> u64 {
        let machine = Machine::from_text("accelerators", &self.text).unwrap();
        let desired = provider_tree(&machine.view(), &self.tree, &node()).unwrap();
        let plan = plan(&self.tree, desired, &self.used);
        let held = plan.held().iter().map(|held| held.used).sum();
        match &plan {
            Plan::InSync { .. } => {}
            Plan::Update { diff, .. } => self.tree = diff.apply(&self.tree).unwrap(),
            Plan::ReshapeNeeded(pending) => panic!("{pending}"),
        }
        held
    }

    fn device(&self, address: &str) -> OfferedDevice {
        let machine = Machine::from_text("accelerators", &self.text).unwrap();
        let mut devices = machine.nodes[0].devices.iter();
        let address = address.parse().unwrap();
        devices.find(|one| one.address == address).unwrap().clone()
    }

    fn provider(&self, name: &str) -> Option<&Provider> {
        self.tree.by_name(&name.parse().unwrap())
    }

    /// Total and reserved of the one class.
    fn amounts(&self, name: &str) -> (u32, u32) {
        let inventories = &self.provider(name).unwrap().inventories;
        let [inventory] = &inventories.values().collect::<Vec<_>>()[..] else {
            panic!("{inventories:?}")
        };
        (inventory.total, inventory.reserved)
    }

    /// The table of the device with this address in the file.
    fn table(&self, address: &str) -> String {
        let tables = self.text.split_inclusive("\n\n");
        let of = format!("address = \"{address}\"");
        tables
            .into_iter()
            .find(|table| table.contains(&of))
            .unwrap()
            .to_owned()
    }

    fn reasons(&self, name: &str) -> Vec<UnfitReason> {
        let traits = &self.provider(name).unwrap().traits;
        let has = |reason: &UnfitReason| traits.contains(&reason.as_trait());
        UnfitReason::ALL.into_iter().filter(has).collect()
    }
}

#[test]
fn the_accelerators_are_reported_under_cyborgs_names() {
    let stage = Stage::new();
    for (name, class, total) in [
        ("acc-01_0000:17:00.0", "PGPU", 1),
        ("acc-01_0000:65:00.0", "PGPU", 1),
        ("acc-01_0000:ca:00.0", "VGPU", 4),
        ("acc-01_0000:B1:00.0", "CUSTOM_X710_VF", 4),
    ] {
        let class = ResourceClass::new(class).unwrap();
        let provider = stage.provider(name).unwrap();
        assert_eq!(provider.inventories[&class].total, total, "{name}");
        assert_eq!(stage.amounts(name).1, 0);
    }
    let uuid = stage.provider("acc-01_0000:17:00.0").unwrap().uuid();
    let name = "acc-01_0000:17:00.0".parse().unwrap();
    assert_eq!(uuid, ProviderUuid::of_deployable(&name));
    let traits = &stage.provider("acc-01_0000:ca:00.0").unwrap().traits;
    let names: BTreeSet<_> = traits.iter().map(Trait::as_str).collect();
    let expected = [
        "CUSTOM_NVIDIA_20B7_A30_1_6C",
        "CUSTOM_OWNER_BERTH",
        "OWNER_CYBORG",
    ];
    assert_eq!(names, expected.into());
    assert_eq!(stage.device("b1:00.0").owner, DeviceOwner::Compute);
}

#[test]
fn a_device_that_is_pulled_out_is_held_while_it_is_in_use_and_goes_when_it_is_free() {
    let mut stage = Stage::new();
    let name = "acc-01_0000:17:00.0";
    let place = (stage.provider(name).unwrap().uuid(), ResourceClass::PGPU);
    stage.used.insert(place.clone(), 1);
    let table = stage.table("0000:17:00.0");
    let whole = stage.text.clone();
    stage.text = whole.replace(&table, "");
    assert_eq!(stage.tick(), 1);
    assert_eq!(stage.amounts(name), (1, 1));
    assert_eq!(stage.reasons(name), [UnfitReason::Vanished]);
    assert_eq!(stage.tick(), 1, "steady");
    // The device returns while its guest still has it: nothing changes.
    stage.text.clone_from(&whole);
    assert_eq!(stage.tick(), 0);
    assert_eq!((stage.amounts(name), stage.reasons(name)), ((1, 0), vec![]));
    // The device is removed again, until its guest is deleted.
    stage.text = whole.replace(&table, "");
    stage.tick();
    stage.used.insert(place, 0);
    stage.tick();
    assert_eq!(stage.provider(name), None);
    assert!(stage.provider("acc-01_0000:65:00.0").is_some());
    stage.text = whole;
    stage.tick();
    assert_eq!(stage.amounts(name), (1, 0));
}

#[test]
fn a_sick_device_is_reserved_with_its_reason_and_there_is_a_way_back() {
    let mut stage = Stage::new();
    let name = "acc-01_0000:ca:00.0";
    let table = stage.table("0000:ca:00.0");
    let well = stage.text.clone();
    for (word, reason) in UnfitReason::ALL.map(|reason| (reason.as_str(), reason)) {
        if reason == UnfitReason::Vanished {
            continue;
        }
        let unhealthy = format!(
            "{}health = \"{word}\"\n\n",
            table.trim_end_matches('\n').to_owned() + "\n"
        );
        stage.text = well.replace(&table, &unhealthy);
        assert_eq!(stage.tick(), 0);
        assert_eq!(stage.amounts(name), (4, 4), "{word}");
        assert_eq!(stage.reasons(name), [reason]);
        stage.text.clone_from(&well);
        stage.tick();
        assert_eq!((stage.amounts(name), stage.reasons(name)), ((4, 0), vec![]));
    }
}

#[test]
fn a_card_that_loses_a_virtual_function_offers_one_less() {
    let mut stage = Stage::new();
    stage.text = stage.text.replace(", \"0000:b1:02.3\"", "");
    stage.tick();
    assert_eq!(stage.amounts("acc-01_0000:B1:00.0"), (3, 0));
}

#[test]
fn what_is_wrong_with_a_device_is_reported_with_its_key() {
    let refused = |from: &str, to: &str| {
        let stage = Stage::new();
        let text = stage.text.replacen(from, to, 1);
        assert_ne!(text, stage.text);
        Machine::from_text("m", &text).unwrap_err().to_string()
    };
    for (from, to, expected) in [
        (
            "vendor = \"10de\"",
            "vendor = \"10dx\"",
            "node[0].device[0].vendor: \"10dx\" is not four hexadecimal digits",
        ),
        ("product = \"1eb8\"", "", "\"product\" is missing"),
        (
            "owner = \"compute\"",
            "owner = \"nova\"",
            "known are \"accelerator\", \"compute\"",
        ),
        ("type = \"NIC\"", "type = \"NIK\"", "did you mean \"NIC\"?"),
        (
            "class = \"CUSTOM_X710_VF\"",
            "class = \"X710\"",
            "not a resource class",
        ),
        ("numa = 0", "numa = 7", "unknown NUMA cell 7"),
        (
            "address = \"0000:65:00.0\"",
            "address = \"0000:17:00.0\"",
            "is already at node[0].device[0].address",
        ),
        ("mdevs = {", "functions = []\nmdevs = {", "not by both"),
        ("count = 4", "count = 0", "out of range"),
        (
            "model = \"GRID A30-1-6C\"",
            "health = \"ill\"",
            "unknown value \"ill\"",
        ),
    ] {
        let text = refused(from, to);
        assert!(text.contains(expected), "{to}: {text}");
    }
}
