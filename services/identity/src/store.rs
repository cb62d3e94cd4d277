//! The table of tokens.

pub(crate) mod schema;

use berth_http::Fault;
use berth_store::{
    Disposition, Retryable, Row, SqlError, SqlStore, SqlTimestamp, Statement, Transaction, Work,
};

use crate::users::AssignmentTarget;

/// A row of the table. Of the token itself only the SHA-256 digest is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TokenRow {
    pub(crate) digest: String,
    pub(crate) user_id: String,
    /// The scope; `None` if unscoped.
    pub(crate) target: Option<AssignmentTarget>,
    /// The names of the roles at the time of issue, including implied roles.
    pub(crate) roles: Vec<String>,
    pub(crate) methods: Vec<String>,
    pub(crate) audit_id: String,
    /// The audit id of the first token of the chain; its own if it was issued for a password.
    pub(crate) chain_id: String,
    /// Fingerprint of the password hash at the time of issue.
    pub(crate) fingerprint: String,
    pub(crate) issued_at: SqlTimestamp,
    pub(crate) expires_at: SqlTimestamp,
}

/// Why the table could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TokenTableError {
    #[error("the database of tokens failed")]
    Sql(#[from] SqlError),
    /// A column holds a value that no version of this service writes.
    #[error("column {column} of table identity_tokens holds an unknown value")]
    Foreign { column: &'static str },
}

impl TokenTableError {
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Sql(error) => error.write_disposition(),
            Self::Foreign { .. } => Disposition::Fatal,
        }
    }
}

impl Retryable for TokenTableError {
    fn disposition(&self) -> Disposition {
        self.disposition()
    }
}

/// The response to a database failure. The cause is logged here, once.
pub(crate) fn fault(error: &TokenTableError) -> Fault {
    tracing::error!(
        error = error as &dyn std::error::Error,
        "a database request failed"
    );
    match error {
        TokenTableError::Sql(sql) if sql.will_pass() => {
            Fault::unavailable("The token database is unavailable; try again.")
        }
        _ => Fault::internal("The token database failed; see the service's log."),
    }
}

/// The table of tokens. Clones share one store.
#[derive(Debug, Clone)]
pub(crate) struct TokenTable(SqlStore);

impl TokenTable {
    pub(crate) fn of(store: SqlStore) -> Self {
        Self(store)
    }

    /// Inserts a new token, and ends earlier ones of its user if there are more than `most`. Returns false, and changes
    /// nothing, if its parent token no longer exists.
    pub(crate) async fn insert(
        &self,
        row: &TokenRow,
        parent: Option<&str>,
        most: u64,
    ) -> Result<bool, TokenTableError> {
        self.0.write(&InsertToken { row, parent, most }).await
    }

    pub(crate) async fn get(&self, digest: &str) -> Result<Option<TokenRow>, TokenTableError> {
        let sql = "SELECT digest, user_id, scope, scope_id, roles, methods, audit_id, chain_id, fingerprint, issued_at, \
                   expires_at FROM identity_tokens WHERE digest = ?";
        let rows = self.0.rows(Statement::new(sql).bind(digest)).await?;
        rows.first().map(read).transpose()
    }

    /// Deletes a token, and with [`RevocationScope::Chain`] all tokens that were issued from it.
    pub(crate) async fn revoke(
        &self,
        row: &TokenRow,
        which: RevocationScope,
    ) -> Result<(), TokenTableError> {
        self.0.write(&RevokeTokens(row, which)).await
    }

    /// Forgets the tokens that ended before a moment; how many.
    pub(crate) async fn sweep(&self, before: SqlTimestamp) -> Result<u64, TokenTableError> {
        self.0.write(&DeleteExpiredTokens(before)).await
    }
}

/// The tokens that a revocation deletes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RevocationScope {
    Token,
    /// The token and all tokens that were issued from it.
    Chain,
}

fn foreign(column: &'static str) -> TokenTableError {
    TokenTableError::Foreign { column }
}

