//! `ImagePropertiesWeigher`: hosts whose instances were booted with the same image properties first.

use super::{Multiplier, Weigher, WeigherPlan};
use crate::host_state::HostState;
use crate::numbers::as_float;
use crate::options::{SchedulerOptions, weight_settings};
use crate::request::{RequestImage, RequestSpec};

pub(super) struct ImagePropertiesWeigher;

impl Weigher for ImagePropertiesWeigher {
    fn name(&self) -> &'static str {
        "ImagePropertiesWeigher"
    }

    fn module(&self) -> &'static str {
        "image_props"
    }

    fn multiplier(&self) -> Multiplier {
        Multiplier::new("image_props_weight_multiplier", |options| {
            options.filter_scheduler.image_props_weight_multiplier
        })
    }

    fn plan<'a>(
        &'a self,
        request: &'a RequestSpec,
        options: &'a SchedulerOptions,
    ) -> WeigherPlan<'a> {
        let options = &options.filter_scheduler;
        // Without the option nothing is counted, even if aggregates have a multiplier: as in Nova, because counting is
        // expensive.
        let image = request.image.as_ref();
        let Some(image) = image.filter(|_| options.image_props_weight_multiplier != 0.0) else {
            return WeigherPlan::same(0.0);
        };
        let wanted = wanted(image, &options.image_props_weight_setting);
        if wanted.is_empty() {
            return WeigherPlan::same(0.0);
        }
        let all: f64 = wanted.iter().map(|(_, _, weight)| weight.abs()).sum();
        let unit = all * as_float(options.max_instances_per_host);
        WeigherPlan::each(move |host| sum(host, &wanted)).unit(unit)
    }
}

/// Properties of the image that count, with their weights: the last setting of a property, or 1 if no setting can be
/// read.
fn wanted<'a>(image: &'a RequestImage, settings: &'a [String]) -> Vec<(&'a str, &'a str, f64)> {
    let settings = weight_settings(settings);
    let weight = |property: &str| {
        let set = settings.iter().rev().find(|(name, _)| *name == property);
        match settings.is_empty() {
            true => 1.0,
            false => set.map_or(0.0, |(_, weight)| *weight),
        }
    };
    let properties = image.properties.known();
    properties
        .map(|(name, value)| (name, value, weight(name)))
        .filter(|(_, _, weight)| *weight != 0.0)
        .collect()
}

fn sum(host: &HostState, wanted: &[(&str, &str, f64)]) -> f64 {
    let images = host.instances.iter().map(|(_, instance)| &instance.image);
    let counted = images.flat_map(|image| {
        wanted.iter().filter_map(|(name, value, weight)| {
            let is_same = image.get(name) == Some(*value);
            is_same.then_some(*weight)
        })
    });
    counted.sum()
}
