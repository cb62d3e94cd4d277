//! The journal: what is read back is what was acknowledged, in every history and after every reopening.

mod withheld;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::Path;
use std::task::{Context, Poll, Waker};

use berth_agent_images::{
    ConfigDrive, ConfigDriveContent, ConfigDriveParts, DiskPlan, RecreateDisks,
};
use berth_model::ConsumerUuid;
use berth_store::OpenError;
use berth_virt::HostDeviceId;
use berth_virt::guest_spec::{
    DesiredPower, GuestBoot, GuestDisks, HostPath, HostPciPlace, QcowDisk,
};
use berth_workflow::{AcceptOutcome, JournalError, StepRecord, StepState};
use proptest::prelude::*;

use crate::bound_devices::BoundDevices;
use crate::guest_journal::*;
use crate::overrides::{
    BootSource, InstanceOverrides, PendingTransition, TransitionKind, TransitionPhase,
};
use crate::record::{Blame, Goal, GuestRecord, SpawnStep};
use crate::samples::{bound, guest, request};
use crate::sql_journal::SqlJournal;

#[tokio::test]
async fn what_is_forgotten_is_in_no_file_any_more_the_log_included() {
    let folder = tempfile::tempdir().unwrap();
    let journal = SqlJournal::open(folder.path()).await.unwrap();
    let any_file_has_it = || {
        let mut files = std::fs::read_dir(folder.path()).unwrap();
        files.any(|file| {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            bytes.windows(17).any(|it| it == b"instance-00000001")
        })
    };
    journal.accept(&request(1, &[1])).await.unwrap();
    assert!(any_file_has_it(), "it is needed");
    journal.delete_guest(guest(1)).await.unwrap();
    assert!(!any_file_has_it());
    journal.try_write().await.unwrap();
    assert_eq!(journal.guests().await.unwrap(), []);
}

/// One call of the journal.
#[derive(Debug, Clone)]
enum Op {
    Accept(u32),
    SetGoal(u32, Goal),
    SetPower(u32, DesiredPower),
    RecordStep(u32, SpawnStep, StepRecord),
    RecordOverrides(u32, Box<InstanceOverrides>, SpawnStep, StepRecord),
    Claim(u32, Vec<u32>),
    DropDevices(u32),
    Delete(u32),
    Reopen,
}

fn transition() -> PendingTransition {
    PendingTransition {
        kind: TransitionKind::Rescue,
        phase: TransitionPhase::Stopping {
            grace_seconds: 3,
            discard: vec![HostPath::new("/instances/1/disk.rescue").unwrap()],
            recreate: RecreateDisks::Root,
        },
    }
}

fn op() -> impl Strategy<Value = Op> {
    let number = || 1..4_u32;
    let goal = prop_oneof![
        Just(Goal::Spawn),
        Just(Goal::Destroy),
        (
            "[ -~]{0,20}",
            proptest::option::of(prop_oneof![Just(Blame::Image), Just(Blame::Host)])
        )
            .prop_map(|(reason, blame)| Goal::Undo { reason, blame }),
    ];
    let power = prop_oneof![
        Just(DesiredPower::Running),
        Just(DesiredPower::Paused),
        Just(DesiredPower::ShutOff),
    ];
    let step = proptest::sample::select(SpawnStep::ALL.to_vec());
    let state = proptest::sample::select(<StepState as strum::VariantArray>::VARIANTS.to_vec());
    let record = (state, "\\PC{0,20}").prop_map(|(state, detail)| StepRecord { state, detail });
    let own = || Some(BootSource::of(&request(1, &[1])));
    let overrides = prop_oneof![
        Just(InstanceOverrides::default()),
        Just(InstanceOverrides {
            rebuilt: own(),
            ended: true,
            last_action: "req-1.7".parse().ok(),
            ..InstanceOverrides::default()
        }),
        Just(InstanceOverrides {
            rescue: own(),
            transition: Some(transition()),
            ..InstanceOverrides::default()
        }),
    ];
    let devices = proptest::collection::btree_set(1..6_u32, 0..3)
        .prop_map(|numbers| numbers.into_iter().collect());
    prop_oneof![
        4 => number().prop_map(Op::Accept),
        2 => (number(), goal).prop_map(|(n, goal)| Op::SetGoal(n, goal)),
        1 => (number(), power).prop_map(|(n, power)| Op::SetPower(n, power)),
        2 => (number(), overrides, step.clone(), record.clone())
            .prop_map(|(n, overrides, step, record)| Op::RecordOverrides(n, Box::new(overrides), step, record)),
        4 => (number(), step, record).prop_map(|(n, step, record)| Op::RecordStep(n, step, record)),
        4 => (number(), devices).prop_map(|(n, devices)| Op::Claim(n, devices)),
        1 => number().prop_map(Op::DropDevices),
        1 => number().prop_map(Op::Delete),
        1 => Just(Op::Reopen),
    ]
}

