//! Flavors: the sizes of guests, further requirements on their hosts (extra specs), and the projects that may use them.
//!
//! A guest stores its flavor as it was when the guest was created. Changing or deleting a flavor changes no guest.

mod access;
mod error;
mod extra_specs;
mod listing;
mod rows;

use std::collections::{BTreeMap, BTreeSet};

use berth_store::{SqlTimestamp, Statement, Transaction, Work};

pub use error::ComputeFlavorError;
pub(crate) use listing::{FlavorQuery, FlavorSortKey, Publicity, SortDirection};

use crate::compute::Compute;

/// A flavor to be created: the columns of Nova's `flavors` table that a request sets, with their types.
#[derive(Debug, Clone, PartialEq)]
pub struct NewFlavor {
    /// The id in the API, 1 to 255 characters, unique.
    pub flavorid: String,
    /// 1 to 255 characters, unique.
    pub name: String,
    pub memory_mb: i64,
    pub vcpus: i64,
    /// Root disk in GiB. 0: as large as the image.
    pub root_gb: i64,
    /// Ephemeral disk in GiB. 0: none.
    pub ephemeral_gb: i64,
    /// Swap in MiB. 0: none.
    pub swap: i64,
    /// Stored and shown, but without effect.
    pub rxtx_factor: f64,
    /// Whether all projects may use it.
    pub is_public: bool,
    pub description: Option<String>,
}

/// A flavor as the database has it. A server is created with a [`ServerFlavor`](crate::ServerFlavor) that is made of it;
/// sizes become unsigned then.
#[derive(Debug, Clone, PartialEq)]
pub struct ComputeFlavor {
    /// The row number, never reused.
    pub(crate) id: i64,
    /// The values given at creation.
    pub properties: NewFlavor,
    /// Further requirements on the host.
    pub extra_specs: BTreeMap<String, String>,
    /// The projects that may use the flavor if it is not public.
    pub projects: BTreeSet<String>,
    pub created_at: SqlTimestamp,
    pub updated_at: Option<SqlTimestamp>,
}

impl ComputeFlavor {
    /// Whether a project may use the flavor.
    #[must_use]
    pub fn is_for(&self, project_id: Option<&str>) -> bool {
        self.properties.is_public
            || project_id.is_some_and(|project| self.projects.contains(project))
    }
}

impl Compute {
    pub async fn create_flavor(
        &self,
        flavor: NewFlavor,
    ) -> Result<ComputeFlavor, ComputeFlavorError> {
        self.tables.write(&InsertFlavor(flavor)).await
    }

    /// All flavors, in the order of their creation.
    pub async fn flavors(&self) -> Result<Vec<ComputeFlavor>, ComputeFlavorError> {
        let mut tx = self.tables.read().await?;
        Ok(rows::list(&mut tx, None).await?)
    }

    /// Finds a flavor by its id in the API.
    pub async fn flavor(&self, flavorid: &str) -> Result<ComputeFlavor, ComputeFlavorError> {
        rows::find(&mut self.tables.read().await?, flavorid).await
    }

    /// Sets or removes the description of a flavor.
    pub async fn describe_flavor(
        &self,
        flavorid: &str,
        description: Option<String>,
    ) -> Result<ComputeFlavor, ComputeFlavorError> {
        let flavorid = flavorid.to_owned();
        self.tables
            .write(&DescribeFlavor {
                flavorid,
                description,
            })
            .await
    }

    /// Deletes a flavor. Existing guests are not affected.
    pub async fn delete_flavor(&self, flavorid: &str) -> Result<(), ComputeFlavorError> {
        self.tables.write(&DeleteFlavor(flavorid.to_owned())).await
    }
}

struct InsertFlavor(NewFlavor);

impl Work for InsertFlavor {
    type Output = ComputeFlavor;
    type Error = ComputeFlavorError;

    async fn run(&self, tx: &mut Transaction) -> Result<ComputeFlavor, ComputeFlavorError> {
        let flavor = &self.0;
        let of_name = "SELECT id FROM compute_flavors WHERE name = ?";
        if tx
            .row(Statement::new(of_name).bind(&flavor.name))
            .await?
            .is_some()
        {
            return Err(ComputeFlavorError::NameExists {
                name: flavor.name.clone(),
            });
        }
        let of_id = "SELECT id FROM compute_flavors WHERE flavorid = ?";
        if tx
            .row(Statement::new(of_id).bind(&flavor.flavorid))
            .await?
            .is_some()
        {
            return Err(ComputeFlavorError::IdExists {
                flavorid: flavor.flavorid.clone(),
            });
        }
        let sql = format!(
            "INSERT INTO compute_flavors (flavorid, name, memory_mb, vcpus, root_gb, ephemeral_gb, swap, rxtx_factor, is_public, \
             description, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, {})",
            tx.dialect().now()
        );
        let insert = Statement::recurring(sql)
            .bind(&flavor.flavorid)
            .bind(&flavor.name)
            .bind(flavor.memory_mb)
            .bind(flavor.vcpus)
            .bind(flavor.root_gb)
            .bind(flavor.ephemeral_gb)
            .bind(flavor.swap)
            // The shortest representation that parses to the same value.
            .bind(format!("{:e}", flavor.rxtx_factor))
            .bind(i64::from(flavor.is_public))
            .bind(flavor.description.clone());
        tx.execute(insert).await?;
        rows::find(tx, &flavor.flavorid).await
    }
}

struct DescribeFlavor {
    flavorid: String,
    description: Option<String>,
}

impl Work for DescribeFlavor {
    type Output = ComputeFlavor;
    type Error = ComputeFlavorError;

    async fn run(&self, tx: &mut Transaction) -> Result<ComputeFlavor, ComputeFlavorError> {
        rows::lock(tx, &self.flavorid).await?;
        let sql = "UPDATE compute_flavors SET description = ? WHERE flavorid = ?";
        let set = Statement::new(sql).bind(self.description.clone());
        tx.execute(set.bind(&self.flavorid)).await?;
        rows::find(tx, &self.flavorid).await
    }
}

struct DeleteFlavor(String);

impl Work for DeleteFlavor {
    type Output = ();
    type Error = ComputeFlavorError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ComputeFlavorError> {
        let flavor = rows::lock(tx, &self.0).await?;
        for sql in [
            "DELETE FROM compute_flavor_extra_specs WHERE flavor_id = ?",
            "DELETE FROM compute_flavor_projects WHERE flavor_id = ?",
            "DELETE FROM compute_flavors WHERE id = ?",
        ] {
            tx.execute(Statement::new(sql).bind(flavor.id)).await?;
        }
        Ok(())
    }
}
