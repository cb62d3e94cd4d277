//! The table of projects' own limits, and the rows that serialise the writers of a project.
//!
//! Usage is counted from the rows themselves, in the same transaction. Writers of one project are serialised by its row
//! in `compute_quota_locks`. `berth_quota` decides what the limits allow.

use std::collections::BTreeSet;

use berth_quota::{QuotaLimit, QuotaLimits, QuotaResource};
use berth_store::{Disposition, Retryable, SqlError, Statement, Transaction, Work};

use crate::compute::Compute;
use crate::servers::{ServerError, used_in};
use crate::store::{ComputeTableError, typed};

const TABLE: &str = "compute_quotas";

/// Whose rows are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuotaHolder<'a> {
    Project(&'a str),
    User(&'a str),
}

impl QuotaHolder<'_> {
    fn key(self) -> String {
        match self {
            Self::Project(id) => format!("project:{id}"),
            Self::User(id) => format!("user:{id}"),
        }
    }
}

/// Serialises the transactions that count the rows of a holder and then add to them: the next one waits, and sees what
/// this one wrote. Returns the number of this transaction, which tells whether another one came in between.
pub(crate) async fn lock(tx: &mut Transaction, holder: QuotaHolder<'_>) -> Result<i64, SqlError> {
    let key = holder.key();
    let sql = "UPDATE compute_quota_locks SET generation = generation + 1 WHERE holder = ?";
    let raise = Statement::new(sql).bind(&key);
    if tx.execute(raise).await?.rows_affected == 0 {
        // Of two at once, one gets a duplicate key and runs again.
        let sql = "INSERT INTO compute_quota_locks (holder, generation) VALUES (?, 1)";
        tx.execute(Statement::new(sql).bind(&key)).await?;
    }
    generation(tx, holder).await
}

/// The number of the last transaction that added to the rows of a holder.
pub(crate) async fn generation(
    tx: &mut Transaction,
    holder: QuotaHolder<'_>,
) -> Result<i64, SqlError> {
    let sql = "SELECT generation FROM compute_quota_locks WHERE holder = ?";
    let row = tx.row(Statement::new(sql).bind(holder.key())).await?;
    row.map_or(Ok(0), |row| row.int(0))
}

/// The limits of a project: its own, and the defaults for everything else.
pub(crate) async fn limits_of(
    tx: &mut Transaction,
    defaults: &QuotaLimits,
    project: &str,
) -> Result<QuotaLimits, ComputeTableError> {
    let sql = format!("SELECT resource, hard_limit FROM {TABLE} WHERE project_id = ?");
    let mut limits = defaults.clone();
    for row in tx.rows(Statement::recurring(sql).bind(project)).await? {
        let resource: QuotaResource = typed(&row.text(0)?, TABLE, "resource")?;
        limits = limits.with(resource, QuotaLimit::from_number(row.int(1)?));
    }
    Ok(limits)
}

/// New limits of a project.
#[derive(Debug, Clone)]
pub(crate) struct QuotaChange<'a> {
    pub(crate) project: &'a str,
    pub(crate) limits: &'a [(QuotaResource, QuotaLimit)],
    /// The number of the project's server groups, which another database has.
    pub(crate) server_groups: u64,
    pub(crate) check: UsageCheck,
}

/// Whether a limit may be less than what is used already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UsageCheck {
    Required,
    /// Nova's `force`.
    Forced,
}

/// A limit of a project's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectQuota {
    pub project_id: String,
    pub resource: QuotaResource,
    pub limit: QuotaLimit,
}