/// What must be read back.
#[derive(Default)]
struct Model(BTreeMap<ConsumerUuid, GuestRecord>);

impl Model {
    fn owner(&self, device: &str) -> Option<ConsumerUuid> {
        let mut guests = self.0.iter();
        guests
            .find(|(_, record)| {
                let devices = record.devices.iter().flat_map(BoundDevices::iter);
                devices.map(|bound| bound.name()).any(|n| n == device)
            })
            .map(|(uuid, _)| *uuid)
    }

    fn step(&mut self, uuid: ConsumerUuid, step: SpawnStep, record: StepRecord) {
        self.0.get_mut(&uuid).unwrap().steps.insert(step, record);
    }
}

fn names(devices: &BoundDevices) -> BTreeSet<String> {
    devices.iter().map(|device| device.name()).collect()
}

/// Does it to both; whether the journal answered as it should is checked here.
async fn apply(journal: &SqlJournal, model: &mut Model, op: &Op) {
    let unknown = |answer: Result<(), JournalError>, known: bool| match answer {
        Ok(()) => assert!(known),
        Err(JournalError::Unknown { .. }) => assert!(!known),
        Err(error) => panic!("{error}"),
    };
    match op {
        Op::Accept(n) => {
            let wanted = request(*n, &[*n]);
            let answer = journal.accept(&wanted).await.unwrap();
            let known = model.0.get(&guest(*n)).map(|record| &record.goal);
            let expected = match known {
                None => AcceptOutcome::New,
                Some(Goal::Destroy) => AcceptOutcome::Deleting,
                Some(_) => AcceptOutcome::Same,
            };
            assert_eq!(answer, expected);
            model.0.entry(guest(*n)).or_insert_with(|| GuestRecord {
                request: wanted,
                goal: Goal::Spawn,
                power: DesiredPower::Running,
                steps: BTreeMap::new(),
                devices: None,
                overrides: InstanceOverrides::default(),
            });
        }
        Op::SetGoal(n, goal) => {
            let record = model.0.get_mut(&guest(*n));
            unknown(journal.set_goal(guest(*n), goal).await, record.is_some());
            if let Some(record) = record.filter(|record| record.goal != Goal::Destroy) {
                record.goal = goal.clone();
            }
        }
        Op::SetPower(n, power) => {
            let record = model.0.get_mut(&guest(*n));
            unknown(journal.set_power(guest(*n), *power).await, record.is_some());
            if let Some(record) = record {
                record.power = *power;
            }
        }
        Op::RecordStep(n, step, detail) => {
            let known = model.0.contains_key(&guest(*n));
            unknown(journal.record_step(guest(*n), *step, detail).await, known);
            if known {
                model.step(guest(*n), *step, detail.clone());
            }
        }
        Op::RecordOverrides(n, overrides, step, detail) => {
            let steps = [(*step, detail.clone())];
            let known = model.0.contains_key(&guest(*n));
            unknown(
                journal.record_overrides(guest(*n), overrides, &steps).await,
                known,
            );
            if known {
                model.0.get_mut(&guest(*n)).unwrap().overrides =
                    InstanceOverrides::clone(overrides);
                model.step(guest(*n), *step, detail.clone());
            }
        }
        Op::Claim(n, numbers) => {
            let devices = bound(numbers);
            let taken = names(&devices)
                .into_iter()
                .find(|name| model.owner(name).is_some_and(|owner| owner != guest(*n)));
            match journal
                .claim_devices(guest(*n), &names(&devices), &devices)
                .await
            {
                Ok(DeviceClaim::Claimed) => {
                    assert_eq!(taken, None);
                    model.0.get_mut(&guest(*n)).unwrap().devices = Some(devices);
                    model.step(guest(*n), SpawnStep::Bind, StepState::Done.into());
                }
                Ok(DeviceClaim::Taken { device, guest }) => {
                    assert_eq!(model.owner(&device), Some(guest));
                    assert_eq!(Some(device), taken);
                }
                Ok(DeviceClaim::Withheld { device, .. }) => panic!("{device} is withheld"),
                Err(JournalError::Unknown { .. }) => assert!(!model.0.contains_key(&guest(*n))),
                Err(error) => panic!("{error}"),
            }
        }
        Op::DropDevices(n) => {
            let known = model.0.contains_key(&guest(*n));
            unknown(journal.drop_devices(guest(*n)).await, known);
            if known {
                model.0.get_mut(&guest(*n)).unwrap().devices = None;
                model.step(guest(*n), SpawnStep::Bind, StepState::Undoing.into());
            }
        }
        Op::Delete(n) => {
            journal.delete_guest(guest(*n)).await.unwrap();
            model.0.remove(&guest(*n));
        }
        Op::Reopen => {}
    }
}

