//! The other sessions on a database, from the server's list.

use std::fmt;
use std::sync::PoisonError;

use super::super::{SqlError, Statement};
use super::{DriverPool, ServerPool};

/// A session of another program on the same database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherSession {
    /// The server's number for it: a process id (PostgreSQL) or connection id.
    pub number: i64,
    pub user: String,
    /// The address of the client; `None` over a Unix socket.
    pub client: Option<String>,
    /// The program's name, if it sets one.
    pub program: Option<String>,
    /// Whether it is offline work ([`super::super::SqlOptions::is_offline_work`]).
    pub is_offline_work: bool,
}

/// The prefix of the name of an offline work session: the application name on PostgreSQL, the name of a lock that it
/// holds (with its number) on MariaDB and MySQL.
pub(super) const OFFLINE_WORK: &str = "berth offline ";

/// As one phrase: `user placement from 10.0.0.3 (session 4711)`.
impl fmt::Display for OtherSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, user, .. } = self;
        let client = self.client.as_deref().unwrap_or("this host");
        let program = self.program.as_deref().map(|name| format!("{name}, "));
        let program = program.unwrap_or_default();
        write!(f, "user {user} from {client} ({program}session {number})")
    }
}

/// The sessions of others on the same database.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OtherSessions {
    /// The sessions that the server shows to our user.
    pub seen: Vec<OtherSession>,
    /// Whether all sessions are shown. Without the privilege PROCESS, MariaDB and MySQL show only our user's sessions;
    /// a cluster shows only one node.
    pub complete: bool,
}

const POSTGRES: &str = "SELECT pid, COALESCE(CAST(usename AS TEXT), ''), host(client_addr), NULLIF(application_name, '') \
     FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() \
     AND COALESCE(backend_type, 'client backend') = 'client backend' \
     AND COALESCE(application_name, '') <> ? ORDER BY pid";
const MYSQL: &str = "SELECT CAST(id AS SIGNED), user, host, \
     CASE WHEN IS_USED_LOCK(CONCAT(?, id)) = id THEN 1 ELSE 0 END FROM information_schema.processlist \
     WHERE db = DATABASE() AND command <> 'Daemon' ORDER BY id";
const MYSQL_SEES_ALL: &str = "SELECT COUNT(*) FROM information_schema.user_privileges WHERE privilege_type = 'PROCESS' \
     AND grantee = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''')";

impl ServerPool {
    pub(in crate::sql) async fn other_sessions(&self) -> Result<OtherSessions, SqlError> {
        match self.pool {
            DriverPool::Postgres(..) => {
                let rows = self
                    .rows(Statement::new(POSTGRES).bind(&self.own.name))
                    .await?;
                let seen = rows.iter().map(|row| {
                    let program = row.opt_text(3)?;
                    let name = program.as_deref().unwrap_or_default();
                    Ok(OtherSession {
                        number: row.int(0)?,
                        user: row.text(1)?,
                        client: row.opt_text(2)?,
                        is_offline_work: name.starts_with(OFFLINE_WORK),
                        program,
                    })
                });
                Ok(OtherSessions {
                    seen: seen.collect::<Result<_, SqlError>>()?,
                    complete: true,
                })
            }
            DriverPool::MySql(..) => self.mysql_sessions().await,
        }
    }

    async fn mysql_sessions(&self) -> Result<OtherSessions, SqlError> {
        let rows = self.rows(Statement::new(MYSQL).bind(OFFLINE_WORK)).await?;
        let sees_all = self.rows(Statement::new(MYSQL_SEES_ALL)).await?;
        let sees_all = sees_all.first().map_or(Ok(0), |row| row.int(0))?;
        let own = self.own.numbers.lock();
        let own = own.unwrap_or_else(PoisonError::into_inner);
        let mut seen = Vec::new();
        for row in &rows {
            let number = row.int(0)?;
            if u64::try_from(number).is_ok_and(|number| own.contains(&number)) {
                continue;
            }
            let host = row.opt_text(2)?.unwrap_or_default();
            // Over TCP, a port follows the host.
            let client = host.rsplit_once(':').map(|(client, _)| client.to_owned());
            seen.push(OtherSession {
                number,
                user: row.text(1)?,
                client,
                program: None,
                is_offline_work: row.int(3)? == 1,
            });
        }
        Ok(OtherSessions {
            seen,
            complete: sees_all > 0,
        })
    }
}
