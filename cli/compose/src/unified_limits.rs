//! The quotas of the compute API as unified limits of the Identity service.

use std::fmt;

use berth_compute::{Compute, ComputeTableError, ProjectQuota, ProjectQuotaError};
use berth_identity::{DefaultLimit, LimitFuture, ProjectLimit, UnifiedLimitError, UnifiedLimits};
use berth_quota::{QuotaLimit, QuotaResource, UNIFIED_FILE_LIMITS};

/// The compute API's quotas under the names of Nova's unified limits.
pub(crate) struct QuotasAsLimits(pub(crate) Compute);

impl fmt::Debug for QuotasAsLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuotasAsLimits").finish_non_exhaustive()
    }
}

impl UnifiedLimits for QuotasAsLimits {
    fn service_type(&self) -> &'static str {
        "compute"
    }

    fn defaults(&self) -> Vec<DefaultLimit> {
        let quotas = self.0.quota_defaults().all();
        let quotas = quotas.filter_map(|(resource, limit)| {
            let name = resource.unified_name()?;
            Some((name.into_owned(), limit.number()))
        });
        let files = UNIFIED_FILE_LIMITS.map(|name| (name.to_owned(), 0));
        let all = quotas.chain(files);
        all.map(|(resource_name, default_limit)| DefaultLimit {
            resource_name,
            default_limit,
        })
        .collect()
    }

    fn limits(&self) -> LimitFuture<'_, Vec<ProjectLimit>> {
        Box::pin(async {
            let quotas = self.0.project_quotas().await;
            let quotas = quotas.map_err(|error| failed(error.into()))?;
            let limits = quotas.into_iter().filter_map(|quota| {
                Some(ProjectLimit {
                    resource_name: quota.resource.unified_name()?.into_owned(),
                    resource_limit: quota.limit.number(),
                    project_id: quota.project_id,
                })
            });
            Ok(limits.collect())
        })
    }

    fn create<'a>(&'a self, limits: &'a [ProjectLimit]) -> LimitFuture<'a, ()> {
        Box::pin(async {
            let quotas: Vec<_> = limits.iter().map(quota).collect::<Result<_, _>>()?;
            self.0.create_quotas(&quotas).await.map_err(failed)
        })
    }

    fn update<'a>(&'a self, limit: &'a ProjectLimit) -> LimitFuture<'a, ()> {
        Box::pin(async { self.0.update_quota(&quota(limit)?).await.map_err(failed) })
    }

    fn delete<'a>(&'a self, limit: &'a ProjectLimit) -> LimitFuture<'a, ()> {
        Box::pin(async {
            let ProjectQuota {
                project_id,
                resource,
                ..
            } = quota(limit)?;
            let deleted = self.0.delete_quota(&project_id, &resource).await;
            deleted.map_err(failed)
        })
    }
}

fn quota(limit: &ProjectLimit) -> Result<ProjectQuota, UnifiedLimitError> {
    let name = &limit.resource_name;
    let resource = QuotaResource::of_unified_name(name).ok_or_else(|| {
        let sentence = format!("The limit {name} cannot be set: it has no effect in this cloud.");
        UnifiedLimitError::Invalid(sentence)
    })?;
    Ok(ProjectQuota {
        project_id: limit.project_id.clone(),
        resource,
        limit: QuotaLimit::from_number(limit.resource_limit),
    })
}

fn failed(error: ProjectQuotaError) -> UnifiedLimitError {
    match error {
        ProjectQuotaError::Exists { resource } => UnifiedLimitError::Exists {
            resource_name: resource.unified_name().unwrap_or_default().into_owned(),
        },
        ProjectQuotaError::NotFound => UnifiedLimitError::NotFound,
        ProjectQuotaError::TooLarge { .. } => UnifiedLimitError::Invalid(error.to_string()),
        ProjectQuotaError::Table(error) => UnifiedLimitError::Database {
            will_pass: matches!(&error, ComputeTableError::Sql(sql) if sql.will_pass()),
            source: error.into(),
        },
    }
}
