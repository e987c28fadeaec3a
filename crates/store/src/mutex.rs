//! Mutexes, which threads that panicked do not poison for others.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a mutex. A thread that panicked with it has said so already; what it left is used as it is.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
