//! An attempt and its time.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::time::{Instant, Sleep, sleep_until};

use super::attempt::Making;
use super::take::Take;
use crate::conn::FarDeadline;

/// Runs an attempt until it is over, or until a time: then it ends with [`Elapsed`], and the attempt goes on to exist.
pub(super) struct Bounded<'b, 'a, T: Take> {
    making: &'b mut Making<'a, T>,
    at: Instant,
    is_far: bool,
    timer: Timer,
}

/// The time has come, and the attempt is not over.
pub(super) struct Elapsed;

enum Timer {
    /// Nothing was waited for yet.
    None,
    /// The connection tells when the time comes near. Most attempts are over long before: for those a timer of the
    /// runtime, set and taken back, would be the most expensive part of the wait.
    Far(FarDeadline),
    /// In a box: all that wait would have room for it otherwise.
    Near(Pin<Box<Sleep>>),
}

impl<'b, 'a, T: Take> Bounded<'b, 'a, T> {
    /// `is_far`: that time is [`FAR`](crate::conn::FAR) from now, or farther.
    pub(super) fn new(making: &'b mut Making<'a, T>, at: Instant, is_far: bool) -> Self {
        Self { making, at, is_far, timer: Timer::None }
    }
}

impl<T: Take> Future for Bounded<'_, '_, T> {
    type Output = Result<(), Elapsed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if Pin::new(&mut *this.making).poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        if this.is_far
            && let (Timer::None, Some(connection)) = (&this.timer, this.making.connection())
        {
            this.timer = Timer::Far(connection.far_deadline(this.at, cx.waker()));
            return Poll::Pending;
        }
        if let Timer::Far(deadline) = &this.timer
            && !deadline.is_near(cx.waker())
        {
            return Poll::Pending;
        }
        this.poll_near(cx)
    }
}

impl<T: Take> Bounded<'_, '_, T> {
    fn poll_near(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Elapsed>> {
        if !matches!(self.timer, Timer::Near(_)) {
            self.timer = Timer::Near(Box::pin(sleep_until(self.at)));
        }
        let Timer::Near(sleep) = &mut self.timer else { return Poll::Pending };
        ready!(sleep.as_mut().poll(cx));
        Poll::Ready(Err(Elapsed))
    }
}
