//! The table of tokens: what is kept of each, how it is read and written, and what a failure of the database is called.

pub(crate) mod schema;

use berth_http::Fault;
use berth_store::{
    Disposition, Moment, Retryable, Row, SqlError, SqlStore, Statement, Transaction, Work,
};

use crate::users::Target;

/// What is kept of a token. Of the token itself only its SHA-256 is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TokenRow {
    pub(crate) digest: String,
    pub(crate) user_id: String,
    /// None: it is good for nothing in particular.
    pub(crate) target: Option<Target>,
    /// The names of the roles it had when it was made, implied ones included.
    pub(crate) roles: Vec<String>,
    pub(crate) methods: Vec<String>,
    pub(crate) audit_id: String,
    /// That of the token it was made from first of all; its own where it was made by a password.
    pub(crate) chain_id: String,
    /// By which password it was had.
    pub(crate) fingerprint: String,
    pub(crate) issued_at: Moment,
    pub(crate) expires_at: Moment,
}

/// Why the table could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    #[error("the database of tokens failed")]
    Sql(#[from] SqlError),
    /// A column holds what no version of this service writes.
    #[error("column {column} of table identity_tokens holds what this service does not write")]
    Foreign {
        column: &'static str,
    },
}

impl TableError {
    /// What a loop does about it.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Sql(error) => retry(error),
            Self::Foreign { .. } => Disposition::Fatal,
        }
    }
}

impl Retryable for TableError {
    fn disposition(&self) -> Disposition {
        self.disposition()
    }
}

/// Whether the database's error may pass when the whole transaction runs again.
pub(crate) fn retry(error: &SqlError) -> Disposition {
    match error {
        SqlError::Duplicate(_) => Disposition::Retry,
        other => other.disposition(),
    }
}

/// What a caller is told when the database failed. The cause goes to the log, once, here.
pub(crate) fn fault(error: &TableError) -> Fault {
    tracing::error!(error = error as &dyn std::error::Error, "database");
    match error {
        TableError::Sql(sql) if sql.will_pass() => {
            Fault::unavailable("The database of tokens cannot be asked now; try again.")
        }
        _ => Fault::internal("The database of tokens failed; the service's log says how."),
    }
}

/// The table of tokens. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Tokens(SqlStore);

impl Tokens {
    pub(crate) fn of(store: SqlStore) -> Self {
        Self(store)
    }

    /// Keeps a new token; false, and nothing is kept, where the one that it is made from is not there any more.
    pub(crate) async fn put(
        &self,
        row: &TokenRow,
        parent: Option<&str>,
    ) -> Result<bool, TableError> {
        self.0.write(&Put { row, parent }).await
    }

    pub(crate) async fn get(&self, digest: &str) -> Result<Option<TokenRow>, TableError> {
        let sql = "SELECT digest, user_id, scope, scope_id, roles, methods, audit_id, chain_id, fingerprint, issued_at, \
                   expires_at FROM identity_tokens WHERE digest = ?";
        let rows = self.0.rows(Statement::new(sql).bind(digest)).await?;
        rows.first().map(read).transpose()
    }

    /// Takes a token away, and with [`Revoked::Chain`] all that were made from it.
    pub(crate) async fn revoke(&self, row: &TokenRow, which: Revoked) -> Result<(), TableError> {
        self.0.write(&Revoke(row, which)).await
    }

    /// Forgets the tokens that ended before a moment; how many.
    pub(crate) async fn sweep(&self, before: Moment) -> Result<u64, TableError> {
        self.0.write(&Sweep(before)).await
    }
}

/// Which tokens a revocation takes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Revoked {
    Alone,
    /// And those that were made from it.
    Chain,
}

fn foreign(column: &'static str) -> TableError {
    TableError::Foreign { column }
}

fn read(row: &Row) -> Result<TokenRow, TableError> {
    let scope = row.text(2)?;
    let scope_id = row.opt_text(3)?;
    let target = match (scope.as_str(), scope_id) {
        ("unscoped", None) => None,
        ("system", None) => Some(Target::System),
        ("project", Some(id)) => Some(Target::Project(id)),
        ("domain", Some(id)) => Some(Target::Domain(id)),
        _ => return Err(foreign("scope")),
    };
    let list = |column, name| {
        let text: String = row.text(column)?;
        serde_json::from_str(&text).map_err(|_| foreign(name))
    };
    Ok(TokenRow {
        digest: row.text(0)?,
        user_id: row.text(1)?,
        target,
        roles: list(4, "roles")?,
        methods: list(5, "methods")?,
        audit_id: row.text(6)?,
        chain_id: row.text(7)?,
        fingerprint: row.text(8)?,
        issued_at: row.moment(9)?,
        expires_at: row.moment(10)?,
    })
}

struct Put<'a> {
    row: &'a TokenRow,
    /// The digest of the token that it is made from.
    parent: Option<&'a str>,
}

impl Work for Put<'_> {
    type Output = bool;
    type Error = TableError;

    async fn run(&self, tx: &mut Transaction) -> Result<bool, TableError> {
        let row = self.row;
        if let Some(parent) = self.parent {
            // Who takes the parent back from now on waits, and finds this one.
            let sql = "UPDATE identity_tokens SET user_id = user_id WHERE digest = ?";
            let held = tx.execute(Statement::new(sql).bind(parent)).await?;
            if held.rows_affected == 0 {
                return Ok(false);
            }
        }
        let (scope, scope_id) = match &row.target {
            None => ("unscoped", None),
            Some(Target::System) => ("system", None),
            Some(Target::Project(id)) => ("project", Some(id)),
            Some(Target::Domain(id)) => ("domain", Some(id)),
        };
        let list = |names: &[String]| serde_json::to_string(names).unwrap_or_default();
        let sql = "INSERT INTO identity_tokens (digest, user_id, scope, scope_id, roles, methods, audit_id, chain_id, \
                   fingerprint, issued_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        let insert = Statement::new(sql)
            .bind(&row.digest)
            .bind(&row.user_id)
            .bind(scope)
            .bind(scope_id)
            .bind(list(&row.roles))
            .bind(list(&row.methods))
            .bind(&row.audit_id)
            .bind(&row.chain_id)
            .bind(&row.fingerprint)
            .bind(row.issued_at)
            .bind(row.expires_at);
        tx.execute(insert).await?;
        Ok(true)
    }
}

struct Revoke<'a>(&'a TokenRow, Revoked);

impl Work for Revoke<'_> {
    type Output = ();
    type Error = TableError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), TableError> {
        let Self(row, which) = self;
        let sql = "DELETE FROM identity_tokens WHERE digest = ?";
        tx.execute(Statement::new(sql).bind(&row.digest)).await?;
        if *which == Revoked::Chain {
            let sql = "DELETE FROM identity_tokens WHERE chain_id = ?";
            // A statement does not see what came while it waited for a row: until there are none, one may be made from another.
            loop {
                let deleted = tx.execute(Statement::new(sql).bind(&row.audit_id)).await?;
                if deleted.rows_affected == 0 {
                    break;
                }
            }
        }
        Ok(())
    }
}

struct Sweep(Moment);

impl Work for Sweep {
    type Output = u64;
    type Error = TableError;

    async fn run(&self, tx: &mut Transaction) -> Result<u64, TableError> {
        let sql = "DELETE FROM identity_tokens WHERE expires_at < ?";
        Ok(tx
            .execute(Statement::new(sql).bind(self.0))
            .await?
            .rows_affected)
    }
}
