use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use berth_agent_journal::SqlJournal;
use tempfile::TempDir;
use uuid::Uuid;

use super::*;

/// A stand-in for Fabric Manager: it notes each call, and fails while the file `fails` exists.
struct StandIn {
    folder: TempDir,
    journal: SqlJournal,
}

impl StandIn {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = "#!/bin/sh\necho \"$*\" >> calls\n[ ! -e fails ] || { echo 'no such partition' >&2; exit 1; }\n";
        let text = text.replacen('\n', &format!("\ncd {}\n", folder.path().display()), 1);
        let program = folder.path().join("hook");
        std::fs::write(&program, text).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let journal = SqlJournal::in_memory().await.unwrap();
        Self { folder, journal }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// A new life of the agent with these partitions: the ID and the numbers of the GPUs.
    fn fabric(&self, partitions: &[(u32, &[u8])]) -> Fabric {
        let hook = Hook {
            name: "partition hook",
            program: self.path("hook"),
            deadline: Duration::from_secs(60),
        };
        Fabric::new(read(partitions), Some(hook), self.journal.devices())
    }

    /// The calls since the last question.
    fn calls(&self) -> Vec<String> {
        let calls = std::fs::read_to_string(self.path("calls")).unwrap_or_default();
        let _ = std::fs::remove_file(self.path("calls"));
        calls.lines().map(str::to_owned).collect()
    }
}

fn read(partitions: &[(u32, &[u8])]) -> FabricPartitions {
    let entries: Vec<_> = partitions
        .iter()
        .map(|(id, gpus)| {
            let devices: Vec<_> = functions(gpus).iter().map(ToString::to_string).collect();
            serde_json::json!({ "id": id, "devices": devices })
        })
        .collect();
    FabricPartitions::read(&entries).unwrap()
}

fn functions(numbers: &[u8]) -> BTreeSet<PciAddress> {
    let addresses = numbers
        .iter()
        .map(|number| format!("0000:{number:02x}:00.0").parse());
    addresses.collect::<Result<_, _>>().unwrap()
}

fn guest(number: u128) -> ConsumerUuid {
    Uuid::from_u128(number).into()
}

const PAIRS: [(u32, &[u8]); 2] = [(1, &[1, 2]), (2, &[3, 4])];

#[tokio::test]
async fn a_partition_is_activated_at_each_start_and_deactivated_once_after_the_end() {
    let stand_in = StandIn::new().await;
    let fabric = stand_in.fabric(&PAIRS);
    // A network card besides the GPUs.
    let has = functions(&[3, 4, 0xc1]);
    for _ in 0..2 {
        fabric.activate(guest(1), &has).await.unwrap();
    }
    // A guest without a GPU of a partition.
    fabric
        .activate(guest(2), &functions(&[0xc2]))
        .await
        .unwrap();
    assert_eq!(stand_in.calls(), ["activate 2", "activate 2"]);
    for _ in 0..2 {
        fabric.deactivate(guest(1), &has).await.unwrap();
    }
    fabric
        .deactivate(guest(2), &functions(&[0xc2]))
        .await
        .unwrap();
    assert_eq!(stand_in.calls(), ["deactivate 2"]);
}

#[tokio::test]
async fn gpus_that_are_no_partition_are_refused_before_the_program_runs() {
    let stand_in = StandIn::new().await;
    let fabric = stand_in.fabric(&PAIRS);
    let part = functions(&[1]);
    let refused = fabric.check(&part).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "no entry of [fabric] partitions has exactly these GPUs; partitions with one of them are \
         1 (0000:01:00.0, 0000:02:00.0)"
    );
    let error = fabric.activate(guest(1), &part).await.unwrap_err();
    assert!(matches!(error, FabricError::NoPartition(_)), "{error}");
    assert_eq!(stand_in.calls(), Vec::<String>::new());
}

#[tokio::test]
async fn a_failed_activation_has_the_programs_message_and_is_undone() {
    let stand_in = StandIn::new().await;
    let fabric = stand_in.fabric(&PAIRS);
    std::fs::write(stand_in.path("fails"), "").unwrap();
    let has = functions(&[1, 2]);
    let error = fabric.activate(guest(1), &has).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the partition hook did not activate it: it says no (exit status: 1): no such partition"
    );
    let error = fabric.deactivate(guest(1), &has).await.unwrap_err();
    assert!(
        error.to_string().contains("did not deactivate it"),
        "{error}"
    );
    std::fs::remove_file(stand_in.path("fails")).unwrap();
    // The activation may have taken effect, so another guest waits for the deactivation.
    let error = fabric.activate(guest(2), &has).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("it may still be active for guest {}", guest(1))
    );
    assert_eq!(stand_in.calls(), ["activate 1", "deactivate 1"]);
    fabric.deactivate(guest(1), &has).await.unwrap();
    fabric.activate(guest(2), &has).await.unwrap();
    assert_eq!(stand_in.calls(), ["deactivate 1", "activate 1"]);
}

#[tokio::test]
async fn the_partition_of_a_guest_is_deactivated_after_the_configuration_changed() {
    let stand_in = StandIn::new().await;
    let has = functions(&[1, 2]);
    let old = stand_in.fabric(&PAIRS);
    old.activate(guest(1), &has).await.unwrap();
    stand_in.calls();
    // The next life has another number for the same GPUs.
    let new = stand_in.fabric(&[(7, &[1, 2])]);
    new.activate(guest(1), &has).await.unwrap();
    assert_eq!(stand_in.calls(), ["deactivate 1", "activate 7"]);
    // And the one after it has neither partitions nor a program.
    let none = Fabric::new(
        FabricPartitions::default(),
        None,
        stand_in.journal.devices(),
    );
    let error = none.deactivate(guest(1), &has).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "no program is named that could deactivate it; set [fabric] partition_hook as it was when the guest started"
    );
    old.deactivate(guest(1), &has).await.unwrap();
    assert_eq!(stand_in.calls(), ["deactivate 7"]);
}

#[tokio::test]
async fn a_partition_whose_gpu_another_guest_uses_is_left_alone() {
    let stand_in = StandIn::new().await;
    let fabric = stand_in.fabric(&PAIRS);
    fabric
        .activate(guest(1), &functions(&[1, 2]))
        .await
        .unwrap();
    stand_in.calls();
    // GPU 2 is in a guest of someone else.
    for _ in 0..2 {
        fabric.deactivate(guest(1), &functions(&[1])).await.unwrap();
    }
    assert_eq!(stand_in.calls(), Vec::<String>::new());
}
