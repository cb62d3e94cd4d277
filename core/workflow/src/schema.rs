//! [`JournalSchema`]: the tables of a journal, and the check of a file when it is opened.

use berth_store::{SqlError, Statement, Transaction, Work};

/// The file and the tables of a journal.
#[derive(Debug, Clone, Copy)]
pub struct JournalSchema {
    /// File name in `state_path`.
    pub file: &'static str,
    /// Table with the version. No other database has a table of this name.
    pub version_table: &'static str,
    /// Script that creates the other tables in an empty file.
    pub create: &'static str,
    /// The version that this release writes.
    pub version: i64,
    /// Scripts that upgrade the tables of older files, in order, each with the version that it upgrades.
    pub upgrades: &'static [(i64, &'static str)],
    /// Scripts with additions that did not change the version (`IF NOT EXISTS`). They run at each opening.
    pub additions: &'static [&'static str],
}

/// Result of [`OpenJournal`].
pub(crate) enum JournalCheck {
    /// The file has the tables of this release.
    Ready,
    /// A later release wrote this version.
    Newer(i64),
    /// Damaged or not this journal, with the reason.
    Other(String),
}

/// Checks that the file is an intact journal; creates the tables in an empty file, upgrades those of an older release.
pub(crate) struct OpenJournal(pub(crate) JournalSchema);

impl Work for OpenJournal {
    type Output = JournalCheck;
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<JournalCheck, SqlError> {
        let (schema, table) = (&self.0, self.0.version_table);
        if let Some(damage) = tx.damage().await? {
            return Ok(JournalCheck::Other(damage));
        }
        let names = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
        let names = tx.rows(Statement::new(names)).await?;
        let names = names.iter().map(|row| row.text(0));
        let names = names.collect::<Result<Vec<_>, _>>()?;
        if names.is_empty() {
            let versions = format!("CREATE TABLE {table} (version INTEGER NOT NULL)");
            tx.execute(Statement::new(versions)).await?;
            let version = format!("INSERT INTO {table} (version) VALUES (?)");
            tx.execute(Statement::new(version).bind(schema.version))
                .await?;
            tx.script(schema.create).await?;
        } else if !names.iter().any(|name| name == table) {
            return Ok(JournalCheck::Other(format!(
                "it has the table {}",
                names[0]
            )));
        }
        let version = Statement::new(format!("SELECT version FROM {table}"));
        let found = tx.row(version).await?.map(|row| row.int(0)).transpose()?;
        match found {
            Some(found) if found > schema.version => return Ok(JournalCheck::Newer(found)),
            Some(found @ 1..) => {
                for (_, upgrade) in schema.upgrades.iter().filter(|(of, _)| *of >= found) {
                    tx.script(upgrade).await?;
                }
                if found < schema.version {
                    let version = format!("UPDATE {table} SET version = ?");
                    tx.execute(Statement::new(version).bind(schema.version))
                        .await?;
                }
            }
            _ => return Ok(JournalCheck::Other(format!("its version is {found:?}"))),
        }
        for addition in schema.additions {
            tx.script(addition).await?;
        }
        Ok(JournalCheck::Ready)
    }
}
