//! The first half of every journey: facts in, plan out. Startup, tick, dry run and the offline upgrade share it and differ
//! only in what they do with the plan; making it sends nothing but questions.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use berth_model::{
    Desired, Disposition, NodeName, Plan, ProviderTree, ProviderUuid, ReshapeRequest, Trait,
    TreeDiff, Usages, plan, usages_to_probe,
};
use berth_store::state_dir::StateFiles;
use berth_virt::{HostView, ProviderTreeError, VirtDriver};
use tokio::time::Instant;

use crate::complete::{Service, complete};
use crate::options::TrackerOptions;
use crate::provider_config::{
    Absent, Applied, AppliedError, AppliedFile, LayOverError, cleared, lay_over,
};
use crate::report_client::{ReportClient, ReportError};

/// Reports one node: what the driver sees of it, and what Placement is told.
pub struct ResourceTracker<D> {
    pub(crate) driver: Arc<D>,
    pub(crate) node: NodeName,
    pub(crate) report: ReportClient,
    pub(crate) options: TrackerOptions,
    /// What this process began of a plan that was reviewed.
    pub(crate) begun: Option<ReviewedPlanProgress>,
    /// How many more reshapes that meet another writer are tried again soon. They are few for the whole process: each reads
    /// the tree and all who hold anything of it, and conflicts for ever are no accident.
    pub(crate) races: u8,
    /// What of the provider files Placement was given.
    applied: AppliedFile,
    /// Entries of provider files without a provider, which the log was told of.
    absent: BTreeSet<Absent>,
}

/// A reviewed plan that was found to hold and whose writing began: from here on Placement's generations are moved by this
/// process itself, so that a retry cannot be compared with them again.
#[derive(Debug, Clone)]
pub(crate) enum ReviewedPlanProgress {
    /// A plain update, as any tick makes it.
    Update,
    /// A reshape, whose answer is not known yet.
    Reshape(Box<ReshapeRequest>),
    /// A reshape that was carried out: what follows it follows from it.
    Reshaped,
}

impl<D: VirtDriver> ResourceTracker<D> {
    /// A tracker for a node whose identity is clear.
    #[must_use]
    pub fn new(
        driver: Arc<D>,
        node: NodeName,
        report: ReportClient,
        options: TrackerOptions,
    ) -> Self {
        Self {
            applied: AppliedFile::in_memory(),
            absent: BTreeSet::new(),
            driver,
            node,
            report,
            options,
            begun: None,
            races: 2,
        }
    }

    /// The same, which remembers in these state files what of the provider files Placement was given; else only this process
    /// knows, and what leaves the files between two stays.
    #[must_use]
    pub fn remembering_in(mut self, files: Arc<dyn StateFiles>) -> Self {
        self.applied = AppliedFile::of(files, self.report.root());
        self
    }

    #[must_use]
    pub fn node(&self) -> &NodeName {
        &self.node
    }

    /// Who talks to Placement for it.
    #[must_use]
    pub fn report(&self) -> &ReportClient {
        &self.report
    }

    /// Forgets what is cached of Placement: the next pass reads it anew.
    pub fn forget(&mut self) {
        self.report.forget();
    }

    /// Forgets what is cached of Placement where that has one of these providers: Placement was seen without them.
    pub fn doubt(&mut self, missing: &BTreeSet<ProviderUuid>) {
        let known = self.report.known_tree();
        if known.is_some_and(|tree| missing.iter().any(|uuid| tree.get(*uuid).is_some())) {
            self.forget();
        }
    }

    /// Takes other options from the next pass on (SIGHUP).
    pub fn set_options(&mut self, options: TrackerOptions) {
        self.report.set_options(&options);
        self.options = options;
    }

    /// Compares what is seen with what Placement has.
    ///
    /// Errors: Placement does not answer, the view makes no tree, or the provider files and it contradict each other.
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
            false => Cow::Owned(cleared(&current, configs, applied)),
        };
        let mut wanted = self
            .driver
            .update_provider_tree(view, &without, &self.node)?;
        let (configured, absent) = lay_over(&mut wanted.tree, configs)?;
        self.tell_of(absent);
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

    /// Keeps what of the provider files Placement is about to be given, and forgets what it has no more. To be called before
    /// anything of the proposal is sent.
    pub(crate) async fn remember(&mut self, proposal: &Proposal) -> Result<(), ProposeError> {
        let before = self.applied.read().await?;
        let next = before.before_writing(&proposal.current, &proposal.configured);
        Ok(self.applied.keep(next).await?)
    }

    fn tell_of(&mut self, absent: Vec<Absent>) {
        let absent = BTreeSet::from_iter(absent);
        for Absent { file, provider } in absent.difference(&self.absent) {
            tracing::warn!(
                node = %self.node,
                file,
                %provider,
                "a provider file names a provider that is not in this node's tree; it is given nothing until it is there"
            );
        }
        self.absent = absent;
    }

    /// Carries out a plain update of the tree that it was planned on.
    pub(crate) async fn write(
        &mut self,
        diff: &TreeDiff,
        current: &ProviderTree,
    ) -> Result<(), ReportError> {
        let desired = diff.apply(current).map_err(|source| {
            ReportError::no_tree(format!("planning the tree of {}", self.node), source)
        })?;
        self.report.flush(diff, &desired).await
    }

    /// The tree Placement has, with what is in use on each provider: one request per provider more than the tree itself.
    pub async fn look(&mut self, now: Instant) -> Result<(ProviderTree, Usages), ReportError> {
        let tree = self.report.current_tree(now).await?;
        let known = tree
            .all()
            .into_iter()
            .filter(|provider| provider.generation.is_some());
        let providers = known.map(berth_model::Provider::uuid).collect();
        let usages = self.report.usages(&providers).await?;
        Ok((tree, usages))
    }

    async fn complete(
        &mut self,
        wanted: Desired,
        current: &ProviderTree,
        service: Service,
    ) -> Result<Desired, ProposeError> {
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

/// What to do about a node, with the facts it was planned on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// The tree Placement has.
    pub current: ProviderTree,
    /// The tree that is wanted, and what moved.
    pub desired: Desired,
    pub plan: Plan,
    /// What of the tree that is wanted comes from provider files.
    pub(crate) configured: Applied,
}

/// No plan could be made.
#[derive(Debug, thiserror::Error)]
pub enum ProposeError {
    /// What is seen makes no tree.
    #[error("what the hypervisor shows makes no provider tree")]
    Tree(#[from] ProviderTreeError),
    /// The provider files and what is seen contradict each other.
    #[error("the provider files cannot be followed")]
    ProviderFiles(#[source] Box<LayOverError>),
    /// What of the provider files Placement was given cannot be read or kept.
    #[error(transparent)]
    Applied(#[from] AppliedError),
    /// Placement did not answer a question.
    #[error(transparent)]
    Report(#[from] ReportError),
}

impl From<LayOverError> for ProposeError {
    fn from(error: LayOverError) -> Self {
        Self::ProviderFiles(Box::new(error))
    }
}

impl ProposeError {
    /// What a loop should do.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            // The hypervisor may show something else at the next look.
            ProposeError::Tree(_) => Disposition::Retry,
            ProposeError::ProviderFiles(error) => error.disposition(),
            ProposeError::Applied(error) => error.disposition(),
            ProposeError::Report(report) => report.disposition(),
        }
    }
}
