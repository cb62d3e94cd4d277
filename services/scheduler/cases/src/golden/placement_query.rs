//! Kind `placement_query`: the query to Placement for a request.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::case::SchedulerCase;
use berth_scheduler::placement_query::{Cloud, placement_query};
use berth_scheduler_objects::from_json::CaseRequestError;
use berth_scheduler_objects::from_json::{CaseField, FieldError};
use berth_scheduler_objects::host_state::Aggregate;

/// `query`, `pinning_requested` and, if it exists, `fallback_query`; or `error`.
pub(super) fn answer(case: &SchedulerCase<'_>) -> Result<Value, CaseRequestError> {
    let aggregates: Vec<Arc<Aggregate>> =
        case.field
            .optional_or("aggregates", Vec::new(), |all| all.list(aggregate))?;
    let owned =
        case.field
            .optional_or("all_computes_report_owner_trait", false, CaseField::flag)?;
    let cloud = Cloud {
        aggregates: &aggregates,
        all_computes_report_owner_trait: owned,
        ..Cloud::default()
    };
    let request = match case.request() {
        Err(CaseRequestError::Refused(sentence)) => return Ok(json!({ "error": sentence })),
        request => request?,
    };
    Ok(match placement_query(&request, &case.options, &cloud) {
        Err(error) => json!({ "error": error.to_string() }),
        Ok(query) => {
            let mut answer = json!({
                "query": query.query,
                "pinning_requested": query.pinning_requested,
            });
            if let Some(fallback) = query.fallback_query {
                answer["fallback_query"] = json!(fallback);
            }
            answer
        }
    })
}

fn aggregate(field: &CaseField<'_>) -> Result<Arc<Aggregate>, FieldError> {
    Ok(Arc::new(Aggregate {
        uuid: Some(field.required("uuid")?.string()?),
        name: String::new(),
        metadata: field.required("metadata")?.map(CaseField::string)?,
    }))
}
