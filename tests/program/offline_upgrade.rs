//! `berth placement migrate-compute-inventory`: the upgrade with no service running, on a database that OpenStack's
//! Placement and the built-in one use alternately.

use std::fs;
use std::path::Path;

use berth_tests::berth::Outcome;
use berth_tests::peer::{PlacementSettings, RealPlacement, Storage};
use serde_json::Value;

use crate::program::hypervisor::{Hypervisor, PATIENCE};
use crate::program::placement_api::Api;

/// Guests of the machine with eight GPUs, and what each has: its units on the GPU with this address.
const GUESTS: [(&str, &[(&str, u64)]); 3] = [
    ("f2e3fac2-308a-5bb4-a8d7-292d9a96eb01", &[("04", 1)]),
    (
        "23c45d1e-2f50-517b-bbd5-dea5b942589c",
        &[("04", 1), ("c5", 1)],
    ),
    (
        "27a5843d-d7f4-5348-adb8-7420a0e6bea0",
        &[("44", 2), ("45", 1)],
    ),
];

#[track_caller]
fn done(outcome: &Outcome) -> &str {
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    &outcome.stdout
}

/// Copies a database to Placement's place while Placement does not run. A mere read of a database that was in WAL mode
/// (another test's command may have used it) leaves an empty log.
fn hand_over(from: &Path, to: &Path) {
    for suffix in ["-wal", "-shm", "-journal"] {
        let rest = format!("{}{suffix}", from.display());
        let left = fs::metadata(&rest).map_or(0, |file| file.len());
        assert!(left == 0 || suffix == "-shm", "{rest} was left behind");
        // The name before may have left one.
        let _ = fs::remove_file(format!("{}{suffix}", to.display()));
    }
    fs::copy(from, to).expect("the database is copied");
}

/// Every row of every table but the times of change.
fn rows(placement: &RealPlacement) -> Vec<String> {
    let query = |sql: &str| placement.query(sql).expect("rows");
    let tables = query(
        "select name from sqlite_master where type = 'table' and name not like 'sqlite_%' order by name",
    );
    let mut all = Vec::new();
    for table in tables {
        let name = &table[0];
        for row in query(&format!("select * from {name}")) {
            all.push(format!("{name}: {}", row.join("|")));
        }
    }
    all.sort();
    all
}

#[test]
fn a_database_of_placement_is_upgraded_offline_and_returned() {
    let mut api = Api::lease();
    let mut node = Hypervisor::new("eight-gpu-flat", "offline-1", &api.way());
    done(&node.once());
    let root = node.root();
    for (guest, units) in GUESTS {
        let amount = units.iter().map(|(_, amount)| amount).sum();
        api.claim(guest, &[(&root, "VGPU", amount), (&root, "VCPU", 4)]);
    }
    let theirs = api.placement.sqlite_path().expect("a file").to_owned();
    let ours = node.home.state_dir().join("placement.sqlite");
    let config = format!(
        "[placement_database]\nconnection = sqlite:///{}\n",
        theirs.display()
    );
    let config = node.home.write("placement.conf", &config).expect("a file");
    let config = config.display().to_string();
    let theirs_too = [
        "placement",
        "migrate-compute-inventory",
        "--placement-config",
        &config,
    ];
    // OpenStack's has its file open only while it answers.
    let open = fs::File::open(&theirs).expect("the database");
    let pid = std::process::id();
    for more in [&[][..], &["--dry-run"]] {
        let concurrent = node.run(&[&theirs_too[..], more].concat());
        assert_eq!(concurrent.code, 73, "{}", concurrent.stdout);
        assert!(
            concurrent.stderr.contains(&format!(
                "(pid {pid}); this command needs a database that no service uses"
            )),
            "{}",
            concurrent.stderr
        );
    }
    drop(open);
    api.placement.stop();
    let before = rows(&api.placement);
    hand_over(&theirs, &ours);

    let upgrade = ["placement", "migrate-compute-inventory"];
    let dry_run = ["placement", "migrate-compute-inventory", "--dry-run"];
    let by_its_own = node.run(&[&theirs_too[..], &["--dry-run"]].concat());
    assert!(done(&by_its_own).contains("offline-1: nothing to do"));
    assert!(done(&node.run(&dry_run)).contains("offline-1: nothing to do"));
    node.edit("vgpu = \"root\"", "vgpu = \"per-gpu\"");
    let bytes = fs::read(&ours).expect("a file");
    let shown = node.run(&dry_run);
    assert!(
        done(&shown).contains("offline-1: would be reshaped"),
        "{}",
        shown.stdout
    );
    for (guest, _) in GUESTS {
        assert!(shown.stdout.contains(guest), "{}", shown.stdout);
    }
    assert!(
        fs::read(&ours).expect("a file") == bytes,
        "a dry run changes no byte"
    );
    hand_over(&ours, &theirs);
    assert_eq!(rows(&api.placement), before, "nor any row");

    let did = node.run(&upgrade);
    assert!(
        done(&did).starts_with("node offline-1: reshaped: "),
        "{}",
        did.stdout
    );
    assert_eq!(done(&node.run(&upgrade)), "node offline-1: nothing to do\n");
    hand_over(&ours, &theirs);
    let upgraded = rows(&api.placement);
    api.placement.restart().expect("Placement opens it");
    let mut names = api.names(&root);
    assert_eq!(names.remove(0), "offline-1");
    assert_eq!(names.len(), 8);
    for (guest, units) in GUESTS {
        let mut expected = vec![("offline-1".to_owned(), "VCPU".to_owned(), 4)];
        for (bus, amount) in units {
            let gpu = format!("offline-1_pci_0000_{bus}_00_0");
            expected.push((gpu, "VGPU".to_owned(), *amount));
        }
        assert_eq!(api.held(guest), expected);
    }
    // A start with the upgraded database finds nothing to do.
    let once = node.once();
    done(&once);
    assert!(!once.stderr.contains("reshaped"), "{}", once.stderr);
    api.placement.stop();
    assert_eq!(rows(&api.placement), upgraded, "and writes nothing");
}

