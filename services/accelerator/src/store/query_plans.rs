//! Tests of query plans: every statement of the service uses an index. The service's own operations run here and their
//! statements are recorded.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use berth_model::{ArqUuid, Binding, ProviderUuid};
use berth_store::{RecordedStatement, SqlStore, SqlTimestamp, Statement, Transaction, Work};
use berth_wire::accelerator::BindPatch;
use uuid::Uuid;

use super::arqs::{self, ArqFilters, ArqScope, ArqSelection, CreateArqs, DeleteArqs, ServiceVouch};
use super::bind::{PatchArqs, PatchOutcome};
use super::device_profiles::{self, ProfileKey};
use super::events::{self, DeliveryOutcome, RecordDelivery};
use super::idle_arqs::{DeleteIdleArqs, IdleArqs};
use super::programmings::{self, BeginProgram, EndLateProgrammings, EndProgramming};
use super::schema;

/// The host of all devices.
const HOST: &str = "host";
/// A deployable with all handles held by other requests.
const TAKEN: u32 = 1;
/// A deployable with free handles.
const FREE: u32 = 2;
/// A deployable with one handle, which is waiting to be cleaned.
const UNCLEAN: u32 = 3;
/// The project under test; all other requests belong to another project.
const OURS: &str = "ours";
/// Longer than the test takes.
const LONG: Duration = Duration::from_secs(3600);

/// Records the statements of an operation.
struct RecordedWork<'a, W> {
    work: &'a W,
    record: Mutex<Vec<RecordedStatement>>,
}

impl<W: Work> Work for RecordedWork<'_, W> {
    type Output = W::Output;
    type Error = W::Error;

    async fn run(&self, tx: &mut Transaction) -> Result<W::Output, W::Error> {
        tx.record();
        let done = self.work.run(tx).await;
        *self.record.lock().unwrap_or_else(PoisonError::into_inner) = tx.recorded();
        done
    }
}

struct StatementLog {
    store: SqlStore,
    asked: Vec<RecordedStatement>,
}

impl StatementLog {
    async fn write<W: Work>(&mut self, work: &W) -> W::Output {
        let record = Mutex::default();
        let recorded = RecordedWork { work, record };
        let done = self.store.write(&recorded).await;
        let record = recorded.record.into_inner();
        self.asked
            .extend(record.unwrap_or_else(PoisonError::into_inner));
        match done {
            Ok(output) => output,
            Err(error) => panic!("{error}"),
        }
    }

    async fn read<T, E: Error>(
        &mut self,
        read: impl AsyncFnOnce(&mut Transaction) -> Result<T, E>,
    ) -> T {
        let mut tx = self.store.read().await.expect("a transaction");
        tx.record();
        let answer = read(&mut tx).await;
        self.asked.extend(tx.recorded());
        answer.unwrap_or_else(|error| panic!("{error}"))
    }

    /// A new request of a profile.
    async fn request(&mut self, profile: &str) -> ArqUuid {
        let create = CreateArqs {
            profile: profile.to_owned(),
            project_id: OURS.to_owned(),
            max_unbound: Some(1_000_000),
        };
        self.write(&create).await[0].arq.uuid
    }

    async fn patch(&mut self, arq: ArqUuid, patch: BindPatch) -> PatchOutcome {
        let patch = PatchArqs {
            patches: BTreeMap::from([(arq, patch)]),
            scope: ArqScope::All,
            bind_timeout: LONG,
        };
        self.write(&patch).await
    }

    async fn bind(&mut self, arq: ArqUuid, deployable: u32) -> PatchOutcome {
        let binding = Binding {
            hostname: HOST.to_owned(),
            device_rp: ProviderUuid::from(uuid_of(deployable)),
            instance: guest(),
        };
        let project_id = None;
        self.patch(
            arq,
            BindPatch::Bind {
                binding,
                project_id,
            },
        )
        .await
    }

    async fn delete(&mut self, doomed: ArqSelection) {
        let delete = DeleteArqs {
            doomed,
            scope: ArqScope::All,
            vouched: ServiceVouch::Yes,
        };
        assert_eq!(self.write(&delete).await, []);
    }

    async fn list(&mut self, scope: ArqScope, filters: ArqFilters) -> usize {
        let find = async |tx: &mut Transaction| arqs::find(tx, &scope, filters).await;
        self.read(find).await.len()
    }

