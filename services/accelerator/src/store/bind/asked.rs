//! What the groups of device profiles ask of an offer.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use berth_model::{Binding, DeviceProfileGroup};
use berth_store::Transaction;
use berth_wire::accelerator::Program;

use super::BindRefused;
use super::offer::Offer;
use crate::store::arqs::{ArqError, ArqRow};
use crate::store::device_profiles::{self, Key};

/// What the groups of the patch's profiles ask for.
#[derive(Default)]
pub(super) struct Groups {
    known: BTreeMap<(i64, u32), Asked>,
}

/// What one group asks for.
pub(super) struct Asked {
    profile: String,
    group: u32,
    classes: Vec<String>,
    bitstream: Option<String>,
    function: Option<String>,
}

impl Groups {
    /// What the group of a request asks for; read once.
    pub(super) async fn asked(
        &mut self,
        tx: &mut Transaction,
        row: &ArqRow,
    ) -> Result<&Asked, ArqError> {
        let key = (row.profile_id, row.arq.group_id);
        match self.known.entry(key) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(place) => Ok(place.insert(Asked::read(tx, row).await?)),
        }
    }
}

impl Asked {
    async fn read(tx: &mut Transaction, row: &ArqRow) -> Result<Self, ArqError> {
        let name = row.arq.device_profile.as_str().to_owned();
        let profile = device_profiles::get(tx, &Key::Name(name.clone())).await?;
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

    /// What the device is to be programmed with, if the offer suits at all.
    pub(super) fn suits(
        &self,
        binding: &Binding,
        offer: &Offer,
    ) -> Result<Option<Program>, BindRefused> {
        if !self.classes.contains(&offer.resource_class) {
            return Err(BindRefused::WrongClass {
                provider: binding.device_rp,
                offers: offer.resource_class.clone(),
            });
        }
        let (profile, group) = (self.profile.clone(), self.group);
        let program = match (&self.bitstream, &self.function) {
            (Some(_), Some(_)) => return Err(BindRefused::TwoPrograms { profile, group }),
            (None, None) => return Ok(None),
            (Some(image), None) => Program::BitstreamId(image.clone()),
            (None, Some(function)) => Program::FunctionId(function.clone()),
        };
        if !offer.programmable {
            let host = offer.hostname.clone();
            return Err(BindRefused::Programming {
                profile,
                group,
                host,
            });
        }
        match offer.held {
            true => Err(BindRefused::InUse(binding.device_rp)),
            false => Ok(Some(program)),
        }
    }
}
