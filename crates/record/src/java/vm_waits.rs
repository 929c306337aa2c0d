//! Waits inside Java's virtual machine, by the function and the library that contains it.

/// Library of the Java virtual machine, as places name it.
const LIBRARY: &str = "(libjvm.so)";

/// A wait of the Java virtual machine. The same functions serve locks and idle threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JvmWait {
    /// `LockSupport.park`: locks of `java.util.concurrent`, or workers without work.
    Park,
    /// A monitor, or `Object.wait`.
    Monitor,
    /// `Object.wait`.
    ObjectWait,
    /// A lock of the virtual machine itself.
    Internal,
    /// `Thread.sleep`.
    Sleep,
}

/// Returns the wait of Java's virtual machine at a place. A function of the same name in another
/// program is none.
pub fn java_wait(place: &str) -> Option<JvmWait> {
    const FUNCTIONS: [(&str, JvmWait); 6] = [
        ("ObjectMonitor::wait", JvmWait::ObjectWait),
        ("Parker::park", JvmWait::Park),
        ("PlatformEvent::park", JvmWait::Monitor),
        ("PlatformMonitor::wait", JvmWait::Internal),
        ("ObjectMonitor::enter", JvmWait::Monitor),
        ("JavaThread::sleep", JvmWait::Sleep),
    ];
    let function = place.strip_suffix(LIBRARY)?;
    FUNCTIONS.into_iter().find(|(name, _)| function.contains(name)).map(|(_, wait)| wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_the_same_name_in_another_program_are_not_java() {
        assert_eq!(java_wait("Parker::park+0x90 (libjvm.so)"), Some(JvmWait::Park));
        assert_eq!(
            java_wait("os::PlatformMonitor::wait+0x60 (libjvm.so)"),
            Some(JvmWait::Internal)
        );
        assert_eq!(java_wait("Parker::park (parker.cc:12)"), None);
        assert_eq!(java_wait("Parker::park+0x90"), None);
    }
}
