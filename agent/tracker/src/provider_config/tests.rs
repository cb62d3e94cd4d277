use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;

use berth_model::{
    AllocationRatio, Inventory, Provider, ProviderName, ProviderTree, ProviderUuid, ResourceClass,
    Trait,
};
use berth_store::state_dir::StateDir;
use proptest::prelude::*;

use crate::provider_config::applied::{AppliedError, AppliedFile, AppliedItems, Items};
use crate::provider_config::entry::{ConfiguredProvider, ProviderConfigs, ProviderIdentification};
use crate::provider_config::merge::{ProviderConfigMergeError, merge, without_file_items};
use crate::provider_config::parse;

const ROOT: &str = "6f2a4c2e-0f0e-4d0f-9d65-2b3c5f3a1c01";

fn root() -> ProviderUuid {
    ROOT.parse().unwrap()
}

fn name(text: &str) -> ProviderName {
    ProviderName::new(text).unwrap()
}

fn class(text: &str) -> ResourceClass {
    ResourceClass::new(text).unwrap()
}

fn one_trait(text: &str) -> Trait {
    Trait::new(text).unwrap()
}

fn tree() -> ProviderTree {
    let mut tree = ProviderTree::new(Provider::root(root(), name("node")));
    let card = name("node_card");
    tree.insert(Provider::child(root().child(&card), card, root()))
        .unwrap();
    tree.root_mut()
        .inventories
        .insert(ResourceClass::VCPU, Inventory::of(8).unwrap());
    tree
}

fn configs(files: &[(&str, &str)]) -> ProviderConfigs {
    let entries = files
        .iter()
        .flat_map(|(file, text)| parse::entries(file, text).unwrap());
    ProviderConfigs {
        entries: entries.collect(),
    }
}

fn entry(provider: &str, class: &str, name: &str) -> String {
    format!(
        "meta: {{schema_version: '1.0'}}\nproviders:\n- identification: {{{provider}}}\n  inventories:\n    additional:\n    - \
         {class}: {{total: 4}}\n  traits:\n    additional: [{name}]\n"
    )
}

#[test]
fn a_file_is_read_whole() {
    let text = "
meta:
  schema_version: '1.0'
providers:
  - identification:
      uuid: $COMPUTE_NODE
    inventories:
      additional:
        - CUSTOM_LICENCES:
            total: 100
            reserved: 2
            min_unit: 1
            max_unit: 10
            step_size: 5
            allocation_ratio: 1.5
        - CUSTOM_SEATS: {total: 3}
    traits:
      additional:
        - CUSTOM_RACK_7
  - identification: {name: node_card}
    traits:
      additional: []
";
    let read = parse::entries("a.yaml", text).unwrap();
    let licences = Inventory {
        total: 100,
        reserved: 2,
        min_unit: 1,
        max_unit: 10,
        step_size: 5,
        allocation_ratio: AllocationRatio::new(1.5).unwrap(),
    };
    let seats = Inventory {
        max_unit: i32::MAX as u32,
        ..Inventory::of(3).unwrap()
    };
    let whole = ConfiguredProvider {
        file: "a.yaml".to_owned(),
        provider: ProviderIdentification::ComputeNode,
        inventories: BTreeMap::from([
            (class("CUSTOM_LICENCES"), licences),
            (class("CUSTOM_SEATS"), seats),
        ]),
        traits: BTreeSet::from([one_trait("CUSTOM_RACK_7")]),
    };
    assert_eq!(read[0], whole);
    assert_eq!(
        read[1].provider,
        ProviderIdentification::Name(name("node_card"))
    );
    assert!(parse::entries("b.yaml", "").unwrap().is_empty());
}

