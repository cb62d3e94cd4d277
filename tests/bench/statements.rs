//! Counts the statements of a request in PostgreSQL's log, BEGIN and COMMIT included. Writing the log slows the server,
//! so this is measured separately.

use std::fs;

use berth_tests::peer::Postgres;

use crate::Outcome;

/// Sessions that are opened while this lives have their statements in the log.
pub(crate) struct StatementLog<'a>(&'a Postgres);

impl<'a> StatementLog<'a> {
    pub(crate) fn begin(server: &'a Postgres) -> Outcome<Self> {
        server.query(None, "ALTER ROLE ALL SET log_statement = 'all'")?;
        Ok(Self(server))
    }

    /// How many one piece of work takes.
    pub(crate) fn count(&self, work: impl FnOnce() -> Outcome<()>) -> Outcome<f64> {
        let before = self.all()?;
        work()?;
        Ok(f64::from(self.all()? - before))
    }

    pub(crate) fn end(self) -> Outcome<()> {
        self.0.query(None, "ALTER ROLE ALL RESET log_statement")?;
        Ok(())
    }

    fn all(&self) -> Outcome<u32> {
        let log = fs::read(self.0.log())?;
        let log = String::from_utf8_lossy(&log);
        let statements = log
            .lines()
            .filter(|line| line.contains("LOG:  execute ") || line.contains("LOG:  statement: "));
        Ok(u32::try_from(statements.count())?)
    }
}
