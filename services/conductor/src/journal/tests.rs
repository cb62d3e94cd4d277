//! The journal as a file.

use std::collections::BTreeMap;

use berth_client::placement::Candidate;
use berth_model::{ConsumerUuid, DeviceProfileName, NodeName};
use berth_wire::guest::LimitsBody;
use berth_wire::network_info::VifBody;
use serde_json::json;
use uuid::Uuid;

use super::*;

fn request(name: &str) -> BootRequest {
    let body = json!({"name": name, "flavor": {"name": "f", "vcpus": 1, "ram_mb": 64},
        "config_drive": {"user_data": "c2VjcmV0"}});
    let body = berth_wire::decode(body.to_string().as_bytes()).unwrap();
    BootRequest::new(body, Uuid::from_u128(1)).unwrap()
}

fn guest() -> ConsumerUuid {
    Uuid::from_u128(1).into()
}

fn chosen() -> BootStepDetail {
    let body = json!({"allocations": {(Uuid::from_u128(2).to_string()): {"resources": {"VCPU": 1}}},
        "mappings": {"device_profile_0": [Uuid::from_u128(3)]}});
    let body = berth_wire::decode(body.to_string().as_bytes()).unwrap();
    BootStepDetail::Claim(Box::new(ChosenHost {
        host: Uuid::from_u128(2).into(),
        node: NodeName::new("n1").unwrap(),
        host_name: Some("h1".to_owned()),
        cell: None,
        zone: None,
        candidate: Candidate::of_body(&body).unwrap(),
        limits: LimitsBody {
            cpu_allocation_ratio: Some(1.5),
            ..LimitsBody::default()
        },
    }))
}

/// Whether any file of the folder has the text in it.
fn any_file_has(folder: &std::path::Path, text: &str) -> bool {
    let mut files = std::fs::read_dir(folder).unwrap();
    files.any(|file| {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        bytes.windows(text.len()).any(|it| it == text.as_bytes())
    })
}

#[tokio::test]
async fn what_is_forgotten_is_in_no_file_any_more_the_log_included() {
    let folder = tempfile::tempdir().unwrap();
    let journal = SqlBootJournal::open(folder.path()).await.unwrap();
    journal.accept(&request("a-name")).await.unwrap();
    assert!(any_file_has(folder.path(), "c2VjcmV0"), "it is needed");
    journal.set_goal(guest(), &BootGoal::Active).await.unwrap();
    assert!(!any_file_has(folder.path(), "c2VjcmV0"));
    assert!(any_file_has(folder.path(), "a-name"));
    journal.set_goal(guest(), &BootGoal::Delete).await.unwrap();
    journal.delete_guest(guest()).await.unwrap();
    assert!(!any_file_has(folder.path(), "a-name"));
    journal.try_write().await.unwrap();
    assert_eq!(journal.lost_arq_profiles().await.unwrap(), []);
}

