//! The libvirt driver in the shipped program: four reshapes on a node of libvirt's test driver against the real
//! Placement, unit by unit, and this host through a real libvirtd.

use std::path::Path;

use berth_libvirt::test_node::{TestGpu, TestGuest, TestMdev, TestNode};
use berth_model::PciAddress;
use berth_tests::berth::{BerthHome, Outcome};
use berth_tests::peer::Libvirtd;
use uuid::Uuid;

use crate::program::placement_api::Api;

const MDEV_TYPE: &str = "nvidia-558";

/// A node with a hypervisor in a file.
struct Node {
    home: BerthHome,
    name: String,
    way: String,
}

impl Node {
    fn new(api: &Api, name: &str, seen: &TestNode) -> Self {
        let home = BerthHome::new().expect("a home");
        seen.write(&home.path("")).expect("a node in a file");
        Self {
            home,
            name: name.to_owned(),
            way: api.way(),
        }
    }

    /// One startup and one tick with these further lines of configuration: sections, and keys before the first of them.
    #[track_caller]
    fn start(&mut self, lines: &str) -> Outcome {
        let (name, way) = (&self.name, &self.way);
        let text = format!(
            "compute_driver = \"libvirt\"\nhost = \"{name}\"\nstate_path = \"@HOME@/state\"\n\
             instances_path = \"@HOME@\"\n{lines}\n[libvirt]\nconnection_uri = \"test://@HOME@/node.xml\"\n\
             [agent]\nadmin_socket = \"@HOME@/agent.sock\"\n[placement]\n{way}\n"
        );
        self.home.configure(&text).expect("a configuration");
        let config = self.home.config_file().display().to_string();
        let arguments = ["--config", &config, "agent", "--once"];
        let outcome = self.home.run(arguments).expect("berth ends");
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        outcome
    }

    fn root(&self) -> String {
        let file = self.home.state_dir().join("compute_id");
        let text = std::fs::read_to_string(file).expect("a node that was reported");
        text.trim().to_owned()
    }

    /// The name of a card's provider.
    fn gpu(&self, bus: u8) -> String {
        format!("{}_pci_0000_{bus:02x}_00_0", self.name)
    }
}

fn address(bus: u8) -> PciAddress {
    let text = format!("0000:{bus:02x}:00.0");
    text.parse().expect("an address")
}

fn uuid(number: u32) -> Uuid {
    Uuid::from_u128(0x7e57_0000_0000_4000_8000_0000_0000_0000 | u128::from(number))
}

/// The n-th guest with these mediated devices, by the bus of their card; they are added to the node.
fn guest(node: &mut TestNode, number: u32, on: &[u8]) -> String {
    let mut guest = TestGuest::new(&format!("guest-{number}"), uuid(number));
    for bus in on {
        let device = uuid(1000 + u32::try_from(node.mdevs.len()).expect("few"));
        node.mdevs.push(TestMdev {
            uuid: device,
            type_id: MDEV_TYPE.to_owned(),
            gpu: address(*bus),
        });
        guest.mdevs.push(device);
    }
    node.guests.push(guest);
    uuid(number).to_string()
}

/// Invalid XML that libvirt accepts, stores and returns: the prefix `y` is not declared.
const ODD: &str = "<x:a xmlns:x='http://example.com/x'><y:b/></x:a>";

/// The migration that holds the n-th guest's resources; the hypervisor does not know it.
fn migration(number: u32) -> String {
    uuid(0xa000 + number).to_string()
}

/// Two cards with room for four more devices each.
fn cards() -> TestNode {
    TestNode {
        cpus: 16,
        memory_mib: 65_536,
        gpus: [0x81, 0x82]
            .map(|bus| TestGpu {
                address: address(bus),
                numa_node: None,
                available: vec![(MDEV_TYPE.to_owned(), 4)],
            })
            .into(),
        ..TestNode::default()
    }
}

fn units(rows: &[(&str, &str, u64)]) -> Vec<(String, String, u64)> {
    let mut rows: Vec<_> = rows
        .iter()
        .map(|(provider, class, amount)| ((*provider).to_owned(), (*class).to_owned(), *amount))
        .collect();
    rows.sort();
    rows
}

fn total(api: &Api, provider: &str, class: &str) -> Option<u64> {
    let rows = api.inventory(provider);
    rows.iter()
        .find(|(of, ..)| of == class)
        .map(|(_, total, _)| *total)
}