/// Why limits of projects could not be changed one by one.
#[derive(Debug, thiserror::Error)]
pub enum ProjectQuotaError {
    #[error("The project has a quota for {resource} already.")]
    Exists { resource: QuotaResource },
    #[error("The project has no such quota.")]
    NotFound,
    #[error("Quota limit {limit} for {resource} must be from 0 to {most}.")]
    TooLarge {
        resource: QuotaResource,
        limit: i64,
        most: i64,
    },
    #[error(transparent)]
    Table(#[from] ComputeTableError),
}

impl From<SqlError> for ProjectQuotaError {
    fn from(error: SqlError) -> Self {
        Self::Table(error.into())
    }
}

impl Retryable for ProjectQuotaError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Table(error) => error.disposition(),
            Self::Exists { .. } | Self::NotFound | Self::TooLarge { .. } => Disposition::Fatal,
        }
    }
}

impl Compute {
    /// The limits of projects without limits of their own.
    #[must_use]
    pub fn quota_defaults(&self) -> &QuotaLimits {
        &self.inner.options.quotas
    }

    /// The own limits of all projects, by project and resource.
    pub async fn project_quotas(&self) -> Result<Vec<ProjectQuota>, ComputeTableError> {
        let mut tx = self.tables.read().await?;
        let sql = format!(
            "SELECT project_id, resource, hard_limit FROM {TABLE} ORDER BY project_id, resource"
        );
        let rows = tx.rows(Statement::recurring(sql)).await?.into_iter();
        rows.map(|row| {
            Ok(ProjectQuota {
                project_id: row.text(0)?,
                resource: typed(&row.text(1)?, TABLE, "resource")?,
                limit: QuotaLimit::from_number(row.int(2)?),
            })
        })
        .collect()
    }

    /// Stores new limits of projects, all or none. Usage is not checked, as in unified limits.
    pub async fn create_quotas(&self, new: &[ProjectQuota]) -> Result<(), ProjectQuotaError> {
        self.tables.write(&CreateQuotas(new)).await
    }

    /// Changes a limit of a project's own. Usage is not checked.
    pub async fn update_quota(&self, quota: &ProjectQuota) -> Result<(), ProjectQuotaError> {
        self.tables.write(&UpdateQuota(quota)).await
    }

    /// Deletes a limit of a project's own: the default applies again.
    pub async fn delete_quota(
        &self,
        project_id: &str,
        resource: &QuotaResource,
    ) -> Result<(), ProjectQuotaError> {
        let work = DeleteQuota {
            project_id,
            resource,
        };
        self.tables.write(&work).await
    }

    /// The limits of a project.
    pub(crate) async fn quota_limits(&self, project: &str) -> Result<QuotaLimits, ServerError> {
        let mut tx = self.tables.read().await?;
        Ok(limits_of(&mut tx, &self.inner.options.quotas, project).await?)
    }

    /// Sets limits of a project. Returns all of its limits.
    pub(crate) async fn set_quotas(
        &self,
        change: QuotaChange<'_>,
    ) -> Result<QuotaLimits, ServerError> {
        let defaults = &self.inner.options.quotas;
        self.tables.write(&SetQuotas { change, defaults }).await
    }

    /// Deletes a project's own limits: the defaults apply again.
    pub(crate) async fn delete_quotas(&self, project: &str) -> Result<(), ServerError> {
        self.tables.write(&DeleteQuotas(project)).await
    }
}

struct SetQuotas<'a> {
    change: QuotaChange<'a>,
    defaults: &'a QuotaLimits,
}

impl Work for SetQuotas<'_> {
    type Output = QuotaLimits;
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<QuotaLimits, ServerError> {
        let QuotaChange {
            project,
            limits,
            server_groups,
            check,
        } = &self.change;
        lock(tx, QuotaHolder::Project(project)).await?;
        let used = used_in(tx, project).await?;
        for (resource, limit) in *limits {
            let in_use = match resource {
                QuotaResource::ServerGroups => *server_groups,
                other => used.of(other),
            };
            let most = resource.largest_limit();
            if *limit > most {
                return Err(ServerError::LargeQuota {
                    resource: resource.clone(),
                    limit: limit.number(),
                    most: most.number(),
                });
            }
            if *check == UsageCheck::Required && !limit.allows(in_use) {
                return Err(ServerError::SmallQuota {
                    resource: resource.clone(),
                    limit: limit.number(),
                    in_use,
                });
            }
        }
        for (resource, limit) in *limits {
            set(tx, project, resource, *limit).await?;
        }
        Ok(limits_of(tx, self.defaults, project).await?)
    }
}

