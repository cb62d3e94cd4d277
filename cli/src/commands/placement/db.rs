//! `berth placement db`: manages the database of a Placement, Berth's or OpenStack's: shows and checks the schema,
//! upgrades it to this release's, and copies all rows into another database.

mod copy;

use std::io::Write;

use berth_compose::database;
use berth_compose::database::not_placement;
use berth_config::{Config, Secret};
use berth_output::{ErrorCode, Failure, ListFormat, Listing};
use berth_placement::{
    Difference, HEAD, IncompleteConsumers, SchemaVersion, ShapeDifference, SyncPlan, compare, plan,
    sync, version,
};
use berth_store::SqlStore;
use serde_json::{Value, json};

use super::database_choice::DatabaseChoice;
use super::database_in_use::{refuse_if_open_elsewhere, refuse_other_sessions};

#[derive(Debug, clap::Subcommand)]
pub(super) enum Db {
    /// Print the revision of the schema. A service may be running.
    Version {
        #[command(flatten)]
        which: DatabaseChoice,
        #[command(flatten)]
        format: ListFormat,
    },
    /// Compare every table, column, key and index with this release's schema. A service may be running.
    Check {
        #[command(flatten)]
        which: DatabaseChoice,
        #[command(flatten)]
        format: ListFormat,
    },
    /// Create the schema, or upgrade it and its rows from any older revision, with no service running. If it is
    /// interrupted, run it again.
    #[command(after_help = "Examples:\n  berth placement db sync --dry-run\n  \
                            berth placement db sync --database file:/etc/berth/placement-database-url\n  \
                            berth placement db sync --placement-config /etc/placement/placement.conf")]
    Sync {
        #[command(flatten)]
        which: DatabaseChoice,
        /// Print what would change, without changing it.
        #[arg(long)]
        dry_run: bool,
    },
    /// Copy all rows into an empty database of any kind, with no service running on either. The source is not modified;
    /// the target is not served until all rows are copied and compared. If it is interrupted, run it again.
    #[command(
        after_help = "Examples:\n  berth placement db copy --from sqlite:/var/lib/berth/placement.sqlite --to file:/etc/berth/placement-database-url"
    )]
    Copy {
        /// The database to copy from. file:PATH reads the URL from a file.
        #[arg(long, value_name = "URL")]
        from: String,
        /// The database to copy to: on a server it must exist and be empty.
        #[arg(long, value_name = "URL")]
        to: String,
    },
}

/// Runs `berth placement db`.
///
/// Errors: the database cannot be opened, is not Placement's, differs from the schema, or a service has it open.
pub(super) async fn run(asked: &Db, config: &Config, out: &mut dyn Write) -> Result<(), Failure> {
    match asked {
        Db::Version { which, format } => show_version(&which.url(config)?, format, out).await,
        Db::Check { which, format } => check(&which.url(config)?, format, out).await,
        Db::Sync { which, dry_run } => {
            let url = which.url(config)?;
            refuse_if_open_elsewhere(&url)?;
            let planned = planned(&url).await?;
            match dry_run {
                true => show(&planned, out),
                false => upgrade(&url, config, out).await,
            }
        }
        Db::Copy { from, to } => {
            let (from, to) = (Secret::from(from.clone()), Secret::from(to.clone()));
            copy::copy_all(&from, &to, &config.state_path, out).await
        }
    }
}

async fn show_version(
    url: &Secret,
    format: &ListFormat,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    database::require_file(url)?;
    let (store, named) = database::open_any_read_only(url).await?;
    let found = match store {
        None => SchemaVersion::Empty,
        Some(store) => {
            let found = version(&store).await;
            store.close().await;
            found.map_err(|error| not_placement(&named, &error))?
        }
    };
    let (revision, is_known) = match &found {
        SchemaVersion::Empty => (None, false),
        SchemaVersion::Known(revision) => (Some(revision.id()), true),
        SchemaVersion::Unknown(id) => (Some(id.as_str()), false),
    };
    if format.is_for_people() {
        match (revision, is_known) {
            (None, _) => writeln!(
                out,
                "none; head is {HEAD}: berth placement db sync creates it"
            )?,
            (Some(HEAD), _) => writeln!(out, "{HEAD} (head)")?,
            (Some(id), true) => {
                writeln!(
                    out,
                    "{id}; head is {HEAD}: berth placement db sync upgrades it"
                )?;
            }
            (Some(id), false) => writeln!(out, "{id}; this release knows {HEAD} and older ones")?,
        }
        return Ok(());
    }
    let mut listing = Listing::new(&["revision", "head", "is_head", "is_known"]);
    listing.push([
        json!(revision),
        json!(HEAD),
        json!(revision == Some(HEAD)),
        json!(is_known),
    ]);
    listing.print(format, out)
}

