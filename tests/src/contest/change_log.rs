//! The change log of a provider, written by database triggers: each unit that is claimed or released, and each
//! generation, in the transaction that changes it. A transaction that is rolled back leaves no entry.

use std::collections::BTreeMap;

use berth_store::{Dialect, SqlError, SqlStore, Statement, Transaction, Work};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{consumer_uuid, provider_uuid};

const SQLITE: &[&str] = &[
    "CREATE TABLE testimony (seq INTEGER PRIMARY KEY, session BIGINT NOT NULL, provider BIGINT NOT NULL, \
     consumer VARCHAR(36), amount BIGINT NOT NULL)",
    "CREATE TRIGGER testimony_given AFTER INSERT ON allocations BEGIN \
     INSERT INTO testimony (session, provider, consumer, amount) \
     VALUES (0, NEW.resource_provider_id, NEW.consumer_id, NEW.used); END",
    "CREATE TRIGGER testimony_taken AFTER DELETE ON allocations BEGIN \
     INSERT INTO testimony (session, provider, consumer, amount) \
     VALUES (0, OLD.resource_provider_id, OLD.consumer_id, -OLD.used); END",
    "CREATE TRIGGER testimony_raised AFTER UPDATE ON resource_providers WHEN NEW.generation <> OLD.generation BEGIN \
     INSERT INTO testimony (session, provider, amount) VALUES (0, NEW.id, NEW.generation); END",
];

const POSTGRES: &[&str] = &[
    "CREATE TABLE testimony (seq BIGSERIAL PRIMARY KEY, session BIGINT NOT NULL, provider BIGINT NOT NULL, \
     consumer VARCHAR(36), amount BIGINT NOT NULL)",
    "CREATE FUNCTION testimony_of_units() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
     IF TG_OP = 'INSERT' THEN INSERT INTO testimony (session, provider, consumer, amount) \
     VALUES (txid_current(), NEW.resource_provider_id, NEW.consumer_id, NEW.used); \
     ELSE INSERT INTO testimony (session, provider, consumer, amount) \
     VALUES (txid_current(), OLD.resource_provider_id, OLD.consumer_id, -OLD.used); END IF; RETURN NULL; END $$",
    "CREATE FUNCTION testimony_of_generations() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
     INSERT INTO testimony (session, provider, amount) VALUES (txid_current(), NEW.id, NEW.generation); RETURN NULL; END $$",
    "CREATE TRIGGER testimony_units AFTER INSERT OR DELETE ON allocations FOR EACH ROW EXECUTE FUNCTION testimony_of_units()",
    "CREATE TRIGGER testimony_raised AFTER UPDATE ON resource_providers FOR EACH ROW \
     WHEN (NEW.generation <> OLD.generation) EXECUTE FUNCTION testimony_of_generations()",
];

const MYSQL: &[&str] = &[
    "CREATE TABLE testimony (seq BIGINT PRIMARY KEY AUTO_INCREMENT, session BIGINT NOT NULL, provider BIGINT NOT NULL, \
     consumer VARCHAR(36), amount BIGINT NOT NULL)",
    "CREATE TRIGGER testimony_given AFTER INSERT ON allocations FOR EACH ROW \
     INSERT INTO testimony (session, provider, consumer, amount) \
     VALUES (CONNECTION_ID(), NEW.resource_provider_id, NEW.consumer_id, NEW.used)",
    "CREATE TRIGGER testimony_taken AFTER DELETE ON allocations FOR EACH ROW \
     INSERT INTO testimony (session, provider, consumer, amount) \
     VALUES (CONNECTION_ID(), OLD.resource_provider_id, OLD.consumer_id, -OLD.used)",
    "CREATE TRIGGER testimony_raised AFTER UPDATE ON resource_providers FOR EACH ROW \
     INSERT INTO testimony (session, provider, amount) \
     SELECT CONNECTION_ID(), NEW.id, NEW.generation FROM DUAL WHERE NEW.generation <> OLD.generation",
];

struct Install;

impl Work for Install {
    type Output = ();
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
        let statements = match tx.dialect() {
            Dialect::Sqlite => SQLITE,
            Dialect::Postgres => POSTGRES,
            Dialect::MySql => MYSQL,
        };
        for statement in statements {
            tx.script(statement).await?;
        }
        Ok(())
    }
}

/// A change of the provider with the generation that came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderChange {
    pub generation: i64,
    /// The claimed (or, below zero, released) units by consumer, including all releases without a generation since the
    /// last step of the same session.
    pub changes: BTreeMap<u32, i64>,
}

/// One provider's changes, in the order of their generations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderChangeLog {
    /// From its first inventory on.
    pub steps: Vec<ProviderChange>,
}

impl ProviderChangeLog {
    /// Has the database write everything down from now on. Its tables must be there.
    pub async fn begin(store: &SqlStore) -> Result<(), SqlError> {
        store.write(&Install).await
    }

    /// Reads the log of a contest's provider, with the contest's consumers.
    pub async fn of(store: &SqlStore, contest: u64, consumers: u32) -> Result<Self, SqlError> {
        let sql = "SELECT session, consumer, amount FROM testimony \
                   WHERE provider = (SELECT id FROM resource_providers WHERE uuid = ?) ORDER BY seq";
        let provider = provider_uuid(contest).to_string();
        let rows = store.rows(Statement::new(sql).bind(provider)).await?;
        let numbers: BTreeMap<Uuid, u32> = (0..consumers)
            .map(|number| (consumer_uuid(contest, number), number))
            .collect();
        let mut steps = Vec::new();
        let mut open: BTreeMap<i64, BTreeMap<u32, i64>> = BTreeMap::new();
        for row in &rows {
            let (session, amount) = (row.int(0)?, row.int(2)?);
            let changes = open.entry(session).or_default();
            match row.opt_text(1)? {
                Some(uuid) => {
                    // A consumer outside of the contest is one that no write explains.
                    let known = uuid.parse().ok().and_then(|uuid: Uuid| numbers.get(&uuid));
                    *changes
                        .entry(known.copied().unwrap_or(u32::MAX))
                        .or_default() += amount;
                }
                None => {
                    let mut changes = std::mem::take(changes);
                    changes.retain(|_, amount| *amount != 0);
                    steps.push(ProviderChange {
                        generation: amount,
                        changes,
                    });
                }
            }
        }
        steps.sort_by_key(|step| step.generation);
        Ok(Self { steps })
    }
}
