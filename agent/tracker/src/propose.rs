//! Plans the update of one node: reads the observed host and Placement's tree, and computes the difference. Startup,
//! tick, dry run and offline upgrade share it and differ only in what they do with the plan. Planning sends only read
//! requests.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use berth_model::{
    DesiredTree, Disposition, NodeName, Plan, ProviderTree, ProviderUuid, ReshapeRequest, Trait,
    TreeDiff, Usages, plan, usages_to_probe,
};
use berth_store::state_dir::StateFiles;
use berth_virt::{HostView, ProviderTreeError, VirtDriver};
use tokio::time::Instant;

use crate::complete::{Service, complete};
use crate::options::TrackerOptions;
use crate::provider_config::{
    AppliedError, AppliedFile, AppliedItems, MissingProvider, ProviderConfigMergeError, merge,
    without_file_items,
};
use crate::report_client::{ReportClient, ReportError};

/// Reports one node to Placement.
pub struct ResourceTracker<D> {
    pub(crate) driver: Arc<D>,
    pub(crate) node: NodeName,
    pub(crate) report: ReportClient,
    pub(crate) options: TrackerOptions,
    /// How far this process has executed a reviewed plan.
    pub(crate) review_progress: Option<ReviewedPlanProgress>,
    /// Remaining immediate retries after a generation conflict of a reshape. The number is small and valid for the
    /// whole process: each retry reads the complete tree and all its allocations, and permanent conflicts are not
    /// accidental.
    pub(crate) race_retries: u8,
    /// Record of the items from provider files that were written to Placement.
    applied: AppliedFile,
    /// Entries of provider files without a provider that were already logged.
    missing: BTreeSet<MissingProvider>,
}

/// Progress of a reviewed plan. Once its execution has started, this process itself changes Placement's generations, so
/// a retry cannot compare them with the plan again.
#[derive(Debug, Clone)]
pub(crate) enum ReviewedPlanProgress {
    /// A plain update was started.
    Update,
    /// A reshape was sent; its result is unknown.
    Reshape(Box<ReshapeRequest>),
    /// The reshape was completed; the remaining changes follow from it.
    Reshaped,
}

impl<D: VirtDriver> ResourceTracker<D> {
    /// A tracker for an identified node.
    #[must_use]
    pub fn new(
        driver: Arc<D>,
        node: NodeName,
        report: ReportClient,
        options: TrackerOptions,
    ) -> Self {
        Self {
            applied: AppliedFile::in_memory(),
            missing: BTreeSet::new(),
            driver,
            node,
            report,
            options,
            review_progress: None,
            race_retries: 2,
        }
    }

    /// Persists the record of the items from provider files. Without this, the record is lost with the process, and
    /// items that are removed from the files before the next start stay in Placement.
    #[must_use]
    pub fn with_state_files(mut self, files: Arc<dyn StateFiles>) -> Self {
        self.applied = AppliedFile::of(files, self.report.root());
        self
    }

    #[must_use]
    pub fn node(&self) -> &NodeName {
        &self.node
    }

    /// The client for the node's tree in Placement.
    #[must_use]
    pub fn report(&self) -> &ReportClient {
        &self.report
    }

    /// Clears the cache of Placement's tree: the next pass reads it again.
    pub fn forget(&mut self) {
        self.report.forget();
    }

    /// Clears the cache if it contains one of these providers, which Placement no longer has.
    pub fn forget_if_missing(&mut self, missing: &BTreeSet<ProviderUuid>) {
        let known = self.report.known_tree();
        if known.is_some_and(|tree| missing.iter().any(|uuid| tree.get(*uuid).is_some())) {
            self.forget();
        }
    }

    /// Changes the options; they are used by the next pass (SIGHUP).
    pub fn set_options(&mut self, options: TrackerOptions) {
        self.report.set_options(&options);
        self.options = options;
    }

