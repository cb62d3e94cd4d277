//! `berth placement audit` and `berth placement heal-allocations`, over the API of the real Placement and on its
//! database.

use berth_tests::berth::Outcome;
use serde_json::{Value, json};

use crate::program::hypervisor::Hypervisor;
use crate::program::placement_api::Api;

const SINGLE: &str = "f2e3fac2-308a-5bb4-a8d7-292d9a96eb01";
const PAIR: &str = "23c45d1e-2f50-517b-bbd5-dea5b942589c";
const TRIO: &str = "27a5843d-d7f4-5348-adb8-7420a0e6bea0";
const UNKNOWN: &str = "00000000-0000-4000-8000-00000000dead";
const STORAGE: &str = "00000000-0000-4000-8000-000000000d15";

#[track_caller]
fn done(outcome: &Outcome) -> &str {
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    &outcome.stdout
}

#[track_caller]
fn items(outcome: &Outcome) -> Vec<Value> {
    let body: Value = serde_json::from_str(done(outcome)).expect("JSON");
    body["items"].as_array().cloned().expect("a list")
}

/// A host with eight GPUs of their own providers, as it is reported.
fn host(api: &Api, node: &str) -> (Hypervisor, String) {
    let mut host = Hypervisor::new("eight-gpu-flat", node, &api.way());
    host.edit("vgpu = \"root\"", "vgpu = \"per-gpu\"");
    done(&host.once());
    let root = host.root();
    (host, root)
}

fn gpu(api: &Api, root: &str, bus: &str) -> String {
    let name = format!("_pci_0000_{bus}_00_0");
    let tree = api.tree(root);
    let gpu = tree.into_iter().find(|(it, _)| it.ends_with(&name));
    gpu.expect("a GPU").1
}

const AUDIT: [&str; 2] = ["placement", "audit"];
const HEAL: [&str; 2] = ["placement", "heal-allocations"];

#[test]
fn orphans_are_deleted_and_missing_allocations_healed_each_after_a_preview() {
    let api = Api::lease();
    let (mut host, root) = host(&api, "heal-1");
    api.shared_storage(STORAGE, &root, 1000);
    // Four guests: a correct one; one that lost the allocation of a GPU and has the other unit on the wrong one; one
    // that Placement does not know; and the leftover allocation of a deleted guest.
    let right = gpu(&api, &root, "04");
    let wrong = gpu(&api, &root, "84");
    let unused = gpu(&api, &root, "c4");
    api.claim(
        SINGLE,
        &[
            (&right, "VGPU", 1),
            (&root, "VCPU", 8),
            (&root, "MEMORY_MB", 65536),
            (STORAGE, "DISK_GB", 100),
        ],
    );
    api.claim(
        PAIR,
        &[
            (&wrong, "VGPU", 1),
            (&root, "VCPU", 2),
            (STORAGE, "DISK_GB", 50),
        ],
    );
    api.claim(
        UNKNOWN,
        &[
            (&unused, "VGPU", 2),
            (&root, "VCPU", 4),
            (STORAGE, "DISK_GB", 10),
        ],
    );

    let found = items(&host.run(&[&AUDIT[..], &["-f", "json"]].concat()));
    let of = |consumer: &str| {
        let mut of = found.iter().filter(|it| it["consumer"] == consumer);
        let first = of.next().cloned();
        assert!(of.next().is_none(), "once each: {found:?}");
        first
    };
    assert_eq!(of(SINGLE), None, "{found:?}");
    let unknown = of(UNKNOWN).expect("a finding");
    assert_eq!(unknown["amiss"], "unclear");
    assert_eq!(
        unknown["holds"],
        json!({"heal-1": {"VCPU": 4}, "heal-1_pci_0000_c4_00_0": {"VGPU": 2}}),
        "what it holds elsewhere is not this host's"
    );
    let pair = of(PAIR).expect("a finding");
    assert_eq!(pair["amiss"], "guest");
    assert_eq!(pair["uses"]["heal-1_pci_0000_04_00_0"], json!({"VGPU": 1}));
    assert_eq!(pair["uses"]["heal-1_pci_0000_c5_00_0"], json!({"VGPU": 1}));
    let reported = host.run(&AUDIT);
    for words in [
        "heal-1_pci_0000_c4_00_0: 2 VGPU",
        "heal-allocations",
        UNKNOWN,
    ] {
        assert!(
            done(&reported).contains(words),
            "{words}: {}",
            reported.stdout
        );
    }

    // As long as guests lack allocations, it may belong to one of them.
    let left = host.run(&[&AUDIT[..], &["--delete", "--settle", "0"]].concat());
    assert!(done(&left).contains("heal first"), "{}", left.stdout);
    assert_eq!(api.held(UNKNOWN).len(), 3);
    let before = api.held(PAIR);
    let shown = host.run(&[&HEAL[..], &["--dry-run"]].concat());
    assert!(done(&shown).contains("heal-1_pci_0000_c5_00_0: 1 VGPU"));
    assert_eq!(api.held(PAIR), before, "nothing was put");
    assert_eq!(api.held(TRIO), []);
    let healed = host.run(&[&HEAL[..], &["--project", "lost", "--user", "found"]].concat());
    assert!(done(&healed).contains(&format!("{PAIR}: healed")));
    let disk = (format!("storage-{STORAGE}"), "DISK_GB".to_owned(), 50);
    assert!(api.held(PAIR).contains(&disk), "what is elsewhere stays");
    let units = |consumer: &str| -> Vec<(String, u64)> {
        let held = api.held(consumer).into_iter();
        let units = held.filter(|(_, class, _)| class == "VGPU");
        units.map(|(name, _, amount)| (name, amount)).collect()
    };
    let on = |bus: &str, amount| (format!("heal-1_pci_0000_{bus}_00_0"), amount);
    assert_eq!(units(PAIR), [on("04", 1), on("c5", 1)]);
    assert_eq!(units(TRIO), [on("44", 2), on("45", 1)]);
    let known = api.get(&format!("/allocations/{TRIO}"));
    assert_eq!(known["project_id"], "lost");
    assert_eq!(known["user_id"], "found");
    assert_eq!(known["consumer_type"], "INSTANCE");

    assert!(done(&host.run(&HEAL)).starts_with("nothing to heal"));
    let delete = [&AUDIT[..], &["--delete", "--settle", "0"]].concat();
    let deleted = host.run(&delete);
    assert!(done(&deleted).contains("its allocations on other hosts are kept"));
    assert_eq!(
        api.held(UNKNOWN),
        [(format!("storage-{STORAGE}"), "DISK_GB".to_owned(), 10)]
    );

    let well = host.run(&AUDIT);
    assert!(
        done(&well).starts_with("no problems with the 7 consumers of heal-1"),
        "{}",
        well.stdout
    );
}

