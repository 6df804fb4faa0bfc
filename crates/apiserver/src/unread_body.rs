//! The body of a request before it is read.

use std::{sync::OnceLock, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::{
    fair_seats::{Seat, Share},
    limits::Pass,
    object::MOST_BYTES,
    status::{ApiError, Result},
};

/// A body that is read only after the user's rights are checked.
pub(crate) struct Unread<'a, B> {
    pub(crate) body: B,
    pub(crate) pass: Option<&'a Pass>,
    /// The seats of its priority level. `None` if it need not wait.
    pub(crate) share: Option<&'a Share>,
    /// Where the audit log wants a copy of it.
    pub(crate) record: Option<&'a OnceLock<Bytes>>,
    pub(crate) stall_timeout: Duration,
}

impl<B> Unread<'_, B>
where
    B: http_body::Body + Send,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    /// Reads it whole, and waits until the request may be worked on.
    pub(crate) async fn read_and_sit(self) -> Result<(Bytes, Option<Seat>)> {
        let (pass, share) = (self.pass, self.share);
        let bytes = self.read().await?;
        let seat = match pass {
            Some(pass) => pass.seat(share).await,
            None => None,
        };
        Ok((bytes, seat))
    }

    /// Reads it whole.
    pub(crate) async fn read(self) -> Result<Bytes> {
        let announced = self.body.size_hint().exact().and_then(|size| usize::try_from(size).ok());
        if let Some(pass) = self.pass {
            pass.weigh(announced.unwrap_or(MOST_BYTES).min(MOST_BYTES))?;
        }
        let collected = Limited::new(self.body, MOST_BYTES).collect();
        match tokio::time::timeout(self.stall_timeout, collected).await {
            Err(_) => Err(ApiError::too_slow()),
            Ok(Ok(collected)) => {
                let bytes = collected.to_bytes();
                if let Some(record) = self.record {
                    // A body is read once.
                    _ = record.set(bytes.clone());
                }
                Ok(bytes)
            }
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(ApiError::too_large(MOST_BYTES)),
            Ok(Err(error)) => Err(ApiError::bad_request(format!("cannot read the body: {error}"))),
        }
    }
}
