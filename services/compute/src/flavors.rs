//! Flavors: how large guests may be, what else they ask of their hosts, and whose they are.
//!
//! A guest keeps what its flavor was when it was asked for; a flavor that is changed or removed changes no guest.

mod access;
mod error;
mod extra_specs;
mod listing;
mod rows;

use std::collections::{BTreeMap, BTreeSet};

use berth_store::{Moment, Statement, Transaction, Work};

pub use error::FlavorError;
pub(crate) use listing::{Order, Publicity, Select, SortKey};

use crate::compute::Compute;

/// A flavor that is to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct NewFlavor {
    /// Its id in the API, 1 to 255 characters; no other flavor's.
    pub flavorid: String,
    /// Its name, 1 to 255 characters; no other flavor's.
    pub name: String,
    pub memory_mb: i64,
    pub vcpus: i64,
    /// The root disk in GiB; 0: as large as its image.
    pub root_gb: i64,
    /// The ephemeral disk in GiB; 0: none.
    pub ephemeral_gb: i64,
    /// Swap in MiB; 0: none.
    pub swap: i64,
    /// Kept and shown; nothing goes by it.
    pub rxtx_factor: f64,
    /// Whether all projects may use it.
    pub is_public: bool,
    /// What its maker says of it.
    pub description: Option<String>,
}

/// A flavor as it is in the database at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Flavor {
    /// Another number for each flavor there ever was.
    pub(crate) id: i64,
    /// What its maker said.
    pub made: NewFlavor,
    /// What else it asks of a host.
    pub extra_specs: BTreeMap<String, String>,
    /// The projects that may use it where it is not public.
    pub projects: BTreeSet<String>,
    /// When it was made, by the database's clock.
    pub created_at: Moment,
    /// When it was changed last.
    pub updated_at: Option<Moment>,
}

impl Flavor {
    /// Whether a project may use it.
    #[must_use]
    pub fn is_for(&self, project_id: Option<&str>) -> bool {
        self.made.is_public || project_id.is_some_and(|project| self.projects.contains(project))
    }
}

impl Compute {
    pub async fn create_flavor(&self, flavor: NewFlavor) -> Result<Flavor, FlavorError> {
        self.tables.write(&Create(flavor)).await
    }

    /// All flavors, in the order in which they were made.
    pub async fn flavors(&self) -> Result<Vec<Flavor>, FlavorError> {
        let mut tx = self.tables.read().await?;
        Ok(rows::read(&mut tx, None).await?)
    }

    /// A flavor, by its id in the API.
    pub async fn flavor(&self, flavorid: &str) -> Result<Flavor, FlavorError> {
        rows::one(&mut self.tables.read().await?, flavorid).await
    }

    /// Says something else of a flavor, or nothing.
    pub async fn describe_flavor(
        &self,
        flavorid: &str,
        description: Option<String>,
    ) -> Result<Flavor, FlavorError> {
        let flavorid = flavorid.to_owned();
        self.tables
            .write(&Describe {
                flavorid,
                description,
            })
            .await
    }

    /// Removes a flavor. Guests of it stay what they are.
    pub async fn delete_flavor(&self, flavorid: &str) -> Result<(), FlavorError> {
        self.tables.write(&Delete(flavorid.to_owned())).await
    }
}

struct Create(NewFlavor);

impl Work for Create {
    type Output = Flavor;
    type Error = FlavorError;

    async fn run(&self, tx: &mut Transaction) -> Result<Flavor, FlavorError> {
        let flavor = &self.0;
        let of_name = "SELECT id FROM compute_flavors WHERE name = ?";
        if tx
            .row(Statement::new(of_name).bind(&flavor.name))
            .await?
            .is_some()
        {
            return Err(FlavorError::NameExists {
                name: flavor.name.clone(),
            });
        }
        let of_id = "SELECT id FROM compute_flavors WHERE flavorid = ?";
        if tx
            .row(Statement::new(of_id).bind(&flavor.flavorid))
            .await?
            .is_some()
        {
            return Err(FlavorError::IdExists {
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
            // Its shortest form, however small it is.
            .bind(format!("{:e}", flavor.rxtx_factor))
            .bind(i64::from(flavor.is_public))
            .bind(flavor.description.clone());
        tx.execute(insert).await?;
        rows::one(tx, &flavor.flavorid).await
    }
}

struct Describe {
    flavorid: String,
    description: Option<String>,
}

impl Work for Describe {
    type Output = Flavor;
    type Error = FlavorError;

    async fn run(&self, tx: &mut Transaction) -> Result<Flavor, FlavorError> {
        rows::touch(tx, &self.flavorid).await?;
        let sql = "UPDATE compute_flavors SET description = ? WHERE flavorid = ?";
        let set = Statement::new(sql).bind(self.description.clone());
        tx.execute(set.bind(&self.flavorid)).await?;
        rows::one(tx, &self.flavorid).await
    }
}

struct Delete(String);

impl Work for Delete {
    type Output = ();
    type Error = FlavorError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), FlavorError> {
        let flavor = rows::touch(tx, &self.0).await?;
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