#[tokio::test]
async fn what_was_written_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let journal = SqlBootJournal::open(folder.path()).await.unwrap();
    assert_eq!(
        journal.accept(&request("vm")).await.unwrap(),
        AcceptOutcome::New
    );
    let failed = FailedAttempt {
        host: Some("h1".to_owned()),
        cell: None,
        node: Some("n1".to_owned()),
        reason: "it's \"so\"".to_owned(),
        user_message: None,
        avoid: vec![Uuid::from_u128(3)],
        passes: false,
    };
    journal.begin_next_attempt(guest(), &failed).await.unwrap();
    let requests = BTreeMap::from([(Uuid::from_u128(9).into(), 0)]);
    let port = |number, origin| BootPort {
        port: Uuid::from_u128(number),
        origin,
    };
    let ports = vec![port(1, PortOrigin::Created), port(2, PortOrigin::Given)];
    for (step, detail) in [
        (BootStep::Claim, chosen()),
        (BootStep::Arqs, BootStepDetail::Requests(requests.clone())),
        (BootStep::Ports, BootStepDetail::Ports(ports.clone())),
        (BootStep::PortBinding, BootStepDetail::Vifs(vec![vif()])),
    ] {
        let state = StepState::Done;
        let record = BootStepRecord { state, detail };
        journal
            .record_step(guest(), 2, step, &record)
            .await
            .unwrap();
    }
    let profile = DeviceProfileName::new("gpu").unwrap();
    journal.record_lost_arqs(&profile).await.unwrap();
    journal.record_lost_arqs(&profile).await.unwrap();
    journal.close().await;
    drop(journal);

    let journal = SqlBootJournal::open(folder.path()).await.unwrap();
    let record = journal.guest(guest()).await.unwrap().unwrap();
    assert_eq!((record.attempt, &record.goal), (2, &BootGoal::Boot));
    assert_eq!(record.failures, [failed]);
    assert_eq!(record.request, request("vm"), "its config drive, too");
    assert_eq!(record.arqs(2), Some(&requests));
    assert_eq!(record.ports(2), Some(ports.as_slice()));
    assert_eq!(record.vifs(), [vif()]);
    let with_interfaces = journal.guests_with_interfaces().await.unwrap();
    assert_eq!(with_interfaces, [guest()]);
    let devices = record.chosen(2).unwrap().devices();
    assert_eq!(devices, [Uuid::from_u128(3)]);
    let name = record.chosen(2).unwrap().host_name.as_deref();
    assert_eq!(name, Some("h1"));
    let place = record.chosen(2).unwrap().host_node();
    assert_eq!((place.host.as_str(), place.node.as_str()), ("h1", "n1"));
    assert_eq!(
        journal.lost_arq_profiles().await.unwrap(),
        std::slice::from_ref(&profile)
    );
    journal.clear_lost_arqs(&profile).await.unwrap();
    assert_eq!(journal.lost_arq_profiles().await.unwrap(), []);
    journal.delete_guest(guest()).await.unwrap();
    assert_eq!(journal.guests().await.unwrap().readable, []);
    assert_eq!(journal.guests_with_interfaces().await.unwrap(), []);
}

#[tokio::test]
async fn a_delete_is_final_and_secrets_go_when_no_step_needs_them() {
    let journal = SqlBootJournal::in_memory().await.unwrap();
    journal.accept(&request("vm")).await.unwrap();
    journal.set_goal(guest(), &BootGoal::Active).await.unwrap();
    let record = journal.guest(guest()).await.unwrap().unwrap();
    assert!(!format!("{record:?}").contains("c2VjcmV0"));
    assert_eq!(
        journal.accept(&request("vm")).await.unwrap(),
        AcceptOutcome::Same
    );
    assert_eq!(
        journal.accept(&request("wm")).await.unwrap(),
        AcceptOutcome::Conflict
    );
    journal.set_goal(guest(), &BootGoal::Delete).await.unwrap();
    journal.set_goal(guest(), &BootGoal::Active).await.unwrap();
    let failed = FailedAttempt {
        host: None,
        cell: None,
        node: None,
        reason: String::new(),
        user_message: None,
        avoid: Vec::new(),
        passes: false,
    };
    journal.begin_next_attempt(guest(), &failed).await.unwrap();
    let record = journal.guest(guest()).await.unwrap().unwrap();
    assert_eq!((record.goal, record.attempt), (BootGoal::Delete, 1));
    assert_eq!(
        journal.accept(&request("vm")).await.unwrap(),
        AcceptOutcome::Deleting
    );
    let other = Uuid::from_u128(5).into();
    let unknown = journal.set_goal(other, &BootGoal::Delete).await;
    assert!(matches!(unknown, Err(JournalError::Unknown { .. })));
}

#[tokio::test]
async fn what_is_no_journal_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("conductor.db");
    std::fs::write(&file, [b'x'; 8192]).unwrap();
    let refused = SqlBootJournal::open(folder.path()).await.unwrap_err();
    assert!(refused.to_string().contains("conductor.db"), "{refused}");
    assert_eq!(std::fs::read(&file).unwrap(), [b'x'; 8192]);
    let held = tempfile::tempdir().unwrap();
    let first = SqlBootJournal::open(held.path()).await.unwrap();
    let second = SqlBootJournal::open(held.path()).await.unwrap_err();
    assert!(matches!(second, JournalError::Open { .. }), "{second}");
    first.close().await;
}

fn vif() -> VifBody {
    let text = r#"{"id": "88a15950-b8bf-4445-86f5-21ad10632a28", "address": "fa:16:3e:54:eb:90", "type": "ovs",
        "network": {"id": "4c2a7401-0e91-4f9b-91f8-190ef184e905", "label": "net1"}}"#;
    berth_wire::decode(text.as_bytes()).unwrap()
}