    /// Compares the observed host with Placement and makes a plan.
    ///
    /// # Errors
    ///
    /// Placement does not answer, the view is not a valid tree, or the provider files contradict it.
    pub async fn propose(
        &mut self,
        view: &HostView,
        service: Service,
        now: Instant,
    ) -> Result<Proposal, ProposeError> {
        let current = self.report.current_tree(now).await?;
        let applied = self.applied.read().await?;
        let configs = &self.options.provider_configs;
        let without = match configs.is_empty() && applied.is_empty() {
            true => Cow::Borrowed(&current),
            false => Cow::Owned(without_file_items(&current, configs, applied)),
        };
        let mut wanted = self
            .driver
            .update_provider_tree(view, &without, &self.node)?;
        let (configured, missing) = merge(&mut wanted.tree, configs)?;
        self.log_missing_providers(missing);
        let wanted = self.complete(wanted, &current, service).await?;
        let usages = self
            .report
            .usages(&usages_to_probe(&current, &wanted))
            .await?;
        let plan = plan(&current, wanted.clone(), &usages);
        Ok(Proposal {
            current,
            desired: wanted,
            plan,
            configured,
        })
    }

    /// Updates the record of the items from provider files. Must be called before anything of the proposal is sent.
    pub(crate) async fn record_applied(&mut self, proposal: &Proposal) -> Result<(), ProposeError> {
        let before = self.applied.read().await?;
        let next = before.next_record(&proposal.current, &proposal.configured);
        Ok(self.applied.store(next).await?)
    }

    fn log_missing_providers(&mut self, missing: Vec<MissingProvider>) {
        let missing = BTreeSet::from_iter(missing);
        for MissingProvider { file, provider } in missing.difference(&self.missing) {
            tracing::warn!(
                node = %self.node,
                file,
                %provider,
                "a provider file names a provider that is not in this node's tree; the entry is ignored until the provider exists"
            );
        }
        self.missing = missing;
    }

    /// Executes a plain update of the tree for which it was planned.
    pub(crate) async fn write(
        &mut self,
        diff: &TreeDiff,
        current: &ProviderTree,
    ) -> Result<(), ReportError> {
        let desired = diff.apply(current).map_err(|source| {
            ReportError::no_tree(
                format!("planning the provider tree of {}", self.node),
                source,
            )
        })?;
        self.report.flush(diff, &desired).await
    }

    /// Placement's tree and the usages of each provider. Sends one request for each provider.
    pub async fn tree_with_usages(
        &mut self,
        now: Instant,
    ) -> Result<(ProviderTree, Usages), ReportError> {
        self.report.tree_with_usages(now).await
    }

    async fn complete(
        &mut self,
        wanted: DesiredTree,
        current: &ProviderTree,
        service: Service,
    ) -> Result<DesiredTree, ProposeError> {
        let unknown = self.report.unknown_traits();
        let desired = complete(wanted.clone(), current, &self.options, service, unknown);
        let new: BTreeSet<Trait> = desired
            .tree
            .all()
            .into_iter()
            .flat_map(|provider| {
                let known = current.get(provider.uuid());
                provider
                    .traits
                    .iter()
                    .filter(move |name| !known.is_some_and(|known| known.traits.contains(*name)))
            })
            .cloned()
            .collect();
        let before = unknown.len();
        self.report.learn_traits(&new).await?;
        if self.report.unknown_traits().len() == before {
            return Ok(desired);
        }
        let unknown = self.report.unknown_traits();
        Ok(complete(wanted, current, &self.options, service, unknown))
    }
}

/// A plan for a node, with the facts that it is based on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// The tree in Placement.
    pub current: ProviderTree,
    /// The desired tree, and the resources that move.
    pub desired: DesiredTree,
    pub plan: Plan,
    /// Items of the desired tree that come from provider files.
    pub(crate) configured: AppliedItems,
}

/// The plan could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ProposeError {
    /// The observed host is not a valid tree.
    #[error("the observed host cannot be represented as a provider tree")]
    Tree(#[from] ProviderTreeError),
    /// The provider files contradict the observed host.
    #[error("the provider files cannot be applied")]
    ProviderFiles(#[source] Box<ProviderConfigMergeError>),
    /// The record of the items from provider files cannot be read or written.
    #[error(transparent)]
    Applied(#[from] AppliedError),
    /// Placement did not answer.
    #[error(transparent)]
    Report(#[from] ReportError),
}

impl From<ProviderConfigMergeError> for ProposeError {
    fn from(error: ProviderConfigMergeError) -> Self {
        Self::ProviderFiles(Box::new(error))
    }
}

impl ProposeError {
    /// What the caller should do.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            // The next observation may be different.
            ProposeError::Tree(_) => Disposition::Retry,
            ProposeError::ProviderFiles(error) => error.disposition(),
            ProposeError::Applied(error) => error.disposition(),
            ProposeError::Report(report) => report.disposition(),
        }
    }
}
