//! An attempt and its time.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep, sleep_until};

use super::attempt::Making;
use super::take::Take;

/// Runs an attempt until it is over, or until a time: then it ends with [`Elapsed`], and the attempt is still there.
pub(super) struct Bounded<'b, 'a, T: Take> {
    making: &'b mut Making<'a, T>,
    at: Instant,
    is_far: bool,
    /// Set when the time is near, or nobody else tells when it is. In a box: all that wait would have room for it
    /// otherwise.
    timer: Option<Pin<Box<Sleep>>>,
}

/// The time has come, and the attempt is not over.
pub(super) struct Elapsed;

impl<'b, 'a, T: Take> Bounded<'b, 'a, T> {
    /// `is_far`: that time is [`FAR`](crate::conn::FAR) from now, or farther.
    pub(super) fn new(making: &'b mut Making<'a, T>, at: Instant, is_far: bool) -> Self {
        Self { making, at, is_far, timer: None }
    }

    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Elapsed>> {
        let at = self.at;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(at)));
        timer.as_mut().poll(cx).map(|()| Err(Elapsed))
    }
}

impl<T: Take> Future for Bounded<'_, '_, T> {
    type Output = Result<(), Elapsed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if Pin::new(&mut *this.making).poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        // Most attempts are over long before: for those a timer of the runtime, set and taken back, would be the most
        // expensive part of the wait.
        if this.is_far && this.timer.is_none() && this.making.is_woken_before(this.at, cx.waker()) {
            return Poll::Pending;
        }
        this.poll_timer(cx)
    }
}
