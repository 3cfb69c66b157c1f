//! Whoever waits is told, whatever becomes of what it waits for.

/// Tells once: what came of it, or, where it is given up or panics, what stands for that.
#[derive(Debug)]
pub(crate) struct Told<E, F: FnOnce(E)>(Option<(F, fn() -> E)>);

impl<E, F: FnOnce(E)> Told<E, F> {
    /// `tell` is called with what is told, and with `otherwise()` when this is dropped before.
    pub(crate) fn new(tell: F, otherwise: fn() -> E) -> Self {
        Self(Some((tell, otherwise)))
    }

    /// Tells what came of it.
    pub(crate) fn tell(mut self, event: E) {
        if let Some((tell, _)) = self.0.take() {
            tell(event);
        }
    }
}

impl<E, F: FnOnce(E)> Drop for Told<E, F> {
    fn drop(&mut self) {
        if let Some((tell, otherwise)) = self.0.take() {
            tell(otherwise());
        }
    }
}
