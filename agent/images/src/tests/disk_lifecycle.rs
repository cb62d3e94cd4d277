//! Tests of disks: repeated calls, kills, links and removal.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use berth_virt::guest_spec::DiskFormat::{self, Qcow2, Raw};
use berth_virt::guest_spec::HostPath;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::tests::bench::*;
use crate::*;

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[tokio::test]
async fn the_instances_folder_is_passable_for_the_emulators_user() {
    let bench = Bench::new().await;
    let _disks = bench.disks();
    assert_eq!(mode(&bench.path("instances")), 0o711);
    // An operator's folder may be a link and is used as it is.
    let own = bench.path("own");
    fs::create_dir(&own).unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o751)).unwrap();
    symlink(&own, bench.path("linked")).unwrap();
    let path = bench.path("linked");
    let path = HostPath::new(path.to_str().unwrap()).unwrap();
    let _disks = bench.disks_with(DiskOptions::new(path).unwrap());
    assert_eq!(mode(&own), 0o751);
    assert_eq!(bench.found("own"), ["_base", "_config"]);
}

#[tokio::test]
async fn the_cache_is_one_agents_and_waits_for_the_child_of_a_killed_one() {
    let bench = Bench::new().await;
    let disks = bench.disks();
    let again = Disks::open(
        bench.options(),
        bench.sources(),
        Arc::new(LoggedProgress::default()),
    );
    assert!(matches!(again, Err(DiskError::InUse { .. })));
    drop(disks);
    let lock = bench.path("instances/_base/.berth-lock");
    // A pid that no process can have.
    fs::write(&lock, "4194305\n").unwrap();
    let child = fs::File::open(&lock).unwrap();
    child.lock().unwrap();
    let ends = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        drop(child);
    });
    let _disks = bench.disks();
    ends.join().unwrap();
}

/// The rescue image may be the instance's own image.
#[tokio::test]
async fn a_guest_is_rescued_from_the_image_that_it_was_made_of() {
    let bench = Bench::new().await;
    let disks = bench.disks();
    let (path, bytes) = bench.image("one", Qcow2);
    let own = plan(of_path(&path, &bytes, Qcow2), 1);
    let guest = Guest::new(1, &disks, own.clone());
    disks.prepare(&guest.provision()).await.unwrap();
    let rescued = own.rescued_from(of_path(&path, &bytes, Qcow2));
    let guest = Guest::new(1, &disks, rescued.clone());
    disks.fetch(&rescued, None).await.unwrap();
    disks.prepare(&guest.provision()).await.unwrap();
    assert_eq!(bench.found(&guest.folder()), ["disk", "disk.rescue"]);
    assert_eq!(bench.found("instances/_base").len(), 1);
}

#[tokio::test]
async fn a_guest_has_its_disks_however_often_they_are_made_ready_and_none_afterwards() {
    let bench = Bench::new().await;
    let disks = bench.disks();
    let (path, bytes) = bench.image("one", Qcow2);
    let wanted = DiskPlan::new(Some(of_path(&path, &bytes, Qcow2)), 2, vec![1, 3], None).unwrap();
    let mut guest = Guest::new(1, &disks, wanted);
    disks.prepare(&guest.provision()).await.unwrap();
    let folder = bench.path(&guest.folder());
    assert_eq!(
        bench.found(&guest.folder()),
        ["disk", "disk.eph0", "disk.eph1"]
    );
    assert_eq!(mode(&folder), 0o711);
    assert_eq!(mode(&folder.join("disk")), 0o600);
    let base = guest.spec.disks.root().unwrap().base.clone().unwrap();
    assert_eq!(mode(base.path.as_path()), 0o444);
    // The guest's writes are preserved.
    let write = |word: &str| {
        let command = format!("write -P {word} 0 64k");
        let output = Command::new("qemu-io")
            .args(["-f", "qcow2", "-c", &command])
            .arg(folder.join("disk"))
            .output();
        output.is_ok_and(|output| output.status.success())
    };
    let wrote = write("0x42");
    guest.has_run_before = true;
    let before = fs::read(folder.join("disk")).unwrap();
    disks.check(&guest.provision()).unwrap();
    disks.prepare(&guest.provision()).await.unwrap();
    assert_eq!(fs::read(folder.join("disk")).unwrap(), before, "{wrote}");
    for _ in 0..2 {
        disks.release(&guest.provision()).await.unwrap();
        assert!(!folder.exists());
    }
    assert_eq!(
        bench.found("instances/_base").len(),
        1,
        "the image stays for the next guest"
    );
}

