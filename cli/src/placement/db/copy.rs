//! `berth placement db copy`.

use std::io::Write;

use berth_placement::{Copied, CopyError, can_be_copied_to, copy};
use berth_store::SqlStore;

use super::super::open_elsewhere::{refuse_beside_a_service, refuse_beside_sessions};
use super::write_all;
use crate::config::{Config, Secret};
use crate::database::{self, not_placement};
use crate::failure::{ErrorCode, Failure};

/// All rows of the one into the other.
///
/// # Errors
/// There is no such database, a service has one of them open, the new one is not empty, or something does not fit into it.
pub(super) async fn copy_all(
    from: &Secret,
    to: &Secret,
    config: &Config,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    refuse_beside_a_service(from)?;
    refuse_beside_a_service(to)?;
    let (old, named) = database::look_at_any(from).await?;
    let old = old.ok_or_else(|| {
        let what = format!("{named} is not there, or has no tables");
        Failure::new(ErrorCode::Refused, what).mend("give the one that the service uses")
    })?;
    let copied = async {
        refuse_beside_sessions(&old).await?;
        is_empty(to, &named).await?;
        let (new, new_named) = database::open_any(to, &config.state_path).await?;
        let copied = tables(&old, &new, (&named, &new_named), out).await;
        new.close().await;
        copied
    };
    let copied = copied.await;
    old.close().await;
    copied
}

/// Before anything of the new database is changed, the journal mode of a file included.
async fn is_empty(to: &Secret, named: &str) -> Result<(), Failure> {
    let (there, new_named) = database::look_at_any(to).await?;
    let Some(there) = there else {
        return Ok(());
    };
    let is_empty = async {
        refuse_beside_sessions(&there).await?;
        let is_empty = can_be_copied_to(&there).await;
        is_empty.map_err(|error| not_copied(named, &new_named, &error))
    };
    let is_empty = is_empty.await;
    there.close().await;
    is_empty
}

async fn tables(
    old: &SqlStore,
    new: &SqlStore,
    (named, new_named): (&str, &str),
    out: &mut dyn Write,
) -> Result<(), Failure> {
    refuse_beside_sessions(new).await?;
    let failed = |error: CopyError| not_copied(named, new_named, &error);
    let mut copy = copy(old, new).await.map_err(failed)?;
    write_all(&copy.ignored, ", and is not copied", out)?;
    while let Some(copied) = copy.table().await.map_err(failed)? {
        writeln!(out, "copied {} rows of {}", copied.rows, copied.table)?;
        out.flush()?;
    }
    for copied in copy.complete().await.map_err(failed)? {
        let Copied {
            table,
            rows,
            digest,
        } = copied;
        writeln!(out, "{table}: {rows} rows on both sides, sha256 {digest}")?;
    }
    Ok(())
}

fn not_copied(named: &str, new_named: &str, error: &CopyError) -> Failure {
    let failure = |code, mend: &str| {
        let what = format!("{named} is not copied to {new_named}");
        Failure::caused(code, what, error).mend(mend)
    };
    match error {
        CopyError::From(error) => not_placement(named, error),
        CopyError::To(error) => not_placement(new_named, error),
        CopyError::Differs { .. } => failure(
            ErrorCode::Refused,
            "berth placement db check says what it is about; berth placement db sync mends rows",
        ),
        CopyError::NotEmpty { .. } => failure(
            ErrorCode::Refused,
            "name an empty database: nothing is written into one that has something in it",
        ),
        CopyError::Table { .. }
        | CopyError::Alike { .. }
        | CopyError::Unequal { .. }
        | CopyError::Sql(_) => failure(
            ErrorCode::State,
            "the database that is copied is as it was, and the other is not served; mend what is named, then repeat",
        ),
    }
}
