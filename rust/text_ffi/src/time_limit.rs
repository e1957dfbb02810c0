//! The time that one render may take. Fuel bounds the number of steps, and this what they cost on
//! the processor at hand.
//!
//! Processor time of the render's own thread, so that a busy machine refuses nobody. Looked at for
//! every turn of a loop, call of a macro, output, list or dict that is walked (walk.rs), method and
//! filter of ours: what is between two of these has at most the operators of one tag.

use std::cell::Cell;
use std::fmt;
use std::time::Duration;

use minijinja::{Error, ErrorKind};

/// Some ten times what two million steps of the usual kind take.
pub const LIMIT: Duration = Duration::from_secs(2);

thread_local! {
    /// Processor time of this thread at which its render ends. A thread renders once.
    static END: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// Marks an error as this limit's, however deep in the chain of causes it ends up.
#[derive(Debug)]
pub struct OutOfTime;

impl fmt::Display for OutOfTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the chat template took longer than the limit of {} s", LIMIT.as_secs())
    }
}

impl std::error::Error for OutOfTime {}

pub fn start() {
    END.set(Some(thread_time() + LIMIT));
}

pub fn check() -> Result<(), Error> {
    match END.get() {
        Some(end) if thread_time() > end => {
            Err(Error::new(ErrorKind::InvalidOperation, OutOfTime.to_string())
                .with_source(OutOfTime))
        }
        _ => Ok(()),
    }
}

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

extern "C" {
    fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
}

fn thread_time() -> Duration {
    const CLOCK_THREAD_CPUTIME_ID: i32 = 3; // Linux
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: `time` is the C library's struct timespec of 64-bit Linux, writable for the call.
    let failed = unsafe { clock_gettime(CLOCK_THREAD_CPUTIME_ID, &mut time) };
    match failed {
        0 => Duration::new(time.seconds as u64, time.nanoseconds as u32),
        _ => Duration::ZERO, // no such clock: fuel alone has to do
    }
}