#[test]
fn vgpus_of_the_root_follow_their_guests_to_their_cards() {
    let api = Api::lease();
    let mut seen = cards();
    let one = guest(&mut seen, 1, &[0x81]);
    let two = guest(&mut seen, 2, &[0x81, 0x82]);
    // Two of its kind on two cards; only what the migration holds tells which is in migration.
    guest(&mut seen, 3, &[0x82]);
    seen.guests[2].vcpus = 3;
    let moving = migration(3);
    let mut node = Node::new(&api, "lv-vgpu", &seen);
    let devices = format!("[devices]\nenabled_mdev_types = [\"{MDEV_TYPE}\"]\n[model]\nvgpu = ");
    node.start(&format!("{devices}\"root\""));
    let root = node.root();
    assert_eq!(total(&api, &root, "VGPU"), Some(12));
    api.claim(
        &one,
        &[
            (&root, "VGPU", 1),
            (&root, "VCPU", 2),
            (&root, "MEMORY_MB", 2048),
        ],
    );
    api.claim(&two, &[(&root, "VGPU", 2), (&root, "VCPU", 2)]);
    api.claim_for_migration(&moving, &[(&root, "VGPU", 1), (&root, "VCPU", 3)]);

    node.start(&format!("{devices}\"per-gpu\""));
    let (a, b) = (node.gpu(0x81), node.gpu(0x82));
    assert_eq!(api.names(&root), ["lv-vgpu", &a, &b]);
    let name = "lv-vgpu";
    assert_eq!(
        api.held(&one),
        units(&[
            (name, "MEMORY_MB", 2048),
            (name, "VCPU", 2),
            (&a, "VGPU", 1)
        ])
    );
    assert_eq!(
        api.held(&two),
        units(&[(name, "VCPU", 2), (&a, "VGPU", 1), (&b, "VGPU", 1)])
    );
    assert_eq!(
        api.held(&moving),
        units(&[(name, "VCPU", 3), (&b, "VGPU", 1)])
    );
    assert_eq!(api.consumer_type(&moving), "MIGRATION");
    assert_eq!(total(&api, &root, "VGPU"), None);
    let totals: Vec<_> = api
        .tree(&root)
        .iter()
        .map(|(_, uuid)| total(&api, uuid, "VGPU"))
        .collect();
    assert_eq!(totals, [None, Some(6), Some(6)]);

    // And back: a reshape has an inverse.
    node.start(&format!("{devices}\"root\""));
    assert_eq!(api.names(&root), ["lv-vgpu"]);
    assert_eq!(
        api.held(&two),
        units(&[(name, "VCPU", 2), (name, "VGPU", 2)])
    );
    assert_eq!(
        api.held(&moving),
        units(&[(name, "VCPU", 3), (name, "VGPU", 1)])
    );
}

#[test]
fn a_guest_that_cannot_be_read_is_named_and_keeps_its_units_while_the_others_follow_theirs() {
    let api = Api::lease();
    let mut seen = cards();
    let one = guest(&mut seen, 1, &[0x81]);
    let odd = guest(&mut seen, 2, &[0x82]);
    seen.guests[1].metadata = ODD.to_owned();
    let mut node = Node::new(&api, "lv-odd", &seen);
    let devices = format!("[devices]\nenabled_mdev_types = [\"{MDEV_TYPE}\"]\n[model]\nvgpu = ");
    node.start(&format!("{devices}\"root\""));
    let root = node.root();
    for consumer in [&one, &odd] {
        api.claim(consumer, &[(&root, "VGPU", 1), (&root, "VCPU", 2)]);
    }
    let outcome = node.start(&format!("{devices}\"per-gpu\""));
    assert!(
        outcome.stderr.contains("guest-2") && outcome.stderr.contains(&odd),
        "{}",
        outcome.stderr
    );
    let (name, a) = ("lv-odd", node.gpu(0x81));
    assert_eq!(api.held(&one), units(&[(name, "VCPU", 2), (&a, "VGPU", 1)]));
    assert_eq!(
        api.held(&odd),
        units(&[(name, "VCPU", 2), (name, "VGPU", 1)])
    );
    let held = ("VGPU".to_owned(), 1, 1);
    assert!(api.inventory(&root).contains(&held), "held, not offered");

    // Once it can be read, the next start takes its units home.
    seen.guests[1].metadata.clear();
    seen.write(&node.home.path("")).expect("a node in a file");
    node.start(&format!("{devices}\"per-gpu\""));
    let b = node.gpu(0x82);
    assert_eq!(api.held(&odd), units(&[(name, "VCPU", 2), (&b, "VGPU", 1)]));
    assert_eq!(total(&api, &root, "VGPU"), None);
}

