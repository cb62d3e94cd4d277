//! Tests of config drives: their content, and its secrecy.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use berth_client::Secret;
use berth_virt::guest_spec::GuestDisks;
use serde_json::{Value, json};

use crate::tests::bench::*;
use crate::*;

const USER_DATA: &str = "#!/bin/sh\necho tenant-secret-script\n";
const PASSWORD: &str = "tenant-secret-password";

fn parts() -> ConfigDriveParts {
    ConfigDriveParts {
        hostname: "vm1.example.org".to_owned(),
        metadata: BTreeMap::from([("role".to_owned(), "web".to_owned())]),
        public_keys: vec![PublicKey {
            name: "mine".to_owned(),
            public_key: "ssh-ed25519 AAAA me".to_owned(),
        }],
        user_data: Some(UserData::new(USER_DATA.as_bytes()).unwrap()),
        admin_password: Some(Secret::from(PASSWORD)),
        ..ConfigDriveParts::default()
    }
}

fn drive() -> ConfigDrive {
    ConfigDrive::new(ConfigDriveContent::new(parts()).unwrap())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// The name in the fields of Rock Ridge of a directory record.
fn rock_ridge_name(record: &[u8]) -> Option<String> {
    let mut rest = &record[(33 + usize::from(record[32])).next_multiple_of(2)..];
    while let [kind @ .., _] = rest.get(..3)?
        && let Some((field, after)) = rest.split_at_checked(usize::from(rest[2]))
    {
        if kind == b"NM" {
            return String::from_utf8(field[5..].to_vec()).ok();
        }
        rest = after;
    }
    None
}

/// Parses the files of one tree of an ISO 9660 file, with the names of Joliet or of Rock Ridge.
fn tree(image: &[u8], descriptor: usize) -> BTreeMap<String, Vec<u8>> {
    let is_joliet = image[descriptor * 2048] == 2;
    let root = &image[descriptor * 2048 + 156..];
    let mut files = BTreeMap::new();
    let mut folders = vec![(String::new(), u32_at(root, 2), u32_at(root, 10))];
    while let Some((path, sector, length)) = folders.pop() {
        let start = sector as usize * 2048;
        let (mut at, mut number) = (start, 0);
        while at < start + length as usize {
            let size = usize::from(image[at]);
            if size == 0 {
                at = at.next_multiple_of(2048).max(at + 1);
                continue;
            }
            let record = &image[at..at + size];
            let name = &record[33..33 + usize::from(record[32])];
            let name = match is_joliet {
                true => {
                    let units: Vec<_> = name
                        .chunks(2)
                        .map(|c| u16::from_be_bytes([c[0], *c.get(1).unwrap_or(&0)]))
                        .collect();
                    String::from_utf16(&units).unwrap()
                }
                false => String::from_utf8(name.to_vec()).unwrap(),
            };
            let name = match is_joliet {
                true => name,
                false => rock_ridge_name(record).unwrap_or(name),
            };
            let (sector, length) = (u32_at(record, 2), u32_at(record, 10));
            // The first two are the folder itself and its parent.
            if number >= 2 {
                let path = format!("{path}/{}", name.trim_end_matches(";1"));
                if record[25] & 2 == 2 {
                    folders.push((path, sector, length));
                } else {
                    let start = sector as usize * 2048;
                    files.insert(path, image[start..start + length as usize].to_vec());
                }
            }
            number += 1;
            at += size;
        }
    }
    files
}

#[tokio::test]
async fn both_layouts_are_on_the_drive_and_the_label_selects_one() {
    for (format, label) in [
        (ConfigDriveFormat::OpenStack, "config-2"),
        (ConfigDriveFormat::NoCloud, "cidata"),
    ] {
        let bench = Bench::new().await;
        let options = DiskOptions {
            config_drive_format: format,
            ..bench.options()
        };
        let disks = bench.disks_with(options);
        let wanted = DiskPlan::new(None, 0, vec![], Some(drive())).unwrap();
        let guest = Guest::new(1, &disks, wanted);
        disks.prepare(&guest.provision()).await.unwrap();
        let path = bench.path(&guest.folder()).join("disk.config");
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let image = fs::read(&path).unwrap();
        let files = tree(&image, 17);
        let text = |path: &str| String::from_utf8(files[path].clone()).unwrap();
        let json = |path: &str| -> Value { serde_json::from_str(&text(path)).unwrap() };
        for version in ["latest", "2018-08-27", "2015-10-15"] {
            let at = |name: &str| format!("/openstack/{version}/{name}");
            let meta = json(&at("meta_data.json"));
            assert_eq!(meta["uuid"], guest.spec.uuid.to_string());
            assert_eq!(meta["hostname"], "vm1.example.org");
            assert_eq!(meta["meta"]["role"], "web");
            assert_eq!(meta["public_keys"]["mine"], "ssh-ed25519 AAAA me");
            assert_eq!(meta["admin_pass"], PASSWORD);
            assert_eq!(text(&at("user_data")), USER_DATA);
            assert_eq!(json(&at("vendor_data.json")), json!({}));
            assert!(json(&at("network_data.json"))["links"].is_array());
        }
        assert_eq!(text("/user-data"), USER_DATA);
        assert_eq!(
            json("/meta-data")["instance-id"],
            guest.spec.uuid.to_string()
        );
        assert_eq!(json("/network-config")["version"], 2);
        let plain = tree(&image, 16);
        assert_eq!(plain, files, "Rock Ridge has the names and files of Joliet");
        assert_eq!(plain["/openstack/latest/user_data"], USER_DATA.as_bytes());
        // What the system's own tool sees.
        let printed = Command::new("blkid")
            .args(["-p", "-o", "export"])
            .arg(&path)
            .output()
            .unwrap();
        let printed = String::from_utf8(printed.stdout).unwrap();
        assert!(
            printed.contains(&format!("LABEL={label}\n")) && printed.contains("TYPE=iso9660"),
            "{printed}"
        );
        // Created only once: the guest has read it.
        disks.prepare(&guest.provision()).await.unwrap();
        assert_eq!(fs::read(&path).unwrap(), image);
    }
}

/// The drive of a server with everything that Nova's documents show.
async fn server_drive(change: impl FnOnce(&mut ConfigDriveParts)) -> BTreeMap<String, Vec<u8>> {
    let bench = Bench::new().await;
    let disks = bench.disks();
    let mut server = ConfigDriveParts {
        hostname: "web".to_owned(),
        name: Some("Web server".to_owned()),
        project_id: Some("p1".to_owned()),
        availability_zone: Some("north".to_owned()),
        launch_index: 2,
        reservation_id: Some("r-0a1b2c3d".to_owned()),
        flavor: Some("m1.small".to_owned()),
        image_id: Some("5c1a7e40-0000-4000-8000-000000000001".to_owned()),
        admin_password: None,
        ..parts()
    };
    change(&mut server);
    let drive = ConfigDrive::new(ConfigDriveContent::new(server).unwrap());
    let guest = Guest::new(
        1,
        &disks,
        DiskPlan::new(None, 0, vec![], Some(drive)).unwrap(),
    );
    disks.prepare(&guest.provision()).await.unwrap();
    let path = bench.path(&guest.folder()).join("disk.config");
    tree(&fs::read(path).unwrap(), 17)
}

fn keys(document: &Value) -> Vec<&str> {
    document
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

#[tokio::test]
async fn each_version_of_the_drive_has_the_files_and_keys_that_nova_writes() {
    let files = server_drive(|_| ()).await;
    let json = |path: &str| -> Value { serde_json::from_slice(&files[path]).unwrap() };
    let of = |version: &str| {
        let start = format!("/openstack/{version}/");
        let own = files
            .keys()
            .filter_map(|path| path.strip_prefix(start.as_str()));
        own.collect::<Vec<_>>()
    };
    let base = ["meta_data.json", "user_data"];
    let havana = ["meta_data.json", "user_data", "vendor_data.json"];
    let liberty = [
        "meta_data.json",
        "network_data.json",
        "user_data",
        "vendor_data.json",
    ];
    let newton = [
        "meta_data.json",
        "network_data.json",
        "user_data",
        "vendor_data.json",
        "vendor_data2.json",
    ];
    let first = [
        "availability_zone",
        "hostname",
        "keys",
        "launch_index",
        "meta",
        "name",
        "public_keys",
        "uuid",
    ];
    for (version, listed, added) in [
        ("2012-08-10", base.as_slice(), [].as_slice()),
        ("2013-04-04", &base, &["random_seed"]),
        ("2013-10-17", &havana, &["random_seed"]),
        ("2015-10-15", &liberty, &["random_seed", "project_id"]),
        (
            "2016-06-30",
            &liberty,
            &["random_seed", "project_id", "devices"],
        ),
        (
            "2016-10-06",
            &newton,
            &["random_seed", "project_id", "devices"],
        ),
        (
            "2017-02-22",
            &newton,
            &["random_seed", "project_id", "devices"],
        ),
        (
            "2018-08-27",
            &newton,
            &["random_seed", "project_id", "devices"],
        ),
        (
            "2020-10-14",
            &newton,
            &["random_seed", "project_id", "devices", "dedicated_cpus"],
        ),
        (
            "2025-04-04",
            &newton,
            &["random_seed", "project_id", "devices", "dedicated_cpus"],
        ),
        (
            "latest",
            &newton,
            &["random_seed", "project_id", "devices", "dedicated_cpus"],
        ),
    ] {
        assert_eq!(of(version), listed, "{version}");
        let meta = json(&format!("/openstack/{version}/meta_data.json"));
        let mut expected = [&first, added].concat();
        expected.sort_unstable();
        let mut found = keys(&meta);
        found.sort_unstable();
        assert_eq!(found, expected, "{version}");
    }
    let directories = files
        .keys()
        .filter_map(|path| path.strip_prefix("/openstack/"));
    let directories = directories.filter_map(|path| path.split('/').next());
    assert_eq!(
        directories.collect::<std::collections::BTreeSet<_>>().len(),
        11
    );
}

#[tokio::test]
async fn the_drive_says_what_the_server_says() {
    let files = server_drive(|_| ()).await;
    let json = |path: &str| -> Value { serde_json::from_slice(&files[path]).unwrap() };
    let mut meta = json("/openstack/latest/meta_data.json");
    let seed = meta.as_object_mut().unwrap().remove("random_seed").unwrap();
    assert_eq!(seed.as_str().unwrap().len(), 684, "512 bytes in base64");
    let uuid = meta["uuid"].as_str().unwrap().to_owned();
    let key = "ssh-ed25519 AAAA me";
    assert_eq!(
        meta,
        json!({
            "uuid": uuid, "hostname": "web", "name": "Web server", "launch_index": 2, "availability_zone": "north",
            "meta": {"role": "web"}, "public_keys": {"mine": key}, "keys": [{"name": "mine", "type": "ssh", "data": key}],
            "project_id": "p1", "devices": [], "dedicated_cpus": [],
        })
    );
    assert_eq!(json("/openstack/latest/vendor_data.json"), json!({}));
    assert_eq!(
        json("/openstack/latest/vendor_data2.json"),
        json!({"static": {}})
    );
    for version in ["2009-04-04", "latest"] {
        assert_eq!(
            json(&format!("/ec2/{version}/meta-data.json")),
            json!({
                "ami-id": "ami-5c1a7e40", "ami-launch-index": 2, "ami-manifest-path": "FIXME",
                "block-device-mapping": {"ami": "vda", "root": "/dev/vda"}, "hostname": "web",
                "instance-action": "none", "instance-id": format!("i-{}", &uuid[..8]), "instance-type": "m1.small",
                "local-hostname": "web", "local-ipv4": null, "placement": {"availability-zone": "north"},
                "public-hostname": "web", "public-ipv4": "", "reservation-id": "r-0a1b2c3d", "security-groups": [],
                "public-keys": {"0": {"openssh-key": key}},
            })
        );
        let user_data = &files[&format!("/ec2/{version}/user-data")];
        assert_eq!(user_data, USER_DATA.as_bytes());
    }
    // What a server does not have is absent, as in Nova.
    let bare = server_drive(|server| {
        server.metadata.clear();
        server.public_keys.clear();
        server.user_data = None;
    })
    .await;
    let meta: Value = serde_json::from_slice(&bare["/openstack/latest/meta_data.json"]).unwrap();
    for key in ["meta", "keys", "public_keys", "admin_pass"] {
        assert_eq!(meta.get(key), None, "{key}");
    }
    let has_user_data = |path: &String| {
        path.ends_with("user_data") || path.starts_with("/ec2") && path.ends_with("user-data")
    };
    assert!(!bare.keys().any(has_user_data));
}

#[tokio::test]
async fn a_changed_content_is_written_to_the_drive_and_the_earlier_one_is_removed() {
    let bench = Bench::new().await;
    let disks = bench.disks();
    let wanted = DiskPlan::new(None, 0, vec![], Some(drive())).unwrap();
    let guest = Guest::new(1, &disks, wanted);
    let uuid = guest.spec.uuid;
    disks.store_config_drive(uuid, &drive()).unwrap();
    disks.prepare(&guest.provision()).await.unwrap();
    let path = bench.path(&guest.folder()).join("disk.config");
    let change = ConfigDriveChange {
        name: Some("New name".to_owned()),
        metadata: Some(BTreeMap::from([("a".to_owned(), "b".to_owned())])),
        user_data: Some(None),
        public_keys: None,
    };
    // Stored only; a kill here loses nothing, because the same call is made again.
    let changed = disks.change_config_drive(uuid, &drive(), change.clone());
    assert_eq!(bench.found("instances/_config").len(), 2);
    let again = disks.change_config_drive(uuid, &drive(), change).unwrap();
    assert_eq!(again, changed.unwrap());
    disks
        .rewrite_config_drive(&guest.spec, &again)
        .await
        .unwrap();
    let files = tree(&fs::read(&path).unwrap(), 17);
    let meta: Value = serde_json::from_slice(&files["/openstack/latest/meta_data.json"]).unwrap();
    assert_eq!(
        (&meta["name"], &meta["meta"], &meta["hostname"]),
        (
            &json!("New name"),
            &json!({"a": "b"}),
            &json!("vm1.example.org")
        )
    );
    assert!(!files.contains_key("/openstack/latest/user_data"));
    assert_eq!(meta["keys"][0]["name"], "mine", "what is not changed stays");
    // Nothing of the removed user data is left.
    assert_eq!(bench.found("instances/_config").len(), 1);
    let kept = fs::read_to_string(
        bench
            .path("instances/_config")
            .join(bench.found("instances/_config").pop().unwrap()),
    );
    assert!(!kept.unwrap().contains("user_data\":\""));
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let bad = ConfigDriveChange {
        name: Some("a\nb".to_owned()),
        ..ConfigDriveChange::default()
    };
    let refused = disks.change_config_drive(uuid, &again, bad).unwrap_err();
    assert!(
        refused.to_string().contains("config_drive.name"),
        "{refused}"
    );
}

#[tokio::test]
async fn secrets_are_in_neither_the_journal_nor_a_debugging_line_and_survive_a_restart() {
    let bench = Bench::new().await;
    let disks = bench.disks();
    let wanted = DiskPlan::new(None, 0, vec![], Some(drive())).unwrap();
    let guest = Guest::new(1, &disks, wanted.clone());
    let uuid = guest.spec.uuid;
    disks.store_config_drive(uuid, &drive()).unwrap();
    let written = serde_json::to_string(&wanted).unwrap();
    for text in [
        written.clone(),
        format!("{wanted:?}"),
        format!("{:?}", parts()),
    ] {
        assert!(
            !text.contains("tenant-secret") && !text.contains("dGVuYW50"),
            "{text}"
        );
    }
    let kept = bench.path("instances/_config");
    assert_eq!(
        fs::metadata(&kept).unwrap().permissions().mode() & 0o777,
        0o700
    );
    let name = bench.found("instances/_config").pop().unwrap();
    assert_eq!(
        fs::metadata(kept.join(&name)).unwrap().permissions().mode() & 0o777,
        0o600
    );
    // A restarted agent has only the journal's text.
    drop(disks);
    let disks = bench.disks();
    let read: DiskPlan = serde_json::from_str(&written).unwrap();
    assert_eq!(read, wanted);
    let again = Guest::new(1, &disks, read.clone());
    disks.prepare(&again.provision()).await.unwrap();
    let image = fs::read(bench.path(&again.folder()).join("disk.config")).unwrap();
    assert_eq!(tree(&image, 17)["/user-data"], USER_DATA.as_bytes());
    // A changed or missing content makes no drive.
    fs::remove_file(bench.path(&again.folder()).join("disk.config")).unwrap();
    fs::write(kept.join(&name), "{}").unwrap();
    let message = disks.check(&again.provision()).unwrap_err().to_string();
    assert!(message.contains("it was changed"), "{message}");
    disks.discard_config_drive(uuid).unwrap();
    assert_eq!(bench.found("instances/_config"), [""; 0]);
    let message = disks.check(&again.provision()).unwrap_err().to_string();
    assert!(message.contains("nothing is stored"), "{message}");
    let message = disks
        .store_config_drive(uuid, read.config_drive().unwrap())
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("send the request with its content"),
        "{message}"
    );
}

#[test]
fn a_plan_that_the_guests_files_do_not_fit_is_refused() {
    let plan = DiskPlan::new(None, 5, vec![], None).unwrap();
    let message = plan.fits(&GuestDisks::default()).unwrap_err().to_string();
    assert!(
        message.contains("the plan has an empty root disk"),
        "{message}"
    );
    for (root, ephemeral, sentence) in [
        (u64::MAX, vec![], "1 EiB"),
        (0, vec![0], "is not a disk"),
        (0, vec![1; 26], "at most 25"),
        (0, vec![u64::MAX], "1 EiB"),
    ] {
        let message = DiskPlan::new(None, root, ephemeral, None)
            .unwrap_err()
            .to_string();
        assert!(message.contains(sentence), "{message}");
    }
}

#[test]
fn each_bad_part_of_a_config_drive_is_refused_without_being_repeated() {
    type Change = fn(&mut ConfigDriveParts);
    let key = |n: usize| PublicKey {
        name: format!("k{n}"),
        public_key: "ssh-rsa AAAA".to_owned(),
    };
    let table: &[(Change, &str)] = &[
        (|p| p.hostname = String::new(), "config_drive.hostname"),
        (
            |p| p.hostname = "secret name".to_owned(),
            "config_drive.hostname",
        ),
        (
            |p| p.hostname = "-secret".to_owned(),
            "config_drive.hostname",
        ),
        (
            |p| p.name = Some("secret\nname".to_owned()),
            "config_drive.name",
        ),
        (
            |p| p.metadata = (0..129).map(|n| (n.to_string(), String::new())).collect(),
            "128 keys",
        ),
        (
            |p| p.metadata = BTreeMap::from([("k".to_owned(), "secret".repeat(50))]),
            "at most 255 bytes",
        ),
        (
            |p| p.admin_password = Some(Secret::from("secret\0")),
            "config_drive.admin_password",
        ),
        (
            |p| p.network_data = Some(json!([])),
            "config_drive.network_data",
        ),
        (
            |p| p.vendor_data = Some(json!({"secret": "x".repeat(70_000)})),
            "config_drive.vendor_data",
        ),
        (
            |p| p.public_keys[0].public_key = "secret\nline".to_owned(),
            "public_keys.public_key",
        ),
    ];
    for (change, sentence) in table {
        let mut changed = parts();
        change(&mut changed);
        let message = ConfigDriveContent::new(changed).unwrap_err().to_string();
        assert!(
            message.contains(sentence) && !message.contains("secret"),
            "{message}"
        );
    }
    let mut twice = parts();
    twice.public_keys = vec![key(1), key(1)];
    assert!(ConfigDriveContent::new(twice).is_err());
    let mut many = parts();
    many.public_keys = (0..65).map(key).collect();
    assert!(ConfigDriveContent::new(many).is_err());
    assert!(UserData::new(&vec![0; 65_536]).is_err());
    assert!(UserData::from_base64("no base64!").is_err());
    assert_eq!(
        UserData::from_base64("I2Nsb3Vk\n").unwrap().reveal(),
        b"#cloud"
    );
}

#[tokio::test]
async fn a_certificate_is_a_key_of_type_x509_and_no_ssh_key() {
    let certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----";
    let files = server_drive(|server| {
        server.public_keys = vec![PublicKey {
            name: "win".to_owned(),
            public_key: certificate.to_owned(),
        }];
    })
    .await;
    let json = |path: &str| -> Value { serde_json::from_slice(&files[path]).unwrap() };
    let meta = json("/openstack/latest/meta_data.json");
    assert_eq!(
        meta["keys"],
        json!([{"name": "win", "type": "x509", "data": certificate}])
    );
    assert_eq!(meta["public_keys"], json!({ "win": certificate }));
    let ec2 = json("/ec2/latest/meta-data.json");
    assert_eq!(ec2.get("public-keys"), None);
}
