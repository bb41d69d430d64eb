//! Memory where there is little. An allocation of Rust's that fails ends the process, and with it the whole server. So what
//! grows with what a caller gives is asked for before it is needed, and a session that has to do with large values keeps a
//! reserve: when an allocation fails, the reserve is given up for it, and the next statement of the call raises the error
//! that the server would have raised.

#![allow(unsafe_code, reason = "an allocator, and contexts of memory")]

use crate::error::raise;
use pgrx::{PgSqlErrorCode, pg_sys};
use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::SeqCst};

/// Values up to this size are no matter: the server has asked for more to get so far.
const LITTLE: usize = 64 * 1024;
/// No function takes more memory for a value than this many times its size, and a little.
const MOST_TIMES: usize = 12;
/// What the plans of all statements of a call take, and what the server has to know for them. It comes on top, as the server cannot
/// even tell of an error when nothing at all is left.
const USUAL: usize = 16 * 1024 * 1024;
/// Enough for what is allocated from one statement to the next.
const RESERVE: Layout = match Layout::from_size_align(4 * 1024 * 1024, 16) {
    Ok(layout) => layout,
    Err(_) => panic!("a size and an alignment"),
};

static RESERVED: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
static IS_SHORT: AtomicBool = AtomicBool::new(false);

/// The system's allocator, with a reserve behind it.
pub struct WithReserve;

impl WithReserve {
    /// Gives the reserve up. False: there is none.
    fn give_up() -> bool {
        let reserve = RESERVED.swap(ptr::null_mut(), SeqCst);
        if reserve.is_null() {
            return false;
        }
        IS_SHORT.store(true, SeqCst);
        // SAFETY: allocated by `keep_reserve` with this layout, and taken by nobody else.
        unsafe { System.dealloc(reserve, RESERVE) };
        true
    }
}

// SAFETY: all of it is the system's allocator.
unsafe impl GlobalAlloc for WithReserve {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: what the caller promises.
        let memory = unsafe { System.alloc(layout) };
        if memory.is_null() && WithReserve::give_up() { unsafe { System.alloc(layout) } } else { memory }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: what the caller promises.
        let memory = unsafe { System.alloc_zeroed(layout) };
        if memory.is_null() && WithReserve::give_up() { unsafe { System.alloc_zeroed(layout) } } else { memory }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: what the caller promises; what could not be moved is still where it was.
        let moved = unsafe { System.realloc(memory, layout, size) };
        if moved.is_null() && WithReserve::give_up() { unsafe { System.realloc(memory, layout, size) } } else { moved }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: what the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: WithReserve = WithReserve;

fn keep_reserve() -> bool {
    if RESERVED.load(SeqCst).is_null() {
        // SAFETY: the layout has a size.
        RESERVED.store(unsafe { System.alloc(RESERVE) }, SeqCst);
    }
    !RESERVED.load(SeqCst).is_null()
}

/// Raises an error if there is not enough memory to read a value of this size.
pub fn must_suffice_for(size: usize) {
    if size <= LITTLE {
        return;
    }
    IS_SHORT.store(false, SeqCst);
    let wanted = USUAL + MOST_TIMES * size;
    // SAFETY: the layout has a size; it is given back as it was got.
    let is_there = keep_reserve()
        && unsafe {
            let layout = Layout::from_size_align_unchecked(wanted, 16);
            // The compiler must not see that nobody uses it, or it would leave it out.
            let memory = std::hint::black_box(System.alloc(layout));
            if !memory.is_null() {
                System.dealloc(memory, layout);
            }
            !memory.is_null()
        };
    if !is_there {
        out_of_memory(wanted)
    }
}

/// Raises an error if memory has run out since this was last asked.
pub fn must_not_be_short() {
    if IS_SHORT.load(SeqCst) {
        IS_SHORT.store(false, SeqCst);
        out_of_memory(RESERVE.size())
    }
}

/// Runs `work` and gives back what the server has allocated for it: one item of many takes nothing from the next. What it
/// returns must be Rust's own.
pub fn given_back<R>(work: impl FnOnce() -> R) -> R {
    // SAFETY: the context is a child of the present one, which goes with that one after an error, and nothing of it is kept.
    unsafe {
        let outer = pg_sys::CurrentMemoryContext;
        let own = pg_sys::AllocSetContextCreateExtended(
            outer,
            c"agentq one item".as_ptr(),
            pg_sys::ALLOCSET_DEFAULT_MINSIZE as usize,
            pg_sys::ALLOCSET_DEFAULT_INITSIZE as usize,
            pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
        );
        pg_sys::MemoryContextSwitchTo(own);
        let result = work();
        pg_sys::MemoryContextSwitchTo(outer);
        pg_sys::MemoryContextDelete(own);
        result
    }
}

fn out_of_memory(bytes: usize) -> ! {
    raise(
        PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY,
        format!("out of memory: {bytes} bytes are not to be had"),
        "Give less at once, or give the server more memory.",
    )
}
