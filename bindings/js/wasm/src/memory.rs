//! What needs unsafe code: handles, and the allocator.

use alloc::boxed::Box;

/// Gives a value to the caller, as a handle.
pub(crate) fn give<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// The value behind a handle; none behind null.
pub(crate) fn borrow<'a, T>(handle: *mut T) -> Option<&'a mut T> {
    // SAFETY: a handle comes from `give`, is released once, and not used after that; exports do not call one another, so
    // that no second reference to the same value lives beside this one.
    unsafe { handle.as_mut() }
}

/// Takes a value back.
pub(crate) fn release<T>(handle: *mut T) {
    if !handle.is_null() {
        // SAFETY: as for `borrow`.
        drop(unsafe { Box::from_raw(handle) });
    }
}

/// A value of which there is one, in a module without threads.
pub(crate) struct Single<T>(core::cell::UnsafeCell<T>);

// SAFETY: the module has one thread.
unsafe impl<T> Sync for Single<T> {}

impl<T> Single<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(core::cell::UnsafeCell::new(value))
    }

    /// Puts another value in its place.
    pub(crate) fn replace(&self, value: T) -> T {
        // SAFETY: one thread, and no reference to the value is ever handed out.
        core::mem::replace(unsafe { &mut *self.0.get() }, value)
    }
}

/// Blocks of powers of two, each with a list of free ones: small, and what was freed is used again.
#[cfg(target_arch = "wasm32")]
mod allocator {
    use core::alloc::{GlobalAlloc, Layout};
    use core::arch::wasm32::{memory_grow, memory_size};
    use core::ptr::null_mut;

    use super::Single;

    const PAGE: usize = 65_536;
    /// The smallest block, which is also what every block is aligned to.
    const SMALLEST: usize = 16;

    struct Blocks {
        /// By the logarithm of their size, the first free block; each holds the address of the next.
        free: Single<[usize; 32]>,
        /// Where memory begins that no block was cut from. 0: nothing was cut yet.
        rest: Single<usize>,
    }

    #[global_allocator]
    static BLOCKS: Blocks = Blocks { free: Single::new([0; 32]), rest: Single::new(0) };

    fn size_of_block(size: usize) -> usize {
        size.max(SMALLEST).next_power_of_two()
    }

    impl Blocks {
        fn cut(&self, size: usize) -> *mut u8 {
            unsafe extern "C" {
                static __heap_base: u8;
            }
            let rest = match self.rest.replace(0) {
                // The linker's address for the end of static data.
                0 => (&raw const __heap_base as usize).next_multiple_of(SMALLEST),
                rest => rest,
            };
            let Some(end) = rest.checked_add(size) else { return null_mut() };
            let have = memory_size(0) * PAGE;
            if end > have && memory_grow(0, (end - have).div_ceil(PAGE)) == usize::MAX {
                self.rest.replace(rest);
                return null_mut();
            }
            self.rest.replace(end);
            rest as *mut u8
        }
    }

    // SAFETY: blocks do not overlap, are at least as large as asked for, and aligned to `SMALLEST`, beyond which nothing is
    // given.
    unsafe impl GlobalAlloc for Blocks {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            if layout.align() > SMALLEST || layout.size() > usize::MAX / 4 {
                return null_mut();
            }
            let size = size_of_block(layout.size());
            let mut free = self.free.replace([0; 32]);
            let first = &mut free[size.trailing_zeros() as usize & 31];
            let block = *first;
            if block != 0 {
                // SAFETY: a free block holds the address of the next.
                *first = unsafe { *(block as *const usize) };
            }
            self.free.replace(free);
            if block == 0 { self.cut(size) } else { block as *mut u8 }
        }

        unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
            let mut free = self.free.replace([0; 32]);
            let first = &mut free[size_of_block(layout.size()).trailing_zeros() as usize & 31];
            // SAFETY: the block is ours again, and large enough for an address.
            unsafe { *block.cast::<usize>() = *first };
            *first = block as usize;
            self.free.replace(free);
        }
    }
}