#[test]
fn additional_keys_anchors_and_repeated_traits_are_accepted_as_in_nova() {
    let text = "
x-common: &common
  additional: [CUSTOM_A, CUSTOM_B, CUSTOM_A]
meta: {schema_version: '1.0', author: the rack team}
providers:
  - identification: {uuid: $COMPUTE_NODE}
    comment: rack 7
    inventories:
      note: licences
      additional:
        - CUSTOM_SEATS: {total: 3}
    traits: *common
  - identification: {name: node_card}
    traits: {<<: *common, note: the card}
";
    let read = parse::entries("a.yaml", text).unwrap();
    let both = BTreeSet::from(["CUSTOM_A", "CUSTOM_B"].map(one_trait));
    assert_eq!([&read[0].traits, &read[1].traits], [&both, &both]);
    assert!(read[0].inventories.contains_key(&class("CUSTOM_SEATS")));
}

#[test]
fn hidden_files_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    for name in [".a.yaml", ".yaml", "b.yml"] {
        std::fs::write(folder.path().join(name), "not: [closed").unwrap();
    }
    assert_eq!(ProviderConfigs::read(folder.path()).unwrap().entries, []);
}

#[test]
fn a_wrong_file_is_refused_with_its_name_the_key_and_what_would_be_right() {
    let of = |body: &str| format!("meta: {{schema_version: '1.0'}}\nproviders:\n- {body}\n");
    let inventory = |body: &str| {
        of(&format!(
            "identification: {{uuid: $COMPUTE_NODE}}\n  inventories: {{additional: [{body}]}}"
        ))
    };
    let traits = |body: &str| {
        of(&format!(
            "identification: {{uuid: $COMPUTE_NODE}}\n  traits: {{additional: {body}}}"
        ))
    };
    for (text, message) in [
        ("a: [1, 2".to_owned(), "is not valid YAML: line 1"),
        ("a: 1\na: 2\n".to_owned(), "duplicate mapping key: a"),
        ("--- 1\n--- 2\n".to_owned(), "multiple YAML documents"),
        ("a: &a [*a]".to_owned(), "is not valid YAML"),
        ("[]".to_owned(), "the document: it is not a table"),
        (
            "providers: []".to_owned(),
            "meta.schema_version: it is missing",
        ),
        (
            "meta: {schema_version: 1.0}".to_owned(),
            "meta.schema_version: 1.0 is not a string",
        ),
        (
            "meta: {schema_version: '2.0'}".to_owned(),
            "schema \"2.0\" is not supported",
        ),
        (
            "meta: {schema_version: '1.x'}".to_owned(),
            "schema \"1.x\" is not supported",
        ),
        (
            "meta: {schema_version: '1.0'}\nprovider: []".to_owned(),
            "provider: unknown key; did you mean \"providers\"?",
        ),
        (
            "meta: {schema_version: '1.0'}\nproviders: {}".to_owned(),
            "providers: it is not a list",
        ),
        (of("7"), "providers[0]: it is not a table"),
        (
            of("traits: {}"),
            "providers[0].identification: it is missing",
        ),
        (of("identification: {}"), "it has 0 keys"),
        (
            of("identification: {uuid: x}"),
            "providers[0].identification.uuid: \"x\" is not a UUID",
        ),
        (of("identification: {uuid: 7}"), "7 is not a string"),
        (
            of(r#"identification: {name: "a\u0007b"}"#),
            "providers[0].identification.name: \"a\\u{7}b\" has a control character",
        ),
        (
            of("identification: {name: $COMPUTE_NODE}"),
            "write uuid: $COMPUTE_NODE",
        ),
        (
            of("identification: {host: a}"),
            "unknown kind of identification",
        ),
        (of("identification: {name: a, uuid: b}"), "it has 2 keys"),
        (
            of("identification: {name: a}\n  trait: {}"),
            "providers[0].trait: unknown key; did you mean \"traits\"?",
        ),
        (
            inventory("{VCPU: {total: 1}}"),
            "additional[0].VCPU: it is not a custom resource class",
        ),
        (
            inventory("{CUSTOM_a: {total: 1}}"),
            "CUSTOM_a: it is not a custom resource class",
        ),
        (
            inventory("{CUSTOM_A: 1}"),
            "additional[0].CUSTOM_A: it is not a table",
        ),
        (inventory("{CUSTOM_A: {}}"), "CUSTOM_A.total: it is missing"),
        (
            inventory("{CUSTOM_A: {total: 0}}"),
            "CUSTOM_A.total: 0 is out of range",
        ),
        (
            inventory("{CUSTOM_A: {total: 2147483648}}"),
            "CUSTOM_A.total: 2147483648 is out of range",
        ),
        (
            inventory("{CUSTOM_A: {total: 1.5}}"),
            "CUSTOM_A.total: 1.5 is out of range",
        ),
        (
            inventory("{CUSTOM_A: {total: '1'}}"),
            "CUSTOM_A.total: \"1\" is out of range",
        ),
        (
            inventory("{CUSTOM_A: {total: 1, reserved: 2}}"),
            "CUSTOM_A.reserved: 2 is more than the total",
        ),
        (
            inventory("{CUSTOM_A: {total: 1, min_unit: 3, max_unit: 2}}"),
            "CUSTOM_A.min_unit",
        ),
        (
            inventory("{CUSTOM_A: {total: 1, step_size: 0}}"),
            "CUSTOM_A.step_size: 0 is out of range",
        ),
        (
            inventory("{CUSTOM_A: {total: 1, allocation_ratio: 0}}"),
            "CUSTOM_A.allocation_ratio: 0 is out of range",
        ),
        (
            inventory("{CUSTOM_A: {total: 1, ratio: 1}}"),
            "CUSTOM_A.ratio: schema 1.0 has no such key",
        ),
        (
            inventory("{CUSTOM_A: {total: 1}}, {CUSTOM_A: {total: 1}}"),
            "CUSTOM_A: the class is listed twice",
        ),
        (
            traits("[HW_CPU_X86_AVX2]"),
            "traits.additional[0]: \"HW_CPU_X86_AVX2\" is not a custom trait",
        ),
        (
            traits("[CUSTOM_OWNER_BERTH]"),
            "CUSTOM_OWNER_BERTH is reserved for Berth",
        ),
        (traits("CUSTOM_A"), "traits.additional: it is not a list"),
    ] {
        let error = parse::entries("/etc/a.yaml", &text)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("/etc/a.yaml"), "{error}");
        assert!(
            error.contains(message),
            "{text}\n{error}\nshould say {message}"
        );
    }
}

