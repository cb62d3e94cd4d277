//! Invalid machine files: each error names the position and the expected value.

use berth_fake::{GpuHost, Machine, machines};
use berth_model::NodeName;
use berth_virt::ResourceModel;
use proptest::prelude::*;

const GOOD: &str = r#"[model]
vgpu = "root"

[[node]]
name = "n1"
memory_mib = 1024
disk = 10
cpus = { online = "0-3", shared = "0-1", dedicated = "2-3" }

[[node.cell]]
id = 0
cpus = "0-3"
memory_mib = 1024

[[node.gpu]]
address = "0000:01:00.0"
types = { nvidia-558 = 4 }
enabled = "nvidia-558"

[[node.nic]]
address = "0000:02:00.0"
functions = ["0000:02:10.0", "0000:02:10.1"]

[[node.custom]]
class = "CUSTOM_CARD"
formerly = ["CUSTOM_OLD"]
total = 2

[[node.guest]]
uuid = "00000000-0000-0000-0000-000000000001"
vcpus = 2
memory_mib = 512
cells = [{ id = 0, vcpus = 2, memory_mib = 512 }]
mdevs = [{ uuid = "00000000-0000-0000-0000-0000000000aa", gpu = "0000:01:00.0" }]
functions = ["0000:02:10.0"]
customs = { CUSTOM_CARD = 1 }
migration = { consumer = "00000000-0000-0000-0000-000000000002", known = true }
"#;