async fn play(folder: &Path, ops: &[Op]) {
    let mut journal = SqlJournal::open(folder).await.unwrap();
    let mut model = Model::default();
    for op in ops {
        if matches!(op, Op::Reopen) {
            drop(journal);
            journal = SqlJournal::open(folder).await.unwrap();
        }
        apply(&journal, &mut model, op).await;
        let found = journal.guests().await.unwrap();
        let found: Vec<_> = found.iter().map(AsRef::as_ref).collect();
        assert_eq!(found, model.0.values().collect::<Vec<_>>());
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_is_read_back_is_what_was_acknowledged(ops in proptest::collection::vec(op(), 1..24)) {
        let folder = tempfile::tempdir().unwrap();
        runtime().block_on(play(folder.path(), &ops));
    }

    /// A process that ends in the middle of a call: the call is looked at a few times and dropped.
    #[test]
    fn a_call_that_was_cut_off_is_there_wholly_or_not_at_all(polls in 0..12_u32) {
        let folder = tempfile::tempdir().unwrap();
        runtime().block_on(async {
            let journal = SqlJournal::open(folder.path()).await.unwrap();
            journal.accept(&request(1, &[1, 2])).await.unwrap();
            let before = journal.guest(guest(1)).await.unwrap().unwrap();
            let devices = bound(&[1, 2]);
            {
                let claimed = names(&devices);
                let mut claim = journal.claim_devices(guest(1), &claimed, &devices);
                let mut context = Context::from_waker(Waker::noop());
                for _ in 0..polls {
                    if !matches!(Future::poll(claim.as_mut(), &mut context), Poll::Pending) {
                        break;
                    }
                    std::thread::sleep(std::time::Duration::from_micros(200));
                }
            }
            drop(journal);
            let journal = SqlJournal::open(folder.path()).await.unwrap();
            let found = journal.guest(guest(1)).await.unwrap().unwrap();
            if found != before {
                assert_eq!(found.devices, Some(devices));
                assert_eq!(found.state(SpawnStep::Bind), Some(StepState::Done));
                // Its devices are rows, too: nobody else gets them.
                journal.accept(&request(2, &[3])).await.unwrap();
                let other = journal.claim_devices(guest(2), &names(&bound(&[2])), &bound(&[2])).await;
                assert!(matches!(other, Ok(DeviceClaim::Taken { .. })));
            }
        });
    }
}

async fn refused(folder: &Path) -> (String, JournalError) {
    let error = SqlJournal::open(folder).await.unwrap_err();
    (error.to_string(), error)
}

fn is_damaged(error: &JournalError) -> bool {
    matches!(error, JournalError::Damaged { .. })
}

#[tokio::test]
async fn a_file_that_is_no_database_or_a_damaged_one_is_refused_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("guests.db");
    std::fs::write(&file, "these are no guests".repeat(400)).unwrap();
    let (message, reason) = refused(folder.path()).await;
    assert!(message.contains(&file.display().to_string()), "{message}");
    assert!(message.contains("damaged"), "{message}");
    assert!(is_damaged(&reason), "{reason}");

    std::fs::remove_file(&file).unwrap();
    let journal = SqlJournal::open(folder.path()).await.unwrap();
    for number in 1..60 {
        journal.accept(&request(number, &[number])).await.unwrap();
    }
    journal.close().await;
    drop(journal);
    let mut bytes = std::fs::read(&file).unwrap();
    let pages = bytes.len() / 4096;
    assert!(pages > 8, "{pages} pages");
    bytes[4096 * 2..4096 * (pages - 2)].fill(0x5a);
    std::fs::write(&file, bytes).unwrap();
    let (message, reason) = refused(folder.path()).await;
    assert!(
        message.contains("guests.db") && message.contains("damaged"),
        "{message}"
    );
    assert!(!message.contains('\n'), "{message}");
    assert!(is_damaged(&reason), "{reason}");
}