async fn check(url: &Secret, format: &ListFormat, out: &mut dyn Write) -> Result<(), Failure> {
    let (store, named) = database::open_any_read_only(url).await?;
    let store = store.ok_or_else(|| {
        let what = format!("{named} does not exist, or has no tables");
        Failure::new(ErrorCode::Refused, what).hint("berth placement db sync creates it")
    })?;
    let found = compare(&store).await;
    store.close().await;
    let found = found.map_err(|error| not_placement(&named, &error))?;
    if !format.is_for_people() {
        listing(&found).print(format, out)?;
    } else if found.is_empty() {
        writeln!(out, "{named} matches schema revision {HEAD}")?;
    } else {
        write_all(&found, "", out)?;
    }
    let rows_alone = found
        .iter()
        .all(|it| matches!(it.problem, ShapeDifference::Rows(_)));
    let hint = match rows_alone {
        true => "berth placement db sync, with no service running",
        false => {
            "restore what is missing from a backup; unknown objects do no harm now, but may break the next upgrade"
        }
    };
    match found.len() {
        0 => Ok(()),
        count => {
            let what = format!("{named} differs from schema revision {HEAD}: {count} differences");
            Err(Failure::new(ErrorCode::Refused, what).hint(hint))
        }
    }
}

fn listing(found: &[Difference]) -> Listing {
    let mut listing = Listing::new(&["object", "problem", "found", "expected"]);
    for Difference { object, problem } in found {
        let (word, found, expected) = match problem {
            ShapeDifference::Missing => ("missing", Value::Null, Value::Null),
            ShapeDifference::Unknown => ("unknown", Value::Null, Value::Null),
            ShapeDifference::Other { found, expected } => ("other", json!(found), json!(expected)),
            ShapeDifference::Rows(count) => ("rows", json!(count), json!(0)),
        };
        listing.push([json!(object), json!(word), found, expected]);
    }
    listing
}

fn write_all(found: &[Difference], end: &str, out: &mut dyn Write) -> Result<(), Failure> {
    for difference in found {
        writeln!(out, "{difference}{end}")?;
    }
    Ok(())
}

/// Must run before anything of the database is changed, the journal mode of a file included.
async fn planned(url: &Secret) -> Result<SyncPlan, Failure> {
    let (store, named) = database::open_any_read_only(url).await?;
    let Some(store) = store else {
        return Ok(SyncPlan::of_nothing());
    };
    let planned = async {
        refuse_other_sessions(&store).await?;
        let planned = plan(&store).await;
        planned.map_err(|error| not_placement(&named, &error))
    };
    let planned = planned.await;
    store.close().await;
    planned
}

fn show(plan: &SyncPlan, out: &mut dyn Write) -> Result<(), Failure> {
    write_all(&plan.left, ", and would be kept", out)?;
    for step in &plan.steps {
        writeln!(out, "would {step}")?;
    }
    if plan.steps.is_empty() {
        writeln!(out, "nothing to do")?;
    }
    Ok(())
}

async fn upgrade(url: &Secret, config: &Config, out: &mut dyn Write) -> Result<(), Failure> {
    let (store, named) = database::open_any(url, &config.state_path).await?;
    let done = steps(&store, &named, config, out).await;
    store.close().await;
    done
}

async fn steps(
    store: &SqlStore,
    named: &str,
    config: &Config,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    refuse_other_sessions(store).await?;
    let service = &config.placement_service;
    let owners = IncompleteConsumers {
        project_id: service.incomplete_consumer_project_id.clone(),
        user_id: service.incomplete_consumer_user_id.clone(),
    };
    let begun = sync(store, owners).await;
    let mut sync = begun.map_err(|error| not_placement(named, &error))?;
    write_all(&sync.left, ", and is kept", out)?;
    let mut is_idle = true;
    loop {
        let done = sync.step().await;
        let Some(step) = done.map_err(|error| not_placement(named, &error))? else {
            break;
        };
        writeln!(out, "done: {step}")?;
        out.flush()?;
        is_idle = false;
    }
    if is_idle {
        writeln!(out, "nothing to do")?;
    }
    Ok(())
}
