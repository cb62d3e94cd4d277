//! [`UnifiedLimits`]: the limits of a service of the catalog. This service shows and changes them (`/v3/limits`), and the
//! service that enforces them stores them.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use crate::catalog::Catalog;
use crate::users::derived;

/// The limit of all projects without one of their own: Keystone's registered limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultLimit {
    pub resource_name: String,
    /// -1: unlimited.
    pub default_limit: i64,
}

/// The limit of one project, which replaces the default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectLimit {
    pub project_id: String,
    pub resource_name: String,
    /// -1: unlimited.
    pub resource_limit: i64,
}

pub type LimitFuture<'a, T> =
    Pin<Box<dyn Future<Output = Result<T, UnifiedLimitError>> + Send + 'a>>;

/// The limits that one service of the catalog stores and enforces.
pub trait UnifiedLimits: fmt::Debug + Send + Sync {
    /// The type of the service in the catalog.
    fn service_type(&self) -> &str;

    /// The defaults of all resources that can have a limit.
    fn defaults(&self) -> Vec<DefaultLimit>;

    /// The limits of all projects.
    fn limits(&self) -> LimitFuture<'_, Vec<ProjectLimit>>;

    /// Stores new limits, all or none.
    fn create<'a>(&'a self, limits: &'a [ProjectLimit]) -> LimitFuture<'a, ()>;

    /// Changes a limit.
    fn update<'a>(&'a self, limit: &'a ProjectLimit) -> LimitFuture<'a, ()>;

    /// Deletes a limit: the default applies again.
    fn delete<'a>(&'a self, limit: &'a ProjectLimit) -> LimitFuture<'a, ()>;
}

/// Why limits could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum UnifiedLimitError {
    /// The service does not accept the limit.
    #[error("{0}")]
    Invalid(String),
    #[error("the project has a limit for {resource_name} already")]
    Exists { resource_name: String },
    #[error("the limit does not exist")]
    NotFound,
    #[error("the database of limits failed")]
    Database {
        source: Box<dyn Error + Send + Sync>,
        /// Whether the same request may succeed later.
        will_pass: bool,
    },
}

/// Limits with the catalog's id of their service.
#[derive(Debug)]
pub(crate) struct ServiceLimits {
    pub(crate) store: Arc<dyn UnifiedLimits>,
    pub(crate) service_id: String,
}

impl ServiceLimits {
    /// `None` if the catalog does not have the service.
    pub(crate) fn new(store: Arc<dyn UnifiedLimits>, catalog: &Catalog) -> Option<Self> {
        let mut services = catalog.entries().iter();
        let service = services.find(|it| it.service_type == store.service_type())?;
        Some(Self {
            service_id: service.id.clone(),
            store,
        })
    }

    /// Ids are derived, so they are the same after each start, and need no table.
    pub(crate) fn id(&self, limit: &ProjectLimit) -> String {
        let parts = [&self.service_id, &limit.project_id, &limit.resource_name];
        derived("limit", &parts.map(String::as_str))
    }

    pub(crate) fn default_id(&self, limit: &DefaultLimit) -> String {
        derived(
            "registered limit",
            &[&self.service_id, &limit.resource_name],
        )
    }
}
