import Glibc
import Sys

/// Metrics of the process from the kernel, with the names that Prometheus client libraries use.
struct ProcessMetrics {
    private static let startedAt = Double(wallMicroseconds()) / 1e6

    /// Sets the start time. Call at the beginning of the process.
    static func begin() { _ = startedAt }

    static var uptimeSeconds: Double { Double(wallMicroseconds()) / 1e6 - startedAt }

    static func append(to page: inout PrometheusText) {
        var usage = rusage()
        getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
        let cpu = seconds(usage.ru_utime) + seconds(usage.ru_stime)
        page.add(.counter, "process_cpu_seconds_total", "CPU time of this process, user and system.", cpu)
        page.add(.gauge, "process_resident_memory_bytes", "Resident memory of this process.", residentBytes())
        page.add(
            .gauge, "process_start_time_seconds", "Start of this process in seconds since 1970.", startedAt)
        page.add(.gauge, "process_open_fds", "Open file descriptors of this process.", openDescriptors())
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        page.add(
            .gauge, "process_max_fds", "Maximum number of open file descriptors of this process.",
            limit.rlim_cur)
    }

    private static func seconds(_ time: timeval) -> Double {
        Double(time.tv_sec) + Double(time.tv_usec) / 1e6
    }

    /// Returns the resident size, the second number of /proc/self/statm in pages (proc(5)).
    private static func residentBytes() -> Int {
        // Without /proc the metric is 0.
        guard let bytes = try? readFile("/proc/self/statm", byteCountMax: 1024) else { return 0 }
        let fields = String(decoding: bytes, as: UTF8.self).split(separator: " ")
        return (fields.count > 1 ? Int(fields[1]) ?? 0 : 0) * Int(sysconf(Int32(_SC_PAGESIZE)))
    }

    private static func openDescriptors() -> Int {
        guard let directory = opendir("/proc/self/fd") else { return 0 }
        defer { closedir(directory) }
        var count = 0
        while readdir(directory) != nil { count += 1 }
        // Without `.`, `..` and the descriptor of the directory itself.
        return max(0, count - 3)
    }
}
