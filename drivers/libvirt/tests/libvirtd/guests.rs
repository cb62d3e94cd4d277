//! Guests that the driver makes on the real libvirtd with the real QEMU, emulated, with firmware alone to run.

use std::path::Path;
use std::time::Duration;

use berth_libvirt::{DiskCache, LibvirtDriver, LibvirtOptions, VirtType};
use berth_model::{ConsumerUuid, Disposition};
use berth_virt::conformance::{check_guests, sample_guest};
use berth_virt::guest_spec::{
    BaseImage, DiskFormat, GuestDisks, GuestSpec, GuestTopology, HostPath, QcowDisk,
};
use berth_virt::{
    GuestDestroyOutcome, GuestError, GuestPowerOutcome, GuestSpawnOutcome, PowerAction, PowerState,
    VirtDriver as _,
};
use uuid::Uuid;
use virt::connect::Connect;

use crate::daemon::Daemon;
use crate::{disk_files, loaded, options};

pub(crate) fn driver(daemon: &Daemon) -> LibvirtDriver {
    LibvirtDriver::new(driver_options(daemon))
}

pub(crate) fn driver_options(daemon: &Daemon) -> LibvirtOptions {
    LibvirtOptions {
        virt_type: VirtType::Qemu,
        // Where temporary files are in memory there is no O_DIRECT.
        disk_cache: DiskCache::Writeback,
        ..options(daemon)
    }
}

fn path(folder: &Path, name: &str) -> HostPath {
    HostPath::new(folder.join(name).to_str().expect("a path in UTF-8")).expect("a plain path")
}

pub(crate) fn guest_spec(folder: &Path, disks: GuestDisks) -> GuestSpec {
    let uuid = ConsumerUuid::from(Uuid::from_u128(0x9e57_0000_0000_4000_8000_0000_0000_0001));
    GuestSpec {
        topology: GuestTopology::plain(2, 64).expect("a small guest"),
        disks,
        console_log: path(folder, "console.log"),
        ..sample_guest(uuid, "it's <a> \"guest\" & more, ünï=1")
    }
}

pub(crate) fn disks(folder: &Path) -> GuestDisks {
    disk_files::raw(&folder.join("base"));
    disk_files::raw(&folder.join("config"));
    // What the file itself says it lies over is not what is opened.
    disk_files::qcow2(&folder.join("root"), Some("/nowhere/at/all"));
    disk_files::qcow2(&folder.join("ephemeral"), Some("/etc/shadow"));
    let root = QcowDisk {
        path: path(folder, "root"),
        base: Some(BaseImage {
            path: path(folder, "base"),
            format: DiskFormat::Raw,
        }),
    };
    let ephemeral = QcowDisk {
        path: path(folder, "ephemeral"),
        base: None,
    };
    GuestDisks::new(Some(root), vec![ephemeral], Some(path(folder, "config"))).expect("four files")
}

