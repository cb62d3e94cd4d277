//! Where databases differ in the text of a statement.

/// The SQL a store speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// SQLite 3.37 and later.
    Sqlite,
}

impl Dialect {
    /// How many `?` one statement may carry.
    #[must_use]
    pub fn max_variables(self) -> usize {
        match self {
            // SQLITE_MAX_VARIABLE_NUMBER since 3.32.
            Self::Sqlite => 32_766,
        }
    }

    /// An expression that reads `column` as a double. SQLite keeps a whole number in a NUMERIC
    /// column as an integer, and the driver refuses to read that as a double.
    #[must_use]
    pub fn double(self, column: &str) -> String {
        match self {
            Self::Sqlite => format!("CAST({column} AS REAL)"),
        }
    }

    /// What to select instead of `columns` so that all rows come over as one value, for [`super::Row::unpack`]: each row by
    /// itself wakes who waits for it. For thousands of rows of whole numbers, text without NUL, and NULL; in no certain order.
    #[must_use]
    pub fn packed(self, columns: &str) -> String {
        match self {
            Self::Sqlite => format!("json_group_array(json_array({columns}))"),
        }
    }

    /// The inside of `IN (...)` for keys that are bound as one JSON list.
    pub(super) fn list(self) -> &'static str {
        match self {
            Self::Sqlite => "SELECT value FROM json_each(?)",
        }
    }
}
