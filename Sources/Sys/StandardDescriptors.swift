import Glibc

/// The descriptors 0 to 2.
public enum StandardDescriptors {
    /// Opens `/dev/null` on each closed one, in the direction in which it is not used: no file or socket gets
    /// its number, and reading or writing fails as on a closed descriptor. Call before other files are
    /// opened.
    public static func reserve() {
        for descriptor in STDIN_FILENO...STDERR_FILENO where fcntl(descriptor, F_GETFD) < 0 {
            // open(2) returns the lowest free number, which is this one.
            _ = open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY)
        }
    }
}