#[test]
fn keys_of_a_later_minor_schema_are_passed_over() {
    let text =
        "meta: {schema_version: '1.3'}\nproviders:\n- identification: {name: a}\n  colours: {}\n";
    assert_eq!(parse::entries("a.yaml", text).unwrap().len(), 1);
}

#[test]
fn every_file_of_the_directory_is_read_and_each_wrong_one_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let put = |file: &str, text: &str| fs::write(directory.path().join(file), text).unwrap();
    assert!(
        ProviderConfigs::read(&directory.path().join("none"))
            .unwrap()
            .is_empty()
    );
    put("b.yaml", &entry("name: b", "CUSTOM_B", "CUSTOM_B"));
    put("a.yaml", &entry("name: a", "CUSTOM_A", "CUSTOM_A"));
    put("c.yml", "no");
    let read = ProviderConfigs::read(directory.path()).unwrap();
    let named: Vec<_> = read
        .entries()
        .iter()
        .map(|one| one.provider.to_string())
        .collect();
    assert_eq!(named, ["a", "b"]);
    put("c.yaml", &entry("name: a", "CUSTOM_C", "CUSTOM_C"));
    put("d.yaml", "[]");
    fs::create_dir(directory.path().join("e.yaml")).unwrap();
    let errors = ProviderConfigs::read(directory.path()).unwrap_err();
    let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert!(
        errors[2].contains("c.yaml") && errors[2].contains("a.yaml"),
        "{errors:?}"
    );
}

