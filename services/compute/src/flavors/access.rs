//! Which projects may use a flavor that is not public.

use std::collections::BTreeSet;

use berth_store::{Statement, Transaction, Work};

use super::{Flavor, FlavorError, rows};
use crate::compute::Compute;

impl Compute {
    /// Lets a project use a flavor; the projects that may use it then.
    pub async fn add_flavor_access(
        &self,
        flavorid: &str,
        project_id: &str,
    ) -> Result<BTreeSet<String>, FlavorError> {
        self.change(flavorid, project_id, Change::Add).await
    }

    /// Lets a project not use a flavor any more; the projects that may use it then.
    pub async fn remove_flavor_access(
        &self,
        flavorid: &str,
        project_id: &str,
    ) -> Result<BTreeSet<String>, FlavorError> {
        self.change(flavorid, project_id, Change::Remove).await
    }

    async fn change(
        &self,
        flavorid: &str,
        project_id: &str,
        change: Change,
    ) -> Result<BTreeSet<String>, FlavorError> {
        let work = Access {
            flavorid: flavorid.to_owned(),
            project_id: project_id.to_owned(),
            change,
        };
        self.tables.write(&work).await
    }
}

#[derive(Clone, Copy)]
enum Change {
    Add,
    Remove,
}

struct Access {
    flavorid: String,
    project_id: String,
    change: Change,
}

impl Access {
    /// Whether the flavor's list can be changed so.
    fn check(&self, flavor: &Flavor) -> Result<(), FlavorError> {
        let (flavorid, project_id) = (self.flavorid.clone(), self.project_id.clone());
        let listed = flavor.projects.contains(&project_id);
        match self.change {
            Change::Add if flavor.made.is_public => Err(FlavorError::Public),
            Change::Add if listed => Err(FlavorError::AccessExists {
                flavorid,
                project_id,
            }),
            Change::Remove if !listed => Err(FlavorError::AccessNotFound {
                flavorid,
                project_id,
            }),
            Change::Add | Change::Remove => Ok(()),
        }
    }
}

impl Work for Access {
    type Output = BTreeSet<String>;
    type Error = FlavorError;

    async fn run(&self, tx: &mut Transaction) -> Result<BTreeSet<String>, FlavorError> {
        let flavor = rows::touch(tx, &self.flavorid).await?;
        self.check(&flavor)?;
        let sql = match self.change {
            Change::Add => {
                "INSERT INTO compute_flavor_projects (flavor_id, project_id) VALUES (?, ?)"
            }
            Change::Remove => {
                "DELETE FROM compute_flavor_projects WHERE flavor_id = ? AND project_id = ?"
            }
        };
        let change = Statement::new(sql).bind(flavor.id).bind(&self.project_id);
        tx.execute(change).await?;
        Ok(rows::one(tx, &self.flavorid).await?.projects)
    }
}
