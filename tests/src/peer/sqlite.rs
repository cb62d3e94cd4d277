//! Runs SQL on a peer's SQLite file with the peer's own Python: the same SQLite with the same locks.

use std::path::Path;
use std::process::Command;

use super::{PeerError, installed, output, rows};

const SCRIPT: &str = "\
import sqlite3, sys
base = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
base.execute('begin immediate')
rows = []
for statement in sys.argv[2].split(';'):
    if statement.strip():
        rows = base.execute(statement).fetchall()
base.execute('commit')
for row in rows:
    print('\\t'.join('NULL' if cell is None else str(cell) for cell in row))
";

/// Runs statements in one transaction and gives the rows of the last. No statement may hold a semicolon of its own.
pub(super) fn query(file: &Path, sql: &str) -> Result<Vec<Vec<String>>, PeerError> {
    let python = installed()?.join("venv/bin/python");
    Ok(rows(&output(
        Command::new(python)
            .args(["-I", "-S", "-c", SCRIPT])
            .arg(file)
            .arg(sql),
    )?))
}