fn read(row: &Row) -> Result<TokenRow, TokenTableError> {
    let scope = row.text(2)?;
    let scope_id = row.opt_text(3)?;
    let target = match (scope.as_str(), scope_id) {
        ("unscoped", None) => None,
        ("system", None) => Some(AssignmentTarget::System),
        ("project", Some(id)) => Some(AssignmentTarget::Project(id)),
        ("domain", Some(id)) => Some(AssignmentTarget::Domain(id)),
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

struct InsertToken<'a> {
    row: &'a TokenRow,
    /// The digest of the token that this one is issued from.
    parent: Option<&'a str>,
    /// The largest number of tokens of the user.
    most: u64,
}

impl InsertToken<'_> {
    /// Makes room for the new token: of the login with the most tokens, the oldest token ends. So whoever asks for many
    /// tokens with one token or password ends those, and not the tokens of the user's other logins.
    async fn make_room(&self, tx: &mut Transaction) -> Result<(), SqlError> {
        let row = self.row;
        let sql = "SELECT COUNT(*) FROM identity_tokens WHERE user_id = ? AND expires_at > ?";
        let valid = Statement::new(sql).bind(&row.user_id).bind(row.issued_at);
        let valid = tx.row(valid).await?.map_or(Ok(0), |row| row.int(0))?;
        let valid = u64::try_from(valid).unwrap_or_default();
        let parent = self.parent.unwrap_or_default();
        for _ in self.most..=valid {
            let sql = "SELECT chain_id FROM identity_tokens WHERE user_id = ? AND digest <> ? GROUP BY chain_id \
                       ORDER BY COUNT(*) DESC, MIN(issued_at), chain_id LIMIT 1";
            let login = Statement::new(sql).bind(&row.user_id).bind(parent);
            let Some(login) = tx.row(login).await? else {
                return Ok(());
            };
            let sql = "SELECT digest FROM identity_tokens WHERE chain_id = ? AND digest <> ? \
                       ORDER BY issued_at, digest LIMIT 1";
            let oldest = Statement::new(sql).bind(login.text(0)?).bind(parent);
            if let Some(oldest) = tx.row(oldest).await? {
                let sql = "DELETE FROM identity_tokens WHERE digest = ?";
                tx.execute(Statement::new(sql).bind(oldest.text(0)?))
                    .await?;
            }
        }
        Ok(())
    }
}

impl Work for InsertToken<'_> {
    type Output = bool;
    type Error = TokenTableError;

    async fn run(&self, tx: &mut Transaction) -> Result<bool, TokenTableError> {
        let row = self.row;
        if let Some(parent) = self.parent {
            // Locks the parent's row: a concurrent revocation waits, and then deletes this token as well.
            let sql = "UPDATE identity_tokens SET user_id = user_id WHERE digest = ?";
            let held = tx.execute(Statement::new(sql).bind(parent)).await?;
            if held.rows_affected == 0 {
                return Ok(false);
            }
        }
        self.make_room(tx).await?;
        let (scope, scope_id) = match &row.target {
            None => ("unscoped", None),
            Some(AssignmentTarget::System) => ("system", None),
            Some(AssignmentTarget::Project(id)) => ("project", Some(id)),
            Some(AssignmentTarget::Domain(id)) => ("domain", Some(id)),
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

struct RevokeTokens<'a>(&'a TokenRow, RevocationScope);

impl Work for RevokeTokens<'_> {
    type Output = ();
    type Error = TokenTableError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), TokenTableError> {
        let Self(row, which) = self;
        let sql = "DELETE FROM identity_tokens WHERE digest = ?";
        tx.execute(Statement::new(sql).bind(&row.digest)).await?;
        if *which == RevocationScope::Chain {
            let sql = "DELETE FROM identity_tokens WHERE chain_id = ?";
            // On some databases a statement does not see rows that were inserted while it waited for a lock, so repeat
            // until no row is left.
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

struct DeleteExpiredTokens(SqlTimestamp);

impl Work for DeleteExpiredTokens {
    type Output = u64;
    type Error = TokenTableError;

    async fn run(&self, tx: &mut Transaction) -> Result<u64, TokenTableError> {
        let sql = "DELETE FROM identity_tokens WHERE expires_at < ?";
        Ok(tx
            .execute(Statement::new(sql).bind(self.0))
            .await?
            .rows_affected)
    }
}
