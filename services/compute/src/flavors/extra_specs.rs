//! Extra specs: key-value requirements of a flavor on the host.

use std::collections::BTreeMap;

use berth_store::{Statement, Transaction, Work};

use super::{ComputeFlavorError, rows};
use crate::compute::Compute;

/// The maximum number of extra specs of a guest's flavor.
const MOST: usize = 256;

impl Compute {
    /// Sets extra specs. Other keys are not changed.
    pub async fn set_extra_specs(
        &self,
        flavorid: &str,
        specs: BTreeMap<String, String>,
    ) -> Result<(), ComputeFlavorError> {
        let flavorid = flavorid.to_owned();
        self.tables.write(&SetExtraSpecs { flavorid, specs }).await
    }

    /// Deletes an extra spec.
    pub async fn delete_extra_spec(
        &self,
        flavorid: &str,
        key: &str,
    ) -> Result<(), ComputeFlavorError> {
        let work = DeleteExtraSpec {
            flavorid: flavorid.to_owned(),
            key: key.to_owned(),
        };
        self.tables.write(&work).await
    }
}

struct SetExtraSpecs {
    flavorid: String,
    specs: BTreeMap<String, String>,
}

impl Work for SetExtraSpecs {
    type Output = ();
    type Error = ComputeFlavorError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ComputeFlavorError> {
        let mut flavor = rows::lock(tx, &self.flavorid).await?;
        for (key, setting) in &self.specs {
            remove(tx, flavor.id, key).await?;
            let sql = "INSERT INTO compute_flavor_extra_specs (flavor_id, spec, setting) VALUES (?, ?, ?)";
            let insert = Statement::new(sql).bind(flavor.id).bind(key).bind(setting);
            tx.execute(insert).await?;
        }
        flavor.extra_specs.extend(self.specs.clone());
        if flavor.extra_specs.len() > MOST {
            return Err(ComputeFlavorError::ManyExtraSpecs {
                flavorid: self.flavorid.clone(),
                most: MOST,
            });
        }
        Ok(())
    }
}

struct DeleteExtraSpec {
    flavorid: String,
    key: String,
}

impl Work for DeleteExtraSpec {
    type Output = ();
    type Error = ComputeFlavorError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ComputeFlavorError> {
        let flavor = rows::lock(tx, &self.flavorid).await?;
        if remove(tx, flavor.id, &self.key).await? {
            return Ok(());
        }
        Err(ComputeFlavorError::NoExtraSpec {
            flavorid: self.flavorid.clone(),
            key: self.key.clone(),
        })
    }
}

/// Deletes an extra spec. Returns whether it existed.
async fn remove(tx: &mut Transaction, flavor: i64, key: &str) -> Result<bool, ComputeFlavorError> {
    let sql = "DELETE FROM compute_flavor_extra_specs WHERE flavor_id = ? AND spec = ?";
    let done = tx
        .execute(Statement::new(sql).bind(flavor).bind(key))
        .await?;
    Ok(done.rows_affected > 0)
}