async fn script(folder: &Path, sql: &'static str) {
    struct Script(&'static str);
    impl berth_store::Work for Script {
        type Output = ();
        type Error = berth_store::SqlError;
        async fn run(&self, tx: &mut berth_store::Transaction) -> Result<(), Self::Error> {
            tx.script(self.0).await
        }
    }
    let location = berth_store::Location::SqliteFile(folder.join("guests.db"));
    let store = berth_store::SqlStore::open(&location, &berth_store::SqlOptions::default()).await;
    store.unwrap().write(&Script(sql)).await.unwrap();
}

#[tokio::test]
async fn another_database_and_a_later_journal_are_refused_and_not_written() {
    let folder = tempfile::tempdir().unwrap();
    script(
        folder.path(),
        "CREATE TABLE resource_providers (id INTEGER)",
    )
    .await;
    let (message, reason) = refused(folder.path()).await;
    assert!(message.contains("resource_providers"), "{message}");
    assert!(is_damaged(&reason), "{reason}");

    let folder = tempfile::tempdir().unwrap();
    drop(SqlJournal::open(folder.path()).await.unwrap());
    script(folder.path(), "UPDATE guest_journal SET version = 7").await;
    let (message, reason) = refused(folder.path()).await;
    assert!(message.contains("version 7"), "{message}");
    assert!(matches!(reason, JournalError::Newer { .. }), "{reason}");
}

#[tokio::test]
async fn a_journal_of_a_version_before_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let journal = SqlJournal::open(folder.path()).await.unwrap();
    journal.accept(&request(1, &[1])).await.unwrap();
    let before = journal.guests().await.unwrap();
    drop(journal);
    for back in [
        "ALTER TABLE guest DROP COLUMN life; UPDATE guest_journal SET version = 1",
        "UPDATE guest_journal SET version = 2",
    ] {
        script(folder.path(), back).await;
        for _ in 0..2 {
            let journal = SqlJournal::open(folder.path()).await.unwrap();
            assert_eq!(journal.guests().await.unwrap(), before);
        }
    }
}

#[tokio::test]
async fn the_places_of_devices_are_in_the_journal_and_rows_without_them_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let journal = SqlJournal::open(folder.path()).await.unwrap();
    let devices = |journal: SqlJournal| async move {
        let record = journal.guest(guest(1)).await.unwrap().unwrap();
        record.devices.clone()
    };
    journal.accept(&request(1, &[1])).await.unwrap();
    let plain = bound(&[1]);
    let device = plain.iter().map(|bound| HostDeviceId::of(bound.device));
    let place = HostPciPlace {
        numa_node: Some(1),
        switch: Some("0000:20:00.0".parse().unwrap()),
    };
    let places = device.map(|device| (device, place)).collect();
    let placed = plain.clone().with_places(places);
    let names = names(&placed);
    let claimed = journal.claim_devices(guest(1), &names, &placed).await;
    assert_eq!(claimed.unwrap(), DeviceClaim::Claimed);
    assert_eq!(devices(journal).await, Some(placed.clone()));
    assert!(plain != placed && plain.has_same_bindings(&placed));
    // As an earlier release wrote it.
    let earlier = "UPDATE guest SET devices = json_extract(devices, '$.devices')";
    script(folder.path(), earlier).await;
    let journal = SqlJournal::open(folder.path()).await.unwrap();
    assert_eq!(devices(journal).await, Some(plain));
}

#[tokio::test]
async fn a_row_that_no_release_writes_is_refused_with_its_guest() {
    for (sql, what) in [
        ("UPDATE guest SET course = '\"sideways\"'", "course"),
        ("UPDATE guest SET request = '{}'", "request"),
        ("UPDATE guest SET power = 'half'", "power"),
        ("UPDATE guest SET devices = '[1]'", "devices"),
        ("UPDATE guest SET life = '{\"lost\": 1}'", "life"),
        (
            "UPDATE guest SET uuid = '11111111-2222-4333-8444-0000000000ff'",
            "has the UUID",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let journal = SqlJournal::open(folder.path()).await.unwrap();
        journal.accept(&request(1, &[1])).await.unwrap();
        drop(journal);
        script(folder.path(), sql).await;
        let journal = SqlJournal::open(folder.path()).await.unwrap();
        let error = journal.guests().await.unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains(what) && message.contains("11111111-2222"),
            "{message}"
        );
        assert!(matches!(error, JournalError::Unreadable(_)), "{error}");
    }
}

