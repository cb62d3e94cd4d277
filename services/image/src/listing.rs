//! Filters, sorts and pages a list of images; pure.

mod filter;
mod order;

use berth_http::{Fault, QueryString, query_string};
use uuid::Uuid;

use crate::image::CatalogImage;
use filter::ImageFilter;
use order::ImageSortOrder;

/// The default page size: Glance's `limit_param_default`.
const DEFAULT_LIMIT: usize = 25;
/// The most images of a page: Glance's `api_limit_max`.
const MOST: usize = 1000;

/// The query of a list request.
#[derive(Debug)]
pub(crate) struct ImageQuery {
    filters: Vec<ImageFilter>,
    order: ImageSortOrder,
    limit: usize,
    marker: Option<Uuid>,
    /// The query string without the marker.
    query: Vec<(String, String)>,
}

/// A page of images.
#[derive(Debug)]
pub(crate) struct ImagePage<'a> {
    pub(crate) images: Vec<&'a CatalogImage>,
    /// The URL path of the first page.
    pub(crate) first: String,
    /// The URL path of the next page; `None` on the last page.
    pub(crate) next: Option<String>,
}

impl ImageQuery {
    /// Reads a query string.
    pub(crate) fn of(query: &QueryString) -> Result<Self, Fault> {
        let limit = match query.last("limit") {
            None => DEFAULT_LIMIT,
            Some(text) => limit(text)?,
        };
        let marker = query.last("marker").map(|text| {
            let marker = Uuid::try_parse(text);
            marker.map_err(|_| no_marker(text))
        });
        let without_marker = query.pairs().filter(|(key, _)| *key != "marker");
        Ok(Self {
            filters: filter::filters(query)?,
            order: ImageSortOrder::of(query)?,
            limit,
            marker: marker.transpose()?,
            query: without_marker
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
        })
    }

    /// A page of these images.
    pub(crate) fn page<'a>(
        &self,
        images: impl Iterator<Item = &'a CatalogImage>,
    ) -> Result<ImagePage<'a>, Fault> {
        let mut images: Vec<&CatalogImage> = images.collect();
        images.sort_by(|one, other| self.order.compare(one, other));
        let begin = match self.marker {
            None => 0,
            Some(marker) => {
                let at = images.iter().position(|image| image.id == marker);
                at.ok_or_else(|| no_marker(&marker.to_string()))? + 1
            }
        };
        let rest = images.into_iter().skip(begin);
        let mut kept = rest.filter(|image| self.filters.iter().all(|it| it.keeps(image)));
        let images: Vec<&CatalogImage> = kept.by_ref().take(self.limit).collect();
        let next = match (images.last(), kept.next()) {
            (Some(last), Some(_)) => Some(self.link(Some(last.id))),
            _ => None,
        };
        Ok(ImagePage {
            images,
            first: self.link(None),
            next,
        })
    }

    /// The path of a page that begins after an image.
    fn link(&self, marker: Option<Uuid>) -> String {
        let marker = marker.map(|id| ("marker".to_owned(), id.to_string()));
        let query = query_string(self.query.iter().cloned().chain(marker));
        match query.as_str() {
            "" => "/v2/images".to_owned(),
            query => format!("/v2/images?{query}"),
        }
    }
}

fn limit(text: &str) -> Result<usize, Fault> {
    match text.trim().parse::<i128>() {
        Err(_) => Err(Fault::bad_request("limit param must be an integer")),
        Ok(limit) if limit < 0 => Err(Fault::bad_request("limit param must be positive")),
        Ok(limit) => Ok(usize::try_from(limit).unwrap_or(MOST).min(MOST)),
    }
}

fn no_marker(marker: &str) -> Fault {
    Fault::bad_request(format!("No image found with ID {marker}: marker names one"))
}

#[cfg(test)]
mod tests;
