//! The tokens of consoles in the database, which stores only their hashes.

use std::fmt::Write as _;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use berth_model::ConsoleKind;
use berth_store::{SqlTimestamp, Statement, Transaction, Work};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::{ConsoleUrlError, NewConsoleToken};
use crate::compute::Compute;
use crate::store::{ComputeTableError, typed};

const TABLE: &str = "compute_console_tokens";

/// The most valid tokens of a console; a new one replaces the oldest.
const MOST: i64 = 32;

/// The longest text that is looked up as a token.
const LONGEST: usize = 128;

/// The system gives no random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the system gives no random bytes")]
pub struct NoRandomness;

/// What a valid token is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleToken {
    pub server: Uuid,
    pub kind: ConsoleKind,
    /// The host of the console, as operators see it.
    pub host: String,
    /// Its port; 0 for a serial console.
    pub port: i64,
    /// How long the token is still valid.
    pub valid_for: Duration,
}

impl Compute {
    /// Creates a token.
    pub(super) async fn create_console_token(
        &self,
        new: NewConsoleToken<'_>,
    ) -> Result<String, ConsoleUrlError> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|_| NoRandomness)?;
        let token = URL_SAFE_NO_PAD.encode(bytes);
        let now = SqlTimestamp::now();
        let stored = StoreToken {
            hash: hash(&token),
            server: new.server.to_string(),
            kind: new.kind.as_str(),
            host: new.host.to_owned(),
            port: i64::from(new.port),
            now,
            expires: now.after(self.inner.options.consoles.token_ttl),
        };
        self.tables.write(&stored).await?;
        Ok(token)
    }

    /// What a token is for; `None` if it is unknown or has expired.
    pub async fn console_token(
        &self,
        token: &str,
    ) -> Result<Option<ConsoleToken>, ComputeTableError> {
        if token.is_empty() || token.len() > LONGEST {
            return Ok(None);
        }
        let sql = format!(
            "SELECT server_uuid, kind, host, port, expires_at FROM {TABLE} WHERE token_hash = ?"
        );
        let mut tx = self.tables.read().await?;
        let row = tx.row(Statement::new(sql).bind(hash(token))).await?;
        let Some(row) = row else {
            return Ok(None);
        };
        let left = row.int(4)? - SqlTimestamp::now().as_micros();
        let Some(left) = u64::try_from(left).ok().filter(|left| *left > 0) else {
            return Ok(None);
        };
        Ok(Some(ConsoleToken {
            server: typed(&row.text(0)?, TABLE, "server_uuid")?,
            kind: typed(&row.text(1)?, TABLE, "kind")?,
            host: row.text(2)?,
            port: row.int(3)?,
            valid_for: Duration::from_micros(left),
        }))
    }
}

/// Deletes the tokens of a server.
pub(crate) async fn delete_of(tx: &mut Transaction, server: Uuid) -> Result<(), ComputeTableError> {
    let sql = format!("DELETE FROM {TABLE} WHERE server_uuid = ?");
    let server = server.to_string();
    Ok(tx
        .execute(Statement::new(sql).bind(server))
        .await
        .map(drop)?)
}

/// The key of a token in the database. The token cannot be computed from it.
fn hash(token: &str) -> String {
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(token.as_bytes()) {
        // Writing to a text does not fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

struct StoreToken {
    hash: String,
    server: String,
    kind: &'static str,
    host: String,
    port: i64,
    now: SqlTimestamp,
    expires: SqlTimestamp,
}

impl Work for StoreToken {
    type Output = ();
    type Error = ComputeTableError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ComputeTableError> {
        let expired = format!("DELETE FROM {TABLE} WHERE expires_at <= ?");
        tx.execute(Statement::new(expired).bind(self.now.as_micros()))
            .await?;
        let valid = format!(
            "SELECT COUNT(*), MIN(expires_at) FROM {TABLE} WHERE server_uuid = ? AND kind = ?"
        );
        let valid = Statement::new(valid)
            .bind(self.server.as_str())
            .bind(self.kind);
        if let Some(row) = tx.row(valid).await?
            && row.int(0)? >= MOST
        {
            let oldest = format!(
                "DELETE FROM {TABLE} WHERE server_uuid = ? AND kind = ? AND expires_at <= ?"
            );
            let oldest = Statement::new(oldest)
                .bind(self.server.as_str())
                .bind(self.kind)
                .bind(row.int(1)?);
            tx.execute(oldest).await?;
        }
        let sql = format!(
            "INSERT INTO {TABLE} (token_hash, server_uuid, kind, host, port, expires_at) VALUES (?, ?, ?, ?, ?, ?)"
        );
        let insert = Statement::new(sql)
            .bind(self.hash.as_str())
            .bind(self.server.as_str())
            .bind(self.kind)
            .bind(self.host.as_str())
            .bind(self.port)
            .bind(self.expires.as_micros());
        tx.execute(insert).await?;
        Ok(())
    }
}