#[tokio::test]
async fn a_second_agent_is_kept_away_and_another_request_with_the_same_uuid_too() {
    let folder = tempfile::tempdir().unwrap();
    let journal = SqlJournal::open(folder.path()).await.unwrap();
    let (_, reason) = refused(folder.path()).await;
    assert!(
        matches!(
            reason,
            JournalError::Open {
                source: OpenError::Held { .. },
                ..
            }
        ),
        "{reason}"
    );
    journal.accept(&request(1, &[1])).await.unwrap();
    let other = journal.accept(&request(1, &[2])).await.unwrap();
    assert_eq!(other, AcceptOutcome::Conflict);
}

/// Hypervisors keep journals of earlier releases: a renamed field needs a `serde(rename)`.
#[test]
fn the_names_in_stored_overrides_are_fixed() {
    let rescue = PendingTransition {
        kind: TransitionKind::Rescue,
        phase: TransitionPhase::Stopping {
            grace_seconds: 5,
            discard: Vec::new(),
            recreate: RecreateDisks::None,
        },
    };
    let rebuild = PendingTransition {
        kind: TransitionKind::Rebuild,
        phase: TransitionPhase::Rebuilding {
            recreate: RecreateDisks::All,
        },
    };
    for (transition, stored) in [
        (
            rescue,
            r#"{"turn":"rescue","stage":{"leaving":{"grace_seconds":5,"discard":[],"anew":"nothing"}}}"#,
        ),
        (
            rebuild,
            r#"{"turn":"rebuild","stage":{"making":{"anew":"all"}}}"#,
        ),
    ] {
        let overrides = InstanceOverrides {
            transition: Some(transition),
            ended: true,
            suspending: true,
            last_action: Some("req-1".parse().unwrap()),
            ..InstanceOverrides::default()
        };
        let stored =
            format!(r#"{{"turning":{stored},"ended":true,"suspending":true,"acted":"req-1"}}"#);
        assert_eq!(serde_json::to_string(&overrides).unwrap(), stored);
        let read: InstanceOverrides = serde_json::from_str(&stored).unwrap();
        assert_eq!(read, overrides);
    }
}

#[test]
fn a_changed_drive_is_what_the_guest_starts_with_whatever_it_boots_from() {
    let drive = |hostname: &str| {
        let parts = ConfigDriveParts {
            hostname: hostname.to_owned(),
            ..ConfigDriveParts::default()
        };
        ConfigDrive::new(ConfigDriveContent::new(parts).unwrap())
    };
    let path = |name: &str| HostPath::new(&format!("/instances/1/{name}")).unwrap();
    let root = QcowDisk {
        path: path("disk"),
        base: None,
    };
    let disks = GuestDisks::new(Some(root), vec![], Some(path("disk.config"))).unwrap();
    let plan = DiskPlan::new(None, 5, vec![], Some(drive("old"))).unwrap();
    let request = request(1, &[])
        .in_form(GuestBoot::Disk, disks, plan)
        .unwrap();
    let own = || Some(BootSource::of(&request));
    let plain = InstanceOverrides::default();
    for overrides in [
        plain.clone(),
        InstanceOverrides {
            rebuilt: own(),
            ..plain.clone()
        },
        InstanceOverrides {
            rescue: own(),
            ..plain
        },
    ] {
        let changed = overrides.with_config_drive(drive("new"));
        let text = serde_json::to_string(&changed).unwrap();
        assert!(
            !text.contains("hostname"),
            "the journal has the digest alone: {text}"
        );
        let overrides: InstanceOverrides = serde_json::from_str(&text).unwrap();
        assert_eq!(overrides, changed);
        let record = GuestRecord {
            request: request.clone(),
            goal: Goal::Spawn,
            power: DesiredPower::Running,
            steps: BTreeMap::new(),
            devices: None,
            overrides,
        };
        for form in [record.own().unwrap(), record.present().unwrap()] {
            assert_eq!(form.disks().config_drive(), Some(&drive("new")));
        }
    }
    let without = DiskPlan::new(None, 5, vec![], None).unwrap();
    assert_eq!(without.with_config_drive(&drive("new")), without);
}
