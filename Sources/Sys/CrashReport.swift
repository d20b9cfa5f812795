import CSys
import Glibc

/// Makes a crash of the process leave one line on standard error. The process ends as it does otherwise: by
/// the signal, after the handlers that were installed before, such as Swift's backtracer.
///
/// `line`: returns the line for the name of a signal, at most 256 bytes with its line break. Call on the main
/// thread before other threads exist.
public func reportCrashes(_ line: (String) -> [UInt8]) {
    csys_use_signal_stack()
    let signals = [
        (SIGILL, "SIGILL"), (SIGTRAP, "SIGTRAP"), (SIGSEGV, "SIGSEGV"), (SIGBUS, "SIGBUS"),
        (SIGABRT, "SIGABRT"), (SIGFPE, "SIGFPE"),
    ]
    for (number, name) in signals {
        let bytes = line(name)
        csys_report_crash(number, bytes, bytes.count)
    }
}