    async fn end_late(&mut self) {
        let future = SqlTimestamp::now().after(LONG * 2);
        let late = EndLateProgrammings {
            now: future,
            forget: future,
        };
        let any = async |tx: &mut Transaction| programmings::any_late(tx, &late).await;
        assert!(self.read(any).await);
        self.write(&late).await;
    }
}

fn uuid_of(deployable: u32) -> Uuid {
    Uuid::from_fields(deployable, 0, 0x4000, &[0x80, 0, 0, 0, 0, 0, 0, 0])
}

fn guest() -> berth_model::ConsumerUuid {
    Uuid::from_u128(0x5c96_5fc9).into()
}

/// Runs a request's whole life in all variants, with this number of other requests in the table.
async fn story(requests: i64) -> StatementLog {
    let store = world(requests).await;
    let asked = Vec::new();
    let mut ledger = StatementLog { store, asked };
    let of_guest = ArqFilters {
        instance: Some(guest()),
    };
    let ours = || ArqScope::Project(OURS.to_owned());

    let arq = ledger.request("plain").await;
    assert!(matches!(ledger.bind(arq, FREE).await, PatchOutcome::Done));
    for (scope, filters) in [
        (ArqScope::All, of_guest),
        (ours(), of_guest),
        (ours(), ArqFilters::default()),
    ] {
        assert_eq!(ledger.list(scope, filters).await, 1);
    }
    for outcome in [
        DeliveryOutcome::Again {
            attempts: 1,
            after: Duration::ZERO,
        },
        DeliveryOutcome::Done,
    ] {
        let events = ledger.read(async |tx| events::due(tx).await).await;
        assert_eq!(events.len(), 1);
        ledger.write(&RecordDelivery { events, outcome }).await;
    }
    ledger.patch(arq, BindPatch::Unbind).await;
    for refused in [TAKEN, UNCLEAN] {
        let bound = ledger.bind(arq, refused).await;
        assert!(matches!(bound, PatchOutcome::Refused(_)), "{refused}");
    }
    ledger.delete(ArqSelection::Uuids(vec![arq])).await;

    let arq = ledger.request("programmed").await;
    ledger.bind(arq, FREE).await;
    let due = ledger.read(async |tx| programmings::due(tx, HOST).await);
    let due = due.await.programmings;
    let end = EndProgramming {
        host: HOST.to_owned(),
        uuid: due[0].uuid,
        failure: None,
    };
    assert!(ledger.write(&end).await);
    ledger.delete(ArqSelection::Instance(guest())).await;
    let late = ledger.request("programmed").await;
    ledger.bind(late, FREE).await;
    ledger.end_late().await;
    let begin = BeginProgram {
        deployable: uuid_of(FREE),
        image: Uuid::nil(),
        deadline: SqlTimestamp::now(),
    };
    ledger.write(&begin).await;
    ledger.end_late().await;

    let touched = IdleArqs::Before(SqlTimestamp::now().after(LONG));
    assert!(ledger.read(async |tx| touched.any(tx).await).await);
    let ahead = IdleArqs::After(SqlTimestamp::now().before(LONG));
    let among: Vec<i64> = ledger
        .read(async |tx| ahead.all(tx).await)
        .await
        .into_keys()
        .collect();
    assert_eq!(among.len(), 1);
    let old = DeleteIdleArqs {
        touched,
        among: Some(among),
    };
    assert_eq!(ledger.write(&old).await, [late]);
    let none = DeleteIdleArqs {
        touched,
        among: None,
    };
    assert_eq!(ledger.write(&none).await, []);
    let keys = vec![ProfileKey::Name("programmed".to_owned())];
    ledger.write(&device_profiles::DeleteProfile { keys }).await;
    ledger
}

