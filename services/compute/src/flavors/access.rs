//! Access lists of flavors: which projects may use a flavor that is not public.

use std::collections::BTreeSet;

use berth_store::{Statement, Transaction, Work};

use super::{ComputeFlavor, ComputeFlavorError, rows};
use crate::compute::Compute;

impl Compute {
    /// Adds a project to the access list. Returns the changed list.
    pub async fn add_flavor_access(
        &self,
        flavorid: &str,
        project_id: &str,
    ) -> Result<BTreeSet<String>, ComputeFlavorError> {
        self.change(flavorid, project_id, AccessChange::Add).await
    }

    /// Removes a project from the access list. Returns the changed list.
    pub async fn remove_flavor_access(
        &self,
        flavorid: &str,
        project_id: &str,
    ) -> Result<BTreeSet<String>, ComputeFlavorError> {
        self.change(flavorid, project_id, AccessChange::Remove)
            .await
    }

    async fn change(
        &self,
        flavorid: &str,
        project_id: &str,
        change: AccessChange,
    ) -> Result<BTreeSet<String>, ComputeFlavorError> {
        let work = FlavorAccess {
            flavorid: flavorid.to_owned(),
            project_id: project_id.to_owned(),
            change,
        };
        self.tables.write(&work).await
    }
}

#[derive(Clone, Copy)]
enum AccessChange {
    Add,
    Remove,
}

struct FlavorAccess {
    flavorid: String,
    project_id: String,
    change: AccessChange,
}

impl FlavorAccess {
    /// Checks that the change is possible.
    fn check(&self, flavor: &ComputeFlavor) -> Result<(), ComputeFlavorError> {
        let (flavorid, project_id) = (self.flavorid.clone(), self.project_id.clone());
        let listed = flavor.projects.contains(&project_id);
        match self.change {
            AccessChange::Add if flavor.properties.is_public => Err(ComputeFlavorError::Public),
            AccessChange::Add if listed => Err(ComputeFlavorError::AccessExists {
                flavorid,
                project_id,
            }),
            AccessChange::Remove if !listed => Err(ComputeFlavorError::AccessNotFound {
                flavorid,
                project_id,
            }),
            AccessChange::Add | AccessChange::Remove => Ok(()),
        }
    }
}

impl Work for FlavorAccess {
    type Output = BTreeSet<String>;
    type Error = ComputeFlavorError;

    async fn run(&self, tx: &mut Transaction) -> Result<BTreeSet<String>, ComputeFlavorError> {
        let flavor = rows::lock(tx, &self.flavorid).await?;
        self.check(&flavor)?;
        let sql = match self.change {
            AccessChange::Add => {
                "INSERT INTO compute_flavor_projects (flavor_id, project_id) VALUES (?, ?)"
            }
            AccessChange::Remove => {
                "DELETE FROM compute_flavor_projects WHERE flavor_id = ? AND project_id = ?"
            }
        };
        let change = Statement::new(sql).bind(flavor.id).bind(&self.project_id);
        tx.execute(change).await?;
        Ok(rows::find(tx, &self.flavorid).await?.projects)
    }
}