#[tokio::test]
async fn a_journal_without_steps_of_ports_gets_them_and_keeps_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    let journal = SqlBootJournal::open(folder.path()).await.unwrap();
    journal.accept(&request("vm")).await.unwrap();
    let claimed = BootStepRecord {
        state: StepState::Done,
        detail: chosen(),
    };
    let noted = journal.record_step(guest(), 1, BootStep::Claim, &claimed);
    noted.await.unwrap();
    drop(journal);
    let old = "
        CREATE TABLE old (guest TEXT NOT NULL REFERENCES guest (uuid) ON DELETE CASCADE, attempt INTEGER NOT NULL,
            step TEXT NOT NULL CHECK (step IN ('claim', 'arqs', 'bind', 'build')), state TEXT NOT NULL, detail TEXT NOT NULL,
            PRIMARY KEY (guest, attempt, step));
        INSERT INTO old SELECT * FROM step; DROP TABLE step; ALTER TABLE old RENAME TO step;
        UPDATE conductor_journal SET version = 1";
    corrupt_rows(folder.path(), old).await;

    let journal = SqlBootJournal::open(folder.path()).await.unwrap();
    let record = journal.guest(guest()).await.unwrap().unwrap();
    assert_eq!(record.step(BootStep::Claim), Some(&claimed));
    let state = StepState::Begun;
    let detail = BootStepDetail::Nothing;
    let begun = BootStepRecord { state, detail };
    for step in BootStep::ALL {
        let noted = journal.record_step(guest(), 1, *step, &begun);
        noted.await.unwrap();
    }
    journal.delete_guest(guest()).await.unwrap();
    assert_eq!(journal.guests().await.unwrap().readable, []);
}