#[tokio::test]
async fn a_swap_disk_has_a_swap_space_behind_the_ephemeral_disks_also_after_a_kill() {
    let bench = Bench::new().await;
    let disks = bench.disks();
    let wanted = DiskPlan::new(None, 1, vec![1], None).unwrap();
    let wanted = wanted.with_swap(512).unwrap();
    let guest = Guest::new(1, &disks, wanted.clone());
    let folder = bench.path(&guest.folder());
    // Files of a run that was killed in the middle.
    fs::create_dir_all(&folder).unwrap();
    for name in ["disk.swap", "disk.swap.raw"] {
        crate::atomic_file::PartialFile::of(&folder.join(name))
            .create()
            .unwrap();
    }
    disks.prepare(&guest.provision()).await.unwrap();
    assert_eq!(
        bench.found(&guest.folder()),
        ["disk", "disk.eph0", "disk.swap"]
    );
    let names: Vec<&str> = guest
        .spec
        .disks
        .ephemeral()
        .iter()
        .map(|disk| disk.path.as_str())
        .collect();
    assert!(
        names[0].ends_with("/disk.eph0") && names[1].ends_with("/disk.swap"),
        "{names:?}"
    );
    let raw = bench.path("raw");
    let words = ["convert", "-f", "qcow2", "-O", "raw"];
    qemu_img(&words, &[&folder.join("disk.swap"), &raw]);
    assert_eq!(fs::metadata(&raw).unwrap().len(), 512 << 20);
    let found = Command::new("blkid")
        .args(["-p", "-o", "export"])
        .arg(&raw)
        .output()
        .unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    assert!(found.contains("TYPE=swap"), "{found}");
    // The guest's pages stay.
    let before = fs::read(folder.join("disk.swap")).unwrap();
    disks.prepare(&guest.provision()).await.unwrap();
    assert_eq!(fs::read(folder.join("disk.swap")).unwrap(), before);
    let stored = serde_json::to_value(&wanted).unwrap();
    assert_eq!(stored["swap_mib"], 512);
    assert_eq!(serde_json::from_value::<DiskPlan>(stored).unwrap(), wanted);
    let full = DiskPlan::new(None, 1, vec![1; 25], None).unwrap();
    assert!(full.with_swap(1).is_err() && wanted.with_swap((1 << 20) + 1).is_err());
}

#[tokio::test]
async fn a_missing_disk_of_a_guest_that_has_run_is_not_recreated() {
    let bench = Bench::new().await;
    let disks = bench.disks();
    let (path, bytes) = bench.image("one", Raw);
    let mut guest = Guest::new(1, &disks, plan(of_path(&path, &bytes, Raw), 1));
    disks.prepare(&guest.provision()).await.unwrap();
    guest.has_run_before = true;
    fs::remove_file(bench.path(&guest.folder()).join("disk")).unwrap();
    let message = disks
        .prepare(&guest.provision())
        .await
        .unwrap_err()
        .to_string();
    assert!(message.contains("the guest has run with it"), "{message}");
    assert_eq!(bench.found(&guest.folder()), [""; 0]);
}

#[tokio::test]
async fn a_removed_base_image_is_fetched_again() {
    let bench = Bench::new().await;
    let disks = bench.disks();
    let (path, bytes) = bench.image("one", Raw);
    let mut guest = Guest::new(1, &disks, plan(of_path(&path, &bytes, Raw), 1));
    disks.prepare(&guest.provision()).await.unwrap();
    guest.has_run_before = true;
    let base = guest.spec.disks.root().unwrap().base.clone().unwrap();
    fs::remove_file(base.path.as_path()).unwrap();
    disks.prepare(&guest.provision()).await.unwrap();
    assert_eq!(fs::read(base.path.as_path()).unwrap(), bytes);
}

