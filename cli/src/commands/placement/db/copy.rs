//! `berth placement db copy`: copies all rows of a Placement's database into an empty one.

use std::io::Write;
use std::path::Path;

use berth_compose::database;
use berth_compose::database::not_placement;
use berth_config::Secret;
use berth_output::{ErrorCode, Failure};
use berth_placement::{CopiedTable, CopyError, can_be_copied_to, copy};
use berth_store::SqlStore;

use super::super::database_in_use::{refuse_if_open_elsewhere, refuse_other_sessions};
use super::write_all;

/// Copies all rows of one database into the other.
///
/// Errors: a database does not exist, a service has one of them open, the target is not empty, or a row does
/// not fit into it.
pub(super) async fn copy_all(
    from: &Secret,
    to: &Secret,
    state_path: &Path,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    refuse_if_open_elsewhere(from)?;
    refuse_if_open_elsewhere(to)?;
    let (old, named) = database::open_any_read_only(from).await?;
    let old = old.ok_or_else(|| {
        let what = format!("{named} does not exist, or has no tables");
        Failure::new(ErrorCode::Refused, what).hint("name the database that the service uses")
    })?;
    let copied = async {
        refuse_other_sessions(&old).await?;
        is_empty(to, &named).await?;
        let (new, new_named) = database::open_any(to, state_path).await?;
        let copied = tables((&old, from, &named), (&new, to, &new_named), out).await;
        new.close().await;
        copied
    };
    let copied = copied.await;
    old.close().await;
    copied
}

/// Must run before anything of the new database is changed, the journal mode of a file included.
async fn is_empty(to: &Secret, named: &str) -> Result<(), Failure> {
    let (there, new_named) = database::open_any_read_only(to).await?;
    let Some(there) = there else {
        return Ok(());
    };
    let is_empty = async {
        refuse_other_sessions(&there).await?;
        let is_empty = can_be_copied_to(&there).await;
        is_empty.map_err(|error| not_copied(named, &new_named, &error))
    };
    let is_empty = is_empty.await;
    there.close().await;
    is_empty
}

async fn tables(
    (old, from, named): (&SqlStore, &Secret, &str),
    (new, to, new_named): (&SqlStore, &Secret, &str),
    out: &mut dyn Write,
) -> Result<(), Failure> {
    refuse_other_sessions(new).await?;
    let failed = |error: CopyError| not_copied(named, new_named, &error);
    let mut copy = copy(old, new).await.map_err(failed)?;
    write_all(&copy.ignored, ", and is not copied", out)?;
    while let Some(copied) = copy.table().await.map_err(failed)? {
        writeln!(out, "copied {} rows of {}", copied.rows, copied.table)?;
        out.flush()?;
    }
    // Rows that a service wrote into the source meanwhile are missing in the copy.
    for (url, store) in [(from, old), (to, new)] {
        refuse_if_open_elsewhere(url)?;
        refuse_other_sessions(store).await?;
    }
    for copied in copy.complete().await.map_err(failed)? {
        let CopiedTable {
            table,
            rows,
            digest,
        } = copied;
        writeln!(out, "{table}: {rows} rows on both sides, sha256 {digest}")?;
    }
    Ok(())
}

fn not_copied(named: &str, new_named: &str, error: &CopyError) -> Failure {
    let failure = |code, hint: &str| {
        let what = format!("{named} is not copied to {new_named}");
        Failure::caused(code, what, error).hint(hint)
    };
    match error {
        CopyError::From(error) => not_placement(named, error),
        CopyError::To(error) => not_placement(new_named, error),
        CopyError::Differs { .. } => failure(
            ErrorCode::Refused,
            "berth placement db check shows the differences; berth placement db sync repairs rows",
        ),
        CopyError::NotEmpty { .. } => failure(
            ErrorCode::Refused,
            "name an empty database: a database with contents is not overwritten",
        ),
        CopyError::Unknown(_) => failure(
            ErrorCode::State,
            "the source is unchanged; when the target answers again, run berth placement db version: if it prints a revision, the copy is \
             complete, else repeat it",
        ),
        CopyError::Table { .. }
        | CopyError::Alike { .. }
        | CopyError::Unequal { .. }
        | CopyError::Sql(_) => failure(
            ErrorCode::State,
            "the source is unchanged, and the target is not served; fix the error, then repeat",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io;
    use std::path::PathBuf;
    use std::process::{Child, Command};

    use berth_placement::{PlacementSchemaError, prepare, version};
    use berth_store::SqlOptions;

    use super::*;

    /// Lets another process open a database as soon as all tables are reported as copied.
    struct Opening {
        file: PathBuf,
        written: Vec<u8>,
        other: Option<Child>,
    }

    impl Write for Opening {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.written.extend_from_slice(bytes);
            if self.other.is_none() && self.written.ends_with(b"rows of allocations\n") {
                let file = File::open(&self.file)?;
                self.other = Some(Command::new("sleep").arg("1000").stdin(file).spawn()?);
            }
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Drop for Opening {
        fn drop(&mut self) {
            if let Some(mut other) = self.other.take() {
                other.kill().unwrap();
                other.wait().unwrap();
            }
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_client_that_opens_a_database_during_its_copy_prevents_the_completion() {
        let folder = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
        let url = |file: &Path| Secret::from(format!("sqlite:{}", file.display()));
        let (old, _) = database::open_any(&url(&from), folder.path())
            .await
            .unwrap();
        prepare(&old).await.unwrap();
        old.close().await;
        for file in [&from, &to] {
            let mut out = Opening {
                file: file.clone(),
                written: Vec::new(),
                other: None,
            };
            let copied = copy_all(&url(&from), &url(&to), folder.path(), &mut out).await;
            let failure = copied.unwrap_err();
            assert_eq!(failure.code(), ErrorCode::Held, "{}", failure.explain());
            assert!(
                failure.explain().contains("sleep (pid "),
                "{}",
                failure.explain()
            );
            drop(out);
            let location = database::location(&url(&to)).unwrap();
            let new = SqlStore::open_read_only_at(&location, &SqlOptions::default()).await;
            let new = new.unwrap().unwrap();
            let found = version(&new).await;
            assert!(
                matches!(found, Err(PlacementSchemaError::Incomplete)),
                "{found:?}"
            );
            new.close().await;
        }
        let copied = copy_all(&url(&from), &url(&to), folder.path(), &mut Vec::new()).await;
        copied.unwrap();
    }
}