#[test]
fn a_database_on_a_server_is_upgraded_offline_and_returned_to_placement() {
    let settings = PlacementSettings {
        storage: Storage::MariaDb,
        ..PlacementSettings::default()
    };
    let mut api = Api {
        placement: RealPlacement::lease(settings).expect("Placement starts"),
    };
    let mut node = Hypervisor::new("eight-gpu-flat", "offline-2", &api.way());
    done(&node.once());
    let root = node.root();
    for (guest, units) in GUESTS {
        let amount = units.iter().map(|(_, amount)| amount).sum();
        api.claim(guest, &[(&root, "VGPU", amount), (&root, "VCPU", 4)]);
    }
    let url = api.placement.database_url();
    let upgrade = ["placement", "migrate-compute-inventory", "--database", &url];
    node.edit("vgpu = \"root\"", "vgpu = \"per-gpu\"");
    let concurrent = node.run(&upgrade);
    assert_eq!(
        concurrent.code, 73,
        "{}{}",
        concurrent.stdout, concurrent.stderr
    );
    assert!(
        concurrent.stderr.contains("is in use by user "),
        "{}",
        concurrent.stderr
    );
    api.placement.stop();
    let shown = node.run(&[&upgrade[..], &["--dry-run"]].concat());
    assert!(done(&shown).contains("offline-2: would be reshaped"));
    let did = node.run(&upgrade);
    assert!(
        done(&did).starts_with("node offline-2: reshaped: "),
        "{}",
        did.stdout
    );
    assert_eq!(done(&node.run(&upgrade)), "node offline-2: nothing to do\n");
    api.placement.restart().expect("Placement opens it");
    for (guest, units) in GUESTS {
        let mut expected = vec![("offline-2".to_owned(), "VCPU".to_owned(), 4)];
        for (bus, amount) in units {
            let gpu = format!("offline-2_pci_0000_{bus}_00_0");
            expected.push((gpu, "VGPU".to_owned(), *amount));
        }
        assert_eq!(api.held(guest), expected);
    }
}

#[test]
fn a_database_written_by_berth_up_works_with_placement() {
    let mut api = Api::lease();
    let mut node = Hypervisor::new("shared-storage", "handed-1", "");
    done(&node.run(&["up", "--once"]));
    let ours = node.home.state_dir().join("placement.sqlite");
    let theirs = api.placement.sqlite_path().expect("a file").to_owned();
    api.placement.stop();
    hand_over(&ours, &theirs);
    let before = rows(&api.placement);
    api.placement.restart().expect("Placement opens it");
    let root = node.root();
    assert!(api.names(&root).contains(&"handed-1".to_owned()));
    let all = api.get("/resource_providers");
    for provider in all["resource_providers"].as_array().expect("a list") {
        let uuid = provider["uuid"].as_str().unwrap_or_default();
        for part in ["inventories", "traits", "aggregates", "usages"] {
            let path = format!("/resource_providers/{uuid}/{part}");
            assert_ne!(api.get(&path), Value::Null);
        }
    }
    node.configure(&api.way(), "");
    done(&node.once());
    api.placement.stop();
    assert_eq!(
        rows(&api.placement),
        before,
        "what it opens, it leaves as it is"
    );
}

#[test]
fn a_database_that_is_not_placements_is_named_and_not_changed() {
    let mut node = Hypervisor::new("pcpu", "node-1", "");
    let ours = node.home.state_dir().join("placement.sqlite");
    for content in ["not a database, and longer than a header of one", "\u{0}"] {
        fs::write(&ours, content.repeat(100)).expect("a file");
        for command in [&["up"][..], &["placement", "migrate-compute-inventory"]] {
            let ended = node.start(command).wait(PATIENCE).expect("it ends");
            assert_eq!(ended.code, 74, "{}", ended.stderr);
            assert!(
                ended.stderr.contains("placement.sqlite"),
                "{}",
                ended.stderr
            );
        }
        assert_eq!(
            fs::read(&ours).expect("a file"),
            content.repeat(100).as_bytes()
        );
    }
}