#[tokio::test]
async fn a_root_of_no_size_is_as_large_as_its_image_and_without_an_image_empty_or_none() {
    let bench = Bench::new().await;
    let disks = bench.disks();
    let (path, bytes) = bench.image("one", Raw);
    for (image, gib, size) in [
        (Some(of_path(&path, &bytes, Raw)), 0, Some(4 * MIB as u64)),
        (None, 3, Some(3 << 30)),
        (None, 0, None),
    ] {
        let wanted = DiskPlan::new(image, gib, vec![1], None).unwrap();
        let guest = Guest::new(1, &disks, wanted);
        disks.prepare(&guest.provision()).await.unwrap();
        let root = bench.path(&guest.folder()).join("disk");
        assert_eq!(root.exists(), size.is_some());
        if let Some(size) = size {
            let output = qemu_img(&["info", "--output=json"], &[&root]);
            let output: serde_json::Value = serde_json::from_str(&output).unwrap();
            assert_eq!(output["virtual-size"], size);
        }
        disks.release(&guest.provision()).await.unwrap();
    }
}

#[tokio::test]
async fn links_and_folders_in_the_place_of_ours_are_refused_and_never_followed() {
    let bench = Bench::new().await;
    let disks = bench.disks();
    let (path, bytes) = bench.image("one", Raw);
    let guest = Guest::new(1, &disks, plan(of_path(&path, &bytes, Raw), 1));
    let elsewhere = bench.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("disk"), "precious").unwrap();
    let folder = bench.path(&guest.folder());
    // The guest's folder is a link to another one.
    symlink(&elsewhere, &folder).unwrap();
    let message = disks
        .prepare(&guest.provision())
        .await
        .unwrap_err()
        .to_string();
    assert!(message.contains("it was not changed"), "{message}");
    disks.release(&guest.provision()).await.unwrap();
    assert!(!folder.exists() && elsewhere.join("disk").exists());
    // A disk is a link.
    fs::create_dir(&folder).unwrap();
    symlink(elsewhere.join("disk"), folder.join("disk")).unwrap();
    let message = disks
        .prepare(&guest.provision())
        .await
        .unwrap_err()
        .to_string();
    assert!(message.contains("it was not changed"), "{message}");
    symlink(&elsewhere, folder.join("more")).unwrap();
    disks.release(&guest.provision()).await.unwrap();
    assert_eq!(fs::read(elsewhere.join("disk")).unwrap(), b"precious");
    // The image is a link.
    let base = guest.spec.disks.root().unwrap().base.clone().unwrap();
    symlink(elsewhere.join("disk"), base.path.as_path()).unwrap();
    let message = disks
        .prepare(&guest.provision())
        .await
        .unwrap_err()
        .to_string();
    assert!(message.contains("it was not changed"), "{message}");
}

#[tokio::test]
async fn a_guest_with_unmanaged_disks_keeps_them_and_loses_only_its_log() {
    let bench = Bench::new().await;
    let disks = bench.disks();
    let guest = Guest::new(1, &disks, DiskPlan::default());
    disks.prepare(&guest.provision()).await.unwrap();
    let folder = bench.path(&guest.folder());
    fs::write(folder.join("console.log"), "hello").unwrap();
    fs::write(folder.join("own.qcow2"), "own").unwrap();
    disks.release(&guest.provision()).await.unwrap();
    assert_eq!(bench.found(&guest.folder()), ["own.qcow2"]);
    fs::remove_file(folder.join("own.qcow2")).unwrap();
    disks.release(&guest.provision()).await.unwrap();
    assert!(!folder.exists());
}

#[tokio::test]
async fn disks_that_are_to_lie_elsewhere_are_refused() {
    let bench = Bench::new().await;
    let disks = bench.disks();
    let (path, bytes) = bench.image("one", Raw);
    let mut guest = Guest::new(1, &disks, plan(of_path(&path, &bytes, Raw), 1));
    let other = InstancesPath::new(HostPath::new("/srv/instances").unwrap());
    guest.spec.disks = other.disks(guest.spec.uuid, &guest.plan).unwrap();
    let message = disks.check(&guest.provision()).unwrap_err().to_string();
    assert!(message.contains("spec.disks"), "{message}");
}

#[tokio::test]
async fn missing_space_is_reported_before_anything_is_created() {
    let bench = Bench::new().await;
    let folder = bench.path("images");
    let error = crate::atomic_file::ensure_room(&folder, u64::MAX / 2).unwrap_err();
    assert!(error.to_string().contains("not enough space in"), "{error}");
    assert!(crate::atomic_file::ensure_room(&folder, 0).is_ok());
}

#[tokio::test]
async fn a_second_agent_on_the_same_folder_is_refused() {
    let bench = Bench::new().await;
    let first = bench.disks();
    let progress = Arc::new(LoggedProgress::default());
    let second = Disks::open(bench.options(), bench.sources(), progress);
    let message = second.err().unwrap().to_string();
    assert!(message.contains("another agent"), "{message}");
    drop(first);
    bench.disks();
}