/// The error text of an invalid machine.
fn error_text(text: &str) -> String {
    match Machine::from_text("m.toml", text) {
        Ok(_) => "taken".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn more_devices_than_an_inventory_can_hold_are_refused() {
    let gpu = "[[node.nic]]";
    let second = "[[node.gpu]]\naddress = \"0000:03:00.0\"\ntypes = { nvidia-558 = 2147483644 }\n\
                  enabled = \"nvidia-558\"\n\n[[node.nic]]";
    let message = error_text(&GOOD.replace(gpu, second));
    assert!(message.contains("offer 2147483648 devices"), "{message}");
    assert!(
        message.contains("m.toml:") && message.contains("types"),
        "{message}"
    );
    let fits = second.replace("2147483644", "2147483643");
    assert_eq!(error_text(&GOOD.replace(gpu, &fits)), "taken");
}

#[test]
fn a_wrong_machine_is_refused_with_place_and_remedy() {
    let cases = [
        (
            "vgpu = \"root\"",
            "vgpu = \"rooot\"",
            "m.toml:2:8: model.vgpu: unknown value \"rooot\"; did you mean \"root\"?",
        ),
        (
            "vgpu = \"root\"",
            "vgpu = 1",
            "m.toml:2:8: model.vgpu: found a whole number; expected a text in quotes",
        ),
        (
            "vgpu = \"root\"",
            "vgqu = \"root\"",
            "m.toml:2:1: model.vgqu: unknown key; did you mean \"vgpu\"?",
        ),
        (
            "[model]",
            "[modell]",
            "m.toml:1:2: modell: unknown key; did you mean \"model\"?",
        ),
        (
            "[[node]]",
            "[[node]",
            "m.toml:4:8: this is not valid TOML: unclosed array table, expected `]`",
        ),
        (
            "name = \"n1\"",
            "",
            "m.toml:4:1: node[0]: \"name\" is missing: the node's name, for example name = \"gpu-01\"",
        ),
        (
            "name = \"n1\"",
            "name = \"n 1\"",
            "m.toml:5:8: node[0].name: \"n 1\" cannot name a node: 1 to 160 characters without white space or control characters are allowed",
        ),
        (
            "name = \"n1\"",
            "name = \"n1\"\nuuid = \"n1\"",
            "m.toml:6:8: node[0].uuid: \"n1\" is not a UUID (expected 32 hexadecimal digits, usually in five groups)",
        ),
        (
            "memory_mib = 1024\ndisk",
            "memory_mib = -1\ndisk",
            "m.toml:6:14: node[0].memory_mib: -1 is out of range; expected a whole number of MiB, 0 to 2147483647",
        ),
        (
            "memory_mib = 1024\ndisk",
            "memory_mib = 9999999999\ndisk",
            "m.toml:6:14: node[0].memory_mib: 9999999999 is out of range; expected a whole number of MiB, 0 to 2147483647",
        ),
        (
            "memory_mib = 1024\ndisk",
            "memory_mib = 1.5\ndisk",
            "m.toml:6:14: node[0].memory_mib: found a fraction; expected a whole number of MiB, 0 to 2147483647",
        ),
        (
            "memory_mib = 1024\ndisk",
            "memroy_mib = 1024\ndisk",
            "m.toml:4:1: node[0]: \"memory_mib\" is missing: the node's memory in MiB\nm.toml:6:1: node[0].memroy_mib: unknown key; did you mean \"memory_mib\"?",
        ),
        (
            "disk = 10",
            "disk = \"sharde\"",
            "m.toml:7:8: node[0].disk: unknown value \"sharde\"; did you mean \"shared\"?",
        ),
        (
            "disk = 10",
            "disk = true",
            "m.toml:7:8: node[0].disk: found true or false; expected a whole number of GiB, 0 to 2147483647",
        ),
        (
            "disk = 10",
            "disk = 10\ntraits = [\"hw_cpu\"]",
            "m.toml:8:11: node[0].traits[0]: \"hw_cpu\" is not a trait: 1 to 255 of A-Z, 0-9 and _ are allowed",
        ),
        (
            "disk = 10",
            "disk = 10\ntraits = \"HW\"",
            "m.toml:8:10: node[0].traits: found a text; expected a list",
        ),
        (
            "online = \"0-3\"",
            "online = \"3-0\"",
            "m.toml:8:19: node[0].cpus.online: \"3-0\" is no part of a CPU set: numbers 0 to 65535, ranges (4-7) and exclusions (^5), separated by commas, are",
        ),
        (
            "shared = \"0-1\"",
            "shared = \"0-7\"",
            "m.toml:8:8: node[0].cpus: CPUs 2-3 are shared and dedicated; a CPU is one of them\nm.toml:8:35: node[0].cpus.shared: CPUs 4-7 are not online; use CPUs of 0-3",
        ),
        (
            "cpus = { online",
            "cpus = { onlin",
            "m.toml:8:8: node[0].cpus: \"online\" is missing: the CPUs that are online, as \"0-63\"\nm.toml:8:10: node[0].cpus.onlin: unknown key; did you mean \"online\"?",
        ),
        (
            "[[node.gpu]]",
            "[[node.cell]]\nid = 0\ncpus = \"\"\nmemory_mib = 0\n\n[[node.gpu]]",
            "m.toml:16:6: node[0].cell[1].id: cell 0 of node[0] is already at node[0].cell[0].id",
        ),
        (
            "address = \"0000:01:00.0\"",
            "address = \"01:00\"",
            "m.toml:16:11: node[0].gpu[0].address: \"01:00\" is not a PCI address: expected [domain:]bus:slot.function in hexadecimal, for example 0000:84:00.0 (slot 00 to 1f, function 0 to 7)\nm.toml:34:65: node[0].guest[0].mdevs[0].gpu: the node has no GPU 0000:01:00.0; a GPU that was removed must be left out here, too",
        ),
        (
            "enabled = \"nvidia-558\"",
            "enabled = \"nvidia-559\"",
            "m.toml:18:11: node[0].gpu[0].enabled: the GPU has no type \"nvidia-559\"; did you mean \"nvidia-558\"?",
        ),
        (
            "enabled = \"nvidia-558\"",
            "class = \"GPU\"",
            "m.toml:18:9: node[0].gpu[0].class: \"GPU\" is not a resource class: it is not a standard class, and a custom class starts with CUSTOM_\nm.toml:34:65: node[0].guest[0].mdevs[0].gpu: the node has no GPU 0000:01:00.0; a GPU that was removed must be left out here, too",
        ),
        (
            "enabled = \"nvidia-558\"",
            "numa = 3",
            "m.toml:18:8: node[0].gpu[0].numa: unknown NUMA cell 3; the node has 0",
        ),
        (
            "address = \"0000:02:00.0\"",
            "address = \"0000:01:00.0\"",
            "m.toml:21:11: node[0].nic[0].address: PCI device 0000:01:00.0 of node[0] is already at node[0].gpu[0].address",
        ),
        (
            "\"0000:02:10.1\"",
            "\"0000:02:10.0\"",
            "m.toml:22:30: node[0].nic[0].functions[1]: PCI device 0000:02:10.0 of node[0] is already at node[0].nic[0].functions[0]",
        ),
        (
            "class = \"CUSTOM_CARD\"",
            "class = \"VCPU\"",
            "m.toml:25:9: node[0].custom[0].class: VCPU is reported from the node's own keys; use another class\nm.toml:36:27: node[0].guest[0].customs.CUSTOM_CARD: the node has no such custom resource",
        ),
        (
            "uuid = \"00000000-0000-0000-0000-000000000001\"",
            "",
            "m.toml:29:1: node[0].guest[0]: \"uuid\" is missing: the instance's UUID",
        ),
        (
            "vcpus = 2\nmemory",
            "vcpus = 2\npower = \"on\"\nmemory",
            "m.toml:32:9: node[0].guest[0].power: unknown value \"on\"; known are \"running\", \"shut off\"",
        ),
        (
            "vcpus = 2\nmemory",
            "vcpus = 2\ncpu_policy = \"mixed\"\nmemory",
            "m.toml:29:1: node[0].guest[0]: \"dedicated_vcpus\" is missing: how many of a mixed guest's CPUs are dedicated",
        ),
        (
            "vcpus = 2\nmemory",
            "vcpus = 2\ncpu_policy = \"mixed\"\ndedicated_vcpus = 3\nmemory",
            "m.toml:33:19: node[0].guest[0].dedicated_vcpus: 3 is out of range; expected a whole number of the guest's CPUs, 0 to 2",
        ),
        (
            "vcpus = 2\nmemory",
            "vcpus = 2\ndedicated_vcpus = 1\nmemory",
            "m.toml:32:19: node[0].guest[0].dedicated_vcpus: only a mixed guest has dedicated_vcpus; cpu_policy = \"mixed\" is required",
        ),
        (
            "cells = [{ id = 0",
            "cells = [{ id = 1",
            "m.toml:33:17: node[0].guest[0].cells[0].id: unknown NUMA cell 1; the node has 0",
        ),
        (
            "gpu = \"0000:01:00.0\" }",
            "gpu = \"0000:09:00.0\" }",
            "m.toml:34:65: node[0].guest[0].mdevs[0].gpu: the node has no GPU 0000:09:00.0; a GPU that was removed must be left out here, too",
        ),
        (
            "functions = [\"0000:02:10.0\"]",
            "functions = [\"0000:02:10.7\"]",
            "m.toml:35:14: node[0].guest[0].functions[0]: no nic and no device of the node has the function 0000:02:10.7",
        ),
        (
            "000000000002\", known = true",
            "000000000001\", known = 1",
            "m.toml:37:74: node[0].guest[0].migration.known: found a whole number; expected true or false",
        ),
        (
            "000000000002\"",
            "000000000001\"",
            "m.toml:37:26: node[0].guest[0].migration.consumer: UUID 00000000-0000-0000-0000-000000000001 is already at node[0].guest[0].uuid",
        ),
    ];
    assert_eq!(error_text(GOOD), "taken");
    let mut wrong = Vec::new();
    for (good, bad, expected) in cases {
        assert!(GOOD.contains(good), "{good}");
        let found = error_text(&GOOD.replacen(good, bad, 1));
        if found != expected {
            wrong.push(format!("{bad}\n  expected {expected}\n  found    {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_text_without_a_machine_is_refused() {
    for (text, expected) in [
        (
            "",
            "m.toml:1:1: \"node\" is missing: a machine has at least one [[node]]",
        ),
        (
            "node = []",
            "m.toml:1:8: node: a machine has at least one [[node]]",
        ),
        (
            "node = 3",
            "m.toml:1:8: node: found a whole number; expected a list",
        ),
        (
            "\u{feff}= 1",
            "m.toml:1:2: this is not valid TOML: unquoted keys cannot be empty, expected letters, numbers, `-`, `_`",
        ),
    ] {
        let found = error_text(text);
        assert_eq!(found, expected, "{text:?}");
    }
    let twice = "name = \"n1\"\nmemory_mib = 1\ndisk = 1\ncpus = { online = \"0\" }\n";
    let found = error_text(&format!("[[node]]\n{twice}[[node]]\n{twice}"));
    assert_eq!(
        found,
        "m.toml:7:8: node[1].name: node n1 is already at node[0].name"
    );
}

#[test]
fn a_text_full_of_mistakes_is_refused_without_counting_them_all() {
    let text: String = (0..10_000).map(|n| format!("wrong-{n} = {n}\n")).collect();
    let error = Machine::from_text("m.toml", &text).unwrap_err();
    assert_eq!(error.problems().len(), 50);
}

fn a_model() -> impl Strategy<Value = ResourceModel> {
    prop::sample::select(ResourceModel::all().collect::<Vec<_>>())
}

/// A shipped text in which one piece is replaced by another.
fn a_garbled_machine() -> impl Strategy<Value = String> {
    let texts = prop::sample::select(machines().to_vec());
    let cuts = prop::array::uniform4(any::<prop::sample::Index>());
    (texts, cuts).prop_map(|((_, text), cuts)| {
        let chars: Vec<char> = text.chars().collect();
        let mut at = cuts.map(|cut| cut.index(chars.len()));
        at[..2].sort_unstable();
        at[2..].sort_unstable();
        let [from, to, piece, end] = at;
        let pieces = [
            &chars[..from],
            &chars[piece..end.min(piece + 200)],
            &chars[to..],
        ];
        pieces.concat().into_iter().collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,200}") {
        let _ = Machine::from_text("m.toml", &text);
    }

    #[test]
    fn no_text_of_a_machines_own_letters_makes_it_panic(
        text in "(\\[\\[node\\]\\]|\\[model\\]|\\[node\\.guest\\]|name|cpus|disk|=|\"|'|\\{|\\}|\\[|\\]|,|\\.|[0-9]|#|\n| |-|_|e|inf){0,60}",
    ) {
        let _ = Machine::from_text("m.toml", &text);
    }

    #[test]
    fn no_garbled_machine_makes_it_panic_and_each_problem_has_a_place(text in a_garbled_machine()) {
        if let Err(error) = Machine::from_text("m.toml", &text) {
            let lines = text.lines().count() + 1;
            prop_assert!(!error.problems().is_empty());
            for problem in error.problems() {
                prop_assert!((1..=lines).contains(&problem.line), "{problem}");
            }
        }
    }

    #[test]
    fn a_machine_reads_back_as_it_was_written(
        gpus in 1..9u8,
        guests in 0..20u32,
        second_unit_every in 0..4u32,
        migration_every in 0..4u32,
        model in a_model(),
    ) {
        let name = NodeName::new("a\"b\\c").unwrap();
        let shape = GpuHost { name, gpus, guests, second_unit_every, migration_every, model };
        let machine = Machine::gpu_host(&shape);
        prop_assert_eq!(Machine::from_text("m.toml", &machine.to_toml()).unwrap(), machine);
    }
}

#[test]
fn a_cell_with_all_that_the_scheduler_reads_reads_back_as_it_was_written() {
    let cell = "memory_mib = 1024\nsiblings = [\"0,2\", \"1,3\"]\nhuge_pages = { 2048 = 16 }\nsmall_page_kib = 64\nsocket = 1\n";
    let text = GOOD.replace(
        "cpus = \"0-3\"\nmemory_mib = 1024\n",
        &format!("cpus = \"0-3\"\n{cell}"),
    );
    assert_ne!(text, GOOD);
    let machine = Machine::from_text("m.toml", &text).unwrap();
    let written = machine.to_toml();
    assert!(written.contains("small_page_kib = 64"), "{written}");
    assert_eq!(Machine::from_text("m.toml", &written).unwrap(), machine);
    assert_ne!(Machine::from_text("m.toml", GOOD).unwrap(), machine);
}

#[test]
fn the_shipped_machines_read_back_as_they_were_written() {
    for (name, text) in machines() {
        let machine = Machine::from_text(name, text).unwrap();
        assert_eq!(
            Machine::from_text(name, &machine.to_toml()).unwrap(),
            machine
        );
    }
}
