//! Allocation candidates: GET /allocation_candidates.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{CandidatesQuery, GroupSuffix, ProviderUuid, ResourceClass, Trait};
use berth_wire::BodyError;
use berth_wire::placement::{
    AllocationCandidates, AllocationOnProvider, AllocationRequest, ProviderSummary,
};
use uuid::Uuid;

use super::{PlacementClient, PlacementError, read};

const ROUTE: &str = "/allocation_candidates";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    resources: BTreeMap<(ProviderUuid, ResourceClass), u64>,
    mappings: BTreeMap<String, BTreeSet<ProviderUuid>>,
}

impl Candidate {
    /// The amounts by provider and class.
    #[must_use]
    pub fn resources(&self) -> &BTreeMap<(ProviderUuid, ResourceClass), u64> {
        &self.resources
    }

    /// The amounts by provider, in the form for agents.
    #[must_use]
    pub fn by_provider(&self) -> BTreeMap<Uuid, BTreeMap<String, u64>> {
        let mut by_provider: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for ((provider, class), amount) in &self.resources {
            let of_provider = by_provider.entry(*provider.as_uuid()).or_default();
            of_provider.insert(class.to_string(), *amount);
        }
        by_provider
    }

    /// The provider of a suffixed group; `None` if the answer does not name it.
    #[must_use]
    pub fn serving(&self, suffix: &GroupSuffix) -> Option<ProviderUuid> {
        let providers = self.mappings.get(suffix.as_str())?;
        let mut providers = providers.iter();
        match (providers.next(), providers.next()) {
            (Some(provider), None) => Some(*provider),
            _ => None,
        }
    }

    /// The candidate with one more unit, of a provider that serves one more suffixed group.
    #[must_use]
    pub fn with_unit(
        &self,
        suffix: &GroupSuffix,
        provider: ProviderUuid,
        class: &ResourceClass,
    ) -> Self {
        let mut with = self.clone();
        *with.resources.entry((provider, class.clone())).or_default() += 1;
        let group = suffix.as_str().to_owned();
        with.mappings.insert(group, [provider].into());
        with
    }

    /// The candidate without a suffixed group that has one unit; `None` if nothing would be left.
    #[must_use]
    pub fn without_unit(&self, suffix: &GroupSuffix, class: &ResourceClass) -> Option<Self> {
        let mut without = self.clone();
        if let Some(provider) = self.serving(suffix) {
            without.mappings.remove(suffix.as_str());
            let of = (provider, class.clone());
            let left = without.resources.remove(&of).unwrap_or(0).saturating_sub(1);
            if left > 0 {
                without.resources.insert(of, left);
            }
        }
        (!without.resources.is_empty()).then_some(without)
    }

    /// Parses an allocation request, from an answer or from a journal.
    pub fn of_body(body: &AllocationRequest) -> Result<Self, BodyError> {
        let resources = body.resources()?;
        if resources.is_empty() {
            return Err(BodyError::field("allocations", "it has no allocations"));
        }
        let mappings = body.mappings.iter().flatten();
        let mappings = mappings.map(|(suffix, providers)| {
            let providers = providers.iter().copied().map(ProviderUuid::from);
            (suffix.clone(), providers.collect())
        });
        Ok(Self {
            resources,
            mappings: mappings.collect(),
        })
    }

    /// Converts it to its serialised form for a journal.
    #[must_use]
    pub fn to_body(&self) -> AllocationRequest {
        let mut allocations = BTreeMap::new();
        for ((provider, class), amount) in &self.resources {
            let taken =
                allocations
                    .entry(*provider.as_uuid())
                    .or_insert_with(|| AllocationOnProvider {
                        generation: None,
                        resources: BTreeMap::new(),
                    });
            taken.resources.insert(class.to_string(), *amount);
        }
        let mappings = self.mappings.iter().map(|(suffix, providers)| {
            let providers = providers.iter().map(|provider| *provider.as_uuid());
            (suffix.clone(), providers.collect())
        });
        AllocationRequest {
            allocations,
            mappings: Some(mappings.collect()),
        }
    }
}

/// The candidates in an answer, with the trees that they touch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Candidates {
    /// The candidates in the order of the answer, which is no ranking.
    pub candidates: Vec<Candidate>,
    /// Every provider of every tree that one of them touches.
    pub providers: BTreeMap<ProviderUuid, ProviderSummary>,
}

impl Candidates {
    fn of_body(body: AllocationCandidates) -> Result<Self, BodyError> {
        let candidates = body.allocation_requests.iter().enumerate();
        let candidates = candidates.map(|(index, request)| {
            let place = format_args!("allocation_requests[{index}]").to_string();
            Candidate::of_body(request).map_err(|error| error.under(place))
        });
        let providers = body.provider_summaries.into_iter();
        Ok(Self {
            candidates: candidates.collect::<Result<_, _>>()?,
            providers: providers
                .map(|(uuid, summary)| (uuid.into(), summary))
                .collect(),
        })
    }

    /// The root provider of a candidate's host: that of its providers that are not sharing providers. `None` if there
    /// is none, or more than one.
    #[must_use]
    pub fn host(&self, candidate: &Candidate) -> Option<ProviderUuid> {
        let roots = candidate.resources.keys().filter_map(|(provider, _)| {
            let summary = self.providers.get(provider)?;
            let mut traits = summary.traits.iter().flatten();
            let shares = traits.any(|name| *name == Trait::MISC_SHARES_VIA_AGGREGATE.as_str());
            let root = summary.root_provider_uuid.map(ProviderUuid::from);
            (!shares).then(|| root.unwrap_or(*provider))
        });
        let roots: BTreeSet<_> = roots.collect();
        let mut roots = roots.into_iter();
        roots.next().filter(|_| roots.next().is_none())
    }
}

impl PlacementClient {
    /// Requests candidates with the oldest microversion that supports the query. An empty list is a valid answer.
    ///
    /// Errors: No answer, a refusal (unknown class or trait), or an invalid answer.
    pub async fn candidates_of(
        &self,
        query: &CandidatesQuery,
    ) -> Result<Candidates, PlacementError> {
        let path = format!("{ROUTE}?{}", query.query());
        let call = read(ROUTE, path, query.microversion());
        self.parse(call, "allocation candidates", Candidates::of_body)
            .await
    }
}