#[tokio::test]
async fn only_images_that_were_not_used_for_long_are_removed() {
    let bench = Bench::new().await;
    let options = DiskOptions {
        remove_unused_original_minimum_age: Duration::from_secs(3600),
        ..bench.options()
    };
    let disks = bench.disks_with(options);
    let mut guests = Vec::new();
    for (number, name) in [(1, "used"), (2, "old"), (3, "young"), (4, "foreign")] {
        let (path, bytes) = bench.image(name, Raw);
        let guest = Guest::new(number, &disks, plan(of_path(&path, &bytes, Raw), 1));
        disks.prepare(&guest.provision()).await.unwrap();
        guests.push(guest);
    }
    let folder = bench.path("instances/_base");
    let novas = folder.join("0123456789abcdef0123456789abcdef01234567");
    fs::write(&novas, "Nova's").unwrap();
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(7200);
    let age = |path: &Path| {
        fs::File::open(path)
            .unwrap()
            .set_modified(long_ago)
            .unwrap()
    };
    // The second guest is removed; of the fourth only the disk is known.
    disks.release(&guests[1].provision()).await.unwrap();
    for guest in [&guests[0], &guests[1], &guests[3]] {
        age(guest
            .spec
            .disks
            .root()
            .unwrap()
            .base
            .as_ref()
            .unwrap()
            .path
            .as_path());
    }
    age(&novas);
    let used = guests[0].plan.image().unwrap().key();
    let known = BTreeSet::from([guests[0].spec.uuid]);
    Arc::new(disks)
        .remove_unused(known, BTreeSet::from([used]))
        .await;
    let key = |n: usize| guests[n].plan.image().unwrap().key().to_string();
    let mut left = vec![
        key(0),
        key(2),
        key(3),
        "0123456789abcdef0123456789abcdef01234567".to_owned(),
    ];
    left.sort();
    assert_eq!(bench.found("instances/_base"), left);
}

/// Where the agent is killed: at a stage of an image, or around a call of qemu-img.
const KILLS: [&str; 7] = [
    "fetch",
    "before convert",
    "after convert",
    "done",
    "before create",
    "after create",
    "second create",
];

