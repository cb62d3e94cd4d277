//! The SQL dialects: the differences between databases in the text of statements.

/// The SQL a store speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// SQLite 3.37 and later.
    Sqlite,
    /// PostgreSQL 12 and later.
    Postgres,
    /// MariaDB 10.5 and later, MySQL 8.0 and later, in the modes that every session of a store sets: names stand in double
    /// quotes, `||` joins texts, a backslash in a literal is a backslash, id 0 is a row like others.
    MySql,
}

impl Dialect {
    /// How many `?` one statement may carry.
    #[must_use]
    pub fn max_variables(self) -> usize {
        match self {
            // SQLITE_MAX_VARIABLE_NUMBER since 3.32.
            Self::Sqlite => 32_766,
            // A 16-bit number in both protocols.
            Self::Postgres | Self::MySql => 65_535,
        }
    }

    /// An expression that reads `column` as a double, in a SELECT and in arithmetic.
    ///
    /// SQLite keeps a whole number in a NUMERIC column as an integer, and the driver refuses to read that as a double. MySQL's
    /// `float` has four bytes, and as a double 1.1 would be 1.10000002: it goes by its shortest decimal form.
    #[must_use]
    pub fn double(self, column: &str) -> String {
        match self {
            Self::Sqlite => format!("CAST({column} AS REAL)"),
            Self::Postgres => format!("CAST({column} AS DOUBLE PRECISION)"),
            Self::MySql => format!("(CAST({column} AS CHAR) + 0E0)"),
        }
    }

    /// What to select instead of `columns` so that all rows come over with as little waking as the driver allows, for
    /// [`super::Row::unpack`] on each row of the answer: one row with all of them on SQLite, plain rows elsewhere. For thousands
    /// of rows of whole numbers, text without NUL, moments (as text), and NULL; in no certain order.
    #[must_use]
    pub fn packed(self, columns: &str) -> String {
        match self {
            Self::Sqlite => format!("json_group_array(json_array({columns}))"),
            Self::Postgres | Self::MySql => columns.to_owned(),
        }
    }

    /// The end of a SELECT that locks its rows against other writers until the transaction ends. Empty on SQLite, where the
    /// writer is alone. The rows are read as they are now, or the transaction ends in a conflict.
    ///
    /// Whoever locks a row must also change it (raise its generation). At REPEATABLE READ PostgreSQL looks at the database
    /// before it waits for the lock: rows that the one before wrote elsewhere are seen only if it ends in a conflict, and it does
    /// so only where the locked row itself was changed. MariaDB and MySQL look with the first SELECT that does not lock.
    #[must_use]
    pub fn for_update(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::Postgres | Self::MySql => " FOR UPDATE",
        }
    }

    /// As [`Dialect::for_update`], beside others who only share: the row cannot be changed or deleted while a row of ours
    /// comes to refer to it.
    #[must_use]
    pub fn for_share(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::Postgres => " FOR SHARE",
            Self::MySql => " LOCK IN SHARE MODE",
        }
    }

    /// The end of an INSERT that leaves a row be whose unique key is taken. `column` is one of the table's, and stays as it is.
    ///
    /// The rows affected tell nothing: MySQL counts such a row, the others do not.
    #[must_use]
    pub fn or_nothing(self, column: &str) -> String {
        match self {
            Self::Sqlite | Self::Postgres => " ON CONFLICT DO NOTHING".to_owned(),
            Self::MySql => format!(" ON DUPLICATE KEY UPDATE {column} = {column}"),
        }
    }

    /// The end of an INSERT that changes `columns` of a row whose unique key `keys` is taken to the values given. On MySQL any
    /// unique key of the table counts. The rows affected differ between databases.
    #[must_use]
    pub fn or_update(self, keys: &[&str], columns: &[&str]) -> String {
        let set = |new: fn(&str) -> String| {
            let set: Vec<_> = columns
                .iter()
                .map(|column| format!("{column} = {}", new(column)))
                .collect();
            set.join(", ")
        };
        match self {
            Self::Sqlite | Self::Postgres => format!(
                " ON CONFLICT ({}) DO UPDATE SET {}",
                keys.join(", "),
                set(|column| format!("excluded.{column}"))
            ),
            Self::MySql => format!(
                " ON DUPLICATE KEY UPDATE {}",
                set(|column| format!("VALUES({column})"))
            ),
        }
    }

    /// An expression for a text `column` that tells `a` from `A`. The tables of OpenStack's on MySQL do not; compare the column
    /// by itself as well, or no index is used.
    #[must_use]
    pub fn exactly(self, column: &str) -> String {
        match self {
            Self::Sqlite | Self::Postgres => column.to_owned(),
            Self::MySql => format!("CAST({column} AS BINARY)"),
        }
    }

    /// A condition with one `?`: the text in `column` begins with it, letter for letter. LIKE takes `a` for `A` on SQLite and
    /// MySQL, and `_` for anything on all.
    #[must_use]
    pub fn begins_with(self, column: &str) -> String {
        match self {
            Self::Sqlite => format!("instr({column}, ?) = 1"),
            Self::Postgres => format!("starts_with({column}, ?)"),
            Self::MySql => format!("LOCATE(CAST(? AS BINARY), CAST({column} AS BINARY)) = 1"),
        }
    }

    /// An expression for the database's own time, UTC, as [`super::SqlTimestamp`]s are held.
    #[must_use]
    pub fn now(self) -> &'static str {
        match self {
            Self::Sqlite => "strftime('%Y-%m-%d %H:%M:%f000', 'now')",
            Self::Postgres => "(clock_timestamp() AT TIME ZONE 'UTC')",
            Self::MySql => "UTC_TIMESTAMP(6)",
        }
    }

    /// How many keys one statement takes in a list. On SQLite and PostgreSQL they are one value.
    pub(super) fn max_keys(self) -> usize {
        match self {
            Self::Sqlite | Self::Postgres => usize::MAX,
            // A list of keys is read by its index only up to range_optimizer_max_mem_size: at 8 MiB some 35,000 keys.
            Self::MySql => 16_000,
        }
    }
}
