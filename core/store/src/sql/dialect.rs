//! The SQL dialects: the differences between databases in the text of statements.

/// The SQL a store speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// SQLite 3.37 and later.
    Sqlite,
    /// PostgreSQL 12 and later.
    Postgres,
    /// MariaDB 10.5 and later, MySQL 8.0 and later. Every session of a store sets these modes: names are quoted by
    /// double quotes, `||` joins texts, a backslash in a literal is a backslash, id 0 is allowed.
    MySql,
}

impl Dialect {
    /// The maximum number of `?` in one statement.
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
    /// SQLite stores a whole number in a NUMERIC column as an integer, which the driver refuses to read as a
    /// double. MySQL's `float` has four bytes, and 1.1 would become 1.10000002 as a double, so it is converted by
    /// its shortest decimal form.
    #[must_use]
    pub fn double(self, column: &str) -> String {
        match self {
            Self::Sqlite => format!("CAST({column} AS REAL)"),
            Self::Postgres => format!("CAST({column} AS DOUBLE PRECISION)"),
            Self::MySql => format!("(CAST({column} AS CHAR) + 0E0)"),
        }
    }

    /// The expression to select instead of `columns`, to be read by [`super::Row::unpack`] on each row. On SQLite all
    /// rows are packed into one, which saves messages between threads; on servers the rows stay as they are. For
    /// thousands of rows of whole numbers, text without NUL, timestamps (as text), and NULL. The order is undefined.
    #[must_use]
    pub fn packed(self, columns: &str) -> String {
        match self {
            Self::Sqlite => format!("json_group_array(json_array({columns}))"),
            Self::Postgres | Self::MySql => columns.to_owned(),
        }
    }

    /// The end of a SELECT that locks its rows against other writers until the transaction ends. Empty on SQLite, which
    /// has one writer at a time. The rows are current, or the transaction ends in a conflict.
    ///
    /// A caller that locks a row must also change it, for example by raising its generation. At REPEATABLE READ,
    /// PostgreSQL takes its snapshot before it waits for the lock. Other rows that the previous writer changed are only
    /// noticed by a conflict, and a conflict only arises if the locked row itself was changed. MariaDB and MySQL take
    /// the snapshot at the first SELECT that does not lock.
    #[must_use]
    pub fn for_update(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::Postgres | Self::MySql => " FOR UPDATE",
        }
    }

    /// Like [`Dialect::for_update`], but shared: other transactions may lock the row in the same way, and none can
    /// change or delete it. Used while a new row refers to it.
    #[must_use]
    pub fn for_share(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::Postgres => " FOR SHARE",
            Self::MySql => " LOCK IN SHARE MODE",
        }
    }

    /// The end of an INSERT that changes nothing if the unique key exists. `column` is any column of the table; it is
    /// not changed. The number of affected rows cannot be used: MySQL counts an existing row, other databases do not.
    #[must_use]
    pub fn or_nothing(self, column: &str) -> String {
        match self {
            Self::Sqlite | Self::Postgres => " ON CONFLICT DO NOTHING".to_owned(),
            Self::MySql => format!(" ON DUPLICATE KEY UPDATE {column} = {column}"),
        }
    }

    /// The end of an INSERT that updates `columns` to the given values if the unique key `keys` exists. MySQL considers
    /// every unique key of the table. The number of affected rows differs between databases.
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

    /// An expression for comparing a text `column` with case sensitivity, which OpenStack's tables on MySQL lack.
    /// Compare the plain column as well, or no index is used.
    #[must_use]
    pub fn exactly(self, column: &str) -> String {
        match self {
            Self::Sqlite | Self::Postgres => column.to_owned(),
            Self::MySql => format!("CAST({column} AS BINARY)"),
        }
    }

    /// A condition with one `?`: the text in `column` begins with it, with case sensitivity. LIKE ignores case on
    /// SQLite and MySQL, and `_` matches any character everywhere.
    #[must_use]
    pub fn begins_with(self, column: &str) -> String {
        match self {
            Self::Sqlite => format!("instr({column}, ?) = 1"),
            Self::Postgres => format!("starts_with({column}, ?)"),
            Self::MySql => format!("LOCATE(CAST(? AS BINARY), CAST({column} AS BINARY)) = 1"),
        }
    }

    /// An expression for the database's current time, in UTC, in the format of [`super::SqlTimestamp`].
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
