//! Maps the error codes of the databases to [`SqlError`].

use sqlx::error::{DatabaseError, ErrorKind};
use sqlx::mysql::MySqlDatabaseError;
use sqlx::postgres::PgDatabaseError;

use super::SqlError;

/// The phase in which an error occurred. It decides what a lost connection means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sql) enum TransactionPhase {
    /// There is no connection yet.
    Connecting,
    /// Before COMMIT was sent.
    Working,
    Committing,
}

pub(in crate::sql) fn of_server(error: sqlx::Error, phase: TransactionPhase) -> SqlError {
    let sorted = sorted(error, phase);
    match (phase, sorted) {
        // The server says that it rolled back. For all other errors it is unknown whether the commit was done.
        (
            TransactionPhase::Committing,
            sure @ (SqlError::Conflict(_) | SqlError::Duplicate(_) | SqlError::Constraint(_)),
        ) => sure,
        (TransactionPhase::Committing, SqlError::DiskFull(error)) => {
            SqlError::OutcomeUnknown(error)
        }
        (
            TransactionPhase::Committing,
            SqlError::Lost(error)
            | SqlError::Unreachable(error)
            | SqlError::Refused(error)
            | SqlError::TookTooLong(error)
            | SqlError::Io(error)
            | SqlError::Corrupt(error)
            | SqlError::Tls(error)
            | SqlError::TooManyConnections(error)
            | SqlError::Busy(error),
        ) => SqlError::OutcomeUnknown(error),
        (_, sorted) => sorted,
    }
}

fn sorted(error: sqlx::Error, phase: TransactionPhase) -> SqlError {
    let lost = |error| match phase {
        TransactionPhase::Connecting => SqlError::Unreachable(error),
        TransactionPhase::Working | TransactionPhase::Committing => SqlError::Lost(error),
    };
    match &error {
        sqlx::Error::PoolTimedOut => SqlError::Busy(error),
        sqlx::Error::PoolClosed => SqlError::Closed,
        sqlx::Error::Tls(_) => SqlError::Tls(error),
        // The driver reports an invalid certificate as this error.
        sqlx::Error::Io(io)
            if phase == TransactionPhase::Connecting
                && io.kind() == std::io::ErrorKind::InvalidData =>
        {
            SqlError::Tls(error)
        }
        // The driver reports a server that disconnects in the middle of a message as a protocol error.
        sqlx::Error::Io(_) | sqlx::Error::WorkerCrashed | sqlx::Error::BeginFailed => lost(error),
        sqlx::Error::Protocol(_) if phase != TransactionPhase::Connecting => lost(error),
        // A password that MySQL 8 wants encrypted, on a connection that is not.
        sqlx::Error::Configuration(why) if why.to_string().contains("RSA") => SqlError::Tls(error),
        sqlx::Error::Database(database) => match database.kind() {
            ErrorKind::UniqueViolation => SqlError::Duplicate(error),
            ErrorKind::ForeignKeyViolation
            | ErrorKind::NotNullViolation
            | ErrorKind::CheckViolation
            | ErrorKind::ExclusionViolation => SqlError::Constraint(error),
            _ => by_code(&**database)(error),
        },
        _ => SqlError::Refused(error),
    }
}

fn by_code(error: &(dyn DatabaseError + 'static)) -> fn(sqlx::Error) -> SqlError {
    if let Some(error) = error.try_downcast_ref::<PgDatabaseError>() {
        by_sqlstate(error.code())
    } else if let Some(error) = error.try_downcast_ref::<MySqlDatabaseError>() {
        by_number(error.number())
    } else {
        SqlError::Refused
    }
}

fn by_sqlstate(code: &str) -> fn(sqlx::Error) -> SqlError {
    match code {
        // In class 40, every code except this one states that the transaction was rolled back.
        "40003" => SqlError::Lost,
        "55P03" => SqlError::Conflict,
        "57014" | "25P04" => SqlError::TookTooLong,
        // PostgreSQL sends 25P03 to a process that was stopped for a while: the server ended the session and rolled the
        // transaction back.
        "25P03" | "57P01" | "57P02" | "57P05" => SqlError::Lost,
        "57P03" => SqlError::Unreachable,
        "3D000" => SqlError::UnknownDatabase,
        "22021" => SqlError::Nul,
        "25006" => SqlError::ReadOnly,
        "42501" => SqlError::Denied,
        "53100" => SqlError::DiskFull,
        "53300" => SqlError::TooManyConnections,
        code => match code.get(..2) {
            Some("40") => SqlError::Conflict,
            Some("08") => SqlError::Lost,
            Some("23") => SqlError::Constraint,
            Some("28") => SqlError::Denied,
            Some("58") => SqlError::Io,
            Some("XX") => SqlError::Corrupt,
            _ => SqlError::Refused,
        },
    }
}

/// MariaDB's and MySQL's: <https://mariadb.com/kb/en/mariadb-error-code-reference/>.
fn by_number(number: u16) -> fn(sqlx::Error) -> SqlError {
    match number {
        // A lock that was waited for too long; a deadlock; a row that changed since the snapshot; Galera.
        1205 | 1213 | 1020 | 1047 | 1689 | 3572 => SqlError::Conflict,
        3 | 1021 | 1114 => SqlError::DiskFull,
        1040 | 1203 | 1226 => SqlError::TooManyConnections,
        1044 | 1045 | 1130 | 1142 | 1143 | 1227 | 1251 | 1370 | 1410 | 1698 | 1820 | 1862
        | 3118 | 4151 => SqlError::Denied,
        1049 => SqlError::UnknownDatabase,
        1036 | 1290 | 1792 | 1836 => SqlError::ReadOnly,
        // Shut down or killed under us.
        1053 | 1152..=1161 | 1184 | 1927 | 2006 | 2013 | 3169 | 4031 => SqlError::Lost,
        1317 | 1969 | 3024 => SqlError::TookTooLong,
        1030 => SqlError::Io,
        1034 | 1194 | 1195 | 1712 => SqlError::Corrupt,
        1048 | 1216 | 1217 | 1264 | 1364 | 1406 | 1451 | 1452 | 3819 | 4025 => SqlError::Constraint,
        // Storing the character (1366), or comparing it with a column: two, three or more texts, or a parameter.
        1366 | 1267 | 1270 | 1271 | 3988 => SqlError::Character,
        _ => SqlError::Refused,
    }
}