/// The files that the process of the guest with files in this folder has open.
fn open_files(folder: &Path) -> Vec<String> {
    let folder = folder.display().to_string();
    let processes = std::fs::read_dir("/proc").expect("there are processes");
    let of_guest = |process: &Path| {
        std::fs::read(process.join("cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).contains(&folder))
    };
    let guests = processes
        .flatten()
        .map(|process| process.path())
        .filter(|process| of_guest(process));
    guests
        .flat_map(|guest| std::fs::read_dir(guest.join("fd")).into_iter().flatten())
        .flatten()
        .filter_map(|file| std::fs::read_link(file.path()).ok())
        .map(|file| file.display().to_string())
        .collect()
}

#[tokio::test]
async fn the_driver_keeps_its_promises_about_guests() {
    loaded();
    let daemon = Daemon::start();
    let folder = tempfile::tempdir().expect("a folder");
    let spec = guest_spec(folder.path(), disks(folder.path()));
    assert_eq!(check_guests(&driver(&daemon), &spec, None).await, []);
    let connect = Connect::open(Some(&daemon.uri())).expect("libvirtd runs");
    let left = connect.list_all_domains(0).expect("guests are listed");
    assert_eq!(left.len(), 0);
}

#[tokio::test]
async fn only_the_named_files_are_opened() {
    loaded();
    let daemon = Daemon::start();
    let folder = tempfile::tempdir().expect("a folder");
    let driver = driver(&daemon);
    let spec = guest_spec(folder.path(), disks(folder.path()));
    assert_eq!(
        driver.spawn(&spec).await.expect("it starts"),
        GuestSpawnOutcome::Spawned
    );
    let open = open_files(folder.path());
    for name in ["root", "base", "ephemeral", "config", "console.log"] {
        let file = path(folder.path(), name).to_string();
        // Seen from another mount namespace, a path may start with the path of a changed root.
        let opened = open.iter().any(|opened| opened.ends_with(&file));
        assert!(opened, "{name} in {open:?}");
    }
    assert!(!open.iter().any(|file| file.contains("shadow")), "{open:?}");
    assert_eq!(
        driver.destroy(spec.uuid).await.expect("it ends"),
        GuestDestroyOutcome::Destroyed
    );
    assert_eq!(open_files(folder.path()), Vec::<String>::new());
}

#[tokio::test]
async fn a_guest_outlives_a_killed_libvirtd_and_is_known_again() {
    loaded();
    let mut daemon = Daemon::start();
    let folder = tempfile::tempdir().expect("a folder");
    let spec = guest_spec(folder.path(), GuestDisks::default());
    let before = driver(&daemon);
    assert_eq!(
        before.spawn(&spec).await.expect("it starts"),
        GuestSpawnOutcome::Spawned
    );
    let listed = before.guests().await.expect("guests are listed");
    daemon.kill();
    daemon.start_again();
    // An agent that was started again, too.
    let after = driver(&daemon);
    assert_eq!(after.guests().await.expect("guests are listed"), listed);
    assert_eq!(
        after.spawn(&spec).await.expect("it runs"),
        GuestSpawnOutcome::AlreadyThere
    );
    assert_eq!(
        before.spawn(&spec).await.expect("it runs"),
        GuestSpawnOutcome::AlreadyThere
    );
    assert_eq!(
        after.destroy(spec.uuid).await.expect("it ends"),
        GuestDestroyOutcome::Destroyed
    );
}

/// Repeats while that may help: libvirtd may first have to recover a start in which it was killed, and holds the guest
/// until then. If it was killed just before it started the emulator, it holds the guest forever, and the recovery
/// command is the reported one (`stuck`).
async fn spawn_in_the_end(daemon: &mut Daemon, driver: &LibvirtDriver, spec: &GuestSpec) {
    let mut text = Vec::new();
    for _ in 0..20 {
        match driver.spawn(spec).await {
            Ok(_) => return,
            Err(GuestError::Stuck { .. }) => {
                std::fs::remove_file(daemon.status(spec.name.as_str())).expect("it is there");
                daemon.kill();
                daemon.start_again();
            }
            Err(error) if error.disposition() == Disposition::Retry => text.push(error.to_string()),
            Err(error) => panic!("not to be retried: {error}; before: {text:?}"),
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    panic!("it is not brought to its end: {text:?}");
}

#[tokio::test]
async fn a_spawn_that_a_killed_libvirtd_cut_off_is_finished_by_the_next_one() {
    loaded();
    let mut daemon = Daemon::start();
    let folder = tempfile::tempdir().expect("a folder");
    let driver = std::sync::Arc::new(driver(&daemon));
    let spec = guest_spec(folder.path(), disks(folder.path()));
    // Somewhere in the midst: before the definition, between it and the start, in the start, after it.
    for milliseconds in [0, 80, 300] {
        let spawning = {
            let (driver, spec) = (std::sync::Arc::clone(&driver), spec.clone());
            tokio::spawn(async move { driver.spawn(&spec).await })
        };
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        daemon.kill();
        match spawning.await.expect("no panic") {
            Ok(_) => {}
            Err(error) => assert_eq!(error.disposition(), Disposition::Retry, "{error}"),
        }
        daemon.start_again();
        spawn_in_the_end(&mut daemon, &driver, &spec).await;
        let guests = driver.guests().await.expect("guests are listed");
        assert_eq!(guests.len(), 1);
        assert_eq!(guests[&spec.uuid].state, PowerState::Running);
        let _ = driver.destroy(spec.uuid).await.expect("it ends");
        assert_eq!(open_files(folder.path()), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_guest_that_does_not_end_by_itself_is_switched_off_after_its_grace() {
    loaded();
    let daemon = Daemon::start();
    let folder = tempfile::tempdir().expect("a folder");
    let driver = driver(&daemon);
    let spec = guest_spec(folder.path(), GuestDisks::default());
    let _ = driver.spawn(&spec).await.expect("it starts");
    // Firmware without a system does not listen.
    let grace = Duration::from_millis(600);
    let stopped = driver.power(spec.uuid, PowerAction::Stop { grace }).await;
    assert_eq!(stopped.expect("it is off"), GuestPowerOutcome::Done);
    let guests = driver.guests().await.expect("guests are listed");
    assert_eq!(guests[&spec.uuid].state, PowerState::ShutOff);
    let _ = driver.destroy(spec.uuid).await.expect("it is undefined");
}

#[tokio::test]
async fn a_guest_that_cannot_start_is_refused_and_can_be_destroyed() {
    loaded();
    let daemon = Daemon::start();
    let folder = tempfile::tempdir().expect("a folder");
    let driver = driver(&daemon);
    let root = QcowDisk {
        path: path(folder.path(), "not-there"),
        base: None,
    };
    let disks = GuestDisks::new(Some(root), vec![], None).expect("one disk");
    let spec = guest_spec(folder.path(), disks);
    let error = driver.spawn(&spec).await.expect_err("its disk is missing");
    assert!(error.to_string().contains("not-there"), "{error}");
    let guests = driver.guests().await.expect("guests are listed");
    assert_ne!(
        guests.get(&spec.uuid).map(|guest| guest.state),
        Some(PowerState::Running)
    );
    let _ = driver.destroy(spec.uuid).await.expect("it is undefined");
    assert!(driver.guests().await.expect("guests are listed").is_empty());
}

#[tokio::test]
async fn a_guest_that_libvirt_still_starts_for_one_caller_is_had_by_all_others_too() {
    loaded();
    let daemon = Daemon::start();
    let folder = tempfile::tempdir().expect("a folder");
    let spec = guest_spec(folder.path(), disks(folder.path()));
    let uuid = spec.uuid;
    let mut callers = tokio::task::JoinSet::new();
    // Like a process that was killed in its call, and its successors.
    for life in 0..6 {
        let (driver, spec) = (driver(&daemon), spec.clone());
        callers.spawn(async move {
            tokio::time::sleep(Duration::from_millis(life * 60)).await;
            let spawned = driver.spawn(&spec).await.map(drop);
            let started = driver.power(uuid, PowerAction::Start).await;
            (spawned, started)
        });
    }
    while let Some(called) = callers.join_next().await {
        let (spawned, started) = called.expect("no panic");
        spawned.expect("it is there");
        assert_eq!(started.expect("it runs"), GuestPowerOutcome::Unchanged);
    }
    let driver = driver(&daemon);
    let guests = driver.guests().await.expect("libvirtd answers");
    assert_eq!(guests[&uuid].state, PowerState::Running);
    assert_eq!(
        driver.destroy(uuid).await.expect("it ends"),
        GuestDestroyOutcome::Destroyed
    );
}