#[test]
fn a_class_of_the_operators_own_becomes_the_standard_one() {
    let api = Api::lease();
    let mut seen = cards();
    let one = guest(&mut seen, 1, &[0x81]);
    let two = guest(&mut seen, 2, &[0x82, 0x82]);
    let mut node = Node::new(&api, "lv-class", &seen);
    let devices = format!("[devices]\nenabled_mdev_types = [\"{MDEV_TYPE}\"]\n");
    node.start(&format!(
        "{devices}[mdev_{MDEV_TYPE}]\nmdev_class = \"CUSTOM_GRID\""
    ));
    let root = node.root();
    let tree = api.tree(&root);
    let (a, b) = (&tree[1], &tree[2]);
    assert_eq!(total(&api, &a.1, "CUSTOM_GRID"), Some(5));
    api.claim(&one, &[(&a.1, "CUSTOM_GRID", 1), (&root, "VCPU", 2)]);
    api.claim(&two, &[(&b.1, "CUSTOM_GRID", 2)]);
    let moving = migration(3);
    api.claim_for_migration(&moving, &[(&a.1, "CUSTOM_GRID", 1)]);

    node.start(&devices);
    assert_eq!(
        api.held(&one),
        units(&[("lv-class", "VCPU", 2), (&a.0, "VGPU", 1)])
    );
    assert_eq!(api.held(&two), units(&[(&b.0, "VGPU", 2)]));
    assert_eq!(api.held(&moving), units(&[(&a.0, "VGPU", 1)]));
    assert_eq!(api.consumer_type(&moving), "MIGRATION");
    assert_eq!(api.inventory(&a.1), [("VGPU".to_owned(), 5, 0)]);
    assert_eq!(api.inventory(&b.1), [("VGPU".to_owned(), 6, 0)]);
}

#[test]
fn dedicated_cpus_become_pcpu_for_the_guests_that_are_pinned() {
    let api = Api::lease();
    let mut seen = TestNode {
        cpus: 16,
        memory_mib: 65_536,
        ..TestNode::default()
    };
    let shared = guest(&mut seen, 1, &[]);
    let pinned = guest(&mut seen, 2, &[]);
    seen.guests[1].pins = vec!["8".to_owned(), "9".to_owned()];
    guest(&mut seen, 3, &[]);
    seen.guests[2].vcpus = 3;
    seen.guests[2].pins = ["10", "11", "12"].map(str::to_owned).into();
    let moving = migration(3);
    let mut node = Node::new(&api, "lv-pcpu", &seen);
    let sets =
        "[compute]\ncpu_shared_set = \"0-7\"\ncpu_dedicated_set = \"8-15\"\n[model]\npcpu = ";
    node.start(&format!("{sets}\"vcpu\""));
    let root = node.root();
    assert_eq!(total(&api, &root, "PCPU"), None);
    for consumer in [&shared, &pinned] {
        api.claim(consumer, &[(&root, "VCPU", 2), (&root, "MEMORY_MB", 2048)]);
    }
    api.claim_for_migration(&moving, &[(&root, "VCPU", 3), (&root, "MEMORY_MB", 2048)]);
    node.start(&format!("{sets}\"pcpu\""));
    let name = "lv-pcpu";
    assert_eq!(
        api.held(&shared),
        units(&[(name, "MEMORY_MB", 2048), (name, "VCPU", 2)])
    );
    assert_eq!(
        api.held(&pinned),
        units(&[(name, "MEMORY_MB", 2048), (name, "PCPU", 2)])
    );
    assert_eq!(
        api.held(&moving),
        units(&[(name, "MEMORY_MB", 2048), (name, "PCPU", 3)])
    );
    assert_eq!(api.consumer_type(&moving), "MIGRATION");
    assert_eq!(total(&api, &root, "PCPU"), Some(8));
    assert_eq!(total(&api, &root, "VCPU"), Some(8));
}

