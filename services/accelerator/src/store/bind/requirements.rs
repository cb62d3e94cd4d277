//! The requirements of device profile groups.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use berth_model::{Binding, DeviceProfileGroup};
use berth_store::Transaction;
use berth_wire::accelerator::Program;

use super::BindRefusal;
use super::offer::ProviderOffer;
use crate::store::arqs::{ArqError, ArqRow};
use crate::store::device_profiles::{self, ProfileKey};

/// The requirements of the groups in a patch.
#[derive(Default)]
pub(super) struct ProfileRequirements {
    known: BTreeMap<(i64, u32), GroupRequirement>,
}

/// The requirements of one group.
pub(super) struct GroupRequirement {
    profile: String,
    group: u32,
    classes: Vec<String>,
    bitstream: Option<String>,
    function: Option<String>,
}

impl ProfileRequirements {
    /// The requirements of a request's group, cached.
    pub(super) async fn requirement(
        &mut self,
        tx: &mut Transaction,
        row: &ArqRow,
    ) -> Result<&GroupRequirement, ArqError> {
        let key = (row.profile_id, row.arq.group_id);
        match self.known.entry(key) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(place) => Ok(place.insert(GroupRequirement::read(tx, row).await?)),
        }
    }
}

impl GroupRequirement {
    async fn read(tx: &mut Transaction, row: &ArqRow) -> Result<Self, ArqError> {
        let name = row.arq.device_profile.as_str().to_owned();
        let profile = device_profiles::get(tx, &ProfileKey::Name(name.clone())).await?;
        let groups = profile.groups()?;
        let index = usize::try_from(row.arq.group_id).unwrap_or(usize::MAX);
        let group = groups.as_slice().get(index);
        let classes = group.into_iter().flat_map(DeviceProfileGroup::resources);
        let value = |key| {
            let value = group.and_then(|group| group.get(key));
            value.map(str::to_owned)
        };
        Ok(Self {
            profile: name,
            group: row.arq.group_id,
            classes: classes.map(|(class, _)| class.to_owned()).collect(),
            bitstream: value("accel:bitstream_id"),
            function: value("accel:function_id"),
        })
    }

    /// Whether the provider meets the requirements, and what to program.
    pub(super) fn suits(
        &self,
        binding: &Binding,
        offer: &ProviderOffer,
    ) -> Result<Option<Program>, BindRefusal> {
        if !self.classes.contains(&offer.resource_class) {
            return Err(BindRefusal::WrongClass {
                provider: binding.device_rp,
                offers: offer.resource_class.clone(),
            });
        }
        let (profile, group) = (self.profile.clone(), self.group);
        let program = match (&self.bitstream, &self.function) {
            (Some(_), Some(_)) => return Err(BindRefusal::TwoPrograms { profile, group }),
            (None, None) => return Ok(None),
            (Some(image), None) => Program::BitstreamId(image.clone()),
            (None, Some(function)) => Program::FunctionId(function.clone()),
        };
        if !offer.programmable {
            let host = offer.hostname.clone();
            return Err(BindRefusal::Programming {
                profile,
                group,
                host,
            });
        }
        match offer.held {
            true => Err(BindRefusal::InUse(binding.device_rp)),
            false => Ok(Some(program)),
        }
    }
}