#[test]
fn two_guests_that_each_hold_the_others_unit_are_healed_together() {
    let api = Api::lease();
    let (mut host, root) = host(&api, "heal-5");
    let (first, second) = (gpu(&api, &root, "04"), gpu(&api, &root, "c5"));
    let total = |gpu: &str| {
        let all = api.inventory(gpu);
        all.iter().find(|it| it.0 == "VGPU").expect("VGPU").1
    };
    // Both GPUs are full, so that neither can be healed before the other.
    api.claim(SINGLE, &[(&second, "VGPU", 1), (&root, "VCPU", 8)]);
    api.claim(PAIR, &[(&first, "VGPU", 2), (&root, "VCPU", 2)]);
    let rest = [
        (first.as_str(), "VGPU", total(&first) - 2),
        (second.as_str(), "VGPU", total(&second) - 1),
    ];
    let rest: Vec<_> = rest.into_iter().filter(|it| it.2 > 0).collect();
    assert!(!rest.is_empty());
    api.claim(UNKNOWN, &rest);
    let healed = host.run(&HEAL);
    for guest in [SINGLE, PAIR] {
        let expected = format!("{guest}: healed");
        assert!(done(&healed).contains(&expected), "{}", healed.stdout);
    }
    let unit = |bus: &str| (format!("heal-5_pci_0000_{bus}_00_0"), "VGPU".to_owned(), 1);
    assert!(api.held(SINGLE).contains(&unit("04")));
    assert!(api.held(PAIR).contains(&unit("04")));
    assert!(api.held(PAIR).contains(&unit("c5")));
}

#[test]
fn allocations_of_a_migration_are_reported_but_never_as_orphans() {
    let api = Api::lease();
    let (mut host, root) = host(&api, "heal-2");
    let first = gpu(&api, &root, "44");
    let second = gpu(&api, &root, "45");
    api.claim_for_migration(UNKNOWN, &[(&first, "VGPU", 2), (&second, "VGPU", 1)]);
    let run = |host: &mut Hypervisor, more: &[&str]| {
        let all = [&AUDIT[..], &["--consumer", UNKNOWN, "-f", "json"], more].concat();
        items(&host.run(&all))
    };
    let found = run(&mut host, &[]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["amiss"], "unclear", "{found:?}");
    assert!(
        found[0]["remedy"].to_string().contains("guest trio"),
        "{found:?}"
    );
    done(&host.run(&[&AUDIT[..], &["--delete", "--settle", "0"]].concat()));
    assert_eq!(api.held(UNKNOWN).len(), 2, "it was left");
    let healed = host.run(&[&HEAL[..], &["-f", "json"]].concat());
    let healed = items(&healed);
    assert!(!healed.is_empty());
    assert!(healed.iter().all(|it| it["guest"] != "trio"), "{healed:?}");
    // Who names it has looked.
    run(&mut host, &["--delete", "--settle", "0"]);
    assert_eq!(api.held(UNKNOWN), []);
}

