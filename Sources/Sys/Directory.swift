import CSys
import Glibc

/// Returns the names in a directory in no order, hidden ones included, without `.` and `..`. Returns no names
/// if the directory cannot be read.
public func directoryNames(_ path: String) -> [String] {
    guard let stream = opendir(path) else { return [] }
    return takeNames(stream)
}

/// Like `directoryNames(_:)`, for an open directory. Does not move the position of `descriptor`, and does not
/// close it.
public func directoryNames(below descriptor: Int32) -> [String] {
    let copy = openat(descriptor, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard copy >= 0 else { return [] }
    guard let stream = fdopendir(copy) else {
        close(copy)
        return []
    }
    return takeNames(stream)
}

private func takeNames(_ stream: OpaquePointer) -> [String] {
    defer { closedir(stream) }
    var names: [String] = []
    while let entry = readdir(stream) {
        // Read in C: an entry is only as long as its name, and Swift would copy the whole array that the
        // header declares.
        let name = String(cString: csys_entry_name(entry))
        if name != ".", name != ".." { names.append(name) }
    }
    return names
}

/// Calls `body` with each name in an open directory, in no order and without `.` and `..`, and with `true` if
/// it may be a directory. Stops if `body` returns `false`. Keeps one name in memory. Does not close
/// `descriptor`.
public func visitDirectory(_ descriptor: Int32, _ body: (String, _ mayBeDirectory: Bool) -> Bool) {
    let copy = openat(descriptor, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard copy >= 0 else { return }
    guard let stream = fdopendir(copy) else {
        close(copy)
        return
    }
    defer { closedir(stream) }
    while let entry = readdir(stream) {
        let name = String(cString: csys_entry_name(entry))
        if name == "." || name == ".." { continue }
        let type = Int32(entry.pointee.d_type)
        // Some file systems return DT_UNKNOWN.
        guard body(name, type == Int32(DT_DIR) || type == Int32(DT_UNKNOWN)) else { return }
    }
}
