//! Key pairs: public SSH keys and certificates of a user. A guest stores its key as it was when the guest was created.

mod error;
mod generate;
mod rules;

use berth_model::KeyPairType;
use berth_quota::{QuotaLimits, QuotaResource};
use berth_store::{Row, SqlError, SqlTimestamp, Statement, Transaction, Work};

pub use error::KeyPairError;
pub(crate) use generate::GeneratedKeyPair;
pub use rules::NewKeyPair;

use crate::compute::Compute;
use crate::project_quotas::{QuotaHolder, limits_of, lock};

const COLUMNS: &str = "id, user_id, name, fingerprint, public_key, created_at";

/// A stored key pair. Only the public key is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPair {
    /// The row number, never reused.
    pub(crate) id: i64,
    pub user_id: String,
    /// Unique among the key pairs of the user.
    pub name: String,
    /// The MD5 of the key in the format of `ssh-keygen -E md5`, without the prefix `MD5:`; of a certificate its SHA-1.
    pub fingerprint: String,
    /// A line of `authorized_keys`, or a certificate in PEM.
    pub public_key: String,
    pub created_at: SqlTimestamp,
}

impl KeyPair {
    pub(crate) fn kind(&self) -> KeyPairType {
        KeyPairType::of_public_key(&self.public_key)
    }
}

impl Compute {
    /// Stores the public key of a user's key pair, if the quota of this project allows the user another one.
    pub async fn create_key_pair(
        &self,
        key: NewKeyPair,
        project_id: &str,
    ) -> Result<KeyPair, KeyPairError> {
        let quotas = &self.inner.options.quotas;
        let work = InsertKeyPair {
            key,
            project_id,
            quotas,
        };
        self.tables.write(&work).await
    }

    /// All key pairs of a user, ordered by name.
    pub async fn key_pairs(&self, user_id: &str) -> Result<Vec<KeyPair>, KeyPairError> {
        let sql =
            format!("SELECT {COLUMNS} FROM compute_key_pairs WHERE user_id = ? ORDER BY name");
        let mut tx = self.tables.read().await?;
        let rows = tx.rows(Statement::recurring(sql).bind(user_id)).await?;
        let all: Result<_, SqlError> = rows.iter().map(of_row).collect();
        Ok(all?)
    }

    pub async fn key_pair(&self, user_id: &str, name: &str) -> Result<KeyPair, KeyPairError> {
        let found = find(&mut self.tables.read().await?, user_id, name).await?;
        found.ok_or_else(|| not_found(user_id, name))
    }

    /// Deletes a key pair. Existing guests keep the key.
    pub async fn delete_key_pair(&self, user_id: &str, name: &str) -> Result<(), KeyPairError> {
        let (user_id, name) = (user_id.to_owned(), name.to_owned());
        self.tables.write(&DeleteKeyPair { user_id, name }).await
    }
}

struct InsertKeyPair<'a> {
    key: NewKeyPair,
    project_id: &'a str,
    quotas: &'a QuotaLimits,
}

impl Work for InsertKeyPair<'_> {
    type Output = KeyPair;
    type Error = KeyPairError;

    async fn run(&self, tx: &mut Transaction) -> Result<KeyPair, KeyPairError> {
        let (user_id, name) = (self.key.user_id(), self.key.name());
        lock(tx, QuotaHolder::User(user_id)).await?;
        if find(tx, user_id, name).await?.is_some() {
            return Err(KeyPairError::Exists {
                name: name.to_owned(),
            });
        }
        let sql = "SELECT COUNT(*) FROM compute_key_pairs WHERE user_id = ?";
        let row = tx.row(Statement::new(sql).bind(user_id)).await?;
        let count = row.map_or(Ok(0), |row| row.int(0))?;
        let next = u64::try_from(count).unwrap_or_default().saturating_add(1);
        let limits = limits_of(tx, self.quotas, self.project_id).await?;
        if !limits.of(&QuotaResource::KeyPairs).allows(next) {
            return Err(KeyPairError::TooMany);
        }
        let sql = format!(
            "INSERT INTO compute_key_pairs (user_id, name, fingerprint, public_key, created_at) VALUES (?, ?, ?, ?, {})",
            tx.dialect().now()
        );
        let insert = Statement::recurring(sql)
            .bind(user_id)
            .bind(name)
            .bind(self.key.fingerprint())
            .bind(self.key.public_key());
        tx.execute(insert).await?;
        let made = find(tx, user_id, name).await?;
        made.ok_or_else(|| not_found(user_id, name))
    }
}

struct DeleteKeyPair {
    user_id: String,
    name: String,
}

impl Work for DeleteKeyPair {
    type Output = ();
    type Error = KeyPairError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), KeyPairError> {
        let sql = "DELETE FROM compute_key_pairs WHERE user_id = ? AND name = ?";
        let delete = Statement::new(sql).bind(&self.user_id).bind(&self.name);
        if tx.execute(delete).await?.rows_affected > 0 {
            return Ok(());
        }
        Err(not_found(&self.user_id, &self.name))
    }
}

async fn find(
    tx: &mut Transaction,
    user_id: &str,
    name: &str,
) -> Result<Option<KeyPair>, SqlError> {
    let sql = format!("SELECT {COLUMNS} FROM compute_key_pairs WHERE user_id = ? AND name = ?");
    let row = tx
        .row(Statement::recurring(sql).bind(user_id).bind(name))
        .await?;
    row.as_ref().map(of_row).transpose()
}

fn of_row(row: &Row) -> Result<KeyPair, SqlError> {
    Ok(KeyPair {
        id: row.int(0)?,
        user_id: row.text(1)?,
        name: row.text(2)?,
        fingerprint: row.text(3)?,
        public_key: row.text(4)?,
        created_at: row.moment(5)?,
    })
}

fn not_found(user_id: &str, name: &str) -> KeyPairError {
    KeyPairError::NotFound {
        user_id: user_id.to_owned(),
        name: name.to_owned(),
    }
}