#[test]
fn an_allocation_of_another_service_is_no_orphan_unless_its_consumer_is_named() {
    let api = Api::lease();
    let (mut host, root) = host(&api, "heal-6");
    done(&host.run(&HEAL));
    api.claim_as("BLAZAR_RESERVATION", UNKNOWN, &[(&root, "VCPU", 4)]);
    let delete = [&AUDIT[..], &["--delete", "--settle", "0"]].concat();
    let left = host.run(&delete);
    let words = "its consumer type is BLAZAR_RESERVATION";
    assert!(
        left.stdout.contains(words),
        "{}{}",
        left.stdout,
        left.stderr
    );
    assert_eq!(api.held(UNKNOWN).len(), 1, "it was left");
    let named = [&delete[..], &["--consumer", UNKNOWN]].concat();
    done(&host.run(&named));
    assert_eq!(api.held(UNKNOWN), []);
}

#[test]
fn no_proxy_with_an_asterisk_turns_the_proxy_off_for_names_and_addresses() {
    let api = Api::lease();
    let (mut host, _) = host(&api, "heal-7");
    // Nothing listens there.
    host.home.set_env("http_proxy", "http://127.0.0.1:9");
    assert_ne!(host.run(&AUDIT).code, 0, "the proxy is used");
    host.home.set_env("no_proxy", "*");
    done(&host.run(&AUDIT));
}

#[test]
fn a_database_is_audited_and_healed_where_no_service_has_it_open() {
    let mut api = Api::lease();
    let (mut host, root) = host(&api, "heal-3");
    api.claim(UNKNOWN, &[(&root, "VCPU", 4)]);
    let url = api.placement.database_url();
    api.placement.stop();
    let on = |words: &[&str]| -> Vec<String> {
        let words = words.iter().map(|word| (*word).to_owned());
        words
            .chain(["--database".to_owned(), url.clone()])
            .collect()
    };
    let run = |host: &mut Hypervisor, words: &[&str]| {
        let words = on(words);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        host.run(&words)
    };
    assert!(done(&run(&mut host, &AUDIT)).contains(UNKNOWN));
    assert!(done(&run(&mut host, &HEAL)).contains(&format!("{SINGLE}: healed")));
    let delete = ["placement", "audit", "--delete", "--settle", "0"];
    let deleted = run(&mut host, &delete);
    assert!(done(&deleted).contains(&format!("{UNKNOWN}: deleted")));
    let well = run(&mut host, &AUDIT);
    assert!(
        done(&well).starts_with("no problems with the "),
        "{}",
        well.stdout
    );
    api.placement.restart().expect("Placement opens it");
    assert_eq!(api.held(UNKNOWN), []);
    let on_gpu = ("heal-3_pci_0000_04_00_0".to_owned(), "VGPU".to_owned(), 1);
    assert!(api.held(SINGLE).contains(&on_gpu));
}

#[test]
fn a_node_before_its_reshape_or_first_report_is_not_audited() {
    let api = Api::lease();
    let mut host = Hypervisor::new("eight-gpu-flat", "heal-4", &api.way());
    let unknown = host.run(&AUDIT);
    assert_eq!(unknown.code, 1, "{}", unknown.stdout);
    assert!(
        unknown
            .stderr
            .contains("Placement does not know node heal-4"),
        "{}",
        unknown.stderr
    );
    done(&host.once());
    let root = host.root();
    api.claim(SINGLE, &[(&root, "VGPU", 1)]);
    host.edit("vgpu = \"root\"", "vgpu = \"per-gpu\"");
    for command in [AUDIT, HEAL] {
        let refused = host.run(&command);
        assert_eq!(refused.code, 1, "{}", refused.stdout);
        for words in [
            "node heal-4 must be reshaped first",
            "migrate-compute-inventory",
        ] {
            assert!(refused.stderr.contains(words), "{}", refused.stderr);
        }
    }
    assert_eq!(api.held(SINGLE).len(), 1);
}
