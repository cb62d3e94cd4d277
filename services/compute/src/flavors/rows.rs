//! Reads flavors from the database.

use std::collections::{BTreeMap, BTreeSet};

use berth_store::{Row, Statement, Transaction};

use super::{ComputeFlavor, ComputeFlavorError, NewFlavor};
use crate::store::{ComputeTableError, typed};

const COLUMNS: &str = "f.id, f.flavorid, f.name, f.memory_mb, f.vcpus, f.root_gb, f.ephemeral_gb, f.swap, f.rxtx_factor, \
                       f.is_public, f.description, f.created_at, f.updated_at";

/// Reads a flavor by its id in the API.
pub(super) async fn find(
    tx: &mut Transaction,
    flavorid: &str,
) -> Result<ComputeFlavor, ComputeFlavorError> {
    let found = list(tx, Some(flavorid)).await?.pop();
    found.ok_or_else(|| not_found(flavorid))
}

/// Reads a flavor for a change. The update comes first, so that concurrent writers of this row are serialised.
pub(super) async fn lock(
    tx: &mut Transaction,
    flavorid: &str,
) -> Result<ComputeFlavor, ComputeFlavorError> {
    let now = tx.dialect().now();
    let sql = format!("UPDATE compute_flavors SET updated_at = {now} WHERE flavorid = ?");
    let touched = tx.execute(Statement::recurring(sql).bind(flavorid)).await?;
    if touched.rows_affected == 0 {
        return Err(not_found(flavorid));
    }
    find(tx, flavorid).await
}

fn not_found(flavorid: &str) -> ComputeFlavorError {
    ComputeFlavorError::NotFound {
        flavorid: flavorid.to_owned(),
    }
}

/// Reads one flavor, or all in the order of their creation.
pub(super) async fn list(
    tx: &mut Transaction,
    flavorid: Option<&str>,
) -> Result<Vec<ComputeFlavor>, ComputeTableError> {
    let only = flavorid.map_or("", |_| "WHERE f.flavorid = ?");
    let of_flavors = format!("SELECT {COLUMNS} FROM compute_flavors f {only} ORDER BY f.id");
    let flavors = Statement::recurring(of_flavors).bind_all(flavorid);
    let flavors = tx.rows(flavors).await?;
    let of_specs = format!(
        "SELECT s.flavor_id, s.spec, s.setting FROM compute_flavor_extra_specs s \
         JOIN compute_flavors f ON f.id = s.flavor_id {only}"
    );
    let mut specs: BTreeMap<i64, BTreeMap<String, String>> = BTreeMap::new();
    let statement = Statement::recurring(of_specs).bind_all(flavorid);
    for row in tx.rows(statement).await? {
        let of_flavor = specs.entry(row.int(0)?).or_default();
        of_flavor.insert(row.text(1)?, row.text(2)?);
    }
    let of_projects = format!(
        "SELECT p.flavor_id, p.project_id FROM compute_flavor_projects p \
         JOIN compute_flavors f ON f.id = p.flavor_id {only}"
    );
    let mut projects: BTreeMap<i64, BTreeSet<String>> = BTreeMap::new();
    let statement = Statement::recurring(of_projects).bind_all(flavorid);
    for row in tx.rows(statement).await? {
        projects
            .entry(row.int(0)?)
            .or_default()
            .insert(row.text(1)?);
    }
    let flavor = |row: &Row| -> Result<ComputeFlavor, ComputeTableError> {
        let id = row.int(0)?;
        Ok(ComputeFlavor {
            id,
            properties: properties(row)?,
            extra_specs: specs.remove(&id).unwrap_or_default(),
            projects: projects.remove(&id).unwrap_or_default(),
            created_at: row.moment(11)?,
            updated_at: row.opt_moment(12)?,
        })
    };
    flavors.iter().map(flavor).collect()
}

fn properties(row: &Row) -> Result<NewFlavor, ComputeTableError> {
    Ok(NewFlavor {
        flavorid: row.text(1)?,
        name: row.text(2)?,
        memory_mb: row.int(3)?,
        vcpus: row.int(4)?,
        root_gb: row.int(5)?,
        ephemeral_gb: row.int(6)?,
        swap: row.int(7)?,
        rxtx_factor: typed(&row.text(8)?, "compute_flavors", "rxtx_factor")?,
        is_public: row.int(9)? != 0,
        description: row.opt_text(10)?,
    })
}