/// A qemu-img that hangs before or after the real one.
fn slow_qemu_img(bench: &Bench, at: &str) -> PathBuf {
    let stall = |word: &str| format!("touch {}; sleep 30", bench.path(word).display());
    let real = DiskOptions::QEMU_IMG;
    let count = bench.path("count").display().to_string();
    let body = match at.split_once(' ') {
        Some(("before", verb)) => format!(
            "[ $1 = {verb} ] && {{ {}; }}\nexec {real} \"$@\"",
            stall("reached")
        ),
        Some(("after", verb)) => format!(
            "{real} \"$@\" || exit 1\n[ $1 = {verb} ] && {{ {}; }}\nexit 0",
            stall("reached")
        ),
        Some(("second", verb)) => format!(
            "[ $1 = {verb} ] && {{ [ -e {count} ] && {{ {}; }}; touch {count}; }}\nexec {real} \"$@\"",
            stall("reached")
        ),
        _ => format!("exec {real} \"$@\""),
    };
    let path = bench.path("qemu-img");
    fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Signals that a stage is reached, and hangs.
struct Stops {
    at: String,
    reached: PathBuf,
}

impl ImageProgress for Stops {
    fn on_progress(&self, _: &ImageKey, stage: ImageStage, _: u64, _: Option<u64>) {
        let at = match stage {
            ImageStage::Fetch => "fetch",
            ImageStage::Convert => "convert",
            ImageStage::Done => "done",
        };
        if self.at == at {
            fs::write(&self.reached, "").unwrap();
            std::thread::sleep(Duration::from_secs(30));
        }
    }
}

fn killed_plan(image: &Path, bytes: &[u8], format: DiskFormat) -> DiskPlan {
    DiskPlan::new(Some(of_path(image, bytes, format)), 1, vec![1], None).unwrap()
}

/// Prepares a disk in a separate process, which the next test kills.
#[tokio::test]
#[ignore = "the next test starts it as a process and kills it"]
async fn process_to_be_killed() {
    let Ok(scratch) = std::env::var("BERTH_TEST_DISKS") else {
        return;
    };
    let at = std::env::var("BERTH_TEST_KILL").unwrap();
    let scratch = PathBuf::from(scratch);
    let path = |below: &str| HostPath::new(scratch.join(below).to_str().unwrap()).unwrap();
    let options = DiskOptions {
        qemu_img: path("qemu-img"),
        qemu_img_scratch: Some(scratch.clone()),
        ..DiskOptions::new(path("instances")).unwrap()
    };
    let sources = ImageSources {
        directories: vec![path("images")],
        ..ImageSources::default()
    };
    let reached = scratch.join("reached");
    let disks = Disks::open(options, sources, Arc::new(Stops { at, reached })).unwrap();
    let image = scratch.join("images/one.qcow2");
    let bytes = fs::read(&image).unwrap();
    let guest = Guest::new(1, &disks, killed_plan(&image, &bytes, Qcow2));
    disks.prepare(&guest.provision()).await.unwrap();
}

fn agent_process(bench: &Bench, at: &str) -> Child {
    use std::os::unix::process::CommandExt;
    let module = module_path!().split_once("::").unwrap().1;
    let name = format!("{module}::process_to_be_killed");
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name.as_str(), "--ignored", "--quiet"])
        .env("BERTH_TEST_DISKS", bench.scratch.path())
        .env("BERTH_TEST_KILL", at)
        .stdout(std::process::Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn a_kill_at_any_step_leaves_a_cache_that_is_whole_after_the_next_start() {
    for at in KILLS {
        let bench = Bench::new().await;
        let (image, bytes) = bench.image("one", Qcow2);
        slow_qemu_img(&bench, at);
        let mut agent = agent_process(&bench, at);
        while !bench.path("reached").exists() {
            assert!(
                agent.try_wait().unwrap().is_none(),
                "{at}: it ended by itself"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // Kill only the agent: a qemu-img that it started may live on for a while.
        let pid = Pid::from_raw(i32::try_from(agent.id()).unwrap());
        kill(pid, Signal::SIGKILL).unwrap();
        agent.wait().unwrap();
        let disks = bench.disks();
        let key = of_path(&image, &bytes, Qcow2).key().to_string();
        let left = bench.found("instances/_base");
        assert!(
            left.is_empty() || left == std::slice::from_ref(&key),
            "{at}: {left:?}"
        );
        let guest = Guest::new(1, &disks, killed_plan(&image, &bytes, Qcow2));
        disks.prepare(&guest.provision()).await.unwrap();
        assert_eq!(
            bench.found("instances/_base").as_slice(),
            std::slice::from_ref(&key),
            "{at}"
        );
        let whole = fs::read(bench.path("images/one.raw")).unwrap();
        assert_eq!(
            fs::read(bench.path("instances/_base").join(key)).unwrap(),
            whole,
            "{at}"
        );
        assert_eq!(bench.found(&guest.folder()), ["disk", "disk.eph0"], "{at}");
        for disk in ["disk", "disk.eph0"] {
            qemu_img(
                &["check", "-q", "-f", "qcow2"],
                &[&bench.path(&guest.folder()).join(disk)],
            );
        }
        disks.release(&guest.provision()).await.unwrap();
        let _ = kill(Pid::from_raw(-pid.as_raw()), Signal::SIGKILL);
    }
}

#[tokio::test]
async fn a_failing_hanging_or_missing_qemu_img_is_reported_and_leaves_nothing() {
    for (script, sentence) in [
        (
            Some("#!/bin/sh\necho no such luck >&2\nexit 3\n"),
            "no such luck",
        ),
        (Some("#!/bin/sh\nexec sleep 30\n"), "timed out after"),
        (None, "qemu-img convert failed (exit status: 127)"),
    ] {
        let bench = Bench::new().await;
        let (path, bytes) = bench.image("one", Qcow2);
        let program = bench.path("qemu-img");
        if let Some(script) = script {
            fs::write(&program, script).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let options = DiskOptions {
            qemu_img: HostPath::new(program.to_str().unwrap()).unwrap(),
            qemu_img_deadline: Duration::from_millis(300),
            ..bench.options()
        };
        let disks = bench.disks_with(options);
        let guest = Guest::new(1, &disks, plan(of_path(&path, &bytes, Qcow2), 1));
        let message = disks
            .prepare(&guest.provision())
            .await
            .unwrap_err()
            .to_string();
        assert!(message.contains(sentence), "{message}");
        assert_eq!(bench.found("instances/_base"), [""; 0]);
    }
}