#[test]
fn an_entry_that_names_the_root_beats_the_one_of_compute_node() {
    let by_token = entry("uuid: $COMPUTE_NODE", "CUSTOM_A", "CUSTOM_A");
    for identification in ["name: node".to_owned(), format!("uuid: {ROOT}")] {
        let explicit = entry(&identification, "CUSTOM_B", "CUSTOM_B");
        let configs = configs(&[("a.yaml", &by_token), ("b.yaml", &explicit)]);
        let mut laid = tree();
        let (applied, missing) = merge(&mut laid, &configs).unwrap();
        assert!(missing.is_empty());
        assert_eq!(applied.0.len(), 1);
        let root = laid.root();
        assert!(root.inventories.contains_key(&class("CUSTOM_B")));
        assert!(!root.inventories.contains_key(&class("CUSTOM_A")));
        assert_eq!(root.traits, BTreeSet::from([one_trait("CUSTOM_B")]));
    }
}

#[test]
fn what_the_driver_reports_itself_is_refused_with_file_provider_and_item() {
    let text = entry("name: node_card", "CUSTOM_A", "CUSTOM_B");
    let configs = configs(&[("/etc/a.yaml", &text)]);
    let card = root().child(&name("node_card"));
    let mut by_class = tree();
    let inventory = Inventory::of(1).unwrap();
    by_class
        .get_mut(card)
        .unwrap()
        .inventories
        .insert(class("CUSTOM_A"), inventory);
    let mut by_trait = tree();
    by_trait
        .get_mut(card)
        .unwrap()
        .traits
        .insert(one_trait("CUSTOM_B"));
    for (mut tree, item) in [
        (by_class, "inventory CUSTOM_A"),
        (by_trait, "trait CUSTOM_B"),
    ] {
        let error = merge(&mut tree, &configs).unwrap_err().to_string();
        for expected in ["/etc/a.yaml", "node_card", item] {
            assert!(error.contains(expected), "{error}");
        }
    }
}

#[test]
fn another_services_provider_and_one_that_two_entries_mean_are_refused() {
    let mut foreign = tree();
    let fpga = name("fpga");
    let uuid: ProviderUuid = "6f2a4c2e-0f0e-4d0f-9d65-2b3c5f3a1c09".parse().unwrap();
    foreign.insert(Provider::child(uuid, fpga, root())).unwrap();
    let text = entry("name: fpga", "CUSTOM_A", "CUSTOM_A");
    let error = merge(&mut foreign, &configs(&[("a.yaml", &text)])).unwrap_err();
    assert!(
        matches!(error, ProviderConfigMergeError::AnothersProvider { .. }),
        "{error}"
    );
    let by_uuid = entry(&format!("uuid: {ROOT}"), "CUSTOM_A", "CUSTOM_A");
    let by_name = entry("name: node", "CUSTOM_B", "CUSTOM_B");
    let both = configs(&[("a.yaml", &by_uuid), ("b.yaml", &by_name)]);
    let error = merge(&mut tree(), &both).unwrap_err().to_string();
    assert!(
        error.contains("a.yaml") && error.contains("b.yaml"),
        "{error}"
    );
}

#[test]
fn an_entry_without_a_provider_gives_nothing_and_is_reported() {
    let text = entry("name: elsewhere", "CUSTOM_A", "CUSTOM_A");
    let mut laid = tree();
    let (applied, missing) = merge(&mut laid, &configs(&[("a.yaml", &text)])).unwrap();
    assert!(applied.is_empty());
    assert_eq!(missing[0].provider.to_string(), "elsewhere");
    assert_eq!(laid, tree());
}