/// A host with three devices, one of them fully assigned to others.
async fn world(requests: i64) -> SqlStore {
    let store = SqlStore::in_memory().await.expect("a database");
    schema::prepare(&store).await.expect("a schema");
    let at = "'2026-11-20 15:22:11.000000'";
    let counting = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)";
    let uuid = |of: &str, kind: u32| format!("printf('%08x-0000-4000-8000-{kind:012x}', {of})");
    let info = r#"'{"domain": "0000", "bus": "21", "device": "00", "function": "0"}'"#;
    let handles = "INSERT INTO attach_handles (uuid, deployable_id, attach_type, attach_info, scrubbed, releases, vanished, arq_id, created_at)";
    for sql in [
        format!(
            "INSERT INTO device_profiles (id, uuid, name, profile_groups, created_at) \
             SELECT 1, {}, 'plain', '[{{\"resources:FPGA\": \"1\"}}]', {at} WHERE ? > 0",
            uuid("1", 0xa)
        ),
        format!(
            "INSERT INTO device_profiles (id, uuid, name, profile_groups, created_at) \
             SELECT 2, {}, 'programmed', '[{{\"resources:FPGA\": \"1\", \"accel:bitstream_id\": \"b\"}}]', {at} WHERE ? > 0",
            uuid("2", 0xa)
        ),
        format!(
            "INSERT INTO devices (id, uuid, hostname, name, device_type, vendor, status, vanished, created_at) \
             SELECT 1, {}, '{HOST}', 'card', 'FPGA', '8086', 'enabled', 0, {at} WHERE ? > 0",
            uuid("1", 0xb)
        ),
        format!(
            "INSERT INTO deployables (id, uuid, device_id, name, rp_uuid, resource_class, health, programmable, vanished, created_at) \
             {counting} SELECT i, {id}, 1, 'd' || i, {id}, 'FPGA', 'ok', 1, 0, {at} FROM n WHERE i <= {UNCLEAN}",
            id = uuid("i", 0)
        ),
        format!(
            "INSERT INTO accelerator_requests (id, uuid, state, device_profile_id, device_profile_group_id, project_id, \
             hostname, device_rp_uuid, instance_uuid, created_at) {counting} \
             SELECT i, {}, 'Bound', 1, 0, 'theirs', '{HOST}', {}, {}, {at} FROM n",
            uuid("i", 0xc),
            uuid("1", 0),
            uuid("i", 0xd)
        ),
        format!(
            "INSERT INTO events (instance_uuid, arq_uuid, status, attempts, due_at, created_at) {counting} \
             SELECT {}, {}, 'completed', 9, '2999-01-01 00:00:00.000000', {at} FROM n",
            uuid("i", 0xd),
            uuid("i", 0xc)
        ),
        format!(
            "{handles} {counting} SELECT {}, {TAKEN}, 'PCI', {info}, 0, 0, 0, i, {at} FROM n",
            uuid("i", 0xe)
        ),
        format!(
            "{handles} {counting} SELECT {}, {FREE}, 'PCI', {info}, 0, 0, 0, NULL, {at} FROM n WHERE i <= 3",
            uuid("i", 0xf)
        ),
        format!(
            "{handles} SELECT {}, {UNCLEAN}, 'PCI', {info}, 1, 1, 0, NULL, {at} WHERE ? > 0",
            uuid("1", 0x10)
        ),
    ] {
        let statement = Statement::new(sql.clone()).bind(requests);
        let made = store.rows(statement).await;
        made.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    store
}

/// The lines of a query plan that scan a table. A list of keys counts as one, but belongs to the statement.
async fn scans(store: &SqlStore, statement: &Statement) -> Vec<String> {
    let rows = store.rows(statement.query_plan()).await.expect("a plan");
    let lines = rows.iter().map(|row| row.text(3).expect("a line"));
    let is_scan = |line: &String| line.starts_with("SCAN") && !line.contains("json_each");
    lines.filter(is_scan).collect()
}

#[tokio::test]
async fn nothing_that_a_request_asks_from_its_making_to_its_end_reads_a_whole_table() {
    let ledger = story(10).await;
    assert!(ledger.asked.len() > 60, "{}", ledger.asked.len());
    for asked in &ledger.asked {
        let scans = scans(&ledger.store, &asked.statement).await;
        assert!(scans.is_empty(), "{}\n{scans:?}", asked.statement.sql());
    }
}

#[tokio::test]
async fn a_plan_that_reads_a_whole_table_would_be_seen() {
    let store = world(10).await;
    let sql = "SELECT id FROM accelerator_requests WHERE hostname = ?";
    let found = scans(&store, &Statement::new(sql).bind(HOST)).await;
    assert_eq!(found.len(), 1, "{found:?}");
}

#[tokio::test]
async fn a_request_among_a_hundred_thousand_asks_and_is_answered_as_among_ten() {
    let answered = async |requests| {
        let ledger = story(requests).await;
        let asked = ledger.asked.into_iter();
        asked
            .map(|asked| (asked.statement.sql().to_owned(), asked.rows))
            .collect::<Vec<_>>()
    };
    assert_eq!(answered(100_000).await, answered(10).await);
}
