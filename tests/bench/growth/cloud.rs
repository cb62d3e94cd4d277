//! Writes a cloud of any size into the tables, because the API would take longer than all measurements.

use berth_placement::prepare;
use berth_store::sql::{SqlError, SqlOptions, SqlStore, Statement, Transaction, Value, Work};

use crate::Outcome;

/// Makes a cloud of about so many providers in the database of the URL.
pub(super) fn fill(url: &str, providers: u32) -> Outcome<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let store = SqlStore::open(&url.parse()?, &SqlOptions::default()).await?;
        prepare(&store).await?;
        let cloud = Cloud {
            hosts: i64::from(providers) * 5 / 9,
            vcpu: id(&store, "resource_classes", "VCPU").await?,
            memory: id(&store, "resource_classes", "MEMORY_MB").await?,
            disk: id(&store, "resource_classes", "DISK_GB").await?,
            pgpu: id(&store, "resource_classes", "PGPU").await?,
            common: id(&store, "traits", "HW_CPU_X86_AVX2").await?,
        };
        store.write(&cloud).await?;
        if url.starts_with("postgresql") {
            store.write(&Analyze).await?;
        }
        store.close().await;
        Ok(())
    })
}

async fn id(store: &SqlStore, table: &'static str, name: &str) -> Outcome<i64> {
    let sql = format!("SELECT id FROM {table} WHERE name = ?");
    let rows = store.rows(Statement::new(sql).bind(name)).await?;
    let row = rows.first().ok_or("a standard name is missing")?;
    Ok(row.int(0)?)
}

/// What autovacuum would do a minute later.
struct Analyze;

impl Work for Analyze {
    type Output = ();
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
        tx.script("ANALYZE").await
    }
}

struct Cloud {
    hosts: i64,
    vcpu: i64,
    memory: i64,
    disk: i64,
    pgpu: i64,
    common: i64,
}

/// Each host has one guest with so many MiB of its 256 GiB, but for ten hosts that have none.
const GUEST_MEMORY: i64 = 200_000;
const GPUS: i64 = 8;

impl Cloud {
    fn is_empty(&self, host: i64) -> bool {
        host % (self.hosts / 10).max(1) == 0
    }

    fn has_gpus(host: i64) -> bool {
        host % 10 == 0
    }

    /// Row ids of providers: a host's, and behind it those of its GPUs.
    fn provider(host: i64, gpu: i64) -> i64 {
        1 + host * (GPUS + 1) + gpu
    }
}

impl Work for Cloud {
    type Output = ();
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
        let rare = Statement::new("INSERT INTO traits (name) VALUES ('CUSTOM_RARE')");
        let rare = tx.insert(rare, "id").await?;
        // Some thousands of rows at a time.
        for first in (0..self.hosts).step_by(2_000) {
            let hosts = first..(first + 2_000).min(self.hosts);
            self.providers(tx, hosts.clone()).await?;
            self.inventories(tx, hosts.clone()).await?;
            self.guests(tx, hosts.clone()).await?;
            self.traits(tx, hosts, rare).await?;
        }
        Ok(())
    }
}

type Hosts = std::ops::Range<i64>;

impl Cloud {
    async fn providers(&self, tx: &mut Transaction, hosts: Hosts) -> Result<(), SqlError> {
        let head = "INSERT INTO resource_providers (id, uuid, name, generation, root_provider_id, parent_provider_id) VALUES";
        let mut rows = Vec::new();
        for host in hosts {
            let root = Self::provider(host, 0);
            let gpus = if Self::has_gpus(host) { GPUS } else { 0 };
            for gpu in 0..=gpus {
                let uuid = format!("00000000-0000-4000-8000-{host:08}{gpu:04}");
                let parent = (gpu > 0).then_some(root);
                rows.push([
                    Value::from(Self::provider(host, gpu)),
                    Value::from(&uuid),
                    Value::from(&uuid),
                    Value::from(1),
                    Value::from(root),
                    Value::from(parent),
                ]);
            }
        }
        tx.insert_rows(head, rows, "").await.map(drop)
    }

    async fn inventories(&self, tx: &mut Transaction, hosts: Hosts) -> Result<(), SqlError> {
        let head = "INSERT INTO inventories (resource_provider_id, resource_class_id, total, reserved, min_unit, max_unit, step_size, \
                    allocation_ratio) VALUES";
        let mut rows = Vec::new();
        let mut add = |provider: i64, class: i64, total: i64| {
            let numbers = [provider, class, total, 0, 1, total, 1].map(Value::from);
            let [a, b, c, d, e, f, g] = numbers;
            rows.push([a, b, c, d, e, f, g, Value::from(1.0)]);
        };
        for host in hosts {
            let root = Self::provider(host, 0);
            add(root, self.vcpu, 64);
            add(root, self.memory, 262_144);
            add(root, self.disk, 4_000);
            let gpus = if Self::has_gpus(host) { GPUS } else { 0 };
            for gpu in 1..=gpus {
                add(Self::provider(host, gpu), self.pgpu, 1);
            }
        }
        tx.insert_rows(head, rows, "").await.map(drop)
    }

    async fn guests(&self, tx: &mut Transaction, hosts: Hosts) -> Result<(), SqlError> {
        let head = "INSERT INTO allocations (resource_provider_id, consumer_id, resource_class_id, used) VALUES";
        let mut rows = Vec::new();
        for host in hosts.filter(|host| !self.is_empty(*host)) {
            let consumer = format!("00000000-0000-4000-9000-{host:012}");
            for (class, used) in [
                (self.vcpu, 8),
                (self.memory, GUEST_MEMORY),
                (self.disk, 100),
            ] {
                rows.push([
                    Value::from(Self::provider(host, 0)),
                    Value::from(&consumer),
                    Value::from(class),
                    Value::from(used),
                ]);
            }
        }
        tx.insert_rows(head, rows, "").await.map(drop)
    }

    async fn traits(&self, tx: &mut Transaction, hosts: Hosts, rare: i64) -> Result<(), SqlError> {
        let head = "INSERT INTO resource_provider_traits (resource_provider_id, trait_id) VALUES";
        let mut rows = Vec::new();
        for host in hosts {
            let root = Self::provider(host, 0);
            // One trait that all have, plus about as many as a host's CPU has.
            let many = (0..20).map(|number| self.common + number);
            let rare = self.is_empty(host).then_some(rare);
            rows.extend(
                many.chain(rare)
                    .map(|id| [Value::from(root), Value::from(id)]),
            );
        }
        tx.insert_rows(head, rows, "").await.map(drop)
    }
}