/// Stores a limit, or replaces it.
async fn set(
    tx: &mut Transaction,
    project: &str,
    resource: &QuotaResource,
    limit: QuotaLimit,
) -> Result<(), SqlError> {
    let columns = "project_id, resource, hard_limit";
    let tail = tx
        .dialect()
        .or_update(&["project_id", "resource"], &["hard_limit"]);
    let sql = format!("INSERT INTO {TABLE} ({columns}) VALUES (?, ?, ?){tail}");
    let set = Statement::new(sql)
        .bind(project)
        .bind(resource.to_string())
        .bind(limit.number());
    tx.execute(set).await.map(drop)
}

/// Whether the project has this limit of its own.
async fn has(
    tx: &mut Transaction,
    project: &str,
    resource: &QuotaResource,
) -> Result<bool, SqlError> {
    let sql = format!("SELECT hard_limit FROM {TABLE} WHERE project_id = ? AND resource = ?");
    let get = Statement::new(sql).bind(project).bind(resource.to_string());
    Ok(tx.row(get).await?.is_some())
}

fn check_size(quota: &ProjectQuota) -> Result<(), ProjectQuotaError> {
    let most = quota.resource.largest_limit();
    if quota.limit <= most {
        return Ok(());
    }
    Err(ProjectQuotaError::TooLarge {
        resource: quota.resource.clone(),
        limit: quota.limit.number(),
        most: most.number(),
    })
}

struct CreateQuotas<'a>(&'a [ProjectQuota]);

impl Work for CreateQuotas<'_> {
    type Output = ();
    type Error = ProjectQuotaError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ProjectQuotaError> {
        // Always in the same order, so that two transactions do not wait for each other.
        let projects: BTreeSet<&str> = self.0.iter().map(|it| it.project_id.as_str()).collect();
        for project in projects {
            lock(tx, QuotaHolder::Project(project)).await?;
        }
        for quota in self.0 {
            check_size(quota)?;
            let ProjectQuota {
                project_id,
                resource,
                limit,
            } = quota;
            if has(tx, project_id, resource).await? {
                return Err(ProjectQuotaError::Exists {
                    resource: resource.clone(),
                });
            }
            set(tx, project_id, resource, *limit).await?;
        }
        Ok(())
    }
}

struct UpdateQuota<'a>(&'a ProjectQuota);

impl Work for UpdateQuota<'_> {
    type Output = ();
    type Error = ProjectQuotaError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ProjectQuotaError> {
        let ProjectQuota {
            project_id,
            resource,
            limit,
        } = self.0;
        check_size(self.0)?;
        lock(tx, QuotaHolder::Project(project_id)).await?;
        if !has(tx, project_id, resource).await? {
            return Err(ProjectQuotaError::NotFound);
        }
        Ok(set(tx, project_id, resource, *limit).await?)
    }
}

struct DeleteQuota<'a> {
    project_id: &'a str,
    resource: &'a QuotaResource,
}

impl Work for DeleteQuota<'_> {
    type Output = ();
    type Error = ProjectQuotaError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ProjectQuotaError> {
        let sql = format!("DELETE FROM {TABLE} WHERE project_id = ? AND resource = ?");
        let delete = Statement::new(sql)
            .bind(self.project_id)
            .bind(self.resource.to_string());
        match tx.execute(delete).await?.rows_affected {
            0 => Err(ProjectQuotaError::NotFound),
            _ => Ok(()),
        }
    }
}

struct DeleteQuotas<'a>(&'a str);

impl Work for DeleteQuotas<'_> {
    type Output = ();
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ServerError> {
        let sql = format!("DELETE FROM {TABLE} WHERE project_id = ?");
        tx.execute(Statement::new(sql).bind(self.0)).await?;
        Ok(())
    }
}
