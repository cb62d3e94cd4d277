//! What else a flavor asks of a host, key by key.

use std::collections::BTreeMap;

use berth_store::{Statement, Transaction, Work};

use super::{FlavorError, rows};
use crate::compute::Compute;

/// A guest's flavor has at most so many.
const MOST: usize = 256;

impl Compute {
    /// Gives a flavor extra specs; those of the same keys are replaced, others stay.
    pub async fn set_extra_specs(
        &self,
        flavorid: &str,
        specs: BTreeMap<String, String>,
    ) -> Result<(), FlavorError> {
        let flavorid = flavorid.to_owned();
        self.tables.write(&Set { flavorid, specs }).await
    }

    /// Takes an extra spec from a flavor.
    pub async fn delete_extra_spec(&self, flavorid: &str, key: &str) -> Result<(), FlavorError> {
        let work = Delete {
            flavorid: flavorid.to_owned(),
            key: key.to_owned(),
        };
        self.tables.write(&work).await
    }
}

struct Set {
    flavorid: String,
    specs: BTreeMap<String, String>,
}

impl Work for Set {
    type Output = ();
    type Error = FlavorError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), FlavorError> {
        let mut flavor = rows::touch(tx, &self.flavorid).await?;
        for (key, setting) in &self.specs {
            remove(tx, flavor.id, key).await?;
            let sql = "INSERT INTO compute_flavor_extra_specs (flavor_id, spec, setting) VALUES (?, ?, ?)";
            let insert = Statement::new(sql).bind(flavor.id).bind(key).bind(setting);
            tx.execute(insert).await?;
        }
        flavor.extra_specs.extend(self.specs.clone());
        if flavor.extra_specs.len() > MOST {
            return Err(FlavorError::ManyExtraSpecs {
                flavorid: self.flavorid.clone(),
                most: MOST,
            });
        }
        Ok(())
    }
}

struct Delete {
    flavorid: String,
    key: String,
}

impl Work for Delete {
    type Output = ();
    type Error = FlavorError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), FlavorError> {
        let flavor = rows::touch(tx, &self.flavorid).await?;
        if remove(tx, flavor.id, &self.key).await? {
            return Ok(());
        }
        Err(FlavorError::NoExtraSpec {
            flavorid: self.flavorid.clone(),
            key: self.key.clone(),
        })
    }
}

/// Whether it was there.
async fn remove(tx: &mut Transaction, flavor: i64, key: &str) -> Result<bool, FlavorError> {
    let sql = "DELETE FROM compute_flavor_extra_specs WHERE flavor_id = ? AND spec = ?";
    let done = tx
        .execute(Statement::new(sql).bind(flavor).bind(key))
        .await?;
    Ok(done.rows_affected > 0)
}