#[test]
fn what_left_the_files_is_remembered_until_placement_has_it_no_more() {
    let items = |class: &ResourceClass| Items {
        inventories: BTreeSet::from([class.clone()]),
        traits: BTreeSet::new(),
    };
    let (held, gone) = (class("CUSTOM_HELD"), class("CUSTOM_GONE"));
    let mut current = tree();
    let inventory = Inventory::holding(2).unwrap();
    current
        .root_mut()
        .inventories
        .insert(held.clone(), inventory);
    let mut before = AppliedItems::default();
    before.0.insert(root(), items(&held));
    before.0.entry(root()).or_default().inventories.insert(gone);
    let next = before.next_record(&current, &AppliedItems::default());
    assert_eq!(next.0, BTreeMap::from([(root(), items(&held))]));
    assert!(
        next.next_record(&tree(), &AppliedItems::default())
            .is_empty()
    );
}

#[tokio::test]
async fn what_was_applied_is_read_back_and_another_file_there_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let files = Arc::new(StateDir::open(folder.path()).unwrap());
    let mut applied = AppliedItems::default();
    let items = applied.0.entry(root()).or_default();
    items.inventories.insert(class("CUSTOM_A"));
    items.traits.insert(one_trait("CUSTOM_B"));
    let file = || AppliedFile::of(files.clone(), root());
    file().store(applied.clone()).await.unwrap();
    assert_eq!(*file().read().await.unwrap(), applied);
    let path = folder.path().join(format!("provider-config.{ROOT}.json"));
    for content in [
        "",
        "{}",
        "{\"version\": 2, \"providers\": {}}",
        "{\"version\": 1, \"providers\": {\"x\": 1}}",
    ] {
        fs::write(&path, content).unwrap();
        let error = file().read().await.unwrap_err();
        assert!(
            matches!(error, AppliedError::Malformed { .. }),
            "{content}: {error}"
        );
    }
    fs::remove_file(&path).unwrap();
    let mut kept = file();
    kept.store(applied).await.unwrap();
    kept.store(AppliedItems::default()).await.unwrap();
    assert!(!path.exists());
}

fn any_items() -> impl Strategy<Value = (BTreeSet<u8>, BTreeSet<u8>)> {
    let few = || proptest::collection::btree_set(0..6_u8, 0..4);
    (few(), few())
}

fn configured(
    file: &str,
    provider: &str,
    items: &(BTreeSet<u8>, BTreeSet<u8>),
) -> ConfiguredProvider {
    let inventory = |n: &u8| {
        (
            class(&format!("CUSTOM_C{n}")),
            Inventory::of(u64::from(*n) + 1).unwrap(),
        )
    };
    ConfiguredProvider {
        file: file.to_owned(),
        provider: ProviderIdentification::Name(name(provider)),
        inventories: items.0.iter().map(inventory).collect(),
        traits: items
            .1
            .iter()
            .map(|n| one_trait(&format!("CUSTOM_T{n}")))
            .collect(),
    }
}

/// Numbers of the classes and traits of one entry.
type Drawn = (BTreeSet<u8>, BTreeSet<u8>);

proptest! {
    /// For any sequence of file contents, the driver sees a tree without items from files, and Placement has exactly
    /// the current items. Items of other services stay.
    #[test]
    fn files_that_change_leave_nothing_behind(
        first in (any_items(), any_items()),
        then in (any_items(), any_items()),
    ) {
        let of = |items: &(Drawn, Drawn)| ProviderConfigs {
            entries: vec![configured("a", "node", &items.0), configured("b", "node_card", &items.1)],
        };
        let mut bare = tree();
        bare.root_mut().traits.insert(one_trait("CUSTOM_ANOTHERS"));
        let mut applied = AppliedItems::default();
        let mut current = bare.clone();
        for configs in [of(&first), of(&then), ProviderConfigs::default()] {
            let mut wanted = without_file_items(&current, &configs, &applied);
            prop_assert_eq!(&wanted, &bare);
            let (laid, _) = merge(&mut wanted, &configs).unwrap();
            applied = applied.next_record(&current, &laid);
            current = wanted;
        }
        prop_assert_eq!(current.clone(), bare);
        prop_assert!(applied.next_record(&current, &AppliedItems::default()).is_empty());
    }
}
