//! Shared memory for tables that are too large to be built on the stack and copied, as pgrx does.

use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

/// Something whose every part is valid when all its bytes are 0, and that holds no pointers.
///
/// # Safety
/// Both must be true of the type.
pub unsafe trait ValidAsZero {}

/// A value that begins as zeros. Made with `init_zeroed!` only.
pub struct Zeroed<T>(MaybeUninit<T>);

// SAFETY: it holds no pointers.
unsafe impl<T: ValidAsZero> pgrx::PGRXSharedMemory for Zeroed<T> {}

impl<T: ValidAsZero> Zeroed<T> {
    /// What is to be moved into shared memory and set to zeros there.
    pub fn not_yet() -> Self {
        Zeroed(MaybeUninit::uninit())
    }

    pub fn zero(&mut self) {
        // SAFETY: zeros are valid, and nothing is dropped.
        unsafe { self.0.as_mut_ptr().write_bytes(0, 1) }
    }
}

impl<T: ValidAsZero> Deref for Zeroed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: set to zeros when the server started, which is valid.
        unsafe { self.0.assume_init_ref() }
    }
}

impl<T: ValidAsZero> DerefMut for Zeroed<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { self.0.assume_init_mut() }
    }
}

/// Asks for the memory of a lock, and sets it to zeros when the server hands it out.
macro_rules! init_zeroed {
    ($lock:ident) => {
        pgrx::pg_shmem_init!($lock = $crate::shared::zeroed::Zeroed::not_yet());
        // SAFETY: the server calls its hooks while it starts, one after the other.
        unsafe {
            static mut BEFORE: Option<unsafe extern "C-unwind" fn()> = None;
            BEFORE = pg_sys::shmem_startup_hook;
            pg_sys::shmem_startup_hook = Some(zero);

            #[pg_guard]
            unsafe extern "C-unwind" fn zero() {
                // SAFETY: as above.
                if let Some(before) = unsafe { BEFORE } {
                    unsafe { before() }
                }
                $lock.exclusive().zero();
            }
        }
    };
}
pub(crate) use init_zeroed;