#[test]
fn cpus_and_memory_of_the_root_follow_their_guests_to_their_cells() {
    let api = Api::lease();
    let mut seen = TestNode {
        cpus: 16,
        memory_mib: 65_536,
        cells: vec![("0-7".to_owned(), 32_768), ("8-15".to_owned(), 32_768)],
        ..TestNode::default()
    };
    let right = guest(&mut seen, 1, &[]);
    seen.guests[0].cells = vec![("0-1".to_owned(), 2048, 1)];
    let across = guest(&mut seen, 2, &[]);
    seen.guests[1].cells = vec![("0".to_owned(), 1024, 0), ("1".to_owned(), 1024, 1)];
    let anywhere = guest(&mut seen, 3, &[]);
    guest(&mut seen, 4, &[]);
    seen.guests[3].vcpus = 3;
    seen.guests[3].cells = vec![("0-2".to_owned(), 2048, 1)];
    let moving = migration(4);
    let mut node = Node::new(&api, "lv-numa", &seen);
    node.start("reserved_host_memory_mb = 0\n[model]\nnuma = \"flat\"");
    let root = node.root();
    for consumer in [&right, &across, &anywhere] {
        api.claim(
            consumer,
            &[
                (&root, "VCPU", 2),
                (&root, "MEMORY_MB", 2048),
                (&root, "DISK_GB", 1),
            ],
        );
    }
    api.claim_for_migration(&moving, &[(&root, "VCPU", 3), (&root, "MEMORY_MB", 2048)]);
    node.start("reserved_host_memory_mb = 0\n[model]\nnuma = \"cells\"");
    let tree = api.tree(&root);
    let names: Vec<&str> = tree.iter().map(|(name, _)| name.as_str()).collect();
    let [name, zero, one] = names[..] else {
        panic!("{names:?}");
    };
    assert_eq!(name, "lv-numa");
    assert_eq!(
        api.held(&right),
        units(&[
            (name, "DISK_GB", 1),
            (one, "MEMORY_MB", 2048),
            (one, "VCPU", 2)
        ])
    );
    assert_eq!(
        api.held(&across),
        units(&[
            (name, "DISK_GB", 1),
            (zero, "MEMORY_MB", 1024),
            (zero, "VCPU", 1),
            (one, "MEMORY_MB", 1024),
            (one, "VCPU", 1),
        ])
    );
    assert_eq!(
        api.held(&moving),
        units(&[(one, "MEMORY_MB", 2048), (one, "VCPU", 3)])
    );
    assert_eq!(api.consumer_type(&moving), "MIGRATION");
    // Whole, to one of them.
    let held = api.held(&anywhere);
    let homes: Vec<&str> = held[..].iter().map(|(of, ..)| of.as_str()).collect();
    assert_eq!(held.len(), 3, "{held:?}");
    assert!(homes.contains(&name) && (homes[1] == homes[2]), "{held:?}");
    for (_, uuid) in &tree[1..] {
        assert_eq!(total(&api, uuid, "VCPU"), Some(8));
        assert_eq!(total(&api, uuid, "MEMORY_MB"), Some(32_768));
    }
}

#[test]
fn this_host_is_reported_through_a_real_libvirtd() {
    let api = Api::lease();
    let libvirtd = Libvirtd::start().expect("libvirtd starts");
    let mut home = BerthHome::new().expect("a home");
    let (uri, way) = (libvirtd.uri(), api.way());
    home.configure(&format!(
        "compute_driver = \"libvirt\"\nhost = \"lv-real\"\nstate_path = \"@HOME@/state\"\ninstances_path = \"@HOME@\"\n\
         [libvirt]\nconnection_uri = \"{uri}\"\n[agent]\nadmin_socket = \"@HOME@/agent.sock\"\n[placement]\n{way}\n"
    ))
    .expect("a configuration");
    let config = home.config_file().display().to_string();
    let run = |home: &mut BerthHome, arguments: &[&str]| {
        let arguments = [&["--config", &config], arguments].concat();
        let outcome = home.run(arguments).expect("berth ends");
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        outcome.stdout
    };
    run(&mut home, &["agent", "--once"]);
    let root = std::fs::read_to_string(home.state_dir().join("compute_id")).expect("reported");
    let root = root.trim();
    assert_eq!(api.names(root), ["lv-real"]);
    let online = std::fs::read_dir("/sys/devices/system/cpu").map_or(0, |entries| {
        let cpu = |name: &str| {
            let number = name.strip_prefix("cpu").unwrap_or_default();
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        };
        entries
            .flatten()
            .filter(|entry| cpu(&entry.file_name().to_string_lossy()))
            .filter(|entry| is_online(&entry.path()))
            .count()
    });
    assert_eq!(total(&api, root, "VCPU"), u64::try_from(online).ok());
    assert!(total(&api, root, "MEMORY_MB") > Some(512));
    assert!(total(&api, root, "DISK_GB") > Some(0));
    let traits = api.get(&format!("/resource_providers/{root}/traits"));
    let traits = traits["traits"].to_string();
    for expected in ["COMPUTE_NODE", "HW_CPU_X86_"] {
        assert!(traits.contains(expected), "{traits}");
    }
    let tree = run(&mut home, &["provider", "tree"]);
    assert!(
        tree.contains("lv-real") && tree.contains("VCPU 0/"),
        "{tree}"
    );
    assert_eq!(
        run(&mut home, &["reshape", "plan"]).trim(),
        "node lv-real: in sync"
    );
}

fn is_online(cpu: &Path) -> bool {
    // The first one has no such file.
    std::fs::read_to_string(cpu.join("online")).map_or(true, |text| text.trim() == "1")
}
