//! /internal/v1/accelerator_requests: adopts requests that another accelerator service has bound.

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault};
use berth_wire::accelerator::{AdoptedArqs, ArqBody, ArqList, NotAdopted};

use super::accelerator_requests::fault;
use crate::policies::ADOPT;
use crate::router::{AcceleratorApi, AcceleratorOperation};
use crate::store::adopted::AdoptArqs;

pub(super) fn operations() -> Vec<AcceleratorOperation> {
    vec![
        AcceleratorOperation::put("/internal/v1/accelerator_requests", put)
            .rule(ADOPT)
            .large_body(),
    ]
}

async fn put(
    State(accelerator): State<AcceleratorApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    accelerator.allow(&call)?;
    call.refuse_host_account()?;
    let body: ArqList = call.typed()?;
    let (mut arqs, mut unread) = (Vec::new(), Vec::new());
    for arq in body.arqs {
        let uuid = arq.uuid;
        match ArqBody::into_arq(arq) {
            Ok(arq) => arqs.push(arq),
            Err(error) => unread.push(NotAdopted {
                uuid,
                reason: error.to_string(),
            }),
        }
    }
    let adopt = AdoptArqs { arqs };
    let outcome = accelerator.tables.write(&adopt).await.map_err(fault)?;
    let not_taken = outcome.not_taken.into_iter().chain(unread).collect();
    ApiResponse::ok(&AdoptedArqs {
        not_taken,
        ..outcome
    })
}