/// Changes the rows behind the journal's back.
async fn corrupt_rows(folder: &std::path::Path, sql: &'static str) {
    struct CorruptRows(&'static str);
    impl berth_store::Work for CorruptRows {
        type Output = ();
        type Error = berth_store::SqlError;
        async fn run(&self, tx: &mut berth_store::Transaction) -> Result<(), Self::Error> {
            tx.script(self.0).await
        }
    }
    let file = berth_store::Location::SqliteFile(folder.join("conductor.db"));
    let rows = berth_store::SqlStore::open(&file, &berth_store::SqlOptions::default()).await;
    rows.unwrap().write(&CorruptRows(sql)).await.unwrap();
}

#[tokio::test]
async fn rows_of_a_guest_that_cannot_be_read_keep_no_other_from_being_read() {
    for (sql, what) in [
        ("UPDATE guest SET course = 'no JSON' WHERE name", "course"),
        (
            "UPDATE guest SET course = CAST(x'ff' AS TEXT) WHERE name",
            "",
        ),
        ("UPDATE guest SET request = x'ff00' WHERE name", ""),
        ("UPDATE guest SET attempt = 'first' WHERE name", ""),
        ("UPDATE guest SET attempt = -1 WHERE name", "-1"),
        ("UPDATE step SET detail = x'ff' WHERE name", ""),
        ("UPDATE step SET attempt = 'first' WHERE name", ""),
    ] {
        let name = format!(
            "substr({}, -1) = '1'",
            ["uuid", "guest"][usize::from(sql.contains("step"))]
        );
        let sql: &str = sql.replace("name", &name).leak();
        let folder = tempfile::tempdir().unwrap();
        let journal = SqlBootJournal::open(folder.path()).await.unwrap();
        let mut body = request("other").body().clone();
        body.uuid = Some(Uuid::from_u128(2));
        let other = BootRequest::new(body, Uuid::nil()).unwrap();
        let claimed = BootStepRecord {
            state: StepState::Done,
            detail: chosen(),
        };
        for request in [&request("vm"), &other] {
            journal.accept(request).await.unwrap();
            let noted = journal.record_step(request.uuid(), 1, BootStep::Claim, &claimed);
            noted.await.unwrap();
        }
        drop(journal);
        corrupt_rows(folder.path(), sql).await;
        let journal = SqlBootJournal::open(folder.path()).await.unwrap();
        let error = journal.guest(guest()).await.unwrap_err();
        assert!(matches!(error, JournalError::Unreadable(_)), "{error}");
        assert!(error.to_string().contains(what), "{sql}: {error}");
        let asked = [other.uuid(), guest()];
        for known in [
            journal.guests().await.unwrap(),
            journal.guests_of(&asked).await.unwrap(),
        ] {
            assert_eq!(known.uuids().collect::<Vec<_>>(), asked, "{sql}");
            assert_eq!(known.readable[0].request, other);
            assert_eq!(known.unreadable[0].to_string(), error.to_string());
        }
        // It may be turned to its end all the same.
        journal.set_goal(guest(), &BootGoal::Delete).await.unwrap();
    }
}

#[tokio::test]
async fn a_row_whose_uuid_is_none_keeps_no_other_from_being_found() {
    let folder = tempfile::tempdir().unwrap();
    let journal = SqlBootJournal::open(folder.path()).await.unwrap();
    journal.accept(&request("vm")).await.unwrap();
    journal.record_late_claim(guest()).await.unwrap();
    drop(journal);
    let sql = "INSERT INTO late_claim VALUES ('x'); INSERT INTO guest (uuid, request, course) VALUES ('x', '{}', '\"boot\"')";
    corrupt_rows(folder.path(), sql).await;
    let journal = SqlBootJournal::open(folder.path()).await.unwrap();
    assert_eq!(journal.open_guests().await.unwrap(), [guest()]);
    assert_eq!(journal.late_claims().await.unwrap(), [guest()]);
    let known = journal.guests().await.unwrap();
    assert_eq!(known.uuids().collect::<Vec<_>>(), [guest()]);
    assert_eq!(known.unreadable[0].guest, "x");
    assert_eq!(
        journal.unidentified_guest().await.unwrap().unwrap().guest,
        "'x'"
    );
    drop(journal);
    for (sql, unidentified_guest) in [
        ("DELETE FROM guest WHERE uuid = 'x'", None),
        ("UPDATE guest SET uuid = x'ff'", Some("X'FF'")),
    ] {
        corrupt_rows(folder.path(), sql).await;
        let journal = SqlBootJournal::open(folder.path()).await.unwrap();
        let found = journal.unidentified_guest().await.unwrap();
        let known = journal.guests().await.unwrap();
        assert_eq!(
            known.unreadable.is_empty(),
            unidentified_guest.is_none(),
            "{sql}"
        );
        assert_eq!(
            found.map(|it| it.guest).as_deref(),
            unidentified_guest,
            "{sql}"
        );
    }
}

/// Each second the conductor looks what is to be done; of a guest that runs that is nothing.
#[tokio::test]
async fn the_open_guests_are_those_of_which_anything_is_still_to_be_done() {
    let journal = SqlBootJournal::in_memory().await.unwrap();
    let failed = FailedAttempt {
        host: None,
        cell: None,
        node: None,
        reason: r#"{"failed":{"reason":"active"}}"#.to_owned(),
        user_message: None,
        avoid: Vec::new(),
        passes: false,
    };
    let (reason, then) = (failed.reason.clone(), AfterUndo::Retry);
    let goals = [
        BootGoal::Boot,
        BootGoal::Undo { failed, then },
        BootGoal::Active,
        BootGoal::Failed {
            reason,
            user_message: None,
        },
        BootGoal::Delete,
    ];
    for (n, goal) in (1..).zip(&goals) {
        let body = json!({"name": "vm", "flavor": {"name": "f", "vcpus": 1, "ram_mb": 64}});
        let body = berth_wire::decode(body.to_string().as_bytes()).unwrap();
        let request = BootRequest::new(body, Uuid::from_u128(n)).unwrap();
        journal.accept(&request).await.unwrap();
        let step = BootStepRecord {
            state: StepState::Done,
            detail: chosen(),
        };
        let uuid = request.uuid();
        let noted = journal.record_step(uuid, 1, BootStep::Claim, &step);
        noted.await.unwrap();
        journal.set_goal(uuid, goal).await.unwrap();
    }
    let all = journal.guests().await.unwrap().readable;
    assert_eq!(all.len(), goals.len());
    let open = all.into_iter().filter(BootRecord::is_open);
    let open: Vec<_> = open.map(|record| record.request.uuid()).collect();
    assert_eq!(open.len(), 3);
    assert_eq!(journal.open_guests().await.unwrap(), open);
}

/// What an earlier release wrote of a guest that failed says nothing for users, and their sentence names no host all the same.
#[tokio::test]
async fn users_see_no_host_of_a_guest_that_failed_under_an_earlier_release() {
    let journal = SqlBootJournal::in_memory().await.unwrap();
    journal.accept(&request("vm")).await.unwrap();
    let failed: FailedAttempt =
        serde_json::from_str(r#"{"node": "n1", "reason": "qemu says no"}"#).unwrap();
    for (reason, attempts, user_message) in [
        (
            "No valid host was found: of 1 hosts, F rejected 1 (n1: off)",
            0,
            "No valid host was found.",
        ),
        ("qemu on n1 says no", 0, "it could not be built"),
        (
            "attempt 1 on n1: qemu says no",
            2,
            "Exceeded maximum number of retries",
        ),
    ] {
        let stored = format!(r#"{{"failed": {{"reason": "{reason}"}}}}"#);
        let goal: BootGoal = serde_json::from_str(&stored).unwrap();
        journal.set_goal(guest(), &goal).await.unwrap();
        let mut record = journal.guest(guest()).await.unwrap().unwrap();
        record.failures = vec![failed.clone(); attempts];
        let fault = record.user_fault().unwrap();
        assert!(fault.starts_with(user_message), "{fault}");
        assert!(!fault.contains("n1"), "{fault}");
    }
}

#[tokio::test]
async fn the_requests_of_all_guests_are_those_of_every_attempt() {
    let journal = SqlBootJournal::in_memory().await.unwrap();
    journal.accept(&request("vm")).await.unwrap();
    for (attempt, arq) in [(1, 7), (2, 8)] {
        let requests = BTreeMap::from([(Uuid::from_u128(arq).into(), 0)]);
        let step = BootStepRecord {
            state: StepState::Done,
            detail: BootStepDetail::Requests(requests),
        };
        let noted = journal.record_step(guest(), attempt, BootStep::Arqs, &step);
        noted.await.unwrap();
    }
    let expected = [7, 8].map(|arq| ArqUuid::from(Uuid::from_u128(arq)));
    assert_eq!(journal.arqs().await.unwrap(), expected.into());
}

#[tokio::test]
async fn a_guest_with_a_possible_late_claim_or_port_is_remembered_after_its_record_is_deleted() {
    let late = LatePort {
        guest: guest(),
        project: "p".to_owned(),
    };
    let folder = tempfile::tempdir().unwrap();
    let journal = SqlBootJournal::open(folder.path()).await.unwrap();
    journal.accept(&request("vm")).await.unwrap();
    for _ in 0..2 {
        journal.record_late_claim(guest()).await.unwrap();
        journal.record_late_port(&late).await.unwrap();
    }
    journal.delete_guest(guest()).await.unwrap();
    journal.close().await;
    drop(journal);
    let journal = SqlBootJournal::open(folder.path()).await.unwrap();
    assert_eq!(journal.late_claims().await.unwrap(), [guest()]);
    journal.clear_late_claim(guest()).await.unwrap();
    assert_eq!(journal.late_claims().await.unwrap(), []);
    assert_eq!(journal.late_ports().await.unwrap(), [late]);
    journal.clear_late_port(guest()).await.unwrap();
    assert_eq!(journal.late_ports().await.unwrap(), []);
}

/// Controllers keep journals of earlier releases: a renamed field needs a `serde(rename)`.
#[test]
fn the_names_in_stored_goals_are_fixed() {
    let failed = FailedAttempt {
        node: Some("n1".to_owned()),
        host: Some("h1".to_owned()),
        cell: Some("c1".to_owned()),
        reason: "no space".to_owned(),
        user_message: Some("the host is full".to_owned()),
        avoid: vec![Uuid::from_u128(2)],
        passes: true,
    };
    let undo = BootGoal::Undo {
        failed,
        then: AfterUndo::Retry,
    };
    let stored = json!({"undo": {
        "failed": {
            "node": "n1",
            "host": "h1",
            "cell": "c1",
            "reason": "no space",
            "told": "the host is full",
            "avoid": [Uuid::from_u128(2)],
            "passes": true,
        },
        "then": "again",
    }});
    assert_eq!(serde_json::to_value(&undo).unwrap(), stored);
    assert_eq!(serde_json::from_value::<BootGoal>(stored).unwrap(), undo);

    let failed = BootGoal::Failed {
        reason: "no host".to_owned(),
        user_message: Some("no valid host".to_owned()),
    };
    let stored = json!({"failed": {"reason": "no host", "told": "no valid host"}});
    assert_eq!(serde_json::to_value(&failed).unwrap(), stored);
    assert_eq!(serde_json::from_value::<BootGoal>(stored).unwrap(), failed);
}
